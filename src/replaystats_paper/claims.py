"""What the paper says, sentence by sentence (``claims.toml``), and what a run found."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from typing import Any

from . import cost, rules
from .cells import Cell, Experiment
from .compare import (
    GROUPS,
    LIMIT,
    Agreement,
    CellAgreement,
    compare_algorithm,
    compare_each_cell,
    groups_of,
)
from .journal import CellJournal
from .measures import NEEDS_FULL, Evidence, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence of the paper and how it is judged: a table of ``claims.toml``.

    Attributes
    ----------
    name : str
    paper : str
        Where it stands.
    words : str
        What it says, in its own quantifiers.
    needs : tuple of str
        The experiments it is judged on; without all of them it is not judged. Its verdict stands under the
        first.
    rule : str
        Name of the function that judges: Evidence -> Verdict.
    criterion : str
        What that function takes the words to mean.
    options : dict
        Its further arguments.
    """

    name: str
    paper: str
    words: str
    needs: tuple[str, ...]
    rule: str
    criterion: str
    options: Mapping[str, Any]

    def judge(self, evidence: Evidence) -> Verdict:
        """Return the verdict on finished cells."""
        module = rules if hasattr(rules, self.rule) else cost
        verdict: Verdict = getattr(module, self.rule)(evidence, **self.options)
        return verdict


def load_claims() -> dict[str, Claim]:
    """Return every claim by name, in the order of the report.

    Examples
    --------
    >>> load_claims()["theorem-1"].words
    'Under its conditions liminf [Var(plain) - Var(U)] >= 0.'
    """
    found = tomllib.loads((resources.files(__package__) / "claims.toml").read_text(encoding="utf-8"))
    claims = {}
    for name, row in found["claims"].items():
        known = {key: row.pop(key) for key in ("paper", "words", "rule")}
        criterion = row.pop("criterion", found["criteria"].get(known["rule"], ""))
        needs = tuple(row.pop("needs"))
        claims[name] = Claim(name=name, needs=needs, criterion=criterion, options=row, **known)
    return claims


def judge_claims(
    cells: Mapping[str, Sequence[Cell]], algorithms: Mapping[str, str], journal: CellJournal
) -> dict[str, tuple[Claim, Verdict]]:
    """Judge every claim whose experiments were run.

    Parameters
    ----------
    cells : mapping
        Name of an experiment -> its cells in this run.
    algorithms : mapping
        Name of an experiment -> whose results of its cells it shows.
    journal : CellJournal
        With those cells.
    """
    judged = {}
    for claim in load_claims().values():
        if all(name in cells for name in claim.needs):
            evidence = Evidence({name: tuple(cells[name]) for name in claim.needs}, dict(algorithms), journal)
            judged[claim.name] = (claim, claim.judge(evidence))
    return judged


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Findings:
    """What a run found, ready to be shown: made once, used by the page and by the summary.

    Attributes
    ----------
    experiments : list of Experiment
    cells : dict
        Name of an experiment -> its cells in this run.
    journal : CellJournal
    agreement : list of Agreement
    each_cell : list of CellAgreement
    verdicts : dict
        Name of a claim -> the claim and its verdict.
    """

    experiments: Sequence[Experiment]
    cells: dict[str, tuple[Cell, ...]]
    journal: CellJournal
    agreement: list[Agreement] = field(default_factory=list)
    each_cell: list[CellAgreement] = field(default_factory=list)
    verdicts: dict[str, tuple[Claim, Verdict]] = field(default_factory=dict)

    @property
    def all_cells(self) -> list[Cell]:
        """Every cell once, in the order of the experiments."""
        unique = {cell.key: cell for cells in self.cells.values() for cell in cells}
        return list(unique.values())


def collect(experiments: Sequence[Experiment], journal: CellJournal, *, quick: bool) -> Findings:
    """Compare and judge what the journal holds for the experiments."""
    cells = {experiment.name: experiment.chosen_cells(quick) for experiment in experiments}
    findings = Findings(experiments=experiments, cells=cells, journal=journal)
    for group in GROUPS:
        of_all = ((cell, pair) for cell in findings.all_cells for pair in groups_of(cell))
        mine = [(cell, whose) for cell, (name, whose) in of_all if name == group]
        findings.agreement.extend(compare_algorithm(group, mine, journal))
        findings.each_cell.extend(compare_each_cell(group, mine, journal))
    whose = {experiment.name: experiment.whose for experiment in experiments}
    findings.verdicts.update(judge_claims(cells, whose, journal))
    if quick:
        for name, (claim, verdict) in findings.verdicts.items():
            findings.verdicts[name] = claim, as_in_full(name, verdict)
    return findings


def as_in_full(name: str, verdict: Verdict) -> Verdict:
    """Return the verdict of a quick run where it is that of the full run; else say that this run is needed.

    A part of the cells may show fewer exceptions than all of them: it never gets a kinder label. The stored
    label of the full run stands beside it.
    """
    text = (resources.files(__package__) / "full_verdicts.json").read_text(encoding="utf-8")
    stored = json.loads(text).get(name)
    if stored == verdict.label:
        return verdict
    full = "The full run is not stored." if stored is None else f"The full run: {stored}."
    return Verdict(NEEDS_FULL, verdict.reason, f"{full} {verdict.beside}".strip())


def summarise_findings(findings: Findings) -> dict[str, Any]:
    """Return agreement and verdicts as plain values."""
    return {
        "agreement": [
            {**asdict(a), "difference": a.difference, "z": a.z, "limit": a.limit, "agrees": a.agrees}
            for a in findings.agreement
        ],
        "each_cell": [asdict(one) for one in findings.each_cell if abs(one.t) > LIMIT],
        "n_each_cell": len(findings.each_cell),
        "verdicts": {
            name: {"words": claim.words, "paper": claim.paper, "rule": claim.criterion, **asdict(verdict)}
            for name, (claim, verdict) in findings.verdicts.items()
        },
    }
