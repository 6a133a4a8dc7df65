"""Predictions of rows that had no part in them: out of bag, and leave-one-out of ridge regression."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from .._core.arrays import to_numpy
from .._core.config import memory_budget
from .._core.typing import BoolArray, FloatArray, IntArray
from ..plans import ResamplingPlan

# Layout: numbers of subsets at which the error curve is computed.
CURVE_POINTS = 20
Features = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutOfBag:
    """Out-of-bag predictions for growing numbers of subsets.

    Attributes
    ----------
    n_resamples : ndarray of int, shape (g,)
        How many of the first subsets were used; the last entry is B.
    predictions : ndarray of shape (g, n, n_outputs)
        NaN where an observation is in all of those subsets.
    """

    n_resamples: IntArray
    predictions: FloatArray

    @property
    def share_predicted(self) -> FloatArray:
        """Share of observations that have an out-of-bag prediction, shape (g,)."""
        return np.asarray(np.isfinite(self.predictions).all(axis=2).mean(axis=1))

    def scores(self, y: FloatArray) -> FloatArray:
        """Return R^2 against y (n, n_outputs), averaged over outputs, shape (g,); NaN below two points."""
        return np.array([_r_squared(y, prediction) for prediction in self.predictions])

    def __repr__(self) -> str:
        return f"OutOfBag({self.predictions.shape[1]} observations, up to {self.n_resamples[-1]} subsets)"


def out_of_bag(
    predict_members: Callable[[slice], FloatArray],
    plan: ResamplingPlan,
    *,
    n_outputs: int,
    failed: BoolArray | None = None,
    units: IntArray | None = None,
) -> OutOfBag:
    """Average, for every observation, the members that did not see it.

    Parameters
    ----------
    predict_members : callable
        Takes a slice of observations, returns the predictions of all members there, (B, r, n_outputs).
    plan : ResamplingPlan
        The subsets of the members; with or without replacement.
    n_outputs : int
        Number of targets.
    failed : ndarray of bool, shape (B,), optional
        Members to leave out.
    units : ndarray of int, shape (n,), optional
        Group of every row: a member counts where it saw no row of the group.
    """
    n, n_subsets = plan.n_observations if units is None else len(units), plan.n_resamples
    grid = np.unique(np.geomspace(1, n_subsets, CURVE_POINTS).round().astype(np.intp))
    predictions = np.empty((grid.size, n, n_outputs))
    weights = np.ones(n_subsets) if plan.subset_weights is None else plan.subset_weights
    if failed is not None:
        weights = np.where(failed, 0.0, weights)
    step = max(1, memory_budget() // (32 * n_subsets * n_outputs))
    for part, absent in left_out_parts(plan, units, step):
        left_out = absent * weights[:, None]  # (B, r)
        total = np.cumsum(to_numpy(predict_members(part)) * left_out[:, :, None], axis=0)[grid - 1]
        share = np.cumsum(left_out, axis=0)[grid - 1, :, None]
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0: in every subset so far
            predictions[:, part] = total / share
    return OutOfBag(n_resamples=grid, predictions=predictions)


def left_out_parts(
    plan: ResamplingPlan, units: IntArray | None, step: int
) -> Iterator[tuple[slice, BoolArray]]:
    """Yield slices of at most `step` rows, and which subsets hold none of their groups, shape (B, r).

    The plan draws rows, or the groups themselves, numbered in `units` (n,).
    """
    if units is None:
        for block, rows in enumerate(plan.row_blocks):
            for start in range(rows.start, rows.stop, step):
                part = slice(start, min(start + step, rows.stop))
                yield part, _left_out_of(plan, block, part)
        return
    blocks = [_left_out_of(plan, block, rows) for block, rows in enumerate(plan.row_blocks)]
    absent = np.concatenate(blocks, axis=1)
    if plan.n_observations == len(units):  # rows were drawn: a group is absent where all of its rows are
        order = np.argsort(units, kind="stable")
        first = np.searchsorted(units[order], np.arange(int(units.max()) + 1))
        absent = np.logical_and.reduceat(absent[:, order], first, axis=1)
    for start in range(0, len(units), step):
        part = slice(start, min(start + step, len(units)))
        yield part, absent[:, units[part]]


def _left_out_of(plan: ResamplingPlan, block: int, part: slice) -> BoolArray:
    """Say which subsets do not contain which of the observations of `part`, shape (B, r)."""
    first = plan.row_blocks[block].start
    inside = slice(part.start - first, part.stop - first)
    return np.concatenate([plan.draw(tile, block).counts(inside) == 0 for tile in range(plan.n_tiles)])


def _r_squared(y: FloatArray, prediction: FloatArray) -> float:
    known = np.isfinite(prediction).all(axis=1)
    if np.count_nonzero(known) < 2:
        return float("nan")
    y, prediction = y[known], prediction[known]
    residual = ((y - prediction) ** 2).sum(axis=0)
    spread = ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    # scikit-learn's convention for a constant target: 1 if predicted perfectly, else 0
    constant = np.where(residual == 0, 1.0, 0.0)
    return float(np.where(spread == 0, constant, 1 - residual / np.where(spread == 0, 1.0, spread)).mean())


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
    _reach: FloatArray  # (n_outputs,): the largest |w_i e_i u_i|

    def at(self, X: FloatArray) -> RidgeChanges:
        """Return the changes at points (m, p)."""
        return RidgeChanges(self, _whitened(self._lower, self._features(X)))


@dataclass(frozen=True, slots=True, eq=False)
class RidgeChanges:
    """Changes of predictions at some points; see `inference.new_observation.Changes`."""

    _fit: RidgeWithoutRows
    _points: FloatArray  # (m, q)

    def reach(self, points: slice, output: int) -> FloatArray:
        """Bound |change| over all rows, by Cauchy-Schwarz, shape (t,)."""
        return np.asarray(np.linalg.norm(self._points[points], axis=1) * self._fit._reach[output])

    def values(self, points: slice, rows: IntArray, output: int) -> FloatArray:
        """Return prediction minus prediction without the row, shape (t, r)."""
        fit = self._fit
        u = _whitened(fit._lower, fit._features(fit._X[rows]))
        return np.asarray(self._points[points] @ (fit._pull[rows, output, None] * u).T)


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
    residuals, length = np.empty_like(y), np.empty((n, 1))
    for rows in parts:
        u = _whitened(lower, features(X[rows]))
        square = np.einsum("rq,rq->r", u, u)[:, None]
        left = np.maximum(1.0 - weight[rows] * square, np.finfo(np.float64).eps)
        residuals[rows], length[rows] = (y[rows] - u @ b) / left, np.sqrt(square)
    pull = weight * residuals
    reach = np.abs(pull * length).max(axis=0)
    return RidgeWithoutRows(residuals, features, X, lower, pull, reach)


def _whitened(lower: FloatArray, phi: FloatArray) -> FloatArray:
    return np.asarray(solve_triangular(lower, phi.T, lower=True).T)
