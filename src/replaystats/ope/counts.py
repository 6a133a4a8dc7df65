"""Discrete states: what followed every state and action, counted; and what was never seen, bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_banded
from scipy.sparse import csc_matrix, eye
from scipy.sparse.linalg import splu

from .._core.thresholds import SMALL_SHARE
from .._core.typing import BoolArray, FloatArray, IntArray
from .intervals import GroupJackknife
from .problem import Problem


def is_discrete(states: FloatArray) -> bool:
    """Tell whether states are labels: whole numbers that come back.

    Examples
    --------
    >>> is_discrete(np.array([[3.0], [5.0], [3.0]])), is_discrete(np.array([[0.5], [0.25], [0.5]]))
    (True, False)
    """
    if states.dtype.kind not in "fiub":
        return True  # names
    if not (states == np.floor(states)).all():
        return False
    distinct = len(np.unique(states, axis=0))
    return distinct < len(states) if states.shape[1] == 1 else 4 * distinct <= len(states)


def has_labels(problem: Problem) -> bool:
    """Tell whether the states of a problem are labels; a few fractions tell that they are not."""

    def found(problem: Problem) -> bool:
        few = problem.visited[problem.places_of(slice(1000))]
        if few.dtype.kind in "fiub" and not (few == np.floor(few)).all():
            return False
        return is_discrete(problem.states)

    return problem.once("labels", found)


@dataclass(frozen=True, slots=True)
class Untried:
    """What an action that was never tried in a state may be worth.

    Where the logging policy is known to have left it out by chance, it is like those that chance took: not
    worse than the worst nor better than the best of them beside the value of their state. These are means,
    and lie closer together than returns do. Elsewhere nothing is known but the range of the returns.

    Attributes
    ----------
    worst, best : float
        Return from any logged step on.
    loss, gain : float
        Smallest and largest value of a tried action minus that of its state; infinite where the logging
        policy is not known.
    poorest, richest : float
        Smallest and largest value of a state.
    """

    worst: float
    best: float
    loss: float = -np.inf
    gain: float = np.inf
    poorest: float = -np.inf
    richest: float = np.inf

    @property
    def by_chance(self) -> bool:
        """Whether tried actions tell of the others."""
        return bool(np.isfinite(self.loss))


@dataclass(frozen=True, slots=True, eq=False)
class CountModel:
    """Transition frequencies, with values for all data and without every group.

    Attributes
    ----------
    problem : Problem
    at_start : GroupJackknife
        The value averaged over the start states, actions that were never tried being taken as worth what
        the policy's other actions in the state are.
    lowest, highest : GroupJackknife
        The same with every such action worth the worst, or the best, that is plausible: see `Untried`.
    unseen : float
        The discounted share of the policy's future, from 0 to 1, that leads to actions never tried.
    n_states : int
    untried : Untried
    """

    problem: Problem
    ids: IntArray
    next_ids: IntArray
    start_ids: IntArray
    action_values: FloatArray
    at_start: GroupJackknife
    lowest: GroupJackknife
    highest: GroupJackknife
    unseen: float
    n_states: int
    untried: Untried

    def at_steps(self, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Return the values (m, A) in the states and next states of steps, fitted without their group."""
        group = self.problem.group[rows]
        values = self.action_values
        return values[group, self.ids[rows]], values[group, self.next_ids[rows]]

    def start_values(self) -> FloatArray:
        """Return the values (m, A) in the start states, fitted without their group."""
        return self.action_values[self.problem.start_group, self.start_ids]

    def after(self, rows: IntArray) -> Iterator[FloatArray]:
        """Yield the values (m, G) of each action behind some steps, fitted without each group."""
        for action in range(self.problem.n_actions):
            yield self.action_values[:-1, self.next_ids[rows], action].T


