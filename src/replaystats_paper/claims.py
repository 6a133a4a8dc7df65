"""What the paper says, sentence by sentence: where, in which words, by which rule; and what a run found.

One row per claim; `rules` says how its words are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from . import cost_rules, rules, theory
from .cells import Cell, Experiment
from .compare import LIMIT, Agreement, CellAgreement, compare_algorithm, compare_each_cell
from .journal import Journal
from .measures import NEEDS_FULL, Evidence, Verdict
from .tables import GROUPS, groups_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence of the paper and how it is judged.

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
    rule : callable
        Evidence -> Verdict.
    """

    name: str
    paper: str
    words: str
    needs: tuple[str, ...]
    rule: Callable[..., Verdict]


POLICY = ("variance-lstd", "variance-phibe2", "variance-phibe1")
ALL_GRIDS = (*POLICY, "rmse-kernel", "rmse-boston")
_ALL_POINTS = "The variance differences are above 0 at all test points, for all parameters."

CLAIMS: tuple[Claim, ...] = (
    Claim(
        name="bands-lstd", paper="Figure 1a", needs=("value-lstd",), rule=rules.bands,
        words="At n = 5000 the replayed LSTD estimates still vary significantly less.",
    ),
    Claim(
        name="bands-phibe2", paper="Figure 1b", needs=("value-phibe2",), rule=rules.bands,
        words="Replay reduces the variance of the second-order PDE approach at n = 5000.",
    ),
    Claim(
        name="bands-phibe1", paper="Figure 8", needs=("value-phibe1",), rule=rules.bands,
        words="Replay reduces the variance of the first-order PDE approach at n = 5000 significantly.",
    ),
    Claim(name="points-lstd", paper="Figures 2, 5", needs=("variance-lstd",), rule=rules.every_point,
          words=_ALL_POINTS),
    Claim(name="points-phibe2", paper="Figures 3, 6", needs=("variance-phibe2",), rule=rules.every_point,
          words=_ALL_POINTS),
    Claim(name="points-phibe1", paper="Figure 7", needs=("variance-phibe1",), rule=rules.every_point,
          words=_ALL_POINTS),
    Claim(
        name="shrink", paper="Section 4.1, Appendix G", needs=POLICY, rule=rules.shrinks,
        words="As n increases the variance differences become small; the reduction remains substantial.",
    ),
    Claim(
        name="more-with-order-2", paper="Section 4.2, Appendix G", needs=POLICY, rule=rules.larger_reduction,
        words="The second-order method has a greater percentage reduction than LSTD and the first-order one.",
    ),
    Claim(
        name="pde-more-accurate", paper="Section 4.2", needs=("value-phibe2", "value-lstd"),
        rule=rules.more_accurate,
        words="Without replay the PDE approach is generally more accurate than LSTD, with narrower bands.",
    ),
    Claim(name="settings-kernel-b50", paper="Figure 4", needs=("variance-kernel-b50",),
          rule=rules.every_setting, words="The variance falls across all settings."),
    Claim(name="settings-kernel-b25", paper="Figure 9", needs=("variance-kernel-b25",),
          rule=rules.most_settings, words="The variance generally falls (B = 25)."),
    Claim(name="settings-kernel-b100", paper="Figure 9", needs=("variance-kernel-b100",),
          rule=rules.most_settings, words="The variance generally falls (B = 100)."),
    Claim(name="settings-boston", paper="Figure 10", needs=("variance-boston",), rule=rules.every_setting,
          words="On Boston housing the variance falls across all settings."),
    Claim(name="errors-lstd", paper="Figure 11", needs=("rmse-lstd",), rule=rules.tends_to,
          words="Replayed LSTD tends to have smaller prediction errors."),
    Claim(name="errors-phibe2", paper="Figure 12", needs=("rmse-phibe2",), rule=rules.every_median,
          words="Replay consistently reduces the prediction errors of the second-order PDE approach."),
    Claim(name="errors-phibe1", paper="Figure 13", needs=("rmse-phibe1",), rule=rules.every_median,
          words="Replay consistently reduces the prediction errors of the first-order PDE approach."),
    Claim(name="errors-kernel", paper="Figure 14", needs=("rmse-kernel",), rule=rules.every_median,
          words="Replay decreases the errors of kernel ridge for all the settings."),
    Claim(
        name="generally-both", paper="Introduction", needs=ALL_GRIDS, rule=rules.generally_both,
        words="Replay generally leads to both reduced variance and lower mean squared error.",
    ),
    Claim(
        name="u-or-v", paper="Section 4.3", needs=ALL_GRIDS, rule=rules.no_major_difference,
        words="There are no major differences between U and V.",
    ),
    Claim(name="time-b50", paper="Table 1", needs=("time-b50",), rule=cost_rules.saves_time,
          words="For fixed B, replay reduces the time, particularly when k is small and n is large."),
    Claim(name="time-b25", paper="Table 2", needs=("time-b25",), rule=cost_rules.saves_time,
          words="For fixed B, replay reduces the time, particularly when k is small and n is large."),
    Claim(name="cost", paper="Section 3.2, Appendix E", needs=("scaling",), rule=cost_rules.order_of_cost,
          words="Replay brings the cost of kernel ridge from O(n^3) to as low as O(n^2), and less variance."),
    Claim(name="three-hours", paper="Appendix G", needs=("speed",), rule=cost_rules.three_hours,
          words="All experiments were completed within three hours on a laptop."),
    Claim(name="importance", paper="Appendix A", needs=("importance",), rule=cost_rules.importance,
          words="For well-chosen proposals zeta_W <= zeta_kk, so importance sampling lowers the variance."),
    Claim(name="theorem-1", paper="Theorem 1", needs=("rates",), rule=theory.theorem_u,
          words="Under its conditions liminf [Var(plain) - Var(U)] >= 0."),
    Claim(name="theorem-2", paper="Theorem 2", needs=("rates",), rule=theory.theorem_v,
          words="With h_k in H and k = o(n^1/4), liminf [Var(plain) - Var(V)] >= 0."),
    Claim(name="guarantees", paper="Abstract", needs=("rates",), rule=theory.guarantee,
          words="The framework provides rigorous variance reduction guarantees."),
    Claim(name="normality", paper="after Theorem 1", needs=("rates",), rule=theory.normality,
          words="The condition of Theorem 1 ensures asymptotic normality of resampled U-statistics."),
    Claim(name="sufficient-k", paper="after Theorem 1", needs=("rates",), rule=theory.sufficient_rate,
          words="k = o(n) is sufficient for zeta_kk / (n zeta_1k) to go to 0."),
    Claim(name="scarce-data", paper="Abstract, Section 4.1", needs=POLICY, rule=theory.scarce_data,
          words="Variance falls particularly in data-scarce scenarios."),
    Claim(name="features", paper="Section 4.3", needs=("features",), rule=theory.feature_exponent,
          words="A feature map of large dimension q stands for the kernel."),
)  # fmt: skip


