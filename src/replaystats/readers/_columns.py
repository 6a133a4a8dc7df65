"""Columns of any table as NumPy arrays: pandas, polars, Arrow, mappings of arrays, Parquet and CSV files.

Nothing but the columns that are asked for is read or converted, and no table library is imported here unless
the data already came from it or lies in a file.
"""

from __future__ import annotations

import difflib
import fnmatch
import gzip
import itertools
import numbers
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from .._core.arrays import as_array, decoded
from .._core.entries import number_labels, reads_as_number
from .._core.errors import must_be, require_extra
from .._core.typing import FloatArray, IntArray
from .._core.validation import LARGEST_EXACT_INTEGER, check_exact, check_integers, check_length
from ..data._flat import are_names
from ..data.storage import read_parquet

# Layout: names in a message.
SHOWN_NAMES = 12
# Format: brackets inside brackets in a line of JSON; a row of a log has two or three.
DEEPEST = 64
SEPARATORS = (",", ";", "\t", "|")
_DECIMAL_COMMA = re.compile(r"(^|[^\w.])-?\d+,\d+([^\w,.]|$)", re.MULTILINE)
_FRAMES = ("pandas", "polars")  # what else they have is no table: a series, groups
_NUMERIC = ("int", "uint", "float", "double")  # types of Arrow
Column = Any  # a pandas or polars Series, a pyarrow ChunkedArray, or an ndarray


@dataclass(frozen=True, slots=True)
class TableView:
    """The names of a table's columns, and how to get some of them."""

    names: list[str]
    load: Callable[[list[str]], dict[str, Column]]

    def resolve(self, wanted: str | Sequence[str] | None, argument: str, hint: str = "") -> list[str]:
        """Return the columns that `wanted` names; a name with ``*`` stands for all that match, in order."""
        names = [wanted] if isinstance(wanted, str) else _listed(wanted, argument)
        found: list[str] = []
        for name in names:
            matches = fnmatch.filter(self.names, name) if "*" in str(name) else [name]
            if not matches or matches[0] not in self.names:
                raise no_such_name(argument, "a column of the table", name, self.names, hint)
            found += matches
        for name in found:
            if found.count(name) > 1 or self.names.count(name) > 1:
                rule = "a choice of distinct columns whose names are unique"
                raise ValueError(must_be(argument, rule, f"{name!r} twice"))
        return found


def _listed(wanted: Any, argument: str) -> list[Any]:
    """Return several names of columns as a list; they may be numbers in a table without a header."""
    if wanted is None:
        return []
    is_list = isinstance(wanted, (list, tuple)) or getattr(wanted, "ndim", 0) == 1
    names = list(wanted) if is_list else []
    if not is_list or not all(isinstance(name, (str, numbers.Real)) for name in names):
        raise TypeError(must_be(argument, "the name of a column, or a list of names", repr(wanted)))
    return names


# ---------------------------------------------------------------- opening


def open_table(source: Any) -> TableView:
    """Return a view of a data frame, an Arrow table, a mapping of arrays, or a Parquet or CSV file."""
    if isinstance(source, (str, Path)):
        return _open_file(Path(source))
    if isinstance(source, Mapping):
        return TableView(list(source), lambda names: _load_mapping(source, names))
    library = type(source).__module__.partition(".")[0]
    if library == "pandas" and hasattr(source, "iloc") and source.ndim == 2:
        labelled = any(name is not None for name in source.index.names)
        frame = source.reset_index() if labelled else source  # an index (episode, step) is as good as columns
        return TableView(list(frame.columns), lambda names: _picked(frame, names))
    if library == "polars" and hasattr(source, "lazy"):  # a LazyFrame reads only these from its file
        lazy = source.lazy()
        return TableView(
            lazy.collect_schema().names(), lambda names: _picked(lazy.select(names).collect(), names)
        )
    if library == "datasets":  # its NumPy and torch formats turn float64 into float32; Arrow does not
        return open_table(source.with_format("arrow")[:])
    if hasattr(source, "column_names") or (hasattr(source, "__arrow_c_stream__") and library not in _FRAMES):
        pyarrow = require_extra("pyarrow", extra="io", purpose="Reading an Arrow table")
        table = source if hasattr(source, "column_names") else pyarrow.table(source)
        return TableView(table.column_names, lambda names: _picked(table, names))
    rule = "a data frame, an Arrow table, a dict of arrays, or the path of a Parquet or CSV file"
    raise TypeError(must_be("table", rule, type(source).__name__))


def _load_mapping(table: Mapping[str, Any], names: list[str]) -> dict[str, Column]:
    """Return arrays of a mapping, all of one length."""
    found = {name: _from_mapping(table[name], name) for name in names}
    for name, column in found.items():
        if not np.ndim(column):
            raise ValueError(must_be(f'table: "{name}"', "one value for each row", repr(column)))
        check_length(len(column), len(found[names[0]]), f'table: "{name}"', str(names[0]))
    return found


