"""Tables with one row per episode, whose columns hold lists: Arrow's offsets are the episodes already."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .._core.entries import as_flags
from .._core.errors import must_be
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_exact
from ..data._flat import offsets_of
from ..data.storage import flatten_lists
from ._columns import Column, as_floats, as_numpy

LIST_TYPES = ("list", "large_list", "fixed_size_list", "array(")
# A vector as CSV files hold it, printed by Python or NumPy: [0.1, 2], [0.1 2.] or (0.1, 2).
_PRINTED_VECTOR = re.compile(r"\s*[\[(][-+.\deE,\s]*\d[-+.\deE,\s]*[\])]\s*")


def holds_lists(column: Column) -> bool:
    """Tell whether the entries of a column are lists or arrays."""
    kind = str(getattr(column, "type", getattr(column, "dtype", ""))).lower()
    if kind.startswith(LIST_TYPES):
        return True
    return kind == "object" and isinstance(as_numpy(column[:1])[0], (list, tuple, np.ndarray))


def _holds_printed_vectors(column: Column) -> bool:
    """Tell whether a column is text that begins with a printed vector."""
    first = as_numpy(column[:1])
    return isinstance(first[0], str) and _PRINTED_VECTOR.fullmatch(first[0]) is not None


def spread_vectors(by_role: dict[str, dict[str, Column]]) -> dict[str, dict[str, Column]]:
    """Return the columns with those that hold a vector per row spread out, one column a number.

    A list is a vector, and not an episode, where rows are not episodes: the rewards are no lists, or the
    episodes have several rows.
    """
    rewards = next(iter(by_role["rewards"].values()), None)
    episode = next(iter(by_role["episode"].values()), None)
    if rewards is not None:
        rows_are_episodes = holds_lists(rewards)
    elif episode is not None:
        labels = as_numpy(episode).tolist()
        rows_are_episodes = len(set(labels)) == len(labels)
    else:
        rows_are_episodes = not by_role["next_states"]
    if rows_are_episodes:
        return by_role
    spread = dict(by_role)
    for role in ("states", "next_states", "actions"):
        spread[role] = {
            label: part
            for name, column in by_role[role].items()
            for label, part in (
                _numbers_of(column, role, name)
                if holds_lists(column) or _holds_printed_vectors(column)
                else {name: column}
            ).items()
        }
    return spread


def _numbers_of(column: Column, role: str, name: str) -> dict[str, Column]:
    """Return one column for each number of the vectors in a column; a missing vector is one of NaN."""
    vectors = [None if v is None else _vector(v, role, name) for v in _python_rows(column)]
    widths = {len(vector) for vector in vectors if vector is not None}
    if len(widths) != 1 or 0 in widths:
        got = f"{min(widths)} to {max(widths)} numbers" if widths else "none"
        raise ValueError(must_be(f'{role}: "{name}"', "vectors of one length", got))
    (width,) = widths
    missing = np.full(width, np.nan)
    matrix = np.stack([missing if vector is None else vector for vector in vectors])
    return {f"{name}[{i}]": matrix[:, i] for i in range(width)}


def _vector(entry: object, role: str, name: str) -> FloatArray:
    """Return the numbers of one entry: a list, an array, or a printed vector."""
    if not isinstance(entry, str):
        return np.asarray(entry, dtype=np.float64).ravel()
    try:
        return np.array(entry.strip().strip("[]()").replace(",", " ").split(), dtype=np.float64)
    except ValueError:
        hint = "NumPy shortens what it prints: log one column per number, or lists as Parquet or JSON lines."
        raise ValueError(must_be(f'{role}: "{name}"', "vectors of numbers", repr(entry[:40]), hint)) from None


def _python_rows(column: Column) -> list[object]:
    rows = column.to_pylist() if hasattr(column, "to_pylist") else as_numpy(column).tolist()
    return [None if row is None or (isinstance(row, float) and np.isnan(row)) else row for row in rows]


def spread_episodes(by_role: dict[str, dict[str, Column]]) -> tuple[dict[str, dict[str, Column]], np.ndarray]:
    """Return columns of lists as columns with one row per state, and the ids of episodes; see `from_table`.

    Lists of steps, which are one shorter than those of the states, are empty in the row of the final state.
    """
    for role in ("step", "next_states"):
        for name in by_role[role]:
            hint = "The lists of an episode are in order of time and hold its final state."
            raise ValueError(must_be(role, "None when the columns hold lists", f'"{name}"', hint))
    states, lengths = _side_by_side(by_role["states"], "states")
    number = np.arange(len(lengths))
    spread: dict[str, Any] = {"states": dict(enumerate(states.T)), "step": {}}
    spread["episode"] = {"episode": np.repeat(number, lengths)}
    for role in ("rewards", "actions", "behavior_probability", "time"):
        spread[role] = dict(enumerate(_aligned(by_role[role], role, lengths).T)) if by_role[role] else {}
    for role in ("terminated", "truncated"):
        spread[role] = {
            name: _aligned({name: column}, role, lengths)[:, 0]
            if holds_lists(column)
            else np.repeat(as_flags(as_floats(column, f'{role}: "{name}"'), role), lengths)
            for name, column in by_role[role].items()
        }
    return spread, next((as_numpy(column) for column in by_role["episode"].values()), number)


def _flatten(column: Column, name: str) -> tuple[np.ndarray, IntArray]:
    """Return the values of all lists (R,) or (R, d), and the length of each list (n,)."""
    if hasattr(column, "to_arrow"):  # polars
        return flatten_lists(column.to_arrow(), name)
    if hasattr(column, "chunks"):  # Arrow
        return flatten_lists(column, name)
    pieces = [np.asarray(list(piece)) for piece in as_numpy(column)]
    for row, piece in enumerate(pieces):
        if piece.dtype.kind not in "biuf" or piece.ndim not in (1, 2):
            got = f"{piece.dtype} of shape {piece.shape} in row {row}"
            raise TypeError(must_be(name, "lists of numbers, or of vectors of one length", got))
    return np.concatenate(pieces), np.array([len(piece) for piece in pieces])


def _side_by_side(columns: dict[str, Column], role: str) -> tuple[np.ndarray, IntArray]:
    """Return the lists of several columns as the columns of one matrix (R, d), and their common lengths."""
    parts, lengths = [], np.array([0])
    for i, (name, column) in enumerate(columns.items()):
        values, own = _flatten(column, f'{role}: "{name}"')
        if i and not np.array_equal(own, lengths):
            row = int(np.flatnonzero(own != lengths)[0])
            got = f'{own[row]} in "{name}" and {lengths[row]} in the column before it, row {row}'
            raise ValueError(must_be(role, "lists of the same length in each row", got))
        lengths = own
        parts.append(values if values.ndim == 2 else values[:, np.newaxis])
    for part in parts:
        check_exact(part, role)  # side by side with floats, or one row short, integers become floats
    return np.concatenate(parts, axis=1), lengths


def _aligned(columns: dict[str, Column], role: str, lengths: IntArray) -> np.ndarray:
    """Return per-step values as one row per state (R, a); only actions may stay integers."""
    values, own = _side_by_side(columns, role)
    values = values if role == "actions" else values.astype(np.float64, copy=False)
    if np.array_equal(own, lengths):
        return values
    if not np.array_equal(own, lengths - 1):
        row = int(np.flatnonzero(own != lengths - 1)[0])
        rule = f"one shorter than the states of its episode ({lengths[row]})"
        raise ValueError(must_be(role, rule, f"{own[row]} in row {row}"))
    is_step = np.ones(int(lengths.sum()), dtype=np.bool_)
    is_step[offsets_of(lengths)[1:] - 1] = False
    empty = np.nan if values.dtype.kind == "f" else 0  # what stands in a final state's row is not read
    padded = np.full((len(is_step), values.shape[1]), empty, dtype=values.dtype)
    padded[is_step] = values
    return padded
