"""The figures of the paper, from the journal of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from replaystats.plots.draw import COLOURS, Axes, Figure, new_figure
from replaystats.toolkit import ArrayLike, replacing

from .cells import Cell, Experiment
from .cost import LABELS, data_sets
from .journal import CellJournal
from .measures import METHODS, REPLAYED, differences, published_record
from .policy import GRID

Y_LABELS = {"variance": "variance, plain − replay", "rmse": "RMSE, plain − replay"}
# The part of a value figure in which all curves can be distinguished.
ZOOM = 2.0
# Where the largest value is this many times the typical one, boxes are flat lines on a linear scale.
FLAT_BOXES = 15.0
# A summary of values, from the lowest to the highest.
_FIVE = ("min", "q25", "median", "q75", "max")
_COLOURS = ("#000000", "#D55E00", "#E69F00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7")


def draw_experiment(
    experiment: Experiment, cells: Sequence[Cell], journal: CellJournal, folder: Path
) -> Path | None:
    """Draw and save the figure of an experiment; return the PNG, or None where it has no figure."""
    if experiment.view not in _DRAWERS:
        return None
    figure = _DRAWERS[experiment.view][0](experiment, cells, journal)
    figure.suptitle(
        f"{experiment.title}  ({experiment.paper}; {_sizes(cells)}M = {_data_sets(cells, journal)})",
        fontsize=11,
    )
    return save_figure(figure, folder / experiment.name)[0]


def caption_of(experiment: Experiment) -> str:
    """Return what is said under the figure of an experiment."""
    return experiment.caption or (_DRAWERS[experiment.view][1] if experiment.view in _DRAWERS else "")


def _sizes(cells: Sequence[Cell]) -> str:
    """Return n, B and k where a figure has one cell and its panels do not say them."""
    if len(cells) != 1 or "B" not in dict(cells[0].parameters):
        return ""
    cell = cells[0]
    return f"n = {cell['n']}, B = {cell['B']}, k/n = {cell['k'] / cell['n']:g}, "


def _data_sets(cells: Sequence[Cell], journal: CellJournal) -> str:
    """Return how many data sets are behind the points of a figure; fewer where each takes long."""
    found = set()
    for cell in cells:
        asked = journal.lines[cell.key]["repetitions"]
        found.add(data_sets(cell["n"], asked) if cell.study == "scaling" else asked)
    return str(max(found)) if len(found) == 1 else f"{max(found)} to {min(found)}"


def _lines(experiment: Experiment, cells: Sequence[Cell], journal: CellJournal) -> Any:
    """Quantities along one parameter, a line for each value of another: what `Experiment.lines` says."""
    panels, x, by = experiment.lines["panels"], experiment.lines["x"], experiment.lines.get("by")
    figure, axes = new_figure(1, len(panels), size=(0.9 + 4.1 * len(panels), 4.4))
    groups = list(dict.fromkeys(cell[by] if by else "" for cell in cells))
    for ax, (title, names) in zip(axes[0], panels.items(), strict=True):
        for group, colour in zip(groups, _COLOURS, strict=False):
            mine = [cell for cell in cells if not by or cell[by] == group]
            for name, style in zip(names, ("-", ":"), strict=False):
                values = [_number(journal.results(cell.key), name) for cell in mine]
                label = LABELS.get(group, f"{by} = {group}") if by else name
                options = {"label": label if style == "-" or not by else None, "color": colour}
                ax.loglog([cell[x] for cell in mine], values, style, marker="o", markersize=4, **options)
        ax.set_title(title, fontsize=9)
        ax.set_xlabel(x)
        ax.grid(which="both", linewidth=0.3, alpha=0.6)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def _number(results: dict[str, Any], name: str) -> float:
    """Return the size of a quantity of a cell, the mean of one that is a list; NaN where there is none."""
    found = results.get("squared_errors", results).get(name, np.nan)
    return abs(float(np.mean(found)))


def _differences(experiment: Experiment, cells: Sequence[Cell], journal: CellJournal) -> Any:
    """One panel per B and k (or k/n), one group of boxes per n, as in the paper; panels of a row share y."""
    panels: dict[tuple[int, float], list[dict[str, Any]]] = {}
    for cell in cells:
        panels.setdefault((cell["B"], _subset_size(cell)), []).append(_group(experiment, cell, journal))
    rows = _rows_of_panels(list(panels))
    size = (1.2 + 3.4 * len(rows[0]), 0.9 + 2.5 * len(rows))
    figure, axes = new_figure(len(rows), len(rows[0]), size=size, sharex=True, sharey="row")
    name = "k/n" if cells[0].study in ("policy", "boston") else "k"
    for row, row_axes in zip(rows, axes, strict=True):
        together = [group for key in row for group in panels[key]]
        scale = _linear_width(together)
        for (n_resamples, subset), ax in zip(row, row_axes, strict=True):
            difference_panel(ax, panels[n_resamples, subset], symlog=scale)
            ax.set_title(f"B = {n_resamples}, {name} = {subset:g}", fontsize=9)
            if experiment.view == "rmse":
                _print_medians(ax, panels[n_resamples, subset])
            ax.tick_params(labelsize=8)
        row_axes[0].set_ylim(difference_limits(together, scale))
        row_axes[0].set_ylabel(Y_LABELS[experiment.view], fontsize=8)
    for ax in axes[-1]:
        ax.set_xlabel("n", fontsize=8)
    difference_legend(figure, n_columns=5 if len(rows[0]) > 1 else 2)
    return figure


def _print_medians(ax: Any, groups: Sequence[dict[str, Any]]) -> None:
    """Print sign and size of the median over each box."""
    for i, group in enumerate(groups):
        for offset, method in ((-0.33, "U"), (0.15, "V")):
            if len(group[method]):
                median = float(np.median(group[method]))
                ax.text(i + offset, 0.99, f"{median:+.1g}", fontsize=5.5, ha="center", va="top",
                        color=COLOURS[method], transform=ax.get_xaxis_transform())  # fmt: skip


def _rows_of_panels(keys: Sequence[tuple[int, float]]) -> list[list[tuple[int, float]]]:
    """Arrange panels with one row per k and one column per B; in a single row where there is one B."""
    columns = sorted({n_resamples for n_resamples, _ in keys})
    rows = sorted({subset for _, subset in keys})
    if len(columns) == 1:
        return [[(columns[0], subset) for subset in rows]]
    return [[(n_resamples, subset) for n_resamples in columns] for subset in rows]


def _subset_size(cell: Cell) -> float:
    """Return k / n where the paper varies that, else k."""
    return round(cell["k"] / cell["n"], 3) if cell.study in ("policy", "boston") else float(cell["k"])


def _group(experiment: Experiment, cell: Cell, journal: CellJournal) -> dict[str, Any]:
    results = journal.results(cell.key)[experiment.whose]
    record = published_record(cell, experiment.whose)
    return {
        "label": str(cell["n"]),
        "published": record and {m: record[experiment.view][m] for m in REPLAYED},
        **{m: differences(results, experiment.view, m) for m in REPLAYED},
    }


def _linear_width(groups: Sequence[dict[str, Any]]) -> float | None:
    """Return the linear half-width of a symmetric log scale, or None where a linear scale shows the boxes."""
    values = [np.abs(group[m]) for group in groups for m in REPLAYED]
    values += [np.array([g["published"][m]["max"]]) for g in groups if g["published"] for m in REPLAYED]
    sizes = np.concatenate(values)
    typical = float(np.median(sizes)) if sizes.size else 0.0
    if typical == 0.0 or sizes.max() < FLAT_BOXES * typical:
        return None
    return float(10.0 ** np.floor(np.log10(typical / 3)))


def _value(experiment: Experiment, cells: Sequence[Cell], journal: CellJournal) -> Any:
    """Mean and pointwise 95 % band: the whole of it, and the part near the truth."""
    results = journal.results(cells[0].key)[experiment.whose]
    figure, axes = new_figure(1, 2, size=(10.0, 4.0))
    for ax in axes[0]:
        for method in METHODS:
            curves = (results[name][method] for name in ("mean", "low", "high"))
            band(ax, GRID, *curves, method=method, label=f"{method}: mean, 95 % band")
        ax.plot(GRID, np.cos(GRID) ** 3, color=COLOURS["truth"], linestyle="--", label="truth, cos³ s")
        ax.axhline(0.0, color=COLOURS["zero"], linewidth=0.6)
        ax.set_xlabel("state s")
    axes[0, 0].set_ylabel("value")
    axes[0, 0].set_title("all of it", fontsize=9)
    axes[0, 1].set_title(f"zoomed to ±{ZOOM:g}: what leaves the frame is on the left", fontsize=9)
    axes[0, 1].set_ylim(-ZOOM, ZOOM)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


_AXIS = (
    "Whiskers reach from minimum to maximum, ours and published; the axis is symmetric logarithmic where "
    "boxes would else be flat."
)
# View of an experiment -> how it is drawn, and what is said under the figure.
_DRAWERS: dict[str, tuple[Callable[[Experiment, Sequence[Cell], CellJournal], Any], str]] = {
    "variance": (_differences, f"Differences of the sample variances, over test points. {_AXIS}"),
    "rmse": (
        _differences,
        "Differences of the RMSEs, over repetitions; the number over a box is its median: above 0 replay has "
        f"the smaller error. {_AXIS}",
    ),
    "value": (_value, "Mean and pointwise 2.5 to 97.5 % band over the repetitions."),
    "lines": (_lines, ""),
}


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
    """Draw a box plot of the values: quartiles, whiskers from minimum to maximum."""
    five = np.quantile(np.asarray(values, dtype=float), (0.0, 0.25, 0.5, 0.75, 1.0))
    summary = dict(zip(_FIVE, five, strict=True))
    return summary_box(ax, position, summary, colour=colour, width=width, filled=True)


def summary_box(
    ax: Axes,
    position: float,
    summary: Mapping[str, float],
    *,
    colour: str,
    width: float = 0.18,
    filled: bool = False,
) -> Axes:
    """Draw a box from min, q25, median, q75 and max; hollow for numbers that somebody else published."""
    stats = dict(zip(("whislo", "q1", "med", "q3", "whishi"), (summary[name] for name in _FIVE), strict=True))
    line = {"color": colour, "linewidth": 1.0} if filled else {
        "color": colour, "linewidth": 0.8, "linestyle": (0, (2, 1))
    }  # fmt: skip
    ax.bxp(
        [stats], positions=[position], widths=width, showfliers=False, manage_ticks=False,
        patch_artist=filled, whiskerprops=line, capprops=line, medianprops={**line, "linestyle": "-"},
        boxprops={"edgecolor": colour, "facecolor": colour + "40"} if filled else line,
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