def _from_mapping(values: Any, name: str) -> Column:
    """Return one array of a mapping; a masked entry is a missing one."""
    if np.ma.is_masked(values):
        filled = np.ma.getdata(values).astype(object)
        filled[np.ma.getmaskarray(values)] = None
        return filled
    return values if hasattr(values, "to_numpy") else as_array(values, f'table: "{name}"')


def _picked(table: Any, names: list[str]) -> dict[str, Column]:
    return {name: table[name] for name in names}


def _open_file(path: Path) -> TableView:
    endings = [ending.lower() for ending in path.suffixes]
    if not path.is_file() and not path.is_dir():  # pipes and devices have no end
        raise FileNotFoundError(must_be("table", "an existing file", f'"{path}"'))
    if path.is_dir() or (endings and endings[-1] in (".parquet", ".pq")):
        parquet = require_extra("pyarrow.parquet", extra="io", purpose="Reading Parquet")
        names = read_parquet(parquet.ParquetDataset, path).schema.names
        return TableView(names, lambda wanted: _load_parquet(parquet, path, wanted))
    if ".csv" in endings or ".tsv" in endings:
        csv = require_extra("pyarrow.csv", extra="io", purpose="Reading CSV")
        separator, point = _dialect_of(path)
        parse = csv.ParseOptions(delimiter=separator)
        with naming(path), csv.open_csv(path, parse_options=parse) as reader:  # one block: the header
            names = reader.schema.names
        return TableView(names, lambda wanted: _load_csv(csv, path, parse, point, wanted))
    if any(ending in (".jsonl", ".ndjson") for ending in endings):
        reader = require_extra("pyarrow.json", extra="io", purpose="Reading JSON lines")
        with naming(path, "JSON lines"):
            _check_json_lines(path)
            return open_table(reader.read_json(path))
    rule = "a file that ends in .parquet, .pq, .csv, .csv.gz or .jsonl, or a folder of Parquet files"
    hint = "Other formats: open it with pandas or polars."
    raise ValueError(must_be("table", rule, f'"{path.name}"', hint))


