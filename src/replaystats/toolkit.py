"""What packages that build on this one share with it: checks, streams of random numbers, tables, pages.

A command or a study of your own speaks like the built-in ones when it uses these: the same sentences for a
wrong argument, the same rounding, the same self-contained pages.
"""

from ._core.config import track
from ._core.errors import must_be, renamed, require_extra
from ._core.files import lock_file, open_own, replacing, write_bytes, write_text
from ._core.random import as_generator, stream
from ._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from ._core.user_code import contained, find_object
from ._core.validation import (
    check_bool,
    check_choice,
    check_int,
    check_length,
    check_memory,
    check_names,
    check_real,
    physical_memory,
)
from ._core.version import versions
from .buffer.rows import Rings
from .engine.checkpoint import describe
from .moments.streamed import AnyMoments
from .report.pages import duration, embed_json, embed_picture, markdown_table, percent, render, significant

__all__ = [
    "AnyMoments",
    "ArrayLike",
    "BoolArray",
    "FloatArray",
    "IntArray",
    "Rings",
    "as_generator",
    "check_bool",
    "check_choice",
    "check_int",
    "check_length",
    "check_memory",
    "check_names",
    "check_real",
    "contained",
    "describe",
    "duration",
    "embed_json",
    "embed_picture",
    "find_object",
    "lock_file",
    "markdown_table",
    "must_be",
    "open_own",
    "percent",
    "physical_memory",
    "renamed",
    "render",
    "replacing",
    "require_extra",
    "significant",
    "stream",
    "track",
    "versions",
    "write_bytes",
    "write_text",
]
