"""Intervals for a new observation, from fits that did not see a row, a fold or a group of rows.

With mu_i the fit without row i (or without its fold), s_i(x) the spread it expects at x, and
R_i = |y_i - mu_i(x_i)| / s_i(x_i), the interval at x is

    from   - quantile of s_i(x) R_i - mu_i(x)      to   quantile of s_i(x) R_i + mu_i(x)

over the rows i (CV+ and jackknife+; Barber, Candes, Ramdas and Tibshirani 2021). The fit without a row is an
average of the members whose subsets leave it out (jackknife+-after-bootstrap; Kim, Xu and Barber 2020), or
the fit on all rows less a known change. Where rows come in groups and the new row is of a new group, every
group counts alike, however many rows it has, and one more group is infinitely far away (Lee, Barber and
Willett 2023). Of more than 20,000 rows a random sample of 20,000 makes the quantile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from array_api_compat import array_namespace, device

from .._core.arrays import like, to_numpy
from .._core.config import memory_budget
from .._core.linalg import kth_smallest
from .._core.random import stream
from .._core.thresholds import SAMPLED_ROWS
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_real
from .held_out import LeftOutRows
from .pivot import Interval

# Rounding: weighted quantiles are compared with this tolerance: sums of 1 / n round.
_ROUNDING = 1e-9

Values = Callable[[slice], tuple[Any, Any]]


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
    values: Values,
    n_points: int,
    confidence_level: float,
) -> Interval:
    """Return the CV+ interval for a new observation at every point.

    Parameters
    ----------
    rows : RowsOfFolds
    values : callable
        Takes a slice of the points; returns predictions and spreads of the K fits, (K, t, n_outputs) each, on
        the host or a device. K = 1: all rows share one fit.
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
                ends = _ends(rows, output, means[..., output], spreads[..., output], weights, level)
                low[part, output], high[part, output] = ends
    return Interval(-low, high)


