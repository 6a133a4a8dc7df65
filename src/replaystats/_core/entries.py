"""What single entries of arrays, frames and columns may be: known, true or false, no text for a number."""

from __future__ import annotations

import numbers
from datetime import date, timedelta
from pathlib import PurePath
from typing import Any

import numpy as np

from .arrays import as_array, check_unmasked
from .errors import must_be
from .typing import ArrayLike, BoolArray, IntArray
from .validation import KINDS, check_array, check_exact

_TIMES = (date, timedelta, np.datetime64, np.timedelta64)


def check_unconverted(value: Any, name: str, *, text: str = "refused", dates: bool = False) -> None:
    """Refuse rows that others would turn into numbers without a word: masks, dates, text, long integers.

    Parameters
    ----------
    value : array-like, data frame or sparse matrix
        Rows on their way to scikit-learn, which checks all the rest.
    name : str
    text : {"refused", "words", "any"}
        What text is left to who can read it: none, all but numbers that are written as text, or any.
    dates : bool
        Whether columns of dates in a frame are left to who can read them.
    """
    _refuse_unread(value, name)
    check_unmasked(value, name)
    if hasattr(value, "iloc") and getattr(value, "ndim", 1) == 2:
        twice = list(value.columns[value.columns.duplicated()])
        if twice:
            raise ValueError(must_be(name, "a frame without two columns of one name", repr(twice[0])))
        left_out = date_columns(value) if dates else {}
        for i, column in enumerate(value.columns):
            if column not in left_out:
                check_unconverted(np.asarray(value.iloc[:, i]), f"{name}[{column!r}]", text=text)
        return
    if hasattr(value, "get_columns"):  # polars, whose dates would become numbers on their way to an array
        for column in value.get_columns():
            check_unconverted(column.to_numpy(), f"{name}[{column.name!r}]", text=text)
        return
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # sparse, ragged: not ours to judge
        return
    kind = array.dtype.kind
    check_exact(array, name)
    if kind == "c":  # scikit-learn wants these words
        raise ValueError(must_be(name, "real numbers", "complex ones", "Complex data not supported."))
    if kind in "MmV" or (kind in "US" and text == "refused"):
        raise TypeError(must_be(name, "numbers", f"{KINDS[kind]} (dtype {array.dtype})"))
    if kind == "O" and any(isinstance(entry, _TIMES) for entry in array.ravel()):
        raise TypeError(must_be(name, "numbers", "dates among its entries"))
    if kind in "OUS" and text != "any":
        if kind == "O" and any(isinstance(entry, (list, tuple, np.ndarray)) for entry in array.ravel()):
            raise TypeError(must_be(name, "numbers", "lists among its entries"))
        _check_text_entries(array, name, words=text == "words")


def _refuse_unread(value: Any, name: str) -> None:
    """Refuse tables that have not been read: paths, lazy frames of polars, relations of DuckDB."""
    rule = "an array or a data frame"
    if isinstance(value, (str, PurePath)):
        hint = "Read it first, for example with pandas.read_parquet; `replaystats regress` takes paths."
        raise TypeError(must_be(name, rule, f"the path {str(value)!r}", hint))
    for method, what in (("collect", "a lazy frame"), ("fetchnumpy", "a relation that was not read")):
        if hasattr(value, method) and not hasattr(value, "__array__"):
            call = "collect" if method == "collect" else "df"
            raise TypeError(must_be(name, rule, what, f"Call .{call}() on it."))


def _check_text_entries(array: np.ndarray, name: str, *, words: bool) -> None:
    """Refuse text among the entries; with `words`, only where all of it would pass for numbers."""
    found = (entry for entry in array.ravel().tolist() if isinstance(entry, (str, bytes)))
    first = next(found, None)
    if first is None or (words and not (reads_as_number(first) and all(map(reads_as_number, found)))):
        return
    hint = "Convert it, or encode it in a pipeline."
    raise TypeError(must_be(name, "numbers", f"{first!r} among its entries", hint))


