"""Sums of moments over every subset: the part that costs, done a tile at a time.

Four routes to the same numbers, chosen by cost:

- *product*: the tile's count matrix (256 x rows) times the stacked moments, one GEMM per block of rows;
- *gather*: the same as a sparse product, when subsets are a small share of the data;
- *device*: the same product where the moments are, when they are arrays of PyTorch, CuPy or JAX;
- *factors*: one ``left[idx].T @ right[idx]`` per subset, when the basis is large and g is never formed.

Exact sums, of data in memory or on disk, have a module of their own (`streamed.py`).
"""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from .._core.arrays import LIBRARIES, is_foreign, takes_arrays_of, to_numpy
from .._core.config import memory_budget
from .._core.typing import FloatArray
from .._core.validation import (
    check_bool,
    check_instance,
    check_int,
    check_memory,
    check_work,
)
from ..moments import FactoredMoments, Moments, StreamedMoments
from ..moments.factored import PART_NUMBERS, written_out_for
from ..moments.record import SubsetSums
from ..moments.streamed import AnyMoments, check_moments
from ..plans import ResamplingPlan
from ..plans.plan import check_made_for
from ..plans.tiles import TILE_SUBSETS
from .executors import Executor, SerialExecutor, check_executor
from .streamed import exact_sums, gather_is_cheaper, streamed_sums

# Cost: seconds to draw, sum and solve a system of one unknown, and for the cube of their number.
_SYSTEM, _SYSTEM_CUBE = 1e-5, 1e-9


@takes_arrays_of(*LIBRARIES, where="products on the device of the moments, sums to the host")
def subset_sums(
    moments: AnyMoments,
    plan: ResamplingPlan,
    *,
    start: int = 0,
    executor: Executor | None = None,
    exact: bool = False,
) -> SubsetSums:
    """Sum g and f over the observations of every subset of the plan, times the weights of the plan.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
        n observations.
    plan : ResamplingPlan
        B subsets of them.
    start : int
        Number of the first subset wanted.
    executor : Executor, optional
        Who runs the tiles, or the groups of blocks of streamed moments; default this thread, or what
        ``joblib.parallel_config`` says for streamed ones.
    exact : bool
        Round every sum once, at the end: bit-identical results for any threads, chunks, partitions and
        workers, at about twice the cost. Streamed moments are always summed so.

    Returns
    -------
    SubsetSums
        ``A`` of shape (B, q, q) and ``b`` of shape (B, q) or (B, q, n_outputs).

    Notes
    -----
    Costs O(B n q^2) flops as a product, O(B k q^2) by gathering. The result does not depend on the
    executor, and on the budget only by rounding; not at all if exact.

    Examples
    --------
    >>> import numpy as np
    >>> from replaystats.plans import plan_from_indices
    >>> sums = subset_sums(Moments(np.ones(4), np.arange(4.0)), plan_from_indices([[0, 3], [2, 2]], 4))
    >>> sums.b.ravel()
    array([3., 4.])
    """
    return drawn_sums(moments, plan, start, executor, exact)[1]


