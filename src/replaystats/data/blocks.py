"""Data that need not fit into memory: rows in blocks of known lengths, loaded one block at a time.

The order of the rows is part of the data: row i is observation i of every resampling plan. So sources take an
ordered list of files, never a directory.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from .._core.arrays import decoded
from .._core.errors import must_be, require_extra
from .._core.validation import check_instance, check_int, check_path

# One array, or several under names, that share their first axis: the rows of a block.
Block: TypeAlias = "np.ndarray | dict[str, np.ndarray]"
# Batch: rows of a block on disk.
DEFAULT_BLOCK_ROWS = 2**17


class PartitionError(RuntimeError):
    """A block of rows could not be read or used; the message names it."""


class RowBlocks(ABC):
    """Rows in blocks: how many there are is known, what they hold is loaded when needed.

    Subclasses write `lengths` and `load`, and travel to worker processes by pickling: keep paths, not data.

    Examples
    --------
    >>> class Powers(RowBlocks):
    ...     lengths = [2, 3]
    ...
    ...     def load(self, block):
    ...         return {"x": np.arange(self.lengths[block]) ** (block + 1)}
    >>> Powers(), Powers().load(1)["x"]
    (Powers(5 rows in 2 blocks), array([0, 1, 4]))
    """

    @property
    @abstractmethod
    def lengths(self) -> Sequence[int]:
        """Number of rows of every block."""

    @abstractmethod
    def load(self, block: int) -> Block:
        """Return the rows of one block: an array, or named arrays that share their first axis."""

    def label(self, block: int) -> str:
        """Return what a message calls the block."""
        return f"block {block}"

    def identity(self) -> str:
        """Return text that changes when a row changes; a checkpoint is continued only where it is the same.

        It is a digest of all rows, read one block after the other. Subclasses that read files return the
        files' sizes and times instead.
        """
        digest = hashlib.sha256()
        for block in range(len(self.lengths)):
            loaded = self.load(block)
            for name, array in (loaded if isinstance(loaded, dict) else {"": loaded}).items():
                rows = np.asarray(array)
                digest.update(f"{name!r} {rows.shape} {rows.dtype} ".encode())
                digest.update(repr(rows.tolist()).encode() if rows.dtype.hasobject else rows.tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sum(self.lengths)} rows in {len(self.lengths)} blocks)"


class ArrayBlocks(RowBlocks):
    """Blocks of anything that can be sliced: an array, ``np.memmap``, Zarr, HDF5, a .npy file.

    Parameters
    ----------
    arrays : array-like, path of a .npy file, or mapping of names to either
        Rows along the first axis. A path is mapped into memory where it is used, so it may travel to worker
        processes; an array would travel whole.
    block_rows : int
        Rows per block.

    Examples
    --------
    >>> source = ArrayBlocks({"X": np.zeros((10, 2)), "y": np.arange(10.0)}, block_rows=4)
    >>> source
    ArrayBlocks(10 rows in 3 blocks)
    >>> source.load(2)["y"]
    array([8., 9.])
    """

    def __init__(self, arrays: Any, *, block_rows: int = DEFAULT_BLOCK_ROWS) -> None:
        self.arrays = arrays
        self.block_rows = check_int(block_rows, "block_rows")
        opened = self._opened()
        for name, array in opened.items():
            if np.ndim(array) == 0:
                rule = "arrays with one row per observation"
                raise TypeError(must_be("arrays", rule, f"{type(array).__name__} for {name!r}"))
        lengths = {len(array) for array in opened.values()}
        if len(lengths) != 1 or 0 in lengths:
            got = f"lengths {sorted(lengths)}"
            raise ValueError(must_be("arrays", "non-empty and of equal length", got))
        self.n_rows = lengths.pop()

    @property
    def lengths(self) -> Sequence[int]:
        """See the base class."""
        starts = range(0, self.n_rows, self.block_rows)
        return [min(self.block_rows, self.n_rows - start) for start in starts]

    def load(self, block: int) -> Block:
        """See the base class."""
        rows = slice(block * self.block_rows, min((block + 1) * self.block_rows, self.n_rows))
        loaded = {name: _part(array[rows], name) for name, array in self._opened().items()}
        return loaded if isinstance(self.arrays, Mapping) else loaded[""]

    def label(self, block: int) -> str:
        """See the base class."""
        start = block * self.block_rows
        return f"rows {start} to {min(start + self.block_rows, self.n_rows) - 1}"

    def identity(self) -> str:
        """See the base class."""
        named = list(self.arrays.values()) if isinstance(self.arrays, Mapping) else [self.arrays]
        if all(isinstance(array, (str, os.PathLike)) for array in named):
            return _state_of_files([os.fspath(path) for path in named])
        return super().identity()

    def _opened(self) -> dict[str, Any]:
        named = self.arrays if isinstance(self.arrays, Mapping) else {"": self.arrays}
        return {
            name: _rows_of(array) if isinstance(array, (str, os.PathLike)) else array
            for name, array in named.items()
        }


def _rows_of(path: str | os.PathLike[str]) -> Any:
    """Return the array in a .npy file, left where it is; what holds objects is not opened."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        rule = "arrays, or names of .npy files of numbers"
        raise ValueError(must_be("arrays", rule, f"{os.fspath(path)!r}")) from error


