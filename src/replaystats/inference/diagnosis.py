"""Did replay help, does the interval hold, and what should be done: the diagnosis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.choice import Choice
from .._core.errors import require_extra
from .._core.shown import Shown
from .._core.thresholds import FAR, HEAVY_TAIL, IMMATERIAL, MAJORITY, NEGLIGIBLE, SMALL, SMALL_SHARE
from .._core.typing import FloatArray
from ..plans import ResamplingPlan
from .components import ReplayVariance
from .pivot import Interval
from .risk import RiskTable, is_least_squares, plug_in_bias, predicted_gain, replay_bias, risk_table
from .stability import Stability, conditions

# Layout: rows without an interval that are named.
MOST_ROWS = 3


@dataclass(frozen=True, slots=True)
class Condition:
    """A quantity that the paper's theorems let go to zero, at its present value."""

    name: str
    value: float
    meaning: str

    @property
    def met(self) -> bool:
        """Whether it is small."""
        return self.value <= SMALL

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
    if noise > SMALL:
        found = "not small: the choice of subsets adds noise; raise n_resamples"
    elif monte_carlo_share > SMALL:
        found = f"small, yet {monte_carlo_share:.0%} of the variance is noise from the choice of subsets: "
        found += "replicates are far from linear in the data"
    else:
        found = "small, so the choice of subsets adds little noise"
    name, value, theorem = ("k / n^(1/4)", k / n**0.25, 2) if plan.with_replacement else ("k / n", k / n, 1)
    small = f"small, as Theorem {theorem} asks"
    if value > SMALL:
        small = f"not small; Theorem {theorem} asks for it, the intervals do not"
    return Condition("n / (B k)", noise, found), Condition(name, value, small)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Diagnosis(Shown):
    """What the members say about the estimate; prints as a short report.

    What only a ratio of moments has (its matrix, subsets that cross singularity) is None for other members.

    Attributes
    ----------
    method : str
        How the estimate was made.
    plan : ResamplingPlan or None
        Of the members looked at; for the plug-in, a pilot of 256 half-samples. None where members are not
        made on random subsets.
    condition_number : float or None
        Of the moment matrix of all observations, rows and columns brought to one size.
    numerical_rank, n_basis : int or None
        Singular values of the same matrix above rounding level (8 q eps of the largest), out of q.
    crossing_share : float or None
        Share of subsets between which and the data the moment matrix becomes singular.
    smallest_eigenvalues : ndarray of shape (B,) or None
        Of the subsets' matrices relative to the expected one: 1 is safe, 0 is singular.
    separation : float or None
        How many standard errors the moment matrix of all data is away from a singular one: the t statistic
        of the first stage, for an instrumental variable. Below 4, normal intervals around means are rough.
    tail_index : float or None
        Of the replicates; below 2 they have no variance.
    variance_ratio : float or None
        Predicted variance of complete replay over that of the plug-in, summed over the functionals. None
        where subsets cross singularity: nothing predicts it there.
    error_ratio : float or None
        The same for the mean squared error, bias included; for ratios of moments. For kernel ridge, the
        prediction error of replay over that of the best single fit.
    plug_in_variance : ndarray of shape (m,) or (m, n_outputs), or None
        Of one fit on all observations: its jackknife, or for other members the delete-d jackknife from
        their spread, to which a fit on k observations stands for one on n.
    zeta_1k, zeta_kk : ndarray of shape (m,) or (m, n_outputs), or None
        Variance components of one member: of its projection on a single observation, and of all of it.
    bias : ndarray of shape (m,) or (m, n_outputs), or None
        Estimated bias of the estimate, per functional.
    monte_carlo_share : float
        Share of the variance that more subsets would remove.
    n_resamples_needed : int
        Subsets that bring that share to 1 %; 0 for the plug-in.
    conditions : tuple of Condition
        What the paper's theorems ask of n, k and B; empty for the plug-in.
    outside_share : float or None
        Share of the prediction points outside the data; None when they were not given.
    reasons : tuple of str
        Which rows have no interval that the data decide, and why; `interval_valid` says that there are none.
    warnings : tuple of str
        Why the members' average is unstable, where it is; intervals are those of the plug-in then.
    risks : RiskTable or None
        Estimated risks of plug-in, ridge, replay and replayed ridge, for ratios of moments; for kernel ridge
        on subsets, of one fit on all rows at its best penalty and of replay.
    recommendation : str
        "keep the plug-in", "replay", "replay with ridge", "add ridge", "add subsets", "take the median" or
        "collect data there".
    why : str
        One sentence.
    """

    method: str
    plan: ResamplingPlan | None
    condition_number: float | None = None
    numerical_rank: int | None = None
    n_basis: int | None = None
    crossing_share: float | None = None
    smallest_eigenvalues: FloatArray | None = None
    separation: float | None = None
    tail_index: float | None = None
    variance_ratio: float | None
    error_ratio: float | None = None
    plug_in_variance: FloatArray | None
    zeta_1k: FloatArray | None = None
    zeta_kk: FloatArray | None = None
    bias: FloatArray | None = None
    monte_carlo_share: float = 0.0
    n_resamples_needed: int = 0
    conditions: tuple[Condition, ...] = ()
    outside_share: float | None
    reasons: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    risks: RiskTable | None = None
    recommendation: str
    why: str

    @property
    def interval_valid(self) -> bool:
        """Whether every row that was asked for has an interval that the data decide."""
        return not self.reasons

    def to_frame(self) -> Any:
        """Return the facts as a pandas data frame with the columns fact and value."""
        pandas = require_extra("pandas", extra="io", purpose="A data frame")
        return pandas.DataFrame(_facts(self), columns=["fact", "value"])

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the table of facts."""
        return str(self.to_frame().to_html(index=False))

    def __str__(self) -> str:
        facts = _facts(self)
        width = max(len(name) for name, _ in facts)
        return "\n".join(["Diagnosis", *(f"  {name:<{width}}  {value}" for name, value in facts)])

    def __repr__(self) -> str:
        valid = "valid" if self.interval_valid else "open"
        return f"Diagnosis({self.recommendation}; interval {valid})"


def diagnose(
    stability: Stability,
    *,
    method: str,
    covariance: ReplayVariance | None,
    interval: Interval,
    X: FloatArray | None,
    outside_share: float | None,
) -> Diagnosis:
    """Diagnose an estimate (see `Estimate.diagnose`).

    Parameters
    ----------
    stability : Stability
        Of its replicates, or of a pilot for the plug-in.
    method : str
    covariance : ReplayVariance or None
        Of the estimate; None for the plug-in.
    interval : Interval
        At the rows of X: each of them says for itself whether the data decide it.
    X : ndarray of shape (m, q), or None
        Functionals that matter; None for the coefficients themselves.
    outside_share : float or None
        Share of the prediction points outside the data.
    """
    replicates = stability.replicates
    gain = predicted_gain(stability, X)
    parts = None if covariance is None else covariance.components(X)
    bias = plug_in_bias(stability, X) if parts is None else replay_bias(stability, X)
    risks = risk_table(stability, X)
    # Least squares have no poles: their risk decides.
    separation = math.inf if is_least_squares(replicates.moments) else stability.separation
    advice = recommend(stability, separation, risks, outside_share)
    condition, _, rank = conditions(replicates.moments.total()[0])
    return Diagnosis(
        method=method,
        plan=replicates.plan,
        condition_number=condition,
        numerical_rank=rank,
        n_basis=replicates.moments.n_basis,
        crossing_share=stability.crossing_share,
        smallest_eigenvalues=stability.smallest_eigenvalues(),
        separation=stability.separation,
        tail_index=stability.tail_index,
        variance_ratio=gain.variance_ratio,
        error_ratio=gain.error_ratio,
        plug_in_variance=gain.plug_in_variance,
        bias=bias,
        **_of_average(parts),
        outside_share=outside_share,
        reasons=_open_rows(interval),
        warnings=stability.warnings(method),
        risks=risks,
        recommendation=advice.value,
        why=advice.reason,
    )


def _of_average(parts: ReplayVariance | None) -> dict[str, Any]:
    """Return what the variance of an average tells, by the names of `Diagnosis`; None for the plug-in."""
    if parts is None:
        return {}
    return {
        "zeta_1k": parts.zeta_1k,
        "zeta_kk": parts.zeta_kk,
        "monte_carlo_share": parts.monte_carlo_share,
        "n_resamples_needed": parts.n_resamples_for(NEGLIGIBLE),
        "conditions": paper_conditions(parts.plan, parts.monte_carlo_share),
    }


def _open_rows(interval: Interval) -> tuple[str, ...]:
    """Return a sentence for each of the first rows that the data do not decide, and how many more."""
    rows = np.flatnonzero(np.ravel(interval.undecided))
    if rows.size == 0:
        return ()
    sentences, more = interval.sentences, rows.size - MOST_ROWS
    named = [f"row {row}: {sentences[row].rstrip('.')}" for row in rows[:MOST_ROWS]]
    return (*named, f"and {more} more rows") if more > 0 else tuple(named)


def diagnose_members(
    parts: ReplayVariance | None,
    *,
    method: str,
    reasons: tuple[str, ...],
    outside_share: float | None,
) -> Diagnosis:
    """Diagnose an average of members of which nothing is known but their answers.

    Parameters
    ----------
    parts : ReplayVariance or None
        Of the average at the points that matter; None where members are not made on random subsets.
    method : str
        How they were combined.
    reasons : tuple of str
        Why an interval would be wrong.
    outside_share : float or None
        Share of the prediction points outside the data.

    Notes
    -----
    The predicted variance ratio is sampling / delete_d, the share of the members' variance that is linear in
    the counts: averaging removes the rest. Like the variance of one fit on all data it takes fits on k
    observations for fits on n, scaled; bias, which grows as subsets shrink, is not in it.
    """
    ratio = None
    if parts is not None and parts.delete_d.sum() > 0 and parts.sampling.sum() > 0:
        ratio = float(parts.sampling.sum() / parts.delete_d.sum())
    share = 0.0 if parts is None else parts.monte_carlo_share
    advice = recommend_members(variance_ratio=ratio, monte_carlo_share=share, outside_share=outside_share)
    return Diagnosis(
        method=method,
        plan=None if parts is None else parts.plan,
        variance_ratio=ratio,
        plug_in_variance=None if parts is None else parts.delete_d,
        **_of_average(parts),
        outside_share=outside_share,
        reasons=reasons,
        recommendation=advice.value,
        why=advice.reason,
    )


# What to do, and the facts in words.

UNPREDICTED = "No gain from replay can be predicted here."


def recommend(
    stability: Stability, separation: float, risks: RiskTable, outside_share: float | None
) -> Choice:
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
    if stability.singular and len(risks.candidates) == 1:
        why = f"Averaging alone does not help: {stability.singular}. A penalty (or more data) has to choose."
        return Choice("replay with ridge", why)
    unstable = stability.crossing_share + stability.failed_share
    if unstable > SMALL_SHARE:
        why = f"{unstable:.1%} of the subsets have a singular matrix or lie beyond one. {risks.why}"
        return Choice("replay with ridge", why)
    if separation < FAR:
        why = (
            f"The moment matrix is only {separation:.1f} standard errors from a singular one (a weak "
            "instrument, for example): estimates are biased and normal intervals rough."
        )
        return Choice("replay with ridge", why)
    if risks.best is not risks.candidates[0]:
        return Choice(risks.best.action, risks.why)
    if unstable > 0 or stability.tail_index < HEAVY_TAIL:
        why = "A few subsets have nearly singular matrices: their mean is unstable, their median is not."
        return Choice("take the median", why)
    return Choice("keep the plug-in", risks.why)


def _beyond_the_data(outside_share: float | None) -> Choice | None:
    if outside_share is None or outside_share <= SMALL:
        return None
    why = f"{outside_share:.0%} of the prediction points lie where there are no data."
    return Choice("collect data there", why)


def recommend_members(
    *, variance_ratio: float | None, monte_carlo_share: float, outside_share: float | None
) -> Choice:
    """Choose what to do about members of which only the answers are known."""
    if beyond := _beyond_the_data(outside_share):
        return beyond
    if monte_carlo_share > MAJORITY:
        why = f"Monte-Carlo noise is {monte_carlo_share:.0%} of the variance: too much to compare estimates."
        return Choice("add subsets", why)
    if variance_ratio is None:
        return Choice("keep the plug-in", UNPREDICTED)
    ratio = f"Replay is predicted to have {variance_ratio:.2f} times the variance of one fit on all rows"
    if variance_ratio < 1 - IMMATERIAL:
        return Choice("replay", f"{ratio}; the bias of smaller subsets is not included.")
    return Choice("keep the plug-in", f"{ratio}: no significant difference.")


def _facts(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Return the facts as (name, sentence) pairs, in the order they are read."""
    d = diagnosis
    facts = [("estimate", _origin(d)), *_matrix_facts(d), ("replay against plug-in", _gain(d))]
    if d.risks is not None:
        facts += [("risk / plug-in's", str(one)) for one in d.risks.candidates[1:]]
    if d.bias is not None:
        facts.append(("bias", f"root mean square {math.sqrt(float(np.mean(np.square(d.bias)))):.2g}"))
    if d.plug_in_variance is not None and d.zeta_1k is not None and d.zeta_kk is not None:
        plain, one, first = (v.mean() for v in (d.plug_in_variance, d.zeta_kk, d.zeta_1k))
        of_one = f"one subset's answer {one:.2g} (zeta_kk), by one observation {first:.2g} (zeta_1k)"
        facts.append(("variances", f"one fit on all data {plain:.2g}; {of_one}"))
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
