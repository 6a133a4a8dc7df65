"""Run the study, resume it, say whether it finds what earlier work found, and show it on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from replaystats.plots.style import Axes, new_figure, save_figure
from replaystats.toolkit import (
    ArrayLike,
    check_int,
    embed_picture,
    render,
    require_extra,
    significant,
    track,
    write_bytes,
)

from ..cells import Cell, Settings
from ..journal import Journal, each, write_json, write_manifest
from .learner import Schedule
from .study import (
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


SETTING = """
The 20 x 20 maze of Zhang and Sutton (2017): shortest way 54 steps, reward -1 a step, episodes cut off
after 5000 steps, step size 0.1, no discount, 10 % random actions, action values 0 at first. A memory of
the last n transitions; every environment step replays B minibatches of k transitions.
"""

EXPLAINED = """
Whatever n is, a transition is replayed Bk times on average before it is lost; n decides when, and a new
one waits about n / (Bk) steps for its first replay. The paper's theorems want n / (Bk) small, for the
variance of an average of estimates from a fixed sample. In the full study the variance of Q across runs
does grow with n up to B = 4. But it is a small part of the error of Q, most of which is bias: news that
has not yet travelled from the goal to where the agent is. Nor does n / (Bk) sort the returns by itself:
at n = 100,000 and B = 16 it is larger than at n = 1,000 and B = 1, and the return is far better. And
putting the latest transition into each minibatch leaves the variance of Q as it was, and undoes most of
the harm of a large memory. What hurts here is delay, not variance.
"""

DISPUTED = """
Fedus et al. (2020) hold the ratio fixed on Atari and find no harm of large memories, against Zhang and
Sutton, and gains from them with n-step returns; Pardo et al. (2018) trace much of the harm to timeouts
mistaken for ends, which here add to it but do not cause it. So "both small and large memories hurt at a
fixed ratio" is a finding about some settings, not a law: at 16 minibatches a step the largest memories
are the best.
"""


def returns_table(result: QLearningResult, table: Table) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of text: mean return of episodes 31-60, then of 61-150, with standard errors."""
    windows = ("early",) if result.quick else ("early", "late")
    return _rows(result, table, windows)


