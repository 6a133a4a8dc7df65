"""Out-of-bag predictions: every observation predicted by the subsets it is not in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._core.arrays import to_numpy
from .._core.config import memory_budget
from .._core.typing import BoolArray, FloatArray, IntArray
from ..plans import ResamplingPlan

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
    """
    n, n_subsets = plan.n_observations, plan.n_resamples
    grid = np.unique(np.geomspace(1, n_subsets, CURVE_POINTS).round().astype(np.intp))
    predictions = np.empty((grid.size, n, n_outputs))
    weights = np.ones(n_subsets) if plan.subset_weights is None else plan.subset_weights
    if failed is not None:
        weights = np.where(failed, 0.0, weights)
    step = max(1, memory_budget() // (32 * n_subsets * n_outputs))
    for block, rows in enumerate(plan.row_blocks):
        for start in range(rows.start, rows.stop, step):
            part = slice(start, min(start + step, rows.stop))
            left_out = left_out_of(plan, block, part) * weights[:, None]  # (B, r)
            total = np.cumsum(to_numpy(predict_members(part)) * left_out[:, :, None], axis=0)[grid - 1]
            share = np.cumsum(left_out, axis=0)[grid - 1, :, None]
            with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0: in every subset so far
                predictions[:, part] = total / share
    return OutOfBag(n_resamples=grid, predictions=predictions)


def left_out_of(plan: ResamplingPlan, block: int, part: slice) -> BoolArray:
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
