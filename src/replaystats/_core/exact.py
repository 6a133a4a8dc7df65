"""Sums that do not depend on the order of their terms, bit for bit.

Counts are small integers. So if every number of a column is an integer multiple of one power of two, small
enough that no partial sum of count x number needs more than 53 bits, then every partial sum is exact and any
order, grouping or number of workers gives the same bits. A column is split into two such slices

    z = high + low + rest,    high on the grid 2^(e-p),    low on the grid 2^(e-2p-1),

with |z| < 2^e and p = 53 - ceil(log2(N + 1)) bits for at most N terms. The rest, at most 2^(e-2p-2), is
dropped: nothing at all in ordinary columns of n <= 10^6 terms, and up to n = 10^8 less than the last bit of
the bound 2^e, which the largest number of the column is near to, or for streams within a factor of 16 or so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import must_be
from .typing import FloatArray, IntArray

# Rounding: bits of a double.
_MANTISSA_BITS = 53
# Batch: 512 kB each of rows and slices.
_CACHED_NUMBERS = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class ExactGrid:
    """The grids of c columns.

    Attributes
    ----------
    exponent : ndarray of int, shape (c,)
        Every |z| of column j is below ``2 ** exponent[j]``.
    bits : int
        p, the bits of one slice.
    """

    exponent: IntArray
    bits: int

    @classmethod
    def from_maxima(cls, maxima: FloatArray, n_terms: int) -> ExactGrid:
        """Choose the grids from the largest |z| of every column and the largest number of terms N.

        Examples
        --------
        >>> ExactGrid.from_maxima(np.array([3.0, 0.0]), n_terms=1000)
        ExactGrid(exponent=array([2, 0], dtype=int32), bits=43)
        """
        if not np.isfinite(maxima).all():
            column = int(np.flatnonzero(~np.isfinite(maxima))[0])
            hint = "Remove or impute those observations first."
            raise ValueError(must_be("moments", "finite", f"NaN or infinity in column {column}", hint))
        # bit_length is ceil(log2(N + 1)). Two bits stay free, so that adding the constant in `split` rounds.
        return cls(np.frexp(maxima)[1], min(_MANTISSA_BITS - int(n_terms).bit_length(), _MANTISSA_BITS - 2))

    def split(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return both slices of rows (m, c), each of shape (m, c), in units of ``2 ** exponent``."""
        high, low = np.empty_like(rows), np.empty_like(rows)
        # Numbers between 2^52 u and 2^53 u have the spacing u: adding such a constant and taking it off
        # again rounds to the grid u. The difference low - high is exact.
        coarse = 1.5 * 2.0 ** (_MANTISSA_BITS - 1 - self.bits)
        fine = 1.5 * 2.0 ** (_MANTISSA_BITS - 2 - 2 * self.bits)
        size = max(1, _CACHED_NUMBERS // max(1, rows.shape[1]))
        for first in range(0, len(rows), size):  # what stays in the cache is not waited for
            part = slice(first, first + size)
            above, below = high[part], low[part]
            self._to_units(rows[part], out=below)
            np.add(below, coarse, out=above)
            above -= coarse
            below -= above
            below += fine
            below -= fine
        return high, low

    def holds(self, high: FloatArray) -> bool:
        """Whether the numbers of a first slice are finite and within the bounds of the grid."""
        return bool(high.max(initial=0.0) <= 1.0 and high.min(initial=0.0) >= -1.0)

    def _to_units(self, rows: FloatArray, out: FloatArray) -> None:
        """Divide by ``2 ** exponent``: by a product, where that power is a normal number."""
        if np.abs(self.exponent).max(initial=0) < 1000:
            np.multiply(rows, np.ldexp(1.0, -self.exponent), out=out)
        else:
            np.ldexp(rows, -self.exponent, out=out)

    def join(self, high: FloatArray, low: FloatArray) -> FloatArray:
        """Return sums in the columns' own units, rounded once, from the sums of both slices (m, c)."""
        with np.errstate(over="ignore"):  # what exceeds the range is infinite, as in any sum
            return np.asarray(np.ldexp(high + low, self.exponent))


def column_maxima(rows: FloatArray) -> FloatArray:
    """Return the largest |z| of every column of rows (m, c), NaN where one is."""
    return np.asarray(np.maximum(rows.max(axis=0), -rows.min(axis=0)))
