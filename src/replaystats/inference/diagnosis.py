"""Did replay help, does the interval hold, and what should be done: the diagnosis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.linalg import ROUNDING, scaled_singular_values
from .._core.typing import ArrayLike, FloatArray
from ..plans import ResamplingPlan
from . import diagnosis_view
from .advice import Condition, paper_conditions, recommend
from .components import ReplayVariance
from .crossing import smallest_eigenvalues
from .measures import MONTE_CARLO_TARGET, plug_in_bias, predicted_gain, replay_bias
from .support import outside_support
from .validity import Validity

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Diagnosis:
    """What the replicates say about the estimate; prints as a short report.

    Attributes
    ----------
    method : str
        How the estimate was made.
    plan : ResamplingPlan
        Of the replicates looked at; for the plug-in, a pilot of 256 half-samples.
    condition_number : float
        Of the moment matrix of all observations, rows and columns brought to one size.
    numerical_rank, n_basis : int
        Singular values of the same matrix above rounding level (8 q eps of the largest), out of q.
    crossing_share : float
        Share of subsets between which and the data the moment matrix becomes singular.
    smallest_eigenvalues : ndarray of shape (B,)
        Of the subsets' matrices relative to the expected one: 1 is safe, 0 is singular.
    separation : float
        How many standard errors the moment matrix of all data is away from a singular one: the t statistic
        of the first stage, for an instrumental variable. Below 4, normal intervals around means are rough.
    tail_index : float
        Of the replicates; below 2 they have no variance.
    variance_ratio : float or None
        Predicted variance of complete replay over that of the plug-in, summed over the functionals. None
        where subsets cross singularity: nothing predicts it there.
    error_ratio : float or None
        The same for the mean squared error, bias included.
    bias : ndarray of shape (m,) or (m, n_outputs)
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
    reasons : tuple of str
        Why not.
    recommendation : str
        "keep the plug-in", "replay", "take the median", "add ridge" or "collect data there".
    why : str
        One sentence.
    """

    method: str
    plan: ResamplingPlan
    condition_number: float
    numerical_rank: int
    n_basis: int
    crossing_share: float
    smallest_eigenvalues: FloatArray
    separation: float
    tail_index: float
    variance_ratio: float | None
    error_ratio: float | None
    bias: FloatArray
    monte_carlo_share: float
    n_resamples_needed: int
    conditions: tuple[Condition, ...]
    outside_share: float | None
    interval_valid: bool
    reasons: tuple[str, ...]
    recommendation: str
    why: str

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how far the subsets stay from singularity; return the axes."""
        return diagnosis_view.plot(self, ax)

    def __str__(self) -> str:
        return diagnosis_view.text(self)

    def __rich__(self) -> Any:
        return diagnosis_view.rich_table(self)

    def _repr_html_(self) -> str:
        return diagnosis_view.html(self)

    def __repr__(self) -> str:
        valid = "valid" if self.interval_valid else "not normal"
        return f"Diagnosis({self.recommendation}; interval {valid})"


def diagnose(
    validity: Validity,
    *,
    method: str,
    covariance: ReplayVariance | None,
    X: FloatArray | None = None,
    points: ArrayLike | None = None,
    observed: ArrayLike | None = None,
) -> Diagnosis:
    """Diagnose an estimate (see `Estimate.diagnose`).

    Parameters
    ----------
    validity : Validity
        Of its replicates, or of a pilot for the plug-in.
    method : str
    covariance : ReplayVariance or None
        Of the estimate; None for the plug-in.
    X : ndarray of shape (m, q), optional
        Functionals that matter; default the coefficients themselves.
    points, observed : array-like, optional
        Prediction points (m, d) and data (N, d); both or neither.
    """
    replicates = validity.replicates
    singular_values = scaled_singular_values(replicates.moments.total()[0])
    gain = predicted_gain(validity, X)
    if covariance is None:
        bias, (share, needed) = plug_in_bias(validity, X), (0.0, 0)
    else:
        bias, parts = replay_bias(validity, X), covariance.components(X)
        share, needed = parts.monte_carlo_share, parts.n_resamples_for(MONTE_CARLO_TARGET)
    eigenvalues = np.full(len(replicates), np.nan)
    if validity.linear is not None:
        eigenvalues = smallest_eigenvalues(replicates, validity.linear)
    reasons = validity.doubts(method)
    outside = None
    if points is not None and observed is not None:
        outside = float(outside_support(points, observed).mean())
    advice = recommend(
        singular=validity.singular,
        crossing_share=validity.crossing_share,
        failed_share=float(replicates.failed.mean()),
        tail_index=validity.tail_index,
        separation=validity.separation,
        error_ratio=None if gain is None else gain.error_ratio,
        variance_ratio=None if gain is None else gain.variance_ratio,
        outside_share=outside,
    )
    largest, smallest = singular_values[[0, -1]]
    return Diagnosis(
        method=method,
        plan=replicates.plan,
        condition_number=float(largest / smallest) if smallest > 0 else math.inf,
        numerical_rank=int(np.count_nonzero(singular_values > ROUNDING * len(singular_values) * largest)),
        n_basis=replicates.moments.n_basis,
        crossing_share=validity.crossing_share,
        smallest_eigenvalues=eigenvalues,
        separation=validity.separation,
        tail_index=validity.tail_index,
        variance_ratio=None if gain is None else gain.variance_ratio,
        error_ratio=None if gain is None else gain.error_ratio,
        bias=bias,
        monte_carlo_share=share,
        n_resamples_needed=needed,
        conditions=() if covariance is None else paper_conditions(replicates.plan, share),
        outside_share=outside,
        interval_valid=not reasons,
        reasons=reasons,
        recommendation=advice.action,
        why=advice.why,
    )