def fit_counts(problem: Problem, logged: FloatArray | None = None, *, pooled: bool = False) -> CountModel:
    """Count, solve, and solve again without every group.

    With `pooled`, frequencies of all steps are one, and values are found backward from the horizon.

    Parameters
    ----------
    problem : Problem
    logged : ndarray of shape (N,), optional
        Probabilities of the logged actions where they are known, not estimated.
    pooled : bool
        For a problem with a horizon: `action_values` are then those of every number of steps left.
    """
    n_rows = len(problem)
    stacked = np.concatenate([problem.states, problem.next_states, problem.start_states])
    _, ids = np.unique(stacked, axis=0, return_inverse=True)
    ids = ids.reshape(-1)
    here, ahead, start = ids[:n_rows], ids[n_rows : 2 * n_rows], ids[2 * n_rows :]
    cells = _Cells.of(problem, here, ahead, int(ids.max()) + 1, start, logged)
    untried = Untried(*plausible_range(problem))
    solve = cells.backward if pooled else cells.solve
    full = solve(None, untried)
    if logged is not None and full.unseen > 0.0:
        untried = cells.like_tried(full, untried)
        full = solve(None, untried)
    left = [solve(g, untried) for g in range(problem.n_groups)]
    picked = [np.array([getattr(one, name) for one in left]) for name in ("value", "low", "high")]
    return CountModel(
        problem=problem,
        ids=here,
        next_ids=ahead,
        start_ids=start,
        action_values=full.action_values
        if pooled
        else np.stack([*(one.action_values for one in left), full.action_values]),
        at_start=GroupJackknife(full.value, picked[0]),
        lowest=GroupJackknife(full.low, picked[1]),
        highest=GroupJackknife(full.high, picked[2]),
        unseen=full.unseen,
        n_states=cells.n_states,
        untried=untried,
    )


def plausible_range(problem: Problem) -> tuple[float, float]:
    """Return the worst and the best discounted return from any logged step on, within the possible."""
    ends = [(togo.min(), togo.max()) for togo in (returns_to_go(problem, rows) for rows in problem.blocks())]
    low, high = (float(end) for end in (min(low for low, _ in ends), max(high for _, high in ends)))
    return max(problem.low, low), min(problem.high, high)


def returns_to_go(problem: Problem, rows: slice = slice(None)) -> FloatArray:
    """Return the discounted sum of the rewards from every step to the end of its episode, shape (N,).

    G_t - discount G_(t+1) = r_t, with 0 behind the end of an episode, is one system with two diagonals.
    `rows` are whole episodes.
    """
    episode, rewards = problem.episode[rows], problem.rewards[rows]
    diagonals = np.zeros((2, len(rewards)))
    diagonals[0, 1:] = -problem.discount * (episode[1:] == episode[:-1])
    diagonals[1] = 1.0
    return np.asarray(solve_banded((0, 1), diagonals, rewards))


def episode_returns(problem: Problem) -> FloatArray:
    """Return the discounted sum of the rewards of every episode, shape (n,)."""

    def found(problem: Problem) -> FloatArray:
        return np.concatenate([returns_to_go(problem, r)[problem.time[r] == 0] for r in problem.blocks()])

    return problem.once("returns", found)


