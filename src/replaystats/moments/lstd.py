"""LSTD: the value of a policy from single steps, in discrete time."""

from __future__ import annotations

import numpy as np

from .._core.validation import check_real
from ..basis import Basis
from ..data import Trajectories
from .factored import FactoredMoments, HeldMoments, choose_form
from .rewards import RewardLike, step_rewards


def lstd_moments(
    data: Trajectories,
    basis: Basis,
    *,
    discount: float,
    reward: RewardLike = None,
    factored: bool = False,
) -> HeldMoments:
    """Return the LSTD moments of every trajectory.

    With phi_j the features of state j and r_j the reward of step j, trajectory i has

        g_i = sum_j phi_j (phi_j - discount * phi_{j+1})^T,    f_i = sum_j r_j phi_j,

    where phi_{j+1} counts as 0 after a terminated (absorbing) trajectory, and only there: a truncated one
    goes on elsewhere.

    Parameters
    ----------
    data : Trajectories
        n trajectories: the resampling units.
    basis : Basis
        q feature functions.
    discount : float in [0, 1]
        Discount factor of one step.
    reward : callable or array-like of shape (N,), optional
        Per-step reward, as a function of the states (N, d) or as numbers. Default: the logged rewards.
    factored : bool
        Keep the steps apart, as `unit_moments` needs them to cut trajectories into blocks.

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
    discount = check_real(discount, "discount", low=0.0, high=1.0)
    steps = data.transitions()
    rewards = step_rewards(reward, steps.rewards, steps.states)
    features = basis(data.states)  # (N + n, q): every state once, not twice
    start = np.arange(len(steps)) + steps.trajectory  # (N,) each trajectory has one state more than steps
    left = features[start]
    following = features[start + 1] * (discount * ~steps.terminal)[:, None]
    moments = FactoredMoments(left, left - following, rewards, data.step_offsets)
    return moments if factored else choose_form(moments)
