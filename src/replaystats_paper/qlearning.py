"""Q-learning with experience replay on a maze (Appendix D): independent runs advanced in lockstep.

A step is a hundred-odd numbers per run, far too few for NumPy, so the runs of a cell are laid side by side
and a step of all of them is a few dozen array operations, on the rings of `replaystats.ReplayBuffer`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from replaystats.toolkit import BoolArray, FloatArray, IntArray, Rings, check_int, check_real, must_be

from .cells import Cell, Settings, cell_stream

STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left
N_ACTIONS = len(STEPS)
WALL, START, GOAL = "#", "S", "G"
# Looking at the actions in a random order makes the first best one a fair choice among equals.
ORDERS = np.array(list(itertools.permutations(range(N_ACTIONS))))
# Returns are averaged over the last episodes, this share of them.
LATE = 0.6


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
    moves : ndarray of int, shape (n_states, 4)
        The next state of every pair.
    free : ndarray of bool, shape (n_states,)
        Cells that are not walls.

    Examples
    --------
    >>> world = GridWorld(["S.#", "..G"])
    >>> int(world.distances()[world.start]), world
    (3, GridWorld(2 x 3, 1 walls))
    """

    picture: Sequence[str]
    start: int = field(init=False)
    goal: int = field(init=False)
    moves: IntArray = field(init=False)
    free: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        cells, width = "".join(self.picture), len(self.picture[0])
        if any(len(row) != width for row in self.picture):
            raise ValueError(must_be("picture", "rows of one length", [len(row) for row in self.picture]))
        for mark in (START, GOAL):
            if cells.count(mark) != 1:
                raise ValueError(must_be("picture", f"a maze with one {mark}", cells.count(mark)))
        free = np.array([cell != WALL for cell in cells])
        places = np.array(np.unravel_index(np.arange(free.size), (len(self.picture), width)))
        moves = np.empty((free.size, N_ACTIONS), dtype=np.intp)
        for action, step in enumerate(STEPS):
            rows, columns = places + np.array(step)[:, None]
            there = rows.clip(0, len(self.picture) - 1) * width + columns.clip(0, width - 1)
            moves[:, action] = np.where(free & free[there], there, np.arange(free.size))
        known = {"start": cells.index(START), "goal": cells.index(GOAL), "free": free, "moves": moves}
        for name, value in known.items():
            object.__setattr__(self, name, value)

    @property
    def learnable(self) -> BoolArray:
        """States whose action values are defined: free, and not the goal."""
        return np.asarray(self.free & (np.arange(self.free.size) != self.goal))

    def distances(self) -> FloatArray:
        """Return the number of steps from every state to the goal, infinite where no way leads there."""
        distance = np.full(self.free.size, np.inf)
        distance[self.goal] = 0.0
        for _ in range(distance.size):  # one more ring of cells around the goal is exact after every sweep
            distance = np.minimum(distance, 1.0 + distance[self.moves].min(axis=1))
        if not np.isfinite(distance[self.start]):
            rule = "a maze whose goal can be reached from the start"
            raise ValueError(must_be("picture", rule, repr(self)))
        return distance

    def __repr__(self) -> str:
        rows = len(self.picture)
        return f"GridWorld({rows} x {self.free.size // rows}, {int((~self.free).sum())} walls)"


