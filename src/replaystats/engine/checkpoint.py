"""Partial sums on disk: written whole or not at all, and only taken up by the run they belong to."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.records import Record, read_records, write_records
from .._core.typing import BoolArray, FloatArray
from ..moments import StreamedMoments
from ..plans import ResamplingPlan


class CheckpointError(OSError):
    """A checkpoint could not be written; nothing is wrong with the data or the workers."""


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The file of one reduction over the blocks of a source.

    Attributes
    ----------
    directory : Path or None
        None: nothing is kept.
    name : str
        What is reduced, as a file name.
    identity : dict
        What must be the same for a later run to go on: plain values that JSON can write.
    """

    directory: Path | None
    name: str
    identity: dict[str, Any]

    @property
    def path(self) -> Path | None:
        """The file, if there is to be one."""
        return None if self.directory is None else self.directory / f"{self.name}.sums"

    def load(self, done: BoolArray, values: FloatArray) -> None:
        """Fill `done` (blocks taken in) and `values` (their reduction) from the file, if there is one."""
        if self.path is None or not self.path.exists():
            return
        hint = "Remove it, or choose another directory."
        (found, arrays) = next(read_records(self.path, "a directory whose files are whole", "checkpoint"))[1:]
        if found == self.identity:
            done[:], values[:] = arrays["done"], arrays["values"]
            return
        names = sorted(self.identity.keys() | found.keys())
        changed = [name for name in names if found.get(name) != self.identity.get(name)]
        rule = "a directory without sums of another run"
        got = f"{self.path}, where {', '.join(changed)} differ(s)"
        raise ValueError(must_be("checkpoint", rule, got, hint))

    def save(self, done: BoolArray, values: FloatArray) -> None:
        """Write the state; whoever is killed in the middle leaves the file before it."""
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_records(self.path, [Record(0, self.identity, {"done": done, "values": values})])
        except OSError as error:
            reason = error.strerror or str(error)
            raise CheckpointError(
                error.errno, f"The checkpoint {self.path} cannot be written: {reason}"
            ) from error


# What tells one streamed problem from another: data, function, options and subsets, part by part.
#
# A checkpoint is only continued by the run it belongs to. So its identity holds everything that decides the
# sums, each part under a name that a refusal can say: blocks, the content of arrays or the size and time of
# files, moments of some rows, the function with its source and what it refers to, every option, and the plan.

# Values of a module that decide what a function of it returns.
_PLAIN = (str, bytes, int, float, complex, tuple, np.ndarray, np.generic)
# Format: rows whose moments are compared, from each of the first, middle and last block.
_SAMPLED_ROWS = 4


def data_identity(moments: StreamedMoments) -> dict[str, str]:
    """Return the identity of streamed moments, by part; nothing is looked at where no checkpoint is kept."""
    if moments.checkpoint is None:
        return {}
    blocks = [(moments.source.label(i), int(rows)) for i, rows in enumerate(np.diff(moments.starts))]
    found = {
        "moments": repr(moments),
        "blocks": _digest(repr(blocks).encode()),
        "content": _digest(moments.source.identity().encode()),
        "rows": _sampled_rows(moments),
        "weights": describe(moments.weights),
        "function": describe(moments.function),
    }
    return found | {f"option {name}": describe(value) for name, value in sorted(moments.options.items())}


def plan_identity(plan: ResamplingPlan, first_tile: int) -> dict[str, str]:
    """Return the plan's description and a digest of some of its draws: given subsets have no seed."""
    draws = [drawn.astype("<i8").tobytes() for drawn in plan.draw(first_tile, 0).row_lists()]
    return {"plan": f"{plan!r}, {_digest(*draws)}"}


def describe(value: Any, _around: tuple[int, ...] = ()) -> str:
    """Return text that is the same for the same value in another process, and another one for another value.

    Functions count with their source, their defaults, what they have caught, and numbers, texts and arrays
    of their module that they name; objects with their state.

    Examples
    --------
    >>> describe(0.9), describe(0.9) == describe(0.5)
    ('0.9', False)
    >>> def scaled(by):
    ...     return lambda x: by * x
    >>> describe(scaled(2.0)) == describe(scaled(3.0)), describe(scaled(2.0)) == describe(scaled(2.0))
    (False, True)
    """
    if value is None or isinstance(value, str | bytes | int | float | complex):
        return repr(value)
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
        return f"array {array.shape} {array.dtype} {_digest(content)}"
    if id(value) in _around:  # an object that holds itself
        return f"itself, {_around.index(id(value))} from the outside"

    def part(inner: Any) -> str:
        return describe(inner, (*_around, id(value)))

    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {part(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(part, value)) + "]"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(part, value))) + "}"
    if isinstance(value, partial):
        return f"partial({part(value.func)}, {part(value.args)}, {part(value.keywords)})"
    if inspect.ismethod(value):
        return f"{part(value.__func__)} of {part(value.__self__)}"
    if inspect.isfunction(value):
        return _function(value, part)
    return _object(value, part)


def _function(value: Any, part: Callable[[Any], str]) -> str:
    code = value.__code__
    try:
        body = inspect.getsource(value).encode()
    except (OSError, TypeError):  # typed at a prompt
        body = code.co_code + repr(code.co_names).encode()
    constants = part(_constants(code)).encode()  # not their repr: sets have another order in every process
    caught = [part(_content(cell)) for cell in value.__closure__ or ()]
    defaults = part([*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).items()])
    known = {each: value.__globals__[each] for each in code.co_names if each in value.__globals__}
    named = part({each: known[each] for each in known if isinstance(known[each], _PLAIN)})
    name = f"{value.__module__}.{value.__qualname__}"
    return f"{name} {_digest(body, constants)} with {caught} and {defaults} and {named}"


def _constants(code: CodeType) -> list[Any]:
    """Return the constants of a function and of the functions inside it."""
    return [_constants(each) if inspect.iscode(each) else each for each in code.co_consts]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _object(value: Any, part: Callable[[Any], str]) -> str:
    """Return the type and the state of any other value; its address never counts."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    state = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    state |= getattr(value, "__dict__", {})
    return f"{kind} {part(state)}" if state else f"{kind} {value!r}".split(" at 0x")[0]


def _sampled_rows(moments: StreamedMoments) -> str:
    """Return a digest of the moments of some rows of the first, the middle and the last block."""
    content = []
    for block in sorted({0, moments.n_blocks // 2, moments.n_blocks - 1}):
        loaded = moments.load(block)
        length = int(moments.starts[block + 1] - moments.starts[block])
        for row in sorted({int(r) for r in np.linspace(0, length - 1, _SAMPLED_ROWS)}):
            content.append(moments.rows_of(loaded, slice(row, row + 1), block).tobytes())
    return _digest(*content)


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
