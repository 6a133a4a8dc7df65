"""Tables as people have them: read, columns recognised, and turned into numbers by skrub."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from .._core.errors import must_be, require_extra
from .._core.typing import BoolArray, FloatArray
from ..readers._columns import open_table
from ..report.regression import Effect

Frame = Any  # a pandas DataFrame
Column = Any  # a pandas Series
MISSING = ("impute", "drop")
_NO_LEVEL = "(missing)"
_DECORATION = re.compile(r"[\s$€£¥%']|USD|EUR|GBP")
_THOUSANDS = re.compile(r"^[+-]?\d{1,3}(,\d{3})+(\.\d*)?$")
# Numbers where a comma is the decimal point; entries that say so: other than three digits behind a comma, a
# point before it, or several points.
_COMMA_NUMBER = re.compile(r"^[+-]?(\d{1,3}(\.\d{3})+|\d*)(,\d+)?$")
_COMMA_IS_POINT = re.compile(r"^[+-]?(\d*,(\d{1,2}|\d{4,})|[\d.]*\.\d{3},\d+|\d{1,3}(\.\d{3}){2,})$")
_DATE = re.compile(r"^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d{1,2}:\d{2}.*)?$")


# ---------------------------------------------------------------- reading


def read_frame(path: Path) -> Frame:
    """Return a Parquet, CSV or JSON lines file as a data frame."""
    pandas = require_extra("pandas", extra="io", purpose="Reading a table")
    view = open_table(path)
    names = [str(name) for name in view.names]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(must_be("table", "a table whose columns have different names", f'"{twice}" twice'))
    columns = view.load(names)  # numbers as arrays, others as Arrow holds them
    for name, column in columns.items():
        if not isinstance(column, np.ndarray):
            columns[name] = column.to_pandas(date_as_object=False)
    frame = pandas.DataFrame(columns)
    if not len(frame):
        raise ValueError(must_be("table", "a table with rows", f'"{path.name}" without any'))
    return frame


def check_has(frame: Frame, wanted: list[str], option: str) -> None:
    """Refuse a table without columns that the training table has, all of them by name."""
    gone = [name for name in wanted if name not in frame.columns]
    if gone:
        rule = f"a table with TRAIN's column(s) {', '.join(gone)}"
        hint = "Add them, or leave them out of TRAIN with --exclude."
        raise ValueError(must_be(option, rule, f"one of {', '.join(map(str, frame.columns))}", hint))


# ---------------------------------------------------------------- what a column holds


def numbers_of(column: Column) -> tuple[FloatArray, BoolArray]:
    """Return a column as numbers, and which entries are written but cannot be read as a finite one.

    Examples
    --------
    >>> import pandas as pd
    >>> numbers_of(pd.Series(["$1,234", "12 %", None, "soon"]))
    (array([1234.,   12.,   nan,   nan]), array([False, False, False,  True]))
    >>> numbers_of(pd.Series(["1.000,25", "12.500"]))[0]
    array([ 1000.25, 12500.  ])
    """
    pandas = require_extra("pandas", extra="io", purpose="Reading a table")
    if is_number(column):
        values = column.astype("float64").to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isinf(values), np.nan, values), np.isinf(values)
    text = column.astype("string").str.replace(_DECORATION, "", regex=True)
    if text.str.match(_COMMA_IS_POINT).fillna(False).any():
        plain = text.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        text = text.mask(text.str.match(_COMMA_NUMBER).fillna(False), plain)
    text = text.mask(text.str.match(_THOUSANDS).fillna(False), text.str.replace(",", "", regex=False))
    values = pandas.to_numeric(text, errors="coerce").astype("float64").to_numpy(na_value=np.nan)
    values = np.where(np.isinf(values), np.nan, values)
    return values, np.asarray(np.isnan(values) & column.notna().to_numpy())


def is_number(column: Column) -> bool:
    """Whether a column holds numbers or flags."""
    types = require_extra("pandas", extra="io", purpose="Reading a table").api.types
    return bool(types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype))


def kind_of(column: Column) -> str:
    """Return how a column is read: "date", "number" or "text"; most entries of text decide.

    Examples
    --------
    >>> import pandas as pd
    >>> kind_of(pd.Series(["31.1.2024", "1/2/24 10:30"])), kind_of(pd.Series(["1,5", "2", "?"]))
    ('date', 'number')
    """
    types = require_extra("pandas", extra="io", purpose="Reading a table").api.types
    if types.is_datetime64_any_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype):
        return "date"
    if is_number(column):
        return "number"
    text = column.dropna().astype("string")
    if _most(text.str.match(_DATE).to_numpy(dtype=bool)):
        return "date"
    return "number" if _most(~numbers_of(text)[1]) else "text"


def _most(flags: BoolArray) -> bool:
    return 2 * int(np.count_nonzero(flags)) > len(flags)


def _dates_of(column: Column) -> Column:
    """Return a column of dates as such; what cannot be read is missing."""
    pandas = require_extra("pandas", extra="io", purpose="Reading a table")
    if pandas.api.types.is_timedelta64_dtype(column.dtype):
        return pandas.Timestamp(0) + column
    return pandas.to_datetime(column, errors="coerce", format="mixed", utc=True).dt.tz_localize(None)


def target_of(frame: Frame, name: str) -> FloatArray:
    """Return the column to be predicted, as numbers; NaN where there is none."""
    column = frame[name]
    kind = kind_of(column)
    if kind == "date":
        raise ValueError(must_be("--target", "a column of numbers", f"{name!r}, which holds dates"))
    values = numbers_of(column)[0]
    if not column.notna().any() or (kind == "number" and not np.isfinite(values).any()):
        raise ValueError(must_be("--target", "a column with numbers", f"{name!r}, all missing"))
    if kind == "text":
        levels = sorted(map(str, column.dropna().unique()))
        got = f"{name!r}, text with {len(levels)} different value(s), such as {', '.join(levels[:3])}"
        hint = "Predicting which category is classification; a column of 0 and 1 is predicted as a share."
        raise ValueError(must_be("--target", "a column of numbers", got, hint))
    return values


# ---------------------------------------------------------------- columns as numbers


class Matrix(NamedTuple):
    """Rows as numbers (n, p), which of them can be used, and what is to be said of each."""

    X: FloatArray
    usable: BoolArray
    remarks: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How the columns that are used become numbers, in training and again for new rows.

    Attributes
    ----------
    columns : tuple of str
        Columns of the table that are used.
    names : tuple of str
        Columns of the matrix.
    effects : tuple of Effect
        Which columns of the matrix are one column of the table.
    missing : {"impute", "drop"}
    notes : tuple of str
        What was left out or read in an unusual way.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    effects: tuple[Effect, ...]
    missing: str
    notes: tuple[str, ...]
    _kinds: dict[str, str]
    _vectorizer: Any
    _imputer: Any

    @classmethod
    def of(
        cls, frame: Frame, columns: list[str], *, missing: str = "impute", named: bool = False
    ) -> Encoding:
        """Fit `skrub.TableVectorizer`, and medians for missing numbers, to the training table.

        Columns that were `named` are used even where they look like row numbers or ids.

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
        kinds = {name: kind_of(frame[name]) for name in columns}
        kinds = {name: kind for name, kind in kinds.items() if not _left_out(frame[name], kind, named, notes)}
        if not kinds:
            got = "only columns that are left out. " + " ".join(notes)
            raise ValueError(must_be("--features", "at least one column that can be used", got))
        typed = _typed(frame, kinds)
        vectorizer = _vectorizer(kinds, typed)
        encoded = _encoded(vectorizer, kinds, typed)
        ends = np.cumsum([block.shape[1] for block in encoded.values()])
        effects = tuple(
            Effect(name, np.arange(end - block.shape[1], end), _levels(vectorizer, name))
            for (name, block), end in zip(encoded.items(), ends, strict=True)
        )
        for effect in effects:
            _note(frame[effect.name], kinds[effect.name], effect, missing, notes)
        return cls(
            columns=tuple(kinds), effects=effects, missing=missing, notes=tuple(notes), _kinds=kinds,
            names=tuple(str(column) for block in encoded.values() for column in block.columns),
            _vectorizer=vectorizer,
            _imputer=SimpleImputer(strategy="median", keep_empty_features=True).fit(_joined(encoded)),
        )  # fmt: skip

    def matrix(self, frame: Frame) -> Matrix:
        """Return rows as numbers; a row that cannot be used, or was completed, is remarked."""
        usable, remarks = np.ones(len(frame), dtype=np.bool_), [""] * len(frame)
        typed = _typed(frame, self._kinds)
        for name, _, levels in self.effects:
            gone, kind = frame[name].isna().to_numpy(), self._kinds[name]
            if self.missing == "drop":
                usable &= ~gone
                _add(remarks, gone, f"{name} missing")
            elif kind == "number":
                _add(remarks, gone, f"{name} missing, filled in with TRAIN's median")
            new = ~gone & (~typed[name].isin(levels) if levels else typed[name].isna()).to_numpy()
            what = "has a category that TRAIN did not" if levels else f"is no {kind}"
            _add(remarks, new, f"{name} {what}")
        X = self._imputer.transform(_joined(_encoded(self._vectorizer, self._kinds, typed)))
        return Matrix(np.asarray(X, dtype=np.float64), usable, remarks)


