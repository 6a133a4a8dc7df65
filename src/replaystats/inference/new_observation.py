"""Rows left out: what members that did not see them predict, and intervals for a new observation.

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from .._core.arrays import like, to_numpy
from .._core.config import memory_budget
from .._core.linalg import kth_smallest
from .._core.random import stream
from .._core.thresholds import SAMPLED_ROWS
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_real
from ..plans import ResamplingPlan
from .pivot import Interval

# Layout: numbers of subsets at which the error curve is computed.
CURVE_POINTS = 20
# Batch: rows whose weights of members are unpacked at a time.
_ROWS_AT_ONCE = 1024
# Rounding: weighted quantiles are compared with this tolerance: sums of 1 / n round.
ROUNDING = 1e-9


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
        from sklearn.metrics import r2_score  # loads much, and only regressors ask

        found = np.full(len(self.predictions), np.nan)
        for place, prediction in enumerate(self.predictions):
            known = np.isfinite(prediction).all(axis=1)
            if np.count_nonzero(known) > 1:
                found[place] = r2_score(y[known], prediction[known])
        return found

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
    for part, used, members in _by_part(predict_members, plan, n_outputs, failed, units):
        total = np.cumsum(members * used[:, :, None], axis=0)[grid - 1]
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0: in every subset so far
            predictions[:, part] = total / np.cumsum(used, axis=0)[grid - 1, :, None]
    return OutOfBag(n_resamples=grid, predictions=predictions)


def _by_part(
    predict_members: Callable[[slice], FloatArray],
    plan: ResamplingPlan,
    n_outputs: int,
    failed: BoolArray | None,
    units: IntArray | None,
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yield slices of rows, weights (B, r) of the members that left them out, and what members predict."""
    weights = plan.member_weights(failed)[:, None]
    step = max(1, memory_budget() // (32 * plan.n_resamples * n_outputs))
    for part, left_out in left_out_parts(plan, units, step):
        yield part, left_out * weights, to_numpy(predict_members(part))


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOutRows:
    """Which members left a row out, and how far their average is from it.

    Attributes
    ----------
    bits : ndarray of uint8, shape (n, ceil(B / 8))
        Whether member b left row i out, eight members to a byte.
    weights : ndarray of shape (B,)
        Of the members in an average, with the sum one; 0 for one that failed.
    predictions : ndarray of shape (n, n_outputs)
        Average of the members that left the row out; NaN where there is none.
    residuals : ndarray of shape (n, n_outputs)
        y minus that average.
    """

    bits: np.ndarray
    weights: FloatArray
    predictions: FloatArray
    residuals: FloatArray

    def rows(self, index: IntArray) -> LeftOutRows:
        """Return the same for some of the rows."""
        arrays = {name: getattr(self, name)[index] for name in ("bits", "predictions", "residuals")}
        return replace(self, **arrays)

    def averages(self, members: Any) -> Any:
        """Return the averages (n, t, n_outputs) of the members (B, t, n_outputs) without each row."""
        xp, (n_members, *shape) = array_namespace(members), members.shape
        flat, parts = xp.reshape(members, (n_members, -1)), []
        for first in range(0, len(self.bits), _ROWS_AT_ONCE):
            bits = self.bits[first : first + _ROWS_AT_ONCE]
            kept = np.unpackbits(bits, axis=1, count=n_members) * self.weights
            kept /= kept.sum(axis=1, keepdims=True)
            parts.append(like(kept, members) @ flat)
        return xp.reshape(xp.concat(parts, axis=0), (len(self.bits), *shape))


def leave_out(
    predict_members: Callable[[slice], FloatArray],
    plan: ResamplingPlan,
    y: FloatArray,
    *,
    failed: BoolArray | None = None,
    units: IntArray | None = None,
) -> LeftOutRows:
    """Predict every training row by the members that did not see it.

    Parameters
    ----------
    predict_members : callable
        Takes a slice of training rows, returns the predictions of all members there, (B, r, n_outputs).
    plan : ResamplingPlan
        The subsets of the members.
    y : ndarray of shape (n, n_outputs)
    failed : ndarray of bool, shape (B,), optional
        Members to leave out of averages.
    units : ndarray of int, shape (n,), optional
        Group of every row: a member counts where it saw no row of the group.
    """
    bits = np.empty((len(y), -(-plan.n_resamples // 8)), dtype=np.uint8)
    predictions = np.empty_like(y)
    for part, used, members in _by_part(predict_members, plan, y.shape[1], failed, units):
        bits[part] = np.packbits(used > 0, axis=0).T
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0: in every subset
            predictions[part] = np.einsum("bro,br->ro", members, used) / used.sum(axis=0)[:, None]
    weights = plan.member_weights(failed)
    return LeftOutRows(bits=bits, weights=weights, predictions=predictions, residuals=y - predictions)


Values = Callable[[slice], tuple[Any, Any]]
# What leaving out single rows does to predictions, known without a second fit. Takes a slice of the points,
# rows (r,) and an output; returns prediction minus prediction without the row, (t, r), here or on a device.
Changes = Callable[[slice, IntArray, int], Any]


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


def cv_plus(rows: RowsOfFolds, values: Values, n_points: int, confidence_level: float) -> Interval:
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
    if weights.sum() >= level - ROUNDING:
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
    reached = np.cumsum(weights[order], axis=1) >= level - ROUNDING
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
    rows = _one_by_one(kept.residuals, known, scale, groups)

    def without(part: slice) -> tuple[Any, Any]:
        means = kept.averages(predict_members(part))
        return means, _expected_at(scale_at_points, part, means)

    return cv_plus(rows, without, n_points, confidence_level)


def _one_by_one(
    residuals: FloatArray, rows: IntArray, scale: FloatArray | None, groups: IntArray | None = None
) -> RowsOfFolds:
    """Return rows that are left out one at a time, with their residuals (r, n_outputs)."""
    sizes = np.abs(residuals if scale is None else residuals / scale[rows])
    return RowsOfFolds(np.arange(len(rows)), sizes, None if groups is None else groups[rows])


def _expected_at(scale_at_points: FloatArray | None, part: slice, means: Any) -> Any:
    """Return the typical size of the noise at some points, for means (r, t, n_outputs) there."""
    here = np.ones((1, means.shape[2])) if scale_at_points is None else scale_at_points[part]
    return like(here, means)[None]


def calibration_rows(residuals: FloatArray) -> IntArray:
    """Return the rows with known residuals (n, n_outputs), in order; of more than 10,000 a random part."""
    known = np.flatnonzero(np.isfinite(residuals).all(axis=1))
    if len(known) <= SAMPLED_ROWS:
        return known
    return np.sort(stream(0, 6).permutation(known)[:SAMPLED_ROWS])


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
    held = _one_by_one(residuals[rows], rows, scale)

    def without(part: slice) -> tuple[Any, Any]:
        means = mean[part][None]
        if not isinstance(changes, float):
            outputs = [changes(part, rows, output) for output in range(mean.shape[1])]
            xp = array_namespace(outputs[0])
            change = xp.stack([xp.matrix_transpose(one) for one in outputs], axis=-1)  # (r, t, n_outputs)
            means = like(means, change) - change
        return means, _expected_at(scale_at_points, part, means)

    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    if isinstance(changes, float):
        level = min(level + changes, max(level, len(rows) / (len(rows) + 1)))
    return cv_plus(held, without, len(mean), level)
