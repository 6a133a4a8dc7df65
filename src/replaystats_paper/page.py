"""The report: everything a run found, on one page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from replaystats.toolkit import duration, embed_json, embed_picture, render, significant

from . import really
from .catalogue import Experiment
from .cells import Cell, Settings
from .compare import LIMIT, Agreement, compare_algorithm
from .explorer import GROUPS, explorer_data, groups_of
from .figures import draw_experiment, draw_inverses
from .held_out import N_SETS
from .journal import Journal
from .known import KNOWN_DIFFERENCES
from .verdicts import FAILS, HOLDS, ONLY_PSEUDO_INVERSE, Verdict, judge

TITLE = "The paper, re-run beside its published numbers"
BADGES = {HOLDS: "good", ONLY_PSEUDO_INVERSE: "part", FAILS: "bad"}
_AXIS = "Every point is inside the frame; the axis is symmetric logarithmic where boxes would else be flat."
CAPTIONS = {
    "variance": f"Differences of the sample variances, over test points. {_AXIS}",
    "rmse": f"Differences of the RMSEs, over repetitions. {_AXIS}",
    "value": "Mean and pointwise 2.5 to 97.5 % band over the repetitions.",
    "scaling": "Both axes are logarithmic.",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Findings:
    """What a run found, ready to be shown: made once, used by the page and by the summary.

    Attributes
    ----------
    experiments : list of Experiment
    cells : dict
        Name of an experiment -> its cells in this run.
    journal : Journal
    agreement : list of Agreement
    verdicts : dict
        Name of an experiment -> its verdict.
    """

    experiments: Sequence[Experiment]
    cells: dict[str, tuple[Cell, ...]]
    journal: Journal
    agreement: list[Agreement] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    @property
    def all_cells(self) -> list[Cell]:
        """Every cell once, in the order of the experiments."""
        unique = {cell.key: cell for cells in self.cells.values() for cell in cells}
        return list(unique.values())


def collect(experiments: Sequence[Experiment], journal: Journal, *, quick: bool) -> Findings:
    """Compare and judge what the journal holds for the experiments."""
    cells = {experiment.name: experiment.chosen_cells(quick) for experiment in experiments}
    findings = Findings(experiments=experiments, cells=cells, journal=journal)
    for group in GROUPS:
        of_all = ((cell, pair) for cell in findings.all_cells for pair in groups_of(cell))
        mine = [(cell, whose) for cell, (name, whose) in of_all if name == group]
        findings.agreement.extend(compare_algorithm(group, mine, journal))
    for experiment in experiments:
        verdict = judge(experiment, cells[experiment.name], journal)
        if verdict is not None:
            findings.verdicts[experiment.name] = verdict
    return findings


def write_page(
    findings: Findings, settings: Settings, manifest: dict[str, Any], folder: Path, *, quick: bool
) -> str:
    """Draw the figures into `folder` / figures and return the page."""
    cells, journal = findings.all_cells, findings.journal
    shown = [_experiment(experiment, findings, folder / "figures") for experiment in findings.experiments]
    records = explorer_data(cells, journal)
    sections = _really(cells, journal, folder / "figures", full=not quick)
    context = {
        "title": TITLE,
        "subtitle": _subtitle(findings, quick),
        "manifest": manifest,
        "cards": _cards(findings, manifest, sections["speed"]),
        "notes": _notes(settings, quick),
        "agreement": _agreement_rows(findings.agreement),
        "disagreements": [_disagreement(a) for a in findings.agreement if not a.agrees],
        "n_compared": len(findings.agreement),
        "n_test_sets": N_SETS,
        "limit": LIMIT,
        "experiments": shown,
        "explorer": embed_json(records) if records["records"] else "",
        "really": sections,
        "known": KNOWN_DIFFERENCES,
        "about": _about(settings, manifest),
    }
    return render("reproduction.html.j2", context)


def _experiment(experiment: Experiment, findings: Findings, folder: Path) -> dict[str, Any]:
    cells, journal = findings.cells[experiment.name], findings.journal
    picture = draw_experiment(experiment, cells, journal, folder)
    verdict = findings.verdicts.get(experiment.name)
    return {
        "name": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "claim": experiment.claim,
        "repetitions": journal.lines[cells[0].key]["repetitions"],
        "verdict": verdict and {**asdict(verdict), "kind": BADGES[verdict.label]},
        "figure": embed_picture(picture) if picture else "",
        "caption": CAPTIONS.get(experiment.view, ""),
        "times": really.time_table(experiment, cells, journal) if experiment.view == "time" else [],
        "scaling": really.scaling_table(cells, journal) if experiment.view == "scaling" else [],
    }


def _really(cells: Sequence[Cell], journal: Journal, folder: Path, *, full: bool) -> dict[str, Any]:
    pictures = [
        embed_picture(draw_inverses(cell, journal, folder))
        for cell in cells
        if cell.study == "ablation" and cell["setting"] == "paper"
    ]
    parts: dict[str, Any] = {
        "zero": really.zero_predictor(cells, journal),
        "conditions": really.conditions(cells, journal),
        "inverses": really.inverses(cells, journal),
        "in_short": really.inverses_in_short(cells, journal),
        "pictures": pictures,
        "tuned": really.tuned(cells, journal),
        "boston": really.boston_errors(cells, journal),
        "exceptions": really.exceptions(cells, journal),
        "speed": really.speed(cells, journal, full=full),
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
    return {"text": text, "error": error, "z": a.z, "ok": a.agrees, "n_cells": a.n_cells}


def _disagreement(a: Agreement) -> str:
    shown = _compared(a)
    return (
        f"{GROUPS[a.algorithm]}, {a.measure}, {a.quantity}: {shown['text']} ± {shown['error']} "
        f"({a.z:+.1f} standard errors over {a.n_cells} cells)."
    )


def _subtitle(findings: Findings, quick: bool) -> str:
    what = "a quick part of its grid" if quick else "its published grid"
    number = len(findings.experiments)
    return f"{number} experiments, {what}, every number computed anew from simulated or public data."


def _cards(
    findings: Findings, manifest: dict[str, Any], speed: Sequence[dict[str, Any]]
) -> list[dict[str, str]]:
    labels = [verdict.label for verdict in findings.verdicts.values()]
    cards = [
        {
            "value": f"{sum(a.agrees for a in findings.agreement)} of {len(findings.agreement)}",
            "text": f"comparisons with published numbers within {LIMIT:g} standard errors",
        },
        *(
            {"value": f"{labels.count(label)} of {len(labels)}", "text": f"claims: {label}"}
            for label in (HOLDS, ONLY_PSEUDO_INVERSE, FAILS)
        ),
        {"value": duration(manifest["cell_seconds"]), "text": f"of one core for {manifest['cells']} cells"},
    ]
    if speed:
        ratio = sum(3600 * row["twin_hours"] for row in speed) / sum(row["grid_seconds"] for row in speed)
        text = "times faster than a slow twin of the authors' code, over the grids of this run"
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
            "A quick run: all experiments, the published number of repetitions, a part of the cells."
        )
    return notes


def _about(settings: Settings, manifest: dict[str, Any]) -> list[tuple[str, str]]:
    machine = manifest["machine"]
    memory = f", {significant(machine['memory_gib'], 2)} GiB" if machine["memory_gib"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    return [
        ("command", manifest["command"]),
        ("seed, beta, solver", f"{settings.seed}, {settings.beta:g}, {settings.solver}"),
        ("started", manifest["started"]),
        ("time", f"{duration(manifest['seconds'])}; {duration(manifest['cell_seconds'])} summed over cells"),
        ("cells", f"{manifest['cells']}, of which {manifest['cells_computed']} computed in this session"),
        ("machine", f"{machine['processor']}, {machine['cores']} cores{memory}, {machine['system']}"),
        ("versions", f"Python {machine['python']}, {versions}"),
    ]
