"""Appendix D, measured: replay in Q-learning at several capacities and ratios, resumable, on one page."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from replaystats.plots.style import new_figure, save_figure
from replaystats.toolkit import FloatArray, check_int, embed_picture, render, track, write_bytes

from .cells import Cell, Settings, cell_stream
from .journal import REPORT_NAME, Journal, each, write_json, write_manifest
from .learner import SAMPLERS, GridWorld, Lockstep, Rule, Schedule, optimal_values, ring_maze
from .measures import FAILS, HOLDS, UNDECIDED

FOLDER, ORDERINGS = "qlearning", "orderings.json"
CAPACITIES = (10**2, 10**3, 10**4, 10**5, 10**6)
RATIOS = (0.25, 1, 4, 16)
FULL, QUICK = Schedule(), Schedule(n_episodes=60)
FULL_RUNS, QUICK_RUNS = 30, 5
WINDOWS = {"early": (30, 60), "late": (60, 150)}  # episodes 31-60 and 61-150


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Cells by capacity (rows) and rule (columns): ``cells[i][j]`` stands in row i and column j."""

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]

    def __repr__(self) -> str:
        return f"Table({self.name}, {len(self.rows)} x {len(self.columns)})"


def make_cell(schedule: Schedule, *, capacity: int, **rule: Any) -> Cell:
    """Return the cell of a rule and a capacity; its key holds everything that decides its numbers.

    Examples
    --------
    >>> make_cell(FULL, capacity=100, sampler="combined").key
    'qlearning features=table timeouts=bootstrap sampler=combined n_step=1 k=10 B=1 episodes=150 n=100'
    """
    checked = Rule(**rule)
    # The key is the seed of the runs: fixed parts stay in it, so that stored results stay what they are.
    parameters: dict[str, int | float | str] = {
        "features": "table", "timeouts": "bootstrap", "sampler": checked.sampler, "n_step": 1,
        "k": checked.minibatch, "B": f"{checked.ratio:g}", "episodes": schedule.n_episodes, "n": capacity,
    }  # fmt: skip
    return Cell("qlearning", tuple(parameters.items()))


def rule_of(cell: Cell) -> Rule:
    """Return the rule of a cell."""
    return Rule(sampler=cell["sampler"], minibatch=cell["k"], ratio=float(cell["B"]))


# By table: its title, and the rules in its columns.
_TABLES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "sampler": ("B = 1, k = 10", {name: {"sampler": name} for name in SAMPLERS}),
    "ratio": ("Ratios: uniform, k = 10", {f"B = {ratio:g}": {"ratio": ratio} for ratio in RATIOS}),
}
_QUICK_RULES: dict[str, dict[str, Any]] = {
    "uniform": {},
    "combined": {"sampler": "combined"},
    "uniform, B = 16": {"ratio": 16},
}
_QUICK_TABLES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "sampler": ("A quick look: k = 10", _QUICK_RULES)
}


def study_tables(*, quick: bool) -> list[Table]:
    """Return the tables of the full study, or of a quick look at it.

    Examples
    --------
    >>> study_tables(quick=False)
    [Table(sampler, 5 x 2), Table(ratio, 5 x 4)]
    """
    schedule, capacities = (QUICK, (10**2, 10**4)) if quick else (FULL, CAPACITIES)
    return [
        Table(
            name=name,
            title=title,
            rows=tuple(f"{capacity:,}" for capacity in capacities),
            columns=tuple(rules),
            cells=tuple(
                tuple(make_cell(schedule, capacity=capacity, **rule) for rule in rules.values())
                for capacity in capacities
            ),
        )
        for name, (title, rules) in (_QUICK_TABLES if quick else _TABLES).items()
    ]


def all_cells(*, quick: bool) -> list[Cell]:
    """Return every cell of the study once."""
    cells = (cell for table in study_tables(quick=quick) for row in table.cells for cell in row)
    return list(dict.fromkeys(cells))


