"""Advice of a diagnosis, and its display as text, table and HTML."""

from __future__ import annotations

import html as html_module
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._core.thresholds import FAR, HEAVY_TAIL, IMMATERIAL, MAJORITY, SMALL, SMALL_SHARE
from ..plans import ResamplingPlan
from .risk import RiskTable

if TYPE_CHECKING:
    from .diagnosis import Diagnosis

UNPREDICTED = "No gain from replay can be predicted here."


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """An action and the sentence that justifies it."""

    action: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A quantity that the paper's theorems let go to zero, at its present value."""

    name: str
    value: float
    met: bool
    meaning: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.3g}: {self.meaning}"


def paper_conditions(plan: ResamplingPlan, monte_carlo_share: float = 0.0) -> tuple[Condition, ...]:
    """Evaluate n / (B k) -> 0 and, for U, k / n -> 0 (Theorem 1) or, for V, k / n^(1/4) -> 0 (Theorem 2).

    n / (B k) bounds the noise of replicates that are linear in the data; where they are not, the measured
    share of Monte-Carlo noise in the variance is reported. n^(1/4) is 4.0 at n = 250 and 11 at n = 16,000.

    Examples
    --------
    >>> from replaystats.plans import make_plan
    >>> for condition in paper_conditions(make_plan(1000, n_resamples=500, random_state=0)):
    ...     print(condition)
    n / (B k) = 0.004: small, so the choice of subsets adds little noise
    k / n = 0.5: not small; Theorem 1 asks for it, the intervals do not
    """
    n, k = plan.n_observations, plan.subsample_size
    noise = n / (plan.n_resamples * k)
    name, value, theorem = (
        ("k / n", k / n, 1) if not plan.with_replacement else ("k / n^(1/4)", k / n**0.25, 2)
    )
    small = f"small, as Theorem {theorem} asks"
    large = f"not small; Theorem {theorem} asks for it, the intervals do not"
    return (
        Condition(
            name="n / (B k)",
            value=noise,
            met=noise <= SMALL,
            meaning=_noise_meaning(noise, monte_carlo_share),
        ),
        Condition(
            name=name,
            value=value,
            met=value <= SMALL,
            meaning=small if value <= SMALL else large,
        ),
    )


def _noise_meaning(noise: float, monte_carlo_share: float) -> str:
    if noise > SMALL:
        return "not small: the choice of subsets adds noise; raise n_resamples"
    if monte_carlo_share > SMALL:
        return (
            f"small, yet {monte_carlo_share:.0%} of the variance is noise from the choice of subsets: "
            "replicates are far from linear in the data"
        )
    return "small, so the choice of subsets adds little noise"


def recommend(
    *,
    singular: str,
    crossing_share: float,
    failed_share: float,
    tail_index: float,
    separation: float,
    risks: RiskTable,
    outside_share: float | None,
) -> Advice:
    """Choose what to do: what makes every estimate useless first, then the least risk.

    1. Points outside the data: collect data there.
    2. A singular matrix of which no risk is known, more than 5 % of the subsets beyond one, or a matrix of
       all data close to one, where the plug-in has no moments and no risk can be estimated: replay with
       ridge, which smooths the choice of the penalty (Buhlmann and Yu 2002); solver="recommended" does it.
    3. The candidate of least estimated risk, where its gain is significant and at least 3 %.
    4. Without such a gain: the median where a few subsets are unstable; else the plug-in.
    """
    if beyond := _beyond_the_data(outside_share):
        return beyond
    if singular and len(risks.candidates) == 1:
        why = f"Averaging alone does not help: {singular}. A penalty (or more data) has to choose."
        return Advice(action="replay with ridge", why=why)
    unstable = crossing_share + failed_share
    if unstable > SMALL_SHARE:
        why = f"{unstable:.1%} of the subsets have a singular matrix or lie beyond one. {risks.why}"
        return Advice(action="replay with ridge", why=why)
    if separation < FAR:
        why = (
            f"The moment matrix is only {separation:.1f} standard errors from a singular one (a weak "
            "instrument, for example): estimates are biased and normal intervals rough."
        )
        return Advice(action="replay with ridge", why=why)
    if risks.best is not risks.candidates[0]:
        return Advice(action=risks.best.action, why=risks.why)
    if unstable > 0 or tail_index < HEAVY_TAIL:
        why = "A few subsets have nearly singular matrices: their mean is unstable, their median is not."
        return Advice(action="take the median", why=why)
    return Advice(action="keep the plug-in", why=risks.why)


def _beyond_the_data(outside_share: float | None) -> Advice | None:
    if outside_share is None or outside_share <= SMALL:
        return None
    why = f"{outside_share:.0%} of the prediction points lie where there are no data."
    return Advice(action="collect data there", why=why)