def errors_table(result: QLearningResult, table: Table) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of text: squared bias of Q after the last episode, then variance across runs.

    Runs that diverged are left out of both and counted.
    """
    header, rows = _rows(result, table, ("bias2", "variance"))
    for texts, cells in zip(rows, table.cells, strict=True):
        for place, cell in enumerate(cells, start=1):
            diverged = result.results[cell.key]["q"][-1]["diverged"]
            texts[place] += f" ({diverged} diverged)" if diverged else ""
    return header, rows


def _rows(
    result: QLearningResult, table: Table, measures: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    rows = []
    for label, cells in zip(table.rows, table.cells, strict=True):
        texts = [" / ".join(_with_error(*result.measure(cell, name)) for name in measures) for cell in cells]
        rows.append([label, *texts])
    return [table.row_name, *table.columns], rows


def _with_error(value: float, error: float) -> str:
    return f"{significant(value)} ± {significant(error, 2)}"


def html_section(result: QLearningResult, folder: Path) -> str:
    """Return the section as HTML with its figures inside; PNG and SVG files are left in `folder`.

    Parameters
    ----------
    result : QLearningResult
    folder : Path
        Where the figures go.
    """
    parts = ["<h2>Experience replay in Q-learning</h2>", _paragraph(SETTING)]
    parts.append(_paragraph(f"{result.n_runs} runs per cell; ± is the Monte-Carlo standard error."))
    parts.append(_verdicts(result))
    parts.append(_picture(draw_curves(result, result.tables[0], folder), "Learning curves by capacity"))
    for table in result.tables:
        parts.append(f"<h3>{escape(table.title)}</h3>")
        window = "31-60" if result.quick else "31-60 / 61-150"
        parts.append(_html_table(f"Mean return, episodes {window}", *returns_table(result, table)))
        parts.append(
            _html_table(
                "Error of Q after the last episode: squared bias / variance", *errors_table(result, table)
            )
        )
        if table.row_name == "capacity n":
            parts.append(_picture(draw_table(result, table, folder), table.title))
    parts += ["<h3>What the theory explains, and what not</h3>", _paragraph(EXPLAINED), _paragraph(DISPUTED)]
    return "\n".join(parts)


def write_page(result: QLearningResult, folder: Path) -> Path:
    """Write the section as a page of its own, `report.html` in `folder`, and return its path."""
    markup = require_extra("markupsafe", extra="experiments", purpose="The HTML report")
    body = markup.Markup(html_section(result, folder))  # the section escapes its texts itself
    path = folder / "report.html"
    write_bytes(path, _page(body).encode())
    return path


def _page(body: Any) -> str:
    context = {"title": "Replay in Q-learning", "body": body}
    return render("section.html.j2", context, package="replaystats_paper")


def _verdicts(result: QLearningResult) -> str:
    rows = [[o.claim, _with_error(o.gap, o.error), o.verdict] for o in compare_cells(result)]
    return _html_table("Orderings found before", ["claim", "difference of returns", "here"], rows)


def _html_table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in header)
    body = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(text)}</td>" for text in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
    )


def _picture(path: Path, text: str) -> str:
    return f'<figure><img src="{embed_picture(path)}" alt="{escape(text)}"></figure>'


def _paragraph(text: str) -> str:
    return f"<p>{escape(' '.join(text.split()))}</p>"


# Okabe-Ito colours, distinguishable with colour blindness, in the order of the lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def plot_by_capacity(
    ax: Axes, capacities: ArrayLike, lines: Mapping[str, tuple[ArrayLike, ArrayLike]], *, ylabel: str
) -> Axes:
    """Draw a positive measure against the capacity, both on log scales, with bars of two standard errors.

    Parameters
    ----------
    ax : Axes
    capacities : array of shape (m,)
    lines : mapping
        Values and standard errors, both of shape (m,), by label.
    ylabel : str
    """
    for colour, (label, (values, errors)) in zip(COLOURS, lines.items(), strict=False):
        bars = 2 * np.asarray(errors, dtype=float)
        ax.errorbar(capacities, values, yerr=bars, label=label, color=colour, marker="o", capsize=2)
    ax.set(xscale="log", yscale="log", xlabel="capacity n", ylabel=ylabel)
    return ax


def plot_learning_curves(ax: Axes, curves: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Axes:
    """Draw the mean return of every episode with a band of two standard errors.

    Parameters
    ----------
    ax : Axes
    curves : mapping
        Mean and standard error, both of shape (n_episodes,), by label.
    """
    for colour, (label, (mean, error)) in zip(COLOURS, curves.items(), strict=False):
        mean, band = np.asarray(mean, dtype=float), 2 * np.asarray(error, dtype=float)
        episodes = np.arange(1, mean.size + 1)
        ax.plot(episodes, mean, label=label, color=colour, linewidth=1.2)
        ax.fill_between(episodes, mean - band, mean + band, color=colour, alpha=0.2, linewidth=0)
    ax.set(xlabel="episode", ylabel="return")
    ax.legend(fontsize="small")
    return ax


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
        plot_by_capacity(ax, *_lines(result, table, measure), ylabel=label)
    axes[0, 0].legend(fontsize="small")
    figure.suptitle(table.title)
    return save_figure(figure, folder / f"qlearning-{table.name}")[0]


def draw_curves(result: QLearningResult, table: Table, folder: Path) -> Path:
    """Draw the learning curves of the first two columns of a table, one line per row; return the PNG."""
    figure, axes = new_figure(1, 2, size=(11, 3.8), sharey=True)
    for place, ax in enumerate(axes[0]):
        column = [row[place] for row in table.cells]
        summaries = [result.results[cell.key] for cell in column]
        curves = {
            f"n = {label}": (summary["curve"], summary["curve_se"])
            for label, summary in zip(table.rows, summaries, strict=True)
        }
        plot_learning_curves(ax, curves).set_title(table.columns[place])
    return save_figure(figure, folder / "qlearning-curves")[0]


def _lines(result: QLearningResult, table: Table, measure: str) -> tuple[Any, dict[str, Any]]:
    """Return the capacities, and per column of the table the values and errors."""
    lines = {}
    for place, label in enumerate(table.columns):
        values, errors = np.array([result.measure(row[place], measure) for row in table.cells]).T
        lines[label] = (-values if measure in WINDOWS else values, errors)  # a step costs 1
    return [row[0]["n"] for row in table.cells], lines