def _check_json_lines(path: Path) -> None:
    """Raise where a line is no object or nests deeply: Arrow's reader ends the whole process on both."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            text = line.strip().removeprefix(b"\xef\xbb\xbf")
            if text and not text.startswith(b"{"):
                raise ValueError(f"line {number} is not an object {{...}}")
            if text.count(b"[") + text.count(b"{") > DEEPEST and _depth(text) > DEEPEST:
                raise ValueError(f"line {number} is nested more than {DEEPEST} deep")


def _depth(text: bytes) -> int:
    """Return how many brackets are open at once at most; those in texts count too."""
    codes = np.frombuffer(text, dtype=np.uint8)
    steps = np.isin(codes, list(b"[{")).astype(np.int64) - np.isin(codes, list(b"]}"))
    return int(np.cumsum(steps).max())


def _dialect_of(path: Path) -> tuple[str, str]:
    """Return what separates columns, most often in the header, and the decimal point of a CSV file.

    Where commas do not separate, they may be decimal points.
    """
    with open_text(path) as lines, naming(path):
        header, rows = lines.readline(), "".join(itertools.islice(lines, 99))
    separator = max(SEPARATORS, key=header.count)  # the comma where there is none of them
    return separator, "," if separator != "," and _DECIMAL_COMMA.search(rows) else "."


def open_text(path: Path) -> Any:
    """Open a CSV file, which may be packed, as text."""
    opening = gzip.open if path.suffix.lower() == ".gz" else open
    return opening(path, "rt", encoding="utf-8-sig", newline="")


def _load_csv(csv: Any, path: Path, parse: Any, point: str, wanted: list[str]) -> dict[str, Column]:
    """Load columns: in batches, or whole where a later row is of another type than the first."""
    options = csv.ConvertOptions(include_columns=wanted, decimal_point=point, strings_can_be_null=True)
    given = {"parse_options": parse, "convert_options": options}
    with naming(path):
        try:
            with csv.open_csv(path, **given) as reader:
                found = _streamed(reader.schema, reader, wanted)
            _release()
        except ValueError:  # or there is a mistake to name
            found = None
        return found or _picked(csv.read_csv(path, **given), wanted)


def _load_parquet(parquet: Any, path: Path, wanted: list[str]) -> dict[str, Column]:
    """Load columns of a file, or of a folder of files."""

    def in_batches(file: Path) -> dict[str, Column] | None:
        with parquet.ParquetFile(file) as opened:
            batches = opened.iter_batches(columns=wanted, use_threads=False)
            return _streamed(opened.schema_arrow, batches, wanted)

    found = None if path.is_dir() else read_parquet(in_batches, path)
    _release()
    return found or _picked(read_parquet(parquet.read_table, path, columns=wanted), wanted)


def _streamed(schema: Any, batches: Iterable[Any], wanted: list[str]) -> dict[str, Column] | None:
    """Return columns from batches of rows: numbers in arrays that grow in place, others as Arrow holds them.

    None where a whole number is missing: then its column is for Arrow, which knows that the others are whole.
    """
    pyarrow = require_extra("pyarrow", extra="io", purpose="Reading a file")
    kinds = {each.name: each.type for each in schema if each.name in wanted}
    numeric = {name: kind for name, kind in kinds.items() if str(kind).startswith(_NUMERIC)}
    grown = {name: np.empty(0, kind.to_pandas_dtype()) for name, kind in numeric.items()}
    others: dict[str, list[Any]] = {name: [] for name in wanted if name not in grown}
    n = 0
    for batch in batches:
        end = n + batch.num_rows
        for name, array in grown.items():
            column = batch.column(name)
            if column.null_count and array.dtype.kind != "f":
                return None
            if end > len(array):
                array.resize(max(end, 3 * len(array) // 2), refcheck=False)  # moves pages, copies nothing
            array[n:end] = column
        for name, parts in others.items():
            parts.append(batch.column(name))
        n = end
    for array in grown.values():
        array.resize(n, refcheck=False)
    return {
        name: grown[name] if name in grown else pyarrow.chunked_array(others[name], kinds[name])
        for name in wanted
    }


def _release() -> None:
    """Give the memory back that Arrow keeps for the next file; it lets go of it once this one is closed."""
    require_extra("pyarrow", extra="io", purpose="Reading a file").default_memory_pool().release_unused()


@contextmanager
def naming(path: Path, kind: str = "CSV") -> Iterator[None]:
    """Say which file cannot be read, and in which row; the reader says only the second."""
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else "it is empty"
        hint = f"Arrow says: {reason}."
        raise ValueError(must_be("table", f"a readable file of {kind}", f'"{path}"', hint)) from error


# ---------------------------------------------------------------- converting


def as_numpy(column: Column) -> np.ndarray:
    """Return a column as it is, in NumPy's terms."""
    column = decoded(column)
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def is_integer(column: Column) -> bool:
    """Tell whether a column was declared as integers, whatever its missing values turn it into."""
    kind = str(getattr(column, "type", getattr(column, "dtype", ""))).lower()
    return kind.startswith(("int", "uint"))


def as_floats(column: Column, name: str) -> FloatArray:
    """Return a column of numbers or flags as float64; missing values become NaN.

    Refused are text, and integers that float64 does not hold, also where a library has rounded them already
    because some are missing.
    """
    array = as_numpy(column)
    if array.ndim == 1 and array.dtype.kind in "biuf":
        check_exact(array, name)
        if array.dtype.kind == "f" and is_integer(column) and len(array):
            with np.errstate(invalid="ignore"):
                largest = float(np.nanmax(np.abs(array), initial=0.0))
            if largest >= LARGEST_EXACT_INTEGER:
                rule = "integers that float64 holds exactly (up to 2^53)"
                hint = "Some are missing in that column. Number labels from 0, or subtract a constant."
                raise ValueError(must_be(name, rule, f"{largest:.0f}", hint))
        return array.astype(np.float64, copy=False)
    values = array.tolist() if array.ndim == 1 and array.dtype.kind == "O" else [array]
    wrong = [kind for kind in dict.fromkeys(map(type, values)) if not _is_number_or_missing(kind)]
    if wrong:
        suspects = [i for i, value in enumerate(values) if type(value) in wrong]
        row = next((i for i in suspects if not reads_as_number(str(values[i]))), suspects[0])
        got = f"{values[row]!r} in row {row}" if len(values) == len(array) else f"dtype {array.dtype}"
        hint = "Turn text and categories into numbers first."
        raise TypeError(must_be(name, "a column of numbers", got, hint))
    floats = np.array([np.nan if _is_missing(type(v)) else v for v in values], dtype=np.float64)
    for value in values if np.abs(floats).max(initial=0.0) >= LARGEST_EXACT_INTEGER else ():
        if isinstance(value, numbers.Integral) and int(float(value)) != value:
            raise ValueError(must_be(name, "integers that float64 holds exactly (up to 2^53)", value))
    return floats


