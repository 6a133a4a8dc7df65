"""PhiBE: the value of a policy in continuous time, from windows of a few states, at any order."""

from __future__ import annotations

import math

import numpy as np

from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray
from .._core.validation import check_bool, check_int, check_real
from ..basis import Basis
from ..data import Trajectories
from ..data.views import Windows
from .factored import FactoredMoments, HeldMoments, choose_form
from .held import check_held, held_windows, warn_about_changes, warn_about_stale_starts
from .rewards import RewardLike, step_rewards
from .steps import check_log

# Beyond this, coefficients alternate between numbers so large that their sum has no correct digit.
MAX_ORDER = 20


def phibe_coefficients(order: int) -> FloatArray:
    """Return c_1..c_a with sum_i c_i i = 1 and sum_i c_i i^p = 0 for p = 2..a.

    They turn increments over i steps into a derivative at time 0 with an error of order dt^a.

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
        The second if asked for, and above 30 features, where n q^2 numbers are never formed.

    Examples
    --------
    >>> from replaystats.basis import Polynomial
    >>> line = Trajectories([[0.0, 0.1, 0.2], [1.0, 1.1, 1.2]], dt=0.1)  # ds = dt
    >>> m = phibe_moments(line, Polynomial(1), discount_rate=1.0, reward=lambda s: s, diffusion=False)
    >>> np.round(np.linalg.solve(*m.total()), 12)  # the value of the reward rate s is 1 + s
    array([1., 1.])
    """
    check_log(data, basis)
    diffusion, factored = check_bool(diffusion, "diffusion"), check_bool(factored, "factored")
    held_actions = check_bool(held_actions, "held_actions")
    window_stride = check_int(window_stride, "window_stride")
    beta = check_real(discount_rate, "discount_rate", low=0.0, closed="neither")
    coefficients = phibe_coefficients(order)
    windows = data.windows(order, stride=window_stride)
    held = _usable(data, windows, order, held_actions)
    if windows.dt is None:
        hint = "Pass `dt` to Trajectories: PhiBE works in continuous time."
        raise ValueError(must_be("dt", "known for every step", None, hint))
    start = windows.states[:, 0]  # (N, d)
    logged = None if windows.rewards is None else windows.rewards / windows.dt
    rewards = step_rewards(reward, logged, start)

    steps = windows.states[:, 1:] - start[:, None]  # (N, a, d)
    weight = coefficients / windows.dt[:, None]  # (N, a)
    drift = np.einsum("na,nad->nd", weight, steps)
    left = basis(start)  # (N, q)
    right = beta * left - basis.directional(start, drift)
    if diffusion:
        covariance = np.einsum("na,nad,nae->nde", weight, steps, steps)
        right -= 0.5 * basis.second_order(start, covariance)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(windows.trajectory, minlength=len(data)))])
    if held is not None:
        # A window without weight, rather than none, so that every trajectory stays a unit.
        left = left * held[:, None]
    moments = FactoredMoments(left, right, rewards, offsets)
    return moments if factored else choose_form(moments)


def _usable(data: Trajectories, windows: Windows, order: int, held_actions: bool) -> BoolArray | None:
    """Return which windows have one action, if only those count; warn where actions make windows wrong."""
    if held_actions:
        held = held_windows(data, windows, order)
        check_held(held, order)
        warn_about_stale_starts(data, windows, held)
        return held
    if order > 1 and data.actions is not None:
        warn_about_changes(held_windows(data, windows, order), order)
    return None
