"""Covariance of an average over subsets that are not independent draws with equal probabilities.

- *Groups* (partitions, balanced subsets): subsets of one group depend on each other, so Monte-Carlo noise is
  measured between groups, never between subsets. The usual correction would be wrong by a factor of ten.
- *Runs* of a dependent series (moving, circular, stationary): the variance of one replicate, scaled from k
  to n observations: the block bootstrap's estimate. Counts of single observations say nothing here.
- *Unequal probabilities without replacement, or weights of whole subsets*: to first order the average has
  the plug-in's covariance; beyond that nothing is derived, and `design_doubt` says so.

Unequal probabilities with replacement need none of this. If observation i is drawn in proportion to r(Z_i)
and counts 1 / r(Z_i), then giving it the weight 1 + e in the data only changes how likely it is drawn, and
the derivative of the average in e is Cov(count_i, h): the infinitesimal jackknife of uniform draws as it
stands, with sum_i Var(count_i) = k (1 - sum p_i^2) in its correction.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray, IntArray
from ..engine import Replicates
from ..plans import ResamplingPlan, WeightedPlan
from ..plans.blocks import BlockPlan
from ..plans.given import PartitionPlan
from ..plans.weighted import ImportancePlan
from .covariance import gram
from .influence import Linearisation, jackknife_covariance


class DesignCovariance(NamedTuple):
    """Sampling covariance, the same before its Monte-Carlo correction, and the Monte-Carlo covariance."""

    sampling: FloatArray
    raw: FloatArray
    monte_carlo: FloatArray


class Spread(NamedTuple):
    """What the used replicates tell, each array of shape (B - n_failed, q[, n_outputs]) and centred.

    Attributes
    ----------
    deviations : ndarray
        theta_b - mean.
    scores : ndarray
        What is averaged: the influence of every replicate on the location.
    remainder : ndarray
        The scores without their linear part, where `control` is known.
    mean_linear : ndarray of shape (q[, n_outputs])
        Mean of the linear part that the scores still hold; its expectation is zero.
    control : Linearisation or None
    """

    deviations: FloatArray
    scores: FloatArray
    remainder: FloatArray
    mean_linear: FloatArray
    control: Linearisation | None


def design_covariance(replicates: Replicates, spread: Spread) -> DesignCovariance | None:
    """Return the covariance under the plan's design; None for independent draws with equal probabilities."""
    plan, kept = replicates.plan, ~replicates.failed
    if isinstance(plan, BlockPlan):
        return _run_covariance(plan, spread)
    if isinstance(plan, WeightedPlan) and design_doubt(plan):
        return _first_order_covariance(replicates, spread)
    if plan.subset_groups is None:
        return None
    n_groups = np.unique(plan.subset_groups[kept]).size
    if spread.control is not None and n_groups > 1:
        return _controlled_group_covariance(replicates, spread, spread.control)
    if isinstance(plan, PartitionPlan):
        return _partition_covariance(spread.scores, plan, kept)
    raise ValueError(
        must_be(
            "statistic",
            "one with independent subsets here, because Monte-Carlo noise between groups cannot be told from "
            "the rest without the control variate and two groups",
            f'"{plan.statistic}" with {n_groups} group(s)',
            'Use "U", or more subsets.',
        )
    )


def design_doubt(plan: ResamplingPlan) -> str:
    """Return why intervals from this plan are unproven; empty where they are not."""
    if not isinstance(plan, WeightedPlan):
        return ""
    if plan.weighting == "subsets":
        return (
            f"whole subsets are weighted (worth {plan.effective_resamples:.1f} of {plan.n_resamples} equal "
            "ones), for which no variance is derived"
        )
    if not isinstance(plan, ImportancePlan):
        return "no variance beyond first order is derived for unequal probabilities without replacement"
    return ""


def count_variance(plan: ResamplingPlan) -> float:
    """Return sum_i Var(count of observation i) of independent subsets."""
    n, k = plan.n_observations, plan.subsample_size
    if isinstance(plan, ImportancePlan):
        return k * (1 - float((plan.probabilities**2).sum()))
    return k * (1 - 1 / n) if plan.with_replacement else k * (1 - k / n)


def group_slopes(plan: ResamplingPlan, groups: IntArray, right: FloatArray) -> Iterator[FloatArray]:
    """Yield sum_b (W_b - k/n)^T right_b over the subsets b of every group, each of shape (n, m)."""
    share = plan.subsample_size / plan.n_observations
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(groups)) + 1, [groups.size]])
    for start, stop in pairwise(bounds.tolist()):
        counts = plan.counts(start, stop) - share
        yield (right[start:stop].T @ counts).T


