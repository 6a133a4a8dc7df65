"""Action values of many runs at once: a weight per feature and action, features that are on or off."""

from __future__ import annotations

import numpy as np

from replaystats.basis import OneHot, TileCoding
from replaystats.toolkit import BoolArray, FloatArray, IntArray

from .gridworld import N_ACTIONS, GridWorld

N_TILINGS, TILE_WIDTH = 4, 2


def active_features(world: GridWorld, kind: str) -> IntArray:
    """Return the features that are on in every state, of shape (n_states, n_active).

    Parameters
    ----------
    world : GridWorld
    kind : {"table", "tiles"}
        One feature per state, or 4 shifted grids of tiles two cells wide. Tiles share what is learnt with
        neighbours, across walls too. Much coarser tiles make Q-learning diverge on the maze.

    Examples
    --------
    >>> active_features(GridWorld(["SG"]), "table")
    array([[0],
           [1]])
    """
    if kind == "table":
        features = OneHot(world.n_states)(np.arange(world.n_states))
    else:
        tiles = [-(-side // TILE_WIDTH) for side in world.shape]
        basis = TileCoding(N_TILINGS, tiles, low=0.0, high=[float(t * TILE_WIDTH) for t in tiles])
        features = basis(world.cells + 0.5)
    return np.nonzero(features)[1].reshape(world.n_states, -1)


class ActionValues:
    """Q(s, a) = sum of the weights of the features of s under action a, for every run.

    Parameters
    ----------
    n_runs : int
    active : ndarray of int, shape (n_states, n_active)
        The features that are on in each state; a single one per state makes a table.

    Attributes
    ----------
    weights : ndarray of shape (n_runs, n_features, 4)
        All start at 0.
    """

    def __init__(self, n_runs: int, active: IntArray) -> None:
        self.weights: FloatArray = np.zeros((n_runs, int(active.max()) + 1, N_ACTIONS))
        self.n_active = active.shape[1]
        self._active = active
        # Per tiling, so that a table (one tiling) pays for no loop over features.
        self._features = [np.ascontiguousarray(column) for column in active.T]
        self._pairs = [(column[:, None] * N_ACTIONS + np.arange(N_ACTIONS)).ravel() for column in active.T]
        self._view()

    def _view(self) -> None:
        n_runs, n_features, _ = self.weights.shape
        self._rows = self.weights.reshape(-1, N_ACTIONS)
        self._flat = self.weights.reshape(-1)
        self._first_row = np.arange(n_runs)[:, None] * n_features
        self._first_flat = self._first_row * N_ACTIONS

    def of_states(self, states: IntArray) -> FloatArray:
        """Return the values of all actions, of shape (n_runs, m, 4), in `states` (n_runs, m)."""
        values: FloatArray = self._rows.take(self._features[0].take(states) + self._first_row, axis=0)
        for features in self._features[1:]:
            values += self._rows.take(features.take(states) + self._first_row, axis=0)
        return values

    def of_pairs(self, pairs: IntArray) -> FloatArray:
        """Return the values of `pairs` (codes 4 s + a), both of shape (n_runs, m)."""
        values: FloatArray = self._flat.take(self._pairs[0].take(pairs) + self._first_flat)
        for features in self._pairs[1:]:
            values += self._flat.take(features.take(pairs) + self._first_flat)
        return values

    def add(self, pairs: IntArray, amounts: FloatArray) -> None:
        """Add `amounts` to every weight that is on for `pairs`; pairs that come twice are added twice."""
        for features in self._pairs:
            np.add.at(self._flat, (features.take(pairs) + self._first_flat).ravel(), amounts.ravel())

    def table(self, runs: IntArray) -> FloatArray:
        """Return Q of the given runs as a table, of shape (len(runs), n_states, 4)."""
        table: FloatArray = self.weights[runs][:, self._active].sum(axis=2)
        return table

    def keep(self, runs: BoolArray) -> None:
        """Forget the runs that are not marked."""
        self.weights = self.weights[runs]
        self._view()
