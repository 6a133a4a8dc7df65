"""How a replay buffer survives: saved to a file, recovered from a journal, copied and pickled."""

from __future__ import annotations

import copy
import json
import os
import threading
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .._core.errors import must_be
from .._core.files import replacing
from .._core.random import draw_seed
from .._core.typing import IntArray
from .._core.validation import check_bool, check_path, check_real
from ..moments import HeldMoments, Moments
from ..moments.rolling import RollingMoments
from ._buffer_data import FollowedPolicy, RunningEpisode, SumTree
from ._journal import DRAW, PRIORITIES, ROWS, SMALLEST_COMPACTED, STATE, Journal, pack, read_journal, unpack


def check_function(value: Any, name: str) -> None:
    """Raise unless `value` is a function or None."""
    if value is not None and not callable(value):
        raise TypeError(must_be(name, "a function", repr(value)))


class SavedBuffer:
    """What `ReplayBuffer` has for this."""

    _held: RollingMoments
    _tree: SumTree | None
    _sources: FollowedPolicy | None
    _running: RunningEpisode | None
    _journal: Journal | None
    _lock: threading.RLock
    _draw_rng: np.random.Generator
    _largest_priority: float
    n_seen: Any
    _extend: Callable[..., tuple[IntArray, IntArray]]
    _draw: Callable[[int], IntArray]
    set_priorities: Callable[..., None]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return everything but functions: settings, and arrays."""
        held, size, layout = self._held, len(self), self._held.layout if self.n_seen else None
        settings = {
            "capacity": held.capacity,
            "eviction": held.eviction,
            "prioritised": self._tree is not None,
            "unit": "step" if self._running is None else "episode",
            "n_seen": held.n_seen,
            "n_basis": None if layout is None else layout.n_basis,
            "n_outputs": None if layout is None else layout.n_outputs,
            "symmetric": None if layout is None else layout.symmetric,
            "largest_priority": self._largest_priority,
            "random": [rng.bit_generator.state for rng in (held.rng, self._draw_rng)],
        }
        priorities = np.empty(0) if self._tree is None else self._tree.priorities[:size]
        rows, arrival = (
            (held.rows[:size], held.arrival[:size]) if size else (np.empty((0, 0)), np.empty(0, int))
        )
        arrays = {"rows": rows, "arrival": arrival, "priorities": priorities}
        return settings, arrays | ({} if self._running is None else self._running.arrays())

    @classmethod
    def _from_state(cls, settings: dict[str, Any], arrays: dict[str, np.ndarray], moments: Any) -> Self:
        self = cls(
            settings["capacity"],
            moments,
            eviction=settings["eviction"],
            prioritized=settings.get("prioritised", arrays["priorities"].size > 0),
            unit=settings.get("unit", "step"),
        )
        if settings["n_basis"] is not None:
            layout = (settings["n_basis"], settings["n_outputs"])
            symmetric = check_bool(settings["symmetric"], "symmetric")
            stored = Moments.from_rows(arrays["rows"], *layout, symmetric=symmetric)
            self._held.restore(stored, arrays["arrival"], settings["n_seen"])
        if self._running is not None:
            self._running.take(arrays)
        if self._tree is not None and len(self):
            self.set_priorities(np.arange(len(self)), arrays["priorities"])
        self._largest_priority = check_real(settings["largest_priority"], "largest_priority", low=0.0)
        for rng, state in zip((self._held.rng, self._draw_rng), settings["random"], strict=True):
            rng.bit_generator.state = state
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the function `moments` to `path`, as .npz; an old file is replaced at once.

        Not for buffers with a policy, which keep data as well: pickle those.
        """
        path = check_path(path, "path")
        with self._lock:
            if self._sources is not None:
                hint = "It keeps data and a function: pickle it."
                raise ValueError(must_be("buffer", "one without a policy", "one with a policy", hint))
            settings, arrays = self._state()
            with replacing(path) as file:
                np.savez(file, allow_pickle=False, settings=np.array(json.dumps(settings)), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], moments: Callable[..., HeldMoments] | None = None) -> Self:
        """Return the buffer that was saved to `path`; it goes on as if it had never stopped."""
        path = check_path(path, "path", exists=True)
        check_function(moments, "moments")
        with path.open("rb") as stream:
            try:
                with np.load(stream, allow_pickle=False) as file:
                    settings = json.loads(str(file["settings"]))
                    arrays = {name: file[name] for name in file.files if name != "settings"}
                return cls._from_state(settings, arrays, moments)
            except Exception as error:  # NumPy reads damaged headers as expressions: anything may happen
                got = f'"{path}", which is not or is damaged'
                raise ValueError(must_be("path", "a file that ReplayBuffer.save wrote", got)) from error

    @classmethod
    def recover(cls, path: str | os.PathLike[str], moments: Callable[..., HeldMoments] | None = None) -> Self:
        """Return the buffer of a journal as it was at the last whole record; it goes on writing there.

        Parameters
        ----------
        path : path
            The `journal` of a buffer that was closed, or whose process was killed.
        moments : callable, optional
            As before: functions are not recorded.
        """
        check_function(moments, "moments")
        journal = Journal(check_path(path, "path", exists=True), "path")
        try:
            self: Self | None = None
            for number, (kind, content) in enumerate(read_journal(path)):
                try:
                    about, arrays = unpack(content)
                    if kind == STATE:
                        self = cls._from_state(about, arrays, moments)
                    elif self is not None:
                        self._replay(kind, about, arrays)
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

    def _replay(self, kind: int, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Do again what a record says was done."""
        if kind == ROWS:
            layout = (about["n_basis"], about["n_outputs"])
            moments = Moments.from_rows(arrays["rows"], *layout, symmetric=about["symmetric"])
            self._extend(moments, arrays.get("priorities"), ends_episode=about.get("ends_episode", False))
        elif kind == PRIORITIES:
            self.set_priorities(arrays["slots"], arrays["values"])
        elif kind == DRAW and about["size"]:
            self._draw(about["size"])
        elif kind == DRAW:
            draw_seed(self._draw_rng)
        elif self._running is not None:
            self._running.take(arrays)

    def close(self) -> None:
        """Bring the journal to the disk and let go of it; the buffer goes on without."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()
                self._journal = None

    def _record(self) -> tuple[int, bytes]:
        settings, arrays = self._state()
        return STATE, pack(settings, **arrays)

    def _log(self, kind: int, content: bytes) -> None:
        """Record a change that was made already: the whole state may be recorded in its place."""
        if self._journal is None:
            return
        if self._journal.behind:
            self._journal.rewrite([self._record()])
            return
        self._journal.append(kind, content)
        if self._journal.size > SMALLEST_COMPACTED and self.n_seen:
            state = self._held.rows[: len(self)].nbytes
            if self._journal.size > 4 * state + SMALLEST_COMPACTED:  # most of it is about what was forgotten
                self._journal.rewrite([self._record()])

    def _log_rows(self, moments: Moments, priorities: Any, *, ends_episode: bool = False) -> None:
        if self._journal is not None:
            about = {name: getattr(moments, name) for name in ("n_basis", "n_outputs", "symmetric")}
            about |= {"ends_episode": True} if ends_episode else {}
            arrays = {"rows": moments.rows}
            if priorities is not None:
                arrays["priorities"] = np.asarray(priorities, dtype=np.float64)
            self._log(ROWS, pack(about, **arrays))

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:  # a copy: others may go on adding while it is being written
            kept = {name: value for name, value in vars(self).items() if name not in ("_lock", "_journal")}
            functions = {name: kept.pop(name) for name in ("_moments_of", "_sources")}
            return copy.deepcopy(kept) | functions

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock(), _journal=None)