def _ends(
    rows: RowsOfFolds, output: int, means: Any, spreads: Any, weights: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Return the quantiles of s_i R_i - mu_i and s_i R_i + mu_i for means and spreads (K, t) at t points."""
    sizes = rows.sizes[:, output]
    if means.shape[0] == 1:
        width = to_numpy(spreads[0]) * weighted_quantile(sizes[None], weights, level)[0]
        return width - to_numpy(means[0]), width + to_numpy(means[0])
    xp = array_namespace(means)
    fold = xp.asarray(rows.fold, device=device(means))
    centre = xp.matrix_transpose(xp.take(means, fold, axis=0))  # (t, r)
    width = xp.matrix_transpose(xp.take(xp.broadcast_to(spreads, means.shape), fold, axis=0))
    width = width * like(sizes, means)
    below, above = width - centre, width + centre
    return weighted_quantile(below, weights, level), weighted_quantile(above, weights, level)


def weighted_quantile(values: Any, weights: FloatArray, level: float) -> FloatArray:
    """Return the smallest entry of every row of values (t, r) at which weights (r,) reach the level.

    Examples
    --------
    >>> weighted_quantile(np.array([[3.0, 1.0, 2.0]]), np.array([0.5, 0.25, 0.25]), 0.5)
    array([2.])
    """
    if weights.min() == weights.max():
        place = int(np.ceil(round(level / weights[0], 9))) - 1
        return np.asarray(to_numpy(kth_smallest(values, place)))
    values = to_numpy(values)
    order = np.argsort(values, axis=1)
    reached = np.cumsum(weights[order], axis=1) >= level - _ROUNDING
    first = np.argmax(reached, axis=1)
    return np.asarray(np.take_along_axis(values, np.take_along_axis(order, first[:, None], 1), 1)[:, 0])


def jackknife_plus(
    left_out: LeftOutRows,
    predict_members: Callable[[slice], FloatArray],
    n_points: int,
    confidence_level: float,
    *,
    scale: FloatArray | None = None,
    scale_at_points: FloatArray | None = None,
    groups: IntArray | None = None,
) -> Interval:
    """Return the jackknife+-after-bootstrap interval for a new observation at every point.

    Parameters
    ----------
    left_out : LeftOutRows
        From `leave_out`. Rows that every member saw take no part.
    predict_members : callable
        Takes a slice of the points, returns the predictions of all members there, (B, t, n_outputs).
    n_points : int
    confidence_level : float in (0, 1)
    scale, scale_at_points : ndarray of shape (n, n_outputs) and (m, n_outputs), optional
        Typical size of the noise at the training rows and at the points: residuals are compared after
        division by it, and an interval is as much wider as its point is noisier.
    groups : ndarray of int, shape (n,), optional
        Groups of rows that members hold or leave out as a whole: each group counts alike.

    Returns
    -------
    Interval
        Arrays (m, n_outputs); infinite where ``ceil(confidence_level (n + 1)) > n``.

    Notes
    -----
    Rows and the new observation exchangeable, members fitted symmetrically and their number random
    (binomial): a new observation is inside with probability at least ``1 - 2 (1 - confidence_level)``
    whatever the regression and the distribution; without pathologies it is ``confidence_level``, nearly
    (Kim, Xu and Barber 2020). A scale that was learnt from the same residuals leaves that proof, not the
    practice. The guarantee is on average over points, not at each of them.

    O(m B n) operations for m points, with at most 10,000 of the n rows.

    Examples
    --------
    >>> import numpy as np
    >>> from replaystats.inference.held_out import leave_out
    >>> from replaystats.plans import make_plan
    >>> y = np.arange(20.0)[:, None] % 7
    >>> plan = make_plan(20, subsample_size=10, n_resamples=50, random_state=0)
    >>> members = y[plan.indices(), 0].mean(axis=1)[:, None, None]  # predict by the subset's mean
    >>> rows = leave_out(lambda part: np.repeat(members, 20, axis=1)[:, part], plan, y)
    >>> low, high = jackknife_plus(rows, lambda part: members, 1, 0.8)
    >>> low.round(1), high.round(1)
    (array([[-0.]]), array([[5.8]]))
    """
    known = calibration_rows(left_out.residuals)
    kept = left_out.rows(known)
    scale = np.ones_like(left_out.residuals) if scale is None else scale
    rows = RowsOfFolds(
        np.arange(len(known)),
        np.abs(kept.residuals / scale[known]),
        None if groups is None else groups[known],
    )

    def without(part: slice) -> tuple[Any, Any]:
        members = predict_members(part)
        means = kept.averages(members)
        here = np.ones((1, means.shape[2])) if scale_at_points is None else scale_at_points[part]
        return means, like(here, means)[None]

    return cv_plus(rows, without, n_points, confidence_level)


def calibration_rows(residuals: FloatArray) -> IntArray:
    """Return the rows with known residuals (n, n_outputs), in order; of more than 10,000 a random part."""
    known = np.flatnonzero(np.isfinite(residuals).all(axis=1))
    if len(known) <= SAMPLED_ROWS:
        return known
    return np.sort(stream(0, 6).permutation(known)[:SAMPLED_ROWS])


class Changes(Protocol):
    """What leaving out single rows does to predictions, known without a second fit."""

    def values(self, points: slice, rows: IntArray, output: int) -> Any:
        """Return prediction minus prediction without the row, shape (t, r), on the host or a device."""


def jackknife_plus_of_changes(
    mean: FloatArray,
    residuals: FloatArray,
    changes: Changes | float,
    rows: IntArray,
    confidence_level: float,
    *,
    scale: FloatArray | None = None,
    scale_at_points: FloatArray | None = None,
) -> Interval:
    """Return the jackknife+ interval of a fit whose leave-one-out predictions are known exactly.

    Parameters
    ----------
    mean : ndarray of shape (m, n_outputs)
        Predictions at the points.
    residuals : ndarray of shape (n, n_outputs)
        Of every training row from the fit without it.
    changes : Changes or float
        A number where next to no row changes a prediction: the share of those that can. Whatever they
        change, a level higher by that share holds the interval of jackknife+, on average over points.
    rows : ndarray of int, shape (r,)
        Training rows to use.
    confidence_level : float in (0, 1)
    scale, scale_at_points : ndarray of shape (n, n_outputs) and (m, n_outputs), optional
        As in `jackknife_plus`.

    Returns
    -------
    Interval
        Arrays (m, n_outputs).

    Notes
    -----
    If rows and the new observation are exchangeable and the fit treats rows alike, a new observation is
    inside with probability at least ``1 - 2 (1 - confidence_level)``, whatever the distribution (Barber,
    Candes, Ramdas and Tibshirani 2021), and in practice with `confidence_level`.
    """
    rows = rows[calibration_rows(residuals[rows])]
    scale = np.ones_like(residuals) if scale is None else scale
    held = RowsOfFolds(np.arange(len(rows)), np.abs(residuals[rows] / scale[rows]))

    def without(part: slice) -> tuple[Any, Any]:
        here = np.ones((1, mean.shape[1])) if scale_at_points is None else scale_at_points[part]
        if isinstance(changes, float):
            return mean[part][None], here[None]
        outputs = [changes.values(part, rows, output) for output in range(mean.shape[1])]
        xp = array_namespace(outputs[0])
        change = xp.stack([xp.matrix_transpose(one) for one in outputs], axis=-1)  # (r, t, n_outputs)
        return like(mean[part], change)[None] - change, like(here, change)[None]

    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    if isinstance(changes, float):
        level = min(level + changes, max(level, len(rows) / (len(rows) + 1)))
    return cv_plus(held, without, len(mean), level)


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
