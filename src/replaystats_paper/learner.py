"""The algorithm: Q-learning with experience replay, many independent runs advanced in lockstep.

A step is a hundred-odd numbers per run, far too few for NumPy, so runs are laid side by side and a step of
all of them is a few dozen array operations. Every run owns its random stream: what it does depends neither
on the runs beside it nor on how many there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from replaystats.toolkit import (
    BoolArray,
    FloatArray,
    IntArray,
    Rings,
    SumTrees,
    check_choice,
    check_int,
    check_length,
    check_real,
    must_be,
)

from .gridworld import N_ACTIONS, ActionValues, GridWorld, active_features

FEATURES = ("table", "tiles")
TIMEOUTS = ("bootstrap", "end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How Q-learning replays: everything but the capacity of the memory.

    Attributes
    ----------
    sampler : {"uniform", "combined", "prioritised"}
    minibatch : int
        Transitions per minibatch, k.
    ratio : float
        Minibatches per environment step, B: a whole number, or one over a whole number.
    n_step : int
        Rewards taken before the bootstrap, without off-policy correction.
    features : {"table", "tiles"}
        A table of action values, or linear in tiles of the row and column.
    timeouts : {"bootstrap", "end"}
        Whether the last transition of an episode that was cut off bootstraps like any other (right: the
        world goes on), or is mistaken for an end of value 0.
    step_size, discount, explore : float
        Step size per transition (shared out over the active features), discount, and the share of
        random actions.

    Examples
    --------
    >>> Rule(ratio=0.25).period, Rule(ratio=16).minibatches
    (4, 16)
    """

    sampler: str = "uniform"
    minibatch: int = 10
    ratio: float = 1.0
    n_step: int = 1
    features: str = "table"
    timeouts: str = "bootstrap"
    step_size: float = 0.1
    discount: float = 1.0
    explore: float = 0.1

    def __post_init__(self) -> None:
        check_choice(self.sampler, "sampler", SAMPLERS)
        check_choice(self.features, "features", FEATURES)
        check_choice(self.timeouts, "timeouts", TIMEOUTS)
        check_int(self.minibatch, "minibatch")
        check_int(self.n_step, "n_step")
        ratio = check_real(self.ratio, "ratio", low=0.0, closed="neither")
        if not (ratio.is_integer() or (1 / ratio).is_integer()):
            raise ValueError(must_be("ratio", "a whole number, or one over a whole number", ratio))
        check_real(self.step_size, "step_size", low=0.0, high=1.0, closed="right")
        check_real(self.discount, "discount", low=0.0, high=1.0, closed="right")
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
    """For how long a run goes on, and when its action values are looked at.

    Attributes
    ----------
    n_episodes : int
    timeout : int
        Steps after which an episode is cut off.
    checkpoints : tuple of int
        Numbers of finished episodes after which Q is kept.
    """

    n_episodes: int = 150
    timeout: int = 5000
    checkpoints: tuple[int, ...] = (30, 60, 150)

    def __post_init__(self) -> None:
        check_int(self.n_episodes, "n_episodes")
        check_int(self.timeout, "timeout")
        for checkpoint in self.checkpoints:
            check_int(checkpoint, "checkpoints", high=self.n_episodes)


# Looking at the actions in a random order makes the first best one a fair choice among equals.
ORDERS = np.array(list(itertools.permutations(range(N_ACTIONS))))
DIVERGED = 1e6  # no return of an episode comes near; weights above it only ever grow
NOISE_BLOCK = 2**18  # uniforms drawn ahead for all runs together: 2 MB stay in the cache


