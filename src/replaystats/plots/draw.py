"""Drawing of arrays on axes: curves with bands, boxes, histograms, dots; figures as text and files.

Results, pages and the re-run of the paper draw with these; each takes arrays that were checked before.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import must_be, require_extra, visible
from .._core.files import replacing
from .._core.typing import ArrayLike, FloatArray, IntArray

# Okabe-Ito colours: distinguishable with any colour vision.
COLOURS = {"plain": "#555555", "U": "#0072B2", "V": "#D55E00", "truth": "#009E73", "zero": "#B00020"}
ESTIMATE, PLUG_IN, DATA = COLOURS["U"], COLOURS["plain"], COLOURS["V"]
# Layout: rows that are drawn with their intervals.
_DRAWN_ROWS = 300
# Layout: dashes of a line.
_DASHED = (0, (4, 2))
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


def save_figure(figure: Figure, stem: Path, *, dpi: int = 110) -> list[Path]:
    """Write PNG and SVG; a file appears under its name only when it is whole."""
    from matplotlib import rc_context

    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.draw_without_rendering()
    figure.set_layout_engine(None)  # places are found once, not twice for each file
    paths = []
    for suffix in (".png", ".svg"):
        path = stem.with_name(stem.name + suffix)
        # No date and no random names, so that equal results give equal files.
        with replacing(path) as file, rc_context({"svg.hashsalt": "replaystats"}):
            metadata = {"Date": None} if suffix == ".svg" else None
            figure.savefig(file, format=suffix[1:], dpi=dpi, metadata=metadata)
        paths.append(path)
    return paths


def zero_line(ax: Axes) -> Axes:
    """Draw the line of no difference."""
    ax.axhline(0.0, color=COLOURS["zero"], linewidth=1.0, zorder=1)
    return ax


def box(ax: Axes, position: float, values: ArrayLike, *, colour: str, width: float = 0.3) -> Axes:
    """Draw a box plot of the values: quartiles, whiskers from minimum to maximum, as `summary_box` has."""
    data = np.asarray(values, dtype=float)
    drawn = ax.boxplot(
        [data], positions=[position], widths=width, patch_artist=True, manage_ticks=False, whis=(0, 100)
    )
    for part in ("boxes", "whiskers", "caps", "medians"):
        for artist in drawn[part]:
            artist.set(color=colour, linewidth=1.0)
    drawn["boxes"][0].set_facecolor(colour + "40")
    return ax


def summary_box(
    ax: Axes, position: float, summary: Mapping[str, float], *, colour: str, width: float = 0.18
) -> Axes:
    """Draw a hollow box from min, q25, median, q75 and max: numbers that somebody else published."""
    stats = {
        "med": summary["median"],
        "q1": summary["q25"],
        "q3": summary["q75"],
        "whislo": summary["min"],
        "whishi": summary["max"],
        "fliers": [],
    }
    line = {"color": colour, "linewidth": 0.8, "linestyle": (0, (2, 1))}
    ax.bxp(
        [stats], positions=[position], widths=width, showfliers=False, manage_ticks=False,
        boxprops=line, whiskerprops=line, capprops=line, medianprops={**line, "linestyle": "-"},
    )  # fmt: skip
    return ax


def difference_panel(
    ax: Axes,
    groups: Sequence[Mapping[str, Any]],
    *,
    symlog: float | None = None,
) -> Axes:
    """Draw the boxes of U and V for each group, the published ones hollow beside them, and the zero line.

    Parameters
    ----------
    ax : Axes
    groups : sequence of mappings
        Each with "label", "U" and "V" (values), and "published" (None, or five-number summaries by method).
    symlog : float, optional
        Half-width of the linear part of a symmetric logarithmic scale; None is a linear scale.
    """
    zero_line(ax)
    for i, group in enumerate(groups):
        for offset, method in ((-0.24, "U"), (0.24, "V")):
            if len(group[method]):
                box(ax, i + offset - 0.09, group[method], colour=COLOURS[method], width=0.2)
            if group["published"] is not None:
                summary_box(ax, i + offset + 0.13, group["published"][method], colour=COLOURS[method])
    ax.set_xticks(range(len(groups)), [group["label"] for group in groups])
    ax.set_xlim(-0.6, len(groups) - 0.4)
    if symlog is not None:
        ax.set_yscale("symlog", linthresh=symlog)
    ax.grid(axis="y", linewidth=0.3, alpha=0.6)
    return ax


def difference_limits(groups: Sequence[Mapping[str, Any]], symlog: float | None) -> tuple[float, float]:
    """Return limits that hold every value of the groups, published ones included, and 0."""
    values = [np.asarray(group[method], dtype=float) for group in groups for method in ("U", "V")]
    for group in groups:
        for summary in (group["published"] or {}).values():
            values.append(np.array([summary["min"], summary["max"]]))
    joined = np.concatenate([np.zeros(1), *values])
    low, high = float(joined.min()), float(joined.max())
    if symlog is None:
        margin = 0.05 * (high - low)
        return low - margin, high + margin
    return min(2.0 * low, -symlog), max(2.0 * high, symlog)


def difference_legend(figure: Figure, *, n_columns: int = 5) -> None:
    """Explain the boxes once for the whole figure."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for method in ("U", "V"):
        colour = COLOURS[method]
        handles.append(Patch(facecolor=colour + "40", edgecolor=colour, label=f"plain − {method}, here"))
    for method in ("U", "V"):
        label = f"plain − {method}, published"
        handles.append(Patch(facecolor="none", edgecolor=COLOURS[method], linestyle="--", label=label))
    handles.append(Line2D([], [], color=COLOURS["zero"], label="no difference"))
    figure.legend(handles=handles, loc="outside lower center", ncols=n_columns, frameon=False, fontsize=8)


def band(
    ax: Axes, x: ArrayLike, mean: ArrayLike, low: ArrayLike, high: ArrayLike, *, method: str, label: str
) -> Axes:
    """Draw a mean curve with its pointwise band."""
    ax.fill_between(x, low, high, color=COLOURS[method], alpha=0.18, linewidth=0)
    ax.plot(x, mean, color=COLOURS[method], linewidth=1.4, label=label)
    return ax


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
