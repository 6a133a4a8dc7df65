"""Rows of a replay buffer: checked, held in rings, handed out as batches, read back as episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import as_array
from .._core.errors import must_be, require_extra
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_bool, check_memory
from ..data import Trajectories

RUNNING, TERMINATED, TRUNCATED = range(3)  # how a step left its episode: the field "end"
BLOCK_ROWS = 4096  # Batch: rows that are read at a time


class Rings:
    """One ring of rows per environment, all in the same preallocated arrays.

    Parameters
    ----------
    capacities : array of int, shape (n_rings,)
        Rows that each ring holds; a full ring overwrites its oldest row.
    fields : mapping of str to (shape, dtype)
        What a row consists of. The field "end" is 0 while an episode goes on, and other than 0 in its last
        row.

    Attributes
    ----------
    arrays : dict of str to ndarray of shape (sum of capacities, ...)
    first, capacity, stored : ndarray of int, shape (n_rings,)
        Where each ring begins, its length, and how many rows it has ever taken.

    Examples
    --------
    >>> rings = Rings([2, 3], {"x": ((), float), "end": ((), bool)})
    >>> for t in range(3):
    ...     slots = rings.append({"x": [t, 10.0 + t], "end": [False, t == 1]})
    >>> slots, rings.size, rings.arrays["x"]
    (array([0, 4]), array([2, 3]), array([ 2.,  1., 10., 11., 12.]))
    """

    def __init__(self, capacities: Any, fields: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
        self.capacity: IntArray = np.asarray(capacities, dtype=np.intp)
        self.first: IntArray = np.concatenate([[0], np.cumsum(self.capacity)[:-1]])
        self.stored: IntArray = np.zeros(self.capacity.size, dtype=np.intp)
        total = int(self.capacity.sum())
        self.arrays = {name: np.zeros((total, *shape), dtype) for name, (shape, dtype) in fields.items()}

    @property
    def size(self) -> IntArray:
        """Number of rows in each ring, of shape (n_rings,)."""
        return np.minimum(self.stored, self.capacity)

    @property
    def newest(self) -> IntArray:
        """Slot of the latest row of each ring, of shape (n_rings,)."""
        newest: IntArray = self.first + (self.stored - 1) % self.capacity
        return newest

    def append(self, rows: Mapping[str, Any], rings: Any = slice(None)) -> IntArray:
        """Store one row in each of `rings`; return the slots."""
        slots: IntArray = self.first[rings] + self.stored[rings] % self.capacity[rings]
        for name, value in rows.items():
            self.arrays[name][slots] = value
        self.stored[rings] += 1
        return slots

    def extend(self, rows: Mapping[str, np.ndarray]) -> IntArray:
        """Store arrays (T, n_rings, ...) in order of time in rings of one length; return the slots filled."""
        n_rows = len(rows["end"])
        kept = np.arange(max(0, n_rows - int(self.capacity[0])), n_rows)
        slots: IntArray = self.first + (self.stored + kept[:, None]) % self.capacity
        for name, value in rows.items():
            self.arrays[name][slots] = value[kept[0] :]
        self.stored += n_rows
        return slots

    def used(self) -> IntArray:
        """Return the slots that hold a row, one ring after the other."""
        return np.concatenate([first + np.arange(n) for first, n in zip(self.first, self.size, strict=True)])

    def in_time(self, ring: int) -> IntArray:
        """Return the slots of one ring, the oldest row first."""
        size, stored = int(self.size[ring]), int(self.stored[ring])
        slots: IntArray = self.first[ring] + (stored - size + np.arange(size)) % self.capacity[ring]
        return slots

    def episodes(self, ring: int, since: int = 0, *, running: bool = False) -> IntArray:
        """Return where the episodes of one ring are: each goes from an entry to before the next.

        The entries count all rows that the ring has ever taken; row r is in slot ``first + r % capacity``.
        With `running`, an episode that goes on ends with the newest row.

        Parameters
        ----------
        ring : int
        since : int
            A row with which an episode is known to begin. If it has been overwritten, the oldest row may be
            in the middle of an episode: this one is left out.
        running : bool

        Returns
        -------
        ndarray of int
            At least 2 entries, or none where there is no whole episode; always the last end, if there is one.
        """
        stored = int(self.stored[ring])
        oldest = stored - int(self.size[ring])
        ends = oldest + 1 + np.flatnonzero(self.arrays["end"][self.in_time(ring)])
        if running:
            ends = np.union1d(ends, [stored])
        begin = max(oldest, since)
        bounds: IntArray = np.concatenate([[begin], ends[ends > begin]])
        return bounds[1:] if oldest > since else bounds

    def keep(self, rings: BoolArray) -> None:
        """Forget the rings that are not marked."""
        self.capacity, self.first, self.stored = self.capacity[rings], self.first[rings], self.stored[rings]


def as_rows(
    given: Mapping[str, Any], reward: Any, terminated: Any, truncated: Any, n_envs: int
) -> dict[str, np.ndarray]:
    """Return checked arrays of shape (T, n_envs, ...), whose leading shape is that of `reward`.

    Examples
    --------
    >>> rows = as_rows({"state": [1.0, 2.0], "action": 0, "next_state": [2.0, 3.0]}, 1.0, False, True, 1)
    >>> rows["state"].shape, rows["action"].shape, rows["end"]
    ((1, 1, 2), (1, 1), array([[2]], dtype=uint8))
    """
    gained = _numbers(reward, "reward").astype(np.float64, copy=False)
    lead = gained.shape
    shape = lead if len(lead) == 2 else (1, *lead) if n_envs > 1 else (*lead, 1)[-2:]
    shape = shape if lead else (1, 1)
    if len(shape) != 2 or shape[1] != n_envs or 0 in shape:
        rule = f"a number, or of shape (n_envs,) or (T, n_envs) with n_envs={n_envs}"
        raise ValueError(must_be("reward", rule, f"shape {lead}"))
    rows = {}
    for name, value in given.items():
        array = _numbers(value, name)
        if array.shape[: len(lead)] != lead:
            raise ValueError(must_be(name, f"of the leading shape of `reward`, {lead}", array.shape))
        rows[name] = array.reshape(shape + array.shape[len(lead) :])
    logs = rows.get("log_probability")
    if logs is not None and rows["action"].dtype.kind in "biu" and (logs > 0.0).any():
        rule = "at most 0 for discrete actions, the logarithm of a probability"
        raise ValueError(must_be("log_probability", rule, logs.max()))
    if rows["state"].shape != rows["next_state"].shape:
        rule = f"of the shape of `state`, {np.shape(given['state'])}"
        raise ValueError(must_be("next_state", rule, np.shape(given["next_state"])))
    rows["reward"] = gained.reshape(shape)
    rows["end"] = np.zeros(shape, dtype=np.uint8)
    for value, name, code in ((truncated, "truncated", TRUNCATED), (terminated, "terminated", TERMINATED)):
        if value is True:
            rows["end"][:] = code
        elif value is not False:
            rows["end"][_flags(value, name, lead).reshape(shape)] = code
    return rows


def _numbers(value: Any, name: str) -> np.ndarray:
    """Return an array of finite numbers, of the type it came with."""
    array = value if type(value) is np.ndarray else np.asarray(as_array(value, name))
    kind = array.dtype.kind
    if kind not in "biuf":
        hint = "Flatten what has several parts, for example with FlattenObservation of Gymnasium."
        raise TypeError(must_be(name, "numbers", f"dtype {array.dtype}", hint))
    if kind == "f" and not np.isfinite(array).all():
        raise ValueError(must_be(name, "finite", "NaN or infinity", "The step was not added."))
    return array


def _flags(value: Any, name: str, lead: tuple[int, ...]) -> np.ndarray:
    flags = np.asarray(as_array(value, name))
    if flags.dtype != np.bool_:
        flags = np.asarray(check_bool(value, name))
    if flags.shape not in ((), lead):
        raise ValueError(must_be(name, f"of the shape of `reward`, {lead}", flags.shape))
    return np.broadcast_to(flags, lead)


def check_continues(rings: Rings, rows: dict[str, np.ndarray], which: IntArray | None, *, cut: bool) -> None:
    """Raise unless rows have the fields of those before, and begin where the step before them ended.

    With `cut`, a step that begins elsewhere ends the episode before as truncated.
    """
    for name, array in rings.arrays.items():
        if name not in rows:
            raise ValueError(must_be(name, "given for all rows or for none", "None"))
        new = rows[name]
        if new.shape[2:] != array.shape[1:]:
            raise ValueError(must_be(name, f"of shape {array.shape[1:]} as the rows before", new.shape[2:]))
        rows[name] = _of_type(new, array.dtype, name)
    if len(rows) > len(rings.arrays):
        raise ValueError(must_be("log_probability", "given for all rows or for none", "an array"))
    newest = rings.newest if which is None else rings.newest[which]
    started = rings.stored > 0 if which is None else rings.stored[which] > 0
    ends = rings.arrays["end"]
    running = started & (ends[newest] == RUNNING)
    here = rows["state"]
    broken = running & _differ(rings.arrays["next_state"][newest], here[0], 1) if running.any() else running
    inner = rows["end"][:-1] == RUNNING
    if len(inner):
        inner &= _differ(rows["next_state"][:-1], here[1:], 2)
    if not (broken.any() or inner.any()):
        return
    if not cut:
        hint = 'Flag the end of the episode, call end_episode(), or use ReplayBuffer(..., gaps="cut").'
        got = "another one: the observation changed between two steps"
        raise ValueError(must_be("state", "the next state of the step before it", got, hint))
    ends[newest[broken]] = TRUNCATED
    rows["end"][:-1][inner] = TRUNCATED


def _of_type(values: np.ndarray, kind: np.dtype[Any], name: str) -> np.ndarray:
    """Return values as numbers of the type of the rows before; fractions may be rounded, nothing else."""
    if values.dtype == kind:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        kept = values.astype(kind)
    rounded = kind.kind == values.dtype.kind == "f"
    if not (np.isfinite(kept) if rounded else kept == values).all():
        hint = "Add the first rows in a type that holds all."
        rule = f"numbers that {kind} holds, as the rows before"
        raise ValueError(must_be(name, rule, f"others, of {values.dtype}", hint))
    return kept


def _differ(a: np.ndarray, b: np.ndarray, lead: int) -> np.ndarray:
    """Say where two arrays differ in anything behind the first `lead` axes."""
    unequal = a != b
    different: np.ndarray = unequal.reshape(*unequal.shape[:lead], -1).any(axis=-1)
    return different


def as_numbers(observations: np.ndarray) -> FloatArray:
    """Return observations (N, ...) as rows of numbers (N, d)."""
    return observations.reshape(len(observations), -1).astype(np.float64)


def gather_episodes(
    rings: Rings, *, running: bool, columns: Callable[[np.ndarray], FloatArray] = as_numbers
) -> Trajectories:
    """Return the episodes of all rings whose first row is still there, in order of time in each ring.

    Parameters
    ----------
    rings : Rings
    running : bool
        Include episodes that have not ended, as truncated.
    columns : callable
        Turns a block of observations (N, ...) into states (N, d).
    """
    bounds = [rings.episodes(ring, running=running) for ring in range(rings.capacity.size)]
    lengths = np.concatenate([np.diff(rows) for rows in bounds])
    if not lengths.size:
        hint = "None has both its start and its end in the buffer yet."
        raise ValueError(must_be("buffer", "one with a whole episode", "none", hint))
    slots = np.concatenate(
        [
            first + np.arange(rows[0], rows[-1]) % capacity
            for rows, first, capacity in zip(bounds, rings.first, rings.capacity, strict=True)
            if rows.size
        ]
    )
    lasts = slots[np.cumsum(lengths) - 1]
    offsets = np.concatenate([[0], np.cumsum(lengths + 1)])
    fields = rings.arrays
    final = columns(fields["next_state"][lasts])
    check_memory(
        final.shape[1] * float(offsets[-1]), "capacity", f"{len(slots)} rows", "Episodes are copied."
    )
    states = np.empty((offsets[-1], final.shape[1]))
    states[offsets[1:] - 1] = final
    place = np.arange(len(slots)) + np.repeat(np.arange(len(lengths)), lengths)
    for first in range(0, len(slots), BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        states[place[block]] = columns(fields["state"][slots[block]])
    actions, logs = fields["action"][slots], fields.get("log_probability")
    ends = fields["end"][lasts]
    return Trajectories._from_flat(
        states,
        offsets,
        rewards=fields["reward"][slots],
        actions=actions.reshape(len(slots), -1) if actions.ndim > 2 else actions,
        terminated=ends == TERMINATED,
        truncated=ends != TERMINATED,
        behavior_probability=None if logs is None else np.exp(logs[slots].astype(np.float64)),
    )


def finished_returns(
    rings: Rings, taken: IntArray, discount: float
) -> tuple[FloatArray, IntArray, IntArray, bool]:
    """Return the episodes that ended behind the first `taken` rows of each ring, in order of time.

    Their returns, the slots of their first rows, their rings, and whether rows were overwritten before they
    were read. `taken` is moved behind them.
    """
    lost = bool((taken < rings.stored - rings.size).any())
    found: list[tuple[int, int, int, float]] = []
    for ring, (first, capacity) in enumerate(zip(rings.first, rings.capacity, strict=True)):
        rows = rings.episodes(ring, int(taken[ring]))
        for begin, end in pairwise(rows.tolist()):
            rewards = rings.arrays["reward"][first + np.arange(begin, end) % capacity]
            total = float(rewards @ discount ** np.arange(end - begin))
            found.append((end, ring, int(first + begin % capacity), total))
        taken[ring] = max(taken[ring], *rows[-1:])
    _, ring_of, slots, returns = zip(*sorted(found), strict=True) if found else ((), (), (), ())
    return np.array(returns, dtype=float), np.array(slots, dtype=int), np.array(ring_of, dtype=int), lost


def summed_rewards(
    rings: Rings, slots: IntArray, n_steps: int, discount: float
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Sum up to `n_steps` rewards along the episode of each slot, to its end or to the newest row.

    Returns
    -------
    total : ndarray of shape (m,)
    factor : ndarray of shape (m,)
        The discount after them.
    last : ndarray of int, shape (m,)
        Slot of the last row.
    """
    rewards, ends = rings.arrays["reward"], rings.arrays["end"]
    total, factor, last = rewards.take(slots), np.full(slots.shape, discount), slots
    if n_steps == 1:
        return total, factor, last
    ring = np.searchsorted(rings.first, slots, side="right") - 1
    first, capacity, newest = rings.first[ring], rings.capacity[ring], rings.newest[ring]
    for _ in range(n_steps - 1):
        onward = (last != newest) & (ends.take(last) == RUNNING)
        last = np.where(onward, first + (last + 1 - first) % capacity, last)
        total = total + np.where(onward, factor * rewards.take(last), 0.0)
        factor = np.where(onward, factor * discount, factor)
    return total, factor, last