@dataclass(frozen=True, slots=True, eq=False)
class Histories:
    """What a set of runs did.

    Attributes
    ----------
    returns : ndarray of shape (n_runs, n_episodes)
        Sum of the rewards of every episode, as it was lived. A run whose values diverge is stopped at the
        end of that episode, and counts as cut off in all that would follow.
    q : ndarray of shape (n_checkpoints, n_runs, n_states, 4)
        Action values after the episodes of `Schedule.checkpoints`; NaN for a run that had diverged.
    n_steps : int
        Environment steps of all runs.
    """

    returns: FloatArray
    q: FloatArray
    n_steps: int

    def __repr__(self) -> str:
        return f"Histories({self.returns.shape[0]} runs x {self.returns.shape[1]} episodes)"


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
    (4) begin the next episode where one has ended.

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
    >>> runs = Lockstep(world, Rule(), Schedule(n_episodes=20, checkpoints=(20,)), np.array([50, 50]),
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
        self.values = ActionValues(n_runs, active_features(world, rule.features))
        # No run stores more than this, so no larger ring is needed to hold everything.
        self.memory = ReplayMemory(np.minimum(capacities, schedule.n_episodes * schedule.timeout))
        self.sampler = make_sampler(rule.sampler, self.memory)
        self._noise = Noise(generators, 2 + rule.minibatches * rule.minibatch)
        self.run_ids = np.arange(n_runs)
        self.n_lockstep = self._n_steps = 0
        self._state = np.full(n_runs, world.start)
        self._age = np.zeros(n_runs, dtype=np.intp)  # steps in the present episode
        self._episode = np.zeros(n_runs, dtype=np.intp)
        self._returns = np.full((n_runs, schedule.n_episodes), np.nan)
        self._q = np.full((len(schedule.checkpoints), n_runs, world.n_states, N_ACTIONS), np.nan)
        lengths = np.arange(rule.n_step + 1)
        self._bootstrap = rule.discount**lengths
        self._rewards = -np.concatenate([[0.0], np.cumsum(self._bootstrap[:-1])])
        self._alive = (np.arange(world.n_states) != world.goal).astype(float)

    def run(self) -> Histories:
        """Go on until every run has had its episodes."""
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # a diverging run may overflow before it is stopped
            while self.run_ids.size:
                self.step()
        return Histories(self._returns, self._q, self._n_steps)

    def step(self) -> None:
        """Advance every run by one environment step."""
        uniforms = self._noise.next()
        pairs = self._state * N_ACTIONS + self._choose(uniforms[:, :2])
        self._state = self.world.moves.take(pairs)
        self._age += 1
        ended = (self._state == self.world.goal) | (self._age == self.schedule.timeout)
        self.sampler.stored(self.memory.append({"pair": pairs, "end": ended}))
        self.n_lockstep += 1
        self._n_steps += pairs.size
        if self.n_lockstep % self.rule.period == 0:
            k = self.rule.minibatch
            for begin in range(2, uniforms.shape[1], k):
                self._replay(uniforms[:, begin : begin + k])
        if ended.any():
            self._close_episodes(ended)

    def _choose(self, uniforms: FloatArray) -> IntArray:
        """Return an action per run: the first best in a random order, or simply the first to explore."""
        order = ORDERS.take((uniforms[:, 1] * len(ORDERS)).astype(np.intp), axis=0)
        values = np.take_along_axis(self.values.of_states(self._state[:, None])[:, 0], order, axis=1)
        place = values.argmax(axis=1)
        place[uniforms[:, 0] < self.rule.explore] = 0
        action: IntArray = order[np.arange(place.size), place]
        return action

    def _replay(self, uniforms: FloatArray) -> None:
        """Replay one minibatch in every run."""
        slots, weights = self.sampler.draw(uniforms)
        pairs = self.memory.pairs(slots)
        errors = self._targets(slots, pairs) - self.values.of_pairs(pairs)
        steps = errors * (self._step_sizes(pairs) / self.values.n_active)
        self.values.add(pairs, steps if weights is None else steps * weights)
        self.sampler.learnt(slots, errors)

    def _step_sizes(self, pairs: IntArray) -> float | FloatArray:
        """Return the step size, smaller for a pair that came so often that the sum would overshoot."""
        step_size = self.rule.step_size
        if pairs.shape[1] * step_size <= 1.0:
            return step_size
        copies = (pairs[:, :, None] == pairs[:, None, :]).sum(axis=2)
        step_sizes: FloatArray = np.minimum(step_size, 1.0 / copies)
        return step_sizes

    def _targets(self, slots: IntArray, pairs: IntArray) -> FloatArray:
        """Return up to n rewards plus the discounted best value of the state they lead to."""
        rewards, factors = self._rewards[1], self._bootstrap[1]
        if self.rule.n_step > 1:
            runs = np.arange(len(slots))[:, None]
            slots, length = self.memory.follow(slots, self.rule.n_step, runs)
            pairs = self.memory.pairs(slots)
            rewards, factors = self._rewards.take(length), self._bootstrap.take(length)
        after = self.world.moves.take(pairs)
        factors = factors * self._alive.take(after)
        if self.rule.timeouts == "end":
            factors = factors * ~self.memory.ended(slots)
        q = self.values.of_states(after)
        # Two by two: a reduction over an axis of four costs several times more.
        best = np.maximum(np.maximum(q[..., 0], q[..., 1]), np.maximum(q[..., 2], q[..., 3]))
        targets: FloatArray = rewards + factors * best
        return targets

    def _close_episodes(self, ended: BoolArray) -> None:
        """Write down the episodes that ended, begin the next ones, and let go of runs that are through."""
        now = np.flatnonzero(ended)
        self._returns[self.run_ids[now], self._episode[now]] = -self._age[now]
        self._episode[now] += 1
        for place, checkpoint in enumerate(self.schedule.checkpoints):
            there = now[self._episode[now] == checkpoint]
            if there.size:
                self._q[place, self.run_ids[there]] = self.values.table(there)
        self._stop_diverged(now)
        self._state[now] = self.world.start
        self._age[now] = 0
        going = self._episode < self.schedule.n_episodes
        if not going.all():
            self._keep(going)

    def _stop_diverged(self, now: IntArray) -> None:
        """Give the runs among `now` whose weights are out of all bounds the worst return from here on."""
        bounded = np.abs(self.values.weights[now]).max(axis=(1, 2)) < DIVERGED  # False for NaN, too
        for place in now[~bounded]:
            run = self.run_ids[place]
            self._returns[run, self._episode[place] :] = -self.schedule.timeout
            checkpoints = np.array(self.schedule.checkpoints)
            self._q[checkpoints >= self._episode[place], run] = np.nan
            self._episode[place] = self.schedule.n_episodes

    def _keep(self, runs: BoolArray) -> None:
        for part in (self.values, self.memory, self.sampler, self._noise):
            part.keep(runs)
        self.run_ids, self._state = self.run_ids[runs], self._state[runs]
        self._age, self._episode = self._age[runs], self._episode[runs]


class ReplayMemory(Rings):
    """One ring of transitions per run: pairs (state, action), and whether each ended an episode.

    The world is deterministic, so the pair's two bytes are all a transition needs: 30 runs of 10^6 take
    90 MB, and what has not been visited takes nothing.

    Parameters
    ----------
    capacities : ndarray of int, shape (n_runs,)
    """

    def __init__(self, capacities: IntArray) -> None:
        super().__init__(capacities, {"pair": ((), np.int16), "end": ((), bool)})

    def pairs(self, slots: IntArray) -> IntArray:
        """Return the pairs in `slots`, as integers wide enough to index with."""
        return self.arrays["pair"].take(slots).astype(np.intp)

    def ended(self, slots: IntArray) -> BoolArray:
        """Say which transitions in `slots` were the last of their episode."""
        return self.arrays["end"].take(slots)


SAMPLERS = ("uniform", "combined", "prioritised")


class Sampler(Protocol):
    """Chooses the slots of a memory that a minibatch replays."""

    def stored(self, slots: IntArray) -> None:
        """Take note of the transitions just stored, one slot per run."""

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Turn uniforms (n_runs, k) into slots (n_runs, k) and importance weights (None: all 1)."""

    def learnt(self, slots: IntArray, errors: FloatArray) -> None:
        """Take note of the temporal-difference errors of the transitions just replayed."""

    def keep(self, runs: BoolArray) -> None:
        """Forget the runs that are not marked."""


class Uniform:
    """Every stored transition is equally likely, with replacement."""

    def __init__(self, memory: ReplayMemory) -> None:
        self._memory = memory

    def stored(self, slots: IntArray) -> None:
        """Nothing to note."""

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Return slots without weights."""
        memory = self._memory
        slots = (uniforms * memory.size[:, None]).astype(np.intp)
        slots += memory.first[:, None]
        return slots, None

    def learnt(self, slots: IntArray, errors: FloatArray) -> None:
        """Nothing to note."""

    def keep(self, runs: BoolArray) -> None:
        """Nothing of its own to forget."""


class Combined(Uniform):
    """Combined experience replay: the last of the k transitions is always the latest one."""

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Return slots without weights."""
        slots, _ = super().draw(uniforms)
        slots[:, -1] = self._memory.newest
        return slots, None


class Prioritised:
    """Proportional prioritisation: P(i) = p_i / sum p with p = (|error| + floor)^exponent.

    A new transition enters with the largest priority seen so far in its run. The k draws are stratified:
    one from each k-th of the total. Weights are (size P(i))^-correction, divided by the largest of the
    minibatch so that they only ever shrink a step. The exponents are the usual 0.6 and 0.4, not annealed.
    """

    EXPONENT, CORRECTION, FLOOR = 0.6, 0.4, 1e-2

    def __init__(self, memory: ReplayMemory) -> None:
        self._memory = memory
        self._trees = SumTrees(memory.capacity)
        self._largest = np.ones(memory.capacity.size)

    def stored(self, slots: IntArray) -> None:
        """Give the new transitions the largest priority."""
        self._trees.assign((slots - self._memory.first)[:, None], self._largest[:, None])

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Return slots and importance weights."""
        k = uniforms.shape[1]
        total = self._trees.total[:, None]
        leaf = self._trees.find((np.arange(k) + uniforms) / k * total)
        chance = self._trees.leaves(leaf) / total * self._memory.size[:, None]
        weights = chance**-self.CORRECTION
        weights /= weights.max(axis=1, keepdims=True)
        return leaf + self._memory.first[:, None], weights

    def learnt(self, slots: IntArray, errors: FloatArray) -> None:
        """Renew the priorities of what was replayed."""
        priority = (np.abs(errors) + self.FLOOR) ** self.EXPONENT
        self._trees.assign(slots - self._memory.first[:, None], priority)
        self._largest = np.maximum(self._largest, priority.max(axis=1))

    def keep(self, runs: BoolArray) -> None:
        """Forget the runs that are not marked."""
        self._trees.keep(runs)
        self._largest = self._largest[runs]


def make_sampler(kind: str, memory: ReplayMemory) -> Sampler:
    """Return the sampler called `kind` over `memory`.

    Examples
    --------
    >>> memory = ReplayMemory(np.array([4]))
    >>> slots = memory.append({"pair": [7], "end": [False]})
    >>> make_sampler("uniform", memory).draw(np.array([[0.2, 0.9]]))
    (array([[0, 0]]), None)
    """
    check_choice(kind, "sampler", SAMPLERS)
    makers: dict[str, Callable[[ReplayMemory], Sampler]] = {
        "uniform": Uniform,
        "combined": Combined,
        "prioritised": Prioritised,
    }
    return makers[kind](memory)
