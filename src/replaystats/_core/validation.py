"""Checks at the door: each returns the clean value or raises one clear sentence."""

from __future__ import annotations

import difflib
import math
import numbers
import os
import warnings
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .arrays import as_array, to_numpy
from .errors import ReplayWarning, must_be
from .thresholds import ANNOUNCED_WORK, LONGEST_WORK
from .typing import ArrayLike, FloatArray, IntArray

# Rounding: above this, neighbouring integers share one float64.
LARGEST_EXACT_INTEGER = 2**53
# Format: bytes of a file's name, in the file systems of Linux, macOS and Windows.
LONGEST_NAME = 255
# Rounding: intervals need fourth powers: beyond these, float64 has none.
_LARGEST, _SMALLEST = 1e75, 1e-75
# What Python and NumPy count among the numbers.
_NO_NUMBERS = (bool, np.bool_, np.timedelta64)
KINDS = {"c": "complex numbers", "M": "dates", "m": "durations", "U": "text", "S": "text", "V": "records"}


def check_int(value: Any, name: str, *, low: int = 1, high: int | None = None, hint: str = "") -> int:
    """Return `value` as an int in ``[low, high]``."""
    rule = f"an int >= {low}" if high is None else f"an int in [{low}, {high}]"
    if not is_whole(value):
        raise TypeError(must_be(name, rule, repr(value), hint))
    number = int(value)
    if number.bit_length() > 63:  # NumPy's whole numbers end there
        got = f"a whole number of {number.bit_length()} bits"
        raise ValueError(must_be(name, f"{rule}, below 2^63", got, hint))
    if number < low or (high is not None and number > high):
        raise ValueError(must_be(name, rule, number, hint))
    return number


def is_whole(value: Any) -> bool:
    """Whether `value` is a whole number; True and False are not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, _NO_NUMBERS)


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
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Real):
        raise TypeError(must_be(name, rule, repr(value), hint))
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond all floats
        raise ValueError(must_be(name, rule, "a number beyond 1e308", hint)) from None
    above = number >= low if opening == "[" else number > low
    below = number <= high if closing == "]" else number < high
    if not (math.isfinite(number) and above and below):
        raise ValueError(must_be(name, rule, value, hint))
    return number


def check_range(value: Any, name: str, *, strict: bool = False) -> tuple[float, float]:
    """Return the two ends of a range of numbers, the lower one first; equal ends only if not `strict`.

    Examples
    --------
    >>> check_range([0, 1], "bounds")
    (0.0, 1.0)
    """
    rule = "a pair (low, high) of numbers, low below high"
    if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, (str, bytes)) or len(value) != 2:
        raise TypeError(must_be(name, rule, repr(value)))
    low, high = check_magnitude(check_array(value, name, ndim=1, hint=f"It is {rule}."), name).tolist()
    if low > high or (strict and low == high):
        raise ValueError(must_be(name, rule, repr(value)))
    return low, high


def check_bool(value: Any, name: str, hint: str = "") -> bool:
    """Return `value` if it is True or False; 0, 1 and "no" are neither.

    Examples
    --------
    >>> check_bool(np.bool_(True), "intercept")
    True
    """
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(must_be(name, "True or False", repr(value), hint))
    return bool(value)


def check_text(value: Any, name: str) -> str:
    """Return `value` if it is text."""
    if not isinstance(value, str):
        raise TypeError(must_be(name, "text", repr(value)))
    return value


def check_names(value: Any, name: str) -> list[str]:
    """Return names as a list; a single text is not a list of them, and a set has no order.

    Examples
    --------
    >>> check_names(("a", "b"), "names")
    ['a', 'b']
    """
    listed = isinstance(value, (Sequence, np.ndarray)) or hasattr(value, "to_list")  # pandas and polars
    if isinstance(value, (str, bytes)) or not listed:
        raise TypeError(must_be(name, "a sequence of text", type(value).__name__))
    for entry in value:
        if not isinstance(entry, str):
            raise TypeError(must_be(name, "a sequence of text", f"{entry!r} among its entries"))
    return [str(entry) for entry in value]


def check_instance(value: Any, name: str, kinds: type | tuple[type, ...], hint: str = "") -> Any:
    """Return `value` if it is an instance of one of `kinds`; a class in place of an instance is named so.

    Examples
    --------
    >>> check_instance(3, "plan", dict, "Use make_plan.")
    Traceback (most recent call last):
    TypeError: `plan` must be a dict; got int. Use make_plan.
    """
    if isinstance(value, kinds):
        return value
    names = [kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,))]
    article = "an" if names[0][0] in "AEIOU" else "a"
    got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    raise TypeError(must_be(name, f"{article} {' or '.join(names)}", got, hint))


def check_path(value: Any, name: str, *, exists: bool = False, kind: str = "file") -> Path:
    """Return the name of a file (or folder: `kind`) as a Path; with `exists`, of a file that is there.

    Examples
    --------
    >>> check_path("", "path")
    Traceback (most recent call last):
    TypeError: `path` must be the name of a file; got ''.
    """
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise TypeError(must_be(name, f"the name of a {kind}", repr(value)))
    path = Path(text)
    if any(len(os.fsencode(part)) > LONGEST_NAME for part in path.parts):
        raise ValueError(must_be(name, f"a name of at most {LONGEST_NAME} bytes", f"{len(text)} characters"))
    if kind == "file" and not path.parent.is_dir():
        raise FileNotFoundError(must_be(name, "in a folder that is there", f'"{path}"'))
    if exists and not path.is_file():
        got = f'"{path}", a folder' if path.is_dir() else f'"{path}", where there is none'
        raise FileNotFoundError(must_be(name, "the name of a file that is there", got))
    return path


def check_memory(n_numbers: float, name: str, value: object, hint: str = "") -> None:
    """Refuse what would need more memory than the machine has, before any of it is asked for.

    Parameters
    ----------
    n_numbers : float
        Numbers of eight bytes that would be held at the same time.
    name : str
        The parameter that makes them so many.
    value : object
        What it was.
    hint : str
        What to do instead.
    """
    needed, present = 8.0 * n_numbers, physical_memory()
    if present is not None and needed > present:
        got = f"{value}, which needs {needed / 2**30:,.0f} GiB of {present / 2**30:,.0f}"
        raise ValueError(must_be(name, "small enough for the memory of this machine", got, hint))


def check_work(seconds: float, name: str, value: object, hint: str = "Use fewer.") -> None:
    """Refuse work that would take more than a day, and announce what takes more than a minute, beforehand.

    Parameters
    ----------
    seconds : float
        Estimated time of one core.
    name, value
        The parameter that makes it so long, and what it was.
    hint : str
        What to do instead.

    Examples
    --------
    >>> check_work(3e6, "n_resamples", 10**9)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: `n_resamples` must be such that the work takes a day at most; got 1000000000, ...
    """
    if seconds > LONGEST_WORK:
        got = f"{value}, about {seconds / 86_400:,.0f} days"
        raise ValueError(must_be(name, "such that the work takes a day at most", got, hint))
    if seconds > ANNOUNCED_WORK:
        message = f"`{name}` is {value}: this takes about {seconds / 60:,.0f} minutes on one core."
        warnings.warn(message, ReplayWarning, stacklevel=3)


@cache
def physical_memory() -> int | None:
    """Return the bytes of memory of this machine; None where the system does not tell, as Windows."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


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
    """Return `value` as a finite, non-empty float64 array with one of the dimensions `ndim`.

    What float64 cannot hold is refused, not converted: masked entries, complex numbers, dates, records, text,
    and integers beyond 2^53.
    """
    dimensions = (ndim,) if isinstance(ndim, int) else ndim
    rule = " or ".join(f"{d}-D" for d in dimensions)
    array = _as_floats(value, name, f"a numeric {rule} array", hint)
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