class Batch(NamedTuple):
    """Transitions drawn from a buffer: arrays of m rows, of NumPy or of PyTorch.

    Attributes
    ----------
    states, actions, next_states
        With n-step returns, `next_states` lie up to n steps ahead.
    rewards : shape (m,)
        The discounted sum of up to n rewards.
    discounts : shape (m,)
        Factor of the value of `next_states`: discount ** (number of rewards), and 0 after a terminal state.
        The target of a value is ``rewards + discounts * value(next_states)``.
    terminated, truncated : shape (m,), bool
    log_probabilities : shape (m,), or None
        Of the actions under the policy that took them, where they were added.
    weights : shape (m,)
        Importance weights (n p_i) ** -correction over their largest; 1 for uniform draws.
    indices : shape (m,), int
        Where the rows are in the buffer, for `ReplayBuffer.update_priorities`.
    """

    states: Any
    actions: Any
    rewards: Any
    next_states: Any
    discounts: Any
    terminated: Any
    truncated: Any
    log_probabilities: Any
    weights: Any
    indices: Any


def as_tensors(batch: Batch, device: Any) -> Batch:
    """Return the arrays as tensors on a device; double precision becomes single, as networks use it."""
    torch = require_extra("torch", extra="backends", purpose="A batch of tensors")
    try:
        place = torch.device(device)
        on_host = place.type == "cpu" or torch.empty(0, device=place).is_cpu
        if isinstance(device, (bool, float, complex)):
            raise TypeError
    except (
        TypeError,
        RuntimeError,
        AssertionError,
    ) as error:  # the last one is CUDA's, where it is not there
        raise ValueError(must_be("device", 'a device of PyTorch, such as "cpu"', repr(device))) from error
    tensors = []
    for array in batch:
        if array is not None:
            array = torch.from_numpy(array.astype(np.float32) if array.dtype == np.float64 else array)
            array = array if on_host else array.to(place)
        tensors.append(array)
    return Batch(*tensors)
