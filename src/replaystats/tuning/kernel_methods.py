"""Settings of kernel ridge on features and on leaves of trees, and the choice on an accelerator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._core.choice import AUTO, Choice, is_auto
from .._core.config import memory_budget
from .._core.errors import must_be
from .._core.linalg import one_thread
from .._core.random import draw_seed, stream
from .._core.thresholds import (
    CHEAP_WORK,
    COMPARED_ROWS,
    DENSE_SYSTEM,
    FOLDS,
    IMMATERIAL,
    LARGE_DENSE_SYSTEM,
    LEAVES,
    MANY,
    SAMPLED_ROWS,
    SEVERAL,
    SMALL,
)
from .._core.typing import FloatArray, IntArray
from .._core.validation import resolve_subsample_size
from ..basis import Basis
from ..kernel.device_leaves import DeviceLeaves, fit_device_leaves
from ..kernel.features import FeatureUnits, Landmarks, block_moments, choose_landmarks, replay_blocks
from ..kernel.local import column_widths, fit_local, grow_trees
from ..kernel.local_influence import leave_one_out_residuals, sampled_errors
from ..kernel.problem import DeviceData, KernelProblem
from ..moments import Moments
from ..plans import ResamplingPlan, make_plan
from ..plans.make import SCHEMES
from ..plans.plan import check_made_for
from .ensembles import best_candidate
from .kernel_full import FullFit, KernelSettings
from .penalties import choose_moment_penalty


@dataclass(frozen=True, slots=True, eq=False)
class FeatureSums:
    """Features, and sums of them over blocks of rows.

    Attributes
    ----------
    units : FeatureUnits
    moments : Moments
        Of blocks of rows.
    penalty : Choice or None
        That of a fit on all rows; None where it is given.
    landmarks : Landmarks or None
        Where the features are Nystroem's.
    """

    units: FeatureUnits
    moments: Moments
    penalty: Choice | None
    landmarks: Landmarks | None = None


def check_basis(basis: Any, gamma: Any) -> None:
    """Refuse what is no basis, or has a width where the kernel has one."""
    if not isinstance(basis, Basis):
        hint = "For example rs.basis.Nystroem(200)."
        raise TypeError(must_be("method", "a name or a Basis", type(basis).__name__, hint))
    if getattr(basis, "gamma", 1.0) is not None and not (gamma is None or is_auto(gamma)):
        hint = "Leave the basis's own gamma None, or the estimator's."
        raise ValueError(must_be("gamma", "None when the basis has one", gamma, hint))


def find_landmarks(whole: FullFit, n: int | None = None) -> Landmarks:
    """Return landmarks that make a fit on all n rows, if 500 are enough for its penalty."""
    problem = whole.problem
    tolerance = min(0.5, SMALL * problem.alpha / (n or len(problem.y)))
    with one_thread(LARGE_DENSE_SYSTEM):
        return choose_landmarks(
            problem.points,
            problem.kernel,
            tolerance=tolerance,
            max_landmarks=DENSE_SYSTEM,
            random_state=whole.rng,
        )


def feature_units(whole: FullFit, landmarks: Landmarks | None) -> FeatureUnits:
    """Return Nystroem features of the landmarks, or those of the given basis."""
    if landmarks is None:
        return FeatureUnits.of_basis(whole.problem, whole.parameters.method, whole.rng)
    return FeatureUnits.of_landmarks(whole.problem, landmarks)


def sum_features(whole: FullFit, landmarks: Landmarks | None) -> FeatureSums:
    """Sum Nystroem features, or those of the given basis, over blocks of rows; choose their penalty.

    Some hundred rows may have missed how rough the function is: the sums over all of them tell.
    """
    problem, units = whole.problem, feature_units(whole, landmarks)
    y = problem.y.reshape(whole.y.shape)
    moments = block_moments(units, whole.X, y, whole.sample_weight, units=whole.units, rng=whole.rng)
    weight = 1.0 if whole.sample_weight is None else whole.sample_weight[:, None]
    y_square = (weight * problem.y**2).sum(axis=0)
    penalty = choose_penalty(moments, y_square, len(y)) if whole.free else None
    return FeatureSums(units, moments, penalty, landmarks)


def choose_penalty(moments: Moments, y_square: FloatArray, n: int) -> Choice:
    """Choose the penalty of n rows from sums over them, and those of squared targets (n_outputs,)."""
    A, b = moments.total()
    return choose_moment_penalty(A, b.reshape(len(A), -1), y_square, n)


def resolve_features(
    whole: FullFit, features: FeatureSums | None, plan: ResamplingPlan | None, n_rows: int | None = None
) -> KernelSettings:
    """Choose the settings of ridge regression on features, replayed over blocks of rows.

    Parameters
    ----------
    whole : FullFit
    features : FeatureSums or None
        Where they have been made to choose the method.
    plan : ResamplingPlan or None
        Subsets of the blocks, where they are given.
    n_rows : int, optional
        Number of rows, where only some of them are in memory.
    """
    parameters, choices, alpha = whole.parameters, {}, whole.problem.alpha
    if features is None:
        features = _asked_features(whole)
    if plan is None:
        plan = _draw_blocks(whole, features.moments)
    else:
        check_made_for(plan, features.moments.n_observations, "blocks of rows")
    if features.landmarks is not None:
        enough = "enough" if features.landmarks.complete else "as many as are tried, not enough"
        reason = f"landmarks, {enough} for the penalty {alpha:.2g}"
        choices["features"] = Choice(len(features.landmarks.rows), reason)
    if features.penalty is not None:
        choices["alpha"], alpha = features.penalty, float(features.penalty.value)
    fit = partial(
        replay_blocks,
        features.units,
        features.moments,
        whole.problem.shared_intercept,
        alpha,
        plan,
        on_failure=parameters.resampling.on_failure,
        n_jobs=parameters.resampling.n_jobs,
        n_rows=n_rows,
    )
    return whole.to_fit("features", fit, alpha, choices)


def _asked_features(whole: FullFit) -> FeatureSums:
    """Return features of the given basis, or Nystroem's for a Gaussian kernel."""
    if not isinstance(whole.parameters.method, str):
        return sum_features(whole, None)
    if whole.problem.kernel.name != "rbf":
        hint, got = "Pass a basis as `method`.", repr(whole.problem.kernel.name)
        raise ValueError(must_be("kernel", '"rbf" for features by default', got, hint))
    return sum_features(whole, find_landmarks(whole))


