"""What every long run shares, of the paper or of your own: processes, and what the run was, in a manifest."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from joblib import Parallel, delayed, parallel_config

from replaystats.toolkit import write_bytes

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
    """Return processor, cores, memory and system, as far as they can be found out."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
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


def _memory_gib() -> float | None:
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return None
    return round(total / 2**30, 1)
