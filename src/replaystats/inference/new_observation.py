"""Intervals for a new observation, from members that did not see a row or from exact leave-one-out fits.

Jackknife+-after-bootstrap. With mu_-i the average of the members whose subset leaves row i out, and
R_i = |y_i - mu_-i(x_i)|, the interval at x with rank r = ceil(level (n + 1)) is

    from   - (r-th smallest of R_i - mu_-i(x))      to   r-th smallest of R_i + mu_-i(x).

All mu_-i(x) are one product of the (n x B) weights of the members, a row for every i, with the (B x m)
predictions. Only rows near the r-th residual can decide: mu_-i(x) differs from the mean of all members by
at most delta(x) (Cauchy-Schwarz), so with residuals in order, rows further than 2 delta(x) from
the r-th one keep their side. The result is exact, and the rest of the product is never formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import computes_like_numpy, is_foreign, like, to_numpy
from .._core.config import device_memory_budget, memory_budget
from .._core.linalg import kth_smallest
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_real
from ..engine.executors import make_executor
from ..kernel.local_influence import DeviceChanges
from ..plans import ResamplingPlan
from .cv_plus import RowsOfFolds, cv_plus
from .held_out import left_out_parts
from .pivot import Interval

# Batch: points that share what leaving out rows changes: enough to pay for finding the leaves of the rows.
_POINTS_AT_ONCE = 256
# Batch: points that share one product of members: enough to pay for unpacking the weights of the rows, few
# enough that their bands are alike and a selection stays in the cache.
_POINTS_OF_MEMBERS = 64
# Batch: rows of residuals at a time.
_ROWS_AT_ONCE = 8192


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

    O(m B w) for w rows that can decide, at most n; memory for a few hundred points times w rows.

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
    n_outputs = left_out.residuals.shape[1]
    if groups is not None:
        sizes = np.abs(left_out.residuals[known] if scale is None else (left_out.residuals / scale)[known])
        rows = RowsOfFolds(np.arange(len(known)), sizes, groups[known])
        averaging = left_out.rows(known).averaging(slice(0, len(known)))

        def without(part: slice) -> tuple[FloatArray, FloatArray]:
            means = np.einsum("nb,bto->nto", averaging, to_numpy(predict_members(part)), optimize=True)
            here = np.ones((1, 1)) if scale_at_points is None else scale_at_points[part]
            return means, np.broadcast_to(here, means.shape)

        return cv_plus(rows, without, n_points, confidence_level)
    low, high = np.full((2, n_points, n_outputs), np.inf)
    rank = rank_of(len(known), confidence_level)
    if rank <= len(known):
        step = max(1, memory_budget() // (64 * len(left_out.weights) * n_outputs))
        searches = [_search(left_out, known, rank, scale, output) for output in range(n_outputs)]
        for part in _slices(0, n_points, step):
            members = predict_members(part)
            for output, search in enumerate(searches):
                here = None if scale_at_points is None else scale_at_points[part, output]
                of_device = is_foreign(members) and computes_like_numpy(members)
                bounds_of = search.device_bounds if of_device else search.bounds
                bounds = bounds_of(members[:, :, output], here)
                low[part, output], high[part, output] = bounds
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


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """Rows in the order of their residuals, ready for the order statistics of one output."""

    rows: LeftOutRows
    sizes: FloatArray  # (n,), increasing: |residual|, over the scale where there is one
    rank: int
    reach: float  # largest |a_i - 1/B| of the averaging weights a_i
    totals: FloatArray  # (n,): sum of the weights of the members without the row

    def bounds(self, members: FloatArray, scale: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return the r-th smallest R_i - mu_-i and R_i + mu_-i at points where members (B, t) are given."""
        centre = members.mean(axis=0)
        around = np.ascontiguousarray((members - centre).T)  # (t, B): small numbers, small rounding
        scale = np.ones(len(around)) if scale is None else scale
        # what the average of some members may differ from that of all, in units of the residuals
        delta = self.reach * np.sqrt((around**2).sum(axis=1)) / scale
        low, high = np.empty((2, len(around)))
        order = np.argsort(delta, kind="stable")  # points with like bands share a block
        executor = make_executor(None)
        held = 32 * len(self.sizes) * executor.n_workers
        step = max(1, min(_POINTS_OF_MEMBERS, memory_budget() // held))
        groups = [order[part] for part in _slices(0, len(order), step)]

        def ranked(points: IntArray) -> tuple[FloatArray, FloatArray]:
            return self._order_statistics(around[points], scale[points], float(delta[points[-1]]))

        for points, found in zip(groups, executor.stream(ranked, groups), strict=True):
            low[points], high[points] = found
        return low - centre, high + centre

    def device_bounds(self, members: Any, scale: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return the same where the members live, every row for every point: selection is cheap there."""
        xp, n = array_namespace(members), len(self.sizes)
        centre = xp.mean(members, axis=0)
        around = members - centre  # (B, t)
        averaging = like(self.rows.averaging(slice(0, n)), members)  # (n, B)
        sizes, low, high = like(self.sizes, members), [], []
        step = max(1, device_memory_budget() // (64 * n))
        for part in _slices(0, members.shape[1], step):
            means = xp.matrix_transpose(averaging @ around[:, part])  # (t, n)
            width = sizes if scale is None else like(scale[part], members)[:, None] * sizes
            low.append(kth_smallest(width - means, self.rank - 1))
            high.append(kth_smallest(width + means, self.rank - 1))
        return to_numpy(xp.concat(low) - centre), to_numpy(xp.concat(high) + centre)

    def _order_statistics(
        self, around: FloatArray, scale: FloatArray, delta: float
    ) -> tuple[FloatArray, FloatArray]:
        first, last = _band(self.sizes, self.rank, delta)
        means, weighted = np.empty((len(around), last - first)), around * self.rows.weights
        for rows in _slices(first, last, _ROWS_AT_ONCE):
            used = np.unpackbits(self.rows.bits[rows], axis=1, count=around.shape[1])
            means[:, rows.start - first : rows.stop - first] = weighted @ used.astype(np.float64).T
        means /= self.totals[first:last]
        # Known means leave a narrower band than their bound: selection costs more than the product.
        reach = float(((means.max(axis=1) - means.min(axis=1)) / scale).max()) / 2
        low, high = _band(self.sizes, self.rank, reach)
        inner = slice(max(low, first), min(high, last))  # never more than is known, whatever was rounded
        means = means[:, inner.start - first : inner.stop - first]
        return _ranked(scale[:, None] * self.sizes[inner], means, self.rank - 1 - inner.start)


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


def _search(
    left_out: LeftOutRows, known: IntArray, rank: int, scale: FloatArray | None, output: int
) -> _Search:
    sizes = np.abs(left_out.residuals[known, output])
    if scale is not None:
        sizes = sizes / scale[known, output]
    order = np.argsort(sizes, kind="stable")
    rows = left_out.rows(known[order])
    totals, squares = np.empty((2, len(known)))
    for part in _slices(0, len(known), _ROWS_AT_ONCE):
        used = np.unpackbits(rows.bits[part], axis=1, count=len(rows.weights)).astype(np.float64)
        totals[part], squares[part] = used @ rows.weights, used @ rows.weights**2
    reach = math.sqrt(max(float((squares / totals**2).max()) - 1 / len(left_out.weights), 0.0))
    return _Search(rows, sizes[order], rank, reach, totals)


def _slices(start: int, stop: int, step: int) -> Iterator[slice]:
    return (slice(first, min(first + step, stop)) for first in range(start, stop, step))
