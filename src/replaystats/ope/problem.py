"""The question, laid out in rows: steps, what the policy would do there, groups to leave out, and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from .._core.entries import number_labels
from .._core.errors import must_be
from .._core.thresholds import MANY, SEVERAL
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import check_array, check_int, check_length, check_real, check_rows
from ..basis import Basis
from ..data import Trajectories
from ..data._flat import are_numbers
from ..data.views import action_rows
from .horizon import first_steps, steps_within, value_range
from .policies import PolicyLike, ask, check_policy, what_the_policy_does

T = TypeVar("T")
# Batch: rows whose features are held at a time; steps of whole episodes at a time.
CHUNK, BLOCK = 32_768, 262_144
# Groups that are left out in turn: twice as many as where each is dear.
MAX_GROUPS = 2 * SEVERAL


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Options:
    """What a user asked for besides the question itself; see `evaluate`."""

    confidence_level: float = 0.95
    basis: Basis | str = "auto"
    behavior: Any = None
    regressor: Any = None
    random_state: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unlogged:
    """Actions of the policy that were never logged, in a problem in which they end the episode.

    Attributes
    ----------
    actions : ndarray of int
    after : ndarray of shape (N,)
        Discounted probability that the policy takes one of them after a step.
    first : ndarray of shape (m,)
        Probability that it takes one of them in a start state.
    worth : float
        What follows them.
    """

    actions: IntArray
    after: FloatArray
    first: FloatArray
    worth: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """Logged steps as rows, with what the target policy would do in their states.

    Attributes
    ----------
    data : Trajectories
    discount : float
    visited : ndarray of shape (M, d)
        All logged states, final ones too. `states` and `next_states` (N, d) are rows of it, gathered when
        asked for: a mean of returns needs none.
    place : ndarray of int, shape (N,), or None
        Row of the state of every step, the next state being one below. None: steps are all those of the log.
    actions : ndarray of int, shape (N,)
        0 throughout on policy, and for continuous actions.
    numbers : ndarray of shape (N, a)
        Logged continuous actions; (N, 0) for labels and on policy.
    rewards, terminal, episode, time : ndarray of shape (N,)
        `time` counts the steps of the episode from 0.
    following : ndarray of shape (N, A)
        Discounted probabilities of the policy's next actions; 0 after the end.
    chance : ndarray of shape (N,)
        Probability that the policy takes the logged action; its density for continuous ones, NaN if unknown.
    start_states : ndarray of shape (m, d)
    start_chances : ndarray of shape (m, A)
    group, start_group : ndarray of int, shapes (N,), (m,)
        Episodes are left out by groups; -1: a start state that is given and stays.
    n_groups : int
    unit : ndarray of int, shape (n_episodes,)
        What is independent: users, patients, machines; episodes by default.
    units_given : bool
        Whether the user said so, or the log.
    horizon : int or None
        The value is over so many steps; None: until episodes end.
    low, high : float
        Between them lies every value that the logged rewards allow.
    range_known : bool
        Whether the range of the rewards was given, not taken from the log.
    on_policy : bool
    policy : callable, ndarray of shape (N,) or None
    continuous : bool
        Whether actions are numbers, not labels: then `basis` takes states and actions side by side.
    options : Options
    unlogged : Unlogged or None
        Set where actions that were never logged end the episode; see `select.taken_as`.
    memory : dict
        Shared parts (behavior, weights, models), each computed at its first use; see `once`.
    log_memory : dict
        The same for parts that do not depend on the policy, shared by the policies of one comparison.
    """

    data: Trajectories
    discount: float
    visited: FloatArray
    place: IntArray | None
    actions: IntArray
    numbers: FloatArray
    rewards: FloatArray
    terminal: BoolArray
    episode: IntArray
    time: IntArray
    following: FloatArray
    chance: FloatArray
    start_states: FloatArray
    start_chances: FloatArray
    group: IntArray
    start_group: IntArray
    n_groups: int
    unit: IntArray
    units_given: bool
    horizon: int | None
    low: float
    high: float
    range_known: bool
    on_policy: bool
    policy: PolicyLike | None
    continuous: bool
    options: Options
    unlogged: Unlogged | None = None
    log_memory: dict[str, Any] = field(default_factory=dict, repr=False)
    memory: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, name: str, compute: Callable[[Problem], T], *, of_log: bool = False) -> T:
        """Return `compute(self)`, computed once: methods that need the same part share it."""
        memory: dict[str, T] = self.log_memory if of_log else self.memory
        if name not in memory:
            memory[name] = compute(self)
        return memory[name]

    def __len__(self) -> int:
        return len(self.rewards)

    def places_of(self, rows: slice | IntArray | BoolArray) -> IntArray:
        """Return the rows of `visited` where some steps begin."""
        if self.place is not None:
            return self.place[rows]
        # Every episode before adds its final state.
        own = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.arange(len(self))[rows]
        own += self.episode[rows]
        return own

    def chunks(self) -> Iterator[slice]:
        """Return slices that cover all rows, `CHUNK` at a time."""
        return (slice(first, min(len(self), first + CHUNK)) for first in range(0, len(self), CHUNK))

    def blocks(self) -> Iterator[slice]:
        """Yield slices that cover all rows, whole episodes of some `BLOCK` steps at a time."""
        edges = self.data.step_offsets
        if self.place is not None:
            edges = np.concatenate([[0], np.flatnonzero(np.diff(self.episode)) + 1, [len(self)]])
        first = 0
        while first < len(edges) - 1:
            last = int(np.searchsorted(edges, edges[first] + BLOCK, side="right")) - 1
            last = max(first + 1, last)
            yield slice(int(edges[first]), int(edges[last]))
            first = last

    @property
    def states(self) -> FloatArray:
        """State of every step, (N, d)."""
        return self.visited[self.places_of(slice(None))]

    @property
    def next_states(self) -> FloatArray:
        """State that follows every step, (N, d)."""
        return self.visited[self.places_of(slice(None)) + 1]

    @property
    def effective_groups(self) -> float:
        """Number of groups of equal size that would say as much: 1 / sum of squared shares of episodes.

        Carter, Schnepel and Steigerwald (2017), Asymptotic behavior of a t-test robust to cluster
        heterogeneity, Review of Economics and Statistics 99.
        """
        if self.n_units == 1:
            return float(self.n_groups)
        sizes = np.bincount(self.group[self.data.step_offsets[:-1]], minlength=self.n_groups)
        return float(sizes.sum() ** 2 / np.sum(sizes.astype(np.float64) ** 2))

    @property
    def n_units(self) -> int:
        """Number of independent units."""
        return int(self.unit.max()) + 1

    @property
    def n_actions(self) -> int:
        """Number of actions that the model tells apart; 1 on policy."""
        return int(self.following.shape[1])

    @property
    def places(self) -> FloatArray:
        """Where a basis is evaluated: states, beside continuous actions; shape (N, d + a)."""
        return self.places_at(slice(None))

    def places_at(self, rows: slice) -> FloatArray:
        """Return the places of some steps."""
        states = self.visited[self.places_of(rows)]
        return np.column_stack([states, self.numbers[rows]]) if self.continuous else states

    def draws(self, states: FloatArray) -> list[FloatArray]:
        """Return states beside every draw of the policy's continuous actions, (k, d + a) each."""
        assert callable(self.policy)
        chosen = check_array(self.policy(states), "policy", ndim=(1, 2, 3))
        check_length(len(chosen), len(states), "policy", "states")
        each = chosen.reshape(len(states), -1, 1 if chosen.ndim == 1 else chosen.shape[-1])
        return [np.column_stack([states, draw]) for draw in each.swapaxes(0, 1)]

    @property
    def measure(self) -> str:
        """What ratios are made of: "probabilities", or "densities" where actions are numbers."""
        return "densities" if are_numbers(self.data.actions) else "probabilities"

    @property
    def logged_only(self) -> bool:
        """Whether nothing is known of the policy but how likely it takes the logged actions."""
        return isinstance(self.policy, np.ndarray)

    @property
    def n_episodes(self) -> int:
        """Number of logged episodes."""
        return len(self.data)

    @property
    def largest(self) -> float:
        """Size of the largest value that is possible, or of the largest reward where there is none."""
        ends = np.array([self.low, self.high, self.rewards.min(), self.rewards.max()])
        return float(np.abs(ends[np.isfinite(ends)]).max())

    def range_left(self, steps: ArrayLike) -> FloatArray:
        """Return the share of the range of values that is left after so many steps; 1 without a horizon."""
        n = np.asarray(steps)
        if self.horizon is None:
            return np.ones(n.shape)
        sums = np.append(0.0, np.cumsum(np.power(self.discount, np.arange(self.horizon), dtype=np.float64)))
        return np.asarray(sums[np.maximum(self.horizon - n, 0)] / sums[-1])

    @property
    def firm_range(self) -> tuple[float, float]:
        """`low` and `high`, infinite where a single one of few rewards sets them: the next may lie beyond."""
        if self.range_known or len(self.rewards) >= MANY:
            return self.low, self.high
        ends = self.rewards.min(), self.rewards.max()
        alone = [np.count_nonzero(self.rewards == end) == 1 for end in ends]
        return -np.inf if alone[0] else self.low, np.inf if alone[1] else self.high

    @property
    def own_starts(self) -> bool:
        """Whether the start states are the logged ones."""
        return bool((self.start_group >= 0).all())

    @property
    def never_logged(self) -> IntArray:
        """Actions that the policy may take and the log never does."""
        if self.unlogged is not None:
            return self.unlogged.actions
        if self.on_policy or self.continuous:
            return np.empty(0, dtype=np.intp)
        wanted = self.following.sum(axis=0) + self.start_chances.sum(axis=0)
        return np.flatnonzero((wanted > 0.0) & (np.bincount(self.actions, minlength=self.n_actions) == 0))

    @property
    def kept_at_start(self) -> float:
        """Chance that the policy does not begin with such an action."""
        return 1.0 if self.unlogged is None else 1.0 - float(self.unlogged.first.mean())

    @property
    def share_of_logged(self) -> FloatArray:
        """Chance (N,) that the policy takes an action of the log where a step was logged."""
        if self.unlogged is None:
            return np.broadcast_to(1.0, len(self))
        share = np.ones(len(self))
        share[1:] -= self.unlogged.after[:-1] / (self.discount or 1.0)
        share[self.data.step_offsets[:-1]] = 1.0 - self.unlogged.first
        return share

    def of_episodes(self, keep: BoolArray) -> Problem:
        """Return the problem with the rows of some episodes only, for choices that need not see all."""
        rows = keep[self.episode]
        starts = keep if self.own_starts else np.ones(len(self.start_states), dtype=np.bool_)
        cut = ("actions", "numbers", "rewards", "terminal", "episode", "time", "following", "chance", "group")
        changed: dict[str, Any] = {name: getattr(self, name)[rows] for name in cut}
        changed["place"] = self.places_of(rows)
        for name in ("start_states", "start_chances", "start_group"):
            changed[name] = getattr(self, name)[starts]
        return replace(self, **changed, log_memory={})


