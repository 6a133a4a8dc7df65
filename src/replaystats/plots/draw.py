"""Drawing of arrays on axes: curves with bands, forests, histograms, dots; figures as text.

Results and pages draw with these; each takes arrays that were checked before.
"""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import must_be, require_extra, visible
from .._core.shown import rounded
from .._core.typing import FloatArray, IntArray

# Okabe-Ito colours: distinguishable with any colour vision.
COLOURS = {"plain": "#555555", "U": "#0072B2", "V": "#D55E00", "truth": "#009E73", "zero": "#B00020"}
ESTIMATE, PLUG_IN, DATA = COLOURS["U"], COLOURS["plain"], COLOURS["V"]
# Layout: rows that are drawn with their intervals.
_DRAWN_ROWS = 300
# Layout: dashes of a line.
_DASHED = (0, (4, 2))
_MUTED = "#999999"
# Layout: characters in a line of a title, and of the words beside a row or, on a phone, above it.
_TITLE, _NARROW_TITLE, _WORDS, _NARROW_WORDS = 62, 46, 44, 58
Axes = Any
Figure = Any


# Whether pyplot keeps new figures, so that they appear where plots are shown.
_on_screen: ContextVar[bool] = ContextVar("on_screen", default=False)


@contextmanager
def on_screen() -> Iterator[None]:
    """Make new figures with pyplot: a notebook and ``plt.show()`` show these."""
    before = _on_screen.set(True)
    try:
        yield
    finally:
        _on_screen.reset(before)


def new_figure(n_rows: int = 1, n_columns: int = 1, *, size: tuple[float, float], **options: Any) -> Any:
    """Return a figure, and its axes as an array (n_rows, n_columns); without a screen but in `on_screen`."""
    require_extra("matplotlib", extra="plot", purpose="Drawing a figure")
    if _on_screen.get():
        from matplotlib import pyplot

        figure = pyplot.figure(figsize=size, layout="constrained")
        return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestRow:
    """One line of a forest plot.

    Attributes
    ----------
    name : str
    value, low, high : float
        An infinite or NaN end is drawn as an arrow.
    role : {"reported", "reference", "other"}
        Drawn in color, in dark gray above a line, or in light gray.
    remark : str
        Words behind the numbers, for example which check failed.
    """

    name: str
    value: float
    low: float
    high: float
    role: str = "other"
    remark: str = ""


def plot_forest(
    rows: Sequence[ForestRow],
    *,
    title: str = "",
    xlabel: str = "",
    narrow: bool = False,
    whole: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw one line per estimate: point, interval, and both in words on the right.

    The axis holds the reported and reference rows whole. Ends of other rows that are more than one width
    beyond that, infinite or unknown are cut and marked by an arrow.

    Parameters
    ----------
    rows : sequence of ForestRow
        From top to bottom; references come first.
    title : str
        The finding, in one sentence.
    xlabel : str
        What the numbers are.
    narrow : bool
        For the width of a phone: the words stand above their lines.
    whole : bool
        The axis holds all rows whole.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> rows = [ForestRow(name="doubly robust", value=88.0, low=79.0, high=97.0, role="reported"),
    ...         ForestRow(name="LSTDQ", value=86.0, low=-np.inf, high=np.inf, remark="fails a check")]
    >>> ax = plot_forest(rows, title="The policy earns 88 per episode")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['doubly robust', 'LSTDQ']
    """
    ax = axes_of(ax, (3.8, 0.9 + 0.55 * len(rows)) if narrow else (8.6, 1.2 + 0.45 * len(rows)))
    low, high = _limits(rows, whole=whole)
    for place, row in enumerate(rows):
        _draw_row(ax, place, row, low, high)
        words, at = _words(row, narrow), (1.02, float(place))
        if narrow:
            words, at = f"{visible(row.name)}   {words}", (0.0, place - 0.36)
            if len(words) > _NARROW_WORDS:
                words = f"{words[:_NARROW_WORDS].rpartition(' ')[0]} …"
        ax.annotate(
            words, at, xycoords=("axes fraction", "data"), va="center", fontsize=8 if narrow else 9,
            color="#111111" if row.role != "other" else "#666666", annotation_clip=False,
            # Above a line, words take no width from the axis.
            fontweight="bold" if row.role == "reported" else "normal", in_layout=not narrow,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5} if narrow else None, zorder=5,
        )  # fmt: skip
    n_references = sum(row.role == "reference" for row in rows)
    if 0 < n_references < len(rows):
        ax.axhline(n_references - (0.62 if narrow else 0.5), color="#cccccc", linewidth=1.0)
    ax.set_yticks(range(len(rows)), ["" if narrow else visible(row.name) for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.65 if narrow else -0.5)
    ax.set_xlim(low, high)
    ax.set_xlabel(xlabel)
    ax.locator_params(axis="x", nbins=5)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", linewidth=0.3, alpha=0.6)
    for side in ("top", "left", "right"):
        ax.spines[side].set_visible(False)
    if title:
        lines = textwrap.wrap(title, _NARROW_TITLE if narrow else _TITLE)
        ax.set_title("\n".join(lines), loc="left", fontsize=9 if narrow else 11, fontweight="bold")
    return ax


def _limits(rows: Sequence[ForestRow], *, whole: bool) -> tuple[float, float]:
    """Return an axis that holds the important rows, and of others what is at most one width away."""
    important = [row for row in rows if whole or row.role != "other"] or list(rows)
    ends = np.array([[row.value, row.low, row.high] for row in important]).ravel()
    ends = ends[np.isfinite(ends)]
    if not ends.size:
        return 0.0, 1.0
    low, high = float(ends.min()), float(ends.max())
    width = high - low if high > low else max(1.0, abs(high))
    others = np.array([[row.value, row.low, row.high] for row in rows]).ravel()
    near = others[np.isfinite(others) & (others >= low - width) & (others <= high + width)]
    low, high = float(min(near.min(), low)), float(max(near.max(), high))
    margin = 0.05 * (high - low if high > low else width)
    return low - margin, high + margin


def _draw_row(ax: Any, place: int, row: ForestRow, low: float, high: float) -> None:
    color = {"reported": ESTIMATE, "reference": PLUG_IN}.get(row.role, _MUTED)
    left = row.low if np.isfinite(row.low) else low
    right = row.high if np.isfinite(row.high) else high
    ax.plot(
        [max(left, low), min(right, high)], [place, place], color=color,
        linewidth=3.4 if row.role == "reported" else 2.0, solid_capstyle="butt",
    )  # fmt: skip
    for end, edge, marker in ((row.low, low, "<"), (row.high, high, ">")):
        beyond = not np.isfinite(end) or (end < low if marker == "<" else end > high)
        if beyond:
            ax.plot([edge], [place], marker=marker, color=color, markersize=7, clip_on=False)
    if np.isfinite(row.value) and low <= row.value <= high:
        ax.plot([row.value], [place], marker="o", color=color, markersize=9 if row.role == "reported" else 6)


def _words(row: ForestRow, narrow: bool) -> str:
    width = row.high - row.low
    value, low, high = (
        ("∞" if x > 0 else "-∞") if np.isinf(x) else "no value" if np.isnan(x) else rounded(x, width)
        for x in (row.value, row.low, row.high)
    )
    remark = "reported" if row.role == "reported" and not (row.remark or narrow) else row.remark
    said = f"{value}  [{low}, {high}]"
    return f"{said}  {textwrap.shorten(visible(remark), _WORDS, placeholder=' …')}" if remark else said


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