def _as_floats(value: Any, name: str, rule: str, hint: str) -> FloatArray:
    """Return `value` as float64 if that loses nothing."""
    if np.ma.isMaskedArray(value):
        n_masked = int(np.count_nonzero(np.ma.getmaskarray(value)))
        if n_masked:
            got = f"{n_masked} masked entries"
            raise TypeError(must_be(name, rule, got, hint or "Fill or drop them first."))
        value = np.ma.getdata(value)
    try:
        array = to_numpy(value)
    except Exception as error:  # objects have conversions of their own, and ranges more entries than memory
        raise TypeError(must_be(name, rule, type(value).__name__, hint)) from error
    if array.dtype.kind in KINDS:
        raise TypeError(must_be(name, rule, f"{KINDS[array.dtype.kind]} (dtype {array.dtype})", hint))
    if array.dtype.kind == "O":
        _check_objects(array, value, name, rule, hint)
    try:
        floats = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(must_be(name, rule, type(value).__name__, hint)) from error
    check_exact(array, name)
    return floats


def _check_objects(array: np.ndarray, value: Any, name: str, rule: str, hint: str) -> None:
    """Raise unless every entry is a real number: NumPy would read "1.5" as one, and True as well as None."""
    for entry in array.ravel():
        if isinstance(entry, np.timedelta64) or not isinstance(entry, (numbers.Real, Decimal)):
            got = repr(entry) if isinstance(entry, (str, bytes, type(None))) else type(entry).__name__
            if array.ndim == 0:
                got = type(value).__name__
            raise TypeError(must_be(name, rule, f"{got} among its entries" if array.ndim else got, hint))
        if isinstance(entry, numbers.Integral):
            whole = int(entry)
            if whole.bit_length() > 1023 or int(float(whole)) != whole:
                got = (
                    str(whole) if whole.bit_length() < 100 else f"a whole number of {whole.bit_length()} bits"
                )
                raise ValueError(must_be(name, "numbers that float64 holds exactly", got))


