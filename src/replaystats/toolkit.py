"""What packages that build on this one share with it: checks, streams of random numbers, tables, pages.

A command or a study of your own speaks like the built-in ones when it uses these: the same sentences for a
wrong argument, the same rounding, the same self-contained pages.
"""

from ._core.config import track
from ._core.errors import must_be, require_extra
from ._core.files import lock_file, open_own, replacing, write_bytes, write_text
from ._core.random import as_generator, stream
from ._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from ._core.validation import (
    check_choice,
    check_int,
    check_length,
    check_memory,
    check_real,
    physical_memory,
)
from .buffer.priorities import SumTrees
from .buffer.rings import Rings
from .engine.checkpoint import describe
from .report.pages import duration, embed_json, embed_picture, markdown_table, percent, render, significant

__all__ = [
    "ArrayLike",
    "BoolArray",
    "FloatArray",
    "IntArray",
    "Rings",
    "SumTrees",
    "as_generator",
    "check_choice",
    "check_int",
    "check_length",
    "check_memory",
    "check_real",
    "describe",
    "duration",
    "embed_json",
    "embed_picture",
    "lock_file",
    "markdown_table",
    "must_be",
    "open_own",
    "percent",
    "physical_memory",
    "render",
    "replacing",
    "require_extra",
    "significant",
    "stream",
    "track",
    "write_bytes",
    "write_text",
]
