"""Drawing inside one tile: 256 subsets by at most 16384 rows, from one random stream.

Tiles make a plan a value. The stream of tile t splits k over the row blocks (multivariate hypergeometric
without replacement, multinomial with), the stream of (t, block) draws inside the block; so anybody who knows
(seed, n, k) can draw any tile without the others, and more subsets never change the first ones.

Both draws without replacement are justified by one argument: a procedure that treats the row labels alike and
returns a set of the right size returns a uniformly distributed set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from .._core.typing import BoolArray, FloatArray, IntArray

# Format: subsets of a tile, which has a random stream of its own: drawn plans depend on it.
TILE_SUBSETS = 256
# Format: rows of a tile.
TILE_ROWS = 16384
# Cost: below this share of rows, listing the drawn rows is cheaper than marking every row.
SPARSE_SHARE = 1 / 16


@dataclass(frozen=True, slots=True)
class TileDraw:
    """The part of up to 256 subsets that falls into one block of rows.

    Exactly one form is filled: `mask` (without replacement, many rows), or `rows` with `starts`
    (row numbers inside the block; subset j owns ``rows[starts[j]:starts[j + 1]]``).
    """

    n_rows: int
    mask: BoolArray | None = None  # (n_subsets, n_rows)
    rows: IntArray | None = None  # (total,)
    starts: IntArray | None = None  # (n_subsets + 1,)

    def row_lists(self) -> tuple[IntArray, IntArray]:
        """Return `(rows, starts)` whichever form is held."""
        if self.mask is not None:
            starts = np.concatenate([[0], np.cumsum(np.count_nonzero(self.mask, axis=1))])
            return np.nonzero(self.mask)[1], starts
        assert self.rows is not None
        assert self.starts is not None
        return self.rows, self.starts

    def first(self, n_subsets: int) -> TileDraw:
        """Return the draw of the first `n_subsets` subsets alone."""
        if self.mask is not None:
            return TileDraw(self.n_rows, mask=self.mask[:n_subsets])
        rows, starts = self.row_lists()
        return TileDraw(self.n_rows, rows=rows[: starts[n_subsets]], starts=starts[: n_subsets + 1])

    def counts(self, part: slice | None = None) -> FloatArray:
        """Return how often each row (or each row of `part`) was drawn, shape (n_subsets, n_rows)."""
        return self.small_counts(part).astype(np.float64)

    def small_counts(self, part: slice | None = None) -> np.ndarray:
        """Return the same as truth values or small integers, which take an eighth of the memory."""
        if self.mask is not None:
            return self.mask if part is None else self.mask[:, part]
        largest = int(np.diff(self.row_lists()[1]).max(initial=0))
        counted = self._sparse(np.int16 if largest < 2**15 else np.int32)
        found: np.ndarray = (counted if part is None else counted[:, part]).toarray()
        return found

    def sparse_counts(self) -> sparse.csr_array:
        """Return `counts()` as a sparse array; a row drawn twice appears twice, which products respect."""
        return self._sparse(np.float64)

    def _sparse(self, dtype: DTypeLike) -> sparse.csr_array:
        rows, starts = self.row_lists()
        index = rows.astype(np.int32), starts.astype(np.int32)
        return sparse.csr_array((np.ones(rows.size, dtype), *index), shape=(starts.size - 1, self.n_rows))


def draw_with_replacement(rng: np.random.Generator, n_rows: int, sizes: IntArray) -> TileDraw:
    """Draw ``sizes[j]`` rows of a block for every subset j, with replacement."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    # 16-bit draws cost half of 64-bit ones; a tile has at most 16384 rows.
    return TileDraw(n_rows, rows=rng.integers(0, n_rows, starts[-1], dtype=np.uint16), starts=starts)


def draw_without_replacement(
    rng: np.random.Generator, n_rows: int, sizes: IntArray, *, dense: bool
) -> TileDraw:
    """Draw ``sizes[j]`` distinct rows of a block for every subset j.

    Parameters
    ----------
    rng : Generator
        The stream of this tile and block.
    n_rows : int
        Rows in the block, at most 16384.
    sizes : ndarray of shape (n_subsets,)
        How many rows each subset takes here.
    dense : bool
        Mark every row (good for many rows) or list the drawn ones (good for few). Part of the plan's
        identity: the two forms consume the stream differently.
    """
    if dense:
        return TileDraw(n_rows, mask=mark_rows(rng, n_rows, sizes))
    rows = _list_rows(rng, n_rows, sizes)
    return TileDraw(n_rows, rows=rows, starts=np.concatenate([[0], np.cumsum(sizes)]))


def mark_rows(rng: np.random.Generator, n_rows: int, sizes: IntArray) -> BoolArray:
    """Mark each row by one random byte, then flip random rows until every count is exact.

    About sqrt(n) rows per subset need the second step, so the cost is close to one byte per row.
    """
    n_subsets = sizes.size
    share = min(max(sizes.mean() / n_rows, 1 / 256), 255 / 256)
    words = rng.bit_generator.random_raw(-(-n_subsets * n_rows // 8)).astype("<u8", copy=False)
    uniform_bytes = words.view(np.uint8)[: n_subsets * n_rows].reshape(n_subsets, n_rows)
    mask: BoolArray = uniform_bytes < round(256 * share)
    flat = mask.reshape(-1)
    surplus = np.array([np.count_nonzero(subset) for subset in mask]) - sizes  # four times as fast as by axis
    while (open_subsets := np.flatnonzero(surplus)).size:
        missing = np.abs(surplus[open_subsets])
        flip_from = surplus[open_subsets] > 0  # marked rows leave, or unmarked rows enter
        hit_rate = np.where(flip_from, share, 1 - share)
        n_candidates = int((missing / hit_rate).max() * 1.2) + 8
        candidates = rng.integers(0, n_rows, (open_subsets.size, n_candidates), dtype=np.uint16)
        places = open_subsets[:, None] * n_rows + candidates
        usable = flat.take(places) == flip_from[:, None]
        usable &= np.cumsum(usable, axis=1, dtype=np.int32) <= missing[:, None]
        # A candidate may come twice: it flips once, and the next round makes up for it.
        cells = _distinct(places[usable])
        flat[cells] ^= True
        surplus -= np.sign(surplus) * np.bincount(cells // n_rows, minlength=n_subsets)
    return mask


def _distinct(values: IntArray) -> IntArray:
    """Return the distinct values in order; several times faster here than the hash table of np.unique."""
    values.sort()
    first = np.ones(values.size, dtype=np.bool_)  # stays right when there are no values at all
    first[1:] = values[1:] != values[:-1]
    return values[first]


def _list_rows(rng: np.random.Generator, n_rows: int, sizes: IntArray) -> IntArray:
    """Draw rows with replacement and redraw repeated ones until none is left; sorted within a subset.

    Every subset has a line of its own, filled up with a number above any row: lines of 16-bit numbers sort
    ten times faster than one list of everything.
    """
    taken = np.arange(sizes.max()) < sizes[:, None]
    rows = np.full(taken.shape, np.iinfo(np.uint16).max, dtype=np.uint16)
    rows[taken] = rng.integers(0, n_rows, int(sizes.sum()), dtype=np.uint16)
    while True:
        rows.sort(axis=1)
        line, column = np.nonzero((rows[:, 1:] == rows[:, :-1]) & taken[:, 1:])
        if line.size == 0:
            return rows[taken]
        rows[line, column] = rng.integers(0, n_rows, line.size, dtype=np.uint16)
