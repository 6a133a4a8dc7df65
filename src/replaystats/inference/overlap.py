"""The infinitesimal jackknife from overlaps of subsets: for many points, on any device.

sum_i (W^T D)_i^2 = D^T (W W^T) D, and W W^T counts the observations that two subsets share: a B x B matrix
that does not depend on the points. It replaces n x m numbers by B x B, which pays where points are many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from .._core.arrays import like
from .._core.capabilities import LIBRARIES, takes_arrays_of
from .._core.errors import must_be
from .._core.typing import FloatArray
from ..plans import ResamplingPlan


def subset_overlaps(plan: ResamplingPlan) -> FloatArray:
    """Return W W^T: how many observations (times their counts) every two subsets share, shape (B, B).

    Examples
    --------
    >>> from replaystats.plans import plan_from_indices
    >>> subset_overlaps(plan_from_indices([[0, 1], [1, 2], [2, 2]], 3))
    array([[2., 1., 0.],
           [1., 2., 2.],
           [0., 2., 4.]])
    """
    total = np.zeros((plan.n_resamples, plan.n_resamples))
    for block in range(len(plan.row_blocks)):
        counts = sparse.vstack([plan.draw(tile, block).sparse_counts() for tile in range(plan.n_tiles)])
        counts.sum_duplicates()
        total += (counts @ counts.T).toarray()
    return total


@takes_arrays_of(*LIBRARIES, where="device of the predictions; the overlaps of subsets on the host")
def overlap_jackknife(members: Any, plan: ResamplingPlan, overlaps: FloatArray | None = None) -> Any:
    """Return the variance of the mean over members, Monte-Carlo part included, shape (m,).

    Parameters
    ----------
    members : array of shape (B, m)
        Predictions of every member, of any array library.
    plan : ResamplingPlan
        Independent subsets of equal probability, without or with replacement.
    overlaps : ndarray of shape (B, B), optional
        From `subset_overlaps`, to use again.

    Notes
    -----
    The same numbers as `infinitesimal_jackknife`, with the sampling part not below 0.
    """
    special = (plan.subset_weights, plan.subset_groups, plan.observation_weights)
    if any(part is not None for part in special):
        rule = "one of independent subsets with equal probabilities"
        raise ValueError(must_be("plan", rule, repr(plan), "Use infinitesimal_jackknife."))
    n, k, B = plan.n_observations, plan.subsample_size, plan.n_resamples
    xp = array_namespace(members)
    overlaps = subset_overlaps(plan) if overlaps is None else overlaps
    D = members - xp.mean(members, axis=0)
    spread = xp.sum(D * D, axis=0) / (B - 1)
    raw = xp.sum(D * (like(overlaps, members) @ D), axis=0) / (B - 1) ** 2
    if plan.with_replacement:
        factor, count_variance = n / (n - 1), k * (1 - 1 / n)
    else:
        factor, count_variance = n * (n - 1) / (n - k) ** 2, k * (1 - k / n)
    sampling = factor * (raw - count_variance * spread / (B - 1))
    return xp.clip(sampling, min=0.0) + spread / B
