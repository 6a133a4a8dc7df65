"""What "auto" means for kernel ridge: from the parameters to a record of what is to be fitted.

In this order: units, widths and the penalty of one fit on all rows; the method; its sizes and draws. What a
choice had to compute and the fits need again, such as sums of features over blocks of rows, goes along.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._core.choice import AUTO, Choice, is_auto
from .._core.errors import must_be
from .._core.random import draw_seed, stream
from .._core.thresholds import COMPARED_ROWS
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_choice, check_real, check_work
from ..basis import Basis
from ..estimate import average
from ..kernel.features import Landmarks
from ..kernel.kernels import PRECOMPUTED, Kernel
from ..plans import ResamplingPlan, make_plan
from .ensembles import resolve_subsets
from .kernel_folds import Fit, candidates, cross_fit, few_kept, kept_for_folds, needs_folds
from .kernel_full import LEARNT, MEAN_ONLY, ONE, FullFit, KernelParameters, KernelSettings, resolve_whole_fit
from .kernel_methods import (
    DeviceChoice,
    FeatureSums,
    check_basis,
    compare_on_device,
    find_landmarks,
    resolve_features,
    resolve_leaves,
    sum_features,
)

METHODS = ("subsets", "features", "local", AUTO)

# Cost: seconds of choosing widths and penalty, for one entry of a table with more columns than rows.
ENTRY_SECONDS = 4e-6


def resolve_kernel_ridge(
    parameters: KernelParameters,
    X: FloatArray,
    y: FloatArray,
    sample_weight: FloatArray | None = None,
    *,
    plan: ResamplingPlan | None = None,
    rng: np.random.Generator,
    device: Any = None,
    groups: IntArray | None = None,
) -> KernelSettings:
    """Resolve everything that defines a replayed kernel ridge regression.

    Parameters
    ----------
    parameters : KernelParameters
        As they were given; "auto" is left to be chosen.
    X : ndarray of shape (n, p)
    y : ndarray of shape (n,) or (n, n_outputs)
    sample_weight : ndarray of shape (n,), optional
    plan : ResamplingPlan, optional
        Subsets that were given.
    rng : Generator
    device : array, optional
        Of another library: fits with a Gaussian kernel are made where it lives.
    groups : ndarray of int, shape (n,), optional
        Numbers of the groups of rows that folds keep together.
    """
    _check(parameters, plan)
    if X.shape[1] > X.shape[0]:
        got = f"{X.shape[0]} rows of {X.shape[1]} columns"
        check_work(ENTRY_SECONDS * X.shape[0] * X.shape[1], "X", got, "Use fewer columns.")
    first = _resolve(parameters, X, y, sample_weight, plan, rng, device, LEARNT, groups)
    if groups is None and not needs_folds(parameters, len(y), X.shape[1]):
        return first
    if groups is not None and first.method == "subsets":
        hint = "Subsets of rows would split groups; ReplayRegressor draws subsets of whole groups."
        rule = '"auto", "features" or "local" with groups, and no plan or size of subsets'
        raise ValueError(must_be("method", rule, '"subsets"', hint))
    seed, kept = draw_seed(rng), dict[str, dict[str, Any]]()
    if few_kept(len(y)):
        kept[LEARNT] = kept_for_folds(parameters, first.problem.kernel, first.standardize)
        if ONE in candidates(parameters, len(y)) and first.method != "subsets":
            one = resolve_whole_fit(parameters, X, y, sample_weight, rng=rng, device=device, widths=ONE)
            kept[ONE] = kept_for_folds(parameters, one.problem.kernel, one.standardize)
            kept[ONE] |= {"gamma": one.problem.kernel.gamma, "alpha": one.problem.alpha}

    def fit(own: KernelParameters, rows: IntArray, widths: str) -> Fit:
        own = replace(own, **kept.get(widths, {}))
        part = X[np.ix_(rows, rows)] if own.kernel == PRECOMPUTED else X[rows]
        weight = None if sample_weight is None else sample_weight[rows]
        drawn = _plan_of_part(first, len(rows), stream(seed, 1))
        found = _resolve(own, part, y[rows], weight, drawn, stream(seed, 2), device, widths)
        return found, average(found.fit(), parameters.combine, scalar=False)

    folds = cross_fit(fit, parameters, X, y, sample_weight, method=first.method, groups=groups, seed=seed)
    if folds.widths != LEARNT:
        first = _resolve(parameters, X, y, sample_weight, plan, rng, device, folds.widths, groups)
    return replace(first, folds=folds)


def _plan_of_part(whole: KernelSettings, n: int, rng: np.random.Generator) -> ResamplingPlan | None:
    """Return subsets of n rows like those of all; None where the method draws none of rows."""
    plan = whole.plan
    if plan is None:
        return None
    size = min(plan.subsample_size, n)
    statistic = "V" if plan.with_replacement else "U"
    return make_plan(
        n, statistic=statistic, subsample_size=size, n_resamples=plan.n_resamples, random_state=rng
    )


def _resolve(
    parameters: KernelParameters,
    X: FloatArray,
    y: FloatArray,
    sample_weight: FloatArray | None,
    plan: ResamplingPlan | None,
    rng: np.random.Generator,
    device: Any,
    widths: str,
    units: IntArray | None = None,
) -> KernelSettings:
    """Resolve one candidate for the widths."""
    whole = resolve_whole_fit(
        parameters, X, y, sample_weight, rng=rng, device=device, widths=widths, units=units
    )
    features, compared = None, None
    method = "features" if isinstance(parameters.method, Basis) else parameters.method
    if method == AUTO:
        choice, features, compared = _resolve_method(whole, plan)
        method = str(choice.value)
        whole = replace(whole, choices={**whole.choices, "method": choice})
    if method == "features":
        return resolve_features(whole, features, plan)
    return resolve_leaves(whole, compared) if method == "local" else resolve_subsets(whole, plan)


def _check(parameters: KernelParameters, plan: ResamplingPlan | None) -> None:
    """Refuse what does not go together, before any work."""
    method = "features" if isinstance(parameters.method, Basis) else parameters.method
    check_choice(method, "method", METHODS)
    if not is_auto(parameters.alpha):
        check_real(parameters.alpha, "alpha", low=0.0, hint='Or "auto".')
    if isinstance(parameters.method, Basis):
        check_basis(parameters.method, parameters.gamma)
    if method == "local" and plan is not None:
        raise ValueError(must_be("plan", 'None when method="local", which draws no subsets', plan))
    if parameters.standardize == "subset" and method in ("features", "local"):
        rule, hint = 'other than "subset" unless method="subsets"', "Units of each subset's own need subsets."
        raise ValueError(must_be("standardize", rule, '"subset"', hint))


def _resolve_method(
    whole: FullFit, plan: ResamplingPlan | None
) -> tuple[Choice, FeatureSums | None, DeviceChoice | None]:
    """Return the method, and the features or leaves that were made to choose it."""
    kernel, n = whole.problem.kernel, len(whole.X)
    given = _asks_for_subsets(whole, plan)
    if given is not None:
        return Choice("subsets", given), None, None
    if whole.problem.alpha == MEAN_ONLY:
        return Choice("local", "the mean of y takes no landmarks"), None, None
    if kernel.name != "rbf":
        return choose_method(n, kernel, None, None), None, None
    if whole.accelerated:
        compared = compare_on_device(whole)
        return Choice("local", f"on an accelerator, {compared.choice.reason}"), None, compared
    landmarks = find_landmarks(whole)
    features = sum_features(whole, landmarks) if landmarks.suffice(n) else None
    return choose_method(n, kernel, landmarks, features), features, None


def _asks_for_subsets(whole: FullFit, plan: ResamplingPlan | None) -> str | None:
    """Say what was given that only subsets have."""
    if plan is not None:
        return "a plan was given"
    if whole.standardize == "subset":
        return "units of each subset's own need subsets"
    for name in ("statistic", "size", "n_resamples"):
        if not is_auto(getattr(whole.parameters.resampling, name)):
            return f"`{name}` was given"
    return None


def choose_method(
    n: int, kernel: Kernel, landmarks: Landmarks | None, features: FeatureSums | None
) -> Choice:
    """Choose between subsets, features and leaves of trees.

    Parameters
    ----------
    n : int
        Number of rows.
    kernel : Kernel
    landmarks : Landmarks or None
        From `find_landmarks`; None for a kernel without them.
    features : FeatureSums or None
        Of the landmarks; None where they do not suffice.
    """
    if kernel.is_precomputed:
        return Choice("subsets", "a kernel matrix has no points to cut")
    if landmarks is None:
        short = "landmarks are for Gaussian kernels"
    elif features is None:
        short = f"more than {min(len(landmarks.rows), n // 4)} landmarks would be needed"
    elif features.penalty is not None and features.penalty.value < landmarks.tolerance * n:
        wanted = f"all rows call for the penalty {features.penalty.value:.1g}"
        short = f"{wanted}, too small for {len(landmarks.rows)} landmarks"
    else:
        found = f"{len(landmarks.rows)} landmarks describe the kernel on all {n} rows"
        return Choice("features", f"{found}, so a fit on their features is one on all rows")
    if n <= COMPARED_ROWS:
        return Choice("local", f"{short}, and {n} rows are few enough for one exact fit")
    return Choice("local", f"{short}, and random subsets of {n} rows would lose resolution")
