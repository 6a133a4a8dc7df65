"""Run the study, resume it, say whether it finds what earlier work found, and show it on a page."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from replaystats.plots.style import new_figure, save_figure
from replaystats.toolkit import check_int, embed_picture, render, track, write_bytes

from .cells import Cell, Settings
from .journal import REPORT_NAME, Journal, each, write_json, write_manifest
from .learner import Schedule
from .qlearning_study import (
    CAPACITIES,
    FULL,
    FULL_RUNS,
    QUICK,
    QUICK_RUNS,
    WINDOWS,
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


# Okabe-Ito colours, distinguishable with colour blindness, in the order of the lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def write_page(result: QLearningResult, folder: Path) -> Path:
    """Draw the figures into `folder`, write the page `report.html` there, and return its path."""
    by_capacity = [table for table in result.tables if table.row_name == "capacity n"]
    pictures = {table.name: embed_picture(draw_table(result, table, folder)) for table in by_capacity}
    context = {
        "result": result,
        "orderings": compare_cells(result),
        "curves": embed_picture(draw_curves(result, result.tables[0], folder)),
        "pictures": pictures,
        "windows": ("early",) if result.quick else ("early", "late"),
    }
    page = render("qlearning.html.j2", context, package="replaystats_paper")
    path = folder / REPORT_NAME
    write_bytes(path, page.encode())
    return path


def draw_table(result: QLearningResult, table: Table, folder: Path) -> Path:
    """Draw episode length, and the parts of the error of Q, of a table by capacity; return the PNG."""
    window, episodes = ("early", "31-60") if result.quick else ("late", "61-150")
    panels = {
        window: f"steps per episode, episodes {episodes}",
        "bias2": "squared bias of Q",
        "variance": "variance of Q across runs",
    }
    figure, axes = new_figure(1, len(panels), size=(13, 3.8))
    for ax, (measure, label) in zip(axes[0], panels.items(), strict=True):
        for place, (column, colour) in enumerate(zip(table.columns, COLOURS, strict=False)):
            cells = [row[place] for row in table.cells]
            values, errors = np.array([result.measure(cell, measure) for cell in cells]).T
            values = -values if measure in WINDOWS else values  # a step costs 1
            ax.errorbar([cell["n"] for cell in cells], values, yerr=2 * errors, label=column, color=colour,
                        marker="o", capsize=2)  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel="capacity n", ylabel=label)
    axes[0, 0].legend(fontsize="small")
    figure.suptitle(table.title)
    return save_figure(figure, folder / f"qlearning-{table.name}")[0]


def draw_curves(result: QLearningResult, table: Table, folder: Path) -> Path:
    """Draw the mean return of every episode, with a band of two standard errors, by row of two columns."""
    figure, axes = new_figure(1, 2, size=(11, 3.8), sharey=True)
    for place, ax in enumerate(axes[0]):
        for colour, label, row in zip(COLOURS, table.rows, table.cells, strict=False):
            found = result.results[row[place].key]
            mean, error = np.array(found["curve"]), 2 * np.array(found["curve_se"])
            episodes = np.arange(1, len(mean) + 1)
            ax.plot(episodes, mean, label=f"n = {label}", color=colour, linewidth=1.2)
            ax.fill_between(episodes, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
        ax.set(xlabel="episode", ylabel="return", title=table.columns[place])
        ax.legend(fontsize="small")
    return save_figure(figure, folder / "qlearning-curves")[0]
