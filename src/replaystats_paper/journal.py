"""What every long run shares: a journal of finished cells, processes, and a manifest of what the run was.

The journal has one line of JSON per finished cell, whole or absent, whatever interrupts the run. The first
line holds the settings, every line its own checksum. A line that is not what was written (cut short by a
kill, changed by hand or by a disk) takes no part: it is moved to a file beside the journal and said, and its
cell is computed again. One run at a time may write; a second in the same folder is refused.
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
from types import TracebackType
from typing import Any, Protocol, TypeVar

from joblib import Parallel, cpu_count, delayed, parallel_config

from replaystats import ReplayWarning
from replaystats.toolkit import lock_file, must_be, open_own, physical_memory, write_bytes

FILE_NAME = "cells.jsonl"
SET_ASIDE_NAME = "cells.set-aside"
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "key": str,
    "repetitions": int,
    "seconds": (int, float),
    "results": dict,
}


class HasSettings(Protocol):
    """What a run is made with: two runs with equal settings give equal numbers."""

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        ...


class Journal:
    """Finished cells of a run, on disk and in memory.

    A journal made with other settings is refused, because its numbers could not stand beside new ones.

    Parameters
    ----------
    folder : Path
        Where ``cells.jsonl`` lies or will lie.
    settings : Settings, or anything with `as_dict`
    tell : callable
        Receives a sentence about what was set aside; by default a `ReplayWarning`.

    Raises
    ------
    ValueError
        If the folder is a file, cannot be written, is in use, or holds results of other settings, or of
        settings that are not known.
    """

    def __init__(
        self, folder: Path, settings: HasSettings, *, tell: Callable[[str], None] | None = None
    ) -> None:
        self.path = folder / FILE_NAME
        self.lines: dict[str, dict[str, Any]] = {}
        self._tell = tell or (lambda text: warnings.warn(text, ReplayWarning, stacklevel=3))
        self._lock = FolderLock(folder)
        try:
            self._load(settings)
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
        data = memoryview(_encoded(line))
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

    def results(self, key: str) -> dict[str, Any]:
        """Return the results of a finished cell."""
        results: dict[str, Any] = self.lines[key]["results"]
        return results

    def close(self) -> None:
        """Let other runs use the folder; what was read stays."""
        self._lock.release()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _load(self, settings: HasSettings) -> None:
        """Read what is whole, set the rest aside, and leave a journal of whole lines."""
        raw = self.path.read_bytes().split(b"\n") if self.path.exists() else []
        header = _header(raw[0]) if raw else None
        kept, aside = [_encoded({"settings": settings.as_dict()})], []
        for number, text in enumerate(raw[1:] if raw else [], start=2):
            if not text:
                continue
            line, fault = _decoded(text)
            if line is None:
                aside.append((number, text, fault))
            else:
                self.lines[line["key"]] = line
                kept.append(text + b"\n")
        if header is None and (self.lines or any(b'"results"' in text for _, text, _ in aside)):
            rule = "a folder whose journal says its settings in the first line"
            hint = (
                "Its first line is damaged, so nobody knows what its cells are. "
                f"Remove {self.path.name}, or choose another folder."
            )
            raise ValueError(must_be("--out", rule, self.path.parent, hint))
        if header is not None:
            self._check_settings(header, settings)
        # A link gives way to a file of one's own: what it points to is not written.
        if not raw or aside or header is None or raw[-1] or self.path.is_symlink():
            self._set_aside(aside)
            write_bytes(self.path, b"".join(kept))

    def _set_aside(self, aside: list[tuple[int, bytes, str]]) -> None:
        if not aside:
            return
        path = self.path.with_name(SET_ASIDE_NAME)
        with os.fdopen(open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
            file.write(b"".join(text + b"\n" for _, text, _ in aside))
        faults = "; ".join(f"line {number} is {fault}" for number, _, fault in aside[:5])
        more = f"; and {len(aside) - 5} more" if len(aside) > 5 else ""
        self._tell(
            f"{self.path} has {len(aside)} damaged line(s), moved to {path.name}; "
            f"their cells are computed again ({faults}{more})."
        )

    def _check_settings(self, found: dict[str, Any], settings: HasSettings) -> None:
        wanted = settings.as_dict()
        other = [f"{name}={found.get(name)}" for name in wanted if found.get(name) != wanted[name]]
        if other:
            rule = "a folder without results, or with results of the same settings"
            got = f"{self.path.parent} with {', '.join(other)}"
            raise ValueError(must_be("--out", rule, got, "Choose another folder."))


def _encoded(line: dict[str, Any]) -> bytes:
    """Return a line with its checksum, as it stands in the file."""
    return (json.dumps({**line, "check": _checksum(line)}) + "\n").encode()


def _checksum(line: dict[str, Any]) -> str:
    # Python writes floats so that they read back the same: the text of a line read is the text written.
    return f"{zlib.crc32(json.dumps(line).encode()):08x}"


def _checked(text: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return the object of a line without its checksum, or None and what is wrong with it."""
    try:
        line = json.loads(text.decode())
    except UnicodeDecodeError:
        return None, "not UTF-8"
    except (json.JSONDecodeError, RecursionError):
        return None, "not JSON, perhaps cut short"
    if not isinstance(line, dict):
        return None, "not an object"
    check = line.pop("check", None)
    if check is None:
        return None, "without a checksum"
    return (line, "") if check == _checksum(line) else (None, "not what its checksum says")


def _decoded(text: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return a cell, or None and what is wrong with its line."""
    line, fault = _checked(text)
    if line is None:
        return None, fault
    for name, kind in _FIELDS.items():
        if not isinstance(line.get(name), kind):
            return None, f"without a usable `{name}`"
    return line, ""


def _header(text: bytes) -> dict[str, Any] | None:
    """Return the settings of the first line; None where it is empty or damaged."""
    line, _ = _checked(text)
    settings = None if line is None else line.get("settings")
    return settings if isinstance(settings, dict) else None


LOCK_NAME = ".lock"


class FolderLock:
    """Hold a folder until `release`, or until the process ends, however it ends.

    The operating system holds the lock, so that a killed run leaves none behind.

    Parameters
    ----------
    folder : Path
        Made if it is not there.

    Raises
    ------
    ValueError
        If the folder is a file, cannot be written, or is held by another run.
    """

    def __init__(self, folder: Path) -> None:
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
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Give the folder back; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            self.release()


PACKAGES = ("replaystats", "numpy", "scipy", "scikit-learn", "joblib", "matplotlib")
REPORT_NAME = "report.html"

Item = TypeVar("Item")
Result = TypeVar("Result")


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
    manifest = {**facts, "machine": describe_machine(), "versions": package_versions()}
    write_json(folder / "manifest.json", manifest)
    return manifest


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory, system and how busy it is, as far as they can be found out."""
    return {
        "processor": _processor(),
        "cores": cpu_count(),  # those that the run may use
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_average": _load_average(),
    }


def package_versions() -> dict[str, str]:
    """Return the installed versions of the packages that decide the numbers."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _load_average() -> float | None:
    """Return how many processes wanted to run, over the last 15 minutes: times were measured among them."""
    try:
        return round(os.getloadavg()[2], 1)
    except (AttributeError, OSError):  # not every system tells
        return None


def _memory_gib() -> float | None:
    total = physical_memory()
    return None if total is None else round(total / 2**30, 1)
