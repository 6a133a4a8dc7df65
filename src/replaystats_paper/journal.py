"""What every long run shares: a journal of finished cells, processes, and a manifest of what the run was.

The journal has one line of JSON per finished cell, whole or absent, whatever interrupts the run. Every line
has the settings of its run and its own checksum. A line that is not what was written (cut short by a kill,
changed by hand or by a disk) is removed, with a warning, and its cell is computed again. One run at a time
may write; a second in the same folder is refused.
"""

from __future__ import annotations

import json
import os
import platform
import warnings
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, TypeVar

from joblib import Parallel, cpu_count, delayed, parallel_config

from replaystats import ReplayWarning
from replaystats.toolkit import lock_file, must_be, open_own, physical_memory, track, versions, write_bytes

FILE_NAME, LOCK_NAME, REPORT_NAME = "cells.jsonl", ".lock", "report.html"
Item = TypeVar("Item")
Result = TypeVar("Result")


class HasSettings(Protocol):
    """What a run is made with: two runs with equal settings give equal numbers."""

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        ...


class CellJournal:
    """Finished cells of a run, on disk and in memory.

    A journal made with other settings is refused, because its numbers could not stand beside new ones.

    Parameters
    ----------
    folder : Path
        Where ``cells.jsonl`` lies or will lie.
    settings : Settings, or anything with `as_dict`
    tell : callable
        Receives a sentence about what was damaged; by default a `ReplayWarning`.

    Raises
    ------
    ValueError
        If the folder is a file, cannot be written, is in use, or holds results of other settings.
    """

    def __init__(
        self, folder: Path, settings: HasSettings, *, tell: Callable[[str], None] | None = None
    ) -> None:
        self.path = folder / FILE_NAME
        self.lines: dict[str, dict[str, Any]] = {}
        self._settings = settings.as_dict()
        self._lock: int | None = _locked(folder)
        try:
            self._load(tell or (lambda text: warnings.warn(text, ReplayWarning, stacklevel=4)))
        except BaseException:
            self.close()
            raise

    def has(self, key: str, repetitions: int) -> bool:
        """Say whether a cell is finished with this number of repetitions."""
        return key in self.lines and self.lines[key]["repetitions"] == repetitions

    def append(self, line: dict[str, Any]) -> None:
        """Add a finished cell: forced to disk, and taken back whole where it cannot be written whole.

        Raises
        ------
        OSError
            If it could not be written, for example on a full disk; the journal is as it was before.
        """
        written = {"settings": self._settings, **line}
        data = memoryview(json.dumps({**written, "check": _checksum(written)}).encode() + b"\n")
        descriptor = open_own(self.path, os.O_WRONLY | os.O_APPEND)
        size = os.fstat(descriptor).st_size
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        finally:
            os.close(descriptor)
        self.lines[line["key"]] = line

    def complete(
        self, work: Callable[[Item], dict[str, Any]], items: Sequence[Item], *, jobs: int, progress: str = ""
    ) -> None:
        """Add work(item) for every item as it is finished, in `jobs` processes; `progress` names a bar."""
        with closing(each(work, items, jobs)) as lines:
            for line in track(lines, total=len(items), description=progress) if progress else lines:
                self.append(line)

    def results(self, key: str) -> dict[str, Any]:
        """Return the results of a finished cell."""
        results: dict[str, Any] = self.lines[key]["results"]
        return results

    def close(self) -> None:
        """Let other runs use the folder; what was read stays. A second call does nothing."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __del__(self) -> None:
        if getattr(self, "_lock", None) is not None:
            self.close()

    def __enter__(self) -> CellJournal:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _load(self, tell: Callable[[str], None]) -> None:
        """Read what is whole, and leave a journal of whole lines."""
        raw = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        found = [_read(text) for text in raw]
        for line in found:
            if line is not None:
                self._check_settings(line.pop("settings"))
                self.lines[line["key"]] = line
        damaged = [str(number) for number, line in enumerate(found, start=1) if line is None]
        # A link gives way to a file of one's own: what it points to is not written.
        if damaged or self.path.is_symlink() or not self.path.exists():
            kept = [text for text, line in zip(raw, found, strict=True) if line is not None]
            write_bytes(self.path, b"".join(kept))
        if damaged:
            tell(
                f"{self.path} had {len(damaged)} damaged line(s), which are removed: "
                f"{', '.join(damaged[:5])}. Their cells are computed again."
            )

    def _check_settings(self, found: dict[str, Any]) -> None:
        other = [
            f"{name}={found.get(name)}" for name, one in self._settings.items() if found.get(name) != one
        ]
        if other:
            rule = "a folder without results, or with results of the same settings"
            got = f"{self.path.parent} with {', '.join(other)}"
            raise ValueError(must_be("--out", rule, got, "Choose another folder."))


def _checksum(line: dict[str, Any]) -> str:
    # Python writes floats so that they read back the same: the text of a line read is the text written.
    return f"{zlib.crc32(json.dumps(line).encode()):08x}"


def _read(text: bytes) -> dict[str, Any] | None:
    """Return a line without its checksum; None where it is not what was written."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(line, dict) and line.pop("check", None) == _checksum(line) and text.endswith(b"\n")
    return line if whole else None


def _locked(folder: Path) -> int:
    """Return the descriptor by which a folder, made if it is not there, is held until it is closed.

    The operating system holds the lock, so that a killed run leaves none behind.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(must_be("--out", "a folder", f"the file {folder}"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = open_own(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        got = f"{error.filename or folder} ({error.strerror or error})"
        raise ValueError(must_be("--out", "a folder that can be written", got)) from error
    if not lock_file(descriptor):
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        got = f"{folder}, in use by process {holder or '?'}"
        raise ValueError(must_be("--out", "a folder that no other run is using", got))
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def each(function: Callable[[Item], Result], items: Sequence[Item], jobs: int) -> Generator[Result]:
    """Yield function(item) for every item as it is finished, computed in `jobs` processes.

    Examples
    --------
    >>> sorted(each(abs, [-2, 1], 1))
    [1, 2]
    """
    if jobs == 1 or len(items) < 2:
        for item in items:
            yield function(item)
        return
    jobs = min(jobs, len(items))
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs)
    results = parallel(delayed(_alone)(function, item) for item in items)
    with closing(results):  # a run that is stopped takes its workers with it
        yield from results


def _alone(function: Callable[[Item], Result], item: Item) -> Result:
    """Compute one item in one worker: its parts would wait for workers that wait for theirs."""
    with parallel_config("sequential"):
        return function(item)


def write_json(path: Path, value: Any) -> None:
    """Write plain values, whole or not at all."""
    write_bytes(path, (json.dumps(value, indent=1) + "\n").encode())


def write_manifest(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Write what a run was, with its machine and versions, into its folder; return all of it."""
    installed = {name: version for name, version in versions().items() if version is not None}
    packages = {"replaystats": metadata.version("replaystats"), **installed}
    manifest = {**facts, "machine": describe_machine(), "versions": packages}
    write_json(folder / "manifest.json", manifest)
    return manifest


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory, system and how busy it is, as far as they can be found out."""
    memory, cpuinfo = physical_memory(), Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.exists() else ""
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or "unknown",
        "cores": cpu_count(),  # those that the run may use
        "memory_gib": None if memory is None else round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        # How many processes wanted to run over the last 15 minutes: times were measured among them.
        "load_average": round(os.getloadavg()[2], 1) if hasattr(os, "getloadavg") else None,
    }