def group_cells(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Gather cells that differ in capacity only, whose runs can go in lockstep; the slowest group first."""
    groups: dict[Rule, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(rule_of(cell), []).append(cell)
    return [groups[rule] for rule in sorted(groups, key=_cost, reverse=True)]


def _cost(rule: Rule) -> float:
    """Return roughly the time of a group: overhead per step, plus work per transition replayed."""
    replayed = rule.ratio * rule.minibatch  # transitions per step; faster learners take fewer steps
    steps = (0.3 if rule.sampler == "combined" else 1.0) * 10 / (10 + replayed)
    return steps * (1.0 + 0.1 * replayed)


def run_group(cells: Sequence[Cell], seed: int, n_runs: int) -> list[dict[str, Any]]:
    """Compute cells that share a rule, all their runs in lockstep, and return a journal line for each.

    Every run has the stream (seed, key of its cell, number of the run): results depend on nothing else.
    """
    started = time.perf_counter()
    world = ring_maze()
    schedule = QUICK if cells[0]["episodes"] == QUICK.n_episodes else FULL
    capacities = np.repeat([cell["n"] for cell in cells], n_runs)
    generators = [cell_stream(seed, cell.key, run) for cell in cells for run in range(n_runs)]
    with threadpool_limits(1):
        histories = Lockstep(world, rule_of(cells[0]), schedule, capacities, generators).run()
    seconds = round((time.perf_counter() - started) / len(cells), 3)
    lines = []
    for place, cell in enumerate(cells):
        runs = slice(place * n_runs, (place + 1) * n_runs)
        results = summarise_runs(histories.returns[runs], histories.q[runs], world)
        lines.append({"key": cell.key, "repetitions": n_runs, "seconds": seconds, "results": results})
    return lines


def summarise_runs(returns: FloatArray, q: FloatArray, world: GridWorld) -> dict[str, Any]:
    """Reduce the runs of one cell to plain values.

    Parameters
    ----------
    returns : ndarray of shape (R, n_episodes)
    q : ndarray of shape (R, n_states, 4)
    world : GridWorld

    Returns
    -------
    dict
        "curve" and "curve_se" (mean return of every episode and its standard error), "early" and "late"
        (mean return of each run over episodes 31-60 and 61-150; the latter only where there are as many),
        "steps" (mean environment steps of a run), and "q", what `decompose_error` gives.
    """
    n_runs, states = len(returns), world.learnable
    summary: dict[str, Any] = {
        "curve": returns.mean(axis=0).round(2).tolist(),
        "curve_se": (returns.std(axis=0, ddof=1) / np.sqrt(n_runs)).round(2).tolist(),
        "steps": float(-returns.sum() / n_runs),
        "q": decompose_error(q[:, states].reshape(n_runs, -1), optimal_values(world)[states].ravel()),
    }
    for name, (begin, end) in WINDOWS.items():
        if returns.shape[1] >= end:
            summary[name] = returns[:, begin:end].mean(axis=1).round(3).tolist()
    return summary


def decompose_error(estimates: FloatArray, truth: FloatArray) -> dict[str, float]:
    """Split the mean squared error of Q into squared bias and variance across runs, averaged over pairs.

    The variance has divisor R - 1, and what it adds to the squared distance of the mean is taken off the
    squared bias, so both are unbiased and add up to the mean squared error. Standard errors are jackknifed
    over runs.

    Parameters
    ----------
    estimates : ndarray of shape (R, p)
        At least three runs.
    truth : ndarray of shape (p,)

    Examples
    --------
    >>> parts = decompose_error(np.array([[0.0, 2.0], [1.0, 2.0], [2.0, 2.0]]), np.array([1.0, 0.0]))
    >>> parts["variance"], parts["bias2"] + parts["variance"] == parts["mse"]
    (0.5, True)
    """

    def parts(runs: FloatArray) -> tuple[float, float, float]:
        mse, variance = float(((runs - truth) ** 2).mean()), float(runs.var(axis=0, ddof=1).mean())
        return mse, mse - variance, variance

    n_runs, names = len(estimates), ("mse", "bias2", "variance")
    without = np.array([parts(np.delete(estimates, run, axis=0)) for run in range(n_runs)])
    spread = np.sqrt((n_runs - 1) / n_runs * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    errors = {f"{name}_se": float(value) for name, value in zip(names, spread, strict=True)}
    return dict(zip(names, parts(estimates), strict=True)) | errors


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean over runs and its standard error.

    Examples
    --------
    >>> mean_and_error([1.0, 3.0])
    (2.0, 1.0)
    """
    sample = np.asarray(values, dtype=float)
    return float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(sample.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class QLearningResult:
    """The finished study.

    Attributes
    ----------
    tables : tuple of Table
    results : dict
        What `summarise_runs` gave, by key of the cell.
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
        if name in WINDOWS:
            return mean_and_error(results[name]) if name in results else (np.nan, np.nan)
        return results["q"][name], results["q"][f"{name}_se"]

    def __repr__(self) -> str:
        return f"QLearningResult({len(self.results)} cells x {self.n_runs} runs, seed {self.seed})"


def run_qlearning(
    out: Path | str, *, quick: bool = False, jobs: int = 1, seed: int = 20260, progress: bool = True
) -> QLearningResult:
    """Run the study of replay in Q-learning, or finish one that was interrupted.

    Parameters
    ----------
    out : Path or str
        Results go into its folder ``qlearning``: ``cells.jsonl``, one line per finished cell,
        ``orderings.json`` and ``manifest.json``.
    quick : bool
        Six cells, 5 runs and 60 episodes in place of all cells, 30 runs and 150 episodes.
    jobs : int
        Processes. The results do not depend on it.
    seed : int
    progress : bool
        Whether to draw a bar in a terminal.
    """
    check_int(jobs, "jobs", hint="It is the number of processes.")
    folder, n_runs = Path(out) / FOLDER, QUICK_RUNS if quick else FULL_RUNS
    cells = all_cells(quick=quick)
    with Journal(folder, Settings(seed=seed)) as journal:
        groups = group_cells(cell for cell in cells if not journal.has(cell.key, n_runs))
        with closing(each(partial(run_group, seed=seed, n_runs=n_runs), groups, jobs)) as finished:
            watched = track(finished, total=len(groups), description="Q-learning") if progress else finished
            for lines in watched:
                for line in lines:
                    journal.append(line)
    wanted = {cell.key: journal.lines[cell.key] for cell in cells}
    result = QLearningResult(
        tables=tuple(study_tables(quick=quick)),
        results={key: line["results"] for key, line in wanted.items()},
        quick=quick,
        n_runs=n_runs,
        seed=seed,
        seconds=round(sum(line["seconds"] for line in wanted.values()), 1),
    )
    facts = {"study": FOLDER, "quick": quick, "seed": seed, "runs": n_runs, "cells": len(cells)}
    write_manifest(folder, {**facts, "core_seconds": result.seconds, "jobs": jobs})
    write_json(folder / ORDERINGS, {"quick": quick, "orderings": compare_cells(result)})
    return result


def compare_cells(result: QLearningResult) -> list[dict[str, Any]]:
    """Return the orderings that earlier work reports, as far as their cells were run.

    Each has "claim" (that one cell earns more than another), "gap" (return of the better less that of the
    worse, over episodes 61-150, or 31-60 in a quick run), "error" (its standard error) and "verdict": beyond
    two standard errors it holds or does not hold.
    """
    schedule, window = (QUICK, "early") if result.quick else (FULL, "late")
    orderings = []
    for claim, *pair in _claims(schedule):
        if all(cell.key in result.results for cell in pair):
            (high, high_error), (low, low_error) = (result.measure(cell, window) for cell in pair)
            gap, error = high - low, float(np.hypot(high_error, low_error))
            verdict = UNDECIDED if abs(gap) <= 2 * error else HOLDS if gap > 0 else FAILS
            orderings.append({"claim": claim, "gap": gap, "error": error, "verdict": verdict})
    return orderings


def _claims(schedule: Schedule) -> list[tuple[str, Cell, Cell]]:
    """Return (claim, the better cell, the worse)."""
    uniform = {n: make_cell(schedule, capacity=n) for n in CAPACITIES}
    combined = {n: make_cell(schedule, capacity=n, sampler="combined") for n in CAPACITIES}
    often = {n: make_cell(schedule, capacity=n, ratio=16) for n in CAPACITIES}
    pairs = ((100, 1000), (100, 10_000), (1000, 10_000), (10_000, 100_000), (1_000_000, 100_000))
    more = "earns more than"
    return [
        *((f"uniform, B = 1: n = {a:,} {more} n = {b:,}", uniform[a], uniform[b]) for a, b in pairs),
        *((f"B = 1, n = {n:,}: combined {more} uniform", combined[n], uniform[n]) for n in CAPACITIES),
        *((f"uniform, B = 16: n = {n:,} {more} n = 100", often[n], often[100]) for n in CAPACITIES[2:]),
    ]


# Okabe-Ito colours, distinguishable with colour blindness, in the order of the lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")


def write_page(result: QLearningResult, folder: Path) -> Path:
    """Draw the figures into `folder`, write the page `report.html` there, and return its path."""
    pictures = {table.name: embed_picture(draw_table(result, table, folder)) for table in result.tables}
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
