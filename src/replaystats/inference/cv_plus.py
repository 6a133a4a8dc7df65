"""Intervals for a new observation from fits that each left out one fold of the rows, or of the groups.

With mu_k the fit without fold k, s_k(x) the spread it expects at x, and R_i = |y_i - mu_k(x_i)| / s_k(x_i)
for row i of fold k, the interval at x is

    from   - quantile of s_k(x) R_i - mu_k(x)      to   quantile of s_k(x) R_i + mu_k(x)

over the rows i (CV+; Barber, Candes, Ramdas and Tibshirani 2021). Where rows come in groups and the new row
is of a new group, every group counts alike, however many rows it has, and one more group is infinitely far
away (Lee, Barber and Willett 2023).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from .._core.config import memory_budget
from .._core.random import stream
from .._core.thresholds import FOLDS, LARGE_DENSE_SYSTEM, SMALL
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_real
from ..kernel.kernels import Kernel
from ..kernel.widths import learn_bandwidths
from .pivot import Interval

# Rounding: weighted quantiles are compared with this tolerance: sums of 1 / n round.
_ROUNDING = 1e-9
Features = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class RowsOfFolds:
    """The calibration rows.

    Attributes
    ----------
    fold : ndarray of int, shape (r,)
    sizes : ndarray of shape (r, n_outputs)
        |residual| over the spread expected there.
    groups : ndarray of int, shape (r,), or None
        Groups of rows that depend on each other.
    """

    fold: IntArray
    sizes: FloatArray
    groups: IntArray | None = None

    def weights(self) -> FloatArray:
        """Return the share of every row in the quantile, (r,); they sum to G / (G + 1) over G groups."""
        if self.groups is None:
            return np.full(len(self.fold), 1.0 / (len(self.fold) + 1))
        _, place, sizes = np.unique(self.groups, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / (sizes[place] * (len(sizes) + 1)))


def cv_plus(
    rows: RowsOfFolds,
    values: Callable[[slice], tuple[FloatArray, FloatArray]],
    n_points: int,
    confidence_level: float,
) -> Interval:
    """Return the CV+ interval for a new observation at every point.

    Parameters
    ----------
    rows : RowsOfFolds
    values : callable
        Takes a slice of the points; returns predictions and spreads of the K fits, (K, t, n_outputs) each.
    n_points : int
    confidence_level : float in (0, 1)

    Returns
    -------
    Interval
        Arrays (m, n_outputs); infinite where the rows, or groups, are too few for the level.

    Notes
    -----
    For exchangeable rows (or groups) a new observation is inside with probability at least about
    ``1 - 2 (1 - confidence_level)`` whatever the regression, and in practice with `confidence_level`.

    Examples
    --------
    >>> y = np.arange(20.0) % 7
    >>> fold = np.arange(20) % 4
    >>> means = np.array([y[fold != k].mean() for k in range(4)])[:, None, None]
    >>> rows = RowsOfFolds(fold, np.abs(y - means[fold, 0, 0])[:, None])
    >>> low, high = cv_plus(rows, lambda part: (means, np.ones_like(means)), 1, 0.8)
    >>> np.abs(low).round(1), high.round(1)
    (array([[0.]]), array([[5.9]]))
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    n_outputs, weights = rows.sizes.shape[1], rows.weights()
    low, high = np.full((2, n_points, n_outputs), np.inf)
    if weights.sum() >= level - _ROUNDING:
        step = max(1, memory_budget() // (64 * len(rows.fold)))
        for first in range(0, n_points, step):
            part = slice(first, min(first + step, n_points))
            means, spreads = values(part)
            for output in range(n_outputs):
                centre = means[rows.fold, :, output].T
                width = spreads[rows.fold, :, output].T * rows.sizes[:, output]
                low[part, output] = weighted_quantile(width - centre, weights, level)
                high[part, output] = weighted_quantile(width + centre, weights, level)
    return Interval(-low, high)


def weighted_quantile(values: FloatArray, weights: FloatArray, level: float) -> FloatArray:
    """Return the smallest entry of every row of values (t, r) at which weights (r,) reach the level.

    Examples
    --------
    >>> weighted_quantile(np.array([[3.0, 1.0, 2.0]]), np.array([0.5, 0.25, 0.25]), 0.5)
    array([2.])
    """
    if weights.min() == weights.max():
        place = int(np.ceil(round(level / weights[0], 9))) - 1
        return np.asarray(np.partition(values, place, axis=1)[:, place])
    order = np.argsort(values, axis=1)
    reached = np.cumsum(weights[order], axis=1) >= level - _ROUNDING
    first = np.argmax(reached, axis=1)
    return np.asarray(np.take_along_axis(values, np.take_along_axis(order, first[:, None], 1), 1)[:, 0])


class Coverage(NamedTuple):
    """How many observed targets lay inside intervals that were drawn without looking at them.

    Attributes
    ----------
    share : float
        Of all rows.
    by_prediction : tuple of float
        Of the rows with the lowest, middle and highest third of predictions: equal shares mean that the
        interval is as good for small as for large values.
    n_rows : int
    """

    share: float
    by_prediction: tuple[float, float, float]
    n_rows: int


def measured_coverage(
    predictions: FloatArray,
    sizes: FloatArray,
    confidence_level: float,
    *,
    groups: IntArray | None = None,
    n_parts: int = 10,
) -> Coverage:
    """Measure what intervals cover, on rows that do not enter their width.

    Rows, or groups, are split into parts by their number; the quantile for a part's residuals is taken among
    those of the other parts.

    Parameters
    ----------
    predictions, sizes : ndarray of shape (n,)
        Out-of-bag, cross-validated or leave-one-out predictions, and |residual| over the expected spread.
        NaN takes no part.
    confidence_level : float in (0, 1)
    groups : ndarray of int, shape (n,), optional
    n_parts : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=3000)
    >>> even = measured_coverage(x, np.abs(rng.normal(size=3000)), 0.9)
    >>> growing = measured_coverage(x, x * np.abs(rng.normal(size=3000)), 0.9)
    >>> round(even.share, 2), round(growing.share, 2)
    (0.9, 0.9)
    >>> growing.by_prediction[0] > 0.97 > 0.85 > growing.by_prediction[2]
    True
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    known = np.isfinite(sizes) & np.isfinite(predictions)
    sizes, labels = sizes[known], np.arange(np.count_nonzero(known)) if groups is None else groups[known]
    part, inside = labels % n_parts, np.zeros(len(sizes), dtype=bool)
    for number in range(n_parts):
        own, others = part == number, np.flatnonzero(part != number)
        rows = RowsOfFolds(others, sizes[others, None], None if groups is None else labels[others])
        weights = rows.weights() if len(others) else np.zeros(0)
        enough = weights.sum() >= level - _ROUNDING
        reached = weighted_quantile(sizes[None, others], weights, level)[0] if enough else np.inf
        inside[own] = sizes[own] <= reached
    ordered = np.array_split(inside[np.argsort(predictions[known], kind="stable")], 3)
    low, middle, high = (float(third.mean()) if third.size else float("nan") for third in ordered)
    return Coverage(float(inside.mean()) if inside.size else float("nan"), (low, middle, high), len(sizes))


# How large the noise is from place to place: a kernel regression of the logarithm of residuals.
#
# Noise may change along columns that do not move the mean, so its widths are learnt from the residuals
# themselves. Every row is judged by a fit on the other folds (Lei and others 2018, locally weighted conformal
# inference).


@dataclass(frozen=True, slots=True, eq=False)
class _LogFit:
    """A kernel expansion of log |residual|."""

    points: FloatArray
    dual: FloatArray  # (r, n_outputs)
    mean: FloatArray  # (n_outputs,)
    kernel: Kernel

    @classmethod
    def of(cls, points: FloatArray, logs: FloatArray, rng: np.random.Generator) -> _LogFit:
        mean = logs.mean(axis=0)
        learnt = learn_bandwidths(points, logs - mean, random_state=rng)
        rows = rng.permutation(len(points))[:LARGE_DENSE_SYSTEM]
        kernel = Kernel("rbf", tuple(learnt.gamma.tolist()))
        C = kernel(points[rows], points[rows])
        C[np.diag_indices(len(rows))] += learnt.alpha
        return cls(points[rows], np.linalg.solve(C, logs[rows] - mean), mean, kernel)

    def __call__(self, points: FloatArray) -> FloatArray:
        step = max(1, memory_budget() // (32 * len(self.points)))
        parts = [
            self.kernel(points[first : first + step], self.points) @ self.dual
            for first in range(0, len(points), step)
        ]
        return np.concatenate(parts) + self.mean


@dataclass(frozen=True, slots=True, eq=False)
class LocalNoise:
    """Typical |residual| at rows of the data and at new points.

    Attributes
    ----------
    scale : ndarray of shape (n, n_outputs)
        At the rows, from fits on other folds, so that a row's residual is judged without itself.
    """

    scale: FloatArray
    _fits: list[_LogFit]

    @classmethod
    def of(cls, points: FloatArray, residuals: FloatArray, groups: IntArray | None = None) -> LocalNoise:
        """Learn the noise.

        1. Take logarithms of |residual|, none below a tenth of the mean.
        2. Deal rows, or groups, into five folds; learn widths and penalty of a kernel regression of the
           logarithms on the rows outside each fold.
        3. Keep it only where its squared errors on the folds are smaller than those of the mean by more than
           a standard error; otherwise the noise counts as equal everywhere.

        Parameters
        ----------
        points : ndarray of shape (n, p)
            With columns of unit scale.
        residuals : ndarray of shape (n, n_outputs)
            Of rows that their predictions did not use; NaN takes no part.
        groups : ndarray of int, shape (n,), optional

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1.7, 1.7, size=(600, 1))
        >>> noise = LocalNoise.of(x, (2 + x) * rng.normal(size=(600, 1)))
        >>> low, high = noise(np.array([[-1.0], [1.0]]))[:, 0]
        >>> bool(2 < high / low < 4)
        True
        """
        known = np.isfinite(residuals).all(axis=1)
        sizes = np.abs(residuals[known])
        tiny = float(np.finfo(np.float64).tiny)
        logs = np.log(np.maximum(sizes, np.maximum(SMALL * sizes.mean(axis=0), tiny)))
        rows, rng = points[known], stream(0, 3)
        units = np.arange(len(rows)) if groups is None else groups[known]
        fold = rng.permutation(int(units.max(initial=0)) + 1)[units] % FOLDS
        predicted, fits, plain = np.empty_like(logs), [], np.empty_like(logs)
        for number in np.unique(fold):
            held = fold == number
            others = ~held if not held.all() else held
            fits.append(_LogFit.of(rows[others], logs[others], rng))
            predicted[held], plain[held] = fits[-1](rows[held]), logs[others].mean(axis=0)
        gain = ((logs - plain) ** 2 - (logs - predicted) ** 2).mean(axis=1)
        scale = np.full(residuals.shape, np.nan)
        if gain.mean() > gain.std() / np.sqrt(max(len(gain), 1)):
            scale[known] = np.exp(predicted - logs.mean(axis=0))
            return cls(scale, fits)
        scale[known] = 1.0
        return cls(scale, [])

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return the typical size of the noise at new points (m, p), shape (m, n_outputs)."""
        if not self._fits:
            return np.ones((len(points), self.scale.shape[1]))
        logs = np.mean([fit(points) - fit.mean for fit in self._fits], axis=0)
        return np.asarray(np.exp(logs))


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