def as_numbers_or_names(column: Column, name: str) -> np.ndarray:
    """Return a column as floats, or as it is where it holds names: text, none of which reads as a number."""
    array = as_numpy(column)
    texts = [value for value in array.tolist() if isinstance(value, str)] if array.dtype.kind in "OUT" else []
    if are_names(np.array(texts, dtype=object)):
        return array
    return as_floats(column, name)


def as_labels_or_numbers(column: Column, name: str) -> np.ndarray:
    """Return a column of actions: names and whole numbers as they are, everything else as floats.

    Examples
    --------
    >>> as_labels_or_numbers(np.array([2**60 + 1, 2**60 + 3]), "actions").tolist()
    [1152921504606846977, 1152921504606846979]
    """
    array = as_numpy(column)
    if array.ndim == 1 and array.dtype.kind in "iu":
        return check_integers(array, name)
    return as_numbers_or_names(column, name)


def as_states(columns: Mapping[str, Column], role: str) -> np.ndarray:
    """Return columns side by side (R, d): numbers, or names, which whole numbers beside names become, too.

    Examples
    --------
    >>> as_states({"room": np.array(["hall", "roof"]), "floor": np.array([0, 3])}, "states").tolist()
    [['hall', '0'], ['roof', '3']]
    """
    parts = [as_numbers_or_names(column, f'{role}: "{name}"') for name, column in columns.items()]
    named = [part.dtype.kind in "OUT" for part in parts]
    if not any(named):
        return np.stack(parts, axis=1)
    whole = [is_integer(column) for column in columns.values()]
    if not np.logical_or(named, whole).all():  # text among numbers is a mistake: say which
        return np.stack([as_floats(column, f'{role}: "{name}"') for name, column in columns.items()], axis=1)
    texts = [
        part if is_name else [None if np.isnan(x) else str(int(x)) for x in part]
        for part, is_name in zip(parts, named, strict=True)
    ]
    return np.array(texts, dtype=object).T


def check_states(
    matrix: np.ndarray, names: Sequence[str], role: str, rows: IntArray | None = None
) -> np.ndarray:
    """Return states (R, d) as floats or texts; one that is missing is named by its column and its row."""
    if matrix.dtype.kind in "OUT":
        wrong = np.argwhere([[not isinstance(name, str) for name in row] for row in matrix.tolist()])
    else:
        wrong = np.argwhere(~np.isfinite(matrix))
    if not len(wrong):
        return matrix if matrix.dtype.kind == "f" else matrix.astype(str)
    at, column = (int(i) for i in wrong[0])
    value, row = matrix[at, column], at if rows is None else rows[at]
    if matrix.dtype.kind == "O":
        raise TypeError(must_be(role, "a name in every row", f"{value!r} in row {row}"))
    got = f'{value:g} in column "{names[column]}", row {row} ({len(wrong)} such)'
    raise ValueError(must_be(role, "finite in every row", got, "Remove or impute those rows first."))


def join_labels(columns: Mapping[str, Column]) -> np.ndarray:
    """Return one label per row (R,) of the columns that tell episodes apart together.

    Examples
    --------
    >>> join_labels({"user": np.array(["a", "a", "b"]), "visit": np.array([1, 2, 1])})
    array(['a/1', 'a/2', 'b/1'], dtype='<U3')
    """
    if len(columns) == 1:
        return as_numpy(next(iter(columns.values())))
    numbered = [number_labels(as_numpy(column), f'episode: "{name}"') for name, column in columns.items()]
    pairs, code = np.unique(np.stack([code for _, code in numbered]), axis=1, return_inverse=True)
    each = [ids[place].astype(str) for (ids, _), place in zip(numbered, pairs, strict=True)]
    return np.array(["/".join(parts) for parts in zip(*each, strict=True)])[code.reshape(-1)]


def _is_missing(kind: type) -> bool:
    return kind is type(None) or kind.__name__ == "NAType"  # the second is that of pandas.NA


def _is_number_or_missing(kind: type) -> bool:
    return _is_missing(kind) or issubclass(kind, (numbers.Real, Decimal))


def no_such_name(
    argument: str, rule: str, name: object, names: Iterable[object], hint: str = ""
) -> ValueError:
    """Return the error for an `argument` that names nothing among `names`.

    Examples
    --------
    >>> print(no_such_name("rewards", "a column of the table", "Rewrd", ["x", "reward"]))
    `rewards` must be a column of the table; got "Rewrd". Did you mean "reward"?
    """
    known = [str(known) for known in names]
    by_lower = {known.lower(): known for known in known}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    listed = ", ".join(known[:SHOWN_NAMES]) + (", ..." if len(known) > SHOWN_NAMES else "")
    advice = f'Did you mean "{by_lower[near[0]]}"?' if near else f"There are {listed}."
    return ValueError(must_be(argument, rule, f'"{name}"', f"{advice} {hint}".strip()))
