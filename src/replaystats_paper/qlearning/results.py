"""Run the study, resume it, read its numbers, and say whether it finds what earlier work found."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from replaystats.toolkit import check_int, track

from ..cells import Cell, Settings
from ..journal import Journal, each, write_json, write_manifest
from .learner import Schedule
from .study import (
    CAPACITIES,
    FULL,
    FULL_RUNS,
    QUICK,
    QUICK_RUNS,
    Table,
    group_cells,
    make_cell,
    mean_and_error,
    run_group,
    study_tables,
)

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
        with closing(each(partial(run_group, seed=seed, n_runs=n_runs), groups, jobs)) as finished:
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


def write_orderings(folder: Path, result: QLearningResult) -> None:
    """Leave what the study found beside its cells, for the report of the re-run."""
    found = [
        {"claim": o.claim, "gap": o.gap, "error": o.error, "verdict": o.verdict}
        for o in compare_cells(result)
    ]
    write_json(folder / ORDERINGS, {"quick": result.quick, "orderings": found})


def _write_manifest(folder: Path, result: QLearningResult, jobs: int) -> None:
    facts = {
        "study": FOLDER,
        "quick": result.quick,
        "seed": result.seed,
        "runs": result.n_runs,
        "cells": len(result.results),
        "core_seconds": result.seconds,
        "jobs": jobs,
    }
    write_manifest(folder, facts)


@dataclass(frozen=True, slots=True)
class Ordering:
    """A claim that one cell earns more than another, and what was measured.

    Attributes
    ----------
    claim : str
    gap, error : float
        Return of the better less that of the worse over the last window, and its standard error.

    Examples
    --------
    >>> Ordering("a small memory earns more", 30.0, 5.0).verdict
    'holds'
    """

    claim: str
    gap: float
    error: float

    @property
    def verdict(self) -> str:
        """Say whether the gap is two standard errors above or below 0, or neither."""
        if abs(self.gap) <= 2 * self.error:
            return "undecided"
        return "holds" if self.gap > 0 else "does not hold"


def compare_cells(result: QLearningResult) -> list[Ordering]:
    """Return the orderings that earlier work reports, as far as their cells were run.

    Returns are compared over the last window there is: episodes 61-150, or 31-60 in a quick run.
    """
    window = "early" if result.quick else "late"
    orderings = []
    for claim, better, worse in _claims(QUICK if result.quick else FULL):
        if better.key in result.results and worse.key in result.results:
            high, high_error = result.measure(better, window)
            low, low_error = result.measure(worse, window)
            orderings.append(Ordering(claim, high - low, float(np.hypot(high_error, low_error))))
    return orderings


def _claims(schedule: Schedule) -> list[tuple[str, Cell, Cell]]:
    """Return (claim, the better cell, the worse)."""
    uniform = {n: make_cell(schedule, capacity=n) for n in CAPACITIES}
    combined = {n: make_cell(schedule, capacity=n, sampler="combined") for n in CAPACITIES}
    often = {n: make_cell(schedule, capacity=n, ratio=16) for n in CAPACITIES}
    pairs = ((100, 1000), (100, 10_000), (1000, 10_000), (10_000, 100_000), (1_000_000, 100_000))
    claims = [
        (f"uniform, B = 1: n = {a:,} earns more than n = {b:,}", uniform[a], uniform[b]) for a, b in pairs
    ]
    claims += [
        (f"B = 1, n = {n:,}: combined earns more than uniform", combined[n], uniform[n]) for n in CAPACITIES
    ]
    claims += [
        (f"uniform, B = 16: n = {n:,} earns more than n = 100", often[n], often[100]) for n in CAPACITIES[2:]
    ]
    return claims
