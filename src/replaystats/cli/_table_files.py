"""Tables as people have them: commas or semicolons, prices with currency signs, dates, text among numbers."""

from __future__ import annotations

import csv
import io
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.errors import ReplayWarning, must_be, require_extra
from .._core.typing import BoolArray, FloatArray
from ..data.storage import read_parquet
from ..readers._columns import naming, no_such_name, open_text, separator_of

Frame = Any  # a pandas DataFrame
Column = Any  # a pandas Series
# A text column is one of numbers, or of dates, if this share of its entries can be read as such.
MOSTLY = 0.9
_DECORATION = re.compile(r"[\s$€£¥%']|USD|EUR|GBP")
_THOUSANDS = re.compile(r"^[+-]?\d{1,3}(,\d{3})+(\.\d*)?$")
# Numbers where a comma is the decimal point, and those whose points can only mark thousands.
_COMMA_NUMBER = re.compile(r"^[+-]?(\d{1,3}(\.\d{3})+|\d*)(,\d+)?$")
_MILLIONS = re.compile(r"^[+-]?\d{1,3}(\.\d{3}){2,}(,\d+)?$")
_DATE = re.compile(r"^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d{1,2}:\d{2}.*)?$")


def read_frame(path: Path) -> Frame:
    """Return a Parquet or CSV file as a data frame; the separator of a CSV file is looked for."""
    pandas = require_extra("pandas", extra="io", purpose="Reading a table")
    endings = [ending.lower() for ending in path.suffixes]
    if path.is_dir() or endings[-1:] in ([".parquet"], [".pq"]):
        require_extra("pyarrow", extra="io", purpose="Reading Parquet")
        frame = read_parquet(pandas.read_parquet, path)
    elif ".csv" in endings or ".tsv" in endings:
        with naming(path, reader="pandas"):
            separator = separator_of(path)
            frame = _read_csv(path, separator)
        if separator != ",":  # where commas do not separate, they may be decimal points
            frame, spoilt = frame.apply(_with_points), spoilt_lines(frame)
            frame.attrs["spoilt"] = spoilt
    else:
        raise ValueError(
            must_be("table", "a file that ends in .parquet, .pq, .csv, .tsv or .csv.gz", f'"{path.name}"')
        )
    if not len(frame):
        raise ValueError(must_be("table", "a table with rows", f'"{path.name}" without any'))
    return frame


def check_columns(frame: Frame, wanted: list[str], option: str) -> None:
    """Refuse a name that the table does not have, with the nearest one that it has."""
    for name in wanted:
        if name not in frame.columns:
            raise no_such_name(option, "a column of the table", name, frame.columns)


def check_has(frame: Frame, wanted: list[str], option: str) -> None:
    """Refuse a table without columns that the training table has, all of them by name."""
    gone = [name for name in wanted if name not in frame.columns]
    if gone:
        rule = f"a table with TRAIN's column(s) {', '.join(gone)}"
        hint = "Add them, or leave them out of TRAIN with --exclude."
        raise ValueError(must_be(option, rule, f"one of {', '.join(map(str, frame.columns))}", hint))


def numbers_of(column: Column) -> tuple[FloatArray, BoolArray]:
    """Return a column as numbers, and which entries are written but cannot be read as a finite one.

    Examples
    --------
    >>> import pandas as pd
    >>> numbers_of(pd.Series(["$1,234", "12 %", None, "soon"]))
    (array([1234.,   12.,   nan,   nan]), array([False, False, False,  True]))
    """
    pandas = require_extra("pandas", extra="io", purpose="Reading a table")
    if is_number(column):
        values = column.astype("float64").to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isinf(values), np.nan, values), np.isinf(values)
    text = column.astype("string").str.replace(_DECORATION, "", regex=True)
    grouped = text.str.match(_THOUSANDS).fillna(False)
    text = text.mask(grouped, text.str.replace(",", "", regex=False))
    values = pandas.to_numeric(text, errors="coerce").astype("float64").to_numpy(na_value=np.nan)
    values = np.where(np.isinf(values), np.nan, values)
    return values, np.asarray(np.isnan(values) & column.notna().to_numpy())


def is_number(column: Column) -> bool:
    """Whether a column holds numbers or flags."""
    types = require_extra("pandas", extra="io", purpose="Reading a table").api.types
    return bool(types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype))


def is_mostly_numbers(column: Column) -> bool:
    """Whether nearly all entries of a text column are numbers in disguise."""
    _, unread = numbers_of(column)
    written = int(column.notna().sum())
    return written > 0 and int(unread.sum()) <= (1 - MOSTLY) * written


def is_date(column: Column) -> bool:
    """Whether a column holds dates, as such or as text."""
    types = require_extra("pandas", extra="io", purpose="Reading a table").api.types
    if types.is_datetime64_any_dtype(column.dtype) or types.is_timedelta64_dtype(column.dtype):
        return True
    if is_number(column):
        return False
    text = column.dropna().astype("string")
    return bool(len(text)) and bool(text.str.match(_DATE).mean() >= MOSTLY)