class ParquetBlocks(RowBlocks):
    """Row groups of Parquet files, in the order of the list.

    Parameters
    ----------
    files : sequence of paths or addresses
        The order decides which row is which observation. Addresses such as "s3://bucket/part.parquet",
        "gs://..." or "https://..." are opened by fsspec, with the package that it asks for.
    columns : mapping of str to str or sequence of str
        Name of an array to the column it is read from, or to several that become its columns. A column of
        fixed-size lists becomes a 2-D array. Missing values become NaN.

    Notes
    -----
    A block is one row group, read by itself: batched readers of Arrow keep whole files in memory. Row groups
    of 10^5 to 10^6 rows are a good size.

    Examples
    --------
    >>> source = ParquetBlocks(files, columns={"states": ["x", "v"], "rewards": "r"})  # doctest: +SKIP
    """

    def __init__(self, files: Sequence[str | os.PathLike[str]], *, columns: Mapping[str, Any]) -> None:
        if isinstance(files, (str, bytes)) or not isinstance(files, Sequence):
            hint = "The order of the rows decides which observation is which."
            raise TypeError(must_be("files", "an ordered list of paths", repr(files), hint))
        self.columns = _lists_of_columns(columns)
        self.files = [os.fspath(file if is_address(file) else check_path(file, "files")) for file in files]
        self._groups = [
            (file, group, length)
            for file in self.files
            for group, length in enumerate(self._check(file))
            if length
        ]
        if not self._groups:
            raise ValueError(must_be("files", "at least one file with rows", f"{len(self.files)} file(s)"))

    @cached_property
    def lengths(self) -> Sequence[int]:
        """See the base class."""
        return [length for _, _, length in self._groups]

    def load(self, block: int) -> Block:
        """See the base class."""
        file, group, _ = self._groups[block]
        wanted = {column for chosen in self.columns.values() for column in chosen}
        try:
            with _opened(file) as held, _parquet().ParquetFile(held) as opened:
                table = opened.read_row_group(group, columns=sorted(wanted))
        except (OSError, ValueError) as error:
            raise PartitionError(f"{self.label(block)} cannot be read: {error}") from error
        return {name: _to_array(table, chosen) for name, chosen in self.columns.items()}

    def label(self, block: int) -> str:
        """See the base class."""
        file, group, _ = self._groups[block]
        return f"{file}, row group {group}"

    def identity(self) -> str:
        """See the base class."""
        return _state_of_files(self.files)

    def _check(self, file: str) -> list[int]:
        """Return the lengths of the file's row groups, from its footer alone."""
        try:
            with _opened(file) as held, _parquet().ParquetFile(held) as opened:
                metadata, names = opened.metadata, set(opened.schema_arrow.names)
        except (OSError, ValueError) as error:  # Arrow's own errors are ValueErrors
            raise PartitionError(f"Partition {file} cannot be opened as Parquet: {error}") from error
        _check_columns(self.columns, names, file)
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


class DaskBlocks(RowBlocks):
    """Partitions of a Dask data frame, in their order; each is computed where it is used.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The rows: a lazy frame; nothing is read before it is needed.
    columns : mapping of str to str or sequence of str
        Name of an array to the column it is made of, or to several that become its columns.

    Notes
    -----
    The lengths of all partitions are computed at once, on the cluster where there is one. A partition is
    computed by one thread of the worker that asks for it: persist what is dear.

    Examples
    --------
    >>> import dask.dataframe, pandas
    >>> frame = pandas.DataFrame({"size": [1.0, 2.0, 3.0], "price": [3.0, 5.0, 8.0]})
    >>> frame = dask.dataframe.from_pandas(frame, npartitions=2)
    >>> source = DaskBlocks(frame, columns={"X": ["size"], "y": "price"})
    >>> source, source.load(1)["y"]
    (DaskBlocks(3 rows in 2 blocks), array([8.]))
    """

    def __init__(self, frame: Any, *, columns: Mapping[str, Any]) -> None:
        if not (hasattr(frame, "map_partitions") and hasattr(frame, "columns")):
            raise TypeError(must_be("frame", "a data frame of Dask", type(frame).__name__))
        wanted = _check_columns(_lists_of_columns(columns), frame.columns, "the frame")
        self.frame, self.columns = frame[wanted], dict(columns)
        lengths = [int(length) for length in frame.map_partitions(len).compute()]
        self._parts = [(number, length) for number, length in enumerate(lengths) if length]

    @cached_property
    def lengths(self) -> Sequence[int]:
        """See the base class."""
        return [length for _, length in self._parts]

    def load(self, block: int) -> Block:
        """See the base class."""
        part = self.frame.partitions[self._parts[block][0]].compute(scheduler="synchronous")
        return {name: part[chosen].to_numpy() for name, chosen in self.columns.items()}

    def label(self, block: int) -> str:
        """See the base class."""
        return f"partition {self._parts[block][0]}"


