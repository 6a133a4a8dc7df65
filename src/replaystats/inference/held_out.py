"""Predictions of rows by the members that did not see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like, to_numpy
from .._core.config import memory_budget
from .._core.typing import BoolArray, FloatArray, IntArray
from ..plans import ResamplingPlan

# Layout: numbers of subsets at which the error curve is computed.
CURVE_POINTS = 20
# Batch: rows whose weights of members are unpacked at a time.
_ROWS_AT_ONCE = 1024


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

    def rows(self, index: IntArray) -> LeftOutRows:
        """Return the same for some of the rows."""
        return replace(
            self,
            bits=self.bits[index],
            predictions=self.predictions[index],
            residuals=self.residuals[index],
        )

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
