"""The report: everything a run found, on one page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from replaystats.toolkit import embed_json, embed_picture, render

from .cells import Cell, Experiment, Settings
from .claims import Claim, Findings
from .compare import GROUPS, LIMIT, Agreement, CellAgreement, groups_of
from .cost import CLAIMED, LABELS, fitted_exponent, median_interval
from .figures import caption_of, draw_experiment
from .journal import CellJournal
from .kernel import N_SETS
from .measures import (
    FAILS,
    HOLDS,
    IN_PART,
    MEASURES,
    METHODS,
    NEEDS_FULL,
    PRINTED_ROWS,
    PRINTED_SAVINGS,
    REPLAYED,
    UNDECIDED,
    Verdict,
    differences,
    median_of,
    published_record,
)
from .policy import ALGORITHMS, BALANCED, GRID, zero_rmse

# A comparison of one cell stands out when chance would bring one so large in a hundred such runs.
STANDS_OUT = 0.01


def badge_of(label: str) -> str:
    """Return the colour of a verdict: good, part, bad or open."""
    return {HOLDS: "good", IN_PART: "part", FAILS: "bad", UNDECIDED: "open", NEEDS_FULL: "open"}[label]


def write_page(
    findings: Findings, settings: Settings, manifest: dict[str, Any], folder: Path, *, quick: bool
) -> str:
    """Draw the figures into `folder` / figures and return the page."""
    cells, journal = findings.all_cells, findings.journal
    shown = [_experiment(experiment, findings, folder / "figures") for experiment in findings.experiments]
    records = explorer_data(cells, journal)
    sections = _really(cells, journal)
    context = {
        "title": _title(findings),
        "manifest": manifest,
        "counts": _counts(findings),
        "settings": settings,
        "quick": quick,
        "agreement": _agreement_rows(findings.agreement),
        "all_agree": all(a.agrees for a in findings.agreement),
        "n_compared": len(findings.agreement),
        "n_test_sets": N_SETS,
        "limit": LIMIT,
        "each_cell": _each_cell(findings.each_cell),
        "claims": [_claim(*pair) for pair in findings.verdicts.values()],
        "experiments": shown,
        "explorer": embed_json(records) if records["records"] else "",
        "really": sections,
    }
    return render("reproduction.html.j2", context, package=__package__)


def _experiment(experiment: Experiment, findings: Findings, folder: Path) -> dict[str, Any]:
    cells, journal = findings.cells[experiment.name], findings.journal
    picture = draw_experiment(experiment, cells, journal, folder)
    under = [pair for pair in findings.verdicts.values() if pair[0].needs[0] == experiment.name]
    return {
        "name": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "repetitions": journal.lines[cells[0].key]["repetitions"],
        "claims": [_claim(*pair) for pair in under],
        "figure": embed_picture(picture) if picture else "",
        "caption": caption_of(experiment),
        "times": time_table(experiment, cells, journal) if experiment.view == "time" else [],
        "scaling": scaling_table(cells, journal) if experiment.name == "scaling" else [],
    }


def _claim(claim: Claim, verdict: Verdict) -> dict[str, Any]:
    return {**asdict(claim), **asdict(verdict), "kind": badge_of(verdict.label)}


def _each_cell(each_cell: Sequence[CellAgreement]) -> dict[str, Any] | None:
    """Summarise the comparisons of single cells: how many are far out, and how many chance would bring."""
    if not each_cell:
        return None
    n = len(each_cell)
    far = [one for one in each_cell if abs(one.t) > LIMIT]
    largest = min(each_cell, key=lambda one: one.p)
    logs = [one.detectable for one in each_cell if ">" not in one.quantity]
    return {
        "n": n,
        "n_cells": len({(one.algorithm, one.key) for one in each_cell}),
        "far": len(far),
        "expected": sum(_beyond_limit(each_cell)),
        "largest": f"{GROUPS[largest.algorithm]}, {largest.measure}, {largest.quantity}, {largest.key}",
        "t": largest.t,
        "chance": min(1.0, n * largest.p),
        "ok": n * largest.p > STANDS_OUT,
        "detectable": math.exp(sorted(logs)[len(logs) // 2]),
    }


def _beyond_limit(each_cell: Sequence[CellAgreement]) -> list[float]:
    """Return the chance of each comparison to lie beyond the limit by luck."""
    sizes: dict[str, set[str]] = {}
    for one in each_cell:
        sizes.setdefault(one.algorithm, set()).add(one.key)
    return [float(2 * student.sf(LIMIT, len(sizes[one.algorithm]) - 2)) for one in each_cell]


def _really(cells: Sequence[Cell], journal: CellJournal) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "zero": zero_predictor(cells, journal),
        "conditions": conditions(cells, journal),
        "in_short": inverses_in_short(cells, journal),
        "tuned": [{**dict(cell.parameters), **journal.results(cell.key)} for cell in _of(cells, "tuned")],
    }
    return {**parts, "any": any(parts.values())}


def _agreement_rows(agreement: Sequence[Agreement]) -> list[dict[str, Any]]:
    rows = []
    for group, label in GROUPS.items():
        mine = {f"{a.measure} {a.quantity}": _compared(a) for a in agreement if a.algorithm == group}
        if mine:
            n_cells = max(a.n_cells for a in agreement if a.algorithm == group)
            rows.append({"label": label, "n_cells": n_cells, "cells": mine})
    return rows


def _compared(a: Agreement) -> dict[str, Any]:
    share = ">" in a.quantity
    text = f"{100 * a.difference:+.1f} %" if share else f"× {math.exp(a.difference):.3f}"
    error = f"{100 * a.total_error:.1f} %" if share else f"{a.total_error:.3f}"
    noticed = f"{100 * a.detectable:.0f} %" if share else f"× {math.exp(a.detectable):.2f}"
    return {
        "text": text, "error": error, "z": a.z, "ok": a.agrees, "n_cells": a.n_cells, "noticed": noticed
    }  # fmt: skip


def _title(findings: Findings) -> str:
    """Return the finding: what agrees with the published numbers, and how many claims hold."""
    labels = [verdict.label for _, verdict in findings.verdicts.values()]
    parts = []
    if findings.agreement:
        agree = sum(a.agrees for a in findings.agreement)
        parts.append(f"{agree} of {len(findings.agreement)} comparisons with the published numbers agree")
    if labels:
        parts.append(f"{labels.count(HOLDS)} of {len(labels)} claims hold as worded")
    return "The paper, re-run" + (f": {', '.join(parts)}" if parts else "")


def _counts(findings: Findings) -> list[tuple[str, str]]:
    """Return how many comparisons agree and how many claims have each label."""
    kinds = [badge_of(verdict.label) for _, verdict in findings.verdicts.values()]
    words = {"good": "hold as worded", "part": "hold in part", "bad": "do not hold"}
    words["open"] = "are undecided or need the full run"
    found = [
        (f"{kinds.count(k)} of {len(kinds)}", f"claims {text}") for k, text in words.items() if k in kinds
    ]
    if findings.agreement:
        agree = f"{sum(a.agrees for a in findings.agreement)} of {len(findings.agreement)}"
        text = "comparisons with published numbers within what chance leaves in 99.7 % of them"
        found.insert(0, (agree, text))
    return found


# The printed savings are totals over so many repetitions.
PRINTED_REPETITIONS = 100

Rows = list[dict[str, Any]]


def zero_predictor(cells: Sequence[Cell], journal: CellJournal) -> dict[str, Any] | None:
    """Return how many median RMSEs of policy evaluation lie above that of predicting 0."""
    ours, theirs = [], []
    for cell in _of(cells, "policy"):
        for algorithm in ALGORITHMS:
            results = journal.results(cell.key)[algorithm]
            ours += [median_of(results, "rmse", method) for method in METHODS]
            record = published_record(cell, algorithm)
            theirs += list(record["rmse"]["median"].values()) if record else []
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


def conditions(cells: Sequence[Cell], journal: CellJournal) -> Rows:
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


def inverses_in_short(cells: Sequence[Cell], journal: CellJournal) -> Rows:
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
        }
        for setting, name in (("beta=0.1", "beta = 0.1"), ("uniform", "data that cover the grid")):
            if setting in tables:
                story[name] = tables[setting]["published"]
        n = compared["paper"]["n"]
        rows += [{"label": GROUPS[algorithm], "n": n, "what": what, **row} for what, row in story.items()]
    return rows


def time_table(experiment: Experiment, cells: Sequence[Cell], journal: CellJournal) -> Rows:
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


def scaling_table(cells: Sequence[Cell], journal: CellJournal) -> Rows:
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


def _of(cells: Sequence[Cell], study: str) -> list[Cell]:
    return [cell for cell in cells if cell.study == study]


def explorer_data(cells: Iterable[Cell], journal: CellJournal) -> dict[str, Any]:
    """Return what the script of the page reads: labels, the grid, and one record per cell and group."""
    records = [
        _record(cell, group, whose, journal) for cell in cells for group, whose in groups_of(cell)
    ]  # fmt: skip
    return {"groups": GROUPS, "grid": GRID.tolist(), "records": records}


def _record(cell: Cell, group: str, whose: str, journal: CellJournal) -> dict[str, Any]:
    results, published = journal.results(cell.key)[whose], published_record(cell, whose)
    record: dict[str, Any] = {
        "group": group,
        "n": cell["n"],
        "B": cell["B"],
        "k": cell["k"],
        "median": {m: {method: median_of(results, m, method) for method in METHODS} for m in MEASURES},
        "published": published and {m: published[m] for m in MEASURES},
    }
    for measure in MEASURES:
        record[measure] = {m: differences(results, measure, m).tolist() for m in REPLAYED}
    if cell.study == "policy":
        record["band"] = {name: results[name] for name in ("mean", "low", "high")}
    return record
