"""Checks at the door: each returns the clean value or raises one clear sentence."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import to_numpy
from .errors import must_be
from .typing import ArrayLike, FloatArray


def check_int(value: Any, name: str, *, low: int = 1, high: int | None = None, hint: str = "") -> int:
    """Return `value` as an int in ``[low, high]``."""
    rule = f"an int >= {low}" if high is None else f"an int in [{low}, {high}]"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(must_be(name, rule, repr(value), hint))
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ValueError(must_be(name, rule, number, hint))
    return number


def check_real(
    value: Any,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    closed: str = "both",
    hint: str = "",
) -> float:
    """Return `value` as a finite float between `low` and `high`; `closed` is both, left, right or neither."""
    opening = "[" if closed in ("both", "left") and math.isfinite(low) else "("
    closing = "]" if closed in ("both", "right") and math.isfinite(high) else ")"
    rule = f"a finite number in {opening}{low:g}, {high:g}{closing}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(must_be(name, rule, repr(value), hint))
    number = float(value)
    above = number >= low if opening == "[" else number > low
    below = number <= high if closing == "]" else number < high
    if not (math.isfinite(number) and above and below):
        raise ValueError(must_be(name, rule, value, hint))
    return number


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`; otherwise name the nearest of them."""
    if isinstance(value, str) and value in choices:
        return value
    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f'Did you mean "{near[0]}"?' if near else ""
    rule = "one of " + ", ".join(f'"{choice}"' for choice in choices)
    raise ValueError(must_be(name, rule, repr(value), hint))


def check_array(
    value: ArrayLike,
    name: str,
    *,
    ndim: int | tuple[int, ...],
    hint: str = "",
    allow_empty: bool = False,
) -> FloatArray:
    """Return `value` as a finite, non-empty float64 array with one of the dimensions `ndim`."""
    dimensions = (ndim,) if isinstance(ndim, int) else ndim
    rule = " or ".join(f"{d}-D" for d in dimensions)
    try:
        array = np.asarray(to_numpy(value), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(must_be(name, f"a numeric {rule} array", type(value).__name__, hint)) from error
    if array.ndim not in dimensions:
        raise ValueError(must_be(name, f"a {rule} array", f"shape {array.shape}", hint))
    if array.size == 0 and not allow_empty:
        raise ValueError(must_be(name, "non-empty", f"shape {array.shape}", hint))
    if not np.isfinite(array).all():
        bad = int(np.count_nonzero(~np.isfinite(array)))
        first = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        hint = hint or "Remove or impute those entries first."
        raise ValueError(
            must_be(name, "finite", f"{bad} NaN or infinite value(s), the first at index {first}", hint)
        )
    return array


def check_length(actual: int, expected: int, name: str, other: str) -> None:
    """Raise unless `name` has as many rows as `other`."""
    if actual != expected:
        raise ValueError(must_be(name, f"as long as `{other}` ({expected})", actual))


def resolve_subsample_size(value: Any, n_observations: int) -> int:
    """Turn `subsample_size` (an int, or a share of n) into the number of observations per subset.

    Examples
    --------
    >>> resolve_subsample_size(0.3, 500), resolve_subsample_size(20, 500)
    (150, 20)
    """
    rule = f"an int in [1, {n_observations}] or a float in (0, 1]"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(must_be("subsample_size", rule, repr(value)))
    if isinstance(value, numbers.Integral):
        size = int(value)
        if not 1 <= size <= n_observations:
            raise ValueError(must_be("subsample_size", rule, value))
        return size
    share = float(value)
    if not 0.0 < share <= 1.0:
        raise ValueError(must_be("subsample_size", rule, value))
    return max(1, round(share * n_observations))