def make_problem(
    data: Any,
    policy: PolicyLike | None,
    *,
    discount: float,
    start: ArrayLike | None = None,
    n_actions: int | None = None,
    reward_range: tuple[float, float] | None = None,
    units: ArrayLike | None = None,
    horizon: int | None = None,
    options: Options | None = None,
    log_memory: dict[str, Any] | None = None,
) -> Problem:
    """Check what was asked and lay it out."""
    discount = check_real(discount, "discount", low=0.0, high=1.0)
    check_policy(policy, "policy")
    check_data(data)
    n_actions = None if n_actions is None else check_int(n_actions, "n_actions")
    unit = find_units(units, data)
    kept = steps_within(data, horizon)
    asked = ask(policy, data, "policy") if callable(policy) else policy
    if isinstance(asked, np.ndarray):
        check_length(len(asked), data.n_transitions, "policy", "rewards")
        asked = asked[kept]
    data = data if horizon is None else first_steps(data, horizon)
    terminal = np.zeros(data.n_transitions, dtype=np.bool_)
    terminal[data.step_offsets[1:] - 1] = data.terminated
    episode = np.repeat(np.arange(len(data), dtype=np.int32), data.n_steps)
    starts = data.states[data.offsets[:-1]] if start is None else _given_starts(start, data.dimension)
    labels, following, chance, start_chances, continuous = what_the_policy_does(
        data, asked, terminal, starts, n_actions
    )
    group, n_groups = make_groups(unit, episode, data.n_transitions)
    low, high = value_range(data.rewards, discount, data, reward_range, horizon)
    return Problem(
        data=data,
        discount=discount,
        visited=data.states,
        place=None,
        actions=labels,
        numbers=np.asarray(action_rows(data), dtype=np.float64) if continuous else np.empty((len(labels), 0)),
        rewards=data.rewards,
        terminal=terminal,
        episode=episode,
        time=np.arange(data.n_transitions, dtype=np.int32) - data.step_offsets[:-1].astype(np.int32)[episode],
        following=following * (discount * ~terminal)[:, None],
        chance=chance,
        start_states=starts,
        start_chances=start_chances,
        group=group,
        start_group=group[data.step_offsets[:-1]] if start is None else np.full(len(starts), -1),
        n_groups=n_groups,
        unit=unit,
        units_given=units is not None or int(unit.max()) + 1 < len(data),
        horizon=horizon,
        low=low,
        high=high,
        range_known=reward_range is not None,
        on_policy=policy is None,
        policy=asked,
        continuous=continuous,
        options=options or Options(),
        log_memory={} if log_memory is None else log_memory,
    )