Q_LEARNING = Claim(
    name="memory-size", paper="Appendix D", needs=("qlearning",), rule=cost_rules.memory_size,
    words="At a fixed replay ratio, small and large memories both degrade Q-learning.",
)  # fmt: skip


def judge_q_learning(folder: Path) -> tuple[Claim, Verdict] | None:
    """Judge Appendix D by the study of Q-learning in `folder`, if it was run there; None otherwise."""
    try:
        found = json.loads((folder / "qlearning" / "orderings.json").read_text(encoding="utf-8"))
        orderings = {row["claim"]: row["verdict"] for row in found["orderings"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Q_LEARNING, cost_rules.memory_size(orderings, quick=bool(found.get("quick")))


def judge_claims(
    cells: Mapping[str, Sequence[Cell]], algorithms: Mapping[str, str], journal: Journal
) -> dict[str, tuple[Claim, Verdict]]:
    """Judge every claim whose experiments were run.

    Parameters
    ----------
    cells : mapping
        Name of an experiment -> its cells in this run.
    algorithms : mapping
        Name of an experiment -> whose results of its cells it shows.
    journal : Journal
        With those cells.
    """
    judged = {}
    for claim in CLAIMS:
        if all(name in cells for name in claim.needs):
            evidence = Evidence({name: tuple(cells[name]) for name in claim.needs}, dict(algorithms), journal)
            judged[claim.name] = (claim, claim.rule(evidence))
    return judged


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
    each_cell : list of CellAgreement
    verdicts : dict
        Name of a claim -> the claim and its verdict.
    """

    experiments: Sequence[Experiment]
    cells: dict[str, tuple[Cell, ...]]
    journal: Journal
    agreement: list[Agreement] = field(default_factory=list)
    each_cell: list[CellAgreement] = field(default_factory=list)
    verdicts: dict[str, tuple[Claim, Verdict]] = field(default_factory=dict)

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
        findings.each_cell.extend(compare_each_cell(group, mine, journal))
    whose = {experiment.name: experiment.whose for experiment in experiments}
    findings.verdicts.update(judge_claims(cells, whose, journal))
    if (appendix := judge_q_learning(journal.path.parent)) is not None:
        findings.verdicts[appendix[0].name] = appendix
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
    return Verdict(NEEDS_FULL, verdict.reason, verdict.rule, f"{full} {verdict.beside}".strip())


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
            name: {"words": claim.words, "paper": claim.paper, **asdict(verdict)}
            for name, (claim, verdict) in findings.verdicts.items()
        },
    }
