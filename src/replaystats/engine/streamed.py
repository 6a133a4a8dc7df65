"""Sums over subsets of data that stay where they are: on disk, or on the workers of a cluster.

Read `streamed_sums` top to bottom. Every task takes a group of consecutive blocks, draws their share of every
subset from the plan's fixed tiles, and returns one array of partial sums; nothing but these travels. Sums are
exact, so groups, order, workers and interruptions leave no trace in the result: rows are split into two
slices on a power-of-two grid (see `ExactGrid`), and counts times a slice add up without rounding. It costs
about twice the product of plain sums, and the columns' maxima must be known first. `exact_sums` does the same
for moments in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.config import memory_budget, track
from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray
from ..data.blocks import PartitionError
from ..moments import StreamedMoments
from ..moments.factored import HeldMoments
from ..moments.streamed import AnyMoments, ExactGrid, column_maxima
from ..plans import ResamplingPlan
from ..plans.tiles import TILE_ROWS, TILE_SUBSETS
from .checkpoint import Checkpoint, CheckpointError, data_identity, describe, plan_identity
from .executors import Executor, JoblibExecutor

# Batch: rows split and multiplied at a time: with 90 columns, three times 360 kB stay in the cache of a core.
_CACHED_ROWS = 512


def bytes_per_row(n_columns: int) -> int:
    """Return the working memory of one row: moments, their making, scaled copy and slices, and counts."""
    return 8 * 6 * n_columns + 12 * TILE_SUBSETS


def _add_products(sums: FloatArray, slices: tuple[FloatArray, FloatArray], counts: Any) -> None:
    """Add counts (subsets, rows) times both slices (rows, columns) to sums (2, columns, subsets)."""
    if not isinstance(counts, np.ndarray):  # sparse
        for total, rows in zip(sums, slices, strict=True):
            total += (counts @ rows).T
        return
    for first in range(0, counts.shape[1], _CACHED_ROWS):
        part = slice(first, first + _CACHED_ROWS)
        dense = counts[:, part].astype(np.float64).T
        for total, rows in zip(sums, slices, strict=True):
            # Transposed, because BLAS is faster with the long side of the product as its columns.
            total += rows[part].T @ dense


def exact_sums(moments: HeldMoments, plan: ResamplingPlan, tiles: range, executor: Executor) -> FloatArray:
    """Sum moments in memory over the subsets of some tiles, shape (subsets, columns): one block, by tiles."""
    everything = range(1)
    step = _power_of_two(memory_budget() // bytes_per_row(moments.n_columns))
    maxima = np.zeros(moments.n_columns)
    for _, rows in moments.pieces(everything, step):
        maxima = np.maximum(maxima, column_maxima(rows))
    grid = ExactGrid.from_maxima(maxima, max(plan.n_observations, plan.subsample_size))

    def one_tile(tile: int) -> FloatArray:
        task = SumTask(moments, plan, range(tile, tile + 1), grid, step)
        return grid.join(*task(everything).swapaxes(1, 2))[:-1]

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


# Batch: a few tasks per worker even out blocks of unequal cost.
TASKS_PER_WORKER = 4
# Batch: A task this large pays for its start and its result many times over; more tasks only make the
# progress bar and the checkpoints finer.
_TASK_ROWS = 2**20
# Batch: below this many rows at a time the products are too thin to be worth anything.
_FEWEST_ROWS = 64
# Batch: drawing a tile of 256 x 16384 takes at most this (measured, with replacement and k = n).
_DRAW_BYTES = 40 * 2**20


@dataclass(frozen=True, slots=True, eq=False)
class SumTask:
    """What a worker needs to sum a group of blocks: the way to the data, and numbers of fixed size."""

    moments: AnyMoments
    plan: ResamplingPlan
    tiles: range
    grid: ExactGrid
    step: int

    def __call__(self, group: range) -> FloatArray:
        """Return the sums of both slices, shape (2, columns, subsets + 1); the last is the sum of all."""
        plan, columns = self.plan, self.moments.n_columns
        first_subset, last_subset = (
            plan.tile_subsets(self.tiles[0]).start,
            plan.tile_subsets(self.tiles[-1]).stop,
        )
        sums = np.zeros((2, columns, last_subset - first_subset + 1))
        sparse = gather_is_cheaper(plan, 16 * self.step * columns)
        begins = [rows.start for rows in plan.row_blocks]
        for first, rows in self.moments.pieces(group, self.step):
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is named by the survey
                slices = self.grid.split(rows)
            if not self.grid.holds(slices[0]):
                return np.full_like(sums, np.nan)  # for the caller to look through all rows first
            sums[:, :, -1] += [np.ones(len(each)) @ each for each in slices]
            block = bisect_right(begins, first) - 1
            part = slice(first - begins[block], first - begins[block] + len(rows))
            for tile in self.tiles:
                subsets, draw = plan.tile_subsets(tile), plan.draw(tile, block)
                target = sums[:, :, subsets.start - first_subset : subsets.stop - first_subset]
                counts = draw.sparse_counts()[:, part] if sparse else draw.small_counts(part)
                _add_products(target, slices, counts)
        return sums


def streamed_sums(
    moments: StreamedMoments,
    plan: ResamplingPlan,
    tiles: range,
    executor: Executor | None,
) -> FloatArray:
    """Sum streamed moments over the subsets of some tiles, shape (subsets, columns).

    1. Bound the largest number of every column by the first rows, which decides the grid of the exact sums.
    2. Sum every group of blocks over all subsets, adding up what comes back.
    3. Where some number exceeded its bound, find the largest of all rows, and sum again.
    4. Round once.
    """
    executor = JoblibExecutor() if executor is None else executor
    rounded = None
    if moments.maxima is None:
        rounded = _exact_sums(moments, plan, tiles, executor, moments.likely_maxima)
    if rounded is None:
        if moments.maxima is None:
            moments.maxima = _survey(moments, executor)
        rounded = _exact_sums(moments, plan, tiles, executor, moments.maxima)
    if rounded is None:
        raise PartitionError("Some partition has changed since its largest numbers were looked up.")
    if plan.subsample_size <= plan.n_observations:  # else the grid is not the one `total` would take
        moments.sums = rounded[-1].copy()
    return rounded[:-1]


def _exact_sums(
    moments: StreamedMoments, plan: ResamplingPlan, tiles: range, executor: Executor, bounds: FloatArray
) -> FloatArray | None:
    """Return sums over the subsets and, last, over all rows; None where a number exceeds its bound."""
    n_subsets = plan.n_resamples - tiles.start * TILE_SUBSETS
    step = _rows_at_a_time(moments, plan, tiles, n_subsets)
    grid = ExactGrid.from_maxima(bounds, max(plan.n_observations, plan.subsample_size))
    identity = data_identity(moments) | plan_identity(plan, tiles.start)
    identity["maxima"] = describe(bounds)
    sums = np.zeros((2, moments.n_columns, n_subsets + 1))
    name = f"sums-{tiles.start}-{tiles.stop}" + ("" if moments.maxima is None else "-surveyed")
    _reduce(
        moments,
        SumTask(moments, plan, tiles, grid, step),
        sums,
        np.add,
        executor=executor,
        checkpoint=Checkpoint(moments.checkpoint, name, identity),
        description="summing",
    )
    return None if np.isnan(sums).any() else grid.join(*sums.swapaxes(1, 2))


def _survey(moments: StreamedMoments, executor: Executor) -> FloatArray:
    """Return the largest |entry| of every column: one pass over the data."""
    maxima = np.zeros(moments.n_columns)
    checkpoint = Checkpoint(moments.checkpoint, "maxima", data_identity(moments))
    _reduce(
        moments,
        moments.surveyed_maxima,
        maxima,
        np.maximum,
        executor=executor,
        checkpoint=checkpoint,
        description="surveying",
    )
    return maxima


def _reduce(
    moments: StreamedMoments,
    task: Callable[[range], FloatArray],
    values: FloatArray,
    combine: np.ufunc,
    *,
    executor: Executor,
    checkpoint: Checkpoint,
    description: str,
) -> None:
    """Combine the task's answers for all groups of blocks into `values`, going on where a run stopped."""
    done = np.zeros(moments.n_blocks, dtype=bool)
    checkpoint.load(done, values)
    if np.isnan(values).any():  # a bound was exceeded: the rest would not help
        return
    groups = list(_groups(moments, done, executor.n_workers))
    answers = track(executor.stream(task, groups), total=len(groups), description=description)
    try:
        for group, answer in zip(groups, answers, strict=True):
            combine(values, answer, out=values)
            done[group.start : group.stop] = True
            checkpoint.save(done, values)
    except (PartitionError, CheckpointError):
        raise
    except Exception as error:
        raise PartitionError(_blame(moments, groups, done, error)) from error


