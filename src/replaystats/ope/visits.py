"""Values and visits without products: averages over nearby logged steps, and ratios of visits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from .._core.thresholds import FOLDS, ITERATIONS, MANY, MIN_EFFECTIVE, N_NEIGHBORS, SAMPLED_ROWS, SMALL_SHARE
from .._core.typing import FloatArray, IntArray
from ..basis import RBF, Squashed
from .counts import episode_returns
from .intervals import GroupJackknife, mean_of_groups
from .linear import fit_linear, n_distinct
from .policies import one_hot
from .problem import Problem

# Rounding: iterate until values are this near the fixed point, as a share of their range: half the digits.
_ACCURACY = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class NeighborModel:
    """A decision process on logged steps: where an action leads is where it led from nearby.

    Attributes
    ----------
    problem : Problem
    trees : list of (ndarray of int, KDTree)
        For every action its rows and their places; one tree of states and actions where these are numbers.
    scale : ndarray
        Of every column of the places.
    rows : ndarray of int, shape (m,)
        Logged steps that are averaged.
    onward : sparse matrix of shape (m, m)
        Discounted chances to go on with every logged step.
    values : ndarray of shape (m,)
        Action values at the logged steps.
    """

    problem: Problem
    trees: list[tuple[IntArray, Any]]
    scale: FloatArray
    rows: IntArray
    onward: Any
    values: FloatArray

    def at(self, states: FloatArray, chances: FloatArray) -> FloatArray:
        """Return sum_a chances[:, a] Q(states, a), or the mean over draws of numbers; shape (k,)."""
        return np.asarray(self._weights(states, chances) @ self.values)

    def at_logged(self, rows: IntArray) -> FloatArray:
        """Return the values of logged states and actions, shape (k,)."""
        done = one_hot(self.problem.actions[rows], self.problem.n_actions)
        asked = [(self.problem.places[rows], chance) for chance in done.T]
        return np.asarray(_neighbors(self.trees, self.scale, asked, len(self.values)) @ self.values)

    def _weights(self, states: FloatArray, chances: FloatArray) -> Any:
        asked = _asked(self.problem, states, chances)
        return _neighbors(self.trees, self.scale, asked, len(self.values))

    def visits(self, states: FloatArray, chances: FloatArray) -> FloatArray:
        """Return how often every logged step is used, discounted, from these start states on, shape (m,)."""
        first = self._weights(states, chances)
        now = np.asarray(first.sum(axis=0)).ravel()
        total, back, begun = now.copy(), self.onward.T.tocsr(), float(now.sum())
        for _ in range(ITERATIONS):
            now = back @ now
            total += now
            if now.sum() <= _ACCURACY * begun:
                break
        return total


def fit_neighbors(problem: Problem, rows: IntArray, scale: FloatArray) -> NeighborModel:
    """Solve Q = reward + discount sum_a pi Q(next state, a) on some logged steps; the discount is below 1."""
    trees, onward = _paths(problem, rows, scale)
    rewards, low, high = problem.rewards[rows], problem.low, problem.high
    enough = _ACCURACY * (1.0 - problem.discount) * (high - low)
    values = np.clip(rewards / (1.0 - problem.discount), low, high)
    for _ in range(ITERATIONS):
        former, values = values, rewards + onward @ values
        if np.abs(values - former).max() <= enough:
            break
    return NeighborModel(problem, trees, scale, rows, onward, np.clip(values, low, high))


def _scale(problem: Problem) -> FloatArray:
    spread = problem.places.std(axis=0)
    return np.where(spread > 0.0, spread, 1.0)


def _paths(problem: Problem, rows: IntArray, scale: FloatArray) -> tuple[list[tuple[IntArray, Any]], Any]:
    """Return for every action its rows and the tree of their places, and where paths go on with what chance.

    There is no tree for an action that was never logged.
    """
    places, labels = problem.places[rows] / scale, problem.actions[rows]
    own = [np.flatnonzero(labels == action) for action in range(problem.n_actions)]
    trees: list[tuple[IntArray, Any]] = [(at, cKDTree(places[at]) if len(at) else None) for at in own]
    asked = _asked(problem, problem.next_states[rows], problem.following[rows])
    return trees, _neighbors(trees, scale, asked, len(rows))


Asked: TypeAlias = list[tuple[FloatArray, FloatArray]]


def _asked(problem: Problem, states: FloatArray, chances: FloatArray) -> Asked:
    """Return places (k, d) and their chances (k,) of every action, or of every draw of numbers."""
    if not problem.continuous:
        return [(states, chance) for chance in chances.T]
    draws = problem.draws(states)
    return [(places, chances[:, 0] / len(draws)) for places in draws]


def _neighbors(trees: list[tuple[IntArray, Any]], scale: FloatArray, asked: Asked, size: int) -> Any:
    """Return the sparse matrix (k, size) of weights on logged steps; actions never logged carry nothing."""
    n, parts = len(asked[0][0]), []
    for (places, chance), (own, tree) in zip(asked, cycle(trees), strict=False):
        there = np.flatnonzero(chance > 0.0)
        if tree is None or not len(there):
            continue
        k = min(N_NEIGHBORS, len(own))
        distance, place = (x.reshape(len(there), k) for x in tree.query(places[there] / scale, k=k))
        # A neighbour at no distance does not count without bound.
        weight = 1.0 / (distance + SMALL_SHARE * distance[:, -1:] + 1e-12)
        weight *= (chance[there] / weight.sum(axis=1))[:, None]
        parts.append((weight.ravel(), np.repeat(there, k), own[place].ravel()))
    if not parts:
        return csr_matrix((n, size))
    weights, rows, columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    return csr_matrix((weights, (rows, columns)), shape=(n, size))


def still_going(problem: Problem, n_steps: int) -> float:
    """Return the discounted share of the policy's paths that go on after so many steps.

    Paths lead from logged step to logged step, as for `NeighborModel`.
    """
    scale, n = _scale(problem), len(problem)
    trees, onward = _paths(problem, np.arange(n), scale)
    asked = _asked(problem, problem.start_states, problem.start_chances)
    first = _neighbors(trees, scale, asked, n)
    now, back = np.asarray(first.sum(axis=0)), onward.T.tocsr()
    now, begun = now.ravel(), float(now.sum())
    for _ in range(n_steps):
        now = back @ now
    return float(now.sum()) / max(begun, 1e-300)


def pull(model: NeighborModel, starts: IntArray) -> float:
    """Return how far neighbours move the policy's path at every step, in standard deviations of the log.

    A step leads to a next state, and goes on from its neighbours. Inside the log these lie on all sides; at
    its edge all lie inside, and a policy that would leave is held back. Squares and products of the states
    see both a drift and a loss of energy. From start states a path is moved once, which is no step of it.
    """
    problem, rows = model.problem, model.rows
    asked = problem.start_states[starts], problem.start_chances[starts]
    visits, first = model.visits(*asked), np.asarray(model._weights(*asked).sum(axis=0)).ravel()
    middle = problem.states[rows].mean(axis=0)
    here, ahead = (
        _moments((states - middle) / model.scale[: len(middle)])
        for states in (problem.states[rows], problem.next_states[rows])
    )
    onward = problem.following[rows].sum(axis=1)
    moved = (visits * onward) @ ahead - (visits - first) @ here
    spread = here.std(axis=0)
    varies = spread > 1e-9
    return float(np.max(np.abs(moved[varies]) / spread[varies], initial=0.0) / max(visits.sum(), 1e-300))


def _moments(states: FloatArray) -> FloatArray:
    return np.concatenate([states, states**2, states * np.roll(states, 1, axis=1)], axis=1)


# Steps that each coefficient of the ratio's first basis needs; the second one has half of the bumps.
STEPS_PER_COEFFICIENT = 2 * MIN_EFFECTIVE


@dataclass(frozen=True, slots=True, eq=False)
class MarginalRobust:
    """A doubly robust value whose ratios are of visits, not products along episodes.

    Attributes
    ----------
    found : GroupJackknife
        With the larger basis of the ratio, averaged over draws of its centres.
    correction : GroupJackknife
        What the ratio adds to the value of the neighbours.
    moved : GroupJackknife
        What half as many bumps would add to that.
    drawn : float
        Standard error of the average over draws.
    held_back : float
        See `pull`.
    n_bumps, n_steps : int
    """

    found: GroupJackknife
    correction: GroupJackknife
    moved: GroupJackknife
    drawn: float
    held_back: float
    n_bumps: int
    n_steps: int

    @property
    def leaves(self) -> bool:
        """Whether the policy would go where nothing was logged."""
        return self.held_back > SMALL_SHARE

    @property
    def bias_bound(self) -> float:
        """What values without the correction, or with a basis of half the size, differ by, noise taken off.

        The bias is the product of the errors of values and ratio. The correction estimates the error of the
        values, so that a ratio that is off by its own size at most leaves no more than that; and where
        doubling a basis halves its bias at least, the bias left is no larger than what the doubling moved.
        """
        return max(self.correction.beyond_noise, self.moved.beyond_noise)


def marginal_robust(problem: Problem, rng: np.random.Generator) -> MarginalRobust | None:
    """Return V(s_0) + sum of w x TD error, w = ratio of discounted visits of the policy to logged ones.

    Values V are averages over neighbours, fitted on other episodes. w is linear in bumps, and such that
    visits balance for every bump: then the sum of w x TD error is what LSTDQ gives for TD errors in place of
    rewards. The bias is the product of the errors of V and of w. None where the log is too short, where
    nothing is discounted, or where actions of the policy were never logged.
    """
    small = some_episodes(problem)
    most = len(small) // STEPS_PER_COEFFICIENT // small.n_actions - 1  # beside a constant
    if most < MIN_EFFECTIVE or not problem.discount < 1.0 or len(problem.never_logged):
        return None
    n_bumps = min(MANY, most, n_distinct(small.places))
    if n_bumps < MIN_EFFECTIVE:
        return None
    errors, start, held_back = _errors(small)
    base = mean_of_groups(start, small.start_group, small.n_groups)
    part, drawn = _corrections(small, errors, n_bumps, rng)
    half, _ = _corrections(small, errors, n_bumps // 2, rng)
    return MarginalRobust(
        found=base + part,
        correction=part,
        moved=half - part,
        drawn=drawn,
        held_back=held_back,
        n_bumps=n_bumps,
        n_steps=len(small),
    )


def _corrections(
    problem: Problem, errors: FloatArray, n_bumps: int, rng: np.random.Generator
) -> tuple[GroupJackknife, float]:
    """Return the sum of ratio x TD error, a mean over draws of the centres, and the standard error of that.

    One draw moves the value by a third of its standard error, of which leaving out episodes knows nothing.
    """
    draws = []
    for _ in range(FOLDS):
        basis = Squashed(RBF(n_bumps, intercept=True)).fit(problem.places, rng)
        draws.append(fit_linear(problem, basis, errors).at_start)
    values = np.array([found.value for found in draws])
    mean = GroupJackknife(float(values.mean()), np.mean([found.replicates for found in draws], axis=0))
    return mean, float(values.std(ddof=1) / np.sqrt(FOLDS))


def completed_by_neighbors(problem: Problem) -> float | None:
    """Return the mean return, values of neighbours filling in after cuts; on policy.

    They are fitted on other episodes. None where the log is too short, where nothing is discounted, or where
    episodes are cut off at the edge of the log, so that all neighbours of what follows lie inside.
    """
    if len(problem) < STEPS_PER_COEFFICIENT * (MIN_EFFECTIVE + 1) or not problem.discount < 1.0:
        return None
    small = some_episodes(problem)
    last = np.flatnonzero(np.append(np.diff(small.episode) != 0, True))
    last = last[~small.terminal[last]]
    after = replace(
        small,
        start_states=small.next_states[last],
        start_chances=np.ones((len(last), 1)),
        start_group=small.group[last],
    )
    _, values, held_back = _errors(after)
    if held_back > SMALL_SHARE:
        return None
    weight = problem.discount ** (small.time[last] + 1.0)
    n = len(np.unique(small.episode))
    return float(episode_returns(problem).mean() + weight @ values / n)


def _errors(problem: Problem) -> tuple[FloatArray, FloatArray, float]:
    """Return TD errors (N,) and values of the start states (m,), fitted on the other folds, and the pull."""
    scale = _scale(problem)
    errors, start, pulls = np.empty(len(problem)), np.empty(len(problem.start_states)), []
    for fold in range(2):
        fitted = np.flatnonzero(problem.group % 2 != fold)
        model = fit_neighbors(problem, fitted, scale)
        rows = np.flatnonzero(problem.group % 2 == fold)
        starts = np.flatnonzero(problem.start_group % 2 == fold)
        errors[rows] = (
            problem.rewards[rows]
            + model.at(problem.next_states[rows], problem.following[rows])
            - model.at_logged(rows)
        )
        start[starts] = model.at(problem.start_states[starts], problem.start_chances[starts])
        pulls.append(pull(model, starts))
    return errors, start, max(pulls)


def some_episodes(problem: Problem) -> Problem:
    """Return episodes of some `SAMPLED_ROWS` steps from all over the log, as many of every group, but two."""
    share = SAMPLED_ROWS / len(problem)
    if share >= 1.0:
        return problem
    group = problem.group[problem.data.step_offsets[:-1]]
    keep = np.zeros(problem.n_episodes, dtype=np.bool_)
    for g in range(problem.n_groups):
        own = np.flatnonzero(group == g)
        n = min(len(own), max(2, int(share * len(own))))
        keep[own[((np.arange(n) + 0.5) * len(own) / n).astype(np.intp)]] = True
    return problem if keep.all() else problem.of_episodes(keep)
