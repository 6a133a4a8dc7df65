"""Exact sums over subsets: the same bits for every order, thread, chunk, partition and worker.

Rows are split into two slices on a power-of-two grid (see `_core.exact`); counts times a slice adds up
without any rounding. Costs about twice the product of plain sums, and the columns' maxima must be known
first. Where subsets are small, a sparse product takes the place of a dense one.
"""

from __future__ import annotations

import itertools
from operator import itemgetter

import numpy as np

from .._core.config import memory_budget
from .._core.exact import ExactGrid, column_maxima
from .._core.typing import FloatArray
from ..moments import HeldMoments
from ..plans import ResamplingPlan
from ..plans.tiles import TILE_ROWS, TILE_SUBSETS, TileDraw
from .executors import Executor


def bytes_per_row(n_columns: int) -> int:
    """Return the working memory of one row: moments, their making, scaled copy and slices, and counts."""
    return 8 * 6 * n_columns + 12 * TILE_SUBSETS


def add_products(
    sums: FloatArray,
    slices: tuple[FloatArray, FloatArray],
    draw: TileDraw,
    part: slice,
    *,
    sparse: bool,
) -> None:
    """Add counts times both slices to sums of shape (2, columns, subsets).

    Parameters
    ----------
    sums : ndarray of shape (2, columns, subsets)
    slices : two ndarrays of shape (rows, columns)
    draw : TileDraw
        Of the tile and block that hold the rows.
    part : slice
        The rows' place inside the block.
    sparse : bool
        By a sparse product.
    """
    if sparse:
        counts = draw.sparse_counts()
        if part != slice(0, draw.n_rows):
            counts = counts[:, part]
        for total, rows in zip(sums, slices, strict=True):
            total += (counts @ rows).T
        return
    dense = draw.counts(part).T
    for total, rows in zip(sums, slices, strict=True):
        # Transposed, because BLAS is faster with the long side of the product as its columns.
        total += rows.T @ dense


def exact_sums(
    moments: HeldMoments,
    plan: ResamplingPlan,
    tiles: range,
    executor: Executor,
) -> FloatArray:
    """Sum moments in memory over the subsets of some tiles, shape (subsets, columns)."""
    step = max(1, min(TILE_ROWS, memory_budget() // bytes_per_row(moments.n_columns)))
    pieces = [
        (block, first, min(first + step, rows.stop))
        for block, rows in enumerate(plan.row_blocks)
        for first in range(rows.start, rows.stop, step)
    ]
    maxima = np.zeros(moments.n_columns)
    for _, first, last in pieces:
        maxima = np.maximum(maxima, column_maxima(moments.stacked_rows(first, last)))
    grid = ExactGrid.from_maxima(maxima, max(plan.n_observations, plan.subsample_size))
    sparse = gather_is_cheaper(plan, 16 * step * moments.n_columns)
    # Slices that fit are made once, the others again for every tile.
    fits = 16 * plan.n_observations * moments.n_columns <= memory_budget() // 2
    held = {first: grid.split(moments.stacked_rows(first, last)) for _, first, last in pieces if fits}

    def one_tile(tile: int) -> FloatArray:
        subsets = plan.tile_subsets(tile)
        sums = np.zeros((2, moments.n_columns, subsets.stop - subsets.start))
        for block, of_block in itertools.groupby(pieces, key=itemgetter(0)):
            draw, start = plan.draw(tile, block), plan.row_blocks[block].start
            for _, first, last in of_block:
                slices = held[first] if fits else grid.split(moments.stacked_rows(first, last))
                add_products(sums, slices, draw, slice(first - start, last - start), sparse=sparse)
        return grid.join(*sums.swapaxes(1, 2))

    return np.concatenate(executor.map(one_tile, tiles))


# Cost of one multiply-add: in a GEMM, per drawn row in a sparse product from cache, and from memory
# (nanoseconds, measured for 90 columns; only their ratios matter).
_GEMM_COST, _SPARSE_COST_CACHED, _SPARSE_COST = 0.055, 0.6, 1.4
_CACHED_BYTES = 8 * 2**20


def gather_is_cheaper(plan: ResamplingPlan, n_bytes: int) -> bool:
    """Whether subsets are so small that a sparse product beats a dense one on rows of `n_bytes`."""
    sparse_cost = _SPARSE_COST_CACHED if n_bytes <= _CACHED_BYTES else _SPARSE_COST
    return plan.subsample_size * sparse_cost < plan.n_observations * _GEMM_COST
