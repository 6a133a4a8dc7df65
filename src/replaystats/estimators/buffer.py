"""A live replay buffer: moments of the latest observations, always ready for an estimate.

Only moments are kept: q^2 + q numbers per observation and their running total. Adding and evicting cost
O(q^2), and an estimate reads the stored moments, never the data they came from.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import as_array
from .._core.errors import must_be
from .._core.names import renamed_parameter
from .._core.random import as_generator, draw_seed
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray, RandomLike
from .._core.validation import (
    check_array,
    check_bool,
    check_choice,
    check_instance,
    check_int,
    check_integers,
    check_length,
    check_memory,
    check_path,
    check_real,
)
from ..data import Trajectories
from ..data._fields import check_flags
from ..engine import replicate
from ..estimate import Estimate, average
from ..moments import FactoredMoments, HeldMoments, Moments
from ..moments.factored import written_out
from ..moments.rolling import RollingMoments
from ..plans import make_plan, proportional_probabilities
from ..solvers import Auto, Solver
from ..solvers.base import check_solver
from ._buffer_data import FollowedPolicy, RunningEpisode, SumTree
from ._buffer_saving import SavedBuffer, check_function
from ._journal import DRAW, PRIORITIES, STEPS, Journal, pack

UNITS = ("step", "episode")
ZERO_HINT = "What is never drawn cannot be weighed back: the draws would be biased. Use a small number."


class Minibatch(NamedTuple):
    """Observations drawn from a buffer.

    Attributes
    ----------
    slots : ndarray of int, shape (m,)
        Where they lie in the buffer, for `ReplayBuffer.set_priorities`.
    moments : Moments
        m observations.
    weights : ndarray of shape (m,)
        1 / (n p_i): their weights in sums, one for uniform draws.
    """

    slots: IntArray
    moments: Moments
    weights: FloatArray


class ReplayBuffer(SavedBuffer):
    """The moments of at most `capacity` observations, kept up to date as observations come and go.

    Parameters
    ----------
    capacity : int
        Largest number of observations.
    moments : callable, optional
        Turns `Trajectories` into moments, for `add_transitions` and `add_episodes`; for example
        ``lambda data: rs.lstd_moments(data, basis, discount=0.9)``. With `policy`, it takes the policy as
        well: ``lambda data, policy: rs.lstd_q_moments(data, basis, policy=policy, discount=0.9)``.
    eviction : {"fifo", "reservoir"}
        What a full buffer forgets: the oldest observation, or a random one such that all observations so far
        are kept with equal probability.
    prioritized : bool
        Keep a priority per observation, for draws in proportion in O(log n). A new observation gets the
        largest priority so far unless it comes with one.
    random_state : None, int, RandomState or Generator
        Decides what the reservoir keeps, the minibatches, and the plans of estimates.
    policy : callable, optional
        The policy whose value is asked for, if it changes: the buffer then keeps the data beside the moments,
        and `set_policy` has the moments computed anew when they are next read.
    unit : {"step", "episode"}, default="step"
        What `add_transition` counts as an observation: every step, or every episode, as soon as it ends.
        Steps of one episode depend on each other; intervals that take them for independent are too short.
    journal : path, optional
        A new file in which every change is recorded before the call returns. After a crash
        ``ReplayBuffer.recover(path)`` gives the buffer back, bit for bit: a killed process loses nothing, a
        loss of power at most a second.

    Notes
    -----
    One thread may add while others read: every method takes a lock, and estimates are computed on a copy,
    outside it. A buffer can be copied and pickled (its journal stays behind).

    Examples
    --------
    >>> import replaystats as rs
    >>> basis = rs.basis.Fourier(1, period=16)
    >>> buffer = ReplayBuffer(1000, lambda data: rs.lstd_moments(data, basis, discount=0.9), random_state=0)
    >>> buffer.add_transition(state=[3.0], reward=1.0, next_state=[4.0])
    >>> buffer.add_episodes(rs.simulate.FiniteChain.ring().sample(500, 4, rng=0))
    >>> buffer
    ReplayBuffer(501 of 1000 observations, 501 seen, fifo, q=3)
    >>> buffer.estimate(n_resamples=200).theta.shape
    (3,)
    """

    @renamed_parameter("prioritised", "prioritized")
    def __init__(
        self,
        capacity: int,
        moments: Callable[..., HeldMoments] | None = None,
        *,
        eviction: str = "fifo",
        prioritized: bool = False,
        random_state: RandomLike = None,
        policy: Callable[..., Any] | None = None,
        unit: str = "step",
        journal: str | os.PathLike[str] | None = None,
    ) -> None:
        rng = as_generator(random_state, "random_state")
        check_function(moments, "moments")
        check_function(policy, "policy")
        if journal is not None:
            journal = check_path(journal, "journal")
        # Two streams, so that looking at the buffer does not change what it keeps.
        keep_rng, self._draw_rng = (np.random.default_rng(draw_seed(rng)) for _ in range(2))
        self._held = RollingMoments(capacity, eviction, keep_rng)
        self._moments_of = moments
        self._tree = SumTree(self.capacity) if check_bool(prioritized, "prioritized") else None
        self._largest_priority = 1.0
        self._lock = threading.RLock()
        self._sources = None if policy is None else FollowedPolicy(policy)
        self._running = RunningEpisode() if check_choice(unit, "unit", UNITS) == "episode" else None
        if policy is not None and (moments is None or journal is not None):
            rule = "given with `moments`, a function of data and policy, and without `journal`"
            raise ValueError(must_be("policy", rule, "one of them otherwise"))
        self._journal = None if journal is None else Journal.create(journal, [self._record()])

    @property
    def capacity(self) -> int:
        """Largest number of observations."""
        return self._held.capacity

    @property
    def n_seen(self) -> int:
        """Observations added so far."""
        return self._held.n_seen

    def __len__(self) -> int:
        return len(self._held)

    # ------------------------------------------------------------------ adding

    def add(self, g: FloatArray, f: FloatArray, *, priority: float | None = None) -> None:
        """Add one observation from its moments g (q, q) and f (q,) or (q, n_outputs): the fast way for one.

        It is checked against the observations before; one that is refused leaves the buffer as it was.
        """
        with self._lock:
            self._check_moments_allowed()
            if priority is not None:
                self._check_prioritized("priority")
                priority = check_real(priority, "priority", low=0.0, closed="neither", hint=ZERO_HINT)
            slot = self._held.add(g, f)
            self._largest_priority = max(self._largest_priority, priority or 0.0)
            if self._tree is not None and slot is not None:
                self._tree.set(slot, self._largest_priority if priority is None else priority)
            if self._journal is not None:
                row = self._held.row_of(g, f)
                self._log_rows(self._held.layout.wrap(row[None]), None if priority is None else [priority])

    def extend(self, moments: HeldMoments, *, priorities: ArrayLike | None = None) -> None:
        """Add the observations of `moments` in order, with their priorities (m,) if they have any."""
        with self._lock:
            self._check_moments_allowed()
            self._extend(moments, priorities)

    def _extend(
        self, moments: HeldMoments, priorities: ArrayLike | None, *, ends_episode: bool = False
    ) -> tuple[IntArray, IntArray]:
        """Add; return which of the observations are kept, and their slots."""
        moments = written_out(moments)
        values = None if priorities is None else self._check_priorities(priorities, len(moments))
        kept, slots = self._held.extend_known(moments)
        if values is not None:
            self._largest_priority = max(self._largest_priority, float(values.max()))
        if self._tree is not None:
            default = np.full(len(moments), self._largest_priority)
            self._tree.update(slots, (default if values is None else values)[kept])
        if ends_episode and self._running is not None:
            self._running.forget()
        self._log_rows(moments, values, ends_episode=ends_episode)
        return kept, slots

    def add_episodes(self, data: Trajectories, *, priorities: ArrayLike | None = None) -> None:
        """Add trajectories, each as one observation."""
        self._add_episodes(data, priorities)

    def _add_episodes(
        self, data: Trajectories, priorities: ArrayLike | None = None, *, ends_episode: bool = False
    ) -> None:
        check_instance(data, "data", Trajectories, "Wrap the arrays: rs.Trajectories(states, rewards).")
        if self._moments_of is None:
            hint = "For example ReplayBuffer(1000, lambda data: rs.lstd_moments(data, basis, discount=0.9))."
            raise ValueError(must_be("moments", "given to a buffer that takes data", None, hint))
        if self._sources is None:
            moments = self._moments_of(data)
            with self._lock:
                self._extend(moments, priorities, ends_episode=ends_episode)
            return
        with self._lock:
            moments = self._moments_of(data, self._sources.policy)
            kept, slots = self._extend(moments, priorities, ends_episode=ends_episode)
            self._sources.remember(data, kept, slots)

    def add_transitions(
        self,
        states: ArrayLike,
        rewards: ArrayLike,
        next_states: ArrayLike,
        terminated: ArrayLike | None = None,
        *,
        truncated: ArrayLike | None = None,
        actions: ArrayLike | None = None,
        priorities: ArrayLike | None = None,
    ) -> None:
        """Add single steps, each as one observation; or, in a buffer of episodes, in order of time.

        Parameters
        ----------
        states, next_states : array-like of shape (m, d)
        rewards : array-like of shape (m,)
        terminated : array-like of bool, shape (m,), optional
            Where the next state is absorbing, so that its value is 0.
        truncated : array-like of bool, shape (m,), optional
            Where the episode was cut off; matters in a buffer of episodes.
        actions : array-like of shape (m,) or (m, a), optional
        priorities : array-like of shape (m,), optional
        """
        here, there = check_array(states, "states", ndim=2), check_array(next_states, "next_states", ndim=2)
        if there.shape != here.shape:
            raise ValueError(must_be("next_states", f"of the shape of `states`, {here.shape}", there.shape))
        rewards = check_array(rewards, "rewards", ndim=1)
        check_length(len(rewards), len(here), "rewards", "states")
        taken = None if actions is None else as_array(actions, "actions")
        if taken is not None:
            check_array(taken, "actions", ndim=(1, 2))
            check_length(len(taken), len(here), "actions", "states")
        if self._running is not None:
            if priorities is not None:
                raise ValueError(must_be("priorities", "None in a buffer of episodes", "an array"))
            ends = [
                check_flags(f, n, len(here))
                for f, n in ((terminated, "terminated"), (truncated, "truncated"))
            ]
            with self._lock:
                self._add_steps(self._running, here, rewards, there, taken, *ends)
            return
        if truncated is not None:
            check_flags(truncated, "truncated", len(here))
        data = Trajectories(
            np.stack([here, there], axis=1),
            rewards[:, None],
            None if taken is None else taken[:, None],
            terminated=terminated,
        )
        self.add_episodes(data, priorities=priorities)

    def _add_steps(
        self,
        running: RunningEpisode,
        here: FloatArray,
        rewards: FloatArray,
        there: FloatArray,
        actions: np.ndarray | None,
        terminated: BoolArray,
        truncated: BoolArray,
    ) -> None:
        """Add steps to the episode that runs, and every episode that they end to the buffer."""
        running.check(here, there, actions, terminated, truncated)
        for episode in running.add(here, rewards, there, actions, terminated, truncated):
            self._add_episodes(episode, ends_episode=True)
        ended = np.flatnonzero(terminated | truncated)
        n_running = len(here) - (int(ended[-1]) + 1 if ended.size else 0)
        if n_running:
            self._log(STEPS, pack({}, **running.arrays(last=n_running)))

    def add_transition(
        self,
        state: ArrayLike,
        reward: float,
        next_state: ArrayLike,
        terminated: bool = False,
        *,
        truncated: bool = False,
        action: ArrayLike | None = None,
    ) -> None:
        """Add one step from `state` (d,) to `next_state` (d,). Many at once are much faster per step."""
        here, there = check_array(state, "state", ndim=1), check_array(next_state, "next_state", ndim=1)
        gain = check_real(reward, "reward")
        flags = check_bool(terminated, "terminated"), check_bool(truncated, "truncated")
        taken = None if action is None else as_array(action, "action")[None]
        if taken is not None:
            check_array(taken[0], "action", ndim=(0, 1))
        if there.shape != here.shape:
            raise ValueError(must_be("next_state", f"of the shape of `state`, {here.shape}", there.shape))
        self.add_transitions(here[None], [gain], there[None], [flags[0]], truncated=[flags[1]], actions=taken)

    def end_episode(self) -> None:
        """Count the steps of a running episode as an episode that was cut off here."""
        with self._lock:
            episode = None if self._running is None else self._running.finish()
            if episode is not None:
                self._add_episodes(episode, ends_episode=True)

    def set_policy(self, policy: Callable[..., Any]) -> None:
        """Ask about another policy: the moments are computed anew from the data when they are next read."""
        with self._lock:
            if self._sources is None:
                hint = "ReplayBuffer(capacity, moments, policy=...) keeps the data that a new policy needs."
                raise ValueError(must_be("policy", "given to the buffer first", "a buffer of moments", hint))
            self._sources.change(policy)

    def _refresh(self) -> None:
        """Compute the moments under the policy of now, if it is another than they were computed under."""
        if self._sources is not None and self._sources.outdated and self._moments_of is not None:
            data, slots = self._sources.data()
            moments = self._moments_of(data, self._sources.policy)
            moments = moments.multiply_out() if isinstance(moments, FactoredMoments) else moments
            self._held.overwrite(slots, moments.rows)
            self._sources.outdated = False

    def _check_moments_allowed(self) -> None:
        if self._sources is not None:
            hint = "A policy that changes needs them: add_episodes, add_transitions."
            raise ValueError(must_be("observations", "data in a buffer with a policy", "moments", hint))

    # ------------------------------------------------------------------ reading

    def moments(self) -> Moments:
        """Return a copy of the observations in the buffer, oldest first."""
        with self._lock:
            self._refresh()
            return self._held.moments()

    def total(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums A (q, q) and b (q,) over the buffer: a pass over the blocks that changed."""
        with self._lock:
            self._refresh()
            return self._held.total()

    def plug_in(self, solver: Solver | None = None) -> FloatArray:
        """Return theta from all observations in the buffer, in O(q^3): NaN if the matrix is singular."""
        solver = check_solver(solver) or Auto()
        A, b = self.total()
        theta: FloatArray = solver.solve(A[None], b[None], symmetric=self._held.layout.symmetric).theta[0]
        return theta

    @renamed_parameter("prioritised", "prioritized")
    def estimate(
        self,
        method: str = "auto",
        *,
        statistic: str = "U",
        subsample_size: Any = 0.5,
        n_resamples: int = 500,
        prioritized: bool = False,
        solver: Solver | None = None,
        on_failure: str = "warn",
        rng: RandomLike = None,
    ) -> Estimate:
        """Replay the buffer as it is now, in O(B (k q^2 + q^3)).

        Parameters
        ----------
        method : str
            How replicates are combined; see `average`.
        statistic, subsample_size, n_resamples
            See `make_plan`.
        prioritized : bool
            Draw observations in proportion to their priorities and weigh them back; a tenth of the draws
            is uniform. With replacement, whatever `statistic` says.
        solver : Solver, optional
        on_failure : {"warn", "raise", "drop"}
            What to do about singular subsets.
        rng : optional
            For the subsets. Default: the buffer's own stream.
        """
        with self._lock:
            self._refresh()
            moments = self._held.moments()
            p = self._probabilities() if check_bool(prioritized, "prioritized") else None
            seed = draw_seed(self._draw_rng if rng is None else rng)
            if rng is None:
                self._log(DRAW, pack({"size": 0}))
        plan = make_plan(
            len(moments),
            statistic="V" if prioritized else statistic,
            subsample_size=subsample_size,
            n_resamples=n_resamples,
            probabilities=p,
            rng=seed,
        )
        return average(replicate(moments, plan, solver=solver, on_failure=on_failure), method)

    def sample(self, size: int) -> Minibatch:
        """Draw `size` observations with replacement: by priority in O(log n) each, or uniformly."""
        size = check_int(size, "size")
        check_memory(2.0 * size, "size", size)
        with self._lock:
            self._refresh()
            layout, n = self._held.layout, len(self)
            slots = self._draw(size)
            self._log(DRAW, pack({"size": size}))
            weights = np.ones(size)
            if self._tree is not None:
                weights = self._tree.total / (n * self._tree.priorities[slots])
            return Minibatch(slots, layout.wrap(self._held.rows[slots]), weights)

    def set_priorities(self, slots: IntArray, priorities: ArrayLike) -> None:
        """Change the priorities of the observations at `slots`, after a look at them."""
        where = check_integers(slots, "slots")
        with self._lock:
            tree = self._check_prioritized("priorities")
            values = self._check_priorities(priorities, where.size)
            if where.min() < 0 or where.max() >= len(self):
                got = f"values from {where.min()} to {where.max()}"
                raise ValueError(must_be("slots", f"in [0, {len(self) - 1}]", got))
            tree.update(where, values)
            self._largest_priority = max(self._largest_priority, float(values.max()))
            self._log(PRIORITIES, pack({}, slots=where.astype(np.int64), values=values))

    def _draw(self, size: int) -> IntArray:
        if self._tree is not None:
            return self._tree.sample(size, self._draw_rng)
        return self._draw_rng.integers(0, len(self), size)

    def __repr__(self) -> str:
        parts = [f"{len(self)} of {self.capacity} observations", f"{self.n_seen} seen", self._held.eviction]
        parts += ["prioritized"] * (self._tree is not None)
        parts += [f"q={self._held.layout.n_basis}"] if self.n_seen else []
        return f"ReplayBuffer({', '.join(parts)})"

    # ------------------------------------------------------------------ priorities

    def _check_prioritized(self, name: str) -> SumTree:
        if self._tree is None:
            hint = "ReplayBuffer(capacity, prioritized=True) keeps priorities."
            raise ValueError(must_be(name, "left out for a buffer without priorities", "a value", hint))
        return self._tree

    def _check_priorities(self, priorities: ArrayLike, m: int) -> FloatArray:
        self._check_prioritized("priorities")
        values = check_array(priorities, "priorities", ndim=1)
        check_length(len(values), m, "priorities", "observations")
        if values.min() <= 0.0:
            raise ValueError(must_be("priorities", "positive", f"{values.min():g}", ZERO_HINT))
        return values

    def _probabilities(self) -> FloatArray:
        """Return drawing probabilities of the observations, oldest first."""
        tree = self._check_prioritized("prioritized")
        return proportional_probabilities(tree.priorities[self._held.by_age()])
