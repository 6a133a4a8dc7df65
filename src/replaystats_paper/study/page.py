"""The page of a study: what was run, a table, box plots, agreement with a published table. One file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np

from replaystats.plots.style import COLOURS, box, new_figure, save_figure, zero_line
from replaystats.toolkit import embed_picture, render

from ..cells import Cell
from ..compare import Agreement, mean_agreement
from .run import StudyResult

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
MEASURES = {"variance": "variance, over points", "rmse": "RMSE, over repetitions"}


def write_page(result: StudyResult, manifest: dict[str, Any]) -> str:
    """Draw the figures into the study's folder and return the page."""
    definition = result.definition
    folder = result.folder / "figures"
    pictures = []
    if any(len(family) > 1 for family in definition.families):
        for measure, title in MEASURES.items():
            figure = draw_differences(result, measure)
            pictures.append({"title": title, "data": embed_picture(save_figure(figure, folder / measure)[0])})
    if definition.source.x is not None:
        figure = draw_curves(result, definition.cells[-1])
        pictures.append(
            {"title": "mean and 95 % band", "data": embed_picture(save_figure(figure, folder / "curves")[0])}
        )
    context = {
        "title": definition.title,
        "manifest": manifest,
        "rows": result.table(),
        "names": list(dict(definition.cells[0].parameters)),
        "baselines": [family[0] for family in definition.families],
        "repetitions": definition.repetitions,
        "pictures": pictures,
        "agreement": agreement(result),
    }
    return render("study.html.j2", context, package="replaystats_paper")


def draw_differences(result: StudyResult, measure: str) -> Any:
    """Box plots of baseline minus estimator, as the paper draws them: a panel per B and k, a group per n."""
    definition = result.definition
    others = {name: base for name, base in definition.baselines.items() if name != base}
    panels: dict[str, list[Cell]] = {}
    for cell in definition.cells:
        name = ", ".join(f"{key} = {value}" for key, value in cell.parameters if key != "n")
        panels.setdefault(name, []).append(cell)
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = new_figure(rows, columns, size=(1.5 + 3.6 * columns, 0.9 + 2.7 * rows), sharey="row")
    width = 0.8 / len(others)
    for ax, (name, cells) in zip(axes.ravel(), panels.items(), strict=False):
        zero_line(ax)
        for i, cell in enumerate(cells):
            found = result.results[cell.key]
            for j, (other, baseline) in enumerate(others.items()):
                gap = np.asarray(found[baseline][measure]) - np.asarray(found[other][measure])
                gap = gap[np.isfinite(gap)]
                place = i + (j - (len(others) - 1) / 2) * width
                box(ax, place, gap, colour=PALETTE[j % len(PALETTE)], width=0.8 * width)
        ax.set_xticks(range(len(cells)), [f"n = {cell['n']}" for cell in cells], fontsize=8)
        ax.set_title(literal(name), fontsize=9)
        ax.grid(axis="y", linewidth=0.3, alpha=0.6)
    _legend(figure, list(others))
    first = " or ".join(family[0] for family in definition.families if len(family) > 1)
    figure.suptitle(f"{measure}: {literal(first)} − the others, M = {definition.repetitions}", fontsize=11)
    return figure


def draw_curves(result: StudyResult, cell: Cell) -> Any:
    """Mean and pointwise band of every estimator along one axis, at one cell."""
    definition = result.definition
    x, truth = definition.source.x, definition.source.truth
    figure, axes = new_figure(1, 1, size=(8.0, 4.4))
    ax = axes[0, 0]
    for j, (name, found) in enumerate(result.results[cell.key].items()):
        colour = PALETTE[(j - 1) % len(PALETTE)] if j else COLOURS["plain"]
        ax.fill_between(x, found["low"], found["high"], color=colour, alpha=0.15, linewidth=0)
        ax.plot(x, found["mean"], color=colour, label=literal(name))
    ax.plot(x, truth, color=COLOURS["truth"], linestyle="--", label="truth")
    reach = 3 * max(1e-12, float(np.abs(truth).max()))
    ax.set_ylim(-reach, reach)
    ax.legend(fontsize=8, frameon=False)
    ax.set_title(literal(cell.key.removeprefix("study ")), fontsize=9)
    return figure


def agreement(result: StudyResult) -> list[Agreement]:
    """Set medians beside a published table: mean log ratio over its records, by estimator and measure."""
    cells = {cell: result.results[cell.key] for cell in result.definition.cells}
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for record in result.definition.published:
        for cell, results in cells.items():
            same = all(record.get(name) == value for name, value in cell.parameters)
            if same and record["estimator"] in results:
                ours = float(np.nanmedian(results[record["estimator"]][record["measure"]]))
                pair = math.log(ours), math.log(float(record["value"]))
                pairs.setdefault((record["estimator"], record["measure"]), []).append(pair)
    return [
        mean_agreement(estimator, measure, "median", *np.array(found).T)
        for (estimator, measure), found in pairs.items()
    ]


def literal(text: str) -> str:
    r"""Return text that matplotlib shows as it is: between dollars it would read formulas.

    Examples
    --------
    >>> literal("cost in $")
    'cost in \\$'
    """
    return text.replace("$", r"\$")


def _legend(figure: Any, names: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=colour + "40", edgecolor=colour, label=literal(name))
        for colour, name in zip(cycle(PALETTE), names, strict=False)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
