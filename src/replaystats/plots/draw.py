"""Drawing of arrays on axes: curves with bands, lines, histograms, dots with intervals; figures as text.

Results and pages draw with these; each takes arrays that were checked before and returns the axes.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.errors import must_be, require_extra, visible
from .._core.typing import FloatArray, IntArray
from .style import COLOURS, Axes, Figure, new_figure

ESTIMATE, PLUG_IN, DATA = COLOURS["U"], COLOURS["plain"], COLOURS["V"]
# Layout: rows that are drawn with their intervals.
_DRAWN_ROWS = 300
# Layout: dashes of a line.
_DASHED = (0, (4, 2))


def axes_of(ax: Axes | None, size: tuple[float, float] = (5.0, 3.3)) -> Any:
    """Return the axes that were given, or those of a new figure."""
    if ax is None:
        return new_figure(size=size)[1][0, 0]
    if not callable(getattr(ax, "set_xlabel", None)):
        hint = "Leave it out for new ones, or take them from plt.subplots()."
        raise TypeError(must_be("ax", "the axes of a figure", type(ax).__name__, hint))
    return ax


def finish(ax: Axes, xlabel: str = "", ylabel: str = "", *, title: str = "", grid: str = "y") -> Axes:
    """Label the axes and remove what carries no data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, linewidth=0.3, alpha=0.6)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.set_title(title, loc="left", fontsize=10)
    return ax


def draw_band(
    x: FloatArray, value: FloatArray, low: FloatArray, high: FloatArray, *,
    plug_in: FloatArray | None = None, observed: FloatArray | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw an estimated curve with its interval, the plug-in, and below them where the data lie.

    Examples
    --------
    >>> x = np.arange(3.0)
    >>> ax = draw_band(x, x, x - 1, x + 1, observed=np.array([0.5, 1, 1]))
    >>> [line.get_label() for line in ax.get_lines()]
    ['replayed']
    """
    ax = axes_of(ax)
    ax.fill_between(x, low, high, color=ESTIMATE, alpha=0.2, linewidth=0, label="interval")
    if plug_in is not None:
        ax.plot(x, plug_in, color=PLUG_IN, linewidth=1.2, linestyle=_DASHED, label="plug-in", zorder=3)
    ax.plot(x, value, color=ESTIMATE, linewidth=1.8, label="replayed")
    if observed is not None:
        _draw_density(ax, observed, float(x.min()), float(x.max()))
    ax.set_xlim(x.min(), x.max())
    ax.locator_params(axis="x", nbins=6)
    ax.legend(frameon=False, fontsize="small")
    return finish(ax)


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


def draw_line(x: FloatArray, y: FloatArray, xlabel: str, ylabel: str, *, marker: bool = False) -> Axes:
    """Draw y against x on new axes."""
    ax = axes_of(None)
    ax.plot(x, y, color=ESTIMATE, linewidth=1.6, marker="o" if marker else "", markersize=4)
    return finish(ax, xlabel, ylabel)


def draw_steps(values: FloatArray, ylabel: str, *, low: float | None = None) -> Axes:
    """Draw one value for every step of an episode, counted from 1; `low` is the lower end of the axis."""
    ax = draw_line(np.arange(1.0, len(values) + 1.0), values, "step", ylabel, marker=len(values) <= 30)
    ax.set_ylim(bottom=low)
    ax.xaxis.get_major_locator().set_params(integer=True)
    return ax


def draw_histogram(values: FloatArray, xlabel: str, *, line: float | None = None) -> Axes:
    """Draw a histogram of episodes, with a line at one value."""
    ax = axes_of(None)
    ax.hist(values, bins=int(np.clip(np.sqrt(len(values)) * 2, 5, 60)), color=ESTIMATE, alpha=0.75)
    if line is not None:
        ax.axvline(line, color="black", linewidth=1.0)
    ax.yaxis.get_major_locator().set_params(integer=True)
    return finish(ax, xlabel, "episodes")


def draw_dots(x: FloatArray, y: FloatArray, xlabel: str, ylabel: str, *, diagonal: bool = True) -> Axes:
    """Draw dots, with the line where both agree, or else that of 0."""
    ax = axes_of(None)
    ends = np.array([min(x.min(), y.min()), max(x.max(), y.max())] if diagonal else [x.min(), x.max()])
    ax.plot(ends, ends * diagonal, color=PLUG_IN, linewidth=1.0, linestyle=_DASHED, label="agreement")
    few = len(x) <= 20
    ax.scatter(x, y, s=30 if few else 9, color=ESTIMATE, alpha=1.0 if few else 0.5, linewidths=0)
    return finish(ax, xlabel, ylabel)


def drawn_rows(n: int) -> IntArray:
    """Return at most 300 of n rows, evenly spaced: more would hide each other."""
    return np.unique(np.linspace(0, n - 1, min(n, _DRAWN_ROWS)).astype(np.int64))


def draw_predictions(
    predicted: FloatArray, target: FloatArray, low: FloatArray, high: FloatArray, *,
    xlabel: str = "predicted", ylabel: str = "observed", size: tuple[float, float] = (5.0, 3.3),
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw targets against predictions with intervals; targets outside theirs have another color."""
    ax = axes_of(ax, size)
    inside = (low <= target) & (target <= high)
    title = f"{np.count_nonzero(inside):,} of {len(target):,} targets are inside their interval"
    ends = [min(predicted.min(), target.min()), max(predicted.max(), target.max())]
    ax.plot(ends, ends, color=PLUG_IN, linewidth=1.0, linestyle=_DASHED)
    bounded = np.isfinite(high - low)
    ax.vlines(predicted[bounded], low[bounded], high[bounded], color=ESTIMATE, linewidth=0.8, alpha=0.25)
    for rows, color, label in ((inside, ESTIMATE, "inside"), (~inside, COLOURS["V"], "outside")):
        ax.scatter(predicted[rows], target[rows], s=12, color=color, linewidths=0, label=label)
    ax.legend(frameon=False, fontsize="small")
    return finish(ax, xlabel, ylabel, title=title)


def draw_levels(
    names: Sequence[str], value: FloatArray, low: FloatArray, high: FloatArray, *, ax: Axes | None = None
) -> Axes:
    """Draw a dot and a bar for every name, the first on top.

    Examples
    --------
    >>> ax = draw_levels(["red", "blue"], *np.array([[1.0, 2.0], [0.5, 1.8], [1.5, 2.2]]))
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['red', 'blue']
    """
    ax = axes_of(ax, (5.0, max(2.0, 0.9 + 0.28 * len(names))))
    rows, ends = np.arange(len(names)), np.maximum([value - low, high - value], 0.0)
    ax.errorbar(value, rows, xerr=ends, fmt="o", color=ESTIMATE, markersize=4, linewidth=1.2)
    ax.set_yticks(rows, [visible(name)[:30] for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    return finish(ax, grid="x")


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
