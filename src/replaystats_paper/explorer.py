"""The data of the explorer on the page: distributions of every cell, ours beside the published ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .cells import Cell
from .compare import GROUPS, MEASURES, groups_of
from .journal import Journal
from .measures import METHODS, REPLAYED, differences, median_of, published_record
from .policy import GRID


def explorer_data(cells: Iterable[Cell], journal: Journal) -> dict[str, Any]:
    """Return what the script of the page reads: labels, the grid, and one record per cell and group."""
    records = [
        _record(cell, group, whose, journal) for cell in cells for group, whose in groups_of(cell)
    ]  # fmt: skip
    return {"groups": GROUPS, "grid": GRID.tolist(), "records": records}


def _record(cell: Cell, group: str, whose: str, journal: Journal) -> dict[str, Any]:
    results = journal.results(cell.key)[whose]
    record: dict[str, Any] = {
        "group": group,
        "n": cell["n"],
        "B": cell["B"],
        "k": cell["k"],
        "median": {m: {method: median_of(results, m, method) for method in METHODS} for m in MEASURES},
        "published": _published(cell, whose),
    }
    for measure in MEASURES:
        record[measure] = {m: differences(results, measure, m).tolist() for m in REPLAYED}
    if cell.study == "policy":
        record["band"] = {name: results[name] for name in ("mean", "low", "high")}
    return record


def _published(cell: Cell, whose: str) -> dict[str, Any] | None:
    record = published_record(cell, whose)
    if record is None:
        return None
    names: Sequence[tuple[str, str, str]] = (
        ("variance", "var_diff", "median_var"),
        ("rmse", "rmse_diff", "median_rmse"),
    )
    return {
        measure: {"median": record[medians], **{m: record[f"{diffs}_{m}"] for m in REPLAYED}}
        for measure, diffs, medians in names
    }
