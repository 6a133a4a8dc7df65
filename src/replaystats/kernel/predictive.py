"""How far a new observation may be from a fit: where rows are sparse, and where there is more noise.

Under the Gaussian process behind kernel ridge regression, y at a new point x has the variance

    v(x) = alpha + k(x, x) - k(x)' C^-1 k(x),        C = K + alpha I

in units of the process: noise, and what the rows leave open about the function. For a row that is in C the
variance without it is 1 / (C^-1)_ii. Only ratios of v are used, so the scale of the process does not matter;
and only places that are farther from the rows than nine of ten rows are from the others count as wider.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from .._core.config import memory_budget
from .._core.random import stream
from .._core.thresholds import DENSE_SYSTEM, FOLDS, LARGE_DENSE_SYSTEM, SMALL
from .._core.typing import BoolArray, FloatArray, IntArray
from .kernels import Kernel
from .problem import KernelProblem
from .widths import learn_bandwidths


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Predictive standard deviations of a Gaussian process on up to 500 of the rows, 1 inside the data.

    Attributes
    ----------
    problem : KernelProblem
    rows : ndarray of int, shape (m,)
        Of the process.
    """

    problem: KernelProblem
    rows: IntArray
    _lower: FloatArray
    _own: FloatArray  # (m,): of these rows, each without itself
    _typical: float

    @classmethod
    def of(cls, problem: KernelProblem) -> Spread:
        """Factor the system of random rows.

        Parameters
        ----------
        problem : KernelProblem
            With shared units, and a kernel that has a diagonal.

        Examples
        --------
        >>> from replaystats.kernel.kernels import Kernel
        >>> X = np.linspace(0, 1, 50)[:, None]
        >>> problem = KernelProblem.checked(X, X[:, 0], 0.1, Kernel("rbf", 10.0), None, None)
        >>> inside, outside = Spread.of(problem)(np.array([[0.5], [3.0]])).round(2)
        >>> float(inside), float(outside)
        (1.0, 3.04)
        """
        weight = problem.root_weight
        used = np.arange(len(problem.y)) if weight is None else np.flatnonzero(weight)
        rows = np.sort(stream(0, 2).permutation(used)[:DENSE_SYSTEM])
        points = problem.points[rows]
        C = problem.kernel(points, points)
        noise = problem.alpha if weight is None else problem.alpha / weight[rows] ** 2
        # Without a penalty rounding alone makes C singular where rows are close together.
        C[np.diag_indices(len(rows))] += np.maximum(noise, 1e-10 * np.trace(C) / len(rows))
        lower = np.tril(cho_factor(C, lower=True)[0])
        inverse = np.diag(cho_solve((lower, True), np.eye(len(rows))))
        own = np.maximum(1 / inverse - noise, 0.0) + problem.alpha  # a new observation has weight one
        own = np.sqrt(np.maximum(own, np.finfo(np.float64).tiny))
        # Inside the data spreads say little: dividing by them everywhere made intervals 10 to 20 % wider at
        # the same coverage (300 rows, 100 columns).
        return cls(problem, rows, lower, own, float(np.quantile(own, 1 - SMALL)))

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the relative spread of a new observation at X (m, p), in the units of the data, (m,)."""
        scaling = self.problem.shared_scaling
        return self._at(X if scaling is None else scaling(X))

    def of_rows(self, rows: IntArray) -> FloatArray:
        """Return the same at some rows (r,) of the problem, each without itself, shape (r,)."""
        found = self._at(self.problem.points[rows])
        place = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        own = self.rows[place] == rows
        found[own] = np.maximum(self._own[place[own]] / self._typical, 1.0)
        return found

    def _at(self, points: FloatArray) -> FloatArray:
        kernel, places = self.problem.kernel, self.problem.points[self.rows]
        step = max(1, memory_budget() // (64 * len(places)))
        found = np.empty(len(points))
        for first in range(0, len(points), step):
            part = slice(first, first + step)
            half = solve_triangular(self._lower, kernel(places, points[part]), lower=True)
            left = kernel.diagonal(points[part]) - np.einsum("rm,rm->m", half, half)
            found[part] = self.problem.alpha + np.maximum(left, 0.0)
        return np.maximum(np.sqrt(found) / self._typical, 1.0)


def beyond_numbers(rows: FloatArray, points: FloatArray, level: float) -> BoolArray:
    """Return which points (m, p) are farther beyond the rows (n, p) than rows are beyond each other.

    The distance is how far a column is beyond its smallest or largest value, in ranges of the column, the
    largest over the columns. It is compared with that of every row from the others: of rows like these, at
    most a share `level` is farther away (conformal p-values; Vovk, Gammerman and Shafer 2005). Missing values
    are not beyond.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> beyond_numbers(X, np.array([[0.0, 0.0], [0.0, 6.0]]), 0.005).tolist()
    [False, True]
    """
    known = np.isfinite(rows).any(axis=0)
    rows, points = rows[:, known], points[:, known]
    middle = np.nanmedian(np.where(np.isfinite(rows), rows, np.nan), axis=0)
    rows, points = (np.where(np.isfinite(X), X, middle) for X in (rows, points))
    low, high, own = rows.min(axis=0), rows.max(axis=0), np.zeros(len(rows))
    if len(rows) > 1:
        ordered = np.partition(rows, (0, 1, len(rows) - 2, len(rows) - 1), axis=0)
        below = (ordered[1] - rows) / _widths(ordered[1], high)  # beyond the others, for the extreme rows
        above = (rows - ordered[-2]) / _widths(low, ordered[-2])
        own = np.maximum(below, above).max(axis=1, initial=0.0)
    excess = np.maximum(low - points, points - high) / _widths(low, high)
    return np.asarray(excess.max(axis=1, initial=-np.inf) > exceeded(own, level))


def _widths(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the ranges of columns; of a constant one its size, at least one."""
    return np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))


def beyond_columns(rows: Any, points: Any, level: float) -> BoolArray:
    """Return which points have a number or date beyond those of the rows, or a category they do not have.

    Parameters
    ----------
    rows, points : arrays, sparse matrices or data frames of the same columns
    level : float
        Of the conformal p-value.
    """
    if not hasattr(rows, "iloc"):
        rows, points = (X.toarray() if hasattr(X, "toarray") else np.asarray(X) for X in (rows, points))
        if rows.dtype.kind in "OUS":
            new = [~np.isin(points[:, j], rows[:, j]) for j in range(rows.shape[1])]
            return np.asarray(np.any(new, axis=0))
        return beyond_numbers(np.asarray(rows, dtype=np.float64), np.asarray(points, np.float64), level)
    found, numbers = np.zeros(len(points), dtype=bool), []
    for name in rows.columns:
        own, asked = rows[name], points[name]
        if own.dtype.kind == "M":
            own, asked = (column.astype("datetime64[ns]").astype("int64") for column in (own, asked))
        if own.dtype.kind in "biuf":
            numbers.append((own.to_numpy(dtype=np.float64), asked.to_numpy(dtype=np.float64)))
        else:
            found |= ~asked.isin(own).to_numpy() & asked.notna().to_numpy()
    if numbers:
        mine, theirs = (np.column_stack(part) for part in zip(*numbers, strict=True))
        found |= beyond_numbers(mine, theirs, level)
    return found


def exceeded(own: FloatArray, level: float) -> float:
    """Return the value that a new row like these exceeds with probability `level`, or 1 / (n + 1)."""
    place = int(np.floor(level * (len(own) + 1)))
    return float(np.sort(own)[max(0, len(own) - max(1, place))])


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
