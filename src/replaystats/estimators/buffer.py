"""A live replay buffer: moments of the latest observations, always ready for an estimate.

Only moments are kept: q^2 + q numbers per observation and their running total. Adding and evicting cost
O(q^2), and an estimate reads the stored moments, never the data they came from.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from .._core.errors import must_be
from .._core.files import replacing
from .._core.random import as_generator, draw_seed
from .._core.typing import ArrayLike, FloatArray, IntArray, RandomLike
from .._core.validation import check_array, check_int, check_length, check_real
from ..data import Trajectories
from ..engine import replicate
from ..estimate import Estimate, average
from ..moments import HeldMoments, Moments
from ..moments.rolling import RollingMoments
from ..plans import make_plan, proportional_probabilities
from ..plans.sum_tree import SumTree
from ..solvers import Auto, Solver


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


class ReplayBuffer:
    """The moments of at most `capacity` observations, kept up to date as observations come and go.

    Parameters
    ----------
    capacity : int
        Largest number of observations.
    moments : callable, optional
        Turns `Trajectories` into moments, for `add_transitions` and `add_episodes`; for example
        ``lambda data: rs.lstd_moments(data, basis, discount=0.9)``.
    eviction : {"fifo", "reservoir"}
        What a full buffer forgets: the oldest observation, or a random one such that all observations so far
        are kept with equal probability.
    prioritised : bool
        Keep a priority per observation, for draws in proportion in O(log n). A new observation gets the
        largest priority so far unless it comes with one.
    random_state : None, int, RandomState or Generator
        Decides what the reservoir keeps, the minibatches, and the plans of estimates.

    Notes
    -----
    One thread may add while others read: every method takes a lock, and estimates are computed on a copy,
    outside it.

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

    def __init__(
        self,
        capacity: int,
        moments: Callable[[Trajectories], HeldMoments] | None = None,
        *,
        eviction: str = "fifo",
        prioritised: bool = False,
        random_state: RandomLike = None,
    ) -> None:
        rng = as_generator(random_state)
        # Two streams, so that looking at the buffer does not change what it keeps.
        keep_rng, self._draw_rng = (np.random.default_rng(draw_seed(rng)) for _ in range(2))
        self._held = RollingMoments(capacity, eviction, keep_rng)
        self._moments_of = moments
        self._tree = SumTree(self.capacity) if prioritised else None
        self._largest_priority = 1.0
        self._lock = threading.RLock()

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

        The shapes are checked against the observations before, the numbers are not looked at.
        """
        with self._lock:
            if priority is not None:
                self._check_prioritised("priority")
                priority = check_real(priority, "priority", low=0.0)
                self._largest_priority = max(self._largest_priority, priority)
            slot = self._held.add(g, f)
            if self._tree is not None and slot is not None:
                self._tree.set(slot, self._largest_priority if priority is None else priority)

    def extend(self, moments: HeldMoments, *, priorities: ArrayLike | None = None) -> None:
        """Add the observations of `moments` in order, with their priorities (m,) if they have any."""
        with self._lock:
            values = None if priorities is None else self._check_priorities(priorities, len(moments))
            kept, slots = self._held.extend_known(moments)
            if self._tree is not None:
                default = np.full(len(moments), self._largest_priority)
                self._tree.update(slots, (default if values is None else values)[kept])

    def add_episodes(self, data: Trajectories, *, priorities: ArrayLike | None = None) -> None:
        """Add trajectories, each as one observation."""
        if self._moments_of is None:
            hint = "For example ReplayBuffer(1000, lambda data: rs.lstd_moments(data, basis, discount=0.9))."
            raise ValueError(must_be("moments", "given to a buffer that takes data", None, hint))
        self.extend(self._moments_of(data), priorities=priorities)

    def add_transitions(
        self,
        states: ArrayLike,
        rewards: ArrayLike,
        next_states: ArrayLike,
        terminated: ArrayLike | None = None,
        *,
        priorities: ArrayLike | None = None,
    ) -> None:
        """Add single steps, each as one observation.

        Parameters
        ----------
        states, next_states : array-like of shape (m, d)
        rewards : array-like of shape (m,)
        terminated : array-like of bool, shape (m,), optional
            Where the next state is absorbing, so that its value is 0.
        priorities : array-like of shape (m,), optional
        """
        here, there = check_array(states, "states", ndim=2), check_array(next_states, "next_states", ndim=2)
        check_length(len(there), len(here), "next_states", "states")
        rewards = check_array(rewards, "rewards", ndim=1)
        data = Trajectories(np.stack([here, there], axis=1), rewards[:, None], terminated=terminated)
        self.add_episodes(data, priorities=priorities)

    def add_transition(
        self, state: ArrayLike, reward: float, next_state: ArrayLike, terminated: bool = False
    ) -> None:
        """Add one step from `state` (d,) to `next_state` (d,). Many at once are much faster per step."""
        here, there = np.asarray(state)[None], np.asarray(next_state)[None]
        self.add_transitions(here, [reward], there, [terminated])

    # ------------------------------------------------------------------ reading

    def moments(self) -> Moments:
        """Return a copy of the observations in the buffer, oldest first."""
        with self._lock:
            return self._held.moments()

    def total(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums A (q, q) and b (q,) over the buffer, without a pass over it."""
        with self._lock:
            return self._held.total()

    def plug_in(self, solver: Solver | None = None) -> FloatArray:
        """Return theta from all observations in the buffer, in O(q^3): NaN if the matrix is singular."""
        A, b = self.total()
        solver = Auto() if solver is None else solver
        theta: FloatArray = solver.solve(A[None], b[None], symmetric=self._held.layout.symmetric).theta[0]
        return theta

    def estimate(
        self,
        method: str = "auto",
        *,
        statistic: str = "U",
        subsample_size: Any = 0.5,
        n_resamples: int = 500,
        prioritised: bool = False,
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
        prioritised : bool
            Draw observations in proportion to their priorities and weigh them back; a tenth of the draws
            is uniform. With replacement, whatever `statistic` says.
        solver : Solver, optional
        on_failure : {"warn", "raise", "drop"}
            What to do about singular subsets.
        rng : optional
            For the subsets. Default: the buffer's own stream.
        """
        with self._lock:
            moments = self._held.moments()
            p = self._probabilities() if prioritised else None
            seed = draw_seed(self._draw_rng if rng is None else rng)
        plan = make_plan(
            len(moments),
            statistic="V" if prioritised else statistic,
            subsample_size=subsample_size,
            n_resamples=n_resamples,
            probabilities=p,
            rng=seed,
        )
        return average(replicate(moments, plan, solver=solver, on_failure=on_failure), method)

    def sample(self, size: int) -> Minibatch:
        """Draw `size` observations with replacement: by priority in O(log n) each, or uniformly."""
        size = check_int(size, "size")
        with self._lock:
            layout, n = self._held.layout, len(self)
            slots: IntArray
            if self._tree is None:
                slots, weights = self._draw_rng.integers(0, n, size), np.ones(size)
            else:
                slots = self._tree.sample(size, self._draw_rng)
                weights = self._tree.total / (n * self._tree.priorities[slots])
            return Minibatch(slots, layout.wrap(self._held.rows[slots]), weights)

    def set_priorities(self, slots: IntArray, priorities: ArrayLike) -> None:
        """Change the priorities of the observations at `slots`, after a look at them."""
        where = np.asarray(slots)
        with self._lock:
            tree = self._check_prioritised("priorities")
            values = self._check_priorities(priorities, where.size)
            if where.min() < 0 or where.max() >= len(self):
                got = f"values from {where.min()} to {where.max()}"
                raise ValueError(must_be("slots", f"in [0, {len(self) - 1}]", got))
            tree.update(where, values)

    # ------------------------------------------------------------------ saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the function `moments` to `path`, as .npz; an old file is replaced at once."""
        with self._lock:
            held, size = self._held, len(self)
            settings = {
                "capacity": held.capacity,
                "eviction": held.eviction,
                "n_seen": held.n_seen,
                "n_basis": held.layout.n_basis,
                "n_outputs": held.layout.n_outputs,
                "symmetric": held.layout.symmetric,
                "largest_priority": self._largest_priority,
                "random": [rng.bit_generator.state for rng in (held.rng, self._draw_rng)],
            }
            # No priorities are saved as an array of length zero.
            priorities = np.empty(0) if self._tree is None else self._tree.priorities[:size]
            with replacing(path) as file:
                np.savez(
                    file,
                    settings=np.array(json.dumps(settings)),
                    rows=held.rows[:size],
                    arrival=held.arrival[:size],
                    priorities=priorities,
                )

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], moments: Callable[[Trajectories], HeldMoments] | None = None
    ) -> Self:
        """Return the buffer that was saved to `path`; it goes on as if it had never stopped."""
        with np.load(path, allow_pickle=False) as file:
            settings = json.loads(str(file["settings"]))
            rows, arrival, priorities = file["rows"], file["arrival"], file["priorities"]
        prioritised = priorities.size > 0
        self = cls(settings["capacity"], moments, eviction=settings["eviction"], prioritised=prioritised)
        stored = Moments.from_rows(
            rows, settings["n_basis"], settings["n_outputs"], symmetric=settings["symmetric"]
        )
        self._held.restore(stored, arrival, settings["n_seen"])
        if self._tree is not None:
            self._tree.update(np.arange(len(priorities)), priorities)
        self._largest_priority = settings["largest_priority"]
        for rng, state in zip((self._held.rng, self._draw_rng), settings["random"], strict=True):
            rng.bit_generator.state = state
        return self

    def __repr__(self) -> str:
        parts = [f"{len(self)} of {self.capacity} observations", f"{self.n_seen} seen", self._held.eviction]
        parts += ["prioritised"] * (self._tree is not None)
        parts += [f"q={self._held.layout.n_basis}"] if self.n_seen else []
        return f"ReplayBuffer({', '.join(parts)})"

    # ------------------------------------------------------------------ priorities

    def _check_prioritised(self, name: str) -> SumTree:
        if self._tree is None:
            hint = "ReplayBuffer(capacity, prioritised=True) keeps priorities."
            raise ValueError(must_be(name, "left out for a buffer without priorities", "a value", hint))
        return self._tree

    def _check_priorities(self, priorities: ArrayLike, m: int) -> FloatArray:
        self._check_prioritised("priorities")
        values = check_array(priorities, "priorities", ndim=1)
        check_length(len(values), m, "priorities", "observations")
        if values.min() < 0.0:
            raise ValueError(must_be("priorities", "non-negative", f"{values.min():g}"))
        self._largest_priority = max(self._largest_priority, float(values.max()))
        return values

    def _probabilities(self) -> FloatArray:
        """Return drawing probabilities of the observations, oldest first."""
        tree = self._check_prioritised("prioritised")
        return proportional_probabilities(tree.priorities[self._held.by_age()])
