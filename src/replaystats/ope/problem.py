"""The question, laid out in rows: steps, what the policy would do there, groups to leave out, and bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import check_array, check_int, check_length, check_memory, check_real, check_rows
from ..data import Trajectories
from ..data._fields import are_numbers
from ..data._flat import are_names
from ..data.views import Transitions, action_rows
from ..moments.lstd_q import check_labels, check_probabilities, decisions_of
from ..moments.steps import horizon, value_limits

PolicyLike: TypeAlias = Callable[[FloatArray], ArrayLike] | FloatArray
# Groups that are left out in turn; with more, the quantile of t hardly changes and the work grows.
MAX_GROUPS = 40
# So many rewards hardly miss their own mean on one side.
MANY_REWARDS = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """Logged steps as rows, with what the target policy would do in their states.

    Attributes
    ----------
    data : Trajectories
    discount : float
    states, next_states : ndarray of shape (N, d)
    actions : ndarray of int, shape (N,)
        0 throughout on policy, and for continuous actions.
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
    low, high : float
        Between them lies every value that the logged rewards allow.
    range_known : bool
        Whether the range of the rewards was given, not taken from the log.
    on_policy : bool
    policy : callable, ndarray of shape (N,) or None
    continuous : bool
        Whether actions are numbers, not labels: then `basis` takes states and actions side by side.
    """

    data: Trajectories
    discount: float
    states: FloatArray
    next_states: FloatArray
    actions: IntArray
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
    low: float
    high: float
    range_known: bool
    on_policy: bool
    policy: PolicyLike | None
    continuous: bool

    @property
    def n_actions(self) -> int:
        """Number of actions that the model tells apart; 1 on policy."""
        return int(self.following.shape[1])

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

    @property
    def firm_range(self) -> tuple[float, float]:
        """`low` and `high`, infinite where a single one of few rewards sets them: the next may lie beyond."""
        if self.range_known or len(self.rewards) >= MANY_REWARDS:
            return self.low, self.high
        ends = self.rewards.min(), self.rewards.max()
        alone = [np.count_nonzero(self.rewards == end) == 1 for end in ends]
        return -np.inf if alone[0] else self.low, np.inf if alone[1] else self.high

    @property
    def own_starts(self) -> bool:
        """Whether the start states are the logged ones."""
        return bool((self.start_group >= 0).all())

    def of_episodes(self, keep: BoolArray) -> Problem:
        """Return the problem with the rows of some episodes only, for choices that need not see all."""
        rows = keep[self.episode]
        starts = keep if self.own_starts else np.ones(len(self.start_states), dtype=np.bool_)
        cut = ("states", "next_states", "actions", "rewards", "terminal", "episode", "time", "following")
        changed: dict[str, Any] = {name: getattr(self, name)[rows] for name in (*cut, "chance", "group")}
        for name in ("start_states", "start_chances", "start_group"):
            changed[name] = getattr(self, name)[starts]
        return replace(self, **changed)


def make_problem(
    data: Any,
    policy: PolicyLike | None,
    *,
    discount: float,
    start: ArrayLike | None = None,
    n_actions: int | None = None,
    reward_range: tuple[float, float] | None = None,
) -> Problem:
    """Check what was asked and lay it out."""
    discount = check_real(discount, "discount", low=0.0, high=1.0)
    check_policy(policy, "policy")
    policy = policy if policy is None or callable(policy) else np.asarray(policy)
    if callable(policy) and isinstance(data, Trajectories):
        policy = by_number(policy, data, "policy")
    if n_actions is not None:
        check_int(n_actions, "n_actions")
    if not isinstance(data, Trajectories):
        hint = "Wrap the arrays: rs.Trajectories(states, rewards, actions, terminated=...)."
        raise TypeError(must_be("data", "a Trajectories", type(data).__name__, hint))
    if data.rewards is None:
        raise ValueError(must_be("data", "trajectories with rewards", "none", "Pass `rewards`."))
    steps = data.transitions()
    starts = data.states[data.offsets[:-1]] if start is None else _given_starts(start, data.dimension)
    labels, following, chance, start_chances, continuous = _what_the_policy_does(
        data, policy, steps, starts, n_actions
    )
    _, unit = np.unique(data.parent, return_inverse=True)
    group, n_groups = _groups(unit, steps.trajectory, data.n_transitions)
    low, high = value_range(data.rewards, discount, data, reward_range)
    return Problem(
        data=data,
        discount=discount,
        states=steps.states,
        next_states=steps.next_states,
        actions=labels,
        rewards=data.rewards,
        terminal=steps.terminal,
        episode=steps.trajectory,
        time=np.arange(data.n_transitions) - data.step_offsets[steps.trajectory],
        following=following * (discount * ~steps.terminal)[:, None],
        chance=chance,
        start_states=starts,
        start_chances=start_chances,
        group=group,
        start_group=group[data.step_offsets[:-1]] if start is None else np.full(len(starts), -1),
        n_groups=n_groups,
        low=low,
        high=high,
        range_known=reward_range is not None,
        on_policy=policy is None,
        policy=policy,
        continuous=continuous,
    )


def _given_starts(start: ArrayLike, dimension: int) -> FloatArray:
    starts = check_rows(start, "start")
    if starts.shape[1] != dimension:
        raise ValueError(must_be("start", f"states of {dimension} variables", f"shape {starts.shape}"))
    return starts


def check_policy(policy: Any, name: str) -> None:
    """Raise unless `policy` can be asked what it does, says it of logged actions, or is None: the log's."""
    if policy is None or callable(policy) or (isinstance(policy, np.ndarray) and policy.dtype.kind == "f"):
        return
    got = type(policy).__name__
    if isinstance(policy, np.ndarray):
        got = f"an array of {policy.dtype}"
    rule = "a function of the states, an array of probabilities of the logged actions, or None"
    raise TypeError(must_be(name, rule, got))


