"""Intervals for a new observation, from members that did not see a row or from exact leave-one-out fits.

Jackknife+-after-bootstrap. With mu_-i the average of the members whose subset leaves row i out, and
R_i = |y_i - mu_-i(x_i)|, the interval at x with rank r = ceil(level (n + 1)) is

    from   - (r-th smallest of R_i - mu_-i(x))      to   r-th smallest of R_i + mu_-i(x).

All mu_-i(x) are one product of the (n x B) weights of the members, a row for every i, with the (B x m)
predictions, made for some points at a time.

Where leaving out a row changes a fit by at most delta(x), only rows near the r-th residual can decide: with
residuals in order, rows further than 2 delta(x) from the r-th one keep their side. The others' changes are
never computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import is_accelerator, like, to_numpy
from .._core.config import device_memory_budget, memory_budget
from .._core.linalg import kth_smallest
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_real
from ..kernel.local_influence import DeviceChanges
from ..plans import ResamplingPlan
from .cv_plus import RowsOfFolds, cv_plus
from .pivot import Interval

# Batch: points that share what leaving out rows changes: enough to pay for finding the leaves of the rows.
_POINTS_AT_ONCE = 256
# Batch: rows of residuals at a time.
_ROWS_AT_ONCE = 8192
# Layout: numbers of subsets at which the error curve is computed.
CURVE_POINTS = 20


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOutRows:
    """Which members left a row out, and how far their average is from it.

    Attributes
    ----------
    bits : ndarray of uint8, shape (n, ceil(B / 8))
        Whether member b left row i out, eight members to a byte.
    weights : ndarray of shape (B,)
        Of the members in an average; 0 for one that failed.
    predictions : ndarray of shape (n, n_outputs)
        Average of the members that left the row out; NaN where there is none.
    residuals : ndarray of shape (n, n_outputs)
        y minus that average.
    """

    bits: np.ndarray
    weights: FloatArray
    predictions: FloatArray
    residuals: FloatArray

    @property
    def known(self) -> BoolArray:
        """Rows that some member left out, shape (n,)."""
        return np.asarray(np.isfinite(self.residuals).all(axis=1))

    def rows(self, index: IntArray) -> LeftOutRows:
        """Return the same for some of the rows."""
        return replace(
            self,
            bits=self.bits[index],
            predictions=self.predictions[index],
            residuals=self.residuals[index],
        )

    def averaging(self, rows: slice) -> FloatArray:
        """Return the weights (r, B), summing to one, with which rows average the members without them."""
        kept = np.unpackbits(self.bits[rows], axis=1, count=len(self.weights)) * self.weights
        kept /= kept.sum(axis=1, keepdims=True)
        return np.asarray(kept)


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
    (n, n_outputs), n_members = y.shape, plan.n_resamples
    weights = np.ones(n_members) if plan.subset_weights is None else plan.subset_weights
    weights = weights if failed is None else np.where(failed, 0.0, weights)
    bits = np.empty((n, -(-n_members // 8)), dtype=np.uint8)
    predictions = np.empty_like(y)
    step = max(1, memory_budget() // (32 * n_members * n_outputs))
    for part, left_out in left_out_parts(plan, units, step):  # (B, r)
        bits[part] = np.packbits(left_out, axis=0).T
        used = left_out * weights[:, None]
        total = np.einsum("bro,br->ro", to_numpy(predict_members(part)), used)
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0: in every subset
            predictions[part] = total / used.sum(axis=0)[:, None]
    return LeftOutRows(bits=bits, weights=weights, predictions=predictions, residuals=y - predictions)


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

    O(m B n), within the memory budget.

    Examples
    --------
    >>> import numpy as np
    >>> from replaystats.plans import make_plan
    >>> y = np.arange(20.0)[:, None] % 7
    >>> plan = make_plan(20, subsample_size=10, n_resamples=50, random_state=0)
    >>> members = y[plan.indices(), 0].mean(axis=1)[:, None, None]  # predict by the subset's mean
    >>> rows = leave_out(lambda part: np.repeat(members, 20, axis=1)[:, part], plan, y)
    >>> low, high = jackknife_plus(rows, lambda part: members, 1, 0.8)
    >>> low.round(1), high.round(1)
    (array([[-0.]]), array([[5.8]]))
    """
    known = np.flatnonzero(left_out.known)
    used, n_outputs = left_out.rows(known), left_out.residuals.shape[1]
    sizes = np.abs(used.residuals if scale is None else used.residuals / scale[known])
    if groups is not None:
        rows = RowsOfFolds(np.arange(len(known)), sizes, groups[known])
        averaging = used.averaging(slice(0, len(known)))

        def without(part: slice) -> tuple[FloatArray, FloatArray]:
            means = np.einsum("nb,bto->nto", averaging, to_numpy(predict_members(part)), optimize=True)
            here = np.ones((1, 1)) if scale_at_points is None else scale_at_points[part]
            return means, np.broadcast_to(here, means.shape)

        return cv_plus(rows, without, n_points, confidence_level)
    low, high = np.full((2, n_points, n_outputs), np.inf)
    rank = rank_of(len(known), confidence_level)
    if rank <= len(known):
        step = max(1, memory_budget() // (64 * len(left_out.weights) * n_outputs))
        for part in _slices(0, n_points, step):
            members = predict_members(part)
            for output in range(n_outputs):
                here = None if scale_at_points is None else scale_at_points[part, output]
                found = _order_statistics(used, sizes[:, output], rank, members[:, :, output], here)
                low[part, output], high[part, output] = found
    return Interval(-low, high)


class Changes(Protocol):
    """What leaving out single rows does to predictions, known without a second fit.

    Fits that live on a device have `order_statistics` in place of these two: they take the ranks there.
    """

    def reach(self, points: slice, output: int) -> FloatArray:
        """Return a bound of |change| over all rows, for every point, shape (t,)."""

    def values(self, points: slice, rows: IntArray, output: int) -> FloatArray:
        """Return prediction minus prediction without the row, shape (t, r)."""


@dataclass(frozen=True, slots=True)
class FewChanges:
    """How many of the rows can change a prediction at all when they are left out, at every point (m,)."""

    affected: IntArray


def jackknife_plus_of_changes(
    mean: FloatArray,
    residuals: FloatArray,
    changes: Changes | DeviceChanges | FewChanges,
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
    changes : Changes
        Or, where next to no row changes a prediction, how many do: at a rank higher by so many the interval
        around the mean holds that of jackknife+, however large the changes.
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
    low, high = np.full((2, *mean.shape), np.inf)
    rank = rank_of(len(rows), confidence_level)
    step = max(1, min(_POINTS_AT_ONCE, memory_budget() // (64 * len(residuals))))
    for output in range(mean.shape[1] if rank <= len(rows) else 0):
        sizes = np.abs(residuals[rows, output])
        if scale is not None:
            sizes = sizes / scale[rows, output]
        noise = np.ones(len(mean)) if scale_at_points is None else scale_at_points[:, output]
        if isinstance(changes, DeviceChanges):
            found = changes.order_statistics(rows, sizes, noise, rank - 1, output)
            low[:, output], high[:, output] = found
            continue
        order = np.argsort(sizes, kind="stable")
        sizes, ordered = sizes[order], rows[order]
        if isinstance(changes, FewChanges):
            reached = np.append(sizes, np.inf)[np.minimum(rank - 1 + changes.affected, len(rows))]
            low[:, output] = high[:, output] = noise * reached
            continue
        for part in _slices(0, len(mean), step):
            here = noise[part]
            delta = float((changes.reach(part, output) / here).max())
            first, last = _band(sizes, rank, delta)
            change = changes.values(part, ordered[first:last], output)
            found = _ranked(here[:, None] * sizes[first:last], -change, rank - 1 - first)
            low[part, output], high[part, output] = found
    return Interval(mean - low, mean + high)


def rank_of(n: int, confidence_level: float) -> int:
    """Return ceil(level (n + 1)), the rank of the residual that an interval reaches to; above n: infinite.

    Examples
    --------
    >>> rank_of(99, 0.9), rank_of(19, 0.95), rank_of(18, 0.95)
    (90, 19, 19)
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    return math.ceil(round(level * (n + 1), 9))  # 0.9 * 100 is 90, not the next number above it


def _order_statistics(
    left_out: LeftOutRows, sizes: FloatArray, rank: int, members: Any, scale: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the r-th smallest R_i - mu_-i and R_i + mu_-i at points, where the members (B, t) live."""
    xp, n = array_namespace(members), len(sizes)
    centre = xp.mean(members, axis=0)
    around = members - centre  # small numbers, small rounding
    limit = device_memory_budget() if is_accelerator(members) else memory_budget()
    held, low, high = like(sizes, members), [], []
    for points in _slices(0, members.shape[1], max(1, limit // (64 * n))):
        weights = (like(left_out.averaging(rows), members) for rows in _slices(0, n, _ROWS_AT_ONCE))
        means = xp.concat([xp.matrix_transpose(part @ around[:, points]) for part in weights], axis=1)
        width = held if scale is None else like(scale[points], members)[:, None] * held
        low.append(kth_smallest(width - means, rank - 1))
        high.append(kth_smallest(width + means, rank - 1))
    return to_numpy(xp.concat(low) - centre), to_numpy(xp.concat(high) + centre)


def _band(sizes: FloatArray, rank: int, delta: float) -> tuple[int, int]:
    """Return which of the increasing sizes can decide when each may move by `delta` and so may the answer."""
    pivot, margin = sizes[rank - 1], 2 * delta * (1 + 1e-9)
    first = int(np.searchsorted(sizes, pivot - margin, side="left"))
    return first, int(np.searchsorted(sizes, pivot + margin, side="right"))


def _ranked(sizes: FloatArray, means: FloatArray, place: int) -> tuple[FloatArray, FloatArray]:
    """Return the order statistics of sizes - means and sizes + means in every row, destroying `means`."""
    found = []
    for values in (sizes - means, np.add(sizes, means, out=means)):
        values.partition(place, axis=1)
        found.append(values[:, place].copy())
    return found[0], found[1]


def _slices(start: int, stop: int, step: int) -> Iterator[slice]:
    return (slice(first, min(first + step, stop)) for first in range(start, stop, step))
