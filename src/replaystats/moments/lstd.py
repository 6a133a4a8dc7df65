"""LSTD and LSTD(lambda): the value of a policy in discrete time, from trajectories or single transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import is_foreign, like, take_rows
from .._core.entries import as_flags
from .._core.errors import must_be
from .._core.thresholds import MANY
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import (
    check_array,
    check_bool,
    check_instance,
    check_length,
    check_real,
    check_rows,
    check_rows_magnitude,
)
from ..basis import Basis
from ..data import Trajectories
from ..data._flat import gather, offsets_of
from .factored import DeferredMoments, FactoredMoments, HeldMoments, choose_form
from .steps import (
    DiscountLike,
    ImportanceLike,
    RewardLike,
    check_dense,
    check_log,
    reward_unit,
    step_discounts,
    step_ratios,
    step_rewards,
)


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
        The second if asked for, and where n q^2 numbers would cost more (above 30 functions, say).

    Examples
    --------
    >>> from replaystats.basis import OneHot
    >>> data = Trajectories([[0, 1]], rewards=[[2.0]], terminated=[True])
    >>> A, b = lstd_moments(data, OneHot(2), discount=0.5).total()
    >>> A[0, 0], b[0]
    (np.float64(1.0), np.float64(2.0))
    """
    center_rewards, factored = check_bool(center_rewards, "center_rewards"), check_bool(factored, "factored")
    log = _log(data, basis, discount, discount_rate, trace, importance, reward)
    if center_rewards:
        _check_continuing(data)
    moments = log.moments()
    if center_rewards:
        moments = _with_mean_reward(moments, (1.0 - log.gamma) / reward_unit(discount, discount_rate))
    return moments if factored else choose_form(moments)


def lstd_steps(
    data: Trajectories,
    basis: Basis,
    *,
    discount: DiscountLike,
    trace: float,
    importance: ImportanceLike,
) -> FactoredMoments:
    """Return the same moments of single steps, made later where they may be dealt into groups."""
    log = _log(data, basis, discount, None, trace, importance, None)
    if data.n_trajectories < 2 * MANY or is_foreign(log.states):
        return log.moments()
    return DeferredMoments(log.moments, log.states, log.rewards, data.step_offsets, basis.n_basis)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Steps:
    """What the moments of steps are made from: checked, and nothing yet as wide as the basis."""

    data: Trajectories
    states: Any  # (N + n, d), where they live
    basis: Basis
    gamma: FloatArray  # (N,)
    trace: float
    ratios: FloatArray | None  # (N,)
    rewards: FloatArray  # (N,)

    def moments(self, episodes: IntArray | None = None) -> FactoredMoments:
        """Return the moments of the steps of some episodes, or of all."""
        data, states = self.data, self.states
        n_steps, offsets, ends = data.n_steps, data.step_offsets, data.terminated
        gamma, ratios, rewards = self.gamma, self.ratios, self.rewards
        if episodes is None:
            check_dense(data, self.basis)
        else:
            states = _runs(states, data.offsets, episodes)
            gamma, rewards = _runs(gamma, offsets, episodes), _runs(rewards, offsets, episodes)
            ratios = None if ratios is None else _runs(ratios, offsets, episodes)
            n_steps, ends = n_steps[episodes], ends[episodes]
            offsets = offsets_of(n_steps)
        weight = -gamma  # of the next state: 0 where it is absorbing
        weight[offsets[1:][ends] - 1] = 0.0
        features = self.basis(states)  # (N + n, q): every state once, not twice
        left, following = _before_and_after(features, n_steps)
        xp, factor = array_namespace(features), like(weight, features)
        right = following * xp.reshape(factor, (*left.shape[:-1], 1))
        right += left
        left, right = (xp.reshape(part, (len(rewards), -1)) for part in (left, right))
        if self.trace > 0.0 or ratios is not None:
            left = eligibility_traces(left, self.trace * gamma, offsets, ratios)
        return FactoredMoments(left, right, rewards, offsets)