@dataclass(frozen=True, slots=True, eq=False)
class _Solved:
    value: float
    low: float
    high: float
    unseen: float
    values: FloatArray
    action_values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Distinct (state, action, next state, end), how often each group saw them, and what they earned.

    Ends by the horizon's clock say what a step earned, not where it leads.
    """

    problem: Problem
    pair: IntArray
    after: IntArray
    goes_on: BoolArray
    by_clock: BoolArray
    counts: FloatArray
    rewards: FloatArray
    n_states: int
    policy: FloatArray
    starts: FloatArray
    logged: FloatArray | None

    @classmethod
    def of(
        cls,
        problem: Problem,
        here: IntArray,
        ahead: IntArray,
        n: int,
        start: IntArray,
        logged: FloatArray | None,
    ) -> _Cells:
        n_actions, g = problem.n_actions, problem.n_groups
        pair = here * n_actions + problem.actions
        clock = problem.terminal & (
            problem.time == (np.inf if problem.horizon is None else problem.horizon - 1)
        )
        key = (pair * n + ahead) * 3 + problem.terminal + clock
        distinct, cell = np.unique(key, return_inverse=True)
        flat = cell.reshape(-1) * g + problem.group
        shape = (len(distinct), g)
        counts = np.bincount(flat, minlength=shape[0] * g).reshape(shape).astype(np.float64)
        rewards = np.bincount(flat, weights=problem.rewards, minlength=shape[0] * g).astype(np.float64)
        policy = np.zeros((n, n_actions))
        policy[:] = 1.0 / n_actions  # states in which the policy is never asked
        goes = ~problem.terminal
        if problem.discount > 0.0:
            policy[ahead[goes]] = problem.following[goes] / problem.discount
        policy[start] = problem.start_chances
        starts = np.zeros((g + 1, n))
        np.add.at(starts, (problem.start_group, start), 1.0)
        if logged is not None:
            times = np.bincount(pair, minlength=n * n_actions)
            logged = np.bincount(pair, weights=logged, minlength=n * n_actions) / np.maximum(times, 1)
        return cls(
            problem=problem,
            logged=logged,
            pair=distinct // 3 // n,
            after=distinct // 3 % n,
            goes_on=distinct % 3 == 0,
            by_clock=distinct % 3 == 2,
            counts=counts,
            rewards=rewards.reshape(shape),
            n_states=n,
            policy=policy,
            starts=starts,
        )

    def like_tried(self, full: _Solved, untried: Untried) -> Untried:
        """Return how far the values of tried actions lie from those of their states."""
        seen = np.zeros(self.policy.shape, dtype=np.bool_)
        seen.reshape(-1)[self.pair] = True
        seen = np.tile(seen, (len(full.values) // len(seen), 1))
        several, known = seen.sum(axis=1) > 1, seen.any(axis=1)
        if not several.any():
            return untried
        apart = (full.action_values - full.values[:, None])[several][seen[several]]
        return Untried(
            untried.worst,
            untried.best,
            float(min(apart.min(), 0.0)),
            float(max(apart.max(), 0.0)),
            float(full.values[known].min()),
            float(full.values[known].max()),
        )

    def _worth(
        self, untried: Untried, tried: BoolArray, mass: FloatArray, value: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the least and the most (n,) that actions never tried in every state may be worth."""
        low, high = np.full(len(value), untried.worst), np.full(len(value), untried.best)
        if self.logged is None or not untried.by_chance:
            return low, high
        left_out = 1.0 - np.where(tried, self.logged, 0.0).reshape(self.policy.shape).sum(axis=1)
        chance = left_out > SMALL_SHARE * (1.0 - mass)  # the logging policy would have come to them
        nearby = np.where(mass > 0.0, value + untried.loss, untried.poorest)
        low[chance] = np.maximum(low, nearby)[chance]
        nearby = np.where(mass > 0.0, value + untried.gain, untried.richest)
        high[chance] = np.minimum(high, nearby)[chance]
        return low, high

    def _means(self, without: int | None) -> tuple[FloatArray, csc_matrix, BoolArray, BoolArray, FloatArray]:
        """Return, with all groups or without one, what pairs of state and action earn and where they lead.

        Rewards (n A,) and discounted frequencies (n A, n); whether a pair was seen, and seen before the last
        step; shares of the start states (n,).
        """
        n, n_actions = self.policy.shape
        counts, rewards, starts = self.counts.sum(axis=1), self.rewards.sum(axis=1), self.starts.sum(axis=0)
        if without is not None:
            counts, rewards = counts - self.counts[:, without], rewards - self.rewards[:, without]
            starts = starts - self.starts[without]
        visits, moved = (
            np.bincount(self.pair, weights=x, minlength=n * n_actions)
            for x in (counts, np.where(self.by_clock, 0.0, counts))
        )
        share = np.divide(
            counts, moved[self.pair], out=np.zeros_like(counts), where=self.goes_on & (counts > 0.5)
        )
        mean: FloatArray = np.bincount(self.pair, weights=rewards, minlength=n * n_actions).astype(float)
        mean = np.where(visits > 0.5, mean / np.maximum(visits, 1.0), 0.0)
        moves = csc_matrix((self.problem.discount * share, (self.pair, self.after)), shape=(n * n_actions, n))
        return mean, moves, visits > 0.5, moved > 0.5, starts / max(starts.sum(), 1.0)

    def backward(self, without: int | None, untried: Untried) -> _Solved:
        """Return the values over the horizon with all groups or without one, from the last step back."""
        mean, moves, paid, led, start = self._means(without)
        shape, horizon = self.policy.shape, self.problem.horizon
        assert horizon is not None
        ahead = np.zeros((shape[0], 4))  # value, least, most, share of actions never tried
        found = []
        for left, share in enumerate(self.problem.range_left(np.arange(horizon)[::-1]), start=1):
            low, high = self.problem.low * share, self.problem.high * share
            possible = replace(untried, worst=max(untried.worst, low), best=min(untried.best, high))
            middle = 0.5 * (possible.worst + possible.best)
            seen = paid if left == 1 else led
            q = np.where(seen[:, None], mean[:, None] * [1.0, 1.0, 1.0, 0.0] + moves @ ahead, 0.0)
            q = q.reshape(*shape, 4)
            chosen = np.where(seen.reshape(shape), self.policy, 0.0)
            mass, ahead = chosen.sum(axis=1), np.einsum("sa,sak->sk", chosen, q)
            tuned = np.divide(ahead[:, 0], mass, out=np.full(len(mass), middle), where=mass > 0.0)
            least, most = self._worth(possible, seen, mass, tuned)
            ahead[:, 0] = tuned
            ahead[:, 1:] += (1.0 - mass)[:, None] * np.column_stack([least, most, np.ones(len(mass))])
            if without is None:
                found.append((tuned, np.where(seen.reshape(shape), q[..., 0], tuned[:, None])))
        values, action_values = map(np.concatenate, zip(*found, strict=True)) if found else (ahead, ahead)
        value, low, high, unseen = (float(x) for x in start @ ahead)
        return _Solved(value, low, high, unseen, values, action_values)

    def solve(self, without: int | None, untried: Untried) -> _Solved:
        """Return the values with all groups or without one: Q = mean + moves V, with V = sum_a pi Q."""
        n, n_actions = self.policy.shape
        mean, moves, seen, _, start = self._means(without)
        pi = self.policy.reshape(-1)
        tried = np.where(seen, pi, 0.0)
        row = np.repeat(np.arange(n), n_actions)
        if self.problem.discount == 1.0:
            tried = tried * _reaches_end(csc_matrix((tried, (row, np.arange(len(row))))) @ moves, tried)[row]
        mass = tried.reshape(n, n_actions).sum(axis=1)
        chooses = csc_matrix((tried, (row, np.arange(n * n_actions))), shape=(n, n * n_actions))
        gap = 1.0 - mass
        earned = chooses @ mean
        scale = np.where(mass > 0.0, 1.0 / np.maximum(mass, 1e-300), 0.0)
        tuned = csc_matrix((tried * scale[row], (row, np.arange(n * n_actions))), shape=(n, n * n_actions))
        middle = 0.5 * (untried.worst + untried.best)
        value = splu((eye(n, format="csc") - tuned @ moves).tocsc()).solve(
            np.asarray(tuned @ mean) + np.where(mass > 0.0, 0.0, middle)
        )
        least, most = self._worth(untried, seen, mass, value)
        plain = splu((eye(n, format="csc") - chooses @ moves).tocsc())
        bounds = plain.solve(np.column_stack([earned + gap * least, earned + gap * most, gap]))
        low, high, unseen = start @ bounds
        values = np.where(seen, mean + moves @ value, value[row]).reshape(n, n_actions)
        return _Solved(float(start @ value), float(low), float(high), float(unseen), value, values)


def _reaches_end(chain: csc_matrix, tried: FloatArray) -> BoolArray:
    """Return from which states the logged steps that the policy takes lead to an end.

    Without discount the others have no finite sum of rewards, and count as never tried.
    """
    mass = tried.reshape(chain.shape[0], -1).sum(axis=1)
    found = np.asarray(chain.sum(axis=1)).reshape(-1) < mass - 1e-12
    while True:
        more = found | (chain @ found.astype(np.float64) > 0.0)
        if (more == found).all():
            return np.asarray(found)
        found = more
