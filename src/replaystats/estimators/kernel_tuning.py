"""What "auto" stands for in replayed kernel ridge: the kernel's width and the penalty of the members."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .._core.choice import Choice
from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import check_array
from ..inference.out_of_bag import out_of_bag
from ..replicates import DEFAULT_MEMORY_BUDGET, Executor, SerialExecutor
from ..replicates.kernel_ridge import replicate_kernel_ridge
from ..replicates.kernels import Kernel
from ..replicates.penalties import DEFAULT_ROWS, choose_kernel, kernel_penalties
from ..replicates.scaling import Scaling
from ..resampling import ResamplingPlan

_PILOT_RESAMPLES = 100


def choose_gamma(
    X: ArrayLike, y: ArrayLike, *, kernel: Kernel, standardize: str | None = None, rng: RandomLike = None
) -> Choice:
    """Choose the width of the kernel: the one whose best single fit has the smallest leave-one-out error.

    Parameters
    ----------
    X : array-like of shape (n, p)
    y : array-like of shape (n,) or (n, n_outputs)
    kernel : Kernel
        Of the family to choose from.
    standardize : {None, "global", "subset"}
        As for the fits; both kinds of units are those of all data here.
    rng : None, int, Generator, RandomState or SeedSequence
        For the rows that are looked at when there are more than 1000.

    Notes
    -----
    Weights of observations are not used.
    """
    points, target = _in_units(X, y, standardize)
    return choose_kernel(points, target, kernel, rng=rng)[0]


def choose_ensemble_alpha(
    X: ArrayLike,
    y: ArrayLike,
    plan: ResamplingPlan,
    *,
    kernel: Kernel,
    standardize: str | None = None,
    sample_weight: ArrayLike | None = None,
    executor: Executor | None = None,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
    rng: RandomLike = None,
) -> Choice:
    """Choose the penalty of replayed kernel ridge so that the *average* predicts best, out of bag.

    1. Leave-one-out on at most 1000 rows gives the penalty of one fit on all data.
    2. Times k / n (the same penalty per observation) it is where the search for the members' starts.
    3. Half-decade steps from there, as long as the out-of-bag error of at most 100 subsets falls.

    Members want less penalty than single fits on k points: averaging removes their noise, not their bias.

    Parameters
    ----------
    X, y, plan, kernel, standardize, sample_weight, executor, memory_budget
        As for `replicate_kernel_ridge`.
    rng : None, int, Generator, RandomState or SeedSequence
        For the rows of step 1.

    Returns
    -------
    Choice
        The penalty of each member.

    Examples
    --------
    >>> from replaystats.replicates.kernels import make_kernel
    >>> from replaystats.resampling import make_plan
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(100, 1))
    >>> y = np.sin(6 * X[:, 0]) + rng.normal(size=100)
    >>> plan = make_plan(100, subsample_size=30, n_resamples=50, rng=0)
    >>> noisy = choose_ensemble_alpha(X, y, plan, kernel=make_kernel("rbf", n_features=1, gamma=10.0))
    >>> noisy.value > 0.1
    True
    """
    X, y = check_array(X, "X", ndim=2), check_array(y, "y", ndim=(1, 2))
    start = _single_fit_alpha(X, y, kernel, standardize, rng) * plan.subsample_size / plan.n_observations
    pilot = _first_subsets(plan)
    if pilot.counts().all():
        return Choice(start, "leave-one-out times k / n, because no observation is ever out of bag")
    executor = executor or SerialExecutor()
    targets = y.reshape(len(y), -1)
    weights = None if sample_weight is None else check_array(sample_weight, "sample_weight", ndim=1)

    def error(alpha: float) -> float:
        fits = replicate_kernel_ridge(
            X,
            y,
            pilot,
            alpha=alpha,
            kernel=kernel,
            standardize=standardize,
            sample_weight=sample_weight,
            executor=executor,
            memory_budget=memory_budget,
            on_failure="drop",
        )
        bag = out_of_bag(
            lambda rows: fits.predict_members(X[rows], executor=executor, memory_budget=memory_budget),
            fits.plan,
            n_outputs=targets.shape[1],
            failed=fits.failed,
            memory_budget=memory_budget,
        )
        return _mean_squared_error(bag.predictions[-1], targets, weights)

    alpha, n_looked_at = descend(error, start)
    reason = f"smallest out-of-bag error of {n_looked_at} penalties about leave-one-out times k / n"
    return Choice(alpha, f"{reason} = {start:.3g}")


def descend(
    error: Callable[[float], float], start: float, *, factor: float = math.sqrt(10), most: int = 16
) -> tuple[float, int]:
    """Step from `start` by a factor, up or down, as long as the error falls.

    Returns
    -------
    best : float
    n_evaluations : int

    Examples
    --------
    >>> best, n_evaluations = descend(lambda a: (math.log10(a) - 2) ** 2, 1.0)
    >>> round(best), n_evaluations
    (100, 6)
    """
    errors = {0: error(start)}
    for direction in (1, -1):
        step = direction
        while len(errors) < most:
            errors[step] = error(start * factor**step)
            if not errors[step] < errors[step - direction]:
                break
            step += direction
        if min(errors, key=errors.__getitem__) > 0:
            break  # the error falls upwards, so there is nothing to look for downwards
    best = min(errors, key=errors.__getitem__)
    return start * factor**best, len(errors)


def _in_units(X: ArrayLike, y: ArrayLike, standardize: str | None) -> tuple[FloatArray, FloatArray]:
    """Return X and y as the kernel sees them."""
    X, y = check_array(X, "X", ndim=2), check_array(y, "y", ndim=(1, 2))
    return (X, y) if standardize is None else (Scaling.of(X)(X), y - y.mean(axis=0))


def _single_fit_alpha(
    X: FloatArray, y: FloatArray, kernel: Kernel, standardize: str | None, rng: RandomLike
) -> float:
    """Return the leave-one-out penalty of one fit on all rows."""
    points, target = _in_units(X, y, standardize)
    used = np.arange(len(X))
    if len(X) > DEFAULT_ROWS:
        used = as_generator(rng).choice(len(X), DEFAULT_ROWS, replace=False)
    gram = points[np.ix_(used, used)] if kernel.is_precomputed else kernel(points[used], points[used])
    return kernel_penalties(gram, target[used]).best * len(X) / len(used)


def _first_subsets(plan: ResamplingPlan) -> ResamplingPlan:
    """Return the plan's first 100 subsets, or all where they were given."""
    if plan.seed is None or plan.n_resamples <= _PILOT_RESAMPLES:
        return plan
    return replace(plan, n_resamples=_PILOT_RESAMPLES)


def _mean_squared_error(predicted: FloatArray, y: FloatArray, weights: FloatArray | None) -> float:
    """Return the (weighted) mean over the observations that have a prediction."""
    known = np.isfinite(predicted).all(axis=1)
    squared = ((predicted - y) ** 2).mean(axis=1)
    return float(np.average(squared[known], weights=None if weights is None else weights[known]))