def _vectorizer(kinds: dict[str, str], typed: Frame) -> Any:
    """Fit skrub's encoder to the columns that are no numbers; None where there are none.

    Columns of few texts go to the one-hot encoder as they are: skrub would take "none" for a missing value.
    """
    columns = [name for name, kind in kinds.items() if kind != "number"]
    if not columns:
        return None
    skrub = require_extra("skrub", extra="cli", purpose="Encoding categories, dates and texts")
    coder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    vectorizer = skrub.TableVectorizer(high_cardinality=skrub.StringEncoder(random_state=0))
    few = [name for name in columns if kinds[name] == "text"
           and typed[name].nunique() < vectorizer.cardinality_threshold]  # fmt: skip
    return vectorizer.set_params(specific_transformers=[(coder, few)] if few else []).fit(typed[columns])


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


def _typed(frame: Frame, kinds: dict[str, str]) -> Frame:
    """Return the columns as numbers, dates and texts; a missing text is a category of its own."""
    pandas = require_extra("pandas", extra="io", purpose="Reading a table")
    read: dict[str, Callable[[Column], Any]] = {
        "number": lambda column: numbers_of(column)[0],
        "date": _dates_of,
        "text": lambda column: column.astype(object).where(column.notna(), _NO_LEVEL).astype(str),
    }
    found = {name: read[kind](frame[name]) for name, kind in kinds.items()}
    return pandas.DataFrame(found, index=frame.index)


