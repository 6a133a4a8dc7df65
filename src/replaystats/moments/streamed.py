"""Moments of data that stay where they are: made block by block, every time they are needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from .._core.errors import must_be
from .._core.typing import FloatArray, IntArray
from .._core.user_code import called
from .._core.validation import check_instance, check_int, check_path
from ..data.blocks import Block, PartitionError, RowBlocks, block_size, take_rows
from .factored import FactoredMoments, HeldMoments, sums_follow, written_out
from .record import Moments, sum_units

# Batch: rows turned into moments at a time where no tile says otherwise.
_PIECE_ROWS = 16384
# Batch: rows whose moments are made and summed at a time where units have several: they stay in the cache.
_SUMMED_ROWS = 8192
# Rounding: how far the entries of all rows may exceed those of the first ones, before all rows are surveyed;
# and what an entry of a column may be that was zero there: nothing.
_MARGIN, _ZERO = 16.0, 2.0**-900
# Batch: what may be held of every observation where no budget is given.
_HELD_BYTES = 2**32


class StreamedMoments:
    """Moments g_i, f_i of the rows of a source that need not fit into memory.

    Parameters
    ----------
    source : RowBlocks
        Blocks of rows, for example `ParquetBlocks` or `ArrayBlocks`. One row is one observation, unless
        `rows_per_unit` says otherwise.
    function : callable
        ``function(block, **options)`` returns the `Moments` of the rows of a block, or of any consecutive
        part of them: row i alone decides g_i and f_i.
    checkpoint : path, optional
        Directory for partial sums. A run that was stopped goes on from there, to the same bits.
    rows_per_unit : int from 1 to 16384
        Consecutive rows of a block that are summed and drawn together, as one observation; the last unit of
        a block may have fewer. Plans are made for ``len(moments)`` units, and drawing them costs so many
        times less.
    **options
        Passed to `function`.

    Notes
    -----
    `replicate` sums streamed moments exactly (see `subset_sums`), so results do not depend on blocks, order,
    workers or interruptions.

    Units of several rows change no estimate on all the data. Subsets of them are subsets of rows that stay
    together: of independent rows the variance of a replayed estimate is the same to first order, with as many
    degrees of freedom as there are units; of rows that depend on their neighbours it is the better one, for
    dependence inside a unit is counted. What is a unit depends on where blocks end.

    Examples
    --------
    >>> from replaystats.data.blocks import ArrayBlocks
    >>> from replaystats.moments import ridge_moments
    >>> source = ArrayBlocks({"X": np.ones((10, 1)), "y": np.arange(10.0)}, block_rows=4)
    >>> moments = StreamedMoments(source, lambda block: ridge_moments(block["X"], block["y"]))
    >>> moments
    StreamedMoments(n=10, q=1, symmetric, 3 blocks)
    >>> moments.total()
    (array([[10.]]), array([45.]))
    >>> pairs = StreamedMoments(source, lambda block: ridge_moments(block["X"], block["y"]), rows_per_unit=2)
    >>> len(pairs), pairs.total()
    (5, (array([[10.]]), array([45.])))
    """

    held = None  # nothing lives in memory

    def __init__(
        self,
        source: RowBlocks,
        function: Callable[..., HeldMoments],
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        rows_per_unit: int = 1,
        **options: Any,
    ) -> None:
        if isinstance(source, type) or not all(
            hasattr(source, each) for each in ("lengths", "load", "label")
        ):
            hint = "For example rs.data.ArrayBlocks or rs.data.ParquetBlocks."
            raise TypeError(must_be("source", "blocks of rows", type(source).__name__, hint))
        if not callable(function):
            raise TypeError(must_be("function", "a function of a block", type(function).__name__))
        self.source = source
        self.function = function
        self.options = options
        self.checkpoint = None if checkpoint is None else check_path(checkpoint, "checkpoint", kind="folder")
        self.rows_per_unit = check_int(rows_per_unit, "rows_per_unit", high=_PIECE_ROWS)
        self._lengths: IntArray = np.array(source.lengths, dtype=np.int64)
        units = -(-self._lengths // self.rows_per_unit)
        self.starts: IntArray = np.concatenate([[0], np.cumsum(units)])
        self.weights: FloatArray | None = None
        # What a pass over the data found: largest absolute entries of the columns, and their sums.
        self.maxima: FloatArray | None = None
        self.sums: FloatArray | None = None
        self.solved: dict[Any, Any] = {}
        if self.n_blocks == 0 or self._lengths.min() < 1:
            raise ValueError(must_be("source", "blocks of at least one row", repr(source)))

    @property
    def n_observations(self) -> int:
        """Number of observations n: the resampling units."""
        return int(self.starts[-1])

    @property
    def n_blocks(self) -> int:
        """Number of blocks of the source."""
        return len(self.starts) - 1

    @cached_property
    def example(self) -> Moments:
        """The moments of the first row: what those of all rows look like."""
        return self._first_row[0]

    @property
    def largest_block_bytes(self) -> int:
        """Bytes of the largest block as loaded, judged by the first one."""
        return self._first_row[1] * int(self._lengths.max())

    @cached_property
    def _first_row(self) -> tuple[Moments, int, bool]:
        """The first row's moments, its bytes as loaded, and whether rows may come as factors."""
        loaded = self.load(0)
        n_rows, n_bytes = block_size(loaded)
        row = slice(0, 1)
        return written_out(self._moments(loaded, row, 0)), -(-n_bytes // n_rows), self._factors(loaded, row)

    def _factors(self, loaded: Block, part: slice) -> bool:
        """Whether the function also works where moments keep factors: some may need them written out."""
        try:
            with sums_follow():
                return isinstance(self._moments(loaded, part, 0), FactoredMoments)
        except Exception:
            return False

    @property
    def n_basis(self) -> int:
        """Number of basis functions q."""
        return self.example.n_basis

    @property
    def n_outputs(self) -> int | None:
        """Number of outputs, None for a single one."""
        return self.example.n_outputs

    @property
    def n_columns(self) -> int:
        """Number of columns of [vec g_i | f_i]."""
        return self.example.n_columns

    @property
    def symmetric(self) -> bool:
        """Whether every g_i is symmetric."""
        return self.example.symmetric

    def scaled(self, weights: FloatArray) -> StreamedMoments:
        """Return the moments with g_i and f_i multiplied by ``weights[i]``."""
        # Other weights have other sums: they must not share the checkpoint.
        directory = None if self.checkpoint is None else self.checkpoint / "weighted"
        scaled = StreamedMoments(
            self.source,
            self.function,
            checkpoint=directory,
            rows_per_unit=self.rows_per_unit,
            **self.options,
        )
        scaled.weights = weights
        return scaled

    def load(self, block: int) -> Block:
        """Return one block of the source, or raise an error that names it."""
        label = self.source.label(block)
        try:
            loaded = self.source.load(block)
            n_rows, _ = block_size(loaded)
        except Exception as error:
            raise PartitionError(f"Partition {label} cannot be read: {_one_line(error)}") from error
        expected = int(self._lengths[block])
        if n_rows != expected:
            raise PartitionError(f"Partition {label} must have {expected} rows, as announced; got {n_rows}.")
        return loaded

    def pieces(self, blocks: range, step: int = _PIECE_ROWS) -> Iterator[tuple[int, FloatArray]]:
        """Yield the stacked rows of consecutive blocks in pieces that end at every multiple of `step`.

        Blocks may end anywhere: small ones are joined, large ones are cut.

        Yields
        ------
        first : int
            Number of the first observation of the piece.
        rows : ndarray of shape (at most step, n_columns)
        """
        pending: list[FloatArray] = []
        first = int(self.starts[blocks.start])
        for block in blocks:
            start, end = int(self.starts[block]), int(self.starts[block + 1])
            loaded = self.load(block)
            while start < end:
                stop = min(end, (start // step + 1) * step)
                part = slice(start - int(self.starts[block]), stop - int(self.starts[block]))
                pending.append(self.rows_of(loaded, part, block))
                start = stop
                if start % step == 0:
                    yield first, _joined(pending)
                    first, pending = start, []
        if pending:
            yield first, _joined(pending)

    def surveyed_maxima(self, blocks: range) -> FloatArray:
        """Return the largest absolute entry of every column over some blocks, shape (n_columns,).

        Raises an error that names the first block with NaN or infinite moments.
        """
        largest = np.zeros(self.n_columns)
        for first, rows in self.pieces(blocks):
            largest = np.maximum(largest, column_maxima(rows))
            if not np.isfinite(largest).all():
                bad = first + int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
                label = self.source.label(int(np.searchsorted(self.starts, bad, side="right")) - 1)
                msg = f"Partition {label} must have finite moments; got NaN or infinity in observation {bad}."
                raise PartitionError(msg)
        return largest

    @cached_property
    def likely_maxima(self) -> FloatArray:
        """Bounds of the columns that the first rows make likely: 16 times their largest entries.

        A column of zeros is expected to stay so. Who relies on it must look at every number, and survey all
        rows where one exceeds its bound.
        """
        size = _PIECE_ROWS // self.rows_per_unit
        blocks = range(int(np.searchsorted(self.starts, min(size, self.n_observations), side="left")))
        largest = column_maxima(next(self.pieces(blocks, size))[1])
        return np.maximum(_MARGIN * np.where(np.isfinite(largest), largest, 0.0), _ZERO)

    def total(self) -> tuple[FloatArray, FloatArray]:
        """Return the exact sums over all observations: A (q, q) and b (q,).

        Known after `replicate`; otherwise it takes two passes over the data.
        """
        everything = range(self.n_blocks)
        if self.sums is None:
            if self.maxima is None:
                self.maxima = self.surveyed_maxima(everything)
            grid = ExactGrid.from_maxima(self.maxima, self.n_observations)
            high = low = np.zeros(self.n_columns)
            for _, rows in self.pieces(everything):
                above, below = grid.split(rows)
                high, low = high + above.sum(axis=0), low + below.sum(axis=0)
            self.sums = grid.join(high, low)
        A, b = self.example.unstack(self.sums[None])
        return A[0], b[0]

    def residuals(self, theta: FloatArray) -> FloatArray:
        """Return f_i - g_i theta of all observations, shape (n, q), as long as that fits into memory."""
        n_bytes = 8 * self.n_observations * theta.size
        if n_bytes > _HELD_BYTES:
            rule = f"small enough to hold a number per observation and coefficient ({_HELD_BYTES} bytes)"
            hint = 'Draw with statistic="U" or "V": their intervals go over the data block by block.'
            raise ValueError(must_be("moments", rule, f"{n_bytes} bytes", hint))
        pieces = self.pieces(range(self.n_blocks))
        return np.concatenate([self.example.wrap(rows).residuals(theta) for _, rows in pieces])

    def rows_of(self, loaded: Block, part: slice, block: int) -> FloatArray:
        """Return the stacked moments of some units of a block that was loaded."""
        each, n_rows = self.rows_per_unit, int(self._lengths[block])
        if each == 1:
            rows = written_out(self._checked(loaded, part, block)).rows
        else:  # as many units at a time as make a piece
            size, last = max(1, _SUMMED_ROWS // each) * each, min(part.stop * each, n_rows)
            pieces = (slice(first, min(first + size, last)) for first in range(part.start * each, last, size))
            with sums_follow(self._first_row[2]):
                rows = np.concatenate([_summed(self._checked(loaded, p, block), each) for p in pieces])
        if self.weights is None:
            return rows
        start = int(self.starts[block])
        return rows * self.weights[start + part.start : start + part.stop, None]

    def _checked(self, loaded: Block, part: slice, block: int) -> HeldMoments:
        """Return the moments of some rows of a block, which must look like those of the first."""
        moments = self._moments(loaded, part, block)
        n_rows = part.stop - part.start
        if len(moments) != n_rows or _kind(moments) != _kind(self.example):
            rule = f"one that returns moments of {n_rows} rows with {_kind(self.example)}"
            got = f"{len(moments)} rows with {_kind(moments)} for partition {self.source.label(block)}"
            hint = "Pass symmetric=True or False to Moments, instead of having it looked up in every block."
            raise PartitionError(must_be("function", rule, got, hint))
        return moments

    def _moments(self, loaded: Block, part: slice, block: int) -> HeldMoments:
        try:
            moments: Any = called(self.function, "function", take_rows(loaded, part), **self.options)
        except Exception as error:
            label = self.source.label(block)
            raise PartitionError(f"Partition {label} has no moments: {_one_line(error)}") from error
        if not isinstance(moments, (Moments, FactoredMoments)):
            rule = "a function of a block that returns moments"
            raise TypeError(must_be("function", rule, f"{type(moments).__name__} from it"))
        return moments

    def __len__(self) -> int:
        return self.n_observations

    def __repr__(self) -> str:
        kind = ", symmetric" if self.symmetric else ""
        units = "" if self.rows_per_unit == 1 else f", units of {self.rows_per_unit} rows"
        return f"StreamedMoments(n={len(self)}, q={self.n_basis}{kind}, {self.n_blocks} blocks{units})"


AnyMoments: TypeAlias = HeldMoments | StreamedMoments


def check_moments(moments: Any) -> AnyMoments:
    """Return `moments` if they are such."""
    hint = "Make them with rs.moments.lstd_moments, rs.moments.ridge_moments, ... or rs.Moments(g, f)."
    checked: AnyMoments = check_instance(
        moments, "moments", (Moments, FactoredMoments, StreamedMoments), hint
    )
    return checked


def _kind(moments: HeldMoments) -> str:
    outputs = "one output" if moments.n_outputs is None else f"{moments.n_outputs} outputs"
    return f"q={moments.n_basis}, {outputs}, {'symmetric' if moments.symmetric else 'not symmetric'}"


def _summed(moments: HeldMoments, each: int) -> FloatArray:
    """Sum every `each` consecutive rows, stacked; the last sum may have fewer."""
    n = len(moments)
    ends = np.minimum(np.arange(0, n + each, each), n)
    if isinstance(moments, FactoredMoments) and moments.one_step_each:
        units = FactoredMoments(moments.left, moments.right, moments.response, ends)
        whole = n // each  # of one length, so that they are one product
        parts = [units.some(0, whole), units.some(whole, len(units))]
        return np.concatenate([part.multiplied_rows() for part in parts if len(part)])
    return sum_units(written_out(moments).rows, ends)


def _joined(pieces: list[FloatArray]) -> FloatArray:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")


# Rounding: bits of a double.
_MANTISSA_BITS = 53
# Batch: 512 kB each of rows and slices.
_CACHED_NUMBERS = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class ExactGrid:
    """The grids of c columns, on which sums do not depend on the order of their terms, bit for bit.

    Counts are small integers. So if every number of a column is an integer multiple of one power of two,
    small enough that no partial sum of count x number needs more than 53 bits, then every partial sum is
    exact and any order, grouping or number of workers gives the same bits. A column is split into two such
    slices

        z = high + low + rest,    high on the grid 2^(e-p),    low on the grid 2^(e-2p-1),

    with |z| < 2^e and p = 53 - ceil(log2(N + 1)) bits for at most N terms. The rest, at most 2^(e-2p-2), is
    dropped: nothing at all in ordinary columns of n <= 10^6 terms, and up to n = 10^8 less than the last bit
    of the bound 2^e, which the largest number of the column is near to, or for streams within a factor of 16
    or so.

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
