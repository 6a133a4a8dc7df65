"""Choosing the parameters of a bagged regression from its own out-of-bag errors and Monte-Carlo noise.

What suits one member does not suit their average: averaging removes variance, so members should be fitted
more closely, on subsets no larger than needed. Errors here are those of the average. A pilot of few members
stands for all B of them: with V the variance between members at a row that c of them left out,

    squared error of the average of c       = squared error of the average of B  +  V (1/c - 1/B)

in expectation. Subsets that are pieces of one permutation share no row; their average cannot gain from more
than n / k of them, so min(B, n / k) takes the place of B there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .._core.choice import AUTO, Choice, is_auto
from .._core.thresholds import COMPARED_ROWS, DENSE_SYSTEM, MIN_EFFECTIVE, SEVERAL
from .._core.typing import FloatArray, IntArray
from .._core.validation import resolve_subsample_size
from ..kernel.device import fit_device_subsets
from ..kernel.fits import fit_subsets
from ..kernel.problem import DeviceData, KernelProblem
from ..plans import ResamplingPlan, make_plan
from ..plans.make import SCHEMES, first_resamples
from ..plans.plan import check_draws_rows
from .kernel_full import FullFit, KernelSettings


def out_of_bag_errors(
    members: FloatArray, subsets: IntArray, rows: IntArray, y: FloatArray, *, n_averaged: int
) -> FloatArray:
    """Return squared out-of-bag errors of an average of `n_averaged` members, from those of a pilot.

    Parameters
    ----------
    members : ndarray of shape (b, m, n_outputs)
        Predictions of the pilot at some rows of the data; NaN for a member that failed.
    subsets : ndarray of int, shape (b, k)
        The pilot's subsets.
    rows : ndarray of int, shape (m,)
        Which rows they predict.
    y : ndarray of shape (m, n_outputs)
    n_averaged : int
        From `n_averaged`.

    Returns
    -------
    ndarray of shape (m,)
        Averaged over outputs; NaN at rows that fewer than two members left out. Single values may be
        negative, their mean is what counts.
    """
    drawn = np.zeros((len(subsets), max(subsets.max(), rows.max()) + 1), dtype=bool)
    np.put_along_axis(drawn, subsets, True, axis=1)
    used = (~drawn[:, rows] & np.isfinite(members).all(axis=2))[:, :, None]  # (b, m, 1)
    count = used.sum(axis=0).astype(float)
    count[count < 2] = np.nan
    mean = np.where(used, members, 0.0).sum(axis=0) / count
    variance = (np.where(used, members - mean, 0.0) ** 2).sum(axis=0) / (count - 1)
    excess = variance * (1 / count - 1 / n_averaged)
    return np.asarray(((y - mean) ** 2 - excess).mean(axis=1))


def n_averaged(plan: ResamplingPlan) -> int:
    """Return how many members' variance an average over the plan removes."""
    if plan.subset_groups is None:
        return plan.n_resamples
    return min(plan.n_resamples, max(1, plan.n_observations // plan.subsample_size))


def subset_errors(problem: KernelProblem, plan: ResamplingPlan, rows: IntArray) -> FloatArray:
    """Return squared out-of-bag errors of the average kernel ridge member, shape (m,).

    Parameters
    ----------
    problem : KernelProblem
        With shared units, or a precomputed kernel, and the penalty of a member.
    plan : ResamplingPlan
        The subsets that will be used; a pilot takes the first 20.
    rows : ndarray of int, shape (m,)
        Where to measure, from `pilot_rows`.
    """
    subsets = plan.indices(0, SEVERAL)
    members = problem.predict_rows(subsets, rows)
    return out_of_bag_errors(members, subsets, rows, problem.y[rows], n_averaged=n_averaged(plan))


def choose_size(sizes: Sequence[int], errors: Sequence[FloatArray], n_observations: int) -> Choice:
    """Choose the smallest subsets whose out-of-bag error is within one standard error of the best.

    Parameters
    ----------
    sizes : sequence of int
        Increasing.
    errors : sequence of ndarray of shape (m,)
        Squared out-of-bag errors of the average for every size, on the same rows.
    n_observations : int
    """
    best = best_candidate(errors, default=len(sizes) - 1)
    for number in range(best):
        difference, error = _difference(errors[number], errors[best])
        if difference <= error:
            reason = f"the smallest of {list(sizes)} within one standard error of the best out-of-bag error"
            return Choice(sizes[number], f"{reason} (that of {sizes[best]}, n={n_observations})")
    return Choice(sizes[best], f"smallest out-of-bag error of {list(sizes)} (n={n_observations})")


def best_candidate(errors: Sequence[FloatArray], *, default: int) -> int:
    """Return the candidate with the smallest mean error, or `default` where it is not clearly better."""
    means = [_mean(some) for some in errors]
    best = int(np.argmin(means))
    if not np.isfinite(means[best]):
        return default
    if best == default or not np.isfinite(means[default]):
        return best
    difference, error = _difference(errors[default], errors[best])
    return best if difference > error else default


def pilot_rows(n: int, rng: np.random.Generator) -> IntArray:
    """Return the rows that pilots are judged on, in order."""
    return np.sort(rng.permutation(n)[:COMPARED_ROWS])


def _mean(errors: FloatArray) -> float:
    known = errors[np.isfinite(errors)]
    return float(known.mean()) if known.size else float("inf")


def _difference(worse: FloatArray, better: FloatArray) -> tuple[float, float]:
    """Return the mean of `worse` - `better` over rows that both know, and its standard error."""
    difference = worse - better
    difference = difference[np.isfinite(difference)]
    if difference.size < 2:
        return 0.0, float("inf")
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(difference.size))


# How large the random subsets of kernel ridge regression are, and how they are drawn.


def resolve_subsets(whole: FullFit, plan: ResamplingPlan | None) -> KernelSettings:
    """Choose statistic, subset size, number of subsets and the members' penalty; draw the subsets.

    Parameters
    ----------
    whole : FullFit
    plan : ResamplingPlan or None
        The subsets, where they are given.
    """
    parameters, n, choices = whole.parameters, len(whole.X), {}
    given, alpha = parameters.resampling, whole.problem.alpha
    if plan is not None:
        check_draws_rows(plan, n)
        sizes = [plan.subsample_size]
    else:
        sizes = candidate_sizes(n) if is_auto(given.size) else [resolve_subsample_size(given.size, n)]
    statistic, n_resamples = given.statistic, given.n_resamples
    if statistic == AUTO:
        statistic = "balanced" if parameters.method == AUTO else "U"
    if is_auto(n_resamples):
        n_resamples = first_resamples(statistic, sizes[0], n)
    draw = partial(make_plan, n, n_resamples=n_resamples, random_state=whole.rng)
    size = sizes[0]
    if len(sizes) > 1:
        traits, pilot = SCHEMES[statistic], statistic
        if traits.exhaustive:  # a pilot draws independently where the plan takes all subsets
            pilot = "V" if traits.with_replacement else "U"
        choices["subsample_size"] = choose_subsets(whole, sizes, partial(draw, statistic=pilot))
        size = choices["subsample_size"].value
    if whole.free:
        alpha *= size / n
        reason = "k/n of the penalty of one fit on all rows, which is the same penalty per row"
        choices["alpha"] = Choice(alpha, reason)
    problem = replace(whole.problem, alpha=alpha)
    if whole.standardize == "subset":
        problem = problem.in_units_of_subsets(whole.X, whole.y)
    grow = is_auto(given.n_resamples) and plan is None
    plan = plan or draw(statistic=statistic, subsample_size=size)
    fit: Any = partial(fit_subsets, problem, plan, n_jobs=given.n_jobs, on_failure=given.on_failure)
    if whole.device is not None and problem.kernel.name == "rbf":
        fit = partial(
            fit_device_subsets, DeviceData.of(problem, whole.device), plan, on_failure=given.on_failure
        )
    return whole.to_fit("subsets", fit, alpha, choices, plan=plan, grow=grow)


def candidate_sizes(n: int, most: int = DENSE_SYSTEM) -> list[int]:
    """Return subset sizes to compare: half of the data or `most` rows, and halves of that."""
    sizes = [max(1, min(n // 2, most))]
    while len(sizes) < 4 and sizes[0] // 2 >= MIN_EFFECTIVE:
        sizes.insert(0, sizes[0] // 2)
    return sizes


def choose_subsets(whole: FullFit, sizes: list[int], draw: Callable[..., ResamplingPlan]) -> Choice:
    """Choose the subset size for the average of the members, out-of-bag.

    Parameters
    ----------
    whole : FullFit
        In shared units. Members have k/n of its penalty where that is free, else all of it.
    sizes : list of int
        Candidates, increasing.
    draw : callable
        Takes `subsample_size`, returns a plan.

    References
    ----------
    Zhang, Duchi and Wainwright (2015), Divide and conquer kernel ridge regression, JMLR 16: subsets with the
    penalty per row that suits all rows average as well as one fit.
    """
    problem, n, errors = whole.problem, len(whole.X), []
    rows = pilot_rows(n, whole.rng)
    for size in sizes:
        own = replace(problem, alpha=problem.alpha * size / n) if whole.free else problem
        errors.append(subset_errors(own, draw(subsample_size=size), rows))
    return choose_size(sizes, errors, n)