def _left_out(column: Column, kind: str, named: bool, notes: list[str]) -> bool:
    """Note why a column cannot explain anything; False where it may, or was asked for by name."""
    n, values = len(column), column.dropna()
    levels, reason = values.nunique(), ""
    if len(values) == 0:
        reason = "it is empty"
    elif levels == 1 and len(values) == n:
        reason = f"it is the same in every row ({values.iloc[0]})"
    elif kind == "number":
        numbers = numbers_of(column)[0]
        if not np.isfinite(numbers).any():
            reason = "it holds no finite number"
        elif not named and levels == n and column.dtype.kind in "iu" and _numbers_rows(numbers):
            reason = "it numbers the rows (--features uses it all the same)"
    elif kind == "text" and not named and levels == n and _are_ids(values):
        reason = "every row has another text, as ids have (--id carries them to the output)"
    if reason:
        notes.append(f"Column {column.name} is left out: {reason}.")
    return bool(reason)


def _are_ids(texts: Column) -> bool:
    """Whether different texts are too many for categories, and mostly one word each: free text has more."""
    skrub = require_extra("skrub", extra="cli", purpose="Encoding categories, dates and texts")
    words = ~texts.astype(str).str.strip().str.contains(r"\s").to_numpy()
    return len(texts) >= skrub.TableVectorizer().cardinality_threshold and _most(words)


def _numbers_rows(values: FloatArray) -> bool:
    """Whether integers count up: all of them in any order, or in that of the table with some gone."""
    steps = np.diff(values)
    if np.array_equal(np.sort(values), values.min() + np.arange(len(values))):
        return True
    return bool((steps >= 1).all()) and _most(steps == 1)


def _note(column: Column, kind: str, effect: Effect, missing: str, notes: list[str]) -> None:
    """Note what was not read, what is missing, and how a column of many texts is encoded."""
    name, gone = column.name, int(column.isna().sum())
    if kind == "number":
        values, unread = numbers_of(column)
        if unread.any():
            first = column.tolist()[int(np.argmax(unread))]
            notes.append(
                f"Column {name}: {int(unread.sum())} entries, such as {first!r}, are no numbers: missing."
            )
        filled = "filled in" if missing == "impute" else "left out"
        if gone:
            notes.append(f"Column {name}: {gone} missing, {filled} (median {np.nanmedian(values):.4g}).")
    elif kind == "date":
        notes.append(f"Column {name} holds dates: year, month, day and seconds since 1970 are used.")
    else:
        if not effect.levels:
            become = f"become {len(effect.positions)} numbers by their letters"
            notes.append(f"Column {name}: {column.dropna().nunique()} different texts {become}.")
        if gone:
            what = "left out" if missing == "drop" else "a category of their own"
            notes.append(f"Column {name}: {gone} missing, {what}.")


def _add(texts: list[str], rows: Any, text: str) -> None:
    for row in np.flatnonzero(rows):
        texts[row] = f"{texts[row]}; {text}" if texts[row] else text
