"""Memory: how much this machine has, and work in blocks that fit into what is allowed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import is_foreign, take_rows
from .config import memory_budget


def physical_memory() -> int | None:
    """Return the bytes of memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def in_blocks(points: Any, numbers_per_point: int, function: Callable[[Any], Any]) -> Any:
    """Apply a function to blocks of points that fit into memory, and join what it returns."""
    if points is None or is_foreign(points):
        return function(points)
    step, m = max(1, memory_budget() // (8 * numbers_per_point)), points.shape[0]
    if step >= m:
        return function(points)
    parts = [function(take_rows(points, slice(first, first + step))) for first in range(0, m, step)]
    if isinstance(parts[0], list):
        return [item for part in parts for item in part]
    return np.concatenate(parts)
