"""Work on many points a block at a time, within the memory that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import is_foreign, take_rows
from .config import memory_budget


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