def recommend_members(
    *, variance_ratio: float | None, monte_carlo_share: float, outside_share: float | None
) -> Advice:
    """Choose what to do about members of which only the answers are known."""
    if beyond := _beyond_the_data(outside_share):
        return beyond
    if monte_carlo_share > MAJORITY:
        why = f"Monte-Carlo noise is {monte_carlo_share:.0%} of the variance: too much to compare estimates."
        return Advice(action="add subsets", why=why)
    if variance_ratio is None:
        return Advice(action="keep the plug-in", why=UNPREDICTED)
    ratio = f"Replay is predicted to have {variance_ratio:.2f} times the variance of one fit on all rows"
    if variance_ratio < 1 - IMMATERIAL:
        return Advice(action="replay", why=f"{ratio}; the bias of smaller subsets is not included.")
    return Advice(action="keep the plug-in", why=f"{ratio}: no significant difference.")


def rows(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Return the facts as (name, sentence) pairs, in the order they are read."""
    d = diagnosis
    facts = [("estimate", _origin(d)), *_matrix_facts(d), ("replay against plug-in", _gain(d))]
    if d.risks is not None:
        facts += [("risk / plug-in's", str(one)) for one in d.risks.candidates[1:]]
    if d.bias is not None:
        facts.append(("bias", f"root mean square {math.sqrt(float(np.mean(np.square(d.bias)))):.2g}"))
    if d.plug_in_variance is not None and d.zeta_1k is not None and d.zeta_kk is not None:
        facts.append(
            (
                "variances",
                f"one fit on all data {d.plug_in_variance.mean():.2g}; one subset's answer "
                f"{d.zeta_kk.mean():.2g} (zeta_kk), by one observation {d.zeta_1k.mean():.2g} (zeta_1k)",
            )
        )
    if d.method != "plug_in" and d.plan is not None:
        noise = f"{d.monte_carlo_share:.1%} of the variance; {d.n_resamples_needed} subsets bring it to 1 %"
        facts.append(("Monte-Carlo noise", noise))
    facts += [("paper's condition", str(condition)) for condition in d.conditions]
    if d.outside_share is not None:
        facts.append(("prediction points", f"{d.outside_share:.0%} lie outside the data"))
    interval = "available" if d.interval_valid else "not determined by the data: " + "; ".join(d.reasons)
    if d.warnings:
        facts.append(("combine", "unstable, so intervals are those of the plug-in: " + "; ".join(d.warnings)))
    return [*facts, ("interval", interval), ("recommendation", f"{d.recommendation}. {d.why}")]


def text(diagnosis: Diagnosis) -> str:
    """Return the report as aligned lines."""
    facts = rows(diagnosis)
    width = max(len(name) for name, _ in facts)
    return "\n".join(["Diagnosis", *(f"  {name:<{width}}  {value}" for name, value in facts)])


def html(diagnosis: Diagnosis) -> str:
    """Return the report as an HTML table for notebooks."""
    cells = "".join(
        f'<tr><th style="text-align:left">{html_module.escape(name)}</th>'
        f'<td style="text-align:left">{html_module.escape(value)}</td></tr>'
        for name, value in rows(diagnosis)
    )
    return f"<table><caption>Diagnosis</caption><tbody>{cells}</tbody></table>"


def _matrix_facts(d: Diagnosis) -> list[tuple[str, str]]:
    """Return what only a ratio of moments has."""
    if d.condition_number is None or d.crossing_share is None:
        return []
    matrix = f"condition number {d.condition_number:.2g}, rank {d.numerical_rank} of {d.n_basis}"
    subsets = (
        f"{d.crossing_share:.2%} cross singularity; the matrix is {_number(d.separation)} standard errors "
        f"from it; tail index {_number(d.tail_index)}"
    )
    return [("moment matrix", matrix), ("subsets", subsets)]


def _origin(d: Diagnosis) -> str:
    plan = d.plan
    if plan is None:
        return f"{d.method} of members that are not made on random subsets"
    size = f"{plan.n_resamples} subsets of k={plan.subsample_size} of n={plan.n_observations}"
    return (
        f"plug-in (pilot of {size})" if d.method == "plug_in" else f"{d.method} of {size}, {plan.statistic}"
    )


def _gain(d: Diagnosis) -> str:
    if d.variance_ratio is None:
        return "not predictable"
    if d.error_ratio is None:
        return f"variance x {d.variance_ratio:.3f} (predicted)"
    return f"variance x {d.variance_ratio:.3f}, mean squared error x {d.error_ratio:.3f} (predicted)"


def _number(value: float | None) -> str:
    value = math.nan if value is None else value
    return f"{value:.1f}" if math.isfinite(value) else ("unknown" if math.isnan(value) else "infinite")