def _draw_blocks(whole: FullFit, moments: Moments) -> ResamplingPlan:
    """Draw subsets of the blocks: half of them, as often as q and the budget allow, unless given."""
    parameters, q = whole.parameters, moments.n_basis
    statistic, size, number = (
        parameters.resampling.statistic,
        parameters.resampling.size,
        parameters.resampling.n_resamples,
    )
    statistic = "U" if statistic == AUTO else statistic
    if number is None or is_auto(number):
        affordable = max(SEVERAL, min(MANY, CHEAP_WORK // q**2))
        # systems, their shifted copy, inverse and factors live at the same time
        affordable = max(2, min(affordable, memory_budget() // (40 * q * q)))
        number = None if SCHEMES[statistic].exhaustive else affordable
    return make_plan(
        moments.n_observations,
        statistic=statistic,
        subsample_size=0.5 if is_auto(size) else size,
        n_resamples=number,
        random_state=whole.rng,
    )


# What "auto" means on an accelerator, where dense systems are cheap: all are fitted, one is kept.


# Cost: the kernel matrix becomes its factor in place; right sides and the library's own workspace come on
# top.
EXACT_COPIES = 1.5


class DeviceChoice(NamedTuple):
    """The fit that was kept, its mean squared leave-one-out error at the sampled rows, and why."""

    model: DeviceLeaves
    error: float
    choice: Choice


def exact_fits(device: DeviceData) -> bool:
    """Whether the kernel matrix of all rows fits into the memory that is free on the device."""
    n = len(device.problem.y)
    return EXACT_COPIES * n * n * device.item_size <= device.room


def sampled_rows(n: int, rng: np.random.Generator) -> IntArray:
    """Return rows to compare candidates at."""
    return np.sort(rng.permutation(n)[:COMPARED_ROWS])


def choose_on_device(device: DeviceData, rows: IntArray, *, seed: int) -> DeviceChoice:
    """Fit all rows at once, where they fit, and leaves of two sizes; keep the best by leave-one-out errors.

    Leaves that are kept get as many trees again: which trees were drawn moves their errors by as much as
    their size, and on a device further trees cost little.

    Parameters
    ----------
    device : DeviceData
        With the penalty that will be used.
    rows : ndarray of int
        From `sampled_rows`.
    seed : int
        Of the trees.

    Notes
    -----
    O(n^3) operations for the exact fit: half a second for n = 36,000 on one H200, in double precision.
    """
    n = len(device.problem.y)
    sizes = [(size, trees) for size, trees in LEAVES if size < n]
    if exact_fits(device):
        sizes.append((n, 1))
    best: DeviceChoice | None = None
    tried = []
    for size, trees in sizes:
        model = fit_device_leaves(device, leaf_size=size, n_trees=trees, seed=seed)
        error = float(np.mean(sampled_errors(model, rows) ** 2))
        tried.append(f"{error:.3g} ({'all rows' if size == n else f'leaves of {size}'})")
        if best is None or error < best.error:
            best = DeviceChoice(model, error, Choice((size, trees), ""))
    assert best is not None  # leaves of 200 rows always fit
    reason = f"smallest mean squared leave-one-out error at {len(rows)} rows: {', '.join(tried)}"
    size, trees = best.choice.value
    model = best.model
    if size < n:
        model, trees = model.extend(trees), 2 * trees
    return DeviceChoice(model, best.error, Choice((size, trees), reason))


def compare_on_device(whole: FullFit) -> DeviceChoice:
    """Return the best of the candidates at sampled rows."""
    device, rows = DeviceData.of(whole.problem, whole.device), sampled_rows(len(whole.X), whole.rng)
    return choose_on_device(device, rows, seed=draw_seed(whole.rng))


# How large the leaves of kernel ridge regression are, and how many trees they come from.


def resolve_leaves(whole: FullFit, compared: DeviceChoice | None) -> KernelSettings:
    """Choose the settings of kernel ridge regression on the leaves of random trees.

    Parameters
    ----------
    whole : FullFit
    compared : DeviceChoice or None
        Where candidates have been fitted on an accelerator to choose the method.
    """
    parameters, problem, n = whole.parameters, whole.problem, len(whole.X)
    size, trees = parameters.resampling.size, parameters.resampling.n_resamples
    if whole.accelerated and is_auto(size) and is_auto(trees):
        kept = compared or compare_on_device(whole)
        return whole.to_fit("local", lambda: kept.model, problem.alpha, _sizes(kept.choice))
    seed, choices = draw_seed(whole.rng), {}
    if is_auto(size):
        choice = choose_leaves(problem, seed=seed, n_jobs=parameters.resampling.n_jobs)
        choices, (size, number) = _sizes(choice), choice.value
        if is_auto(trees):
            trees = number
        else:
            choices.pop("n_resamples")
    sizes = {
        "leaf_size": resolve_subsample_size(size, n),
        "n_trees": LEAVES[0][1] if is_auto(trees) else trees,
        "seed": seed,
    }
    fit: Any = partial(fit_local, problem, n_jobs=parameters.resampling.n_jobs, units=whole.units, **sizes)
    if whole.device is not None:
        fit = partial(fit_device_leaves, DeviceData.of(problem, whole.device), **sizes)
    return whole.to_fit("local", fit, problem.alpha, choices)


def _sizes(choice: Choice) -> dict[str, Choice]:
    size, trees = choice.value
    return {
        "subsample_size": Choice(size, f"rows of a leaf: {choice.reason}"),
        "n_resamples": Choice(trees, f"trees that go with leaves of {size} rows"),
    }


def choose_leaves(problem: KernelProblem, *, seed: int, n_jobs: int | None = None) -> Choice:
    """Choose the size of leaves and the number of trees, as a pair.

    A function that is smooth between rows wants large leaves, one that changes its character from place to
    place small ones. Among the 1000 neighbours of a few rows both are tried; large ones are taken where their
    squared leave-one-out errors are smaller by more than a standard error, and of more than 20,000 rows by
    more than 3 %: less is not worth six times the work.

    Parameters
    ----------
    problem : KernelProblem
        With shared units, and the penalty that will be used.
    seed : int
        Of the neighbourhoods.
    n_jobs : int, optional

    Notes
    -----
    O(1000^3 + n p) operations.
    """
    n = len(problem.y)
    if n <= COMPARED_ROWS:
        return Choice((n, 1), f"{n} rows are few enough for one exact fit on all of them")
    (small, _), (large, _) = LEAVES
    rng = stream(seed, 0)
    widened = problem.points * column_widths(problem)
    squares = np.einsum("ij,ij->i", widened, widened)
    errors: list[list[FloatArray]] = [[], []]
    for centre in rng.permutation(n)[:FOLDS]:
        distances = squares - 2 * (widened @ widened[centre])
        part = problem.rows(np.argpartition(distances, large)[:large])
        for candidate, (size, trees) in enumerate(LEAVES):
            cut = grow_trees(part, size, seed, range(1 if size == large else trees))
            residuals = leave_one_out_residuals(part, cut, n_jobs=n_jobs)
            errors[candidate].append((residuals**2).mean(axis=1))
    of_small, of_large = (np.concatenate(some) for some in errors)
    gain = 1 - np.sqrt(of_large.mean() / max(of_small.mean(), np.finfo(np.float64).tiny))
    worth = IMMATERIAL if n > SAMPLED_ROWS else 0.0
    better = LEAVES[best_candidate([(1 - worth) * of_small, of_large], default=0)]
    found = f"leave-one-out errors {abs(gain):.1%} {'smaller' if gain > 0 else 'larger'}"
    return Choice(better, f"{found} with leaves of {large} than of {small} rows, for six times the work")
