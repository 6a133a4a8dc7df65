"""The two doors into a plan: `make_plan` draws one, `plan_from_indices` takes given subsets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._core.arrays import as_array
from .._core.errors import must_be
from .._core.random import draw_seed
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import (
    check_array,
    check_choice,
    check_int,
    check_length,
    check_memory,
    resolve_subsample_size,
)
from .counter import MAX_OBSERVATIONS, CounterPlan
from .listed import BLOCK_SCHEMES, BalancedPlan, BlockPlan, CompletePlan, GivenPlan, PartitionPlan
from .plan import BootstrapPlan, ResamplingPlan, SubsetPlan
from .tiles import TILE_ROWS, TILE_SUBSETS
from .weighted import WEIGHTINGS, ConditionalPoissonPlan, ImportancePlan, WeightedPlan, check_probabilities

_DRAWN: dict[str, type[SubsetPlan | BootstrapPlan | PartitionPlan | BalancedPlan]] = {
    "U": SubsetPlan,
    "V": BootstrapPlan,
    "partition": PartitionPlan,
    "balanced": BalancedPlan,
}
_WEIGHTED: dict[str, type[WeightedPlan]] = {"U": ConditionalPoissonPlan, "V": ImportancePlan}
STATISTICS = ("U", "V", "partition", "balanced", *BLOCK_SCHEMES, "complete", "complete_v")


def make_plan(
    n_observations: int,
    *,
    statistic: str = "U",
    subsample_size: Any = 0.5,
    n_resamples: int | None = None,
    probabilities: ArrayLike | None = None,
    weighting: str = "observations",
    block_length: int | None = None,
    sampler: str = "tiles",
    random_state: RandomLike = None,
) -> ResamplingPlan:
    """Choose the observations of every subset.

    Parameters
    ----------
    n_observations : int
        Number of resampling units n: trajectories, or rows.
    statistic : str
        "U", "V": independent subsets, without or with replacement inside. "partition": disjoint subsets
        (divide and conquer, repeated when more than n // k are asked for). "balanced": without replacement,
        and every observation equally often over the subsets. "moving", "circular", "stationary": runs of
        consecutive observations of one dependent series. "complete", "complete_v": every subset once (with
        weights for the second).
    subsample_size : int or float
        k, or k as a share of n.
    n_resamples : int, optional
        Number of subsets B. Default: 500; n // k for "partition". The complete plans take none.
    probabilities : array-like of shape (n,), optional
        Relative probabilities of drawing each observation, for "U" (by conditional Poisson sampling: the
        odds of the observations) and "V". Default: equal.
    weighting : {"observations", "subsets"}
        How unequal probabilities are undone: by Horvitz-Thompson weights inside the sums, or by weights of
        whole subsets, which degenerate as k grows (`plan.effective_resamples` says how far).
    block_length : int, optional
        (Mean) length of the runs of "moving", "circular" and "stationary".
    sampler : {"tiles", "counter"}
        Where the randomness of "U" and "V" comes from: streams drawn on the host, or a hash of
        (seed, subset, observation) that gives the same subsets from NumPy and on a GPU, and is evaluated
        where the moments are. Each sampler has subsets of its own.
    random_state : None, int, Generator, RandomState or SeedSequence
        The same seed gives the same subsets, whatever B: a larger B only adds subsets.

    Returns
    -------
    ResamplingPlan

    Examples
    --------
    >>> plan = make_plan(1000, statistic="V", subsample_size=0.3, n_resamples=500, random_state=0)
    >>> plan.indices(0, 2).shape
    (2, 300)
    >>> make_plan(5, statistic="complete", subsample_size=3).n_resamples
    10
    """
    n = check_int(n_observations, "n_observations")
    check_choice(statistic, "statistic", STATISTICS)
    check_memory(n / TILE_ROWS * TILE_SUBSETS, "n_observations", n)  # how a tile is split over the rows
    k = resolve_subsample_size(subsample_size, n)
    _check_options(statistic, k, probabilities, weighting, block_length)
    _check_sampler(sampler, statistic, n, probabilities)
    if statistic in ("complete", "complete_v"):
        if n_resamples is not None:
            rule = f'None with statistic="{statistic}", which takes every subset'
            raise ValueError(must_be("n_resamples", rule, n_resamples))
        return (
            CompletePlan.without_replacement(n, k)
            if statistic == "complete"
            else CompletePlan.with_repeats(n, k)
        )
    if n_resamples is None:
        n_resamples = n // k if statistic == "partition" else 500
    n_resamples = check_int(n_resamples, "n_resamples", hint="A few hundred subsets are usual.")
    check_memory(n_resamples, "n_resamples", n_resamples, "A few hundred subsets are usual.")
    shape: dict[str, Any] = {"n_observations": n, "subsample_size": k, "n_resamples": n_resamples}
    if probabilities is not None:
        p = check_probabilities(probabilities, n)
        return _WEIGHTED[statistic](
            **shape, probabilities=p, weighting=weighting, seed=draw_seed(random_state)
        )
    if sampler == "counter":
        return CounterPlan(
            **shape, statistic=statistic, with_replacement=statistic == "V", seed=draw_seed(random_state)
        )
    if block_length is not None:
        return BlockPlan(
            **shape, statistic=statistic, block_length=block_length, seed=draw_seed(random_state)
        )
    return _DRAWN[statistic](**shape, seed=draw_seed(random_state))


def _check_options(statistic: str, k: int, probabilities: Any, weighting: str, block_length: Any) -> None:
    """Refuse options that do not belong to the statistic."""
    check_choice(weighting, "weighting", WEIGHTINGS)
    if probabilities is not None and statistic not in _WEIGHTED:
        raise ValueError(must_be("probabilities", f'None with statistic="{statistic}"', "an array"))
    if probabilities is None and weighting != "observations":
        hint = "Equal probabilities need no weights."
        raise ValueError(must_be("weighting", "left alone without `probabilities`", repr(weighting), hint))
    if statistic in BLOCK_SCHEMES:
        hint = "automatic_block_length(influence_values(moments)) chooses one."
        if block_length is None:
            raise ValueError(must_be("block_length", f"an int in [1, {k}]", None, hint))
        # A run longer than a subset would always be cut, and moving ones would never reach the end.
        check_int(block_length, "block_length", high=k, hint=hint)
    elif block_length is not None:
        rule = "None unless runs of observations are drawn"
        raise ValueError(must_be("block_length", rule, block_length, f"Use one of {BLOCK_SCHEMES}."))


def _check_sampler(sampler: str, statistic: str, n: int, probabilities: Any) -> None:
    """Refuse counters where they do not draw."""
    check_choice(sampler, "sampler", ("tiles", "counter"))
    if sampler == "counter":
        if statistic not in ("U", "V") or probabilities is not None:
            rule = '"U" or "V" with equal probabilities for sampler="counter"'
            raise ValueError(must_be("statistic", rule, repr(statistic)))
        check_int(n, "n_observations", high=MAX_OBSERVATIONS, hint='Use sampler="tiles".')


def plan_from_indices(
    indices: ArrayLike,
    n_observations: int,
    *,
    weights: ArrayLike | None = None,
    probabilities: ArrayLike | None = None,
) -> ResamplingPlan:
    """Take given subsets as the plan.

    Parameters
    ----------
    indices : array-like of int, shape (B, k)
        One subset a row, observations numbered from 0.
    n_observations : int
        n, which the indices must stay below.
    weights : array-like of shape (B,), optional
        Weight of each subset in an average, positive; they are scaled to sum to one. Subsets drawn with
        probability P have 1 / P: then the weighted average is that of Horvitz and Thompson, self-normalised.
    probabilities : array-like of shape (B,), optional
        In place of weights: P(S) of every subset, at most 1, in the design it was drawn from, without
        replacement. `inference.reweighted_average` then has the unbiased Horvitz-Thompson and difference
        forms; other averages weight subsets by 1 / P.

    Returns
    -------
    ResamplingPlan
        With replacement ("V") if an observation occurs twice in a subset.

    Examples
    --------
    >>> plan_from_indices([[0, 1], [1, 1]], n_observations=3).statistic
    'V'
    """
    n = check_int(n_observations, "n_observations")
    subsets = as_array(indices, "indices")
    if subsets.ndim != 2 or subsets.size == 0 or subsets.dtype.kind not in "iu":
        got = f"shape {subsets.shape} of {subsets.dtype}"
        raise ValueError(must_be("indices", "a 2-D array of int, one subset a row", got))
    if subsets.min() < 0 or subsets.max() >= n:
        got = f"values from {subsets.min()} to {subsets.max()}"
        hint = "Numbering starts at 0." if subsets.max() == n else ""
        raise ValueError(must_be("indices", f"in [0, {n - 1}]", got, hint))
    importance = None
    if probabilities is not None:
        importance = _importance_weights(probabilities, weights, subsets.shape, n)
        weights = importance
    ordered = np.sort(subsets, axis=1)
    repeats = bool((ordered[:, 1:] == ordered[:, :-1]).any())
    return GivenPlan(
        n_observations=n,
        subsample_size=subsets.shape[1],
        n_resamples=subsets.shape[0],
        statistic="V" if repeats else "U",
        subsets=subsets.astype(np.intp),
        with_replacement=repeats,
        weights=None if weights is None else _scaled_weights(weights, len(subsets)),
        importance_weights=importance,
    )


def _importance_weights(
    probabilities: ArrayLike, weights: ArrayLike | None, shape: tuple[int, ...], n: int
) -> FloatArray:
    """Return 1 / (C(n, k) P(S)) of every subset."""
    if weights is not None:
        raise ValueError(must_be("weights", "None beside `probabilities`", "both", "They give the weights."))
    P = check_array(probabilities, "probabilities", ndim=1)
    check_length(len(P), shape[0], "probabilities", "indices")
    if (P <= 0).any() or (P > 1).any():
        raise ValueError(must_be("probabilities", "in (0, 1]", f"values from {P.min():g} to {P.max():g}"))
    log_count = math.lgamma(n + 1) - math.lgamma(shape[1] + 1) - math.lgamma(n - shape[1] + 1)
    return np.asarray(np.exp(-log_count - np.log(P)))


def _scaled_weights(weights: ArrayLike, n_resamples: int) -> FloatArray:
    """Return positive weights that sum to one."""
    given = check_array(weights, "weights", ndim=1)
    check_length(len(given), n_resamples, "weights", "indices")
    if (given <= 0).any():
        raise ValueError(must_be("weights", "positive", f"a smallest one of {given.min():g}"))
    return np.asarray(given / given.sum())
