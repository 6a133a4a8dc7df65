"""The data behind the interactive part of the report: the distributions of every cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .cells import Cell
from .compare import MEASURES
from .journal import Journal
from .measures import METHODS, REPLAYED, differences, median_of
from .policy import ALGORITHMS, GRID
from .published import published_record

GROUPS = {
    "lstd": "LSTD",
    "phibe1": "PhiBE, order 1",
    "phibe2": "PhiBE, order 2",
    "kernel": "Kernel ridge, simulated",
    "boston": "Kernel ridge, Boston",
}


def groups_of(cell: Cell) -> list[tuple[str, str]]:
    """Return the (group, whose results) of a cell; none for cells without distributions."""
    if cell.study == "policy":
        return [(algorithm, algorithm) for algorithm in ALGORITHMS]
    return [(cell.study, "krr")] if cell.study in ("kernel", "boston") else []


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