def _run_covariance(plan: BlockPlan, spread: Spread) -> DesignCovariance:
    n_used = len(spread.deviations)
    v = gram(spread.deviations) / (n_used - 1)
    sampling = plan.subsample_size / plan.n_observations * v
    return DesignCovariance(sampling, sampling, gram(spread.scores) / (n_used - 1) / n_used)


def _first_order_covariance(replicates: Replicates, spread: Spread) -> DesignCovariance:
    sampling = jackknife_covariance(replicates.moments, replicates.solver)
    weights = replicates.plan.subset_weights
    n_used = len(spread.deviations)
    share = np.full(n_used, 1 / n_used) if weights is None else weights[~replicates.failed]
    return DesignCovariance(sampling, sampling, gram(spread.scores, (share / share.sum()) ** 2))


def _controlled_group_covariance(
    replicates: Replicates, spread: Spread, control: Linearisation
) -> DesignCovariance:
    """Jackknife with an exact linear part, and the noise of the rest measured between groups.

    With S_g the slopes of group g, C = sum_g S_g / (B - 1) has the noise R Var(S_g) / (B - 1)^2.
    """
    plan, kept = replicates.plan, ~replicates.failed
    n, k, n_used = plan.n_observations, plan.subsample_size, len(spread.remainder)
    groups = plan.subset_groups
    assert groups is not None
    right = np.zeros((len(replicates), spread.remainder[0].size))
    right[kept] = spread.remainder.reshape(n_used, -1)
    slope, scatter, n_groups = np.zeros((n, right.shape[1])), np.zeros_like(gram(spread.remainder[:1])), 0
    for product in group_slopes(plan, groups, right):
        slope += product
        scatter += gram(product.reshape(n, *spread.remainder.shape[1:]))
        n_groups += 1
    shaped = slope.reshape(n, *spread.remainder.shape[1:])
    between = (scatter - gram(shaped) / n_groups) * (n_groups / (n_groups - 1))
    factor = n * (n - 1) / (n - k) ** 2
    exact = (n - k) / (n * (n - 1)) * control.influence(replicates.moments)
    raw = factor * gram(shaped / (n_used - 1) + exact)
    return DesignCovariance(
        raw - factor * between / (n_used - 1) ** 2, raw, _group_noise(spread, groups[kept], n_used)
    )


def _group_noise(spread: Spread, groups: IntArray, n_used: int) -> FloatArray:
    """Return the Monte-Carlo covariance of the mean from sums over groups, which are independent."""
    sums = np.zeros((groups.max() + 1, *spread.remainder.shape[1:]))
    np.add.at(sums, groups, spread.remainder)
    sums = sums[np.unique(groups)]
    noise = gram(sums) * (len(sums) / (len(sums) - 1)) / n_used**2
    # The mean of the linear part is known, and nearly zero by design.
    return noise + gram(spread.mean_linear[None])


def _partition_covariance(scores: FloatArray, plan: PartitionPlan, kept: BoolArray) -> DesignCovariance:
    """Return the covariance of the mean over R random partitions without a control variate.

    Subsets of one partition share no observation, so their spread over their number is the covariance of one
    partition's mean; the spread between partitions is the part that more of them would remove.
    """
    per = plan.subsets_per_partition
    partition = (np.arange(plan.n_resamples) // per)[kept]
    sizes = np.bincount(partition)
    freedom = int(np.maximum(sizes - 1, 0).sum())
    if freedom == 0:
        rule = "at most half of n for the variance of a partition"
        got = f"k={plan.subsample_size} of n={plan.n_observations}"
        raise ValueError(must_be("subsample_size", rule, got))
    means = np.zeros((sizes.size, *scores.shape[1:]))
    np.add.at(means, partition, scores)
    means /= np.maximum(sizes, 1).reshape(-1, *[1] * (scores.ndim - 1))
    of_one_mean = gram(scores - means[partition]) / freedom / min(per, len(scores))
    whole = means[sizes == per]
    if len(whole) < 2:
        return DesignCovariance(of_one_mean, of_one_mean, np.zeros_like(of_one_mean))
    between = gram(whole - whole.mean(axis=0)) / (len(whole) - 1)
    monte_carlo = between / len(whole)
    return DesignCovariance(of_one_mean - between, of_one_mean - between + monte_carlo, monte_carlo)
