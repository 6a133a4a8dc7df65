"""Ridge regression on features of a kernel, replayed over blocks of rows by the moment engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from .._core.config import memory_budget
from .._core.errors import must_be
from .._core.random import as_generator
from .._core.thresholds import LARGE_DENSE_SYSTEM, MANY, SEVERAL
from .._core.typing import BoolArray, FloatArray, IntArray, RandomLike
from .._core.validation import check_rows_magnitude
from ..basis import Basis, Nystroem
from ..engine import MomentReplicates, replicate
from ..engine.executors import make_executor
from ..engine.linear import LinearPart
from ..moments import Moments
from ..moments.linear import random_blocks
from ..plans import ResamplingPlan
from ..solvers import Ridge
from .kernels import Kernel
from .local import column_widths
from .problem import KernelProblem
from .scaling import Scaling

# Batch: features that are held before they are summed: enough that calls cost nothing.
_HELD_BYTES = 2**26
Features = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureUnits:
    """Which features a point has: units, widths, and a fitted basis."""

    scaling: Scaling | None
    widths: FloatArray  # (p,)
    basis: Basis

    @classmethod
    def of_landmarks(cls, problem: KernelProblem, landmarks: Landmarks) -> FeatureUnits:
        """Return Nystroem features of the kernel."""
        widths = column_widths(problem)
        places = problem.points[landmarks.rows] * widths
        basis = Nystroem(len(places), gamma=1.0, landmarks=places)
        return cls(scaling=problem.shared_scaling, widths=widths, basis=basis)

    @classmethod
    def of_basis(cls, problem: KernelProblem, basis: Basis, rng: np.random.Generator) -> FeatureUnits:
        """Return a basis fitted to the points; a Gaussian one without a width takes the kernel's."""
        widths = column_widths(problem)
        if getattr(basis, "gamma", 1.0) is None:
            basis = replace(basis, gamma=1.0)  # type: ignore[type-var]
        else:
            widths = np.ones_like(widths)
        fitted = basis.fit(problem.points * widths, rng)
        return cls(scaling=problem.shared_scaling, widths=widths, basis=fitted)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the features of X (m, p), shape (m, q)."""
        return self.basis(self.points(X))

    def of_points(self, points: FloatArray) -> FloatArray:
        """Return the features of points (m, p) that are in the units of the kernel, shape (m, q)."""
        return self.basis(points * self.widths)

    def points(self, X: FloatArray) -> FloatArray:
        """Return X in the units that the basis sees."""
        return (X if self.scaling is None else self.scaling(X)) * self.widths


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureRidge:
    """Ridge regressions in feature space on subsets of blocks of rows: a ratio of moments behind features.

    Attributes
    ----------
    features : FeatureUnits
        From points (m, p) to features (m, q).
    offset : ndarray of shape (n_outputs,)
        What was taken off y.
    coefficients : MomentReplicates
        The fits on subsets of the blocks.
    alpha : float
        Penalty of a fit on all blocks.
    n_rows : int or None
        Number of rows behind the blocks, where only some of them are in memory.
    plan, failed
        Of the coefficients: subsets of blocks, and fits that take no part in averages.
    """

    features: FeatureUnits
    offset: FloatArray
    coefficients: MomentReplicates
    alpha: float
    n_rows: int | None = None
    plan: ResamplingPlan = field(init=False)
    failed: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", self.coefficients.plan)
        object.__setattr__(self, "failed", self.coefficients.failed)

    def values(self, X: FloatArray) -> FloatArray:
        """Return the prediction of every subset at X (m, p), shape (B, m, n_outputs)."""
        return self.coefficients.values(self.features(X)) + self.offset

    def mean(self, X: FloatArray) -> FloatArray:
        """Return the average prediction at X (m, p), shape (m, n_outputs)."""
        return self.coefficients.mean(self.features(X)) + self.offset

    def linear(self, X: FloatArray) -> LinearPart | None:
        """Return the linear part of the predictions."""
        return self.coefficients.linear(self.features(X))

    def smooth(self, problem: KernelProblem, y: FloatArray, X: FloatArray) -> FloatArray:
        """Fit other targets y (n, n_outputs) on all rows of the problem, and predict them at X (m, p).

        Of rows that are some of many, with their share of the penalty.
        """
        other = problem.with_targets(y)
        weight = np.ones((len(y), 1)) if other.root_weight is None else other.root_weight[:, None] ** 2
        step = max(1, memory_budget() // (32 * self.features.basis.n_basis))
        A = np.diag(np.full(self.features.basis.n_basis, self.alpha * len(y) / (self.n_rows or len(y))))
        b = np.zeros((len(A), y.shape[1]))
        for first in range(0, len(y), step):
            part = slice(first, first + step)
            phi = self.features.of_points(other.points[part])
            A += phi.T @ (weight[part] * phi)
            b += phi.T @ (weight[part] * other.y[part])
        theta = np.linalg.solve(A, b)
        return np.asarray(self.features(X) @ theta + other.shared_intercept)

    def extend(self, n_more: int) -> FeatureRidge:
        """Return the fits with `n_more` further subsets of blocks; the first ones are not computed again."""
        return replace(self, coefficients=self.coefficients.extend(n_more))

    def __len__(self) -> int:
        return len(self.coefficients)

    def __repr__(self) -> str:
        return f"FeatureRidge(q={self.features.basis.n_basis}, {self.coefficients!r})"


def block_moments(
    features: FeatureUnits,
    X: FloatArray,
    y: FloatArray,
    sample_weight: FloatArray | None,
    *,
    units: IntArray | None = None,
    rng: np.random.Generator,
) -> Moments:
    """Return the moments of random blocks of rows, as many as the budget allows up to 200.

    Rows of weight zero are in none: they add nothing, and a block of them would be no observation. Rows of
    one group, numbered in `units` (n,), are in one block.
    """
    used = np.arange(len(X)) if sample_weight is None else np.flatnonzero(sample_weight)
    labels = np.arange(len(used)) if units is None else np.unique(units[used], return_inverse=True)[1]
    n_groups, q = int(labels.max()) + 1, features.basis.n_basis
    n_blocks = n_parts(n_groups, q)
    part = np.empty(n_groups, dtype=np.intp)
    for number, block in enumerate(random_blocks(n_groups, n_blocks, random_state=rng)):
        part[block] = number
    targets = y.reshape(len(y), -1)[used]
    weight = None if sample_weight is None else sample_weight[used]
    rows = sum_parts(features, X[used], targets, part[labels], (n_blocks, q), weight)
    return Moments.from_rows(rows, q, None if y.ndim == 1 else y.shape[1], symmetric=True)


def n_parts(n: int, q: int) -> int:
    """Return into how many blocks n rows or groups are dealt: 100, or as many as the memory budget allows."""
    bytes_each, budget = 4 * q * (q + 1), memory_budget()
    n_blocks = min(n, MANY, budget // (4 * bytes_each))
    if n_blocks < min(n, SEVERAL):
        needed = SEVERAL * 4 * bytes_each
        raise ValueError(must_be("memory_budget", f"at least {needed} bytes for {q} features", budget))
    return n_blocks


def sum_parts(
    features: FeatureUnits,
    X: FloatArray,
    y: FloatArray,
    part: IntArray,
    shape: tuple[int, int],
    sample_weight: FloatArray | None = None,
) -> FloatArray:
    """Return [upper triangle of sum w phi phi^T | sum w phi y] of every part, some parts at a time.

    `part` (n,) numbers the part of every row from 0; y is (n, n_outputs); `shape` numbers parts and features.
    """
    n_parts, q = shape
    triangle, sums = np.triu_indices(q), np.zeros((n_parts, q * (q + 1) // 2 + q * y.shape[1]))
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], np.arange(n_parts + 1))
    rows = max(1, min(_HELD_BYTES, memory_budget() // 4) // (8 * q))
    step = max(1, rows * n_parts // len(y))  # parts at a time
    for first in range(0, n_parts, step):
        last = min(first + step, n_parts)
        some = order[ends[first] : ends[last]]
        phi, aim = check_rows_magnitude(features(X[some]), "X"), y[some]
        if sample_weight is not None:  # its root on each side of the products
            root = np.sqrt(sample_weight[some, None])
            phi, aim = phi * root, aim * root
        for number in range(first, last):
            own = slice(ends[number] - ends[first], ends[number + 1] - ends[first])
            A, b = phi[own].T @ phi[own], phi[own].T @ aim[own]
            sums[number] = np.concatenate([A[triangle], b.ravel()])
    return sums


def replay_blocks(
    features: FeatureUnits,
    moments: Moments,
    offset: FloatArray,
    alpha: float,
    plan: ResamplingPlan,
    *,
    on_failure: str,
    n_jobs: int | None = None,
    n_rows: int | None = None,
) -> FeatureRidge:
    """Fit ridge regression on subsets of the blocks.

    The penalty of a subset is alpha k / n, so that it weighs as much per row as on all data.
    """
    replicates = replicate(
        moments,
        plan,
        solver=Ridge(alpha * plan.subsample_size / moments.n_observations),
        executor=make_executor(n_jobs),
        on_failure=on_failure,
    )
    return FeatureRidge(features=features, offset=offset, coefficients=replicates, alpha=alpha, n_rows=n_rows)


# The fit solves (A + alpha I) theta = b with A = Phi^T W Phi and b = Phi^T W y. With L L^T = A + alpha I,
# u = L^-1 phi and h_i = w_i |u_i|^2, exactly
#
#     e_i = (y_i - phi_i^T theta) / (1 - h_i)             residual of row i from the fit without it
#     h(x) - h_-i(x) = w_i e_i u(x)^T u_i                 change of the prediction at x when row i is left out


@dataclass(frozen=True, slots=True, eq=False)
class RidgeWithoutRows:
    """Leave-one-out residuals of a ridge regression, and what leaving rows out does elsewhere.

    Attributes
    ----------
    residuals : ndarray of shape (n, n_outputs)
    """

    residuals: FloatArray
    _features: Features
    _X: FloatArray
    _lower: FloatArray  # (q, q)
    _pull: FloatArray  # (n, n_outputs): w_i e_i

    def at(self, X: FloatArray) -> Callable[[slice, IntArray, int], FloatArray]:
        """Return the changes at points (m, p); see `inference.new_observation.Changes`."""
        asked = _whitened(self._lower, self._features(X))

        def changes(points: slice, rows: IntArray, output: int) -> FloatArray:
            u = _whitened(self._lower, self._features(self._X[rows]))
            return np.asarray(asked[points] @ (self._pull[rows, output, None] * u).T)

        return changes


def ridge_leave_one_out(
    features: Features,
    X: FloatArray,
    y: FloatArray,
    A: FloatArray,
    alpha: float,
    *,
    sample_weight: FloatArray | None = None,
    b: FloatArray | None = None,
) -> RidgeWithoutRows:
    """Leave every row out of a ridge regression.

    Parameters
    ----------
    features : callable
        Takes points (r, p), returns their features (r, q).
    X : ndarray of shape (n, p)
    y : ndarray of shape (n, n_outputs)
        In the units of the fit (centred, where it is).
    A : ndarray of shape (q, q)
        The (weighted) sum of phi phi^T.
    alpha : float
    sample_weight : ndarray of shape (n,), optional
    b : ndarray of shape (q, n_outputs), optional
        The sum of phi y where X and y are only some of the rows; those of X by default.

    Notes
    -----
    Two passes over the rows, O(n q^2). An intercept that was taken off y before is held fixed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
    >>> without = ridge_leave_one_out(lambda X: X, X, y, X.T @ X, 0.5)
    >>> theta = np.linalg.solve(X[1:].T @ X[1:] + 0.5 * np.eye(3), X[1:].T @ y[1:])
    >>> np.allclose(without.residuals[0], y[0] - X[0] @ theta)
    True
    """
    n, q = len(y), len(A)
    lower = np.asarray(np.linalg.cholesky(A + alpha * np.eye(q)), dtype=np.float64)
    weight = np.ones((n, 1)) if sample_weight is None else sample_weight[:, None]
    step = max(1, memory_budget() // (64 * q))
    parts = [slice(first, min(first + step, n)) for first in range(0, n, step)]
    # In whitened features u the fit is u^T L^-1 b.
    if b is None:
        b = np.sum([features(X[rows]).T @ (weight[rows] * y[rows]) for rows in parts], axis=0)
    b = _whitened(lower, np.transpose(b)).T
    residuals = np.empty_like(y)
    for rows in parts:
        u = _whitened(lower, features(X[rows]))
        square = np.einsum("rq,rq->r", u, u)[:, None]
        left = np.maximum(1.0 - weight[rows] * square, np.finfo(np.float64).eps)
        residuals[rows] = (y[rows] - u @ b) / left
    return RidgeWithoutRows(residuals, features, X, lower, weight * residuals)


def _whitened(lower: FloatArray, phi: FloatArray) -> FloatArray:
    return np.asarray(solve_triangular(lower, phi.T, lower=True).T)


# Landmarks that stand for all rows: the pivots of a Cholesky factorisation of the kernel matrix.
#
# The factorisation takes, at every step, the row that the landmarks so far describe worst, and knows how
# badly. When no row's error exceeds t, the Nystroem kernel differs from the kernel by at most n t in any
# direction, so landmarks with n t well below the penalty give the same fit as all n rows.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Landmarks:
    """Rows that describe the others.

    Attributes
    ----------
    rows : ndarray of int, shape (m,)
        Best first.
    complete : bool
        Whether they describe every candidate to within the tolerance.
    n_candidates : int
    tolerance : float
    """

    rows: IntArray
    complete: bool
    n_candidates: int
    tolerance: float

    def suffice(self, n_rows: int) -> bool:
        """Whether they describe the candidates, and are few enough among all rows to save work."""
        return self.complete and 4 * len(self.rows) <= n_rows

    def __repr__(self) -> str:
        enough = "enough" if self.complete else "not enough"
        return f"Landmarks({len(self.rows)} of {self.n_candidates} candidates, {enough})"


def choose_landmarks(
    points: FloatArray,
    kernel: Kernel,
    *,
    tolerance: float,
    max_landmarks: int,
    n_candidates: int = LARGE_DENSE_SYSTEM,
    random_state: RandomLike = None,
) -> Landmarks:
    """Choose landmarks among random candidates by a pivoted Cholesky factorisation.

    Parameters
    ----------
    points : ndarray of shape (n, p)
    kernel : Kernel
        Of points, with values of at most about one on the diagonal.
    tolerance : float
        Largest error k(x, x) - k_m(x, x) that a row may be left with.
    max_landmarks : int
        Stop there; `complete` is then False.
    n_candidates : int
        Rows to choose from, which also tell whether the landmarks are enough, O(n_candidates m^2) operations.
    random_state : None, int, Generator, RandomState or SeedSequence

    Examples
    --------
    >>> points = np.linspace(0, 1, 500)[:, None]
    >>> choose_landmarks(points, Kernel("rbf"), tolerance=1e-6, max_landmarks=50, random_state=0)
    Landmarks(6 of 500 candidates, enough)
    """
    candidates = as_generator(random_state).permutation(len(points))[:n_candidates]
    sample = points[candidates]
    # Below rounding no pivot means anything.
    tolerance = max(tolerance, len(sample) * float(np.finfo(np.float64).eps))
    _, pivots, rank, _ = dpstrf(kernel(sample, sample).T, tol=tolerance, lower=1, overwrite_a=1)
    chosen = candidates[pivots[: min(rank, max_landmarks)] - 1]
    return Landmarks(
        rows=chosen, complete=rank <= max_landmarks, n_candidates=len(candidates), tolerance=tolerance
    )
