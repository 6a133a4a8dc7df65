"""The report: everything a run found, on one page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from replaystats.toolkit import embed_json, embed_picture, render, significant

from . import tables
from .cells import Cell, Experiment, Settings
from .claims import Claim, Findings
from .compare import LIMIT, Agreement, CellAgreement
from .figures import caption_of, draw_experiment, draw_inverses
from .journal import Journal
from .kernel import N_SETS
from .measures import FAILS, HOLDS, IN_PART, NEEDS_FULL, UNDECIDED, Verdict
from .tables import GROUPS, explorer_data

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
    sections = _really(cells, journal, folder / "figures", full=not quick)
    context = {
        "title": _title(findings),
        "subtitle": _subtitle(findings, quick),
        "manifest": manifest,
        "cards": _cards(findings, manifest, sections["speed"]),
        "notes": _notes(settings, quick),
        "agreement": _agreement_rows(findings.agreement),
        "disagreements": [_disagreement(a) for a in findings.agreement if not a.agrees],
        "n_compared": len(findings.agreement),
        "n_test_sets": N_SETS,
        "limit": LIMIT,
        "each_cell": _each_cell(findings.each_cell),
        "claims": [_claim(*pair) for pair in findings.verdicts.values()],
        "experiments": shown,
        "explorer": embed_json(records) if records["records"] else "",
        "really": sections,
        "about": _about(settings, manifest),
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
        "times": tables.time_table(experiment, cells, journal) if experiment.view == "time" else [],
        "scaling": tables.scaling_table(cells, journal) if experiment.view == "scaling" else [],
        "map": tables.map_table(cells, journal) if experiment.view == "map" else [],
    }


def _claim(claim: Claim, verdict: Verdict) -> dict[str, Any]:
    return {
        **asdict(verdict),
        "rule": claim.criterion,
        "name": claim.name,
        "paper": claim.paper,
        "words": claim.words,
        "under": claim.needs[0],
        "kind": badge_of(verdict.label),
    }


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


def _really(cells: Sequence[Cell], journal: Journal, folder: Path, *, full: bool) -> dict[str, Any]:
    pictures = [
        embed_picture(draw_inverses(cell, journal, folder))
        for cell in cells
        if cell.study == "ablation" and cell["setting"] == "paper"
    ]
    parts: dict[str, Any] = {
        "zero": tables.zero_predictor(cells, journal),
        "conditions": tables.conditions(cells, journal),
        "inverses": tables.inverses(cells, journal),
        "in_short": tables.inverses_in_short(cells, journal),
        "pictures": pictures,
        "tuned": tables.tuned(cells, journal),
        "boston": tables.boston_errors(cells, journal),
        "exceptions": tables.exceptions(cells, journal),
        "speed": tables.speed(cells, journal, full=full),
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


def _disagreement(a: Agreement) -> str:
    shown = _compared(a)
    return (
        f"{GROUPS[a.algorithm]}, {a.measure}, {a.quantity}: {shown['text']} ± {shown['error']} "
        f"({a.z:+.1f} standard errors over {a.n_cells} cells)."
    )


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


def _subtitle(findings: Findings, quick: bool) -> str:
    what = "a quick part of its grid" if quick else "its published grid"
    number = len(findings.experiments)
    return f"{number} experiments, {what}, every number computed anew from simulated or public data."


def _cards(
    findings: Findings, manifest: dict[str, Any], speed: Sequence[dict[str, Any]]
) -> list[dict[str, str]]:
    kinds = [badge_of(verdict.label) for _, verdict in findings.verdicts.values()]
    cards = [
        {
            "value": f"{sum(a.agrees for a in findings.agreement)} of {len(findings.agreement)}",
            "text": "comparisons with published numbers within what chance leaves in 99.7 % of them",
        },
        *(
            {"value": f"{kinds.count(kind)} of {len(kinds)}", "text": f"claims of the paper {text}"}
            for kind, text in (
                ("good", "hold as worded"),
                ("part", "hold in part"),
                ("bad", "do not hold"),
                ("open", "are undecided"),
            )
            if kind in kinds
        ),
        {"value": str(manifest["cells"]), "text": "cells computed"},
    ]
    if ours := sum(row["grid_seconds"] for row in speed):  # none where the grids were not run
        ratio = sum(3600 * row["reference_hours"] for row in speed) / ours
        text = "times faster than a reference implementation of the authors' code, over the grids run"
        cards.append({"value": f"{significant(ratio, 2)}", "text": text})
    return [card for card in cards if not card["value"].endswith("of 0")]


def _notes(settings: Settings, quick: bool) -> list[str]:
    notes = []
    other = []
    if settings.beta != 1.0:
        other.append(f"beta = {settings.beta:g} (published: 1)")
    if settings.solver != "pinv":
        other.append(f"solver = {settings.solver} (published: pinv)")
    if settings.repetitions is not None:
        other.append(
            f"M = {settings.repetitions} repetitions (sample variances of heavy-tailed estimates grow with M)"
        )
    if other:
        notes.append("This run departs from the published settings, so agreement is not to be expected: "
                     + "; ".join(other) + ".")  # fmt: skip
    if quick:
        notes.append(
            "A quick run: all experiments, the published number of repetitions M, a part of the cells. "
            "Figure 1 is drawn with B = 100 in place of 500 or 1000; each figure says its n, B, k and M."
        )
    return notes


def _about(settings: Settings, manifest: dict[str, Any]) -> list[tuple[str, str]]:
    machine = manifest["machine"]
    memory = f", {significant(machine['memory_gib'], 2)} GiB" if machine["memory_gib"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    return [
        ("command", manifest["command"]),
        ("seed, beta, solver", f"{settings.seed}, {settings.beta:g}, {settings.solver}"),
        ("cells", str(manifest["cells"])),
        # Clocks have no place on a page that is the same for the same seed.
        ("when, how long, how busy", "in manifest.json beside this page"),
        ("machine", f"{machine['processor']}, {machine['cores']} cores{memory}, {machine['system']}"),
        ("versions", f"Python {machine['python']}, {versions}"),
    ]
