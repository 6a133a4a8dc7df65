"""How a replay buffer is kept: saved to a file, recovered from a journal, copied and pickled.

A saved buffer is a file with one record, its state; a journal is one with the state and every change since.
"""

from __future__ import annotations

import copy
import os
import threading
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._core.errors import ReplayWarning, must_be
from .._core.records import Journal, Record, read_records, unreadable, write_records
from .._core.validation import check_path

if TYPE_CHECKING:
    from .memory import ReplayBuffer

STATE, ROWS, PRIORITIES, DRAW, END = range(5)
SETTINGS = ("capacity", "n_envs", "n_step", "discount", "sampling", "exponent", "correction", "gaps")
# Cost: journals of fewer bytes are not compacted.
SMALLEST_COMPACTED = 2**22


class SavedBuffer:
    """What `ReplayBuffer` has for this."""

    _journal: Journal | None
    _lock: threading.RLock

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the buffer to `path`; an old file is replaced at once."""
        with self._lock:
            write_records(check_path(path, "path"), [state_of(self)])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the buffer that was saved to `path`; it goes on as if it had never stopped."""
        found: Self = _read(cls, path, "a file that ReplayBuffer.save wrote")
        return found

    @classmethod
    def recover(cls, path: str | os.PathLike[str]) -> Self:
        """Return the buffer of a journal as it was at the last whole record; it goes on writing there.

        Parameters
        ----------
        path : path
            The `journal` of a buffer that was closed, or whose process was killed.
        """
        journal = Journal(check_path(path, "path", exists=True), "path")
        try:
            self: Self = _read(cls, path, "the journal of a ReplayBuffer", mend=True)
        except BaseException:
            journal.close()
            raise
        self._journal = journal
        return self

    def close(self) -> None:
        """Write the journal to the disk and close it; the buffer goes on without."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()
                self._journal = None

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:  # a copy: others may go on adding while it is being written
            left = ("_lock", "_journal", "_calls")
            return copy.deepcopy({name: value for name, value in vars(self).items() if name not in left})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock(), _journal=None, _calls=[])


def state_of(buffer: Any) -> Record:
    """Return everything: settings and arrays."""
    settings = {name: getattr(buffer, name) for name in SETTINGS}
    settings["random"] = buffer._rng.bit_generator.state
    arrays = {}
    if buffer._rings is not None:
        used = buffer._rings.used()
        arrays = {"stored": buffer._rings.stored}
        arrays |= {f"field_{name}": array[used] for name, array in buffer._rings.arrays.items()}
        if buffer._priorities is not None:
            priorities = buffer._priorities.arrays(used)
            arrays |= {f"priority_{name}": array for name, array in priorities.items()}
    return Record(STATE, settings, arrays)


def begin_journal(buffer: ReplayBuffer, path: Any) -> Journal:
    """Begin a journal with the state of a buffer, where there is no file."""
    path = check_path(path, "journal")
    if os.path.lexists(path):
        hint = "Go on with ReplayBuffer.recover(path), or choose another name."
        raise ValueError(must_be("journal", "a new file", f'"{path}", which is there', hint))
    write_records(path, [state_of(buffer)])
    return Journal(path)


def begin(buffer: ReplayBuffer) -> None:
    """Say that a change is about to be made, for `log` to record."""
    if buffer._journal is not None:
        buffer._journal.begin()


def log(buffer: ReplayBuffer, kind: int, about: Any = None, **arrays: np.ndarray) -> None:
    """Record a change that was made already: the whole state may be recorded in its place."""
    journal = buffer._journal
    if journal is None:
        return
    if journal.inherited:
        buffer._journal = None
        text = "This process is a forked child: its buffer goes on without the journal of its parent."
        warnings.warn(text, ReplayWarning, stacklevel=4)
        return
    if not journal.behind:
        journal.append(Record(kind, about, arrays))
    # Most of a long journal is about rows that have left.
    long = journal.size > SMALLEST_COMPACTED and journal.size > 4 * buffer.nbytes + SMALLEST_COMPACTED
    if journal.behind or long:
        journal.rewrite([state_of(buffer)])


def _read(cls: Any, path: Any, what: str, *, mend: bool = False) -> Any:
    """Return the buffer that the records of a file describe."""
    buffer: Any = None
    for number, record in enumerate(read_records(check_path(path, "path", exists=True), what, mend=mend)):
        try:
            buffer = _restored(cls, record) if record.kind == STATE else _changed(buffer, record)
        except Exception as error:  # whole, but not what this version writes
            raise unreadable(path, what, "path", number) from error
    return buffer


def _restored(cls: Any, record: Record) -> Any:
    """Return the buffer that `state_of` described."""
    settings, arrays = record.about, record.arrays
    buffer = cls(**{name: settings[name] for name in SETTINGS})
    if "stored" in arrays:
        fields = _with_prefix(arrays, "field_")
        buffer._rings = rings = buffer._allocate({name: array[None] for name, array in fields.items()})
        if arrays["stored"].shape != rings.stored.shape or arrays["stored"].min() < 0:
            raise ValueError(must_be("stored", "one count per environment", arrays["stored"].shape))
        rings.stored[:] = arrays["stored"]
        used = rings.used()
        for name, array in rings.arrays.items():
            if fields[name].shape != (used.size, *array.shape[1:]):
                raise ValueError(must_be(name, f"{used.size} rows", fields[name].shape))
            array[used] = fields[name]
        if buffer._priorities is not None:
            buffer._priorities.restore(_with_prefix(arrays, "priority_"), used)
    buffer._rng.bit_generator.state = settings["random"]
    return buffer


def _changed(buffer: Any, record: Record) -> Any:
    """Do again what a record says was done."""
    arrays = record.arrays
    if record.kind == ROWS:
        rings = arrays.pop("rings", None)
        buffer._check(arrays, rings)
        buffer._store(arrays, rings)
    elif record.kind == PRIORITIES:
        buffer._priorities.update(arrays["indices"], arrays["values"])
    elif record.kind == DRAW:
        buffer._draw(record.about["size"])
    elif record.kind == END:
        buffer._end()
    return buffer


def _with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
