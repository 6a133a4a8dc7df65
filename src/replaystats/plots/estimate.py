"""Plots of arrays: a curve with band and data, levels with intervals, returns, values by step, fits.

Each takes plain arrays and axes (default: new ones of its own), and returns the axes.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence, Sized
from typing import Any

import numpy as np

from .._core.errors import must_be, require_extra, visible
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_bool, check_length, check_names, check_real, check_text
from .style import COLOURS, Axes, Figure, new_figure

__all__ = ["plot_band", "plot_convergence", "plot_fit", "plot_levels", "plot_returns", "plot_steps"]

ESTIMATE, PLUG_IN, DATA = COLOURS["U"], COLOURS["plain"], COLOURS["V"]


def plot_band(
    x: ArrayLike,
    value: ArrayLike,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    *,
    plug_in: ArrayLike | None = None,
    observed: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw an estimated curve with its interval, and below it where the data lie.

    Parameters
    ----------
    x, value : array-like of shape (m,)
        Points, and the estimate at each.
    low, high : array-like of shape (m,), optional
        The interval; without it there is no band.
    plug_in : array-like of shape (m,), optional
        The estimate without replay.
    observed : array-like of shape (N,), optional
        Values of x in the data; their density is drawn along the bottom.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> ax = plot_band([0, 1, 2], [0.0, 1.0, 0.5], [-0.2, 0.7, 0.1], [0.2, 1.3, 0.9], observed=[0.5, 1, 1])
    >>> [line.get_label() for line in ax.get_lines()]
    ['replayed']
    """
    ax = _axes(ax)
    x = check_array(x, "x", ndim=1)
    value = _curve(value, "value", x)
    if (low is None) != (high is None):
        raise ValueError(must_be("high", "given with `low`, or neither", "one of them"))
    if low is not None and high is not None:
        low, high = _curve(low, "low", x), _curve(high, "high", x)
        ax.fill_between(x, low, high, color=ESTIMATE, alpha=0.2, linewidth=0, label="interval")
    if plug_in is not None:
        plug_in = _curve(plug_in, "plug_in", x)
        ax.plot(x, plug_in, color=PLUG_IN, linewidth=1.2, linestyle=(0, (4, 2)), label="plug-in", zorder=3)
    ax.plot(x, value, color=ESTIMATE, linewidth=1.8, label="replayed")
    if observed is not None:
        _draw_density(ax, check_array(observed, "observed", ndim=1), float(x.min()), float(x.max()))
    ax.set_xlim(x.min(), x.max())
    ax.locator_params(axis="x", nbins=6)
    ax.legend(frameon=False, fontsize="small")
    return _tidy(ax)


def plot_convergence(
    n_resamples: ArrayLike,
    values: ArrayLike,
    *,
    noise: ArrayLike | None = None,
    label: str = "estimate",
    ax: Axes | None = None,
) -> Axes:
    """Draw the estimate for growing numbers of subsets: flat to the right means that there are enough.

    Parameters
    ----------
    n_resamples, values : array-like of shape (g,)
        Numbers of subsets, and the estimate (or score) from that many.
    noise : array-like of shape (g,), optional
        Monte-Carlo standard error at each number: a band of two of them about the last value.
    label : str
        What the values are.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> plot_convergence([1, 10, 100], [0.5, 0.9, 1.0], noise=[1.0, 0.3, 0.1]).get_xscale()
    'log'
    """
    ax = _axes(ax)
    counts = check_array(n_resamples, "n_resamples", ndim=1)
    values = _curve(values, "values", counts, "n_resamples")
    label = check_text(label, "label")
    if noise is not None:
        two = 2.0 * _curve(noise, "noise", counts, "n_resamples")
        label_band = "± 2 Monte-Carlo standard errors"
        ax.fill_between(
            counts, values[-1] - two, values[-1] + two, color=DATA, alpha=0.18, linewidth=0, label=label_band
        )
    ax.plot(counts, values, color=ESTIMATE, linewidth=1.6)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")  # pages show text as it is, and the usual powers are TeX
    ax.set_xlabel("subsets used")
    ax.set_ylabel(label)
    if noise is not None:
        ax.legend(frameon=False, fontsize="small")
    return _tidy(ax)


