"""The figures of the paper, from the journal of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from replaystats.plots.style import (
    COLOURS,
    band,
    difference_legend,
    difference_limits,
    difference_panel,
    new_figure,
    power_law,
    save_figure,
)

from .cells import Cell, Experiment
from .cost import LABELS, data_sets
from .journal import Journal
from .measures import METHODS, REPLAYED, differences, published_record
from .policy import GRID

Y_LABELS = {"variance": "variance, plain − replay", "rmse": "RMSE, plain − replay"}
# The part of a value figure in which all curves can be distinguished.
ZOOM = 2.0
# Where the largest value is this many times the typical one, boxes are flat lines on a linear scale.
FLAT_BOXES = 15.0
_SCALING_STYLE = {
    "full": ("#000000", "o"),
    "claimed": ("#D55E00", "s"),
    "exact": ("#E69F00", "<"),
    "example1": ("#0072B2", "v"),
    "example2": ("#56B4E9", "^"),
    "nystroem": ("#009E73", "D"),
    "divide": ("#CC79A7", "P"),
}


def draw_experiment(
    experiment: Experiment, cells: Sequence[Cell], journal: Journal, folder: Path
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
    return _DRAWERS[experiment.view][1] if experiment.view in _DRAWERS else ""


def _sizes(cells: Sequence[Cell]) -> str:
    """Return n, B and k where a figure has one cell and its panels do not say them."""
    if len(cells) != 1 or "B" not in dict(cells[0].parameters):
        return ""
    cell = cells[0]
    return f"n = {cell['n']}, B = {cell['B']}, k/n = {cell['k'] / cell['n']:g}, "


def _data_sets(cells: Sequence[Cell], journal: Journal) -> str:
    """Return how many data sets are behind the points of a figure; fewer where each takes long."""
    found = set()
    for cell in cells:
        asked = journal.lines[cell.key]["repetitions"]
        found.add(data_sets(cell["n"], asked) if cell.study == "scaling" else asked)
    return str(max(found)) if len(found) == 1 else f"{max(found)} to {min(found)}"


def _rates(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Any:
    """Variance ratios along n at three rates, and normal plots of the estimates at the largest n."""
    figure, axes = new_figure(1, 3, size=(13.0, 4.2))
    colours = dict(
        zip(("theorem 1", "theorem 2", "the paper's"), ("#0072B2", "#D55E00", "#009E73"), strict=True)
    )
    for rate, colour in colours.items():
        mine = [(cell["n"], journal.results(cell.key)) for cell in cells if cell["rate"] == rate]
        n = [size for size, _ in mine]
        axes[0, 0].loglog(n, [r["variance_ratio"] for _, r in mine], color=colour, marker="o", label=rate)
        axes[0, 0].loglog(n, [r["iqr2_ratio"] for _, r in mine], color=colour, marker="o", linestyle=":")
        axes[0, 1].loglog(n, [r["n_over_Bk"] for _, r in mine], color=colour, marker="o", label=rate)
        axes[0, 1].loglog(n, [r["zeta_ratio"] for _, r in mine], color=colour, marker="s", linestyle="--")
        _normal_plot(axes[0, 2], mine[-1][1]["estimates"], colour, rate)
    axes[0, 0].axhline(1.0, color=COLOURS["zero"], linewidth=0.8)
    axes[0, 0].set_title("Var(replay) / Var(plain); dotted: squared IQR", fontsize=9)
    axes[0, 1].set_title("n / (B k); dashed: zeta_kk / (n zeta_1k)", fontsize=9)
    axes[0, 2].set_title(f"normal plot of replayed estimates, n = {max(c['n'] for c in cells)}", fontsize=9)
    axes[0, 2].set_xlabel("normal quantile", fontsize=8)
    for ax in axes[0, :2]:
        ax.set_xlabel("n", fontsize=8)
        ax.legend(fontsize=8, frameon=False)
    return figure


def _normal_plot(ax: Any, estimates: dict[str, list[float]], colour: str, label: str) -> None:
    """Draw sorted estimates, in robust units, against normal quantiles; the line is the normal law."""
    values = np.sort(np.asarray(next(v for name, v in estimates.items() if name != "plain")))
    q25, median, q75 = np.quantile(values, [0.25, 0.5, 0.75])
    quantiles = norm.ppf((np.arange(len(values)) + 0.5) / len(values))
    scaled = (values - median) / max(1e-300, (q75 - q25) / 1.349)
    ax.plot(quantiles, np.clip(scaled, -8, 8), ".", color=colour, markersize=3, label=label)
    ax.plot(quantiles, quantiles, color=COLOURS["plain"], linewidth=0.8)


def _federated(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Any:
    """Squared error of common and personal models against the bytes that every client sends."""
    figure, axes = new_figure(1, 1, size=(6.0, 4.0))
    ax = axes[0, 0]
    found = [journal.results(cell.key) for cell in cells]
    for kind, colour in (("common", "#D55E00"), ("personal", "#0072B2")):
        replayed = [np.mean(one["squared_errors"][f"{kind}, replay"]) for one in found]
        plain = np.mean(found[0]["squared_errors"][f"{kind}, plug-in"])
        ax.plot(
            [one["bytes"]["replay"] for one in found], replayed, "o-", color=colour, label=f"{kind}, replay"
        )
        ax.plot(found[0]["bytes"]["plug-in"], plain, "s", color=colour, label=f"{kind}, plug-in")
    own = float(np.mean(found[0]["squared_errors"]["own"]))
    ax.axhline(own, color=COLOURS["plain"], linestyle=":", label="own data alone")
    ax.set(
        xscale="log", xlabel="bytes per client", ylabel="mean squared error of coefficients", ylim=(0, None)
    )
    ax.legend(fontsize=8, frameon=False)
    return figure


def _qlearning(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Any:
    """Draw steps of late episodes, and the parts of the error of Q, against the capacity of the memory."""
    panels = {"returns": "steps per late episode", "bias2": "squared bias of Q", "variance": "variance of Q"}
    figure, axes = new_figure(1, len(panels), size=(12.0, 3.8))
    for n_replays, colour in zip(sorted({cell["B"] for cell in cells}), ("#0072B2", "#D55E00"), strict=False):
        mine = [(cell["n"], journal.results(cell.key)) for cell in cells if cell["B"] == n_replays]
        for ax, name in zip(axes[0], panels, strict=True):
            values = [np.abs(np.mean(found[name])) for _, found in mine]
            ax.loglog([n for n, _ in mine], values, "o-", color=colour, label=f"B = {n_replays}")
    for ax, label in zip(axes[0], panels.values(), strict=True):
        ax.set(xlabel="capacity n", ylabel=label)
    axes[0, 0].legend(fontsize=8, frameon=False)
    return figure


def _features(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Any:
    figure, axes = new_figure(1, 1, size=(6.0, 4.0))
    distances = [journal.results(cell.key)["distance"] for cell in cells]
    power_law(axes[0, 0], [c["q"] for c in cells], distances, label="", colour="#0072B2", marker="o")
    axes[0, 0].set_xlabel("q, the number of features", fontsize=8)
    axes[0, 0].set_ylabel("distance / spread of the predictions", fontsize=8)
    axes[0, 0].grid(which="both", linewidth=0.3, alpha=0.6)
    return figure


def _differences(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Any:
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


def _group(experiment: Experiment, cell: Cell, journal: Journal) -> dict[str, Any]:
    results = journal.results(cell.key)[experiment.whose]
    record = published_record(cell, experiment.whose)
    name = {"variance": "var_diff", "rmse": "rmse_diff"}[experiment.view]
    return {
        "label": str(cell["n"]),
        "published": None if record is None else {m: record[f"{name}_{m}"] for m in REPLAYED},
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


def _value(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Any:
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


def _scaling(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Any:
    figure, axes = new_figure(1, 3, size=(13.0, 4.4))
    titles = {"seconds": "seconds for the fit", "rmse": "RMSE to the true function",
              "variance": "variance; dotted: features redrawn"}  # fmt: skip
    for method, label in LABELS.items():
        chosen = [cell for cell in cells if cell["method"] == method]
        n = [cell["n"] for cell in chosen]
        colour, marker = _SCALING_STYLE[method]
        for ax, name in zip(axes[0], titles, strict=True):
            values = [journal.results(cell.key)[name] for cell in chosen]
            power_law(ax, n, values, label=label, colour=colour, marker=marker)
        redrawn = [journal.results(cell.key).get("variance_redrawn") for cell in chosen]
        if redrawn and None not in redrawn:
            axes[0, -1].loglog(n, redrawn, color=colour, linestyle=":", linewidth=1.2)
    for ax, title in zip(axes[0], titles.values(), strict=True):
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("n")
        sizes = sorted({cell["n"] for cell in cells})
        ax.set_xticks(sizes, [str(n) for n in sizes])
        ax.set_xticks([], minor=True)
        ax.grid(which="both", linewidth=0.3, alpha=0.6)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


_AXIS = (
    "Whiskers reach from minimum to maximum, ours and published; the axis is symmetric logarithmic where "
    "boxes would else be flat."
)
# View of an experiment -> how it is drawn, and what is said under the figure.
_DRAWERS: dict[str, tuple[Callable[[Experiment, Sequence[Cell], Journal], Any], str]] = {
    "variance": (_differences, f"Differences of the sample variances, over test points. {_AXIS}"),
    "rmse": (
        _differences,
        "Differences of the RMSEs, over repetitions; the number over a box is its median: above 0 replay has "
        f"the smaller error. {_AXIS}",
    ),
    "value": (_value, "Mean and pointwise 2.5 to 97.5 % band over the repetitions."),
    "scaling": (_scaling, "Both axes are logarithmic."),
    "rates": (
        _rates,
        "LSTD with three functions, no truncation. Theorem 2's rate has k = 3 to 5: subsets are nearly "
        "singular: the plain inverse has no second moment, which the theorem assumes.",
    ),
    "features": (
        _features,
        "n = 200, k = 20, B = 50, the same subsets; root mean square distance of the predictions.",
    ),
    "qlearning": (
        _qlearning,
        "The 20 x 20 maze of Zhang and Sutton (2017), k = 10; late: the last 60 % of the episodes.",
    ),
    "federated": (_federated, "Ten clients with 40 rows each; 100 data sets."),
}
