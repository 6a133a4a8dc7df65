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

from .._core.config import memory_budget
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_real
from .intervals import Interval

# Weighted quantiles are compared with this tolerance: sums of 1 / n round.
_ROUNDING = 1e-9


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
