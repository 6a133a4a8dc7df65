"""The two doors into a plan: `make_plan` draws one, `plan_from_indices` takes given subsets."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.random import draw_seed
from .._core.typing import ArrayLike, RandomLike
from .._core.validation import check_choice, check_int, resolve_subsample_size
from .given import CompletePlan, GivenPlan, PartitionPlan
from .plan import BootstrapPlan, ResamplingPlan, SubsetPlan

_DRAWN: dict[str, type[SubsetPlan | BootstrapPlan | PartitionPlan]] = {
    "U": SubsetPlan,
    "V": BootstrapPlan,
    "partition": PartitionPlan,
}
STATISTICS = ("U", "V", "partition", "complete", "complete_v")


def make_plan(
    n_observations: int,
    *,
    statistic: str = "U",
    subsample_size: Any = 0.5,
    n_resamples: int | None = None,
    rng: RandomLike = None,
) -> ResamplingPlan:
    """Choose the observations of every subset.

    Parameters
    ----------
    n_observations : int
        Number of resampling units n: trajectories, or rows.
    statistic : {"U", "V", "partition", "complete", "complete_v"}
        Without or with replacement inside a subset; disjoint subsets (divide and conquer, repeated when
        more than n // k are asked for); or every subset once (with weights for "complete_v").
    subsample_size : int or float
        k, or k as a share of n.
    n_resamples : int, optional
        Number of subsets B. Default: 500; n // k for "partition". The complete plans take none.
    rng : None, int, Generator, RandomState or SeedSequence
        The same seed gives the same subsets, whatever B: a larger B only adds subsets.

    Returns
    -------
    ResamplingPlan

    Examples
    --------
    >>> plan = make_plan(1000, statistic="V", subsample_size=0.3, n_resamples=500, rng=0)
    >>> plan.indices(0, 2).shape
    (2, 300)
    >>> make_plan(5, statistic="complete", subsample_size=3).n_resamples
    10
    """
    n = check_int(n_observations, "n_observations")
    check_choice(statistic, "statistic", STATISTICS)
    k = resolve_subsample_size(subsample_size, n)
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
    return _DRAWN[statistic](n_observations=n, subsample_size=k, n_resamples=n_resamples, seed=draw_seed(rng))


def plan_from_indices(indices: ArrayLike, n_observations: int) -> ResamplingPlan:
    """Take given subsets as the plan.

    Parameters
    ----------
    indices : array-like of int, shape (B, k)
        One subset a row, observations numbered from 0.
    n_observations : int
        n, which the indices must stay below.

    Examples
    --------
    >>> plan_from_indices([[0, 1], [1, 1]], n_observations=3).statistic
    'V'
    """
    n = check_int(n_observations, "n_observations")
    subsets = np.asarray(indices)
    if subsets.ndim != 2 or subsets.size == 0 or not np.issubdtype(subsets.dtype, np.integer):
        got = f"shape {subsets.shape} of {subsets.dtype}"
        raise ValueError(must_be("indices", "a 2-D array of int, one subset a row", got))
    if subsets.min() < 0 or subsets.max() >= n:
        got = f"values from {subsets.min()} to {subsets.max()}"
        hint = "Numbering starts at 0." if subsets.max() == n else ""
        raise ValueError(must_be("indices", f"in [0, {n - 1}]", got, hint))
    ordered = np.sort(subsets, axis=1)
    repeats = bool((ordered[:, 1:] == ordered[:, :-1]).any())
    return GivenPlan(
        n_observations=n,
        subsample_size=subsets.shape[1],
        n_resamples=subsets.shape[0],
        statistic="V" if repeats else "U",
        subsets=subsets.astype(np.intp),
        repeats=repeats,
    )
