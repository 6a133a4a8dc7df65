"""LSTDQ: the value of taking an action and following a policy from then on, from logged transitions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, device

from .._core.arrays import as_array, check_finite, in_double, is_foreign, like, to_numpy
from .._core.errors import ReplayWarning, must_be
from .._core.thresholds import MANY
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.user_code import called
from .._core.validation import (
    as_columns,
    check_array,
    check_bool,
    check_int,
    check_length,
    check_memory,
    check_rows,
)
from ..basis import Basis
from ..data import Trajectories
from ..data._flat import are_numbers, check_states, gather
from ..data.views import action_rows, transitions_of
from .factored import DeferredMoments, FactoredMoments, HeldMoments, choose_form
from .steps import (
    DiscountLike,
    ImportanceLike,
    RewardLike,
    check_log,
    step_discounts,
    step_ratios,
    step_rewards,
)

PolicyLike: TypeAlias = Callable[[FloatArray], ArrayLike]
# Rounding: sums of probabilities that were computed in single precision are off by no more than this.
SINGLE = 1e-5
# Batch: steps at which a policy is looked at, at a time.
_LOOKED_AT = 2**16


@dataclass(frozen=True, slots=True)
class ActionFeatures:
    """Features of a state and an action.

    Attributes
    ----------
    basis : Basis
        Of the state (N, d) for discrete actions; of state and action side by side (N, d + a) otherwise.
    n_actions : int or None
        For discrete actions 0..n_actions-1 every action has its own copy of the basis: phi(s, a) is phi(s) in
        block a and 0 elsewhere. None for continuous actions.

    Examples
    --------
    >>> from replaystats.basis import Polynomial
    >>> ActionFeatures(Polynomial(1), n_actions=2).at(np.array([[5.0]]), np.array([1]))
    array([[0., 0., 1., 5.]])
    """

    basis: Basis
    n_actions: int | None

    @property
    def n_basis(self) -> int:
        """Number of features q."""
        return self.basis.n_basis * (self.n_actions or 1)

    def at(self, states: Any, actions: Any) -> FloatArray:
        """Return phi(s, a), shape (N, q)."""
        states = checked_states(states)
        if self.n_actions is None:
            actions = like(actions if is_foreign(actions) else check_rows(actions, "actions"), states)
            check_length(len(actions), len(states), "actions", "states")
            pairs: FloatArray = array_namespace(states).concat([states, as_columns(actions)], axis=1)
            return self.basis(pairs)
        labels = check_labels(actions, "actions", self.n_actions)
        check_length(len(labels), len(states), "actions", "states")
        return in_blocks(self.basis(states), labels, self.n_actions)

    def under(self, policy: PolicyLike, states: Any) -> FloatArray:
        """Return the mean of phi(s, a) over the actions of a policy, shape (N, q)."""
        states = checked_states(states)
        chosen = decisions_of(policy, states)
        if self.n_actions is None:
            return self._mean_over_samples(states, chosen)
        features = self.basis(states)
        if chosen.ndim == 1:
            labels = check_labels(chosen, "policy", self.n_actions)
            check_length(len(labels), len(states), "policy", "states")
            return in_blocks(features, labels, self.n_actions)
        probabilities = like(check_probabilities(chosen, len(states), self.n_actions), features)
        weighted = probabilities[:, :, None] * features[:, None, :]
        return array_namespace(features).reshape(weighted, (len(states), -1))  # type: ignore[no-any-return]

    def _mean_over_samples(self, states: FloatArray, chosen: Any) -> FloatArray:
        samples: Any = like(
            chosen if is_foreign(chosen) else check_array(chosen, "policy", ndim=(1, 2, 3)), states
        )
        check_length(len(samples), len(states), "policy", "states")
        xp, n_components = array_namespace(states), 1 if samples.ndim == 1 else samples.shape[-1]
        samples = xp.reshape(samples, (len(samples), -1, n_components))  # (N, m, a)
        total: Any = 0.0
        for draw in range(samples.shape[1]):  # one draw of all states at a time: N q numbers, not N m q
            total = total + self.basis(xp.concat([states, samples[:, draw, :]], axis=1))
        return total / samples.shape[1]  # type: ignore[no-any-return]


def checked_states(states: Any) -> Any:
    """Return states (N, d) where they live; on the host, checked."""
    on_device = in_double(states) if is_foreign(states) and states.ndim in (1, 2) else None
    return as_columns(check_states(states, "states", (1, 2)) if on_device is None else on_device)


def lstd_q_moments(
    data: Trajectories,
    basis: Basis,
    *,
    policy: PolicyLike,
    discount: DiscountLike = None,
    discount_rate: float | None = None,
    n_actions: int | None = None,
    importance: ImportanceLike = None,
    reward: RewardLike = None,
    factored: bool = False,
) -> HeldMoments:
    """Return the moments of the state-action value of a policy, whatever policy chose the logged actions.

    With phi_j the features of (s_j, a_j), and phi'_j the mean of phi(s_{j+1}, a) over the actions a that the
    *policy* takes in s_{j+1} (0 after a terminated trajectory),

        g_i = sum_j rho_j phi_j (phi_j - discount_j phi'_j)^T,    f_i = sum_j rho_j r_j phi_j.

    Parameters
    ----------
    data : Trajectories
        With actions. One-dimensional integers are discrete actions 0..n_actions-1, all else continuous.
    basis : Basis
        Discrete actions: of the state; every action gets its own copy. Continuous actions: of state and
        action side by side, (N, d + a).
    policy : callable
        Takes states (N, d). Discrete actions: returns probabilities (N, n_actions) or actions (N,).
        Continuous: returns actions (N,) or (N, a), or m draws of them (N, m, a), over which is averaged.
    discount : float in [0, 1] or array-like of shape (N,), optional
        Discount factor of a step, or of each.
    discount_rate : float, optional
        beta, in place of `discount`: a step of length dt is discounted by exp(-beta dt).
    n_actions : int, optional
        Default: as many as the policy gives probabilities for, or as occur.
    importance : callable or array-like of shape (N,), optional
        Weights rho_j of the steps. The policy's next action needs none; they move the states and actions at
        which the fit is good to where, say, the policy goes.
    reward : callable or array-like of shape (N,), optional
        Reward of a step as a function of the states, or as numbers; default the logged ones.
    factored : bool
        Keep the steps apart, as `unit_moments` needs them to cut trajectories into blocks.

    Returns
    -------
    Moments or FactoredMoments
        The second if asked for, and where n q^2 numbers would cost more (above 30 features, say).

    Examples
    --------
    >>> from replaystats.basis import OneHot
    >>> data = Trajectories([[0, 0], [0, 0]], [[1.0], [0.0]], actions=[[0], [1]])
    >>> m = lstd_q_moments(data, OneHot(1), policy=lambda s: np.zeros(len(s), int), discount=0.5)
    >>> np.linalg.solve(*m.total())  # action 0 earns 1 forever; action 1 misses the first
    array([2., 1.])
    """
    factored = check_bool(factored, "factored")
    if not callable(policy):
        raise TypeError(must_be("policy", "a function of the states", repr(policy)))
    check_log(data, basis)
    features = ActionFeatures(basis, discrete_actions(data, policy, n_actions))
    gamma, ratios = step_discounts(data, discount, discount_rate), step_ratios(importance, data)
    places = data.held("states") if reward is None else transitions_of(data, held=True).states
    rewards = step_rewards(reward, data.held("rewards"), places)
    moments = _Decisions(data, features, policy, gamma, ratios, rewards, warns=True).moments()
    return moments if factored else choose_form(moments)


def lstd_q_steps(
    data: Trajectories,
    features: ActionFeatures,
    *,
    policy: PolicyLike,
    discount: DiscountLike,
    importance: ImportanceLike,
) -> FactoredMoments:
    """Return the same moments of single steps, made later where they may be dealt into groups."""
    check_log(data, features.basis)
    gamma, ratios = step_discounts(data, discount), step_ratios(importance, data)
    states = data.held("states")
    rewards = step_rewards(None, data.held("rewards"), states)
    later = data.n_trajectories >= 2 * MANY and not is_foreign(states)
    log = _Decisions(data, features, policy, gamma, ratios, rewards, warns=not later)
    if not later:
        return log.moments()
    log.warn_of_actions()
    return DeferredMoments(log.moments, states, rewards, data.step_offsets, features.n_basis)


@dataclass(frozen=True, slots=True, eq=False)
class _Decisions:
    """What the moments of steps are made from: checked, and nothing yet as wide as the features."""

    data: Trajectories
    features: ActionFeatures
    policy: PolicyLike
    gamma: FloatArray  # (N,)
    ratios: FloatArray | None  # (N,)
    rewards: FloatArray  # (N,)
    warns: bool  # of actions that were never logged

    def moments(self, episodes: IntArray | None = None) -> FactoredMoments:
        """Return the moments of the steps of some episodes, or of all."""
        data, gamma, ratios, rewards = self.data, self.gamma, self.ratios, self.rewards
        if episodes is not None:
            chosen = gather(data.step_offsets[episodes], data.n_steps[episodes])
            data, gamma, rewards = data.select(episodes), gamma[chosen], rewards[chosen]
            ratios = None if ratios is None else ratios[chosen]
        steps, labels = transitions_of(data, held=True), action_rows(data)
        here = self.features.at(steps.states, labels)
        xp, discounts = array_namespace(here), like(gamma * ~steps.terminal, here)
        following = self.features.under(self.policy, steps.next_states) * discounts[:, None]
        if self.features.n_actions is not None and self.warns:
            blocks = xp.reshape(following, (len(following), self.features.n_actions, -1))
            warn_never_logged(labels, to_numpy(xp.any(blocks != 0, axis=(0, 2))))
        left = here if ratios is None else here * like(ratios, here)[:, None]
        return FactoredMoments(left, here - following, rewards, data.step_offsets)

    def warn_of_actions(self) -> None:
        """Say which actions the policy takes and the log never does, looking at some episodes at a time."""
        n_actions, n = self.features.n_actions, self.data.n_trajectories
        if n_actions is None:
            return
        taken = np.zeros(n_actions, dtype=np.bool_)
        size = max(1, _LOOKED_AT * n // self.data.n_transitions)
        for first in range(0, n, size):
            some = np.arange(first, min(first + size, n))
            steps = transitions_of(self.data.select(some))
            gamma = self.gamma[self.data.step_offsets[first] :][: len(steps)]
            states = steps.next_states[(gamma > 0) & ~steps.terminal]
            if len(states):
                chosen = np.asarray(to_numpy(decisions_of(self.policy, states)))
                if chosen.ndim == 1:
                    taken[check_labels(chosen, "policy", n_actions)] = True
                else:
                    taken |= (check_probabilities(chosen, len(states), n_actions) > 0).any(axis=0)
        warn_never_logged(action_rows(self.data), taken)


def warn_never_logged(labels: IntArray, taken: BoolArray) -> None:
    """Say which actions the policy takes, of shape (A,), and the log never does."""
    logged = np.array([bool((labels == action).any()) for action in range(len(taken))])
    never = np.flatnonzero(taken & ~logged)
    if never.size:
        msg = (
            f"The policy takes the action(s) {', '.join(map(str, never))}, which the log never does: nothing "
            "in the data says what they are worth. rs.evaluate bounds such a value; log some, or ask about "
            "another policy."
        )
        warnings.warn(msg, ReplayWarning, stacklevel=3)


def decisions_of(policy: PolicyLike, states: Any) -> Any:
    """Return what a policy does in states: an array of numbers, of the kind that it returns."""
    chosen: Any = called(policy, "policy", states)
    if is_foreign(chosen):
        return chosen
    try:
        array = as_array(chosen, "policy")
    except (TypeError, ValueError):  # ragged, or masked
        array = np.asarray(None)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        rule = "a function that returns actions (N,) as numbers, or probabilities (N, n_actions)"
        got = type(chosen).__name__ if array.ndim == 0 else f"an array of dtype {array.dtype}"
        raise TypeError(must_be("policy", rule, f"{got} from it"))
    return array


def discrete_actions(data: Trajectories, policy: PolicyLike | None, n_actions: int | None) -> int | None:
    """Return the number of discrete actions of the data; None for continuous ones."""
    actions = action_rows(data)
    if are_numbers(actions):
        if n_actions is not None:
            got = f"{n_actions} with actions of dtype {actions.dtype} and shape {actions.shape}"
            hint = "Discrete actions are one integer per step."
            raise ValueError(must_be("n_actions", "None for continuous actions", got, hint))
        return None
    if n_actions is not None:
        check_memory(float(data.n_transitions) * check_int(n_actions, "n_actions"), "n_actions", n_actions)
        return n_actions
    largest = int(actions.max())
    if policy is not None:
        states = data.held("states")
        for some in (states[:1, ...], states):  # of probabilities one state says how many there are
            chosen = decisions_of(policy, some)
            if chosen.ndim == 2:
                return int(chosen.shape[1])
        most = float(chosen.max())
        if not math.isfinite(most):
            raise ValueError(must_be("policy", "a function that returns finite actions", most))
        largest = max(largest, int(most))
    return largest + 1


def in_blocks(features: FloatArray, labels: IntArray, n_actions: int) -> FloatArray:
    """Return an array (N, n_actions q) with row i of `features` (N, q) in block ``labels[i]``."""
    check_memory(float(len(features)) * n_actions * features.shape[1], "n_actions", n_actions)
    if is_foreign(features):
        xp = array_namespace(features)
        taken = like(labels, features)[:, None] == xp.arange(n_actions, device=device(features))
        placed = xp.astype(taken, features.dtype)[:, :, None] * features[:, None, :]
        return xp.reshape(placed, (len(features), -1))  # type: ignore[no-any-return]
    blocks = np.zeros((len(features), n_actions, features.shape[1]))
    blocks[np.arange(len(features)), labels] = features
    return blocks.reshape(len(features), -1)


def check_labels(actions: ArrayLike, name: str, n_actions: int) -> IntArray:
    """Return discrete actions as integers (N,) in 0..n_actions-1."""
    on_device = in_double(actions) if is_foreign(actions) else None
    labels: Any = check_array(actions, name, ndim=1) if on_device is None else on_device.reshape(-1)
    xp = array_namespace(labels)
    bad = (labels != xp.floor(labels)) | (labels < 0) | (labels >= n_actions) | ~xp.isfinite(labels)
    if bool(bad.any()):
        rule = f"whole numbers in [0, {n_actions - 1}]"
        hint = f"There are n_actions={n_actions} actions."
        raise ValueError(must_be(name, rule, f"{float(labels[bad][0]):g}", hint))
    return xp.astype(labels, xp.int64, copy=False)  # type: ignore[no-any-return]


def check_probabilities(values: ArrayLike, n_states: int, n_actions: int) -> FloatArray:
    """Return the probabilities (N, n_actions) that a policy gives."""
    on_device = in_double(values) if is_foreign(values) else None
    array: Any = (
        check_array(values, "policy", ndim=2) if on_device is None else check_finite(on_device, "policy")
    )
    if tuple(array.shape) != (n_states, n_actions):
        rule = f"a function that returns actions (N,) or probabilities ({n_states}, n_actions={n_actions})"
        raise ValueError(must_be("policy", rule, f"shape {tuple(array.shape)}"))
    sums = array.sum(axis=1)
    low, least, most = (float(number) for number in (array.min(), sums.min(), sums.max()))
    off = max(most - 1.0, 1.0 - least)
    if low >= 0.0 and 1e-8 < off <= SINGLE:  # rounded in single precision, as networks compute
        array, off = array / sums[:, None], 0.0
    if low < 0.0 or off > 1e-8:
        got = f"a minimum of {low:g} and sums from {least:.9g} to {most:.9g}"
        raise ValueError(must_be("policy", "a function that returns probabilities which sum to 1", got))
    probabilities: FloatArray = array
    return probabilities
