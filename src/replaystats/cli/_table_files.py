"""Tables for regression: columns to numbers, categories to indicators, and the same again for new rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import must_be, require_extra
from .._core.typing import FloatArray
from ..readers._names import no_such_name

Frame = Any  # a pandas DataFrame
# A text column with more values than this is an id or a free text, and indicators of it explain nothing.
MAX_LEVELS = 50


def read_frame(path: Path) -> Frame:
    """Return a Parquet or CSV file as a data frame."""
    pandas = require_extra("pandas", extra="io", purpose="Reading a table")
    endings = [ending.lower() for ending in path.suffixes]
    if path.is_dir() or endings[-1:] in ([".parquet"], [".pq"]):
        require_extra("pyarrow", extra="io", purpose="Reading Parquet")
        frame = pandas.read_parquet(path)
    elif ".csv" in endings:
        frame = pandas.read_csv(path)
    else:
        raise ValueError(
            must_be("table", "a file that ends in .parquet, .pq, .csv or .csv.gz", f'"{path.name}"')
        )
    if not len(frame):
        raise ValueError(must_be("table", "a table with rows", f'"{path.name}" without any'))
    return frame


def check_columns(frame: Frame, wanted: list[str], option: str) -> None:
    """Refuse a name that the table does not have, with the nearest one that it has."""
    for name in wanted:
        if name not in frame.columns:
            raise no_such_name(option, "a column of the table", name, frame.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Which columns are used, and how they become numbers.

    Attributes
    ----------
    columns : tuple of str
        Of the table.
    levels : dict of str to tuple
        The values of each categorical column, in order; one indicator for each.
    """

    columns: tuple[str, ...]
    levels: dict[str, tuple[Any, ...]]

    @classmethod
    def of(cls, frame: Frame, columns: list[str]) -> Design:
        """Look at the training table.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": [1.0, 2.0], "colour": ["red", "blue"]})
        >>> design = Design.of(frame, ["x", "colour"])
        >>> design.names
        ('x', 'colour=blue', 'colour=red')
        >>> design.matrix(frame)
        array([[1., 0., 1.],
               [2., 1., 0.]])
        """
        _check_complete(frame, columns)
        levels = {}
        for name in columns:
            if _is_number(frame[name]):
                continue
            found = tuple(sorted(frame[name].unique().tolist(), key=str))
            if len(found) > MAX_LEVELS:
                hint = f"Leave it out with --exclude {name}, or turn it into numbers first."
                rule = f"numbers or at most {MAX_LEVELS} categories"
                raise ValueError(must_be(f"column {name}", rule, f"{len(found)} different values", hint))
            levels[name] = found
        return cls(columns=tuple(columns), levels=levels)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the matrix."""
        return tuple(
            part
            for name in self.columns
            for part in (
                [f"{name}={level}" for level in self.levels[name]] if name in self.levels else [name]
            )
        )

    def matrix(self, frame: Frame) -> FloatArray:
        """Return rows as numbers (n, p); a category that training did not have is refused."""
        _check_complete(frame, list(self.columns))
        parts = []
        for name in self.columns:
            column = frame[name]
            if name not in self.levels:
                if not _is_number(column):
                    raise ValueError(must_be(f"column {name}", "numbers, as in TRAIN", str(column.dtype)))
                parts.append(column.to_numpy(dtype=np.float64)[:, None])
                continue
            known = self.levels[name]
            new = sorted(set(column.tolist()) - set(known), key=str)
            if new:
                hint = "Nothing is known about it: drop those rows or put such rows into TRAIN."
                raise ValueError(must_be(f"column {name}", "one of TRAIN's categories", repr(new[0]), hint))
            position = column.map({level: i for i, level in enumerate(known)}).to_numpy(dtype=np.intp)
            parts.append(np.eye(len(known))[position])
        return np.concatenate(parts, axis=1)


def target_of(frame: Frame, name: str) -> FloatArray:
    """Return the column to be predicted, as numbers."""
    _check_complete(frame, [name])
    if not _is_number(frame[name]):
        got = f"{name!r} of type {frame[name].dtype}"
        raise ValueError(must_be("--target", "a column of numbers", got))
    values: FloatArray = frame[name].to_numpy(dtype=np.float64)
    return values


def _is_number(column: Any) -> bool:
    """Tell numbers and flags from categories; dates are neither."""
    kind = column.dtype
    types = require_extra("pandas", extra="io", purpose="Reading a table").api.types
    if types.is_datetime64_any_dtype(kind) or types.is_timedelta64_dtype(kind):
        hint = "Turn it into a number first, or leave it out with --exclude."
        raise ValueError(must_be(f"column {column.name}", "numbers or categories", str(kind), hint))
    return bool(types.is_numeric_dtype(kind) or types.is_bool_dtype(kind))


def _check_complete(frame: Frame, columns: list[str]) -> None:
    for name in columns:
        missing = frame[name].isna().to_numpy()
        if missing.any():
            got = f"{int(missing.sum())} missing, the first in row {int(np.argmax(missing))}"
            hint = "Drop or impute those rows first."
            raise ValueError(must_be(f"column {name}", "complete", got, hint))
