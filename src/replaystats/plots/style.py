"""Plots of plain arrays on given axes: computing and drawing never mix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import require_extra
from .._core.files import replacing
from .._core.typing import ArrayLike

# Okabe-Ito colours: distinguishable with any colour vision.
COLOURS = {"plain": "#555555", "U": "#0072B2", "V": "#D55E00", "truth": "#009E73", "zero": "#B00020"}
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
