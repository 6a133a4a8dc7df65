"""Did replay help, does the interval hold, and what should be done: the diagnosis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import require_extra
from .._core.linalg import ROUNDING, scaled_singular_values
from .._core.shown import Shown
from .._core.thresholds import NEGLIGIBLE
from .._core.typing import ArrayLike, FloatArray
from ..plans import ResamplingPlan
from . import diagnosis_view
from .components import ReplayVariance
from .diagnosis_view import Condition, paper_conditions, recommend, recommend_members
from .model_checks import outside_support
from .pivot import Interval
from .risk import RiskTable, is_least_squares, plug_in_bias, predicted_gain, replay_bias, risk_table
from .stability import Stability, smallest_eigenvalues

# Layout: rows without an interval that are named.
MOST_ROWS = 3


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
    interval_valid : bool
        Whether every row that was asked for has an interval that the data decide.
    reasons : tuple of str
        Which rows have none, and why.
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
    error_ratio: float | None
    plug_in_variance: FloatArray | None
    zeta_1k: FloatArray | None
    zeta_kk: FloatArray | None
    bias: FloatArray | None = None
    monte_carlo_share: float
    n_resamples_needed: int
    conditions: tuple[Condition, ...]
    outside_share: float | None
    interval_valid: bool
    reasons: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    risks: RiskTable | None = None
    recommendation: str
    why: str

    def to_frame(self) -> Any:
        """Return the facts as a pandas data frame with the columns fact and value."""
        pandas = require_extra("pandas", extra="io", purpose="A data frame")
        return pandas.DataFrame(diagnosis_view.rows(self), columns=["fact", "value"])

    def __str__(self) -> str:
        return diagnosis_view.text(self)

    def _repr_html_(self) -> str:
        return diagnosis_view.html(self)

    def __repr__(self) -> str:
        valid = "valid" if self.interval_valid else "open"
        return f"Diagnosis({self.recommendation}; interval {valid})"


def diagnose(
    stability: Stability,
    *,
    method: str,
    covariance: ReplayVariance | None,
    interval: Interval,
    X: FloatArray | None = None,
    points: ArrayLike | None = None,
    observed: ArrayLike | None = None,
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
    X : ndarray of shape (m, q), optional
        Functionals that matter; default the coefficients themselves.
    points, observed : array-like, optional
        Prediction points (m, d) and data (N, d); both or neither.
    """
    replicates = stability.replicates
    gain = predicted_gain(stability, X)
    parts = None if covariance is None else covariance.components(X)
    bias = plug_in_bias(stability, X) if parts is None else replay_bias(stability, X)
    eigenvalues = np.full(len(replicates), np.nan)
    if stability.linear is not None:
        eigenvalues = smallest_eigenvalues(replicates, stability.linear)
    reasons = _open_rows(interval)
    outside = _outside_share(points, observed)
    risks = risk_table(stability, X)
    advice = recommend(
        singular=stability.singular,
        crossing_share=stability.crossing_share,
        failed_share=float(replicates.failed.mean()),
        tail_index=stability.tail_index,
        # Least squares have no poles: their risk decides.
        separation=math.inf if is_least_squares(replicates.moments) else stability.separation,
        risks=risks,
        outside_share=outside,
    )
    condition, rank = _condition_and_rank(replicates.moments.total()[0])
    return Diagnosis(
        method=method,
        plan=replicates.plan,
        condition_number=condition,
        numerical_rank=rank,
        n_basis=replicates.moments.n_basis,
        crossing_share=stability.crossing_share,
        smallest_eigenvalues=eigenvalues,
        separation=stability.separation,
        tail_index=stability.tail_index,
        variance_ratio=gain.variance_ratio,
        error_ratio=gain.error_ratio,
        plug_in_variance=gain.plug_in_variance,
        bias=bias,
        **_of_average(parts),
        outside_share=outside,
        interval_valid=not reasons,
        reasons=reasons,
        warnings=stability.warnings(method),
        risks=risks,
        recommendation=advice.action,
        why=advice.why,
    )


def _condition_and_rank(A: FloatArray) -> tuple[float, int]:
    """Return the condition number and the rank of a matrix, its rows and columns brought to one size."""
    singular_values = scaled_singular_values(A)
    largest, smallest = singular_values[[0, -1]]
    rank = int(np.count_nonzero(singular_values > ROUNDING * len(singular_values) * largest))
    return float(largest / smallest) if smallest > 0 else math.inf, rank


def _of_average(parts: ReplayVariance | None) -> dict[str, Any]:
    """Return what the variance of an average tells, by the names of `Diagnosis`; None for the plug-in."""
    if parts is None:
        unknown = {"zeta_1k": None, "zeta_kk": None}
        return {**unknown, "monte_carlo_share": 0.0, "n_resamples_needed": 0, "conditions": ()}
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
    points: ArrayLike | None = None,
    observed: ArrayLike | None = None,
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
    points, observed : array-like, optional
        Prediction points (m, d) and data (N, d); both or neither.

    Notes
    -----
    The predicted variance ratio is sampling / delete_d, the share of the members' variance that is linear in
    the counts: averaging removes the rest. Like the variance of one fit on all data it takes fits on k
    observations for fits on n, scaled; bias, which grows as subsets shrink, is not in it.
    """
    outside = _outside_share(points, observed)
    ratio = None
    if parts is not None and parts.delete_d.sum() > 0 and parts.sampling.sum() > 0:
        ratio = float(parts.sampling.sum() / parts.delete_d.sum())
    share = 0.0 if parts is None else parts.monte_carlo_share
    advice = recommend_members(variance_ratio=ratio, monte_carlo_share=share, outside_share=outside)
    return Diagnosis(
        method=method,
        plan=None if parts is None else parts.plan,
        variance_ratio=ratio,
        error_ratio=None,
        plug_in_variance=None if parts is None else parts.delete_d,
        **_of_average(parts),
        outside_share=outside,
        interval_valid=not reasons,
        reasons=reasons,
        recommendation=advice.action,
        why=advice.why,
    )


def _outside_share(points: ArrayLike | None, observed: ArrayLike | None) -> float | None:
    if points is None or observed is None:
        return None
    return float(outside_support(points, observed).mean())