def dates_of(column: Column) -> Column:
    """Return a column of dates as such; what cannot be read is missing."""
    pandas = require_extra("pandas", extra="io", purpose="Reading a table")
    if pandas.api.types.is_timedelta64_dtype(column.dtype):
        return pandas.Timestamp(0) + column
    found = pandas.to_datetime(column, errors="coerce", format="mixed", utc=True)
    return found.dt.tz_localize(None)


def target_of(frame: Frame, name: str) -> FloatArray:
    """Return the column to be predicted, as numbers; NaN where there is none.

    Raises
    ------
    ValueError
        If it is text or dates, with what to do about it.
    """
    column = frame[name]
    if is_date(column):
        raise ValueError(must_be("--target", "a column of numbers", f"{name!r}, which holds dates"))
    if not is_number(column) and not is_mostly_numbers(column):
        levels = sorted(map(str, column.dropna().unique()))
        got = f"{name!r}, text with {len(levels)} different value(s), such as {', '.join(levels[:3])}"
        hint = "Predicting which category is classification; a column of 0 and 1 is predicted as a share."
        raise ValueError(must_be("--target", "a column of numbers", got, hint))
    values, _ = numbers_of(column)
    if not np.isfinite(values).any():
        raise ValueError(must_be("--target", "a column with numbers", f"{name!r}, all missing"))
    return values


class SpoiltLine(NamedTuple):
    """A line with more fields than the header: which of them is too many cannot be known."""

    row: int  # where it stands among the rows
    line: int  # where it begins in the file, the header being line 1
    fields: list[str]
    n_columns: int

    def key(self, column: int) -> str:
        """Return the entry of a column where it is known, at either end of the line; else nothing."""
        if column not in (0, self.n_columns - 1):
            return ""
        return self.fields[0 if column == 0 else -1].strip()

    @property
    def problem(self) -> str:
        """What is wrong, in a few words."""
        return f"line {self.line}: {len(self.fields)} fields, {self.n_columns} in the header"


def spoilt_lines(frame: Frame) -> list[SpoiltLine]:
    """Return the lines that `read_frame` had to leave out."""
    return list(frame.attrs.get("spoilt", []))


def _read_csv(path: Path, separator: str) -> Frame:
    """Return the table without lines that have more fields than its header; a warning names those."""
    pandas = require_extra("pandas", extra="io", purpose="Reading a table")
    try:
        frame = pandas.read_csv(path, sep=separator)
        if isinstance(frame.index, pandas.RangeIndex):
            return frame  # else a first row with a field too many has been taken for one of row names
    except pandas.errors.ParserError as error:
        if "Expected" not in str(error):  # an open quote, for example, leaves no table to speak of
            raise
        frame = None
    good, spoilt = _split_lines(path, separator)
    if frame is not None and len(spoilt) == len(frame):
        return frame  # all rows have such a field: names of rows it is
    frame = pandas.read_csv(good, sep=separator)
    frame.attrs["spoilt"] = spoilt
    named = ", ".join(str(one.line) for one in spoilt[:5]) + (", ..." if len(spoilt) > 5 else "")
    start = separator.join(spoilt[0].fields)[:40]
    warnings.warn(
        f"{path.name}: {len(spoilt)} of {len(frame) + len(spoilt)} lines left out: more fields than the "
        f'header\'s {frame.shape[1]} (line {named}). The first begins with "{start}".',
        ReplayWarning,
        stacklevel=3,
    )
    return frame


def _split_lines(path: Path, separator: str) -> tuple[io.StringIO, list[SpoiltLine]]:
    """Return the text of header and rows that fit it, and the lines that do not."""
    good, spoilt = io.StringIO(), []
    keep = csv.writer(good, delimiter=separator)
    with open_text(path) as lines:
        reader = csv.reader(lines, delimiter=separator)
        header = next(reader)
        keep.writerow(header)
        row, line = 0, reader.line_num + 1
        for fields in reader:
            if len(fields) > len(header):
                spoilt.append(SpoiltLine(row, line, fields, len(header)))
            elif fields:
                keep.writerow(fields)
            row, line = row + bool(fields), reader.line_num + 1
    good.seek(0)
    return good, spoilt


def _with_points(column: Column) -> Column:
    """Return a text column of numbers with decimal commas with points in their place; others as they are.

    Points are taken for the marks of thousands only where something says so: a comma, or two of them.
    """
    if is_number(column):
        return column
    text = column.astype("string").str.strip()
    fits = text.str.match(_COMMA_NUMBER).fillna(False)
    marked = (text.str.contains(",", regex=False) | text.str.match(_MILLIONS)) & fits
    if not marked.fillna(False).any() or fits.sum() < MOSTLY * text.notna().sum():
        return column
    return text.mask(fits, text.str.replace(".", "", regex=False).str.replace(",", ".", regex=False))
