"""What a run found, as rows for its page: what the numbers really say, and the data of the explorer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .cells import Cell, Experiment
from .compare import MEASURES
from .cost import CLAIMED, LABELS, fitted_exponent, window
from .cost_rules import median_interval
from .journal import Journal
from .measures import (
    AUTHORS_HOURS,
    METHODS,
    PRINTED_ROWS,
    PRINTED_SAVINGS,
    REPLAYED,
    differences,
    median_of,
    published_record,
)
from .policy import ALGORITHMS, BALANCED, GRID, zero_rmse
from .timing import REFERENCE_SUBSETS

# The printed savings are totals over so many repetitions.
PRINTED_REPETITIONS = 100

Rows = list[dict[str, Any]]


def zero_predictor(cells: Sequence[Cell], journal: Journal) -> dict[str, Any] | None:
    """Return how many median RMSEs of policy evaluation lie above that of predicting 0."""
    ours, theirs = [], []
    for cell in _of(cells, "policy"):
        for algorithm in ALGORITHMS:
            results = journal.results(cell.key)[algorithm]
            ours += [median_of(results, "rmse", method) for method in METHODS]
            record = published_record(cell, algorithm)
            theirs += list(record["median_rmse"].values()) if record else []
    if not ours:
        return None
    zero = zero_rmse()
    return {
        "zero": zero,
        "share": float(np.mean(np.array(ours) > zero)),
        "published_share": float(np.mean(np.array(theirs) > zero)) if theirs else None,
        "smallest": float(np.nanmin(ours)),
        "largest": float(np.nanmax(ours)),
    }


def conditions(cells: Sequence[Cell], journal: Journal) -> Rows:
    """Return median condition numbers and directions dropped, by algorithm and n."""
    rows = []
    for algorithm in ALGORITHMS:
        for n in sorted({cell["n"] for cell in _of(cells, "policy")}):
            found = [journal.results(c.key)[algorithm] for c in _of(cells, "policy") if c["n"] == n]
            rows.append(
                {
                    "label": GROUPS[algorithm],
                    "n": n,
                    **{
                        f"{name}_{method}": float(np.median([r[name][method] for r in found]))
                        for name in ("condition", "truncated")
                        for method in METHODS
                    },
                }
            )
    return rows


def inverses(cells: Sequence[Cell], journal: Journal) -> Rows:
    """Return one table per setting and n: every inverse, by algorithm, and the best penalty."""
    tables = []
    for cell in _of(cells, "ablation"):
        results = journal.results(cell.key)
        tables.append(
            {
                "setting": cell["setting"],
                "n": cell["n"],
                "k": cell["k"],
                "B": cell["B"],
                "algorithms": [
                    {
                        "label": GROUPS[algorithm],
                        "rows": results[algorithm],
                        "best_ridge": _best(results[algorithm], "alpha="),
                        "best_rcond": _best(results[algorithm], "rcond="),
                    }
                    for algorithm in ALGORITHMS
                ],
            }
        )
    return tables


def inverses_in_short(cells: Sequence[Cell], journal: Journal) -> Rows:
    """Return the rows that tell the story at the smallest n: as published, then one thing changed."""
    compared = {cell["setting"]: cell for cell in reversed(_of(cells, "ablation"))}
    rows: Rows = []
    for algorithm in ALGORITHMS if "paper" in compared else ():
        tables = {setting: journal.results(cell.key)[algorithm] for setting, cell in compared.items()}
        paper = tables["paper"]
        story = {
            "as published": paper["published"],
            "plain inverse": paper["rcond=0"],
            "ridge, penalty chosen from the data (Lepski)": paper[BALANCED],
            f"ridge, best penalty in hindsight ({_best(paper, 'alpha=')})": paper[_best(paper, "alpha=")],
        }
        for setting, name in (("beta=0.1", "beta = 0.1"), ("uniform", "data that cover the grid")):
            if setting in tables:
                story[name] = tables[setting]["published"]
        n = compared["paper"]["n"]
        rows += [{"label": GROUPS[algorithm], "n": n, "what": what, **row} for what, row in story.items()]
    return rows


def _best(rows: dict[str, Any], prefix: str) -> str:
    """Return the label with the smallest plain RMSE: chosen with the truth in hand, so optimistic."""
    labels = [label for label in rows if label.startswith(prefix)]
    return min(labels, key=lambda label: float(rows[label]["rmse"]["plain"]))


def tuned(cells: Sequence[Cell], journal: Journal) -> Rows:
    """Return the comparison with leave-one-out, one row per data set and n."""
    return [{**dict(cell.parameters), **journal.results(cell.key)} for cell in _of(cells, "tuned")]


def boston_errors(cells: Sequence[Cell], journal: Journal) -> Rows:
    """Return the median RMSEs on Boston housing beside the published ones, and the redraws."""
    rows = []
    for cell in _of(cells, "boston"):
        results = journal.results(cell.key)["krr"]
        record = published_record(cell, "krr")
        rows.append(
            {
                **dict(cell.parameters),
                "ours": {m: median_of(results, "rmse", m) for m in METHODS},
                "published": record["median_rmse"] if record else None,
                "redrawn": results["redrawn"],
            }
        )
    return rows


def exceptions(cells: Sequence[Cell], journal: Journal) -> Rows:
    """Return, by group, how many differences are not above 0, here and in the published numbers."""
    rows = []
    for group, label in GROUPS.items():
        mine = [(cell, whose) for cell in cells for name, whose in groups_of(cell) if name == group]
        for measure, name in (("variance", "var_diff"), ("rmse", "rmse_diff")):
            ours = [
                (differences(journal.results(cell.key)[whose], measure, method) <= 0)
                for cell, whose in mine
                for method in REPLAYED
            ]
            records = [r for r in (published_record(cell, whose) for cell, whose in mine) if r is not None]
            theirs = [1 - r[f"{name}_{method}"]["frac_pos"] for r in records for method in REPLAYED]
            if ours:
                rows.append(
                    {
                        "label": label,
                        "measure": measure,
                        "ours": float(np.concatenate(ours).mean()),
                        "cells": sum(bool(one.any()) for one in ours),
                        "n_cells": len(ours),
                        "published": float(np.mean(theirs)) if theirs else None,
                    }
                )
    return rows


def time_table(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Rows:
    """Return the savings t - t_U and t - t_V: as printed, and with lean code without and with prediction."""
    rows = []
    for cell in cells:
        times = journal.results(cell.key)
        printed_n = PRINTED_ROWS.get(cell["n"])
        rows.append(
            {
                "n": cell["n"],
                "k": cell["k"],
                "printed_n": printed_n,
                "printed": PRINTED_SAVINGS.get((cell["B"], printed_n or 0, cell["k"])),
                "fit": [PRINTED_REPETITIONS * (times["fit"]["plain"] - times["fit"][m]) for m in REPLAYED],
                "total": [
                    PRINTED_REPETITIONS * (times["fit_and_predict"]["plain"] - times["fit_and_predict"][m])
                    for m in REPLAYED
                ],
                "turns": times["turns"],
                "ratios": [median_interval(times["ratios"][m]) for m in REPLAYED],
            }
        )
    return rows


def scaling_table(cells: Sequence[Cell], journal: Journal) -> Rows:
    """Return time, error and fitted exponent for each method of the scaling study."""
    rows = []
    for method, label in LABELS.items():
        mine = [cell for cell in _of(cells, "scaling") if cell["method"] == method]
        if not mine:
            continue
        points = [{"n": cell["n"], **journal.results(cell.key)} for cell in mine]
        exponent = fitted_exponent([p["n"] for p in points], [p["seconds"] for p in points])
        rows.append({"label": label, "points": points, "exponent": exponent, "claimed": CLAIMED[method]})
    return rows


def map_table(cells: Sequence[Cell], journal: Journal) -> Rows:
    """Return the map of kernel ridge: one row per n and method, and which methods improve in everything."""
    rows = []
    for cell in _of(cells, "map"):
        found = journal.results(cell.key)
        rows.append({"n": cell["n"], **found, "window": window(found["rows"])})
    return rows


def speed(cells: Sequence[Cell], journal: Journal, *, full: bool) -> Rows:
    """Return, by kind, how much slower the reference implementation is, and what the grid took."""
    rows = []
    for cell in _of(cells, "reference"):
        result, kind = journal.results(cell.key), cell["kind"]
        spent = sum(line["seconds"] for key, line in journal.lines.items() if key.startswith(kind + " "))
        rows.append(
            {
                "kind": kind,
                **result,
                "n_subsets": REFERENCE_SUBSETS,
                "grid_seconds": spent,
                "reference_hours": result["ratio"] * spent / 3600,
                "authors_hours": AUTHORS_HOURS[kind] if full else None,
            }
        )
    return rows


def _of(cells: Sequence[Cell], study: str) -> list[Cell]:
    return [cell for cell in cells if cell.study == study]


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
