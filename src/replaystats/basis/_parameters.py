"""Checks and conversions that several bases share for their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_real

# A dense (N, q) matrix with more columns than this helps nobody; it is nearly always a misread parameter.
MAX_FUNCTIONS = 1_000_000


def settle(basis: object, **values: Any) -> None:
    """Store cleaned parameters in a frozen dataclass; for use in its `__post_init__` only."""
    for name, value in values.items():
        object.__setattr__(basis, name, value)


def frozen(array: ArrayLike) -> FloatArray:
    """Return a read-only float copy, so that a frozen basis cannot change through its arrays."""
    copy = np.array(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy


def frozen_points(value: ArrayLike, name: str) -> FloatArray:
    """Return points as a read-only (m, d) array; (m,) stands for (m, 1)."""
    points = check_array(value, name, ndim=(1, 2))
    return frozen(points[:, None] if points.ndim == 1 else points)


def check_per_dimension(
    value: Any, name: str, dimension: int, *, positive: bool = False
) -> float | tuple[float, ...]:
    """Return one finite number for all dimensions, or a tuple with one for each."""
    low, closed = (0.0, "neither") if positive else (-np.inf, "both")
    if np.ndim(value) == 0:
        return check_real(value, name, low=low, closed=closed)
    numbers = tuple(check_real(entry, name, low=low, closed=closed) for entry in np.asarray(value).tolist())
    if len(numbers) != dimension:
        raise ValueError(must_be(name, f"one number, or {dimension} (one per dimension)", repr(value)))
    return numbers


def check_n_functions(n_functions: int, culprit: str, hint: str) -> None:
    """Refuse a basis too large to evaluate before its indices are enumerated."""
    if n_functions > MAX_FUNCTIONS:
        rule = f"such that there are at most {MAX_FUNCTIONS} functions"
        raise ValueError(must_be(culprit, rule, f"{n_functions} functions", hint))


def check_flag(value: Any, name: str) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(must_be(name, "True or False", repr(value)))
    return bool(value)
