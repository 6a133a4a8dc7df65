"""Columns of a table as numbers, by skrub: categories, missing values, dates and free text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from .._core.errors import must_be, require_extra
from .._core.typing import FloatArray, IntArray
from ._table_files import MOSTLY, Column, Frame, dates_of, is_date, is_mostly_numbers, is_number, numbers_of

# A text column with more values is encoded by its letters (skrub.StringEncoder), into so many numbers.
MAX_LEVELS, TEXT_NUMBERS = 50, 10
MISSING, UNKNOWN = ("impute", "indicator", "drop", "raise"), ("other", "drop", "raise")
_NO_LEVEL = "(missing)"


class Matrix(NamedTuple):
    """Rows as numbers (n, p); for every row why it cannot be used, or what was done to it, if anything."""

    X: FloatArray
    problems: list[str]
    remarks: list[str]


class Part(NamedTuple):
    """A column of the table: its name, its columns in the matrix, and its categories where it has some."""

    name: str
    positions: IntArray
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How the columns that are used become numbers, in training and again for new rows.

    Attributes
    ----------
    columns : tuple of str
        Columns of the table that are used.
    names : tuple of str
        Columns of the matrix.
    parts : tuple of Part
    missing : {"impute", "indicator", "drop", "raise"}
    unknown : {"other", "drop", "raise"}
    notes : tuple of str
        What was left out or read in an unusual way.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    parts: tuple[Part, ...]
    missing: str
    unknown: str
    notes: tuple[str, ...]
    _kinds: dict[str, str]
    _vectorizer: Any
    _imputer: Any

    @classmethod
    def of(
        cls, frame: Frame, columns: list[str], *, missing: str = "impute", unknown: str = "other"
    ) -> Encoding:
        """Fit `skrub.TableVectorizer`, and medians for missing numbers, to the training table.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1.0, 2.0], "colour": ["red", "blue"]})
        >>> encoding = Encoding.of(frame, ["x", "colour"])
        >>> encoding.names
        ('x', 'colour_blue', 'colour_red')
        >>> encoding.matrix(frame).X
        array([[1., 0., 1.],
               [2., 1., 0.]])
        """
        notes: list[str] = []
        used = [name for name in columns if not _left_out(frame[name], notes)]
        if missing == "raise":
            _refuse([_missing_sentence(frame[name]) for name in used if frame[name].isna().any()])
        if not used:
            got = "only columns that are left out. " + " ".join(notes)
            raise ValueError(must_be("--features", "at least one column that can be used", got))
        kinds = {name: _kind(frame[name]) for name in used}
        for name in used:
            _note(frame[name], kinds[name], missing, notes)
        typed = _typed(frame, kinds)
        vectorizer = _vectorizer([name for name in used if kinds[name] != "number"], typed)
        encoded = _encoded(vectorizer, kinds, typed)
        names = [str(column) for block in encoded.values() for column in block.columns]
        imputer = SimpleImputer(
            strategy="median", add_indicator=missing == "indicator", keep_empty_features=True
        ).fit(_joined(encoded))
        flagged = [] if imputer.indicator_ is None else imputer.indicator_.features_.tolist()
        parts, first = [], 0
        for name, block in encoded.items():
            own = list(range(first, first := first + block.shape[1]))
            own += [len(names) + flagged.index(column) for column in own if column in flagged]
            parts.append(Part(name, np.array(own, dtype=np.intp), _levels(vectorizer, name)))
        names += [f"{names[column]} missing" for column in flagged]
        return cls(
            columns=tuple(used), names=tuple(names), parts=tuple(parts), missing=missing, unknown=unknown,
            notes=tuple(notes), _kinds=kinds, _vectorizer=vectorizer, _imputer=imputer,
        )  # fmt: skip

    def matrix(self, frame: Frame) -> Matrix:
        """Return rows as numbers, and what is wrong with which of them.

        Raises
        ------
        ValueError
            Where a row does not fit and "raise" was asked for; all columns are looked at first.
        """
        problems, remarks, refused = [""] * len(frame), [""] * len(frame), []
        typed = _typed(frame, self._kinds)
        for part in self.parts:
            column, kind = frame[part.name], self._kinds[part.name]
            gone, levels = column.isna().to_numpy(), part.levels
            if gone.any() and self.missing == "raise":
                refused.append(_missing_sentence(column))
            if self.missing == "drop":
                _add(problems, gone, f"{part.name} missing")
            elif kind == "number" and self.missing == "impute":
                _add(remarks, gone, f"{part.name} missing, filled in with TRAIN's median")
            new = ~gone & (~typed[part.name].isin(levels) if levels else typed[part.name].isna()).to_numpy()
            what = "has a category that TRAIN did not" if levels else f"is no {kind}"
            if new.any() and self.unknown == "raise":
                rule = "one of TRAIN's categories" if levels else f"{kind}s, as in TRAIN"
                got = repr(column.tolist()[int(np.argmax(new))])
                refused.append(must_be(f"column {part.name}", rule, got, "Or use --unknown other."))
            _add(problems if self.unknown == "drop" else remarks, new, f"{part.name} {what}")
        _refuse(refused)
        X = self._imputer.transform(_joined(_encoded(self._vectorizer, self._kinds, typed)))
        return Matrix(np.asarray(X, dtype=np.float64), problems, remarks)

    def typical_row(self, X: FloatArray) -> FloatArray:
        """Return a row that could exist: medians of numbers, the most frequent category of each column."""
        row = np.median(X, axis=0)
        for part in self.parts:
            if part.levels:
                own = part.positions[: len(part.levels)]
                row[own] = np.eye(len(own))[int(np.argmax(X[:, own].sum(axis=0)))]
        return np.asarray(row)


def _vectorizer(columns: list[str], typed: Frame) -> Any:
    """Fit skrub's encoder to the columns that are no numbers; None where there are none."""
    if not columns:
        return None
    skrub = require_extra("skrub", extra="cli", purpose="Encoding categories, dates and texts")
    return skrub.TableVectorizer(
        cardinality_threshold=MAX_LEVELS + 1,
        low_cardinality=OneHotEncoder(sparse_output=False, handle_unknown="ignore"),
        high_cardinality=skrub.StringEncoder(n_components=TEXT_NUMBERS, random_state=0),
    ).fit(typed[columns])


