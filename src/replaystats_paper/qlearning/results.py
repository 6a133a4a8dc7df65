"""Run the study, resume it, and read its numbers."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from replaystats.toolkit import check_int, track, write_bytes

from ..cells import Cell, Settings
from ..journal import Journal
from ..manifest import describe_machine, package_versions
from .study import FULL_RUNS, QUICK_RUNS, Table, group_cells, run_group, study_tables
from .summary import mean_and_error

FOLDER = "qlearning"
ORDERINGS = "orderings.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class QLearningResult:
    """The finished study.

    Attributes
    ----------
    tables : tuple of Table
    results : dict
        What `summary.summarise_runs` gave, by key of the cell.
    quick : bool
    n_runs, seed : int
    seconds : float
        Time of all cells on one core.
    """

    tables: tuple[Table, ...]
    results: dict[str, dict[str, Any]]
    quick: bool
    n_runs: int
    seed: int
    seconds: float

    def measure(self, cell: Cell, name: str) -> tuple[float, float]:
        """Return a measure of a cell and its Monte-Carlo standard error.

        Parameters
        ----------
        cell : Cell
        name : {"early", "late", "mse", "bias2", "variance"}
            Mean return over episodes 31-60 or 61-150; or, after the last episode, the mean squared error of
            Q and its two parts. NaN where the run was too short for it.
        """
        results = self.results[cell.key]
        if name in ("early", "late"):
            return mean_and_error(results[name]) if name in results else (np.nan, np.nan)
        return results["q"][-1][name], results["q"][-1][f"{name}_se"]

    def __repr__(self) -> str:
        return f"QLearningResult({len(self.results)} cells x {self.n_runs} runs, seed {self.seed})"


def run_qlearning(
    out: Path | str, *, quick: bool = False, jobs: int = 1, seed: int = 20260, progress: bool = True
) -> QLearningResult:
    """Run the study of replay in Q-learning, or finish one that was interrupted.

    Parameters
    ----------
    out : Path or str
        Results go into its folder ``qlearning``: ``cells.jsonl``, one line per finished cell, and
        ``manifest.json``.
    quick : bool
        Six cells, 5 runs and 60 episodes in place of 84 cells, 30 runs and 150 episodes.
    jobs : int
        Processes. The results do not depend on it.
    seed : int
    progress : bool
        Whether to draw a bar in a terminal.
    """
    check_int(jobs, "jobs", hint="It is the number of processes.")
    folder, n_runs = Path(out) / FOLDER, QUICK_RUNS if quick else FULL_RUNS
    tables = tuple(study_tables(quick=quick))
    cells = [cell for table in tables for row in table.cells for cell in row]
    with Journal(folder, Settings(seed=seed)) as journal:
        groups = group_cells(cell for cell in cells if not journal.has(cell.key, n_runs))
        with closing(_computed(groups, seed, n_runs, jobs)) as finished:
            for lines in (
                track(finished, total=len(groups), description="Q-learning") if progress else finished
            ):
                for line in lines:
                    journal.append(line)
    wanted = {cell.key: journal.lines[cell.key] for cell in cells}
    result = QLearningResult(
        tables=tables,
        results={key: line["results"] for key, line in wanted.items()},
        quick=quick,
        n_runs=n_runs,
        seed=seed,
        seconds=round(sum(line["seconds"] for line in wanted.values()), 1),
    )
    _write_manifest(folder, result, jobs)
    write_orderings(folder, result)
    return result


def _computed(
    groups: Sequence[Sequence[Cell]], seed: int, n_runs: int, jobs: int
) -> Generator[list[dict[str, Any]]]:
    """Yield the lines of each group as it is finished."""
    if jobs == 1 or len(groups) < 2:
        for group in groups:
            yield run_group(group, seed, n_runs)
        return
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs)
    lines = parallel(delayed(run_group)(group, seed, n_runs) for group in groups)
    with closing(lines):
        yield from lines


def write_orderings(folder: Path, result: QLearningResult) -> None:
    """Leave what the study found beside its cells, for the report of the re-run."""
    from .orderings import compare_cells

    found = [
        {"claim": o.claim, "gap": o.gap, "error": o.error, "verdict": o.verdict}
        for o in compare_cells(result)
    ]
    write_bytes(folder / ORDERINGS, (json.dumps({"quick": result.quick, "orderings": found}) + "\n").encode())


def _write_manifest(folder: Path, result: QLearningResult, jobs: int) -> None:
    manifest = {
        "study": FOLDER,
        "quick": result.quick,
        "seed": result.seed,
        "runs": result.n_runs,
        "cells": len(result.results),
        "core_seconds": result.seconds,
        "jobs": jobs,
        "machine": describe_machine(),
        "versions": package_versions(),
    }
    write_bytes(folder / "manifest.json", (json.dumps(manifest, indent=2) + "\n").encode())
