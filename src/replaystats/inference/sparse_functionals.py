"""The record of every question to a sparse system, decided row by row.

As for dense systems (`functionals`), with what a table of thousands of states allows: noise from influence
values of units, with leave-one-out residuals of every feature, and what was never seen bounded by the range
of values. Nothing of size q x q is ever formed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._core.typing import FloatArray
from ..engine.sparse import SparseReplicates
from .functionals import InferenceContext
from .noise import noise_of
from .partial_identification import NEGLIGIBLE
from .pivot import Pivot


def sparse_shifts(members: SparseReplicates, X: FloatArray) -> FloatArray:
    """Return what leaving each unit out takes from every answer X theta, shape (n, m)."""
    return _shifts(members, members.system.duals(X))


def _shifts(members: SparseReplicates, dual: FloatArray) -> FloatArray:
    moments, system, n = members.moments, members.system, len(members.moments)
    # A unit that alone visited a feature fits it: leave-one-out residuals, feature by feature.
    total = moments.visits.sum(axis=0)
    rest = np.maximum(total - moments.visits, 1.0)
    residuals = moments.residuals(system.theta) * (np.where(total > 0, total, 1.0) / rest)
    return np.asarray(residuals[:, system.seen] @ dual) * (n / (n - 1))


def sparse_functional_pivot(
    members: SparseReplicates,
    X: FloatArray,
    centre: FloatArray,
    *,
    monte_carlo: FloatArray | float = 0.0,
    setting: InferenceContext,
) -> Pivot:
    """Return the record of every row of X theta.

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

    Returns
    -------
    Pivot
        Without an interval where a question reaches what was never seen and nothing bounds it.
    """
    system, limits = members.system, setting.value_range
    dual = system.duals(X)
    noise = noise_of(_shifts(members, dual), sequential=setting.sequential).symmetric()
    noise = noise.with_variance(noise.variance + monte_carlo)
    found = replace(noise.pivot(centre, np.abs(X) @ np.abs(system.theta)), covers=setting.covers)
    missing = X[:, system.unseen] - (system.to_unseen.T @ dual).T
    missing[np.abs(missing) < NEGLIGIBLE] = 0.0
    undetermined = system.undetermined(X, dual)
    open_ended = missing.any(axis=1) | undetermined
    if limits is None or (limits.source != "given" and limits.width == 0):
        return found.without_interval(open_ended, "open")
    known = limits.source == "given" or ~X[:, system.unseen].any(axis=1)
    low, high = (limits.low, limits.high) if limits.points is not None else limits.extremes(X)
    low, high = np.where(known, low, -np.inf), np.where(known, high, np.inf)
    found = replace(found, low=low, high=high, value_range=str(limits))
    if limits.points is not None or undetermined.any():  # coefficients are no values: cut at the range
        return found.without_interval(open_ended, "open")
    low, high = limits.extremes(missing)
    how = np.where(open_ended, "unseen", "noise").astype("<U12")
    found = replace(found, estimate=centre + (low + high) / 2, bias_bound=(high - low) / 2, how=how)
    return found.without_interval(~np.asarray(known) & open_ended, "open")
