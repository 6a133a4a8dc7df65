"""Policies: what users hand in, asked with copies of the states, as actions, probabilities or densities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .._core.arrays import on_host
from .._core.errors import must_be
from .._core.thresholds import MANY
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.user_code import blamed, called
from .._core.validation import check_array, check_length, check_memory
from ..data import Trajectories
from ..data._flat import are_names, are_numbers
from ..data.views import action_rows
from ..moments.lstd_q import SINGLE, check_labels, check_probabilities, decisions_of

# Batch: states that a policy is asked about at a time.
_BLOCK = 262_144
# Batch: states that a policy is asked for together, in a random order, to see whether its answers change.
_ASKED_TOGETHER = (2, 3, 5, 10)

PolicyLike: TypeAlias = Callable[[FloatArray], ArrayLike] | FloatArray


def check_policy(policy: Any, name: str) -> None:
    """Raise unless `policy` can be asked what it does, says it of logged actions, or is None: the log's."""
    if policy is None or callable(policy) or (isinstance(policy, np.ndarray) and policy.dtype.kind == "f"):
        return
    got = type(policy).__name__
    if isinstance(policy, np.ndarray):
        got = f"an array of {policy.dtype}"
    rule = "a function of the states, an array of probabilities of the logged actions, or None"
    raise TypeError(must_be(name, rule, got))


@dataclass(frozen=True, slots=True, eq=False)
class CheckedPolicy:
    """A policy that is given copies of the states, so that it may write into them.

    Names of actions become their numbers, and an error in the policy says what it was asked.
    """

    policy: Callable[..., Any]
    labels: tuple[str, ...] | None
    name: str

    def __call__(self, states: FloatArray) -> Any:
        """Return what the policy does: actions (N,) or (N, a), draws (N, m, a), or probabilities (N, A)."""
        with blamed(self.name, f"a function of all states at once, a NumPy array {states.shape}"):
            chosen = on_host(called(self.policy, self.name, states))
        if self.labels is None or not are_names(chosen):
            return chosen
        names, labels = np.asarray(chosen), np.asarray(self.labels)
        place = np.minimum(np.searchsorted(labels, names), len(labels) - 1)
        unknown = labels[place] != names
        if unknown.any():
            rule = f"a function that returns actions of the log ({', '.join(self.labels)})"
            raise ValueError(must_be(self.name, rule, f"{str(names[unknown][0])!r} from it"))
        return place

    def density(self, states: FloatArray, actions: FloatArray) -> Any:
        """Return the densities (N,) of continuous actions; None where the policy has none."""
        density = getattr(self.policy, "density", None)
        return on_host(called(density, self.name, states, actions)) if callable(density) else None


def ask(policy: Callable[..., Any], data: Trajectories, name: str) -> CheckedPolicy:
    """Return the policy as one that cannot change the log."""
    return CheckedPolicy(
        policy.policy if isinstance(policy, CheckedPolicy) else policy, data.action_labels, name
    )


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


def densities_of(policy: CheckedPolicy, data: Trajectories, states: FloatArray) -> FloatArray | None:
    """Return the densities (N,) of logged continuous actions, where the policy has a method `density`."""
    found = policy.density(states, action_rows(data))
    return None if found is None else _chances_of_logged(found, data)


def what_the_policy_does(
    data: Trajectories,
    policy: CheckedPolicy | FloatArray | None,
    terminal: BoolArray,
    starts: FloatArray,
    n_actions: int | None,
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, bool]:
    """Return the logged actions, the policy's next ones (N, A), its chance of logged ones, and at the start.

    The last item says whether actions are numbers on a continuum.
    """
    n_rows = data.n_transitions
    none = np.broadcast_to(np.intp(0), n_rows)  # one number, whatever N
    ones = np.broadcast_to(1.0, (n_rows, 1)), np.ones((len(starts), 1))
    if policy is None:
        return none, ones[0], ones[0][:, 0], ones[1], False
    if isinstance(policy, np.ndarray):
        return none, ones[0], _chances_of_logged(policy, data), ones[1], False
    actions = action_rows(data)
    begun = np.ones(len(data.states), dtype=np.bool_)
    begun[data.offsets[1:] - 1] = False
    here = np.flatnonzero(begun)  # rows of the states in which steps begin
    if not np.issubdtype(actions.dtype, np.integer):
        states = data.states[here]
        _check_like_logged(decisions_of(policy, states[:2]), actions)
        dense = densities_of(policy, data, states)
        chance = np.full(n_rows, np.nan) if dense is None else dense
        return none, ones[0], chance, ones[1], True
    chosen = [np.asarray(decisions_of(policy, data.states[here[rows]])) for rows in _blocks(n_rows)]
    count = max(_count_actions(actions, one) for one in chosen) if n_actions is None else n_actions
    check_memory(float(n_rows) * count, "n_actions", count)
    labels = check_labels(actions, "actions", count)
    again = np.random.default_rng(0).permutation(n_rows)[:MANY]
    chance, before = np.empty(n_rows), np.empty((len(again), count))
    for rows, one in zip(_blocks(n_rows), chosen, strict=True):
        chances = as_probabilities(one, rows.stop - rows.start, count)
        chance[rows] = chances[np.arange(len(chances)), labels[rows]]
        own = (again >= rows.start) & (again < rows.stop)
        before[own] = chances[again[own] - rows.start]
    del chosen
    following = np.zeros((n_rows, count))
    for rows in _blocks(n_rows):
        goes_on = ~terminal[rows]  # a policy is not asked what it does after the end
        following[rows][goes_on] = probabilities_of(policy, data.states[here[rows][goes_on] + 1], count)
    at_start = probabilities_of(policy, starts, count)
    _check_repeatable(policy, data.states[here[again]], before)
    return labels, following, chance, at_start, False


def _blocks(n_rows: int) -> list[slice]:
    return [slice(first, min(n_rows, first + _BLOCK)) for first in range(0, n_rows, _BLOCK)]


def _check_repeatable(policy: CheckedPolicy, states: FloatArray, chances: FloatArray) -> None:
    """Raise where a policy says something else of some states when it is asked for a few of them again."""
    for some in np.split(np.arange(len(states)), np.cumsum(_ASKED_TOGETHER)):
        if not len(some):
            break
        off = float(np.abs(chances[some] - probabilities_of(policy, states[some], chances.shape[1])).max())
        if off > SINGLE**0.5:  # in single precision, rounding depends on how many states are asked together
            hint = "Return probabilities, not drawn actions; no dropout or batch norm (network.eval())."
            got = f"probabilities that differ by {off:.2g} for the same states"
            raise ValueError(must_be("policy", "a function of the states alone", got, hint))


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
        return one_hot(labels, n_actions)
    return check_probabilities(chosen, n_states, n_actions)


def one_hot(labels: IntArray, n: int) -> FloatArray:
    """Return labels (N,) as rows (N, n) with a single one each.

    Examples
    --------
    >>> one_hot(np.array([1, 0]), 3)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """
    rows = np.zeros((len(labels), n))
    rows[np.arange(len(labels)), labels] = 1.0
    return rows