def plot_steps(values: ArrayLike, ylabel: str, *, low: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw one value for every step of an episode.

    Parameters
    ----------
    values : array-like of shape (H,)
        In the order of steps.
    ylabel : str
        What the values are.
    low : float, optional
        Lower end of the axis.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> plot_steps([20.0, 12.0, 7.5], "effective episodes").get_xlabel()
    'step'
    """
    ax = _axes(ax)
    values, ylabel = check_array(values, "values", ndim=1), check_text(ylabel, "ylabel")
    low = None if low is None else check_real(low, "low")
    steps = np.arange(1, len(values) + 1)
    ax.plot(
        steps, values, color=ESTIMATE, linewidth=1.6, marker="o" if len(values) <= 30 else "", markersize=4
    )
    ax.set_ylim(bottom=low)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("step")
    ax.set_ylabel(ylabel)
    return _tidy(ax)


def plot_fit(
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    label: str = "out-of-bag prediction",
    diagonal: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw targets against predictions by models that did not see them; on the diagonal they agree.

    Parameters
    ----------
    predicted, target : array-like of shape (n,)
        Predictions, and what was observed.
    label : str
        What the predictions are, for the axis.
    diagonal : bool
        Draw the line where both agree; else that of 0, for residuals.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> plot_fit([1.0, 2.0, 2.5], [1.1, 1.8, 3.0]).get_ylabel()
    'target'
    """
    ax = _axes(ax)
    predicted, label = check_array(predicted, "predicted", ndim=1), check_text(label, "label")
    target = _curve(target, "target", predicted, "predicted")
    ends = [min(predicted.min(), target.min()), max(predicted.max(), target.max())]
    diagonal = check_bool(diagonal, "diagonal")
    heights = ends if diagonal else [0.0, 0.0]
    ends = ends if diagonal else [predicted.min(), predicted.max()]
    ax.plot(ends, heights, color=PLUG_IN, linewidth=1.0, linestyle=(0, (4, 2)), label="agreement")
    few = len(predicted) <= 20
    ax.scatter(
        predicted,
        target,
        s=30 if few else 9,
        color=ESTIMATE,
        alpha=1.0 if few else 0.5,
        linewidths=0,
        rasterized=True,
    )
    ax.set_xlabel(label)
    ax.set_ylabel("target")
    return _tidy(ax)


def plot_levels(
    names: Sequence[str], value: ArrayLike, low: ArrayLike, high: ArrayLike, *, ax: Axes | None = None
) -> Axes:
    """Draw a dot and a bar for every name, the first on top.

    Parameters
    ----------
    names : sequence of str
        Categories.
    value, low, high : array-like of shape (len(names),)
        The estimate of each, and its interval.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> ax = plot_levels(["red", "blue"], [1.0, 2.0], [0.5, 1.8], [1.5, 2.2])
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['red', 'blue']
    """
    names = check_names(names, "names")
    value, low, high = (
        _curve(part, name, names, "names") for part, name in ((value, "value"), (low, "low"), (high, "high"))
    )
    if ax is None:
        ax = new_figure(size=(5.0, max(2.0, 0.9 + 0.28 * len(names))))[1][0, 0]
    ax = _axes(ax)
    rows = np.arange(len(names))
    ends = np.maximum([value - low, high - value], 0.0)
    ax.errorbar(value, rows, xerr=ends, fmt="o", color=COLOURS["U"], markersize=4, linewidth=1.2)
    ax.set_yticks(rows, [visible(name)[:30] for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    return _tidy(ax, grid="x")


def plot_returns(returns: ArrayLike, *, value: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw a histogram of the episodes' discounted returns.

    Parameters
    ----------
    returns : array-like of shape (n,)
        One per episode.
    value : float, optional
        The policy's value, as a line.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> ax = plot_returns([0.0, 0.0, 1.0], value=0.3)
    >>> int(sum(bar.get_height() for bar in ax.patches))
    3
    """
    ax = _axes(ax)
    returns = check_array(returns, "returns", ndim=1)
    ax.hist(returns, bins=int(np.clip(np.sqrt(len(returns)) * 2, 5, 60)), color=ESTIMATE, alpha=0.75)
    if value is not None:
        ax.axvline(check_real(value, "value"), color="black", linewidth=1.0)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("discounted return as logged")
    ax.set_ylabel("episodes")
    return _tidy(ax)


def embed_figure(figure: Figure) -> str:
    """Return a figure as a data address (SVG with real text, so that it stays sharp and small)."""
    matplotlib = require_extra("matplotlib", extra="plot", purpose="Drawing a figure")
    from matplotlib.text import Text

    for label in figure.findobj(Text):  # names of columns are text, whatever they hold
        label.set_text(visible(label.get_text()))
        label.set_parse_math(False)
    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "replaystats"}):
        figure.savefig(stream, format="svg", dpi=150, metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue()).decode()


def _axes(ax: Axes | None) -> Any:
    if ax is None:
        return new_figure(size=(5.0, 3.3))[1][0, 0]
    if not callable(getattr(ax, "set_xlabel", None)):
        hint = "Leave it out for new ones, or take them from plt.subplots()."
        raise TypeError(must_be("ax", "the axes of a figure", type(ax).__name__, hint))
    return ax


def _curve(values: ArrayLike, name: str, x: Sized, other: str = "x") -> FloatArray:
    """Return one value for each point of `x`."""
    curve = check_array(values, name, ndim=1)
    check_length(len(curve), len(x), name, other)
    return curve


def _tidy(ax: Axes, *, grid: str = "y") -> Any:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, linewidth=0.3, alpha=0.6)
    return ax


def _draw_density(ax: Axes, observed: FloatArray, low: float, high: float) -> None:
    """Draw a histogram of the data in the lowest sixth of the axes, below the curves."""
    bottom, top = ax.get_ylim()
    counts, edges = np.histogram(observed, bins=60, range=(low, high))
    heights = counts / max(1, counts.max()) / 6.0
    ax.stairs(
        heights, edges, transform=ax.get_xaxis_transform(), fill=True, color=DATA, alpha=0.35, label="data"
    )
    # Heights are shares of the axes, not values: the scale is that of the curves, with room below them.
    ax.set_ylim(bottom - 0.2 * (top - bottom), top)