def _runs(rows: Any, offsets: IntArray, episodes: IntArray) -> Any:
    """Return the rows of some episodes, one after the other."""
    lengths = np.diff(offsets)
    if isinstance(rows, np.ndarray) and (lengths == lengths[0]).all():  # in large pieces: much faster
        runs = rows.reshape(len(lengths), lengths[0], *rows.shape[1:])
        return runs[episodes].reshape(-1, *rows.shape[1:])
    return take_rows(rows, gather(offsets[episodes], lengths[episodes]))


def _before_and_after(features: Any, n_steps: IntArray) -> tuple[Any, Any]:
    """Return the features of the states before and after every step: views (n, L, q), or rows (N, q)."""
    if (n_steps == n_steps[0]).all() and isinstance(features, np.ndarray):
        runs = features.reshape(len(n_steps), n_steps[0] + 1, features.shape[1])
        return runs[:, :-1], runs[:, 1:]
    before = gather(np.cumsum(n_steps + 1) - (n_steps + 1), n_steps)
    return take_rows(features, before), take_rows(features, before + 1)


def _log(
    data: Trajectories,
    basis: Basis,
    discount: DiscountLike,
    discount_rate: float | None,
    trace: float,
    importance: ImportanceLike,
    reward: RewardLike,
) -> _Steps:
    """Check what `lstd_moments` is given."""
    check_log(data, basis)
    states = data.held("states")
    # Logged rewards need only the kind of the states, and no copy of them.
    places = states if reward is None else take_rows(states, gather(data.offsets[:-1], data.n_steps))
    return _Steps(
        data=data,
        states=states,
        basis=basis,
        gamma=step_discounts(data, discount, discount_rate),
        trace=check_real(trace, "trace", low=0.0, high=1.0),
        ratios=step_ratios(importance, data),
        rewards=step_rewards(reward, data.held("rewards"), places),
    )


def _check_continuing(data: Trajectories) -> None:
    if data.terminated.any():
        got = f"{int(data.terminated.sum())} terminated trajectories of {len(data)}"
        hint = "After an end nothing more is earned, so the mean reward is no part of the value there."
        raise ValueError(must_be("center_rewards", "False where trajectories terminate", got, hint))


def _with_mean_reward(moments: FactoredMoments, worth: FloatArray) -> FactoredMoments:
    """Add the unknown m: z (right theta + worth m) = z r on every step, and worth m = r on average.

    The second equation is a second row of each step, because it must not touch theta.
    """
    left, right = moments.left, moments.right
    xp, worth = array_namespace(left), like(worth, left)[:, None]
    none, nothing = xp.zeros_like(worth), xp.zeros_like(left)

    def two_rows(of_values: list[Any], of_mean: list[Any]) -> Any:
        both = xp.stack([xp.concat(of_values, axis=1), xp.concat(of_mean, axis=1)], axis=1)
        return xp.reshape(both, (2 * left.shape[0], -1))

    return FactoredMoments(
        two_rows([left, none], [nothing, none + 1.0]),
        two_rows([right, worth], [nothing, worth]),
        take_rows(moments.response, np.repeat(np.arange(left.shape[0]), 2)),
        2 * moments.offsets,
    )


