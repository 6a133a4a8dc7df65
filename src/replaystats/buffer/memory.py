"""A replay buffer to train with: transitions in preallocated arrays, drawn uniformly or by priority."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.random import as_generator, draw_seed
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray, RandomLike
from .._core.validation import (
    check_array,
    check_bool,
    check_choice,
    check_int,
    check_integers,
    check_length,
    check_magnitude,
    check_memory,
    check_real,
)
from ..data import Trajectories
from ..moments.factored import HeldMoments
from ..ope import Evaluation, evaluate
from .priorities import Proportional, RankBased
from .rows import (
    RUNNING,
    TERMINATED,
    TRUNCATED,
    Batch,
    Rings,
    as_rows,
    as_tensors,
    check_continues,
    gather_episodes,
    summed_rewards,
)
from .saving import DRAW, END, PRIORITIES, ROWS, SavedBuffer, begin, begin_journal, log
from .values import LastLayer, MomentView, ValueMonitor

SAMPLINGS = ("uniform", "proportional", "rank")
GAPS = ("raise", "cut")
# Format: the largest 32-bit integer.
LARGEST_BATCH = 2**31 - 1
ONE_LOOK = "The interval is for one look at the buffer; `buffer.monitor()` has one for any number of looks."
ZERO_HINT = "What is never drawn cannot be weighted back: the draws would be biased. Add a small number."


class ReplayBuffer(SavedBuffer):
    """The latest transitions of one or several environments, for training and for value estimates.

    Parameters
    ----------
    capacity : int
        Largest number of transitions; every environment has an equal share, and overwrites its oldest.
    n_envs : int
        Environments that are stepped together.
    n_step : int
        Rewards that `sample` sums before the bootstrap, without off-policy correction.
    discount : float in [0, 1]
        Discount factor of one step.
    sampling : {"uniform", "proportional", "rank"}
        How `sample` draws: all rows alike, in proportion to priority ** exponent, or to
        rank ** -exponent [1]_.
    exponent, correction : float in [0, 1]
        The exponent of priorities, and that of importance weights (1 corrects in full).
    gaps : {"raise", "cut"}
        What to do where a state is not the next state of the step before it: refuse the step, or count the
        episode before as truncated.
    journal : path, optional
        A new file in which every change is recorded before the call returns. After a crash
        ``ReplayBuffer.recover(path)`` gives the buffer back, bit for bit: a killed process loses nothing, a
        loss of power at most a second. A forked child does not write to the journal of its parent.
    random_state : None, int, RandomState or Generator
        Where the randomness of samples comes from.

    Notes
    -----
    Arrays are allocated at the first `add`, with the shapes and types of what is added. Observations and
    rewards that are not finite are refused. One thread may add while others read: every method takes a lock.
    A buffer can be copied and pickled (its journal stays behind).

    References
    ----------
    .. [1] T. Schaul, J. Quan, I. Antonoglou and D. Silver (2016), Prioritized experience replay, ICLR.

    Examples
    --------
    >>> buffer = ReplayBuffer(1000, n_step=2, discount=0.5, random_state=0)
    >>> for t in range(4):
    ...     buffer.add([float(t)], t % 2, 1.0, [t + 1.0], terminated=t == 3)
    >>> buffer
    ReplayBuffer(4 of 1000 transitions, 4 seen, uniform, 2 steps)
    >>> batch = buffer.sample(3)
    >>> batch.states.ravel(), batch.rewards, batch.next_states.ravel(), batch.discounts
    (array([1., 1., 2.]), array([1.5, 1.5, 1.5]), array([3., 3., 4.]), array([0.25, 0.25, 0.  ]))
    >>> buffer.trajectories()
    Trajectories(1 x 4 steps, d=1, rewards, actions, 1 terminated)
    """

    def __init__(
        self,
        capacity: int,
        *,
        n_envs: int = 1,
        n_step: int = 1,
        discount: float = 0.99,
        sampling: str = "uniform",
        exponent: float = 0.6,
        correction: float = 0.4,
        gaps: str = "raise",
        journal: str | os.PathLike[str] | None = None,
        random_state: RandomLike = None,
    ) -> None:
        self.n_envs = check_int(n_envs, "n_envs")
        per_env = check_int(capacity, "capacity", low=self.n_envs) // self.n_envs
        self.capacity = per_env * self.n_envs
        check_memory(self.capacity, "capacity", capacity)
        self.n_step = check_int(n_step, "n_step", high=self.capacity)
        self.discount = check_real(discount, "discount", low=0.0, high=1.0)
        self.sampling = check_choice(sampling, "sampling", SAMPLINGS)
        self.exponent = check_real(exponent, "exponent", low=0.0, high=1.0)
        self.correction = check_real(correction, "correction", low=0.0, high=1.0)
        self.gaps = check_choice(gaps, "gaps", GAPS)
        self._rng = np.random.default_rng(draw_seed(as_generator(random_state, "random_state")))
        kinds = {"proportional": Proportional, "rank": RankBased}
        kind = kinds.get(self.sampling)
        self._priorities = None if kind is None else kind(self.capacity, self.exponent)
        self._rings: Rings | None = None
        self._lock = threading.RLock()
        self._resetting: BoolArray = np.zeros(self.n_envs, dtype=bool)  # what `record` is to leave out next
        self._calls: list[tuple[int, Callable[[int, Any], Any], Callable[[], Any]]] = []
        self._journal = None if journal is None else begin_journal(self, journal)

    @property
    def n_seen(self) -> int:
        """Transitions added so far."""
        if self._rings is None:
            return 0
        stored = self._rings.stored
        return int(stored[0] if self.n_envs == 1 else stored.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that hold transitions."""
        return 0 if self._rings is None else sum(array.nbytes for array in self._rings.arrays.values())

    def __len__(self) -> int:
        if self.n_envs == 1:
            return int(min(self.n_seen, self.capacity))
        return 0 if self._rings is None else int(self._rings.size.sum())

    def __repr__(self) -> str:
        parts = [f"{len(self)} of {self.capacity} transitions", f"{self.n_seen} seen", self.sampling]
        parts += [f"{self.n_envs} environments"] if self.n_envs > 1 else []
        parts += [f"{self.n_step} steps"] if self.n_step > 1 else []
        return f"ReplayBuffer({', '.join(parts)})"

    # ------------------------------------------------------------------ adding

    def add(
        self,
        state: ArrayLike,
        action: ArrayLike,
        reward: ArrayLike,
        next_state: ArrayLike,
        terminated: ArrayLike = False,
        truncated: ArrayLike = False,
        *,
        log_probability: ArrayLike | None = None,
    ) -> None:
        """Add one step of every environment, or many in order of time.

        Parameters
        ----------
        state, next_state : array-like
            Observations, `next_state` the one that the step led to: the final one where an episode ends, not
            the first of the next episode.
        action : array-like
        reward : array-like
            Its shape says what is added: a number is one step of one environment, (n_envs,) one step of
            each, (T, n_envs) T steps of each, and (T,) T steps where there is one environment. The other
            arrays have the same leading shape.
        terminated, truncated : array-like of bool
            Where an episode ended: in an absorbing state, whose value is 0, or cut off.
        log_probability : array-like, optional
            Of the action under the policy that took it; for all rows or for none.
        """
        given = {"state": state, "action": action, "next_state": next_state}
        if log_probability is not None:
            given["log_probability"] = log_probability
        rows = as_rows(given, reward, terminated, truncated, self.n_envs)
        with self._lock:
            self._add(rows, None)

    def record(
        self,
        envs: Any,
        state: ArrayLike,
        action: ArrayLike,
        result: tuple[Any, ...],
        *,
        log_probability: ArrayLike | None = None,
    ) -> None:
        """Add what ``result = envs.step(action)`` of a Gymnasium vector environment says.

        A vector environment resets by itself. Where it does so in the next step, that step's action is
        ignored and its row is not added; where it does so in the same step, the final observations are read
        from ``info["final_obs"]``.

        Parameters
        ----------
        envs : gymnasium.vector.VectorEnv
        state : array of shape (n_envs, ...)
            Observations before the step.
        action : array of shape (n_envs, ...)
        result : tuple
            Next observations, rewards, terminated, truncated, info.
        log_probability : array-like of shape (n_envs,), optional
        """
        metadata = getattr(envs, "metadata", None)
        if not isinstance(metadata, Mapping) or "autoreset_mode" not in metadata:
            hint = "For one environment, or one of your own, use add()."
            raise TypeError(must_be("envs", "a vector environment of Gymnasium", type(envs).__name__, hint))
        if not isinstance(result, tuple) or len(result) != 5:
            raise TypeError(must_be("result", "what envs.step returned", type(result).__name__))
        mode = str(metadata["autoreset_mode"]).lower()
        following, rewards, terminated, truncated, info = result
        ended = np.asarray(terminated, dtype=bool) | np.asarray(truncated, dtype=bool)
        if "same" in mode and ended.any():
            if "final_obs" not in info:
                raise ValueError(must_be("result", "one with final_obs in its info", "none"))
            following = np.array(following)
            for env in np.flatnonzero(ended):
                following[env] = info["final_obs"][env]
        given = {"state": state, "action": action, "next_state": following}
        if log_probability is not None:
            given["log_probability"] = log_probability
        rows = as_rows(given, np.asarray(rewards), terminated, truncated, self.n_envs)
        with self._lock:
            skipped = self._resetting if "next" in mode else np.zeros(self.n_envs, dtype=bool)
            self._resetting = ended & ~skipped
            kept = np.flatnonzero(~skipped)
            if kept.size == self.n_envs:
                self._add(rows, None)
            elif kept.size:
                self._add({name: value[:, kept] for name, value in rows.items()}, kept)

    def _add(self, rows: dict[str, np.ndarray], rings: IntArray | None) -> None:
        """Check rows against those before, store them, and call what is to be called."""
        before = self.n_seen
        self._check(rows, rings)
        begin(self)
        self._store(rows, rings)
        log(self, ROWS, **rows, **({} if rings is None else {"rings": rings}))
        for every, callback, evaluation in self._calls:
            if self.n_seen // every > before // every:
                callback(self.n_seen, evaluation())

    def _check(self, rows: dict[str, np.ndarray], rings: IntArray | None) -> None:
        """Refuse rows that do not fit those before; the first ones decide shapes and types."""
        held = self._allocate(rows) if self._rings is None else self._rings
        check_continues(held, rows, rings, cut=self.gaps == "cut")
        self._rings = held

    def _store(self, rows: Mapping[str, np.ndarray], rings: IntArray | None) -> None:
        held = self._filled()
        if rings is None and len(rows["end"]) > 1:
            slots = held.extend(rows)
        else:
            one = {name: value[0] for name, value in rows.items()}
            slots = held.append(one, slice(None) if rings is None else rings)
        if self._priorities is not None:
            self._priorities.add(slots.ravel())

    def _allocate(self, rows: Mapping[str, np.ndarray]) -> Rings:
        observed = np.result_type(rows["state"], rows["next_state"])
        kinds = {"state": observed, "next_state": observed}
        fields = {name: (value.shape[2:], kinds.get(name, value.dtype)) for name, value in rows.items()}
        row_bytes = sum(int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in fields.values())
        check_memory(self.capacity * row_bytes / 8, "capacity", self.capacity)
        return Rings(np.full(self.n_envs, self.capacity // self.n_envs), fields)

    def end_episode(self) -> None:
        """Count the episodes that go on as truncated here, for example before a reset of your own."""
        with self._lock:
            begin(self)
            self._end()
            self._resetting[:] = False  # `record` has no reset to leave out any more
            log(self, END)

    def _end(self) -> None:
        if self._rings is not None:
            newest = self._rings.newest[self._rings.stored > 0]
            end = self._rings.arrays["end"]
            end[newest] = np.where(end[newest] == RUNNING, TRUNCATED, end[newest])

    # ------------------------------------------------------------------ sampling

    def sample(self, batch_size: int, *, correction: float | None = None, device: Any = None) -> Batch:
        """Draw transitions with replacement.

        1. Draw rows: uniformly, or by priority, one from each of `batch_size` equal shares of the total.
        2. With n-step returns, sum up to n rewards along the episode of each row.
        3. Importance weights are (n p_i) ** -correction over their largest.

        Parameters
        ----------
        batch_size : int
        correction : float in [0, 1], optional
            In place of the buffer's, to anneal it.
        device : str or torch.device, optional
            Return tensors of PyTorch on this device in place of NumPy arrays.

        Returns
        -------
        Batch
        """
        size = check_int(batch_size, "batch_size", high=LARGEST_BATCH)
        check_memory(10.0 * size, "batch_size", size)
        power = (
            self.correction if correction is None else check_real(correction, "correction", low=0.0, high=1.0)
        )
        with self._lock:
            rings = self._filled()
            begin(self)
            slots, probability = self._draw(size)
            log(self, DRAW, {"size": size})
            fields = rings.arrays
            rewards, discounts, last = summed_rewards(rings, slots, self.n_step, self.discount)
            end = fields["end"].take(last)
            terminated = end == TERMINATED
            discounts *= ~terminated
            weights = np.ones(size)
            if probability is not None:
                weights = (probability * len(self)) ** -power
                weights /= weights.max()
            logs = fields.get("log_probability")
            batch = Batch(
                fields["state"].take(slots, axis=0),
                fields["action"].take(slots, axis=0),
                rewards,
                fields["next_state"].take(last, axis=0),
                discounts,
                terminated,
                end == TRUNCATED,
                None if logs is None else logs.take(slots),
                weights,
                slots,
            )
        return batch if device is None else as_tensors(batch, device)

    def _draw(self, size: int) -> tuple[IntArray, FloatArray | None]:
        """Return `size` slots, and their probabilities where these differ."""
        rings = self._filled()
        if self._priorities is not None:
            return self._priorities.draw((np.arange(size) + self._rng.random(size)) / size)
        if self.n_envs == 1:
            return (self._rng.random(size) * len(self)).astype(np.intp), None
        held = np.cumsum(rings.size)
        number = self._rng.integers(0, held[-1], size)
        ring = np.searchsorted(held, number, side="right")
        return number - (held - rings.size)[ring] + rings.first[ring], None

    def update_priorities(self, indices: ArrayLike, priorities: ArrayLike) -> None:
        """Change the priorities of rows, for example to their absolute temporal-difference errors.

        Parameters
        ----------
        indices : array-like of int, shape (m,)
            ``batch.indices``.
        priorities : array-like of shape (m,)
            Positive.
        """
        where = check_integers(indices, "indices")
        with self._lock:
            rings = self._filled()
            if self._priorities is None:
                hint = 'ReplayBuffer(capacity, sampling="proportional") keeps priorities.'
                raise ValueError(must_be("sampling", '"proportional" or "rank"', '"uniform"', hint))
            values = check_magnitude(check_array(priorities, "priorities", ndim=1), "priorities")
            check_length(len(values), where.size, "priorities", "indices")
            if values.min() <= 0.0:
                raise ValueError(must_be("priorities", "positive", f"{values.min():g}", ZERO_HINT))
            per_env = int(rings.capacity[0])
            if (
                where.min() < 0
                or where.max() >= self.capacity
                or (where % per_env >= rings.size[where // per_env]).any()
            ):
                got = f"values from {where.min()} to {where.max()}"
                raise ValueError(must_be("indices", "those of rows in the buffer", got))
            begin(self)
            self._priorities.update(where, values)
            log(self, PRIORITIES, indices=where, values=values)

    # ------------------------------------------------------------------ values

    def trajectories(self, *, running: bool = False) -> Trajectories:
        """Return the episodes in the buffer whose start is still there, one environment after the other.

        Parameters
        ----------
        running : bool
            Include episodes that have not ended, as truncated.
        """
        with self._lock:
            return gather_episodes(self._filled(), running=check_bool(running, "running"))

    def evaluate(self, policy: Any = None, *, discount: float | None = None, **options: Any) -> Evaluation:
        """Return the value of a policy from the episodes in the buffer, as `replaystats.evaluate` does.

        The interval is for one look, which a note says. For looks while the buffer grows use `monitor`.

        Parameters
        ----------
        policy : callable, optional
            Default: the policies that filled the buffer, as they were mixed.
        discount : float, optional
            Default: the buffer's.
        **options
            Of `replaystats.evaluate`.
        """
        factor = self.discount if discount is None else discount
        found = evaluate(self.trajectories(), policy, discount=factor, **options)
        return replace(found, notes=(*found.notes, ONE_LOOK))

    def view(self, moments: Callable[[Trajectories], HeldMoments]) -> MomentView:
        """Return a view of the sums of moments over all rows, kept as rows come and leave: `MomentView`."""
        return MomentView(self, moments)

    def last_layer(self, network: Any, **options: Any) -> LastLayer:
        """Return LSTD or LSTDQ on the features of a network: `LastLayer`, which has the options."""
        return LastLayer(self, network, **options)

    def monitor(self, **options: Any) -> ValueMonitor:
        """Return the mean return of episodes, for any number of looks: `ValueMonitor`, with its options."""
        return ValueMonitor(self, **options)

    def call_every(
        self, n_steps: int, callback: Callable[[int, Any], Any], evaluation: Callable[[], Any]
    ) -> None:
        """Call ``callback(step, evaluation())`` whenever another `n_steps` transitions have been added.

        Parameters
        ----------
        n_steps : int
        callback : callable
            Takes the number of transitions so far and the evaluation; for example one that writes to a log.
        evaluation : callable
            Without arguments, for example ``monitor.look`` or ``lambda: buffer.evaluate(policy)``.
        """
        for value, name in ((callback, "callback"), (evaluation, "evaluation")):
            if not callable(value):
                raise TypeError(must_be(name, "a function", repr(value)))
        self._calls.append((check_int(n_steps, "n_steps", high=2**40), callback, evaluation))

    def _filled(self) -> Rings:
        if self._rings is None:
            raise ValueError(must_be("buffer", "filled", "an empty one", "Add transitions first."))
        return self._rings
