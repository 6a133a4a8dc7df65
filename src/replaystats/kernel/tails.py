"""Columns with long tails on a scale that is linear in the middle and logarithmic in the tails.

Where a hundredth of the rows makes most of a column's variance, its standard deviation says nothing about
the other rows: they lie so close together that a width learnt for them makes strangers of the few, and one
learnt for the few does not tell the many apart. With x in units of the typical distance from the median,
arcsinh(x) does justice to both. It does not depend on the units of the column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.typing import BoolArray, FloatArray, IntArray

# A column has long tails where this share of the rows, the farthest from the mean, makes more than half of
# its sum of squares: of a normal column they make 8 %, of an exponential one 22 %.
FAR_SHARE, LONG_TAILS = 0.01, 0.5


def long_tailed(points: FloatArray) -> BoolArray:
    """Say which columns of (n, p) points have long tails, shape (p,).

    A column of two values never has: on any scale it is the same column in other units.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(1000, 1))
    >>> long_tailed(np.hstack([x, np.exp(2 * x), x > 2.5])).tolist()
    [False, True, False]
    """
    n_far = max(1, round(FAR_SHARE * len(points)))
    found = np.zeros(points.shape[1], dtype=bool)
    for number, column in enumerate(np.ascontiguousarray(points.T)):
        squares = np.square(column - column.mean())
        far = np.partition(squares, len(squares) - n_far)[len(squares) - n_far :]
        if far.sum() > LONG_TAILS * squares.sum():
            found[number] = len(np.unique(column)) > 2
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Compression:
    """arcsinh((x - centre) / scale) of some columns, all of shape (r,)."""

    columns: IntArray
    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, points: FloatArray) -> Compression:
        """Measure the columns of points (n, p) that have long tails.

        The scale is the median distance from the median of those rows that are not at it: counts are often
        zero for most rows.
        """
        columns = np.flatnonzero(long_tailed(points))
        centre = np.median(points[:, columns], axis=0)
        distance = np.abs(points[:, columns] - centre)
        scale = [np.median(some[some > 0]) for some in distance.T]
        return cls(columns, centre, np.array(scale, dtype=np.float64))

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return points (m, p) with these columns compressed."""
        found = np.array(points, dtype=np.float64)
        found[:, self.columns] = np.arcsinh((points[:, self.columns] - self.centre) / self.scale)
        return found