def drawn_sums(
    moments: AnyMoments, plan: ResamplingPlan, start: int, executor: Executor | None, exact: bool
) -> tuple[AnyMoments, SubsetSums]:
    """Return the moments as every draw of the plan counts them (times its observation weights), and sums."""
    check_moments(moments)
    check_instance(plan, "plan", ResamplingPlan, "Make one with rs.make_plan.")
    check_executor(executor)
    exact = check_bool(exact, "exact")
    start = check_int(start, "start", low=0, high=plan.n_resamples - 1)
    count, q = plan.n_resamples - start, moments.n_basis
    hint = "Use fewer subsets (add some with `extend` where needed), or fewer basis functions."
    what = f"{count} systems of {q} unknowns"
    check_memory(float(count) * q * (q + 2 * (moments.n_outputs or 1)), "n_resamples", what, hint)
    check_work(solve_seconds(count, q), "n_resamples", count)
    check_made_for(plan, moments.n_observations, "observations of the moments")
    weights, n_tiles = plan.observation_weights, plan.n_tiles
    drawn = moments if weights is None else moments.scaled(weights)
    tiles = range(start // TILE_SUBSETS, n_tiles)
    return drawn, _sums(drawn, plan, start, tiles, executor, exact)


def _sums(
    moments: AnyMoments,
    plan: ResamplingPlan,
    start: int,
    tiles: range,
    executor: Executor | None,
    exact: bool,
) -> SubsetSums:
    """Choose the route."""
    skip = start - tiles.start * TILE_SUBSETS
    if isinstance(moments, StreamedMoments):
        return SubsetSums.of(moments.example, streamed_sums(moments, plan, tiles, executor)[skip:])
    executor = SerialExecutor() if executor is None else executor
    if exact:
        return SubsetSums.of(moments, exact_sums(moments, plan, tiles, executor)[skip:])
    if isinstance(moments, FactoredMoments):
        share = plan.subsample_size / plan.n_observations
        moments = written_out_for(moments, plan.n_resamples - start, share)
    if isinstance(moments, FactoredMoments):
        return _sums_of_factors(moments, plan, start, executor)
    if is_foreign(moments.rows):
        sums = _joined([_on_device(moments, plan, tile) for tile in tiles])
    else:
        by_rows = _by_gather if gather_is_cheaper(plan, moments.rows.nbytes) else _by_product
        sums = _joined(executor.map(lambda tile: by_rows(moments, plan, tile), tiles))
    return SubsetSums.of(moments, sums[skip:])


def _joined(tiles: list[FloatArray]) -> FloatArray:
    """Return the sums of all tiles, without a copy of a single one."""
    return tiles[0] if len(tiles) == 1 else np.concatenate(tiles)


def _by_product(moments: Moments, plan: ResamplingPlan, tile: int) -> FloatArray:
    """Multiply counts by rows, a block of rows at a time, shape (subsets in the tile, columns)."""
    subsets = plan.tile_subsets(tile)
    n_subsets, columns = subsets.stop - subsets.start, moments.rows.shape[1]
    # BLAS is faster with the long side of the product as its columns; the number of subsets has no say, so
    # that more of them leave the first ones as they are.
    wide = columns > TILE_SUBSETS
    sums: FloatArray | None = None
    # A count matrix and the draw behind it take at most 8 + 4 bytes per cell.
    width = max(1, memory_budget() // (12 * n_subsets))
    for block, rows in enumerate(plan.row_blocks):
        draw = plan.draw(tile, block)
        for first in range(0, draw.n_rows, width):
            part = slice(first, min(first + width, draw.n_rows))
            some, counts = moments.rows[rows][part], draw.counts(part)
            product = counts @ some if wide else some.T @ counts.T
            sums = product if sums is None else np.add(sums, product, out=sums)
    assert sums is not None  # there is at least one row
    # Whoever takes up one subset after the other finds its numbers side by side.
    return sums if wide else np.ascontiguousarray(sums.T)


def _on_device(moments: Moments, plan: ResamplingPlan, tile: int) -> FloatArray:
    """Multiply counts by rows where the rows are, and bring the sums to the host."""
    blocks = (
        moments.rows[rows, ...].T @ plan.counts_like(tile, block, moments.rows).T
        for block, rows in enumerate(plan.row_blocks)
    )
    return np.ascontiguousarray(to_numpy(reduce(add, blocks)).T, dtype=np.float64)


def _by_gather(moments: Moments, plan: ResamplingPlan, tile: int) -> FloatArray:
    """Multiply sparse counts by rows, shape (subsets in the tile, columns)."""
    blocks = (
        plan.draw(tile, block).sparse_counts() @ moments.rows[rows]
        for block, rows in enumerate(plan.row_blocks)
    )
    return np.asarray(reduce(add, blocks))


def _sums_of_factors(
    moments: FactoredMoments, plan: ResamplingPlan, start: int, executor: Executor
) -> SubsetSums:
    """One small product per subset, never forming g; no more than a part of the sums is held twice."""
    q, count = moments.n_basis, plan.n_resamples - start
    outputs = () if moments.n_outputs is None else (moments.n_outputs,)
    A, b = np.empty((count, q, q)), np.empty((count, q, *outputs))
    # As many subsets at a time as their sums or their indices take 1 MB.
    size = max(1, min(TILE_SUBSETS, PART_NUMBERS // max(plan.subsample_size, q * q)))
    firsts = range(start, plan.n_resamples, size)

    def part(first: int) -> list[tuple[FloatArray, FloatArray]]:
        last = min(first + size, plan.n_resamples)
        return [moments.sum_over(observations) for observations in plan.indices(first, last)]

    for first, sums in zip(firsts, executor.stream(part, firsts), strict=True):
        for place, (matrix, vector) in enumerate(sums, start=first - start):
            A[place], b[place] = matrix, vector
    return SubsetSums(A, b, moments.symmetric)


def solve_seconds(n_subsets: int, q: int) -> float:
    """Return about how long it takes to sum and solve so many systems of q unknowns on one core."""
    return n_subsets * (_SYSTEM + _SYSTEM_CUBE * q**3)
