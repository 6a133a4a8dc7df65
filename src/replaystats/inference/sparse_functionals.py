"""An interval for every question to a sparse system, decided row by row.

As for dense systems (`questions`), with what a table of thousands of states allows: noise from influence
values of units, with leave-one-out residuals of every feature, and what was never seen bounded by the range
of values. Nothing of size q x q is ever formed.
"""

from __future__ import annotations

import numpy as np

from .._core.typing import BoolArray, FloatArray
from .._core.validation import check_real
from ..engine.sparse import SparseReplicates
from .functionals import InferenceContext
from .intervals import Interval, Parts
from .noise import noise_of
from .partial_identification import NEGLIGIBLE


def sparse_shifts(members: SparseReplicates, X: FloatArray) -> FloatArray:
    """Return what leaving each unit out takes from every answer X theta, shape (n, m)."""
    return _shifts(members, members.system.duals(X))


def _shifts(members: SparseReplicates, dual: FloatArray) -> FloatArray:
    moments, system, n = members.moments, members.system, len(members.moments)
    # What a unit knows alone cannot judge it: leave-one-out residuals, feature by feature.
    total = moments.visits.sum(axis=0)
    rest = np.maximum(total - moments.visits, 1.0)
    residuals = moments.residuals(system.theta) * (np.where(total > 0, total, 1.0) / rest)
    return np.asarray(residuals[:, system.seen] @ dual) * (n / (n - 1))


def sparse_functional_intervals(
    members: SparseReplicates,
    X: FloatArray,
    centre: FloatArray,
    *,
    monte_carlo: FloatArray | float = 0.0,
    setting: InferenceContext,
    confidence_level: float = 0.95,
) -> Interval:
    """Return an interval for every row of X theta.

    Parameters
    ----------
    members : SparseReplicates
    X : ndarray of shape (m, q)
        Questions.
    centre : ndarray of shape (m,)
        The estimate's answers.
    monte_carlo : ndarray of shape (m,) or float
        Their variance because members are finitely many.
    setting : InferenceContext
        What is known besides the moments.
    confidence_level : float in (0, 1)

    Returns
    -------
    Interval
        With `parts`; infinite where a question reaches what was never seen and nothing bounds it.
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    system = members.system
    dual = system.duals(X)
    noise = noise_of(_shifts(members, dual), sequential=setting.sequential)
    noise = noise.with_variance(noise.variance + monte_carlo)
    below, above = noise.critical_values(level)
    error = np.sqrt(noise.variance)
    missing = X[:, system.unseen] - (system.to_unseen.T @ dual).T
    missing[np.abs(missing) < NEGLIGIBLE] = 0.0
    low, high, how, text = _unseen(missing, system.undetermined(X, dual), setting)
    ends = [centre + low - above * error, centre + high - below * error]
    limits = setting.value_range
    if limits is not None:
        ends = [np.clip(end, limits.low, limits.high) for end in ends]
    width = 1.0 if limits is None else limits.width or 1.0
    middle = np.where(np.isfinite(high), low, 0.0) / 2 + np.where(np.isfinite(high), high, 0.0) / 2
    parts = Parts(
        centre=centre + middle,
        standard_error=error,
        degrees_of_freedom=noise.degrees,
        bias=(high - low) / 2,
        undetermined_share=np.minimum((high - low) / width, 1.0),
        effective_units=noise.effective,
        how=how,
        value_range=text,
        covers=setting.covers,
    )
    return Interval(ends[0], ends[1], parts)


def _unseen(
    missing: FloatArray, undetermined: BoolArray, setting: InferenceContext
) -> tuple[FloatArray, FloatArray, np.ndarray, str]:
    """Return what was never seen may add, shape (m,) each, and how it was bounded."""
    open_ended = missing.any(axis=1) | undetermined
    how = np.where(open_ended, "unseen", "noise").astype("<U12")
    limits, infinite = setting.value_range, np.where(open_ended, np.inf, 0.0)
    if limits is None:
        return -infinite, infinite, np.where(open_ended, "withheld", how), ""
    if limits.points is not None or undetermined.any():  # coefficients are no values: cut at the range
        return -infinite, infinite, np.where(open_ended, "range", how), str(limits)
    return *limits.extremes(missing), how, str(limits)
