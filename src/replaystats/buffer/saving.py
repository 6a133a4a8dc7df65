"""How a replay buffer is kept: saved to a file, recovered from a journal, copied and pickled."""

from __future__ import annotations

import copy
import json
import os
import threading
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .._core.errors import ReplayWarning, must_be
from .._core.files import replacing
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_path
from .journal import (
    DRAW,
    END,
    PRIORITIES,
    ROWS,
    SMALLEST_COMPACTED,
    STATE,
    Journal,
    pack,
    read_journal,
    unpack,
)
from .priorities import Proportional
from .rings import Rings

SETTINGS = ("capacity", "n_envs", "n_step", "discount", "sampling", "exponent", "correction", "gaps")


class SavedBuffer:
    """What `ReplayBuffer` has for this."""

    capacity: Any
    _rings: Rings | None
    _priorities: Proportional | None
    _rng: np.random.Generator
    _journal: Journal | None
    _lock: threading.RLock

    def __init__(self, *arguments: Any, **options: Any) -> None:
        raise NotImplementedError

    def _allocate(self, rows: Mapping[str, np.ndarray]) -> Rings:
        raise NotImplementedError

    def _store(self, rows: Mapping[str, np.ndarray], rings: IntArray | None) -> None:
        raise NotImplementedError

    def _draw(self, size: int) -> tuple[IntArray, FloatArray | None]:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return everything: settings and arrays."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        settings["random"] = self._rng.bit_generator.state
        if self._rings is None:
            return settings, {}
        used = self._rings.used()
        arrays = {f"field_{name}": array[used] for name, array in self._rings.arrays.items()}
        priorities = {} if self._priorities is None else self._priorities.arrays(used)
        named = {f"priority_{name}": array for name, array in priorities.items()}
        return settings, {"stored": self._rings.stored, **arrays, **named}

    @classmethod
    def _from_state(cls, settings: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the buffer that `_state` described."""
        self = cls(**{name: settings[name] for name in SETTINGS})
        if "stored" in arrays:
            fields = _with_prefix(arrays, "field_")
            self._rings = rings = self._allocate({name: array[None] for name, array in fields.items()})
            if arrays["stored"].shape != rings.stored.shape or arrays["stored"].min() < 0:
                raise ValueError(must_be("stored", "one count per environment", arrays["stored"].shape))
            rings.stored[:] = arrays["stored"]
            used = rings.used()
            for name, array in rings.arrays.items():
                if fields[name].shape != (used.size, *array.shape[1:]):
                    raise ValueError(must_be(name, f"{used.size} rows", fields[name].shape))
                array[used] = fields[name]
            if self._priorities is not None:
                self._priorities.restore(_with_prefix(arrays, "priority_"), used)
        self._rng.bit_generator.state = settings["random"]
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the buffer to `path`, as .npz; an old file is replaced at once."""
        path = check_path(path, "path")
        with self._lock:
            settings, arrays = self._state()
            with replacing(path) as file:
                np.savez(file, allow_pickle=False, settings=np.array(json.dumps(settings)), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the buffer that was saved to `path`; it goes on as if it had never stopped."""
        path = check_path(path, "path", exists=True)
        with path.open("rb") as stream:
            try:
                with np.load(stream, allow_pickle=False) as file:
                    settings = json.loads(str(file["settings"]))
                    arrays = {name: file[name] for name in file.files if name != "settings"}
                return cls._from_state(settings, arrays)
            except Exception as error:  # NumPy reads damaged headers as expressions: anything may happen
                got = f'"{path}", which is not or is damaged'
                raise ValueError(must_be("path", "a file that ReplayBuffer.save wrote", got)) from error

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
            self: Self | None = None
            for number, (kind, content) in enumerate(read_journal(path)):
                try:
                    about, arrays = unpack(content)
                    if kind == STATE:
                        self = cls._from_state(about, arrays)
                    elif self is not None:
                        self._repeat(kind, about, arrays)
                except Exception as error:  # whole, but not what this version writes
                    got = f'"{path}", whose record {number} cannot be read'
                    raise ValueError(must_be("path", "the journal of a ReplayBuffer", got)) from error
            if self is None:
                got = f'"{path}", which does not begin with a state'
                raise ValueError(must_be("path", "the journal of a ReplayBuffer", got))
        except BaseException:
            journal.close()
            raise
        journal.size = os.path.getsize(path)
        self._journal = journal
        return self

    def _repeat(self, kind: int, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Do again what a record says was done."""
        if kind == ROWS:
            self._store(arrays, arrays.pop("rings", None))
        elif kind == PRIORITIES and self._priorities is not None:
            self._priorities.update(arrays["indices"], arrays["values"])
        elif kind == DRAW:
            self._draw(about["size"])
        elif kind == END:
            self._end()

    def close(self) -> None:
        """Write the journal to the disk and close it; the buffer goes on without."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()
                self._journal = None

    def _record(self) -> tuple[int, bytes]:
        settings, arrays = self._state()
        return STATE, pack(settings, **arrays)

    def _log(self, kind: int, about: dict[str, Any], **arrays: np.ndarray) -> None:
        """Record a change that was made already: the whole state may be recorded in its place."""
        journal = self._journal
        if journal is None:
            return
        if journal.inherited:
            self._journal = None
            text = "This process is a forked child: its buffer goes on without the journal of its parent."
            warnings.warn(text, ReplayWarning, stacklevel=4)
            return
        if journal.behind:
            journal.rewrite([self._record()])
            return
        journal.append(kind, pack(about, **arrays))
        if journal.size > SMALLEST_COMPACTED and self._rings is not None:
            held = sum(array.nbytes for array in self._rings.arrays.values())
            if journal.size > 4 * held + SMALLEST_COMPACTED:  # most of it is about rows that have left
                journal.rewrite([self._record()])

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:  # a copy: others may go on adding while it is being written
            kept = {
                name: value
                for name, value in vars(self).items()
                if name not in ("_lock", "_journal", "_calls")
            }
            return copy.deepcopy(kept)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock(), _journal=None, _calls=[])


def _with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
