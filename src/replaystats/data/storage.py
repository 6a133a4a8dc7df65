"""Trajectories as a Parquet file and back, bit for bit.

One row per trajectory, in list columns, so that the file's offsets are those of the record and other tools
can open it. What belongs to no row (dt, versions) is in the schema's metadata, as JSON under "replaystats".
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.errors import must_be, require_extra
from .._core.typing import IntArray
from .._core.version import __version__
from ._arrow import explode_lists
from ._flat import offsets_of

if TYPE_CHECKING:
    from .trajectories import Trajectories

FORMAT = 1
METADATA_KEY = b"replaystats"
STEP_COLUMNS = ("rewards", "actions", "dt", "behavior_probability")
FLAG_COLUMNS = ("terminated", "truncated", "parent")


def write_parquet(data: Trajectories, path: str | os.PathLike[str]) -> None:
    """Write `data` to `path`: the old file or the new one is there at any time, never half of one."""
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
        "version": __version__,
        "numpy": np.__version__,
        "dt": data.dt if isinstance(data.dt, float) else None,
    }
    table = arrow.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(about).encode()})
    _replace(Path(path), lambda part: parquet.write_table(table, part))


def read_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the fields of the `Trajectories` that `write_parquet` wrote."""
    parquet = require_extra("pyarrow.parquet", extra="io", purpose="Reading Parquet")
    about = _metadata(parquet.read_schema(path), path)
    table = parquet.read_table(path)
    states, lengths = explode_lists(table.column("states"), "states")
    offsets = offsets_of(lengths)
    fields = {"states": states, "offsets": offsets, "rewards": None, "actions": None, "dt": about["dt"]}
    for name in STEP_COLUMNS:
        if name in table.column_names:
            values, own = explode_lists(table.column(name), name)
            if not np.array_equal(own, lengths - 1):
                rule = "one shorter than the states of its trajectory"
                raise ValueError(
                    must_be(name, rule, f"other lengths in {Path(path).name}", "The file is damaged.")
                )
            fields[name] = values
    return fields | {name: np.asarray(table.column(name).combine_chunks()) for name in FLAG_COLUMNS}


def _metadata(schema: Any, path: str | os.PathLike[str]) -> dict[str, Any]:
    found = (schema.metadata or {}).get(METADATA_KEY)
    if found is None:
        hint = "Read a table of your own with readers.from_table(path, states=...)."
        raise ValueError(
            must_be("path", "a file that Trajectories.to_parquet wrote", f'"{Path(path).name}"', hint)
        )
    about: dict[str, Any] = json.loads(found)
    if about["format"] > FORMAT:
        hint = f"It was written by version {about['version']}: update replaystats."
        raise ValueError(must_be("path", f"a file of format {FORMAT} or older", about["format"], hint))
    return about


def _as_lists(arrow: Any, values: np.ndarray, offsets: IntArray) -> Any:
    """Return rows (R,) or (R, d) as one list per trajectory; the buffers are shared, not copied."""
    flat = arrow.array(values.ravel())
    if values.ndim == 2:
        flat = arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return arrow.LargeListArray.from_arrays(offsets.astype(np.int64, copy=False), flat)


def _replace(path: Path, write: Callable[[Path], None]) -> None:
    """Write beside `path` first, so that an interrupted run leaves what was there."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        write(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
