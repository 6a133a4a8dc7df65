"""LSTD and LSTD(lambda): the value of a policy from single steps, in discrete time."""

from __future__ import annotations

import numpy as np

from .._core.errors import must_be
from .._core.typing import FloatArray
from .._core.validation import check_bool, check_real
from ..basis import Basis
from ..data import Trajectories
from .factored import FactoredMoments, HeldMoments, choose_form
from .rewards import RewardLike, step_rewards
from .steps import DiscountLike, ImportanceLike, check_log, reward_unit, step_discounts, step_ratios
from .traces import eligibility_traces


def lstd_moments(
    data: Trajectories,
    basis: Basis,
    *,
    discount: DiscountLike = None,
    discount_rate: float | None = None,
    trace: float = 0.0,
    importance: ImportanceLike = None,
    reward: RewardLike = None,
    center_rewards: bool = False,
    factored: bool = False,
) -> HeldMoments:
    """Return the LSTD moments of every trajectory.

    With phi_j the features of state j and r_j the reward of step j, trajectory i has

        g_i = sum_j z_j (phi_j - discount_j phi_{j+1})^T,    f_i = sum_j r_j z_j,
        z_j = rho_j (trace discount_{j-1} z_{j-1} + phi_j),

    where phi_{j+1} counts as 0 after a terminated (absorbing) trajectory, and only there: a truncated one
    goes on elsewhere. Without traces and importance ratios, z_j is phi_j.

    Parameters
    ----------
    data : Trajectories
        n trajectories: the resampling units.
    basis : Basis
        q feature functions.
    discount : float in [0, 1], or array-like of shape (N,)
        Discount factor of one step, the same for all or one for each.
    discount_rate : float > 0, optional
        In place of `discount`: step j has the factor e^(-discount_rate dt_j), for steps that differ in
        duration.
    trace : float in [0, 1]
        lambda. 0 trusts the value at the next state, 1 only what was earned until the trajectory ended: for
        terminated ones that is the regression of returns on features.
    importance : callable or array-like of shape (N,), optional
        rho_j = pi(a_j | s_j) / mu(a_j | s_j): values of the policy pi from data of mu. A function of states
        and actions, or the numbers.
    reward : callable or array-like of shape (N,), optional
        Per-step reward, as a function of the states (N, d) or as numbers. Default: the logged rewards.
    center_rewards : bool
        For continuing tasks: take the mean reward m off first, V = m / (1 - discount) + V', so that a penalty
        shrinks V' and not the level. m becomes the last unknown, with its own equation; so it is estimated
        anew on every subset, and intervals include its error. `reward_unit` is its factor in predictions.
    factored : bool
        Keep the steps apart, as `unit_moments` needs them to cut trajectories into blocks. With
        `center_rewards` a step has two rows: the equation of the mean reward comes second.

    Returns
    -------
    Moments or FactoredMoments
        The second if asked for, and for more than 30 basis functions, where n q^2 numbers are never formed.

    Examples
    --------
    >>> from replaystats.basis import OneHot
    >>> data = Trajectories([[0, 1]], rewards=[[2.0]], terminated=[True])
    >>> A, b = lstd_moments(data, OneHot(2), discount=0.5).total()
    >>> A[0, 0], b[0]
    (np.float64(1.0), np.float64(2.0))
    """
    check_log(data, basis)
    center_rewards, factored = check_bool(center_rewards, "center_rewards"), check_bool(factored, "factored")
    gamma = step_discounts(data, discount, discount_rate)
    trace = check_real(trace, "trace", low=0.0, high=1.0)
    ratios = step_ratios(importance, data)
    if center_rewards:
        _check_continuing(data)
    steps = data.transitions()
    rewards = step_rewards(reward, steps.rewards, steps.states)
    features = basis(data.states)  # (N + n, q): every state once, not twice
    start = np.arange(len(steps)) + steps.trajectory  # (N,) each trajectory has one state more than steps
    here = features[start]
    right = here - features[start + 1] * (gamma * ~steps.terminal)[:, None]
    left = here
    if trace > 0.0 or ratios is not None:
        left = eligibility_traces(here, trace * gamma, data.step_offsets, ratios)
    moments = FactoredMoments(left, right, rewards, data.step_offsets)
    if center_rewards:
        moments = _with_mean_reward(moments, (1.0 - gamma) / reward_unit(discount, discount_rate))
    return moments if factored else choose_form(moments)


def _check_continuing(data: Trajectories) -> None:
    if data.terminated.any():
        got = f"{int(data.terminated.sum())} terminated trajectories of {len(data)}"
        hint = "After an end nothing more is earned, so the mean reward is no part of the value there."
        raise ValueError(must_be("center_rewards", "False where trajectories terminate", got, hint))


def _with_mean_reward(moments: FactoredMoments, worth: FloatArray) -> FactoredMoments:
    """Add the unknown m: z (right theta + worth m) = z r on every step, and worth m = r on average.

    The second equation is a second row of each step, because it must not touch theta.
    """
    n_rows, q = moments.left.shape
    left, right = np.zeros((2, 2 * n_rows, q + 1))
    left[0::2, :q], right[0::2, :q], right[0::2, q] = moments.left, moments.right, worth
    left[1::2, q], right[1::2, q] = 1.0, worth
    return FactoredMoments(left, right, np.repeat(moments.response, 2), 2 * moments.offsets)