def check_data(data: Any) -> None:
    """Raise unless `data` are episodes with rewards."""
    if not isinstance(data, Trajectories):
        hint = "Wrap the arrays: rs.Trajectories(states, rewards, actions, terminated=...)."
        if hasattr(data, "columns"):
            hint = "Read a table of steps with the functions of rs.readers."
        raise TypeError(must_be("data", "a Trajectories", type(data).__name__, hint))
    if data.rewards is None:
        raise ValueError(must_be("data", "trajectories with rewards", "none", "Pass `rewards`."))


def _given_starts(start: ArrayLike, dimension: int) -> FloatArray:
    starts = check_rows(start, "start")
    if starts.shape[1] != dimension:
        raise ValueError(must_be("start", f"states of {dimension} variables", f"shape {starts.shape}"))
    return starts


def find_units(units: ArrayLike | None, data: Trajectories) -> IntArray:
    """Return the independent unit of every episode as numbers from 0."""
    _, unit = number_labels(data.parent if units is None else units, "units")
    if len(unit) != len(data):
        rule = f"one label for each of the {len(data)} episodes"
        raise ValueError(must_be("units", rule, f"{len(unit)} labels"))
    if units is not None and int(unit.max()) == 0:
        hint = "One unit says nothing about how units differ."
        raise ValueError(must_be("units", "labels of two units at least", "one", hint))
    return unit.astype(np.int32)


def make_groups(unit: IntArray, trajectory: IntArray, n_rows: int) -> tuple[IntArray, int]:
    """Deal independent units out to at most `MAX_GROUPS` groups; one long episode is cut into blocks."""
    n = int(unit.max()) + 1
    if n > 1:
        return (unit % min(n, MAX_GROUPS)).astype(np.int32)[trajectory], min(n, MAX_GROUPS)
    n_blocks = max(2, min(20, n_rows // 10))
    if n_rows < 20:
        hint = "Collect more episodes."
        raise ValueError(must_be("data", "two episodes, or one of 20 steps", f"{n_rows} steps", hint))
    return np.arange(n_rows) * n_blocks // n_rows, n_blocks
