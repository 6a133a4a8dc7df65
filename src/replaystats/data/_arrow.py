"""Arrow's list columns as flat NumPy arrays: the lists are the episodes, so that nothing is copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.typing import IntArray


def explode_lists(column: Any, name: str) -> tuple[np.ndarray, IntArray]:
    """Return the values of all lists of an Arrow column, and the length of each.

    Parameters
    ----------
    column : pyarrow.ChunkedArray or pyarrow.Array
        Lists of numbers, or of vectors of one length.
    name : str
        What to call the column in an error.

    Returns
    -------
    values : ndarray of shape (R,) or (R, d)
        Missing numbers are NaN; integers without missing ones stay integers.
    lengths : ndarray of int, shape (n,)
    """
    lists = _one_array(column)
    if lists.null_count:
        row = int(np.flatnonzero(lists.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(must_be(name, "a list in every row", f"a missing one in row {row}"))
    lengths = lists.value_lengths().to_numpy()
    inner = lists.flatten()
    if not hasattr(inner, "value_lengths"):
        return _numbers(inner, name), lengths
    widths = inner.value_lengths().to_numpy(zero_copy_only=False)
    if inner.null_count or np.ptp(widths) > 0:
        got = "missing vectors" if inner.null_count else f"{widths.min()} to {widths.max()} numbers"
        raise ValueError(must_be(name, "vectors of one length", got))
    return _numbers(inner.flatten(), name).reshape(len(inner), -1), lengths


def _one_array(column: Any) -> Any:
    if not hasattr(column, "num_chunks"):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()  # the second always copies


def _numbers(values: Any, name: str) -> np.ndarray:
    if str(values.type) == "bool":
        values = values.cast("float64")
    array: np.ndarray = values.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "iuf":
        raise TypeError(must_be(name, "lists of numbers", f"lists of {values.type}"))
    return array
