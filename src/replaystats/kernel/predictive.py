"""How far a new observation may be from a kernel fit where rows are sparse, relative to other places.

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
from .._core.typing import BoolArray, FloatArray, IntArray
from .problem import KernelProblem

# Rows of the process: a factorisation of so many takes a hundredth of a second.
PROCESS_ROWS = 500
# Spreads up to this quantile of the rows' own count as equal. Dividing by spreads everywhere made intervals
# 10 to 20 % wider at the same coverage (300 rows, 100 columns), because inside the data they say little.
TYPICAL = 0.9


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
        rows = np.sort(stream(0, 2).permutation(used)[:PROCESS_ROWS])
        points = problem.points[rows]
        C = problem.kernel(points, points)
        noise = problem.alpha if weight is None else problem.alpha / weight[rows] ** 2
        # Without a penalty rounding alone makes C singular where rows are close together.
        C[np.diag_indices(len(rows))] += np.maximum(noise, 1e-10 * np.trace(C) / len(rows))
        lower = np.tril(cho_factor(C, lower=True)[0])
        inverse = np.diag(cho_solve((lower, True), np.eye(len(rows))))
        own = np.maximum(1 / inverse - noise, 0.0) + problem.alpha  # a new observation has weight one
        own = np.sqrt(np.maximum(own, np.finfo(np.float64).tiny))
        return cls(problem, rows, lower, own, float(np.quantile(own, TYPICAL)))

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


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """Where the rows are, and how far a new row may be from them by chance.

    Two measures of distance: how far a column is beyond its smallest or largest value, in ranges of the
    column, the largest over the columns; and the spread of the process. Each is compared with that of every
    row from the others: of rows like these, at most a share `level` is farther away (conformal p-values;
    Vovk, Gammerman and Shafer 2005).
    """

    low: FloatArray
    high: FloatArray
    width: FloatArray
    beyond: float

    @classmethod
    def of(cls, X: FloatArray, level: float) -> Range:
        """Measure rows (n, p).

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(500, 2))
        >>> Range.of(X, 0.005).outside(np.array([[0.0, 0.0], [0.0, 6.0]])).tolist()
        [False, True]
        """
        low, high = X.min(axis=0), X.max(axis=0)
        width = np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
        own = np.zeros(len(X))
        if len(X) > 1:
            ordered = np.partition(X, (0, 1, len(X) - 2, len(X) - 1), axis=0)
            below, above = ordered[1] - X, X - ordered[-2]  # beyond the others, for the extreme rows
            own = np.maximum(np.maximum(below, above) / width, 0.0).max(axis=1, initial=0.0)
        return cls(low, high, width, exceeded(own, level))

    def outside(self, X: FloatArray) -> BoolArray:
        """Return which points (m, p) are farther beyond the range than rows are beyond each other."""
        excess = np.maximum(self.low - X, X - self.high) / self.width
        return np.asarray(excess.max(axis=1, initial=-np.inf) > self.beyond)


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
        return _beyond_numbers(np.asarray(rows, dtype=np.float64), np.asarray(points, np.float64), level)
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
        found |= _beyond_numbers(mine, theirs, level)
    return found


def _beyond_numbers(rows: FloatArray, points: FloatArray, level: float) -> BoolArray:
    """Return the same for numbers; what is missing is not beyond."""
    known = np.isfinite(rows).any(axis=0)
    rows, points = rows[:, known], points[:, known]
    middle = np.nanmedian(np.where(np.isfinite(rows), rows, np.nan), axis=0)
    rows, points = (np.where(np.isfinite(X), X, middle) for X in (rows, points))
    return Range.of(rows, level).outside(points)


def exceeded(own: FloatArray, level: float) -> float:
    """Return the value that a new row like these exceeds with probability `level`, or 1 / (n + 1)."""
    place = int(np.floor(level * (len(own) + 1)))
    return float(np.sort(own)[max(0, len(own) - max(1, place))])
