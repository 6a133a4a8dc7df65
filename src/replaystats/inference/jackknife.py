"""Infinitesimal jackknife: the variance of an average over subsets, from the members and the plan alone.

With W the counts (B x n), P the predictions of the members (B x m) and D = P - mean:

    C = W^T D / (B - 1)            covariance of an observation's count and the prediction, (n x m)
    v = colsum(D^2) / (B - 1)      variance of one member

    U   raw = n (n - 1) / (n - k)^2 colsum(C^2)      corrected = raw - k (n - 1) / (n - k) v / (B - 1)
    V   raw = n / (n - 1) colsum(C^2)                corrected = raw - k v / (B - 1)

The correction takes off what Monte-Carlo noise in C adds; v / B is the Monte-Carlo variance of the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, BoolArray, FloatArray
from .._core.validation import check_array, check_length
from ..plans import ResamplingPlan
from ..plans.blocks import BlockPlan
from ..plans.given import CompletePlan, PartitionPlan
from .counts import count_products
from .designs import group_slopes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JackknifeVariance:
    """Variance of the average prediction at m points; every array has shape (m,).

    Attributes
    ----------
    variance : ndarray
        What an interval should use: ``max(corrected, 0) + monte_carlo_variance``. The corrected value can
        fall below zero when B is small for n; it is then set to zero, so that Monte-Carlo noise remains.
    corrected : ndarray
        Variance of the average over all possible subsets, Monte-Carlo bias removed; may be negative.
    raw : ndarray
        The same before the correction: far too large unless B is much larger than n.
    monte_carlo_variance : ndarray
        Variance that comes from using B subsets instead of all.
    delete_d : ndarray
        The delete-d jackknife (U) or rescaled bootstrap (V) from the variance of one member; an upper bound
        that is right when the estimator is nearly linear.
    member_variance : ndarray
        v, the variance of one member given the data.
    """

    variance: FloatArray
    corrected: FloatArray
    raw: FloatArray
    monte_carlo_variance: FloatArray
    delete_d: FloatArray
    member_variance: FloatArray

    def __repr__(self) -> str:
        error = np.sqrt(self.variance)
        return (
            f"JackknifeVariance({error.size} points, standard errors {error.min():.3g} to {error.max():.3g})"
        )


def infinitesimal_jackknife(
    member_predictions: ArrayLike, plan: ResamplingPlan, *, failed: BoolArray | None = None
) -> JackknifeVariance:
    """Estimate the variance of the average of the members.

    Parameters
    ----------
    member_predictions : array-like of shape (B, m)
        Prediction of every subset at m points.
    plan : ResamplingPlan
        The subsets they were fitted on.
    failed : ndarray of bool, shape (B,), optional
        Members to leave out.

    Returns
    -------
    JackknifeVariance

    Notes
    -----
    Costs O(B k m) to O(B n m); W is drawn again a tile of 256 subsets by 16384 observations at a time, so
    memory is O(16384 m). Complete plans have no Monte-Carlo part: for U the result is then the delete-one
    jackknife of the complete U-statistic. For partitions see `_partition_variance`.

    Examples
    --------
    >>> import numpy as np
    >>> from replaystats.plans import make_plan
    >>> y = np.array([1.0, 2.0, 4.0, 8.0, 9.0])
    >>> plan = make_plan(5, statistic="complete", subsample_size=3)
    >>> means = y[plan.indices()].mean(axis=1)
    >>> result = infinitesimal_jackknife(means[:, None], plan)
    >>> np.allclose(result.variance, y.var(ddof=1) / 5)
    True
    """
    P = check_array(member_predictions, "member_predictions", ndim=2)
    check_length(len(P), plan.n_resamples, "member_predictions", "plan")
    _check_varies(plan)
    weights = _member_weights(plan, failed)
    D = P - weights @ P
    if isinstance(plan, PartitionPlan):
        return _partition_variance(P, D, plan, weights > 0)
    n, k, n_kept = plan.n_observations, plan.subsample_size, int(np.count_nonzero(weights))
    # The divisor B - 1 makes covariances unbiased; a complete plan is the whole population.
    complete = isinstance(plan, CompletePlan)
    if not complete:
        if n_kept < 2:
            raise ValueError(must_be("n_resamples", "at least 2 for a variance", n_kept))
        weights = weights * (n_kept / (n_kept - 1))
    member_variance = weights @ D**2
    if isinstance(plan, BlockPlan):
        return _run_variance(member_variance, plan, n_kept)
    if plan.subset_groups is not None:
        return _group_variance(weights[:, None] * D, member_variance, plan, n_kept)
    products = count_products(plan, weights[:, None] * D)  # rows of C, shape (n, m)
    squares = sum((np.square(C).sum(axis=0) for _, C in products), start=np.zeros(P.shape[1]))
    if plan.with_replacement:
        raw, noise, delete_d = n / (n - 1) * squares, float(k), k / n
    else:
        raw, noise, delete_d = n * (n - 1) / (n - k) ** 2 * squares, k * (n - 1) / (n - k), k / (n - k)
    corrected = raw if complete else raw - noise * member_variance / (n_kept - 1)
    return _record(
        corrected=corrected,
        raw=raw,
        monte_carlo=np.zeros_like(raw) if complete else member_variance / n_kept,
        delete_d=delete_d * member_variance,
        member_variance=member_variance,
    )


def _run_variance(member_variance: FloatArray, plan: BlockPlan, n_kept: int) -> JackknifeVariance:
    """Variance from members fitted on runs of a series: the block bootstrap's, scaled from k to n."""
    scaled = plan.subsample_size / plan.n_observations * member_variance
    return _record(
        corrected=scaled,
        raw=scaled,
        monte_carlo=member_variance / n_kept,
        delete_d=scaled,
        member_variance=member_variance,
    )