def _lists_of_columns(columns: Any) -> dict[str, list[str]]:
    """Return the columns of every array as a list."""
    check_instance(columns, "columns", Mapping, 'For example {"states": ["x", "v"], "rewards": "r"}.')
    return {name: [chosen] if isinstance(chosen, str) else list(chosen) for name, chosen in columns.items()}


def _check_columns(columns: Mapping[str, list[str]], known: Iterable[str], where: str) -> list[str]:
    """Return the columns that are wanted, once each, if they are known there."""
    wanted = list(dict.fromkeys(column for chosen in columns.values() for column in chosen))
    if missing := sorted(set(wanted) - set(known)):
        rule = f"among those of {where}: {', '.join(sorted(map(str, known)))}"
        raise ValueError(must_be("columns", rule, ", ".join(missing)))
    return wanted


def is_address(file: Any) -> bool:
    """Whether a name is an address that fsspec opens, like "s3://bucket/key".

    Examples
    --------
    >>> is_address("s3://bucket/part.parquet"), is_address("part.parquet")
    (True, False)
    """
    return isinstance(file, str) and "://" in file


@contextmanager
def _opened(file: str) -> Iterator[Any]:
    """Yield the path itself, or the file at an address, open for reading."""
    if not is_address(file):
        yield file
        return
    fsspec = require_extra("fsspec", extra="remote", purpose="Reading from an address")
    with fsspec.open(file, "rb") as opened:
        yield opened


def _state_of_files(files: Sequence[str]) -> str:
    """Return name, size and time of change of every file."""
    return "; ".join(f"{file} {_size_and_time(file)}" for file in files)


def _size_and_time(file: str) -> str:
    if not is_address(file):
        found = os.stat(file)
        return f"{found.st_size} {found.st_mtime_ns}"
    fsspec = require_extra("fsspec", extra="remote", purpose="Reading from an address")
    system, path = fsspec.core.url_to_fs(file)
    info = system.info(path)
    return repr({key: info.get(key) for key in ("size", "mtime", "created", "ETag", "LastModified", "md5")})


def _part(rows: Any, name: str) -> np.ndarray:
    if np.ma.is_masked(rows):
        hint = "Fill or drop them first."
        raise ValueError(must_be("arrays", "arrays without masked entries", f"some in {name!r}", hint))
    return np.asarray(rows)


def take_rows(block: Block, rows: slice) -> Block:
    """Return some rows of a block."""
    if isinstance(block, dict):
        return {name: array[rows] for name, array in block.items()}
    return block[rows]


def block_size(block: Block) -> tuple[int, int]:
    """Return the number of rows and of bytes of a block."""
    arrays = list(block.values()) if isinstance(block, dict) else [block]
    lengths = {len(array) for array in arrays}
    if len(lengths) != 1:
        raise ValueError(must_be("the arrays of a block", "equally long", sorted(lengths)))
    return lengths.pop(), sum(array.nbytes for array in arrays)


def _parquet() -> Any:
    return require_extra("pyarrow.parquet", extra="io", purpose="Reading Parquet")


def _to_array(table: Any, columns: list[str]) -> np.ndarray:
    arrays = [_column(table[column]) for column in columns]
    return arrays[0] if len(arrays) == 1 else np.column_stack(arrays)


def _column(column: Any) -> np.ndarray:
    width = getattr(column.type, "list_size", None)
    if width is None:
        return np.asarray(decoded(column).to_numpy())
    if column.null_count:
        raise ValueError(must_be("columns", "lists in every row", f"{column.null_count} missing ones"))
    return np.asarray(column.combine_chunks().flatten().to_numpy(zero_copy_only=False)).reshape(-1, width)
