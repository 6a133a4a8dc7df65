"""PhiBE: the value of a policy in continuous time, from windows of a few states, at any order.

Orders above 1 have a trap where actions are held for a step each; it is detected, as explained below.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like, take_rows
from .._core.errors import ReplayWarning, must_be
from .._core.thresholds import SMALL_SHARE
from .._core.typing import BoolArray, FloatArray
from .._core.validation import check_bool, check_int, check_real
from ..basis import Basis
from ..data import Trajectories
from ..data._flat import holds_names, offsets_of
from ..data.views import Windows, windows_of
from .factored import FactoredMoments, HeldMoments, choose_form
from .steps import RewardLike, check_dense, check_log, step_rewards

# Rounding: beyond this, coefficients alternate between numbers so large that their sum has no correct digit.
MAX_ORDER = 20


def phibe_coefficients(order: int) -> FloatArray:
    """Return c_1..c_a with sum_i c_i i = 1 and sum_i c_i i^p = 0 for p = 2..a.

    They turn increments over i steps into a derivative at time 0 with an error of order dt^a.

    Parameters
    ----------
    order : int
        The order a of the scheme, from 1 on.

    Returns
    -------
    ndarray of shape (order,)
        The coefficients c_1, ..., c_a.

    Examples
    --------
    >>> phibe_coefficients(2)
    array([ 2. , -0.5])
    """
    a = check_int(order, "order", high=MAX_ORDER, hint="The noise grows with every order; 1 or 2 is usual.")
    return np.array([(-1) ** (j + 1) * math.comb(a, j) / j for j in range(1, a + 1)])


def phibe_moments(
    data: Trajectories,
    basis: Basis,
    *,
    discount_rate: float,
    order: int = 1,
    reward: RewardLike = None,
    diffusion: bool = True,
    window_stride: int = 1,
    held_actions: bool = False,
    factored: bool = False,
) -> HeldMoments:
    """Return the PhiBE moments of every trajectory.

    From a window s_j..s_{j+a} the drift and diffusion at s_j are estimated by

        mu_j    = (1/dt) sum_i c_i (s_{j+i} - s_j),
        Sigma_j = (1/dt) sum_i c_i (s_{j+i} - s_j)(s_{j+i} - s_j)^T,

    and the generator of the process, applied to the basis, gives

        g_i = sum_j phi_j (beta phi_j - mu_j . grad phi_j - 1/2 Sigma_j : hess phi_j)^T,
        f_i = sum_j r_j phi_j.

    Parameters
    ----------
    data : Trajectories
        With `dt`, and at least ``order + 1`` states in every trajectory.
    basis : Basis
        q twice differentiable functions.
    discount_rate : float
        beta > 0: rewards at time t count e^(-beta t).
    order : int
        Number of steps a that a window looks ahead.
    reward : callable or array-like of shape (n_windows,), optional
        Reward *rate* as a function of the states, or as numbers. Default: logged per-step rewards / dt.
    diffusion : bool
        Whether the process has noise; False drops Sigma, which is right for deterministic dynamics.
    window_stride : int
        Steps between the starts of windows. With actions held for several steps, the number of those steps.
    held_actions : bool
        Use only windows within which the action does not change: above order 1 the others are wrong where
        actions are held for a step and then chosen anew. A warning says so where it matters.
    factored : bool
        Keep the windows apart, as `unit_moments` needs them to cut trajectories into blocks.

    Returns
    -------
    Moments or FactoredMoments
        The second if asked for, and where n q^2 numbers would cost more (above 30 features, say).

    Examples
    --------
    >>> from replaystats.basis import Polynomial
    >>> line = Trajectories([[0.0, 0.1, 0.2], [1.0, 1.1, 1.2]], dt=0.1)  # ds = dt
    >>> m = phibe_moments(line, Polynomial(1), discount_rate=1.0, reward=lambda s: s, diffusion=False)
    >>> np.round(np.linalg.solve(*m.total()), 12)  # the value of the reward rate s is 1 + s
    array([1., 1.])
    """
    check_log(data, basis)
    check_dense(data, basis)
    diffusion, factored = check_bool(diffusion, "diffusion"), check_bool(factored, "factored")
    held_actions = check_bool(held_actions, "held_actions")
    window_stride = check_int(window_stride, "window_stride")
    beta = check_real(discount_rate, "discount_rate", low=0.0, closed="neither")
    coefficients = phibe_coefficients(order)
    windows = windows_of(data, order, window_stride, held=True)
    held = _usable(data, windows, order, held_actions)
    if windows.dt is None:
        hint = "Pass `dt` to Trajectories: PhiBE works in continuous time."
        raise ValueError(must_be("dt", "known for every step", None, hint))
    start = windows.states[:, 0, :]  # (N, d)
    if holds_names(start):
        raise TypeError(
            must_be("data", "trajectories whose states are numbers", "names", "They have no drift.")
        )
    xp, dt = array_namespace(start), like(windows.dt, start)
    logged = None if windows.rewards is None else like(windows.rewards, start) / dt
    rewards = step_rewards(reward, logged, start)

    steps = windows.states[:, 1:, :] - start[:, None, :]  # (N, a, d)
    weight = like(coefficients, start) / dt[:, None]  # (N, a)
    drift = (weight[:, None, :] @ steps)[:, 0, :]
    left = basis(start)  # (N, q)
    right = beta * left - basis.directional(start, drift)
    if diffusion:
        covariance = xp.matrix_transpose(weight[:, :, None] * steps) @ steps
        right = right - 0.5 * basis.second_order(start, covariance)
    offsets = offsets_of(np.bincount(windows.trajectory, minlength=len(data)))
    if held is not None:
        # A window without weight, rather than none, so that every trajectory stays a unit.
        left = left * like(held, left)[:, None]
    moments = FactoredMoments(left, right, rewards, offsets)
    return moments if factored else choose_form(moments)


def _usable(data: Trajectories, windows: Windows, order: int, held_actions: bool) -> BoolArray | None:
    """Return which windows have one action, if only those count; warn where actions make windows wrong."""
    if held_actions:
        held = held_windows(data, windows, order)
        check_held(held, order)
        warn_about_stale_starts(data, windows, held)
        return held
    if order > 1 and data.held("actions") is not None:
        warn_about_changes(held_windows(data, windows, order), order)
    return None


# Actions that change inside a window: the zero-order-hold trap of higher-order PhiBE.
#
# Logged controllers choose an action, hold it for a step, and choose again. Of the states
# s_{j+1}..s_{j+a} only the first then shows the drift that belongs to s_j and its action. Order 1 looks
# no further. A higher order mixes in steps of later actions, and falls back to first order with a larger
# constant, unless one action lasts for the whole window.


def held_windows(data: Trajectories, windows: Windows, order: int) -> BoolArray:
    """Return in which windows one action lasts from the first step to the last, shape (n_windows,).

    Examples
    --------
    >>> data = Trajectories([[0.0, 1.0, 2.0, 3.0, 4.0]], actions=[[5, 5, 7, 7]])
    >>> held_windows(data, data.windows(2), 2)
    array([ True, False,  True])
    """
    actions = data.held("actions")
    if actions is None:
        hint = "Pass `actions` to Trajectories, or leave `held_actions` out."
        raise ValueError(must_be("data", "trajectories with actions", "none", hint))
    xp = array_namespace(actions)
    actions = xp.reshape(actions, (len(actions), -1))
    step = windows.start - windows.trajectory  # each earlier trajectory has one state more than it has steps
    inside = take_rows(actions, step[:, None] + np.arange(order))  # (n_windows, order, a)
    same: BoolArray = xp.all(inside == inside[:, :1, :], axis=(1, 2))
    return same


def check_held(held: BoolArray, order: int) -> None:
    """Refuse data in which no window has one action."""
    if not bool(held.any()):
        rule = f"False, as no window of {order} steps has one action"
        hint = "Use order=1, or log data in which every action is held for that many steps."
        raise ValueError(must_be("held_actions", rule, True, hint))


def warn_about_changes(held: BoolArray, order: int) -> None:
    """Explain the trap where actions change inside windows of order 2 and more."""
    share = 1.0 - float(held.sum()) / len(held)
    if share > SMALL_SHARE:
        warnings.warn(
            f"In {share:.0%} of the windows of {order} steps the action changes. If each action is held for "
            f"a step and then chosen anew, order={order} has an error of order dt, larger than order=1 has. "
            "Use order=1; or collect data in which each action is held for at least that many steps, and "
            "pass held_actions=True, window_stride=<steps of a hold>. (A controller that acts in continuous "
            "time, of which the actions are only samples, is not concerned.)",
            ReplayWarning,
            stacklevel=4,
        )


def warn_about_stale_starts(data: Trajectories, windows: Windows, held: BoolArray) -> None:
    """Explain windows that start amid a hold, with an action that was chosen for an earlier state."""
    actions = data.held("actions")
    xp = array_namespace(actions)
    if xp.isdtype(actions.dtype, "integral"):
        return  # a discrete action may well be chosen twice in a row
    actions = xp.reshape(actions, (len(actions), -1))
    step = windows.start - windows.trajectory
    later = like(~np.isin(step, data.step_offsets[:-1]), actions)
    before = take_rows(actions, np.maximum(step - 1, 0))
    stale = later & xp.all(take_rows(actions, step) == before, axis=1) & held
    share = float(stale.sum()) / float(held.sum())
    if share > SMALL_SHARE:
        warnings.warn(
            f"{share:.0%} of the windows with one action start amid a hold, with an action that was chosen "
            "for an earlier state: their drift is not that of the policy. "
            "Pass window_stride=<steps of a hold>.",
            ReplayWarning,
            stacklevel=4,
        )