def eligibility_traces(
    features: FloatArray, decay: FloatArray, offsets: IntArray, importance: FloatArray | None = None
) -> FloatArray:
    """Return z_j = rho_j (decay_{j-1} z_{j-1} + phi_j), from 0 at the start of every trajectory.

    Parameters
    ----------
    features : ndarray of shape (N, q)
        phi_j, trajectory after trajectory.
    decay : ndarray of shape (N,)
        What is left of a trace after each step: discount times lambda.
    offsets : ndarray of int, shape (n + 1,)
        Trajectory i owns the steps ``offsets[i]:offsets[i + 1]``.
    importance : ndarray of shape (N,), optional
        rho_j; default 1.

    Returns
    -------
    ndarray of shape (N, q)

    Notes
    -----
    With c_j = rho_j decay_{j-1}, and 0 at starts, one pass adds c_j z_{j-1}; then every z holds two terms.
    The next adds c_j c_{j-1} z_{j-2}, and it holds four, and so on: log2(L) passes over whole arrays for a
    longest trajectory of L steps, however uneven the others are. O(N q log L).

    Examples
    --------
    >>> ones = np.ones((5, 1))
    >>> eligibility_traces(ones, np.full(5, 0.5), np.array([0, 3, 5])).ravel()
    array([1.  , 1.5 , 1.75, 1.  , 1.5 ])
    """
    xp, numbers = array_namespace(features), np.zeros(len(features))
    numbers[1:] = decay[:-1]
    numbers[offsets[:-1]] = 0.0
    carry, traces = like(numbers, features), features
    if importance is not None:
        ratios = like(importance, features)
        carry, traces = carry * ratios, traces * ratios[:, None]
    distance = 1
    while bool(xp.any(carry != 0)):  # the product of the last `distance` factors; it dies at every start
        added = carry[distance:, None] * traces[:-distance, ...]
        traces = xp.concat([traces[:distance, ...], traces[distance:, ...] + added])
        carry = xp.concat([carry[:distance], carry[distance:] * carry[:-distance]])
        distance *= 2
    return traces


def _absorbed(block: Mapping[str, ArrayLike], n: int) -> BoolArray:
    """Return where the next state of a block is absorbing, under either of its names."""
    given = [name for name in ("terminated", "terminal") if name in block]
    if len(given) == 2:
        raise ValueError(must_be("block", "one of terminated and terminal", "both"))
    if not given:
        return np.zeros(n, dtype=np.bool_)
    return as_flags(block[given[0]], given[0])


def transition_moments(block: Mapping[str, ArrayLike], basis: Basis, *, discount: float) -> HeldMoments:
    """Return the LSTD moments of every transition, g_i = phi (phi - discount phi')^T and f_i = r phi.

    Parameters
    ----------
    block : mapping of names to arrays with N rows
        ``states`` and ``next_states`` of shape (N, d) or (N,), ``rewards`` (N,), and optionally
        ``terminated`` (N,), also known as ``terminal``: where it is true, the next state has the value 0.
    basis : Basis
        q feature functions.
    discount : float in [0, 1]
        Discount factor of one step.

    Returns
    -------
    Moments or FactoredMoments
        The second where N q^2 numbers would cost more (above 30 features, or 50,000 rows of nine).

    Notes
    -----
    Every transition is a resampling unit. Transitions of one trajectory depend on each other, and intervals
    that take them as independent can be too short: keep trajectories together (`lstd_moments`) where they
    are short enough.

    Examples
    --------
    >>> from replaystats.basis import OneHot
    >>> block = {"states": [[0]], "rewards": [2.0], "next_states": [[1]], "terminal": [True]}
    >>> A, b = transition_moments(block, OneHot(2), discount=0.5).total()
    >>> A[0], b
    (array([1., 0.]), array([2., 0.]))
    """
    check_instance(block, "block", Mapping, "Its keys are states, next_states, rewards and terminated.")
    missing = {"states", "rewards", "next_states"} - set(block)
    if missing:
        rule = "a mapping with states, rewards, next_states and, if any, terminated"
        raise ValueError(must_be("block", rule, f"none of {', '.join(sorted(missing))}"))
    discount = check_real(discount, "discount", low=0.0, high=1.0)
    check_instance(basis, "basis", Basis, "For example rs.basis.Fourier(4).")
    states = check_rows_magnitude(check_rows(block["states"], "states"), "states")
    next_states = check_rows_magnitude(check_rows(block["next_states"], "next_states"), "next_states")
    rewards = check_rows_magnitude(check_array(block["rewards"], "rewards", ndim=1), "rewards")
    terminal = _absorbed(block, len(states))
    for rows, name in ((next_states, "next_states"), (rewards, "rewards"), (terminal, "terminal")):
        check_length(len(rows), len(states), name, "states")
    left = basis(states)
    following = basis(next_states) * (discount * ~terminal)[:, None]
    return choose_form(FactoredMoments(left, left - following, rewards, np.arange(len(states) + 1)))
