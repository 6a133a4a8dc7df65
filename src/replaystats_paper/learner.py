"""Q-learning with experience replay on a maze: many independent runs advanced in lockstep.

A step is a hundred-odd numbers per run, far too few for NumPy, so runs are laid side by side and a step of
all of them is a few dozen array operations, on the rings of `replaystats.ReplayBuffer`. Every run owns its
random stream: what it does depends neither on the runs beside it nor on how many there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from replaystats.toolkit import (
    BoolArray,
    FloatArray,
    IntArray,
    Rings,
    check_choice,
    check_int,
    check_length,
    check_real,
    must_be,
)

STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left
N_ACTIONS = len(STEPS)
WALL, START, GOAL = "#", "S", "G"
SAMPLERS = ("uniform", "combined")


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
    >>> shortest_path(world), world
    (3, GridWorld(2 x 3, 1 walls))
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
    def learnable(self) -> BoolArray:
        """States whose action values are defined: free, and not the goal."""
        return np.asarray(self.free & (np.arange(self.n_states) != self.goal))

    def __repr__(self) -> str:
        return f"GridWorld({self.shape[0]} x {self.shape[1]}, {int((~self.free).sum())} walls)"


def _moves(shape: tuple[int, int], free: BoolArray) -> IntArray:
    """Return the next state of every pair, of shape (4 n_states,)."""
    here = np.arange(free.size)
    rows, columns = np.unravel_index(here, shape)
    moves = np.empty((free.size, N_ACTIONS), dtype=np.intp)
    for action, (down, right) in enumerate(STEPS):
        row = np.clip(rows + down, 0, shape[0] - 1)
        there = row * shape[1] + np.clip(columns + right, 0, shape[1] - 1)
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
    picture = np.full((size, size), ".")
    picture[1:-1, 1:-1] = WALL
    picture[2:-2, 2:-2] = "."
    picture[1, 2] = picture[2, 1] = "."
    picture[size // 2, size // 2], picture[-1, -1] = START, GOAL
    return GridWorld(["".join(row) for row in picture])


def _distances(world: GridWorld) -> FloatArray:
    """Return the number of steps from every state to the goal, infinite where no way leads there."""
    moves, distance = world.moves.reshape(-1, N_ACTIONS), np.full(world.n_states, np.inf)
    distance[world.goal] = 0.0
    for _ in range(world.n_states):  # one more ring of cells around the goal is exact after every sweep
        distance = np.minimum(distance, 1.0 + distance[moves].min(axis=1))
    if not np.isfinite(distance[world.start]):
        raise ValueError(must_be("picture", "a maze whose goal can be reached from the start", repr(world)))
    return distance


def shortest_path(world: GridWorld) -> int:
    """Return the number of steps from the start to the goal.

    Raises
    ------
    ValueError
        When no way leads to the goal.
    """
    return int(_distances(world)[world.start])


def optimal_values(world: GridWorld) -> FloatArray:
    """Return Q* by value iteration, of shape (n_states, 4); NaN for walls, 0 at the goal."""
    q: FloatArray = -1.0 - _distances(world)[world.moves.reshape(-1, N_ACTIONS)]
    q[world.goal] = 0.0
    q[~world.free] = np.nan
    return q


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How Q-learning replays: everything but the capacity of the memory.

    Attributes
    ----------
    sampler : {"uniform", "combined"}
        "combined" replaces the last transition of a minibatch by the latest one.
    minibatch : int
        Transitions per minibatch, k.
    ratio : float
        Minibatches per environment step, B: a whole number, or one over a whole number.
    step_size, explore : float
        Step size per transition, and the share of random actions.

    Examples
    --------
    >>> Rule(ratio=0.25).period, Rule(ratio=16).minibatches
    (4, 16)
    """

    sampler: str = "uniform"
    minibatch: int = 10
    ratio: float = 1.0
    step_size: float = 0.1
    explore: float = 0.1

    def __post_init__(self) -> None:
        check_choice(self.sampler, "sampler", SAMPLERS)
        check_int(self.minibatch, "minibatch")
        ratio = check_real(self.ratio, "ratio", low=0.0, closed="neither")
        if not (ratio.is_integer() or (1 / ratio).is_integer()):
            raise ValueError(must_be("ratio", "a whole number, or one over a whole number", ratio))
        check_real(self.step_size, "step_size", low=0.0, high=1.0, closed="right")
        check_real(self.explore, "explore", low=0.0, high=1.0)

    @property
    def minibatches(self) -> int:
        """Minibatches in a step that learns."""
        return max(1, round(self.ratio))

    @property
    def period(self) -> int:
        """Environment steps from one step that learns to the next."""
        return max(1, round(1 / self.ratio))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """For how long a run goes on: its episodes, and the steps after which one is cut off."""

    n_episodes: int = 150
    timeout: int = 5000

    def __post_init__(self) -> None:
        check_int(self.n_episodes, "n_episodes")
        check_int(self.timeout, "timeout")


@dataclass(frozen=True, slots=True, eq=False)
class Histories:
    """What a set of runs did.

    Attributes
    ----------
    returns : ndarray of shape (n_runs, n_episodes)
        Sum of the rewards of every episode.
    q : ndarray of shape (n_runs, n_states, 4)
        Action values after the last episode.
    n_steps : int
        Environment steps of all runs.
    """

    returns: FloatArray
    q: FloatArray
    n_steps: int

    def __repr__(self) -> str:
        return f"Histories({self.returns.shape[0]} runs x {self.returns.shape[1]} episodes)"