def _groups(moments: StreamedMoments, done: BoolArray, n_workers: int) -> Iterator[range]:
    """Cut the blocks that are still to do into groups of about equally many rows."""
    remaining = np.flatnonzero(~done)
    rows = np.diff(moments.starts)[remaining]
    n_groups = max(TASKS_PER_WORKER * n_workers, int(rows.sum()) // _TASK_ROWS)
    target = rows.sum() / n_groups
    first, size = 0, 0
    for i, length in enumerate(rows):
        size += length
        last = i + 1 == remaining.size
        if last or size >= target or remaining[i + 1] != remaining[i] + 1:
            yield range(int(remaining[first]), int(remaining[i]) + 1)
            first, size = i + 1, 0


def _blame(moments: StreamedMoments, groups: list[range], done: BoolArray, error: Exception) -> str:
    """Say which partitions were being worked on when the workers failed.

    Engines that say which tasks a dead worker had, name them as the groups do, in the error or its notes.
    """
    open_groups = [group for group in groups if not done[group.start]]
    message = " ".join([str(error), *getattr(error, "__notes__", ())])
    suspects = [group for group in open_groups if str(group) in message] or open_groups
    labels = [moments.source.label(block) for group in suspects for block in group]
    named = labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
    return (
        f"Partition(s) {named} could not be worked on: {type(error).__name__}: {error} "
        "If workers ran out of memory, use smaller partitions, a smaller `memory_budget` or larger workers."
    )


def _rows_at_a_time(moments: StreamedMoments, plan: ResamplingPlan, tiles: range, n_subsets: int) -> int:
    """Return how many rows, a power of two, fit into the budget beside what has a fixed size."""
    columns = moments.n_columns
    # A draw, a block as loaded, sums of a task and of its caller, the split of every tile over row blocks.
    fixed = (
        _DRAW_BYTES
        + moments.largest_block_bytes
        + 2 * 16 * columns * (n_subsets + 1)
        + 8 * TILE_SUBSETS * len(tiles) * len(plan.row_blocks)
    )
    budget = memory_budget()
    affordable = (budget - fixed) // bytes_per_row(columns)
    if affordable < _FEWEST_ROWS:
        needed = fixed + _FEWEST_ROWS * bytes_per_row(columns)
        blocks = f"blocks of {moments.largest_block_bytes} bytes"
        rule = f"at least {needed} bytes for {n_subsets} subsets and {blocks}"
        hint = "Or use smaller blocks, or fewer subsets at a time and more of them with `extend`."
        raise ValueError(must_be("memory_budget", rule, budget, hint))
    return _power_of_two(affordable)


def _power_of_two(rows: int) -> int:
    """Return the largest power of two up to `rows` that divides the rows of a tile: no piece lies in two."""
    return min(TILE_ROWS, 1 << max(0, int(rows).bit_length() - 1))