def reads_as_number(text: str | bytes) -> bool:
    """Whether text looks like a number."""
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def date_columns(frame: Any) -> dict[Any, str]:
    """Return the columns that hold dates, durations or periods, with their types; none if it is no frame."""
    if not hasattr(frame, "iloc"):
        return {}
    types = {column: frame.dtypes.iloc[i] for i, column in enumerate(frame.columns)}
    return {
        column: str(dtype)
        for column, dtype in types.items()
        if getattr(dtype, "kind", "O") in "Mm" or str(dtype).startswith("period")
    }


def check_known(labels: ArrayLike, name: str) -> np.ndarray:
    """Return labels (of episodes, of rows) as an array without missing ones: NaN equals not even itself."""
    if np.ma.is_masked(labels):
        raise ValueError(must_be(name, "known in every row", "masked entries", "Fill or drop them first."))
    array = as_array(labels, name)
    if array.ndim != 1:
        raise ValueError(must_be(name, "one label for each row", f"shape {array.shape}"))
    if isinstance(labels, (list, tuple)) and array.dtype.kind in "SU":  # NumPy turns 1 beside "1" into text
        kinds = sorted({"str" if isinstance(label, str) else type(label).__name__ for label in labels})
        if len(kinds) > 1:
            raise TypeError(must_be(name, "labels of one kind", " and ".join(kinds)))
    missing = is_missing(array)
    if np.any(missing):
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(must_be(name, "known in every row", f"a missing value in row {row}"))
    return array


def number_labels(labels: ArrayLike, name: str) -> tuple[np.ndarray, IntArray]:
    """Return the distinct labels in order, and for every row which of them it has.

    Objects are hashed first: sorting a million texts takes ten times as long.

    Examples
    --------
    >>> number_labels(["b", "a", "b"], "groups")[1]
    array([1, 0, 1])
    >>> number_labels(np.array([1, "a"], dtype=object), "groups")
    Traceback (most recent call last):
    TypeError: `groups` must be labels of one kind; got int and str.
    """
    known = check_known(labels, name)
    if known.dtype.kind != "O":
        distinct, code = np.unique(known, return_inverse=True)
        return distinct, code.reshape(-1)
    listed = known.tolist()
    try:
        ordered = sorted(dict.fromkeys(listed))
    except TypeError as error:
        kinds = " and ".join(sorted({type(label).__name__ for label in listed}))
        raise TypeError(must_be(name, "labels of one kind", kinds)) from error
    place = {label: i for i, label in enumerate(ordered)}
    return np.array(ordered), np.fromiter(map(place.__getitem__, listed), dtype=np.intp, count=len(listed))


def is_missing(array: np.ndarray) -> BoolArray:
    """Return where an array has no value: NaN, NaT, None, and the NA of pandas.

    Examples
    --------
    >>> is_missing(np.array([1, None, float("nan")], dtype=object))
    array([False,  True,  True])
    """
    if array.dtype.kind in "fc":
        return np.asarray(np.isnan(array))
    if array.dtype.kind in "mM":
        return np.asarray(np.isnat(array))
    if array.dtype.kind != "O":
        return np.zeros(array.shape, dtype=np.bool_)
    found = [_is_missing_entry(entry) for entry in array.ravel().tolist()]
    return np.array(found, dtype=np.bool_).reshape(array.shape)


def _is_missing_entry(entry: Any) -> bool:
    return (
        entry is None
        or type(entry).__name__ in ("NAType", "NaTType")
        or (isinstance(entry, (numbers.Number, np.generic)) and bool(entry != entry))
    )


def as_flags(values: ArrayLike, name: str) -> BoolArray:
    """Return flags as booleans: true and false, or the numbers 1 and 0; anything else is refused.

    Examples
    --------
    >>> as_flags([1.0, 0.0], "terminated")
    array([ True, False])
    """
    array = as_array(values, name)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "MmUSVc" or (array.dtype.kind == "O" and is_missing(array).any()):
        raise TypeError(must_be(name, "true or false (1 or 0) in every row", f"dtype {array.dtype}"))
    flags = check_array(array, name, ndim=array.ndim, allow_empty=True, hint="They are true or false.")
    wrong = np.argwhere((flags != 0.0) & (flags != 1.0))
    if len(wrong):
        got = f"{flags[tuple(wrong[0])]:g} in row {wrong[0][0]}"
        raise ValueError(must_be(name, "true or false (1 or 0) in every row", got))
    return np.asarray(flags == 1.0)