def by_number(policy: Callable[..., Any], data: Trajectories, name: str) -> Callable[..., Any]:
    """Return a policy that says numbers where it says names, and what it was asked where it fails.

    Policies of continuous actions, which may have a method `density`, stay as they are.
    """
    labels = data.action_labels
    if data.actions is None or are_numbers(data.actions):
        return policy

    def act(states: FloatArray) -> Any:
        try:
            chosen = policy(states)
        except Exception as error:
            if str(error).startswith("`"):  # says itself what is wrong
                raise
            rule = f"a function of all states at once, a NumPy array {states.shape}"
            got = f"{type(error).__name__} from it ({error})"
            raise TypeError(must_be(name, rule, got)) from error
        if labels is None or not are_names(chosen):
            return chosen
        names = np.asarray(chosen)
        place = np.minimum(np.searchsorted(labels, names), len(labels) - 1)
        unknown = np.asarray(labels)[place] != names
        if unknown.any():
            rule = f"a function that returns actions of the log ({', '.join(labels)})"
            raise ValueError(must_be(name, rule, f"{str(names[unknown][0])!r} from it"))
        return place

    return act


def _chances_of_logged(values: ArrayLike, data: Trajectories) -> FloatArray:
    """Return probabilities of the logged actions, or densities where these are numbers, shape (N,)."""
    chance, dense = check_array(values, "policy", ndim=1), are_numbers(data.actions)
    check_length(len(chance), data.n_transitions, "policy", "rewards")
    bad = (chance < 0.0) | ((chance > 1.0 + 1e-9) & (not dense))
    if bad.any():
        first = int(np.argmax(bad))
        got = f"{chance[first]:g} at step {first}"
        rule = "densities of the logged actions, 0 or more" if dense else "probabilities of them, in [0, 1]"
        raise ValueError(must_be("policy", rule, got))
    return chance


def densities_of(policy: Any, data: Trajectories, states: FloatArray) -> FloatArray | None:
    """Return the densities (N,) of logged continuous actions, where the policy has a method `density`."""
    density = getattr(policy, "density", None)
    found = density(states, action_rows(data)) if callable(density) else None
    return None if found is None else _chances_of_logged(found, data)


