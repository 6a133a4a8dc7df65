"""How a replay buffer survives: saved to a file, recovered from a journal, copied and pickled."""

from __future__ import annotations

import copy
import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from .._core.errors import must_be
from .._core.files import replacing
from .._core.random import draw_seed
from .._core.typing import BoolArray, FloatArray, IntArray
from ..data import Trajectories
from ..moments import HeldMoments, Moments
from ..moments.rolling import RollingMoments
from ..plans.sum_tree import SumTree
from ._journal import PRIORITIES, ROWS, SMALLEST_COMPACTED, STATE, Journal, pack, read_journal, unpack


class FollowedPolicy:
    """The policy that the moments are about, and the data of every slot, from which they can be had anew."""

    def __init__(self, policy: Callable[..., Any]) -> None:
        self.change(policy)
        self._parts: dict[int, Trajectories] = {}
        self._place: dict[int, tuple[int, int]] = {}  # slot -> part, trajectory in it
        self._n_parts = 0

    def change(self, policy: Callable[..., Any]) -> None:
        """Take another policy; the moments are then those of the one before."""
        if not callable(policy):
            raise TypeError(must_be("policy", "a function of states", type(policy).__name__))
        self.policy = policy
        self.outdated = True

    def remember(self, data: Trajectories, kept: IntArray, slots: IntArray) -> None:
        """Note that the trajectories `kept` of `data` are in `slots` now; forget what was there."""
        part, self._n_parts = self._n_parts, self._n_parts + 1
        self._parts[part] = data
        for slot, trajectory in zip(slots.tolist(), kept.tolist(), strict=True):
            self._place[slot] = (part, trajectory)
        used = {part for part, _ in self._place.values()} if len(self._parts) > 2 * len(self._place) else None
        if used is not None:
            self._parts = {part: data for part, data in self._parts.items() if part in used}

    def data(self) -> tuple[Trajectories, IntArray]:
        """Return the trajectories in the buffer, and the slot of each."""
        by_part: dict[int, list[tuple[int, int]]] = {}
        for slot, (part, trajectory) in self._place.items():
            by_part.setdefault(part, []).append((slot, trajectory))
        pieces = [self._parts[part].select([t for _, t in pairs]) for part, pairs in by_part.items()]
        slots = np.array([slot for pairs in by_part.values() for slot, _ in pairs])
        return Trajectories.concatenate(pieces), slots


class RunningEpisode:
    """The steps of an episode that has not ended yet."""

    def __init__(self) -> None:
        self._steps: list[tuple[FloatArray, float, FloatArray, Any]] = []

    def add(
        self,
        here: FloatArray,
        rewards: FloatArray,
        there: FloatArray,
        actions: np.ndarray | None,
        terminated: BoolArray,
        truncated: BoolArray,
    ) -> Iterator[Trajectories]:
        """Take steps in order of time; yield every episode that they end."""
        for i in range(len(here)):
            if self._steps and not np.array_equal(self._steps[-1][2], here[i]):
                got = f"{here[i]} after a step that led to {self._steps[-1][2]}"
                hint = "Flag the end of the episode, or call end_episode()."
                raise ValueError(must_be("states", "where the step before it ended", got, hint))
            self._steps.append(
                (here[i], float(rewards[i]), there[i], None if actions is None else actions[i])
            )
            if terminated[i] or truncated[i]:
                episode = self.finish(terminated=bool(terminated[i]))
                if episode is not None:
                    yield episode

    def finish(self, *, terminated: bool = False) -> Trajectories | None:
        """Return the steps so far as an episode, and begin the next; None if there are none."""
        steps, self._steps = self._steps, []
        if not steps:
            return None
        states = np.stack([steps[0][0], *(there for _, _, there, _ in steps)])
        actions = None if steps[0][3] is None else [np.stack([action for *_, action in steps])]
        rewards = [np.array([reward for _, reward, _, _ in steps])]
        return Trajectories([states], rewards, actions, terminated=[terminated], truncated=[not terminated])


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
        return settings, {"rows": rows, "arrival": arrival, "priorities": priorities}

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
            stored = Moments.from_rows(arrays["rows"], *layout, symmetric=settings["symmetric"])
            self._held.restore(stored, arrays["arrival"], settings["n_seen"])
        if self._tree is not None:
            self._tree.update(np.arange(len(arrays["priorities"])), arrays["priorities"])
        self._largest_priority = settings["largest_priority"]
        for rng, state in zip((self._held.rng, self._draw_rng), settings["random"], strict=True):
            rng.bit_generator.state = state
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the function `moments` to `path`, as .npz; an old file is replaced at once.

        Not for buffers with a policy, which keep data as well: pickle those.
        """
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
        with open(path, "rb") as stream:
            try:
                with np.load(stream, allow_pickle=False) as file:
                    settings = json.loads(str(file["settings"]))
                    arrays = {name: file[name] for name in ("rows", "arrival", "priorities")}
            except Exception as error:  # NumPy reads damaged headers as expressions: anything may happen
                got = f'"{path}", which is not or is damaged'
                raise ValueError(must_be("path", "a file that ReplayBuffer.save wrote", got)) from error
        return cls._from_state(settings, arrays, moments)

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
        self: Self | None = None
        for kind, content in read_journal(path):
            about, arrays = unpack(content)
            if kind == STATE:
                self = cls._from_state(
                    about, dict(zip(("rows", "arrival", "priorities"), arrays, strict=True)), moments
                )
            elif self is not None:
                self._replay(kind, about, arrays)
        if self is None:
            hint = "It holds no whole record."
            raise ValueError(must_be("path", "the journal of a ReplayBuffer", f'"{path}"', hint))
        self._journal = Journal(path)
        return self

    def _replay(self, kind: int, about: dict[str, Any], arrays: list[np.ndarray]) -> None:
        """Do again what a record says was done."""
        if kind == ROWS:
            moments = Moments.from_rows(
                arrays[0], about["n_basis"], about["n_outputs"], symmetric=about["symmetric"]
            )
            self._extend(moments, arrays[1] if len(arrays) > 1 else None)
        elif kind == PRIORITIES:
            self.set_priorities(*arrays)
        elif about["size"]:
            self._draw(about["size"])
        else:
            draw_seed(self._draw_rng)

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
        if self._journal is None:
            return
        self._journal.append(kind, content)
        if self._journal.size > SMALLEST_COMPACTED and self.n_seen:
            state = self._held.rows[: len(self)].nbytes
            if self._journal.size > 4 * state + SMALLEST_COMPACTED:  # most of it is about what was forgotten
                self._journal.rewrite([self._record()])

    def _log_rows(self, moments: Moments, priorities: Any) -> None:
        if self._journal is not None:
            about = {name: getattr(moments, name) for name in ("n_basis", "n_outputs", "symmetric")}
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
