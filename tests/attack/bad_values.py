"""What may not be given for a parameter, derived from how its signature describes it.

A signature says what is allowed: ``int | None``, ``str``, ``ArrayLike``, ``bool``. Each word takes some of
the values below off the list; what is left must be refused. A parameter added tomorrow is attacked without
anyone thinking of it.
"""

from __future__ import annotations

import datetime
import inspect
import re
from collections.abc import Iterator

import numpy as np

# What each kind of value is called in a signature; `Any` is looked up by the parameter's name below.
_SAYS = {
    "bool": r"\bbool\b",
    "int": r"\bint\b|IntArray",
    "real": r"\bfloat\b|DiscountLike|RandomLike",
    "text": r"\bstr\b",
    "array": r"ArrayLike|FloatArray|IntArray|Sequence|DiscountLike|ImportanceLike|RewardLike|tuple\[|Names",
    "callable": r"DiscountLike|Callable|Policy\w*\b|RewardLike|ImportanceLike|StateFunction|KernelLike",
    "none": r"None|RandomLike|DiscountLike|ImportanceLike|RewardLike",
    "mapping": r"Mapping|dict",
}
# Parameters whose signature says `Any`, because scikit-learn's manners leave the check to `fit`.
_ANY = {
    "subsample_size": "int | float | str | None",
    "n_resamples": "int | str | None",
    "random_state": "RandomLike | int",
    "size": "int | float | str | None",
    "statistic": "str | None",
    "on_failure": "str | None",
    "unit": "str | int | ArrayLike",
    "dt": "float | ArrayLike | None",
    "states": "ArrayLike",
    "rewards": "ArrayLike | None",
    "actions": "ArrayLike | None",
    "X": "ArrayLike",
    "y": "ArrayLike",
    "data": "Trajectories",
}

NOBODY = object()
_STAMPS = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], dtype="datetime64[D]")
_RECORD = np.zeros(3, dtype=[("a", float), ("b", int)])
_MASKED = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])


def _scalars() -> dict[str, tuple[object, set[str]]]:
    """Return label -> (value, the kinds of parameter that may take it)."""
    return {
        "an object": (NOBODY, set()),
        "a class": (dict, {"callable"}),
        "a date": (datetime.date(2024, 1, 1), set()),
        "a complex number": (1 + 2j, set()),
        "a set": ({1, 2}, set()),
        "bytes": (b"U", set()),
        "a nonsense word": ("nonsense-7", set()),
        "an empty word": ("", set()),
        "a number as text": ("500", set()),
        "not a number": (float("nan"), set()),
        "infinity": (float("inf"), set()),
        "a fraction for a count": (1.5, {"real", "array"}),
        "a negative number": (-7, set()),
        "two instead of a flag": (2, {"int", "real", "array"}),
        "a truth value": (True, {"bool", "array"}),
        "nothing": (None, {"none"}),
        "a function": (len, {"callable"}),
        "a mapping": ({"a": 1}, {"mapping"}),
        "an unheard-of count": (10**15, {"real", "array", "seed"}),
    }


def _arrays() -> dict[str, object]:
    return {
        "a masked array": _MASKED,
        "complex entries": np.array([1 + 1j, 2.0, 3.0]),
        "dates": _STAMPS,
        "a structured array": _RECORD,
        "text entries": np.array(["a", "b", "c"]),
        "NaN entries": np.array([1.0, np.nan, 3.0]),
        "infinite entries": np.array([1.0, np.inf, 3.0]),
        "ragged lists": [[1.0, 2.0], [3.0]],
        "no entries": np.array([]),
        "six dimensions": np.zeros((1,) * 6),
        "objects": np.array([NOBODY, None, 1.0], dtype=object),
        "integers beyond 2**53": np.array([2**60 + 1, 2**60 + 3, 1]),
    }


def spoilt(good: object) -> Iterator[tuple[str, object]]:
    """Yield arrays of the shape of a good one with something wrong inside: they get past checks of shapes."""
    if not isinstance(good, (np.ndarray, list, tuple)):
        return
    try:
        array = np.asarray(good)
    except (TypeError, ValueError):  # a list of other things
        return
    if array.dtype.kind not in "fiub" or array.size == 0:
        return
    first = (0,) * array.ndim
    mask = np.zeros(array.shape, dtype=bool)
    mask[first] = True
    entries = array.astype(object)
    yield "a masked entry", np.ma.masked_array(array, mask=mask)
    yield "all of it complex", array.astype(complex)
    yield "all of it dates", array.astype(np.int64).astype("datetime64[D]")
    yield "all of it durations", array.astype(np.int64).astype("timedelta64[s]")
    yield "all of it text", array.astype(str)
    yield "all of it records", array.astype(float).view([("a", float)])
    for label, value in (("NaN", np.nan), ("infinity", np.inf)):
        numbers = array.astype(float)
        numbers[first] = value
        yield f"an entry that is {label}", numbers
    for label, value in (("None", None), ("text", "1.5"), ("an object", NOBODY)):
        changed = entries.copy()
        changed[first] = value
        yield f"an entry that is {label}", changed


def kinds_of(parameter: inspect.Parameter) -> set[str]:
    """Return the kinds of value that the signature allows: of "bool", "int", "real", "text", "array", ..."""
    words = str(parameter.annotation)
    if words in ("Any", "<class 'inspect._empty'>"):
        words = _ANY.get(parameter.name, "Any")
    found = {kind for kind, pattern in _SAYS.items() if re.search(pattern, words)}
    if parameter.default is None:
        found.add("none")
    if parameter.name in ("random_state", "seed"):
        found.add("seed")
    return found


def bad_values(parameter: inspect.Parameter) -> Iterator[tuple[str, object]]:
    """Yield what must be refused for a parameter, with a label."""
    kinds = kinds_of(parameter)
    for label, (value, allowed) in _scalars().items():
        if not kinds & allowed:
            yield label, value
    if "array" in kinds:
        yield from _arrays().items()
    else:
        yield "an array", np.arange(6.0).reshape(2, 3)