def _group_variance(
    D: FloatArray, member_variance: FloatArray, plan: ResamplingPlan, n_kept: int
) -> JackknifeVariance:
    """Variance from balanced members: as for independent ones, but noise is measured between groups.

    `D` holds the deviations over B - 1. With S_g the slopes of group g, C = sum_g S_g has the noise
    R Var(S_g) over R groups.
    """
    groups = plan.subset_groups
    assert groups is not None
    n, k, n_groups = plan.n_observations, plan.subsample_size, np.unique(groups).size
    if n_groups < 2:
        rule = f"at least {-(-2 * n // k)}, so that observations are used twice"
        raise ValueError(must_be("n_resamples", rule, plan.n_resamples))
    C, scatter = np.zeros((n, D.shape[1])), np.zeros(D.shape[1])
    for slopes in group_slopes(plan, groups, D):
        C += slopes
        scatter += np.square(slopes).sum(axis=0)
    squares = np.square(C).sum(axis=0)
    noise = (scatter - squares / n_groups) * (n_groups / (n_groups - 1))
    sums = np.zeros((n_groups, D.shape[1]))
    np.add.at(sums, np.unique(groups, return_inverse=True)[1], D)
    factor = n * (n - 1) / (n - k) ** 2
    return _record(
        corrected=factor * (squares - noise),
        raw=factor * squares,
        monte_carlo=np.square(sums).sum(axis=0) * (n_groups / (n_groups - 1)),
        delete_d=k / (n - k) * member_variance,
        member_variance=member_variance,
    )


def _partition_variance(
    P: FloatArray, D: FloatArray, plan: PartitionPlan, kept: BoolArray
) -> JackknifeVariance:
    """Variance of the average over R random partitions into disjoint subsets.

    Subsets of one partition are independent, so the variance within partitions over their number estimates
    the variance of one partition's mean without bias, whatever the learner. Of it, the variance between
    partitions is the part that more partitions would remove. A last, incomplete partition counts within only.
    """
    n, k, per = plan.n_observations, plan.subsample_size, plan.subsets_per_partition
    groups = [P[start : start + per][kept[start : start + per]] for start in range(0, len(P), per)]
    freedom = sum(max(0, len(group) - 1) for group in groups)
    if freedom == 0:
        rule = "at most half of n for the variance of a partition"
        raise ValueError(must_be("subsample_size", rule, f"k={k} of n={n}"))
    within = sum(((group - group.mean(axis=0)) ** 2).sum(axis=0) for group in groups if len(group)) / freedom
    whole = [group.mean(axis=0) for group in groups if len(group) == per]
    raw = within / min(per, np.count_nonzero(kept))
    between = np.var(whole, axis=0, ddof=1) if len(whole) > 1 else np.zeros_like(raw)
    member_variance = (D[kept] ** 2).sum(axis=0) / max(1, np.count_nonzero(kept) - 1)
    return _record(
        corrected=raw - between,
        raw=raw,
        monte_carlo=between / max(1, len(whole)),
        delete_d=k / (n - k) * member_variance,
        member_variance=member_variance,
    )


def _record(
    *,
    corrected: FloatArray,
    raw: FloatArray,
    monte_carlo: FloatArray,
    delete_d: FloatArray,
    member_variance: FloatArray,
) -> JackknifeVariance:
    return JackknifeVariance(
        variance=np.maximum(corrected, 0.0) + monte_carlo,
        corrected=corrected,
        raw=raw,
        monte_carlo_variance=monte_carlo,
        delete_d=delete_d,
        member_variance=member_variance,
    )


def _member_weights(plan: ResamplingPlan, failed: BoolArray | None) -> FloatArray:
    """Return the weights of the members in the average, zero for failed ones, shape (B,)."""
    weights = np.ones(plan.n_resamples) if plan.subset_weights is None else plan.subset_weights
    if failed is not None:
        check_length(len(failed), plan.n_resamples, "failed", "plan")
        weights = np.where(failed, 0.0, weights)
    if not weights.any():
        raise ValueError(must_be("failed", "False for at least one member", "no member left"))
    return np.asarray(weights / weights.sum())


def _check_varies(plan: ResamplingPlan) -> None:
    if plan.observation_weights is not None:
        hint = "Members that are fitted on rows cannot weigh them back."
        raise ValueError(must_be("plan", "drawn with equal probabilities", plan.statistic, hint))
    n, k = plan.n_observations, plan.subsample_size
    if n < 2:
        raise ValueError(must_be("n_observations", "at least 2 for a variance", n))
    if not plan.with_replacement and k == n:
        hint = 'Every subset is the whole data: use a smaller one, or statistic="V".'
        raise ValueError(must_be("subsample_size", f"below n = {n} for a variance", k, hint))