def ring_maze(size: int = 20) -> GridWorld:
    """Return the maze of Zhang and Sutton (2017): a ring of walls one cell inside the edge of a square.

    The start lies in the middle, the goal in the corner outside the ring, and the only two gaps lie next to
    the opposite corner. Their maze has `size` 20, where the shortest way takes 54 steps.

    Examples
    --------
    >>> maze = ring_maze()
    >>> int(maze.distances()[maze.start])
    54
    """
    check_int(size, "size", low=6, hint="A smaller ring has no inside.")
    picture = np.full((size, size), ".")
    picture[1:-1, 1:-1] = WALL
    picture[2:-2, 2:-2] = "."
    picture[1, 2] = picture[2, 1] = "."
    picture[size // 2, size // 2], picture[-1, -1] = START, GOAL
    return GridWorld(["".join(row) for row in picture])


def optimal_values(world: GridWorld) -> FloatArray:
    """Return Q* by value iteration, of shape (n_states, 4); NaN for walls, 0 at the goal."""
    q: FloatArray = -1.0 - world.distances()[world.moves]
    q[world.goal] = 0.0
    q[~world.free] = np.nan
    return q


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How Q-learning replays, and for how long a run goes on.

    Attributes
    ----------
    minibatch, ratio : int
        Transitions per minibatch, k, and minibatches per environment step, B.
    step_size, explore : float
        Step size per transition, and the share of random actions.
    n_episodes, timeout : int
        Episodes of a run, and the steps after which one is cut off.
    """

    minibatch: int = 10
    ratio: int = 1
    step_size: float = 0.1
    explore: float = 0.1
    n_episodes: int = 150
    timeout: int = 5000

    def __post_init__(self) -> None:
        for name in ("minibatch", "ratio", "n_episodes", "timeout"):
            check_int(getattr(self, name), name)
        check_real(self.step_size, "step_size", low=0.0, high=1.0, closed="right")
        check_real(self.explore, "explore", low=0.0, high=1.0)


class Lockstep:
    """Many runs of Q-learning with replay under one rule.

    A step of every run: (1) choose an action, greedy up to exploration; (2) move, and store the transition;
    (3) replay B minibatches: draw k transitions, compute their errors against the values before the
    minibatch, add them all, but carry no pair that came often past its target; (4) begin the next episode
    where one has ended. Action values start at 0.

    Parameters
    ----------
    world : GridWorld
    rule : Rule
    capacities : ndarray of int, shape (n_runs,)
        Of the memory of each run, n.

    Attributes
    ----------
    returns : ndarray of shape (n_runs, n_episodes)
        Sum of the rewards of every episode.
    final : ndarray of shape (n_runs, n_states, 4)
        Action values after the last episode.

    Examples
    --------
    >>> runs = Lockstep(GridWorld(["S..G"]), Rule(n_episodes=20), np.array([50, 50]))
    >>> float(runs.run(np.random.default_rng(0)).returns[:, -5:].max())
    -3.0
    """

    def __init__(self, world: GridWorld, rule: Rule, capacities: IntArray) -> None:
        n_runs = len(capacities)
        self.world, self.rule = world, rule
        self.q: FloatArray = np.zeros((n_runs, world.free.size, N_ACTIONS))
        # No run stores more than this, so no larger ring is needed to hold everything.
        most = rule.n_episodes * rule.timeout
        # The world is deterministic, so the two bytes of a pair (state, action) are all a transition needs.
        self.memory = Rings(np.minimum(capacities, most), {"pair": ((), np.int16)})
        self.run_ids = np.arange(n_runs)
        self.returns = np.full((n_runs, rule.n_episodes), np.nan)
        self.final = np.full(self.q.shape, np.nan)
        self.width = 2 + rule.ratio * rule.minibatch  # uniforms that a step of a run needs
        self._state = np.full(n_runs, world.start)
        self._age = np.zeros(n_runs, dtype=np.intp)  # steps in the present episode
        self._episode = np.zeros(n_runs, dtype=np.intp)
        self._alive = (np.arange(world.free.size) != world.goal).astype(float)

    def run(self, rng: np.random.Generator) -> Lockstep:
        """Go on until every run has had its episodes."""
        while self.run_ids.size:
            self.step(rng.random((self.run_ids.size, self.width)))
        return self

    def step(self, uniforms: FloatArray) -> None:
        """Advance every run by one environment step, by uniform numbers (n_runs, width)."""
        pairs = self._state * N_ACTIONS + self._choose(uniforms[:, :2])
        self._state = self.world.moves.take(pairs)
        self._age += 1
        ended = (self._state == self.world.goal) | (self._age == self.rule.timeout)
        self.memory.append({"pair": pairs})
        for begin in range(2, self.width, self.rule.minibatch):
            self._replay(uniforms[:, begin : begin + self.rule.minibatch])
        if ended.any():
            self._close_episodes(ended)

    def _of_states(self, states: IntArray) -> FloatArray:
        """Return the values of all actions, of shape (n_runs, m, 4), in `states` (n_runs, m)."""
        first = np.arange(len(states))[:, None] * self.world.free.size
        return self.q.reshape(-1, N_ACTIONS).take(states + first, axis=0)

    def _choose(self, uniforms: FloatArray) -> IntArray:
        """Return an action per run: the first best in a random order, or simply the first to explore."""
        order = ORDERS.take((uniforms[:, 1] * len(ORDERS)).astype(np.intp), axis=0)
        values = np.take_along_axis(self._of_states(self._state[:, None])[:, 0], order, axis=1)
        place = values.argmax(axis=1)
        place[uniforms[:, 0] < self.rule.explore] = 0
        action: IntArray = order[np.arange(place.size), place]
        return action

    def _replay(self, uniforms: FloatArray) -> None:
        """Replay one minibatch in every run, drawn with replacement."""
        slots = (uniforms * self.memory.size[:, None]).astype(np.intp) + self.memory.first[:, None]
        pairs = self.memory.arrays["pair"].take(slots).astype(np.intp)
        flat = self.q.reshape(-1)
        places = pairs + np.arange(len(pairs))[:, None] * self.world.moves.size
        steps = (self._targets(pairs) - flat.take(places)) * self._step_sizes(pairs)
        np.add.at(flat, places.ravel(), steps.ravel())  # pairs that come twice are added twice

    def _step_sizes(self, pairs: IntArray) -> float | FloatArray:
        """Return the step size, smaller for a pair that came so often that the sum would overshoot."""
        step_size = self.rule.step_size
        if pairs.shape[1] * step_size <= 1.0:
            return step_size
        copies = (pairs[:, :, None] == pairs[:, None, :]).sum(axis=2)
        step_sizes: FloatArray = np.minimum(step_size, 1.0 / copies)
        return step_sizes

    def _targets(self, pairs: IntArray) -> FloatArray:
        """Return the reward, -1, plus the best value of the state that it led to, also where time ran out."""
        after = self.world.moves.take(pairs)
        q = self._of_states(after)
        # Two by two: a reduction over an axis of four costs several times more.
        best = np.maximum(np.maximum(q[..., 0], q[..., 1]), np.maximum(q[..., 2], q[..., 3]))
        targets: FloatArray = -1.0 + self._alive.take(after) * best
        return targets

    def _close_episodes(self, ended: BoolArray) -> None:
        """Write down the episodes that ended, begin the next ones, and let go of runs that are through."""
        now = np.flatnonzero(ended)
        self.returns[self.run_ids[now], self._episode[now]] = -self._age[now]
        self._episode[now] += 1
        self._state[now] = self.world.start
        self._age[now] = 0
        going = self._episode < self.rule.n_episodes
        if not going.all():
            self.final[self.run_ids[~going]] = self.q[~going]
            self.memory.keep(going)
            self.q, self.run_ids, self._state = self.q[going], self.run_ids[going], self._state[going]
            self._age, self._episode = self._age[going], self._episode[going]


def run_qlearning_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return the late returns of every run, and the error of Q after the last episode in its two parts.

    Squared bias and variance (divisor R - 1) are averaged over the pairs; what the variance adds to the
    squared distance of the mean is taken off the squared bias, so that they add up to the squared error.
    """
    world, rule = ring_maze(), Rule(ratio=cell["B"], n_episodes=cell["episodes"])
    runs = Lockstep(world, rule, np.full(repetitions, cell["n"])).run(cell_stream(settings.seed, cell.key))
    errors = (runs.final - optimal_values(world))[:, world.learnable]
    variance = float(errors.var(axis=0, ddof=1).mean())
    late = runs.returns[:, -round(LATE * rule.n_episodes) :]
    return {
        "returns": late.mean(axis=1).tolist(),
        "bias2": float(np.square(errors).mean()) - variance,
        "variance": variance,
    }
