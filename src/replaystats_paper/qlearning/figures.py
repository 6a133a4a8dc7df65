"""The figures of the study: arrays onto axes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from replaystats.plots.style import Axes, new_figure, save_figure
from replaystats.toolkit import ArrayLike

from .results import QLearningResult
from .study import Table
from .summary import WINDOWS

# Okabe-Ito colours, told apart by everybody, in the order of the lines.
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
