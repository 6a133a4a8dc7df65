"""Tables with one row per episode, whose columns hold lists: Arrow's offsets are the episodes already."""

from __future__ import annotations

import re

import numpy as np

from .._core.entries import as_flags
from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_exact
from ..data._flat import offsets_of
from ..data.storage import flatten_lists
from ..data.trajectories import Trajectories
from ._columns import Column, as_floats, as_numpy
from ._rows import Rows, as_times, close_episodes, even_or_each, flags_of_episodes

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


def from_list_columns(
    by_role: dict[str, dict[str, Column]], dt: float | None, final_states: str
) -> Trajectories:
    """Return one trajectory per row; see `from_table` for the roles of the columns."""
    for role in ("step", "next_states"):
        for name in by_role[role]:
            hint = "The lists of an episode are in order of time and hold its final state."
            raise ValueError(must_be(role, "None when the columns hold lists", f'"{name}"', hint))
    states, lengths = _side_by_side(by_role["states"], "states")
    rewards, actions, time, probability = (
        _aligned(by_role[role], role, lengths)
        for role in ("rewards", "actions", "time", "behavior_probability")
    )
    n = len(lengths)
    ids = next((as_numpy(column) for column in by_role["episode"].values()), np.arange(n))
    final_row_of = lengths if final_states == "recorded" else None
    return close_episodes(
        Rows(
            states=states.astype(np.float64, copy=False),
            lengths=lengths,
            rewards=None if rewards is None else rewards[0][:, 0],
            actions=None
            if actions is None
            else np.squeeze(actions[0], 1)
            if actions[0].shape[1] == 1
            else actions[0],
            integer_actions=actions is not None and actions[1],
            dt=dt if time is None else _time_steps(time[0][:, 0], lengths),
            terminated=_flags(by_role["terminated"], "terminated", ids, final_row_of),
            truncated=_flags(by_role["truncated"], "truncated", ids, final_row_of),
            whole=np.ones(n, dtype=np.bool_),
            parent=np.arange(n),
            ids=ids,
            behavior_probability=None if probability is None else probability[0][:, 0],
        ),
        final_states,
    )


def _flatten(column: Column, name: str) -> tuple[np.ndarray, IntArray]:
    """Return the values of all lists (R,) or (R, d), and the length of each list (n,)."""
    if hasattr(column, "to_arrow"):  # polars
        return flatten_lists(column.to_arrow(), name)
    if hasattr(column, "chunks"):  # Arrow
        return flatten_lists(column, name)
    pieces = [np.asarray(list(piece)) for piece in as_numpy(column)]
    _check_numbers(pieces, name)
    return np.concatenate(pieces), np.array([len(piece) for piece in pieces])


def _check_numbers(pieces: list[np.ndarray], name: str) -> None:
    for row, piece in enumerate(pieces):
        if piece.dtype.kind not in "biuf" or piece.ndim not in (1, 2):
            got = f"{piece.dtype} of shape {piece.shape} in row {row}"
            raise TypeError(must_be(name, "lists of numbers, or of vectors of one length", got))


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


def _aligned(columns: dict[str, Column], role: str, lengths: IntArray) -> tuple[FloatArray, bool] | None:
    """Return per-step values as one row per state (R, a), and whether they were integers.

    Lists that are one shorter than those of the states are padded with NaN for the final state.
    """
    if not columns:
        return None
    values, own = _side_by_side(columns, role)
    integer = values.dtype.kind in "iu"
    if np.array_equal(own, lengths):
        return values.astype(np.float64, copy=False), integer
    if not np.array_equal(own, lengths - 1):
        row = int(np.flatnonzero(own != lengths - 1)[0])
        rule = f"one shorter than the states of its episode ({lengths[row]})"
        raise ValueError(must_be(role, rule, f"{own[row]} in row {row}"))
    is_step = np.ones(int(lengths.sum()), dtype=np.bool_)
    is_step[offsets_of(lengths)[1:] - 1] = False
    padded = np.full((len(is_step), values.shape[1]), np.nan)
    padded[is_step] = values
    return padded, integer


def _time_steps(time: FloatArray, lengths: IntArray) -> float | FloatArray | None:
    clock = as_times(time)
    inside = np.ones(len(clock), dtype=np.bool_)
    inside[offsets_of(lengths)[1:] - 1] = False
    steps = np.diff(clock, append=clock[-1])
    return even_or_each(steps, inside, float(np.abs(clock).max()))


def _flags(
    columns: dict[str, Column], role: str, ids: np.ndarray, final_row_of: IntArray | None
) -> BoolArray:
    """Return one flag per episode, from one per row or from a list per row.

    Lists as long as `final_row_of`, the lengths of those of the states, have an entry for the final state.
    """
    for name, column in columns.items():
        if not holds_lists(column):
            return as_flags(as_floats(column, f'{role}: "{name}"'), role)
        values, lengths = _flatten(column, role)
        has_final_row = final_row_of is not None and np.array_equal(lengths, final_row_of)
        return flags_of_episodes(values.astype(np.float64), lengths, ids, role, has_final_row=has_final_row)
    return np.zeros(len(ids), dtype=np.bool_)