# Looking at the actions in a random order makes the first best one a fair choice among equals.
ORDERS = np.array(list(itertools.permutations(range(N_ACTIONS))))
# Batch: uniforms drawn ahead for all runs together: 2 MB stay in the cache.
NOISE_BLOCK = 2**18


class Noise:
    """Rows of uniforms, one row per run and step, each run from its own generator."""

    def __init__(self, generators: Sequence[np.random.Generator], width: int) -> None:
        self._generators = list(generators)
        self._shape = (max(1, NOISE_BLOCK // (width * len(generators))), width)
        self._block = np.empty((len(generators), 0, width))
        self._used = 0

    def next(self) -> FloatArray:
        """Return the uniforms of the next step, of shape (n_runs, width)."""
        if self._used == self._block.shape[1]:
            self._block = np.stack([generator.random(self._shape) for generator in self._generators])
            self._used = 0
        self._used += 1
        uniforms: FloatArray = self._block[:, self._used - 1]
        return uniforms

    def keep(self, runs: BoolArray) -> None:
        """Forget the runs that are not marked."""
        self._generators = [g for g, kept in zip(self._generators, runs, strict=True) if kept]
        self._block = self._block[runs]


class Lockstep:
    """Many runs of Q-learning with replay under one rule, each with its own capacity and random stream.

    A step of every run: (1) choose an action, greedy up to exploration; (2) move, and store the transition;
    (3) if the rule says so, replay minibatches: draw k transitions, compute their errors against the
    values before the minibatch, add them all, but carry no pair that came often past its target;
    (4) begin the next episode where one has ended. Action values start at 0.

    Parameters
    ----------
    world : GridWorld
    rule : Rule
    schedule : Schedule
    capacities : ndarray of int, shape (n_runs,)
    generators : sequence of n_runs Generators

    Examples
    --------
    >>> world = GridWorld(["S..G"])
    >>> runs = Lockstep(world, Rule(), Schedule(n_episodes=20), np.array([50, 50]),
    ...                 [np.random.default_rng(seed) for seed in (1, 2)]).run()
    >>> runs, float(runs.returns[:, -5:].max())
    (Histories(2 runs x 20 episodes), -3.0)
    """

    def __init__(
        self,
        world: GridWorld,
        rule: Rule,
        schedule: Schedule,
        capacities: IntArray,
        generators: Sequence[np.random.Generator],
    ) -> None:
        n_runs = len(capacities)
        check_length(len(generators), n_runs, "generators", "capacities")
        self.world, self.rule, self.schedule = world, rule, schedule
        self.q: FloatArray = np.zeros((n_runs, world.n_states, N_ACTIONS))
        # No run stores more than this, so no larger ring is needed to hold everything.
        most = schedule.n_episodes * schedule.timeout
        # The world is deterministic, so the two bytes of a pair (state, action) are all a transition needs.
        self.memory = Rings(np.minimum(capacities, most), {"pair": ((), np.int16)})
        self._noise = Noise(generators, 2 + rule.minibatches * rule.minibatch)
        self.run_ids = np.arange(n_runs)
        self.n_lockstep = self._n_steps = 0
        self._state = np.full(n_runs, world.start)
        self._age = np.zeros(n_runs, dtype=np.intp)  # steps in the present episode
        self._episode = np.zeros(n_runs, dtype=np.intp)
        self._returns = np.full((n_runs, schedule.n_episodes), np.nan)
        self._final = np.full(self.q.shape, np.nan)
        self._alive = (np.arange(world.n_states) != world.goal).astype(float)

    def run(self) -> Histories:
        """Go on until every run has had its episodes."""
        while self.run_ids.size:
            self.step()
        return Histories(self._returns, self._final, self._n_steps)

    def step(self) -> None:
        """Advance every run by one environment step."""
        uniforms = self._noise.next()
        pairs = self._state * N_ACTIONS + self._choose(uniforms[:, :2])
        self._state = self.world.moves.take(pairs)
        self._age += 1
        ended = (self._state == self.world.goal) | (self._age == self.schedule.timeout)
        self.memory.append({"pair": pairs})
        self.n_lockstep += 1
        self._n_steps += pairs.size
        if self.n_lockstep % self.rule.period == 0:
            k = self.rule.minibatch
            for begin in range(2, uniforms.shape[1], k):
                self._replay(uniforms[:, begin : begin + k])
        if ended.any():
            self._close_episodes(ended)

    def _of_states(self, states: IntArray) -> FloatArray:
        """Return the values of all actions, of shape (n_runs, m, 4), in `states` (n_runs, m)."""
        first = np.arange(len(states))[:, None] * self.world.n_states
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
        if self.rule.sampler == "combined":
            slots[:, -1] = self.memory.newest
        pairs = self.memory.arrays["pair"].take(slots).astype(np.intp)
        flat = self.q.reshape(-1)
        places = pairs + np.arange(len(pairs))[:, None] * (N_ACTIONS * self.world.n_states)
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
        self._returns[self.run_ids[now], self._episode[now]] = -self._age[now]
        self._episode[now] += 1
        self._state[now] = self.world.start
        self._age[now] = 0
        going = self._episode < self.schedule.n_episodes
        if not going.all():
            self._final[self.run_ids[~going]] = self.q[~going]
            self._keep(going)

    def _keep(self, runs: BoolArray) -> None:
        self.memory.keep(runs)
        self._noise.keep(runs)
        self.q, self.run_ids, self._state = self.q[runs], self.run_ids[runs], self._state[runs]
        self._age, self._episode = self._age[runs], self._episode[runs]
