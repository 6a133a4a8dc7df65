"""Which row of a log follows which: episodes told apart, rows sorted in time, missing steps found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_known
from ..data._flat import offsets_of
from ..data.views import DT_TOLERANCE
from ._columns import Column, as_floats, as_numpy


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The rows of a table in order of episode and time.

    Attributes
    ----------
    rows : ndarray of int, shape (R,)
        Where each sorted row stands in the table.
    lengths : ndarray of int, shape (n,)
        Rows of each episode.
    ids : ndarray of shape (n,)
        What the table calls each episode, sorted.
    gap_after : ndarray of bool, shape (R,)
        Whether steps of the same episode are missing behind a row.
    dt : float, ndarray of shape (R,), or None
        Time to the next row of the episode; on its last row, a number without meaning.
    """

    rows: IntArray
    lengths: IntArray
    ids: np.ndarray
    gap_after: BoolArray
    dt: float | FloatArray | None

    @property
    def episode(self) -> IntArray:
        """Position in `ids` of the episode of each sorted row, shape (R,)."""
        return np.repeat(np.arange(len(self.ids)), self.lengths)

    @property
    def last(self) -> BoolArray:
        """Whether a sorted row is the last of its episode, shape (R,)."""
        last = np.zeros(len(self.rows), dtype=np.bool_)
        last[offsets_of(self.lengths)[1:] - 1] = True
        return last


def order_rows(episode: Column | None, step: Column | None, time: Column | None, n_rows: int) -> Order:
    """Sort rows by episode, then by `step` if there is one, else by `time`, else as they stand."""
    steps = None if step is None else _finite(as_floats(step, "step"), "step")
    times = None if time is None else _finite(as_times(time), "time")
    key = times if steps is None else steps
    codes, ids = _factorise(episode, n_rows, contiguous=key is None)
    rows = _sort(codes, key)
    lengths = np.bincount(codes, minlength=len(ids))
    inside = np.ones(n_rows, dtype=np.bool_)  # rows that are followed by one of their own episode
    inside[offsets_of(lengths)[1:] - 1] = False
    gap_after = np.zeros(n_rows, dtype=np.bool_)
    if steps is not None:
        apart = _advance(steps, "step", rows, inside, codes, ids)
        gap_after = inside & (apart > apart[inside].min(initial=np.inf))
    dt = None
    if times is not None:
        scale = float(np.abs(times).max())
        dt = even_or_each(_advance(times, "time", rows, inside, codes, ids), inside & ~gap_after, scale)
    return Order(rows=rows, lengths=lengths, ids=ids, gap_after=gap_after, dt=dt)


def as_times(column: Column) -> FloatArray:
    """Return times as numbers; dates are counted in seconds from the first."""
    array = as_numpy(column)
    if array.dtype.kind == "O" and len(array) and hasattr(array[0], "tzinfo"):
        return _seconds(array)  # times with zones
    if array.dtype.kind == "M":
        return np.asarray((array - array.min()) / np.timedelta64(1, "s"), dtype=np.float64)
    return as_floats(column, "time")


def _seconds(times: np.ndarray) -> FloatArray:
    """Return times with zones as seconds from the first; a change of clocks in between is no gap."""
    try:
        return np.array([(time - times[0]).total_seconds() for time in times.tolist()])
    except (TypeError, AttributeError) as error:
        raise TypeError(must_be("time", "times in every row, all with zones or none", f"{error}")) from error


def even_or_each(dt: FloatArray, valid: BoolArray, scale: float) -> float | FloatArray | None:
    """Return one number when all valid time steps agree, up to the rounding of times as large as `scale`."""
    steps = dt[valid]
    if len(steps) == 0:
        return None
    mean = float(steps.mean())
    rounding = max(DT_TOLERANCE * mean, 4 * np.finfo(np.float64).eps * scale)
    return mean if np.ptp(steps) <= rounding else np.where(valid, dt, mean)


def _finite(values: FloatArray, name: str) -> FloatArray:
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(must_be(name, "finite in every row", f"{values[row]:g} in row {row}"))
    return values


def _factorise(episode: Column | None, n_rows: int, *, contiguous: bool) -> tuple[IntArray, np.ndarray]:
    """Return the position of each row's episode among the sorted ids, and the ids."""
    if episode is None:
        return np.zeros(n_rows, dtype=np.int64), np.array([0])
    labels = check_known(as_numpy(episode), "episode")
    starts = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
    heads = labels[starts]  # rows of one episode mostly stand together: few labels to sort
    ids, codes = np.unique(heads, return_inverse=True) if heads.dtype.kind != "O" else _unique_objects(heads)
    if contiguous and len(ids) < len(heads):
        again = ids[np.flatnonzero(np.bincount(codes) > 1)[0]]
        hint = "Pass `step` or `time` to sort by; two episodes may also share an id."
        raise ValueError(
            must_be("episode", "the same in consecutive rows only", f"{again} in two places", hint)
        )
    return np.repeat(codes, np.diff(starts, append=n_rows)), ids


def _unique_objects(labels: np.ndarray) -> tuple[np.ndarray, IntArray]:
    """Do as `np.unique` with its inverse, but hash first: sorting a million texts takes ten times as long."""
    listed = labels.tolist()
    try:
        ids = sorted(dict.fromkeys(listed))
    except TypeError as error:
        kinds = " and ".join(sorted({type(label).__name__ for label in listed}))
        raise TypeError(must_be("episode", "a column of one type", kinds)) from error
    position = {label: i for i, label in enumerate(ids)}
    return np.array(ids), np.fromiter(map(position.__getitem__, listed), dtype=np.int64, count=len(listed))


def _sort(codes: IntArray, key: FloatArray | None) -> IntArray:
    in_order = codes[1:] > codes[:-1]
    same = codes[1:] == codes[:-1]
    if np.all(in_order | (same if key is None else same & (key[1:] > key[:-1]))):
        return np.arange(len(codes))
    return np.argsort(codes, kind="stable") if key is None else np.lexsort((key, codes))


def _advance(
    values: FloatArray, name: str, rows: IntArray, inside: BoolArray, codes: IntArray, ids: np.ndarray
) -> FloatArray:
    """Return how far each sorted row is from the next (R,), which must be ahead of it in its episode."""
    ordered = values[rows]
    apart = np.diff(ordered, append=ordered[-1])
    wrong = np.flatnonzero(inside & (apart <= 0))
    if len(wrong):
        first = int(wrong[0])
        here, there = ordered[first], ordered[first + 1]
        where = f"in episode {ids[codes[rows[first]]]} (table rows {rows[first]} and {rows[first + 1]})"
        got = f"{here:g} twice {where}" if here == there else f"{there:g} after {here:g} {where}"
        hint = "Remove the repeated rows, or tell apart episodes that share an id."
        raise ValueError(must_be(name, "increasing in each episode", got, hint))
    return apart
