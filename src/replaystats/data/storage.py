"""Trajectories as a Parquet file and back, bit for bit.

One row per trajectory, in list columns, so that the file's offsets are those of the record and other tools
can open it. What belongs to no row (dt, labels, checksums, versions) is in the schema's metadata, as JSON
under "replaystats".
"""

from __future__ import annotations

import json
import os
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.errors import must_be, require_extra
from .._core.files import replacing
from .._core.typing import IntArray
from .._core.validation import check_path
from ._flat import holds_names, offsets_of

if TYPE_CHECKING:
    from .trajectories import Trajectories

FORMAT = 2  # Format: a file of another one is refused.
METADATA_KEY = b"replaystats"
STEP_COLUMNS = ("rewards", "actions", "dt", "behavior_probability")
FLAG_COLUMNS = ("terminated", "truncated", "parent")
DAMAGED = "The file is damaged: take it from a backup, or write it again."


def write_parquet(data: Trajectories, path: str | os.PathLike[str]) -> None:
    """Write `data` to `path`: the old file or the new one is there at any time, never half of one."""
    path = check_path(path, "path")
    arrow = require_extra("pyarrow", extra="io", purpose="Writing Parquet")
    parquet = require_extra("pyarrow.parquet", extra="io", purpose="Writing Parquet")
    steps = data.step_offsets
    columns = {"states": _as_lists(arrow, data.states, data.offsets)}
    for name in STEP_COLUMNS:
        values = getattr(data, name)
        if isinstance(values, np.ndarray):
            columns[name] = _as_lists(arrow, values, steps)
    columns |= {name: arrow.array(getattr(data, name)) for name in FLAG_COLUMNS}
    about = {
        "format": FORMAT,
        "version": version("replaystats"),
        "numpy": np.__version__,
        "dt": data.dt if isinstance(data.dt, float) else None,
        "action_labels": data.action_labels,
        "checksums": {name: _checksum(getattr(data, name)) for name in (*columns, "offsets")},
    }
    about["check"] = _checksum_of_text(about)
    table = arrow.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(about).encode()})
    with replacing(path) as file:
        parquet.write_table(table, file)


def read_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the fields of the `Trajectories` that `write_parquet` wrote, if they are what it wrote."""
    parquet = require_extra("pyarrow.parquet", extra="io", purpose="Reading Parquet")
    path = check_path(path, "path", exists=True)
    about = _metadata(read_parquet(parquet.read_schema, path), path)
    table = read_parquet(parquet.read_table, path)
    missing = {"states", *FLAG_COLUMNS} - set(table.column_names)
    if missing:
        got = f'"{path}" without {", ".join(sorted(missing))}'
        raise ValueError(must_be("path", "a file that Trajectories.to_parquet wrote", got, DAMAGED))
    states, lengths = flatten_lists(table.column("states"), "states", names=True)
    fields: dict[str, Any] = {"states": states, "offsets": offsets_of(lengths), "dt": about["dt"]}
    for name in STEP_COLUMNS:
        if name in table.column_names:
            fields[name], own = flatten_lists(table.column(name), name)
            if not np.array_equal(own, lengths - 1):
                rule = "one shorter than the states of its trajectory"
                raise ValueError(must_be(name, rule, f"other lengths in {Path(path).name}", DAMAGED))
    fields |= {name: np.asarray(table.column(name).combine_chunks()) for name in FLAG_COLUMNS}
    for name, checksum in about["checksums"].items():
        if _checksum(fields.get(name)) != checksum:
            rule = f"a file whose {name} are those that were written"
            raise ValueError(must_be("path", rule, f'others in "{Path(path).name}"', DAMAGED))
    labels = about["action_labels"]
    return fields | ({} if labels is None else {"action_labels": tuple(labels)})


def read_parquet(read: Any, path: str | os.PathLike[str], **options: Any) -> Any:
    """Call one of Arrow's readers of Parquet; what it cannot read is named: the file, and the row group."""
    try:
        return read(path, **options)
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # Arrow takes damaged metadata at its word: what it then meets may be anything
        where = f'"{path}"{_damaged_group(path)}'
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        hint = f"Arrow says: {reason.rstrip('.')}. Take it from a backup, or write it again."
        raise ValueError(
            must_be("path", "a readable Parquet file", f"a damaged one, {where}", hint)
        ) from error