def _groups(unit: IntArray, trajectory: IntArray, n_rows: int) -> tuple[IntArray, int]:
    """Deal independent units out to at most `MAX_GROUPS` groups; one long episode is cut into blocks."""
    n = int(unit.max()) + 1
    if n > 1:
        return unit[trajectory] % min(n, MAX_GROUPS), min(n, MAX_GROUPS)
    n_blocks = max(2, min(20, n_rows // 10))
    if n_rows < 20:
        hint = "Collect more episodes."
        raise ValueError(must_be("data", "two episodes, or one of 20 steps", f"{n_rows} steps", hint))
    return np.arange(n_rows) * n_blocks // n_rows, n_blocks


def _what_the_policy_does(
    data: Trajectories,
    policy: PolicyLike | None,
    steps: Transitions,
    starts: FloatArray,
    n_actions: int | None,
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, bool]:
    n_rows = len(steps.states)
    ones = np.ones((n_rows, 1)), np.ones((len(starts), 1))
    if policy is None:
        return np.zeros(n_rows, dtype=np.intp), ones[0], np.ones(n_rows), ones[1], False
    if not callable(policy):
        return np.zeros(n_rows, dtype=np.intp), ones[0], _chances_of_logged(policy, data), ones[1], False
    actions = action_rows(data)
    if not np.issubdtype(actions.dtype, np.integer):
        _check_like_logged(decisions_of(policy, steps.states[:2]), actions)
        dense = densities_of(policy, data, steps.states)
        chance = np.full(n_rows, np.nan) if dense is None else dense
        return np.zeros(n_rows, dtype=np.intp), ones[0], chance, ones[1], True
    chosen = np.asarray(decisions_of(policy, steps.states))
    count = _count_actions(actions, chosen) if n_actions is None else n_actions
    check_memory(float(n_rows) * count, "n_actions", count)
    labels = check_labels(actions, "actions", count)
    chance = as_probabilities(chosen, n_rows, count)[np.arange(n_rows), labels]
    following = np.zeros((n_rows, count))
    goes_on = ~steps.terminal  # a policy is not asked what it does after the end
    following[goes_on] = probabilities_of(policy, steps.next_states[goes_on], count)
    return labels, following, chance, probabilities_of(policy, starts, count), False


def _check_like_logged(chosen: np.ndarray, actions: FloatArray) -> None:
    """Raise unless a policy returns actions like those that were logged, which are numbers."""
    width = 1 if chosen.ndim == 1 else chosen.shape[-1]
    if width == actions.shape[1]:
        return
    one_hot = np.isin(actions, (0.0, 1.0)).all() and (actions.sum(axis=1) == 1.0).all()
    hint = "They look like one-hot rows: pass labels, actions.argmax(axis=-1)." if one_hot else ""
    rule = f"a function that returns actions of {actions.shape[1]} numbers, as were logged"
    raise ValueError(must_be("policy", rule, f"shape {chosen.shape} for {len(chosen)} states", hint))


def _count_actions(actions: IntArray, chosen: np.ndarray) -> int:
    if chosen.ndim == 2 and chosen.shape[1] > 1:
        return int(chosen.shape[1])
    return int(max(actions.max(), chosen.max())) + 1


def probabilities_of(
    policy: Callable[[FloatArray], ArrayLike], states: FloatArray, n_actions: int
) -> FloatArray:
    """Return what a policy does in states as probabilities (N, n_actions), also where it names actions."""
    if not len(states):
        return np.zeros((0, n_actions))
    return as_probabilities(np.asarray(decisions_of(policy, states)), len(states), n_actions)


def as_probabilities(chosen: np.ndarray, n_states: int, n_actions: int) -> FloatArray:
    """Return actions (N,) or probabilities (N, n_actions) as the latter."""
    if chosen.ndim == 1 or (chosen.ndim == 2 and chosen.shape[1] == 1 and n_actions > 1):
        labels = check_labels(chosen.reshape(-1), "policy", n_actions)
        check_length(len(labels), n_states, "policy", "states")
        return np.eye(n_actions)[labels]
    return check_probabilities(chosen, n_states, n_actions)


def value_range(
    rewards: FloatArray, discount: float, data: Trajectories, given: tuple[float, float] | None
) -> tuple[float, float]:
    """Return the smallest and largest value that rewards in this range can add up to.

    Examples
    --------
    >>> data = Trajectories([[0.0, 1.0]], [[1.0]], terminated=[True])
    >>> value_range(data.rewards, 0.9, data, None)  # one reward at least, and 1 / (1 - .9) at most
    (1.0, 10.000000000000002)
    """
    if given is not None:
        pair = check_array(given, "reward_range", ndim=1, hint="Give (smallest, largest).")
        if len(pair) != 2 or pair[0] > pair[1]:
            raise ValueError(must_be("reward_range", "(smallest, largest)", given))
        outside = (rewards < pair[0]) | (rewards > pair[1])
        if outside.any():
            got = f"({pair[0]:g}, {pair[1]:g}), with a reward of {rewards[outside][0]:g} in the log"
            raise ValueError(must_be("reward_range", "a range that holds all logged rewards", got))
        low, high = float(pair[0]), float(pair[1])
    else:
        low, high = float(rewards.min()), float(rewards.max())
    longest = horizon(discount)
    if discount == 1.0:
        return value_limits(low, high, 0.0, longest)
    return value_limits(low, high, 1.0 if data.terminated.any() else longest, longest)