def _levels(vectorizer: Any, name: str) -> tuple[str, ...]:
    coder: Any = None if vectorizer is None else vectorizer.transformers_.get(name)
    return tuple(coder.categories_[0]) if hasattr(coder, "categories_") else ()


def _encoded(vectorizer: Any, kinds: dict[str, str], typed: Frame) -> dict[str, Frame]:
    """Return the columns of the matrix of every column of the table; numbers keep all of their digits."""
    others = [name for name, kind in kinds.items() if kind != "number"]
    found: Any = vectorizer.transform(typed[others]) if others else None
    return {
        name: typed[[name]] if kind == "number" else found[vectorizer.input_to_outputs_[name]]
        for name, kind in kinds.items()
    }


def _joined(encoded: dict[str, Frame]) -> FloatArray:
    return np.concatenate([columns.to_numpy(dtype=np.float64) for columns in encoded.values()], axis=1)


def _kind(column: Column) -> str:
    """Return how a column is read: number, date or text."""
    if is_date(column):
        return "date"
    return "number" if is_number(column) or is_mostly_numbers(column) else "text"


def _typed(frame: Frame, kinds: dict[str, str]) -> Frame:
    """Return the columns as numbers, dates and texts; a missing text is a category of its own."""
    pandas = require_extra("pandas", extra="io", purpose="Reading a table")
    read: dict[str, Callable[[Column], Any]] = {
        "number": lambda column: numbers_of(column)[0],
        "date": dates_of,
        "text": lambda column: column.astype(object).where(column.notna(), _NO_LEVEL).astype(str),
    }
    found = {name: read[kind](frame[name]) for name, kind in kinds.items()}
    return pandas.DataFrame(found, index=frame.index)


def _left_out(column: Column, notes: list[str]) -> bool:
    """Note why a column cannot explain anything; False where it may."""
    n, values = len(column), column.dropna()
    levels, reason = values.nunique(), ""
    if len(values) == 0:
        reason = "it is empty"
    elif levels == 1 and len(values) == n:
        reason = f"it is the same in every row ({values.iloc[0]})"
    elif is_number(column):
        if not np.isfinite(numbers_of(column)[0]).any():
            reason = "it holds no finite number"
        elif n > 10 and levels == n and _numbers_rows(column.to_numpy(dtype=np.float64, na_value=np.nan)):
            reason = "it numbers the rows"
    elif levels > MAX_LEVELS and levels > MOSTLY * n and _kind(column) == "text" and _are_words(values):
        reason = f"{levels} different texts in {n} rows look like ids (--id carries them to the output)"
    if reason:
        notes.append(f"Column {column.name} is left out: {reason}.")
    return bool(reason)


def _are_words(values: Column) -> bool:
    """Whether texts are mostly one word each: free text has more."""
    return bool(values.astype(str).str.strip().str.contains(r"\s").mean() < 1 - MOSTLY)


def _numbers_rows(values: FloatArray) -> bool:
    """Whether values count up: all of them in any order, or in that of the table with a few gone."""
    steps = np.diff(values)
    if np.array_equal(np.sort(values), values.min() + np.arange(len(values))):
        return True
    rising = bool((steps >= 1).all() and (steps == np.round(steps)).all())
    return rising and bool(np.ptp(values) < len(values) / MOSTLY)


def _note(column: Column, kind: str, missing: str, notes: list[str]) -> None:
    """Note what was not read, what is missing, and how a column of many texts is encoded."""
    name, gone = column.name, int(column.isna().sum())
    if kind == "number":
        values, unread = numbers_of(column)
        if unread.any():
            first = column.tolist()[int(np.argmax(unread))]
            notes.append(
                f"Column {name}: {int(unread.sum())} entries, such as {first!r}, are no numbers: missing."
            )
        filled = {"impute": "filled in", "indicator": "filled in and flagged"}.get(missing, "left out")
        if gone:
            notes.append(f"Column {name}: {gone} missing, {filled} (median {np.nanmedian(values):.4g}).")
    elif kind == "date":
        notes.append(f"Column {name} holds dates: year, month, day and seconds since 1970 are used.")
    else:
        levels = column.dropna().nunique()
        if levels > MAX_LEVELS:
            notes.append(
                f"Column {name}: {levels} different texts become {TEXT_NUMBERS} numbers by their letters."
            )
        if gone:
            what = "left out" if missing == "drop" else "a category of their own"
            notes.append(f"Column {name}: {gone} missing, {what}.")


def _add(texts: list[str], rows: Any, text: str) -> None:
    for row in np.flatnonzero(rows):
        texts[row] = f"{texts[row]}; {text}" if texts[row] else text


def _missing_sentence(column: Column) -> str:
    missing = column.isna().to_numpy()
    got = f"{int(missing.sum())} missing, the first in row {int(np.argmax(missing))}"
    return must_be(f"column {column.name}", "complete", got, "Or use --missing impute, indicator or drop.")


def _refuse(sentences: list[str]) -> None:
    if sentences:
        raise ValueError("\n".join(sentences))
