"""Subsets drawn with replacement, every observation once and with how often it came.

A point that comes c times in a ridge regression is one point of weight c: the same function from a system of
fewer unknowns. Of k = n draws with replacement 63 % are distinct, so that the solve costs a quarter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._core.typing import FloatArray, IntArray

# Cost: subsets of fewer draws are solved faster than their repeats are found.
WORTH_FINDING = 64


@dataclass(frozen=True, slots=True, eq=False)
class Distinct:
    """The distinct observations of some subsets.

    Attributes
    ----------
    rows : ndarray of int, shape (b, d)
        Distinct observations of every subset in order; then its last one again, of count 0, up to the d of
        the subset that has most.
    counts : ndarray of int, shape (b, d)
        How often each was drawn.
    sizes : ndarray of int, shape (b,)
        How many are distinct.
    place : ndarray of int, shape (b, k)
        Where each draw stands in `rows`.
    """

    rows: IntArray
    counts: IntArray
    sizes: IntArray
    place: IntArray

    @classmethod
    def of(cls, indices: IntArray) -> Distinct | None:
        """Find the distinct observations of subsets (b, k); None where nothing repeats, or too little to pay.

        Examples
        --------
        >>> found = Distinct.of(np.repeat([[4, 1], [2, 0]], 40, axis=1))
        >>> found.rows.tolist(), found.counts.tolist()
        ([[1, 4], [0, 2]], [[40, 40], [40, 40]])
        """
        if indices.shape[1] < WORTH_FINDING or (indices[:, 1:] > indices[:, :-1]).all():
            return None
        order = np.argsort(indices, axis=1)
        drawn = np.take_along_axis(indices, order, axis=1)
        first = np.ones(drawn.shape, dtype=bool)
        np.not_equal(drawn[:, 1:], drawn[:, :-1], out=first[:, 1:])
        if first.all():
            return None
        place = np.cumsum(first, axis=1) - 1
        sizes = place[:, -1] + 1
        width = int(sizes.max())
        cells = place + width * np.arange(len(indices))[:, None]
        rows = np.repeat(drawn[:, -1:], width, axis=1)
        rows.ravel()[cells[first]] = drawn[first]
        counts = np.bincount(cells.ravel(), minlength=rows.size).reshape(rows.shape)
        back = np.empty_like(place)
        np.put_along_axis(back, order, place, axis=1)
        return cls(rows, counts, sizes, back)

    def blocks(self, n_values: int) -> Iterator[tuple[IntArray, int]]:
        """Yield numbers of subsets of about the same size d, and d, with at most `n_values` of d x d each."""
        order, start = np.argsort(-self.sizes, kind="stable"), 0
        while start < len(order):
            size = int(self.sizes[order[start]])
            some = order[start : start + max(1, n_values // size**2)]
            yield some, size
            start += len(some)

    def shared_out(self, values: FloatArray) -> FloatArray:
        """Return values (b, d, r) of distinct observations in equal shares for their draws, (b, k, r)."""
        each = values / np.maximum(self.counts, 1)[:, :, None]
        return np.take_along_axis(each, self.place[:, :, None], axis=1)

    def added_up(self, values: FloatArray) -> FloatArray:
        """Return equal values (b, k, r) of the draws of an observation as their sum (b, d, r)."""
        total = np.zeros((*self.rows.shape, values.shape[2]))
        np.put_along_axis(total, self.place[:, :, None], values, axis=1)
        return total * self.counts[:, :, None]