def check_exact(array: np.ndarray, name: str) -> None:
    """Raise where float64 would merge two integers of an array."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or not array.size:
        return
    low, high = int(array.min()), int(array.max())
    if max(-low, high) <= LARGEST_EXACT_INTEGER:
        return
    large = array[(array > LARGEST_EXACT_INTEGER) | (array < -LARGEST_EXACT_INTEGER)]
    lost = [number for number in large.tolist() if int(float(number)) != number]
    if lost:
        hint = "Number labels from 0, or subtract a constant."
        raise ValueError(must_be(name, "integers that float64 holds exactly (up to 2^53)", lost[0], hint))


def has_usual_magnitude(largest: float) -> bool:
    """Whether the fourth power of a largest magnitude is a number; what is not finite is left to others."""
    return not (_LARGEST < largest < math.inf or 0 < largest < _SMALLEST)


def check_magnitude(array: FloatArray, name: str, *, hint: str = "Change its unit.") -> FloatArray:
    """Return `array` if the fourth power of its largest magnitude is a number; zeros throughout are fine.

    What is not finite is left to others.

    Examples
    --------
    >>> check_magnitude(np.array([1e99]), "y")
    Traceback (most recent call last):
    ValueError: `y` must be of a magnitude between 1e-75 and 1e+75, or zero; got 1e+99. Change its unit.
    """
    largest = max(float(array.max(initial=0.0)), -float(array.min(initial=0.0)))
    if not has_usual_magnitude(largest):
        rule = f"of a magnitude between {_SMALLEST:g} and {_LARGEST:g}, or zero"
        raise ValueError(must_be(name, rule, f"{largest:.3g}", hint))
    return array


def check_rows_magnitude(
    array: Any, name: str, *, degree: int = 1, hint: str = "Change its unit."
) -> FloatArray:
    """Return rows, some of many perhaps, none of which is beyond what `check_magnitude` allows.

    A row may be as small as it likes: others decide the unit. Of products of two numbers (`degree` 2) only
    squares are needed.
    """
    xp, high = array_namespace(array), _LARGEST**degree
    largest = float(xp.max(xp.abs(array))) if math.prod(array.shape) else 0.0
    if high < largest < math.inf:
        raise ValueError(must_be(name, f"of a magnitude up to {high:g}", f"{largest:.3g}", hint))
    checked: FloatArray = array
    return checked


def check_integers(value: ArrayLike, name: str, *, hint: str = "") -> IntArray:
    """Return a 1-D array of integers as int64; unsigned ones too, whose differences would wrap around."""
    array = as_array(value, name)
    rule = "a 1-D array of integers"
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(must_be(name, rule, f"{array.dtype} of shape {array.shape}", hint))
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(must_be(name, rule + " below 2^63", int(array.max()), hint))
    return array.astype(np.int64, copy=False)


def as_columns(array: FloatArray) -> FloatArray:
    """Return rows (N,) as a matrix (N, 1), the one meaning that a vector of states has."""
    return array[:, np.newaxis] if array.ndim == 1 else array


def check_rows(value: ArrayLike, name: str) -> FloatArray:
    """Return numbers as rows (N, d); (N,) stands for (N, 1).

    Examples
    --------
    >>> check_rows([1, 2, 3], "states").shape
    (3, 1)
    """
    return as_columns(check_array(value, name, ndim=(1, 2)))


def check_length(actual: int, expected: int, name: str, other: str) -> None:
    """Raise unless `name` has as many rows as `other`."""
    if actual != expected:
        raise ValueError(must_be(name, f"as long as `{other}` ({expected})", actual))


def check_weights(weights: ArrayLike, n: int, name: str = "sample_weight", rows: str = "X") -> FloatArray:
    """Return the weights (n,) of rows: finite, none below 0, not all of them 0."""
    weight = check_array(weights, name, ndim=1)
    check_length(len(weight), n, name, rows)
    check_nonnegative(weight, name)
    return check_magnitude(weight, name)


def check_nonnegative(weight: Any, name: str) -> None:
    """Raise if one of the weights is below 0, or all are 0; they may be of any array library."""
    low, total = float(weight.min()), float(weight.sum())
    if low < 0.0 or total == 0.0:
        got = f"a minimum of {low:g} and a sum of {total:g}"
        raise ValueError(must_be(name, "non-negative and not all zero", got))


def resolve_subsample_size(value: Any, n_observations: int, name: str = "subsample_size") -> int:
    """Turn `subsample_size` (an int, or a share of n) into the number of observations per subset.

    Examples
    --------
    >>> resolve_subsample_size(0.3, 500), resolve_subsample_size(20, 500)
    (150, 20)
    """
    rule = f"an int in [1, {n_observations}] or a float in (0, 1]"
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, numbers.Real):
        raise TypeError(must_be(name, rule, repr(value)))
    if isinstance(value, numbers.Integral):
        size = int(value)
        if not 1 <= size <= n_observations:
            raise ValueError(must_be(name, rule, value))
        return size
    share = float(value)
    if not 0.0 < share <= 1.0:
        raise ValueError(must_be(name, rule, value))
    return max(1, round(share * n_observations))
