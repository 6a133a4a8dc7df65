"""Which columns of a table are used, and how they become numbers, in training and again for new rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray
from ._table_files import MOSTLY, Column, Frame, is_date, is_mostly_numbers, is_number, numbers_of

# A text column with more values than this is an id or a free text, and indicators of it explain nothing.
MAX_LEVELS = 50
# A number further outside the range of TRAIN than this share of it is remarked on.
FAR_OUTSIDE = 0.5
MISSING, UNKNOWN = ("impute", "indicator", "drop", "raise"), ("other", "drop", "raise")
_NO_LEVEL = "(missing)"
# What takes the place of a missing number, and of a missing category that training did not have.
_FILLED = ("filled in with TRAIN's median", "filled in with all categories alike")


class Matrix(NamedTuple):
    """Rows as numbers (n, p); for every row why it cannot be used, or what was done to it, if anything."""

    X: FloatArray
    problems: list[str]
    remarks: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One column of the table and the columns of the matrix that it becomes.

    Attributes
    ----------
    name : str
    levels : tuple of str
        Categories, one indicator for each; empty for numbers.
    fill : float
        The median, which stands for a missing number.
    low, high : float
        The smallest and the largest number.
    flagged : bool
        Whether a further column says where a number is missing.
    """

    name: str
    levels: tuple[str, ...] = ()
    fill: float = 0.0
    low: float = -np.inf
    high: float = np.inf
    flagged: bool = False

    @property
    def names(self) -> list[str]:
        """Names of its columns in the matrix."""
        if self.levels:
            return [f"{self.name}={level}" for level in self.levels]
        return [self.name, f"{self.name} missing"] if self.flagged else [self.name]

    def is_far(self, values: FloatArray) -> BoolArray:
        """Whether numbers are outside the range by more than half of it: nothing was learnt about them."""
        margin = FAR_OUTSIDE * (self.high - self.low)
        return np.asarray((values < self.low - margin) | (values > self.high + margin))


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The columns that are used.

    Attributes
    ----------
    parts : tuple of Part
    missing : {"impute", "indicator", "drop", "raise"}
    unknown : {"other", "drop", "raise"}
    notes : tuple of str
        What was left out or read in an unusual way.
    """

    parts: tuple[Part, ...]
    missing: str
    unknown: str
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, frame: Frame, columns: list[str], *, missing: str = "impute", unknown: str = "other"
    ) -> Design:
        """Look at the training table.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1.0, 2.0], "colour": ["red", "blue"]})
        >>> design = Design.of(frame, ["x", "colour"])
        >>> design.names
        ('x', 'colour=blue', 'colour=red')
        >>> design.matrix(frame).X
        array([[1., 0., 1.],
               [2., 1., 0.]])
        """
        notes: list[str] = []
        problems: list[str] = []
        parts = []
        for name in columns:
            column = frame[name]
            left_out = _reason_to_leave_out(column)
            if left_out:
                notes.append(f"Column {name} is left out: {left_out}.")
                continue
            if missing == "raise" and column.isna().any():
                problems.append(_missing_sentence(column))
                continue
            parts.append(_part(column, missing, notes))
        if problems:
            raise ValueError("\n".join(problems))
        if not parts:
            got = "only columns that are left out. " + " ".join(notes)
            raise ValueError(must_be("--features", "at least one column that can be used", got))
        return cls(parts=tuple(parts), missing=missing, unknown=unknown, notes=tuple(notes))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the table that are used."""
        return tuple(part.name for part in self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the matrix."""
        return tuple(name for part in self.parts for name in part.names)

    def matrix(self, frame: Frame) -> Matrix:
        """Return rows as numbers, and what is wrong with which of them.

        Raises
        ------
        ValueError
            Where the table as a whole does not fit, or a row does not and "raise" was asked for; all columns
            are looked at first.
        """
        problems, remarks = [""] * len(frame), [""] * len(frame)
        refused: list[str] = []
        blocks = []
        for part in self.parts:
            column = frame[part.name]
            block, rows, what = _levels(part, column) if part.levels else _numbers(part, column)
            blocks.append(block)
            if not part.levels:
                beyond = f"{part.name} is far outside TRAIN's {part.low:.4g} to {part.high:.4g}"
                _add(remarks, np.flatnonzero(part.is_far(block[:, 0])), beyond)
            missing = column.isna().to_numpy()
            if missing.any() and self.missing == "raise":
                refused.append(_missing_sentence(column))
            if self.missing == "drop":
                _add(problems, np.flatnonzero(missing), f"{part.name} missing")
            elif not part.flagged and _NO_LEVEL not in part.levels:  # else that it is missing was learnt from
                _add(remarks, np.flatnonzero(missing), f"{part.name} missing, {_FILLED[bool(part.levels)]}")
            if len(rows) and self.unknown == "raise":
                got = repr(column.tolist()[int(rows[0])])
                rule = "one of TRAIN's categories" if part.levels else "numbers, as in TRAIN"
                refused.append(must_be(f"column {part.name}", rule, got, "Or use --unknown other."))
            elif self.unknown == "drop":
                _add(problems, rows, f"{part.name} {what}")
            else:
                _add(remarks, rows, f"{part.name} {what}")
        if refused:
            raise ValueError("\n".join(refused))
        return Matrix(np.concatenate(blocks, axis=1), problems, remarks)

    def typical_row(self, X: FloatArray) -> FloatArray:
        """Return a row that could exist: medians of numbers, the most frequent category of each column."""
        row, first = np.empty(X.shape[1]), 0
        for part in self.parts:
            own = slice(first, first + len(part.names))
            first = own.stop
            if part.levels:
                row[own] = np.eye(len(part.levels))[int(np.argmax(X[:, own].sum(axis=0)))]
            else:
                row[own] = np.median(X[:, own], axis=0)
        return row


def _reason_to_leave_out(column: Column) -> str:
    """Say why a column cannot explain anything; empty where it may."""
    n, values = len(column), column.dropna()
    if len(values) == 0:
        return "it is empty"
    if is_date(column):
        return "it holds dates; turn them into numbers (days since, month, weekday) to use them"
    levels = values.nunique()
    if levels == 1 and len(values) == n:
        return f"it is the same in every row ({values.iloc[0]})"
    if is_number(column):
        if not np.isfinite(numbers_of(column)[0]).any():
            return "it holds no finite number"
        if n > 10 and levels == n and _numbers_rows(column.to_numpy(dtype=np.float64, na_value=np.nan)):
            return "it numbers the rows"
        return ""
    if is_mostly_numbers(column):
        return ""
    if levels > MAX_LEVELS and levels > 0.5 * n:
        return f"{levels} different texts in {n} rows look like ids (--id carries them to the output)"
    return ""


def _numbers_rows(values: FloatArray) -> bool:
    """Whether values count up: all of them in any order, or in that of the table with a few gone."""
    steps = np.diff(values)
    if np.array_equal(np.sort(values), values.min() + np.arange(len(values))):
        return True
    rising = bool((steps >= 1).all() and (steps == np.round(steps)).all())
    return rising and bool(np.ptp(values) < len(values) / MOSTLY)


def _part(column: Column, missing: str, notes: list[str]) -> Part:
    name = str(column.name)
    gone = int(column.isna().sum())
    filled = {"impute": "filled in", "indicator": "filled in and flagged", "drop": "left out"}.get(missing)
    if is_number(column) or is_mostly_numbers(column):
        values, unread = numbers_of(column)
        if unread.any():
            first = column.tolist()[int(np.argmax(unread))]
            notes.append(
                f"Column {name}: {int(unread.sum())} entries, such as {first!r}, are no numbers: missing."
            )
        if gone:
            notes.append(f"Column {name}: {gone} missing, {filled} (median {np.nanmedian(values):.4g}).")
        holes = bool(np.isnan(values).any())
        return Part(
            name=name,
            fill=float(np.nanmedian(values)),
            low=float(np.nanmin(values)),
            high=float(np.nanmax(values)),
            flagged=missing == "indicator" and holes,
        )
    counts = column.dropna().astype(str).value_counts()
    levels = list(counts.index)
    if len(levels) > MAX_LEVELS:
        notes.append(
            f"Column {name}: {len(levels)} categories, of which the {MAX_LEVELS} most frequent count."
        )
        levels = levels[:MAX_LEVELS]
    if gone and missing != "drop":
        notes.append(f"Column {name}: {gone} missing, a category of their own.")
        levels.append(_NO_LEVEL)
    elif gone:
        notes.append(f"Column {name}: {gone} missing, left out.")
    return Part(name=name, levels=tuple(sorted(levels)))


def _numbers(part: Part, column: Column) -> tuple[FloatArray, Any, str]:
    """Return the columns of a number, the rows that are written but no number, and what that is called."""
    values, unread = numbers_of(column)
    holes = np.isnan(values)
    block = np.where(holes, part.fill, values)[:, None]
    if part.flagged:
        block = np.column_stack([block, holes])
    return block, np.flatnonzero(unread), "is no number"


def _levels(part: Part, column: Column) -> tuple[FloatArray, Any, str]:
    """Return indicators, and the rows whose category training did not have.

    Such a row, and a missing one where training had none, gets equal shares of all categories.
    """
    place = {level: i for i, level in enumerate(part.levels)}
    codes = column.astype("string").fillna(_NO_LEVEL).map(lambda level: place.get(level, -1))
    position = codes.to_numpy(dtype=np.intp)
    block = np.full((len(column), len(part.levels)), 1 / len(part.levels))
    known = position >= 0
    block[known] = np.eye(len(part.levels))[position[known]]
    unknown = ~known & column.notna().to_numpy()
    return block, np.flatnonzero(unknown), "has a category that TRAIN did not"


def _add(problems: list[str], rows: Any, text: str) -> None:
    for row in rows:
        problems[row] = f"{problems[row]}; {text}" if problems[row] else text


def _missing_sentence(column: Column) -> str:
    missing = column.isna().to_numpy()
    got = f"{int(missing.sum())} missing, the first in row {int(np.argmax(missing))}"
    return must_be(f"column {column.name}", "complete", got, "Or use --missing impute, indicator or drop.")
