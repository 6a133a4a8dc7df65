"""A deterministic grid world, its optimal values, and action values of many runs on it.

What each action does, the shortest way to the goal, Q* by value iteration; and Q as weights of features of a
state, for many runs side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from replaystats.basis import OneHot, TileCoding
from replaystats.toolkit import BoolArray, FloatArray, IntArray, check_int, check_real, must_be

STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left
N_ACTIONS = len(STEPS)
WALL, START, GOAL = "#", "S", "G"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class GridWorld:
    """A maze read from a picture: every step costs 1, a bump into a wall or the edge stays put.

    States are cells counted row by row; the pair of state s and action a has the code 4 s + a.

    Parameters
    ----------
    picture : sequence of str
        One string per row: ``#`` wall, ``S`` start, ``G`` goal, anything else free.

    Attributes
    ----------
    moves : ndarray of int, shape (4 n_states,)
        The next state of every pair.
    free : ndarray of bool, shape (n_states,)
        Cells that are not walls.

    Examples
    --------
    >>> world = GridWorld(["S.#", "..G"])
    >>> shortest_path(world), world.shape
    (3, (2, 3))
    """

    picture: Sequence[str]
    shape: tuple[int, int] = field(init=False)
    start: int = field(init=False)
    goal: int = field(init=False)
    moves: IntArray = field(init=False)
    free: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        cells = "".join(self.picture)
        shape = (len(self.picture), len(self.picture[0]) if self.picture else 0)
        if any(len(row) != shape[1] for row in self.picture):
            raise ValueError(must_be("picture", "rows of one length", [len(row) for row in self.picture]))
        for mark in (START, GOAL):
            if cells.count(mark) != 1:
                raise ValueError(must_be("picture", f"a maze with one {mark}", cells.count(mark)))
        free = np.array([cell != WALL for cell in cells])
        known = {"shape": shape, "start": cells.index(START), "goal": cells.index(GOAL), "free": free}
        known["moves"] = _moves(shape, free)
        for name, value in known.items():
            object.__setattr__(self, name, value)

    @property
    def n_states(self) -> int:
        """Number of cells, walls included."""
        return self.free.size

    @property
    def cells(self) -> FloatArray:
        """Row and column of every state, of shape (n_states, 2)."""
        return np.stack(np.unravel_index(np.arange(self.n_states), self.shape), axis=1).astype(float)

    @property
    def learnable(self) -> BoolArray:
        """States whose action values are defined: free, and not the goal."""
        learnable = self.free.copy()
        learnable[self.goal] = False
        return learnable

    def __repr__(self) -> str:
        return f"GridWorld({self.shape[0]} x {self.shape[1]}, {int((~self.free).sum())} walls)"


def _moves(shape: tuple[int, int], free: BoolArray) -> IntArray:
    """Return the next state of every pair, of shape (4 n_states,)."""
    rows, columns = np.unravel_index(np.arange(free.size), shape)
    here = np.arange(free.size)
    moves = np.empty((free.size, N_ACTIONS), dtype=np.intp)
    for action, (down, right) in enumerate(STEPS):
        row = np.clip(rows + down, 0, shape[0] - 1)
        column = np.clip(columns + right, 0, shape[1] - 1)
        there = row * shape[1] + column
        moves[:, action] = np.where(free & free[there], there, here)
    return moves.ravel()


def ring_maze(size: int = 20) -> GridWorld:
    """Return the maze of Zhang and Sutton (2017): a ring of walls one cell inside the edge of a square.

    The start lies in the middle, the goal in the corner outside the ring, and the only two gaps lie next to
    the opposite corner. Their maze has `size` 20, where the shortest way takes 54 steps.

    Examples
    --------
    >>> shortest_path(ring_maze())
    54
    """
    check_int(size, "size", low=6, hint="A smaller ring has no inside.")
    ring = {1, size - 2}
    inner = range(1, size - 1)
    picture = np.full((size, size), ".")
    for row in inner:
        for column in inner:
            if row in ring or column in ring:
                picture[row, column] = WALL
    picture[1, 2] = picture[2, 1] = "."
    picture[size // 2, size // 2], picture[size - 1, size - 1] = START, GOAL
    return GridWorld(["".join(row) for row in picture])


def shortest_path(world: GridWorld) -> int:
    """Return the number of steps from the start to the goal, found breadth first.

    Raises
    ------
    ValueError
        When no way leads to the goal.
    """
    moves = world.moves.reshape(-1, N_ACTIONS)
    reached = np.zeros(world.n_states, dtype=bool)
    frontier = np.array([world.start])
    for distance in range(world.n_states):
        if world.goal in frontier:
            return distance
        reached[frontier] = True
        neighbours = np.unique(moves[frontier])
        frontier = neighbours[~reached[neighbours]]
    raise ValueError(must_be("picture", "a maze whose goal can be reached from the start", repr(world)))


def optimal_values(world: GridWorld, discount: float = 1.0) -> FloatArray:
    """Return Q* by value iteration, of shape (n_states, 4); NaN for walls, 0 at the goal.

    Values start at 0, above the truth, and every sweep makes one more ring of cells around the goal exact,
    so with no discount n_states sweeps are enough and the answer has no rounding.
    """
    check_real(discount, "discount", low=0.0, high=1.0, closed="right")
    shortest_path(world)  # without a way to the goal undiscounted values have no limit
    moves = world.moves.reshape(-1, N_ACTIONS)
    q = np.zeros(moves.shape)
    for _ in range(world.n_states):
        sweep = discount * q.max(axis=1)[moves] - 1.0
        sweep[world.goal] = 0.0
        if np.array_equal(sweep[world.free], q[world.free]):
            break
        q = sweep
    q[~world.free] = np.nan
    return q


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