def _damaged_group(path: str | os.PathLike[str]) -> str:
    """Return which row group cannot be read, as the end of a sentence; nothing if the footer cannot."""
    parquet = require_extra("pyarrow.parquet", extra="io", purpose="Reading Parquet")
    try:
        with parquet.ParquetFile(path) as file:
            for group in range(file.metadata.num_row_groups):
                try:
                    file.read_row_group(group)
                except Exception:  # likewise
                    return f", row group {group} of {file.metadata.num_row_groups}"
    except Exception:
        return ", in its footer or head"
    return ""


def _metadata(schema: Any, path: str | os.PathLike[str]) -> dict[str, Any]:
    found, rule = (schema.metadata or {}).get(METADATA_KEY), "a file that Trajectories.to_parquet wrote"
    if found is None:
        hint = "Read a table of your own with readers.from_table(path, states=...)."
        raise ValueError(must_be("path", rule, f'"{Path(path).name}"', hint))
    try:
        about: dict[str, Any] = json.loads(found)
        written, check = int(about["format"]), about.pop("check", None)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        got = f'metadata in "{Path(path).name}" that cannot be read'
        raise ValueError(must_be("path", rule, got, DAMAGED)) from error
    if written != FORMAT:  # before the checksum: another format may have another one
        hint = f"It was written by version {about.get('version', 'unknown')} of replaystats."
        raise ValueError(must_be("path", f"a file of format {FORMAT}", written, hint))
    if check != _checksum_of_text(about):
        raise ValueError(must_be("path", rule, f'changed metadata in "{Path(path).name}"', DAMAGED))
    return about


def _checksum_of_text(about: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(about).encode())


def _checksum(values: Any) -> int | None:
    """Return a checksum of the bytes of an array, in an order and width that do not depend on the machine."""
    if not isinstance(values, np.ndarray):
        return None
    if holds_names(values):
        return zlib.crc32("\0".join(values.ravel().tolist()).encode())
    width = "i8" if values.dtype.kind in "iu" else values.dtype.str[1:]
    return zlib.crc32(np.ascontiguousarray(values, dtype=f"<{width}" if width != "b1" else "b1").tobytes())


def _as_lists(arrow: Any, values: np.ndarray, offsets: IntArray) -> Any:
    """Return rows (R,) or (R, d) as one list per trajectory; the buffers are shared, not copied."""
    flat = arrow.array(values.ravel())
    if values.ndim == 2:
        flat = arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return arrow.LargeListArray.from_arrays(offsets.astype(np.int64, copy=False), flat)


# ---------------------------------------------------------------- Arrow's list columns


def flatten_lists(column: Any, name: str, *, names: bool = False) -> tuple[np.ndarray, IntArray]:
    """Return the values of all lists of an Arrow column, and the length of each.

    Parameters
    ----------
    column : pyarrow.ChunkedArray or pyarrow.Array
        Lists of numbers, or of vectors of one length.
    name : str
        What to call the column in an error.
    names : bool
        Whether lists of texts are taken too.

    Returns
    -------
    values : ndarray of shape (R,) or (R, d)
        Missing numbers are NaN; integers without missing ones stay integers.
    lengths : ndarray of int, shape (n,)
    """
    lists = _one_array(column)
    if lists.null_count:
        row = int(np.flatnonzero(lists.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(must_be(name, "a list in every row", f"a missing one in row {row}"))
    if not hasattr(lists, "value_lengths"):
        raise TypeError(must_be(name, "a column of lists", f"one of {lists.type}"))
    lengths = lists.value_lengths().to_numpy()
    inner = lists.flatten()
    if not hasattr(inner, "value_lengths"):
        return _values(inner, name, names=names), lengths
    widths = inner.value_lengths().to_numpy(zero_copy_only=False)
    if inner.null_count or np.ptp(widths) > 0:
        got = "missing vectors" if inner.null_count else f"{widths.min()} to {widths.max()} numbers"
        raise ValueError(must_be(name, "vectors of one length", got))
    return _values(inner.flatten(), name, names=names).reshape(len(inner), -1), lengths


def _one_array(column: Any) -> Any:
    if not hasattr(column, "num_chunks"):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()  # the second always copies


def _values(values: Any, name: str, *, names: bool) -> np.ndarray:
    if str(values.type) == "bool":
        values = values.cast("float64")
    array: np.ndarray = values.to_numpy(zero_copy_only=False)
    if names and str(values.type) in ("string", "large_string") and not values.null_count:
        return array.astype(str)
    if array.dtype.kind not in "iuf":
        raise TypeError(must_be(name, "lists of numbers", f"lists of {values.type}"))
    return array
