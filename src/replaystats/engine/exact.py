"""Exact sums over subsets: the same bits for every order, thread, chunk, partition and worker.

Rows are split into two slices on a power-of-two grid (see `_core.exact`); counts times a slice adds up
without any rounding. Costs about twice the product of plain sums, and the columns' maxima must be known
first. Where subsets are small, a sparse product takes the place of a dense one.
"""

from __future__ import annotations

import itertools
from operator import itemgetter
from typing import Any

import numpy as np

from .._core.config import memory_budget
from .._core.exact import ExactGrid, column_maxima
from .._core.typing import FloatArray
from ..moments import HeldMoments
from ..plans import ResamplingPlan
from ..plans.tiles import TILE_ROWS, TILE_SUBSETS, TileDraw
from .executors import Executor

# Batch: rows split and multiplied at a time: with 90 columns, three times 360 kB stay in the cache of a core.
_CACHED_ROWS = 512


def bytes_per_row(n_columns: int) -> int:
    """Return the working memory of one row: moments, their making, scaled copy and slices, and counts."""
    return 8 * 6 * n_columns + 12 * TILE_SUBSETS


def counts_of(draw: TileDraw, part: slice, *, sparse: bool) -> Any:
    """Return how often the rows of a `part` of the draw's block are in every subset, (subsets, rows)."""
    if not sparse:
        return draw.small_counts(part)
    counts = draw.sparse_counts()
    return counts if part == slice(0, draw.n_rows) else counts[:, part]


def add_products(sums: FloatArray, slices: tuple[FloatArray, FloatArray], counts: Any) -> None:
    """Add counts times both slices to sums.

    Parameters
    ----------
    sums : ndarray of shape (2, columns, subsets)
    slices : two ndarrays of shape (rows, columns)
    counts : ndarray or sparse array of shape (subsets, rows)
        From `counts_of`.
    """
    dense = counts.astype(np.float64).T if isinstance(counts, np.ndarray) else None
    for total, rows in zip(sums, slices, strict=True):
        # Transposed, because BLAS is faster with the long side of the product as its columns.
        total += (counts @ rows).T if dense is None else rows.T @ dense


def add_rows(
    sums: FloatArray, rows: FloatArray, grid: ExactGrid, counts: Any, everything: FloatArray | None
) -> bool:
    """Split rows and add counts times both slices, as many at a time as stay in the cache.

    Parameters
    ----------
    sums : ndarray of shape (2, columns, subsets)
    rows : ndarray of shape (rows, columns)
    grid : ExactGrid
    counts : ndarray or sparse array of shape (subsets, rows)
        From `counts_of`.
    everything : ndarray of shape (2, columns), optional
        To which the slices of all rows are added.

    Returns
    -------
    bool
        Whether all numbers were within the bounds of the grid; the sums mean nothing else.
    """
    size = _CACHED_ROWS if isinstance(counts, np.ndarray) else len(rows)
    for first in range(0, len(rows), size):
        part = slice(first, first + size)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is named by the survey
            slices = grid.split(rows[part])
        if not grid.holds(slices[0]):
            return False
        add_products(sums, slices, counts if size == len(rows) else counts[:, part])
        if everything is not None:
            everything += [np.ones(len(each)) @ each for each in slices]
    return True


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
                part = slice(first - start, last - start)
                add_products(sums, slices, counts_of(draw, part, sparse=sparse))
        return grid.join(*sums.swapaxes(1, 2))

    return np.concatenate(executor.map(one_tile, tiles))


# Cost: cost of one multiply-add: in a GEMM, per drawn row in a sparse product from cache, and from memory
# (nanoseconds, measured for 90 columns; only their ratios matter).
_GEMM_COST, _SPARSE_COST_CACHED, _SPARSE_COST = 0.055, 0.6, 1.4
# Cost: what stays in the cache of a core.
_CACHED_BYTES = 8 * 2**20


def gather_is_cheaper(plan: ResamplingPlan, n_bytes: int) -> bool:
    """Whether subsets are so small that a sparse product beats a dense one on rows of `n_bytes`."""
    sparse_cost = _SPARSE_COST_CACHED if n_bytes <= _CACHED_BYTES else _SPARSE_COST
    return plan.subsample_size * sparse_cost < plan.n_observations * _GEMM_COST
