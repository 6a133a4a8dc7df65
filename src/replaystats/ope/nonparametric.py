"""Values without a basis: averages over nearby logged steps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from .._core.typing import FloatArray, IntArray
from .problem import Problem

# Logged steps that are averaged: few, because what happens in control is nearly certain.
N_NEIGHBORS = 4
# A neighbour at no distance does not count without bound: this share of the farthest one's distance is added.
_SOFTER = 0.05
# Iterate until values are this near the fixed point, as a share of their range.
_ACCURACY, _MOST_ITERATIONS = 1e-3, 5000


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
        done = np.eye(self.problem.n_actions)[self.problem.actions[rows]]
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
        for _ in range(_MOST_ITERATIONS):
            now = back @ now
            total += now
            if now.sum() <= _ACCURACY * begun:
                break
        return total


def fit_neighbors(problem: Problem, rows: IntArray, scale: FloatArray) -> NeighborModel:
    """Solve Q = reward + discount sum_a pi Q(next state, a) on some logged steps; the discount is below 1."""
    trees = _plant(problem.places[rows] / scale, problem.actions[rows], problem.n_actions)
    asked = _asked(problem, problem.next_states[rows], problem.following[rows])
    onward = _neighbors(trees, scale, asked, len(rows))
    rewards, low, high = problem.rewards[rows], problem.low, problem.high
    enough = _ACCURACY * (1.0 - problem.discount) * (high - low)
    values = np.clip(rewards / (1.0 - problem.discount), low, high)
    for _ in range(_MOST_ITERATIONS):
        former, values = values, rewards + onward @ values
        if np.abs(values - former).max() <= enough:
            break
    return NeighborModel(problem, trees, scale, rows, onward, np.clip(values, low, high))


def _plant(places: FloatArray, labels: IntArray, n_actions: int) -> list[tuple[IntArray, Any]]:
    """Return for every action its rows and the tree of their places; no tree where it was never logged."""
    own = [np.flatnonzero(labels == action) for action in range(n_actions)]
    return [(rows, cKDTree(places[rows]) if len(rows) else None) for rows in own]


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
        weight = 1.0 / (distance + _SOFTER * distance[:, -1:] + 1e-12)
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
    spread, n = problem.places.std(axis=0), len(problem)
    scale = np.where(spread > 0.0, spread, 1.0)
    trees = _plant(problem.places / scale, problem.actions, problem.n_actions)
    first, onward = (
        _neighbors(trees, scale, _asked(problem, *asked), n)
        for asked in (
            (problem.start_states, problem.start_chances),
            (problem.next_states, problem.following),
        )
    )
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
