"""What "auto" means for kernel ridge: widths, penalty, method, subset size; each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.choice import Choice
from .._core.errors import must_be
from .._core.random import stream
from .._core.typing import FloatArray
from ..kernel.kernels import Kernel
from ..kernel.landmarks import Landmarks, choose_landmarks
from ..kernel.local import PartitionTree, column_widths, grow_trees
from ..kernel.local_influence import leave_one_out_residuals
from ..kernel.problem import KernelProblem
from ..kernel.widths import FEWEST_ROWS, learn_bandwidths
from ..plans import make_plan
from .ensembles import best_candidate, choose_penalty, choose_size, penalty_errors, penalty_path, pilot_rows
from .penalties import KERNELS_WITH_GAMMA, choose_kernel, kernel_penalties

# Landmarks are enough when what they miss weighs this share of the penalty.
LANDMARK_SHARE = 0.1
MAX_LANDMARKS = 500
# Up to so many rows one exact fit on all of them is a matter of half a second.
SMALL_SAMPLE = 2000
# Leaves and trees to compare above that: many small fits, or fewer large ones, at three times the cost.
LEAVES = ((200, 8), (1000, 4))
# Neighbourhoods of 1000 rows on which they are compared.
PILOT_NEIGHBOURHOODS = 3
LARGEST_SUBSET = 500
# Rows that decide about one width, or the penalty alone.
PENALTY_ROWS = 500
SMALLEST_SUBSET = 16


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """Widths and penalty of one fit on all rows; None for what was not asked for."""

    gamma: Choice | None
    alpha: Choice | None
    other_units: bool = False


def choose_width_and_penalty(
    points: FloatArray,
    y: FloatArray,
    kernel: Kernel,
    *,
    gamma: bool,
    alpha: bool,
    rng: np.random.Generator,
    other_points: FloatArray | None = None,
    home: Any = None,
) -> KernelChoice:
    """Choose gamma, alpha or both for one fit on all rows, from some hundreds or thousands of them.

    Parameters
    ----------
    points : ndarray of shape (n, p)
        In the units that the kernel sees; a Gram matrix for a precomputed kernel.
    y : ndarray of shape (n, n_outputs)
        Centred, where the model has an intercept.
    kernel : Kernel
        With the gamma to use when that is not to be chosen.
    gamma, alpha : bool
        What to choose.
    rng : Generator
    other_points : ndarray of shape (n, p), optional
        The points in other units, to be preferred where they predict better; for a Gaussian kernel.
    home : array, optional
        An array on an accelerator, where widths are learnt.
    """
    if gamma and kernel.name == "rbf":
        learnt = learn_bandwidths(points, y, other_points=other_points, rng=rng, home=home)
        how = "marginal likelihood" if len(points) < FEWEST_ROWS else "leave-one-out error"
        reason = f"{how} on {learnt.n_rows} rows"
        widths = tuple(learnt.gamma.tolist())
        return KernelChoice(
            Choice(widths, f"one width per feature, by {reason}"),
            Choice(learnt.alpha, reason) if alpha else None,
            learnt.other_units,
        )
    if gamma:
        if kernel.name not in KERNELS_WITH_GAMMA:
            rule = f"None for kernel={kernel.name!r}, which has no width to choose"
            raise ValueError(must_be("gamma", rule, '"auto"'))
        width, _ = choose_kernel(points, y, kernel, n_rows=PENALTY_ROWS, rng=rng)
        kernel = Kernel(kernel.name, width.value, kernel.degree, kernel.coef0, kernel.parameters)
        return KernelChoice(width, _choose_alpha(points, y, kernel, rng) if alpha else None)
    return KernelChoice(None, _choose_alpha(points, y, kernel, rng) if alpha else None)


def _choose_alpha(points: FloatArray, y: FloatArray, kernel: Kernel, rng: np.random.Generator) -> Choice:
    """Choose the penalty by leave-one-out on 500 rows.

    It is not scaled up to n rows: the best penalty, noise over signal, hardly depends on their number.
    """
    rows = rng.permutation(len(points))[:PENALTY_ROWS]
    sample = points[rows]
    K = sample[:, rows] if kernel.is_precomputed else kernel(sample, sample)
    found = kernel_penalties(K, y[rows]).choice
    return Choice(found.value, f"{found.reason}, on {len(rows)} rows")


def choose_method(n: int, kernel: Kernel, landmarks: Landmarks | None, penalty: Choice | None) -> Choice:
    """Choose between subsets, features and leaves of trees.

    Parameters
    ----------
    n : int
        Number of rows.
    kernel : Kernel
    landmarks : Landmarks or None
        From `find_landmarks`; None for a kernel without them.
    penalty : Choice or None
        The penalty that suits all rows in the features of the landmarks; None where it is given.
    """
    if kernel.is_precomputed:
        return Choice("subsets", "a kernel matrix has no points to cut")
    if landmarks is None:
        short = "landmarks are for Gaussian kernels"
    elif not landmarks.complete or 4 * len(landmarks.rows) > n:
        short = f"more than {min(len(landmarks.rows), n // 4)} landmarks would be needed"
    elif penalty is not None and penalty.value < landmarks.tolerance * n:
        wanted = f"all rows call for the penalty {penalty.value:.1g}"
        short = f"{wanted}, too small for {len(landmarks.rows)} landmarks"
    else:
        found = f"{len(landmarks.rows)} landmarks describe the kernel on all {n} rows"
        return Choice("features", f"{found}, so a fit on their features is one on all rows")
    if n <= SMALL_SAMPLE:
        return Choice("local", f"{short}, and {n} rows are few enough for one exact fit")
    return Choice("local", f"{short}, and random subsets of {n} rows would lose resolution")


def choose_leaves(problem: KernelProblem, *, seed: int, n_jobs: int | None = None) -> Choice:
    """Choose the size of leaves and the number of trees, as a pair.

    A function that is smooth between rows wants large leaves, one that changes its character from place to
    place small ones. In a few neighbourhoods of 1000 rows both are tried; leave-one-out errors decide.

    Parameters
    ----------
    problem : KernelProblem
        With shared units, and the penalty that will be used.
    seed : int
        Of the neighbourhoods.
    n_jobs : int, optional

    Notes
    -----
    O(1000^3) operations, whatever n.
    """
    n = len(problem.y)
    if n <= SMALL_SAMPLE:
        return Choice((n, 1), f"{n} rows are few enough for one exact fit on all of them")
    (small, _), (large, _) = LEAVES
    rng = stream(seed, 0)
    around = PartitionTree.grow(problem.points * column_widths(problem), large, rng).leaves
    errors = np.zeros(len(LEAVES))
    for number in rng.permutation(len(around))[:PILOT_NEIGHBOURHOODS]:
        part = problem.rows(around[number])
        for candidate, (size, trees) in enumerate(LEAVES):
            cut = grow_trees(part, size, seed, range(1 if size == large else trees))
            residuals = leave_one_out_residuals(part, cut, n_jobs=n_jobs)
            errors[candidate] += float((residuals**2).sum())
    better = LEAVES[int(np.argmin(errors))]
    gain = 1 - np.sqrt(errors.min() / max(errors.max(), np.finfo(np.float64).tiny))
    other = large if better[0] == small else small
    return Choice(better, f"leave-one-out errors {gain:.0%} smaller than with leaves of {other} rows")


def find_landmarks(
    points: FloatArray, kernel: Kernel, alpha: float, *, rng: np.random.Generator
) -> Landmarks:
    """Return landmarks that make a fit with penalty `alpha` on all rows, if 500 are enough for that."""
    tolerance = LANDMARK_SHARE * alpha / len(points)
    return choose_landmarks(points, kernel, tolerance=tolerance, max_landmarks=MAX_LANDMARKS, rng=rng)


def candidate_sizes(n: int) -> list[int]:
    """Return subset sizes to compare: half of the data or 500 rows, and halves of that."""
    sizes = [max(1, min(n // 2, LARGEST_SUBSET))]
    while len(sizes) < 5 and sizes[0] // 2 >= SMALLEST_SUBSET:
        sizes.insert(0, sizes[0] // 2)
    return sizes


def choose_subsets(
    problem: KernelProblem,
    *,
    sizes: list[int],
    alpha: float | None,
    alpha_all: float,
    statistic: str,
    n_resamples: int | None,
    rng: np.random.Generator,
) -> tuple[Choice, Choice | None]:
    """Choose the subset size and the penalty for the average of the members, out-of-bag.

    Parameters
    ----------
    problem : KernelProblem
        In shared units.
    sizes : list of int
        Candidates, increasing; one leaves only the penalty to be chosen.
    alpha : float or None
        The penalty where it is given.
    alpha_all : float
        Else: that of one fit on all rows, from which the search starts at alpha_all k / n.
    statistic, n_resamples
        Of the plan.
    rng : Generator

    Returns
    -------
    size : Choice
    alpha : Choice or None
        None where it was given.
    """
    n = len(problem.y)
    rows = pilot_rows(n, rng)
    errors: list[FloatArray] = []
    penalties: list[Choice | None] = []
    for size in sizes:
        plan = make_plan(n, statistic=statistic, subsample_size=size, n_resamples=n_resamples, rng=rng)
        if alpha is not None:
            errors += penalty_errors(problem, plan, np.array([alpha]), rows)
            penalties.append(None)
            continue
        path = penalty_path(alpha_all, plan)
        tried = penalty_errors(problem, plan, path, rows)
        penalties.append(choose_penalty(tried, path, plan))
        errors.append(tried[best_candidate(tried, default=0)])
    size_choice = choose_size(sizes, errors, n)
    return size_choice, penalties[sizes.index(size_choice.value)]
