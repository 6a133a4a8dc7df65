"""From the shapes people have (3-D arrays, lists of episodes) to flat arrays plus offsets.

Everything here checks before it stacks, so that a mismatch names the trajectory it is in. What it returns
never shares memory with what it was given: overwriting an array does not change a record made from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array

from .._core.arrays import as_array, computes_like_numpy, in_double, to_numpy
from .._core.entries import reads_as_number
from .._core.errors import must_be
from .._core.typing import ArrayLike, IntArray
from .._core.validation import as_columns, check_array, check_integers, has_usual_magnitude

STATES_HINT = "Pass an array (n, L+1, d), or (n, L+1) when d = 1, or a list of arrays (L_i + 1, d)."


def offsets_of(lengths: IntArray) -> IntArray:
    """Return the boundaries (n+1,) of consecutive pieces with the given lengths (n,)."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def gather(starts: IntArray, lengths: IntArray, step: int = 1) -> IntArray:
    """Return the indices ``starts[i] + step * (0 .. lengths[i]-1)``, piece after piece."""
    offsets = offsets_of(lengths)
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return np.asarray(np.repeat(starts, lengths) + step * position, dtype=np.int64)


def is_ragged(value: Any) -> bool:
    """Tell whether `value` lists one array per trajectory (an object array counts as such a list)."""
    return isinstance(value, (list, tuple)) or (
        isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1
    )


def holds_names(array: Any) -> bool:
    """Tell whether a checked array of states or actions holds names, which are kept as texts."""
    return isinstance(array, np.ndarray) and array.dtype.kind == "U"


def are_names(value: Any) -> bool:
    """Tell whether `value` is an array, or a list, of names of states or actions.

    Names are texts none of which reads as a number: "1.5" is a number somebody forgot to convert. In rows of
    them some columns may be whole numbers: ("hall", 2).
    """
    try:
        array = np.asarray(value) if isinstance(value, (list, tuple)) else value
    except ValueError:  # lists of different lengths
        return False
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "OUT":
        return False
    rows = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(-1, 1)
    if array.dtype.kind == "O" and not all(isinstance(text, str) for text in array.flat):
        return False
    columns = [dict.fromkeys(column) for column in rows.T.tolist()]
    named = [not any(map(reads_as_number, column)) for column in columns]
    whole = [all(text.lstrip("-").isdecimal() for text in column) for column in columns]
    return array.size > 0 and any(named) and all(np.logical_or(named, whole))


def own(array: np.ndarray, given: Any) -> np.ndarray:
    """Return `array`, or a copy of it where it shares memory with what the caller gave."""
    if isinstance(given, (list, tuple)):
        return array
    return array.copy() if np.may_share_memory(array, to_numpy(given)) else array


def check_states(value: Any, name: str, ndim: tuple[int, ...], hint: str = "") -> np.ndarray:
    """Return states as a float array, or as an array of texts where they are names."""
    if not isinstance(value, np.ndarray) or value.dtype.kind in "OUT":
        try:
            names = are_names(value)
        except (TypeError, ValueError):  # a list of unequal rows: let the check of numbers say so
            names = False
        if names:
            array = np.asarray(value, dtype=str)
            if array.ndim not in ndim or array.size == 0:
                rule = " or ".join(f"{d}-D" for d in ndim)
                raise ValueError(must_be(name, f"a non-empty {rule} array", f"shape {array.shape}", hint))
            return array
    return check_array(value, name, ndim=ndim, hint=hint)


def flatten_states(states: Any) -> tuple[np.ndarray, IntArray]:
    """Return the states as rows (N + n, d) and the offsets (n+1,) of the trajectories in them."""
    if not is_ragged(states):
        array = check_states(states, "states", (2, 3), STATES_HINT)
        array = array[:, :, np.newaxis] if array.ndim == 2 else array
        n, length, d = array.shape
        _check_has_step(np.full(n, length))
        flat = own(array.reshape(n * length, d), states)
        return np.ascontiguousarray(flat), np.arange(n + 1) * length
    if len(states) == 0:
        raise ValueError(must_be("states", "non-empty", "a list of 0 trajectories", STATES_HINT))
    pieces = [as_columns(check_states(s, f"states[{i}]", (1, 2))) for i, s in enumerate(states)]
    d = pieces[0].shape[1]
    for i, piece in enumerate(pieces):
        if piece.shape[1] != d:
            rule = f"of one state dimension (states[0] has d = {d})"
            raise ValueError(must_be("states", rule, f"d = {piece.shape[1]} in states[{i}]"))
        if holds_names(piece) != holds_names(pieces[0]):
            rule = "numbers in all trajectories, or names in all"
            raise TypeError(must_be("states", rule, f"both, the second kind in states[{i}]"))
    lengths = np.array([len(piece) for piece in pieces])
    _check_has_step(lengths)
    return np.concatenate(pieces), offsets_of(lengths)


def _check_has_step(lengths: IntArray) -> None:
    short = np.flatnonzero(lengths < 2)
    if len(short):
        i = int(short[0])
        got = f"{lengths[i]} in trajectory {i} ({len(short)} such)"
        raise ValueError(must_be("states", "at least 2 states per trajectory (one step)", got, "Drop it."))


def check_offsets(offsets: ArrayLike, n_states: int) -> IntArray:
    """Return the boundaries (n+1,) of trajectories among `n_states` states."""
    rule = f"increasing integers from 0 to the number of states ({n_states})"
    bounds = check_integers(offsets, "offsets", hint=f"They are {rule}.")
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != n_states:
        got = f"{bounds[0]} to {bounds[-1]}" if len(bounds) else "none"
        raise ValueError(must_be("offsets", rule, got))
    lengths = np.diff(bounds)
    if lengths.min() < 2:
        i = int(np.argmin(lengths))
        rule = "such that every trajectory has at least 2 states (one step)"
        raise ValueError(must_be("offsets", rule, f"{lengths[i]} in trajectory {i}", "Drop it."))
    return own(bounds, offsets)


def flatten_steps(value: Any, name: str, n_steps: IntArray, *, ndim: tuple[int, ...] = (1,)) -> np.ndarray:
    """Return per-step values as rows (N, ...); `ndim` lists the dimensions one trajectory may have.

    Integers stay integers and texts texts (actions are often labels); everything else becomes float64.
    """
    if not is_ragged(value):
        return own(_flatten_regular_steps(value, name, n_steps, ndim), value)
    if len(value) != len(n_steps):
        rule = f"a list of {len(n_steps)} arrays, one per trajectory"
        raise ValueError(must_be(name, rule, f"a list of {len(value)}"))
    arrays = [_check_values(piece, f"{name}[{i}]", ndim) for i, piece in enumerate(value)]
    for i, (array, expected) in enumerate(zip(arrays, n_steps, strict=True)):
        if len(array) != expected:
            rule = f"of length L = {expected}, one less than the {expected + 1} states of that trajectory"
            raise ValueError(must_be(f"{name}[{i}]", rule, f"length {len(array)}"))
        if array.shape[1:] != arrays[0].shape[1:]:
            rule = f"of one shape per step ({name}[0] has {arrays[0].shape[1:]})"
            raise ValueError(must_be(name, rule, f"{array.shape[1:]} in {name}[{i}]"))
    return np.concatenate(arrays)


def check_steps(value: Any, name: str, n_steps: int, ndim: tuple[int, ...] = (1,)) -> np.ndarray:
    """Return per-step values that are flat already, (N, ...), checked in the same way."""
    array = own(_check_values(value, name, ndim), value)
    if len(array) != n_steps:
        raise ValueError(must_be(name, f"one per step, {n_steps} in all", len(array)))
    return array


def _flatten_regular_steps(value: Any, name: str, n_steps: IntArray, ndim: Sequence[int]) -> np.ndarray:
    n, length = len(n_steps), int(n_steps[0])
    if np.any(n_steps != length):
        rule = f"a list of {n} arrays, because the trajectories differ in length"
        raise ValueError(must_be(name, rule, f"shape {np.shape(value)}"))
    shape = np.shape(value)
    if len(shape) - 1 not in ndim or shape[:2] != (n, length):
        rule = f"of shape (n, L) = ({n}, {length}) to match `states` with (n, L+1) = ({n}, {length + 1})"
        raise ValueError(must_be(name, rule, f"shape {shape}"))
    clean = _check_values(value, name, tuple(d + 1 for d in ndim))
    return clean.reshape(n * length, *clean.shape[2:])


def _check_values(value: Any, name: str, ndim: tuple[int, ...]) -> np.ndarray:
    if not np.ma.is_masked(value):
        array = as_array(value, name)
        if array.ndim in ndim and array.size and array.dtype.kind in "biu":
            return array
    return check_states(value, name, ndim)


# Trajectories that live on a device: states and steps that stay there, flat, in double precision.
#
# Whatever is not plainly right here (a shape, a number that is not finite, a library without double
# precision) is left to the host, which has a sentence for it.


def device_of(states: Any, given: dict[str, Any]) -> tuple[dict[str, Any], IntArray | None]:
    """Return what of a record stays where it lives, by name, and the trajectories' offsets if any does."""
    found = states_on_device(states)
    if found is None:
        return {}, None
    flat, offsets = found
    steps = {
        name: steps_on_device(given[name], name, np.diff(offsets) - 1) for name in ("rewards", "actions")
    }
    return {"states": flat} | {name: value for name, value in steps.items() if value is not None}, offsets


def states_on_device(states: Any) -> tuple[Any, IntArray] | None:
    """Return states as rows (N + n, d) where they live, and offsets (n+1,); None for the host to see to."""
    if not is_ragged(states):
        if not computes_like_numpy(states) or states.ndim not in (2, 3) or states.shape[1] < 2:
            return None
        n, length = states.shape[:2]
        flat = _usual(array_namespace(states).reshape(states, (n * length, *states.shape[2:])))
        return None if flat is None else (as_columns(flat), np.arange(n + 1) * length)
    pieces = list(states)
    if not pieces or not all(computes_like_numpy(piece) and piece.ndim in (1, 2) for piece in pieces):
        return None
    pieces = [as_columns(piece) for piece in pieces]
    lengths = np.array([piece.shape[0] for piece in pieces])
    if lengths.min() < 2 or len({piece.shape[1] for piece in pieces}) > 1:
        return None
    flat = _usual(array_namespace(*pieces).concat(pieces))
    return None if flat is None else (flat, offsets_of(lengths))


def steps_on_device(value: Any, name: str, n_steps: IntArray) -> Any:
    """Return per-step values as rows (N, ...) where they live; None for the host to see to."""
    deepest = 2 if name == "actions" else 1
    if is_ragged(value):
        pieces = list(value)
        alike = [computes_like_numpy(piece) and 1 <= piece.ndim <= deepest for piece in pieces]
        if len(pieces) != len(n_steps) or not all(alike):
            return None
        fits = all(piece.shape[0] == steps for piece, steps in zip(pieces, n_steps, strict=True))
        if not fits or len({tuple(piece.shape[1:]) for piece in pieces}) > 1:
            return None
        return _usual(array_namespace(*pieces).concat(pieces), integers=name == "actions")
    if not computes_like_numpy(value) or not 2 <= value.ndim <= deepest + 1:
        return None
    n, length = len(n_steps), int(n_steps[0])
    if (n_steps != length).any() or tuple(value.shape[:2]) != (n, length):
        return None
    flat = array_namespace(value).reshape(value, (n * length, *value.shape[2:]))
    return _usual(flat, integers=name == "actions")


def _usual(array: Any, *, integers: bool = False) -> Any:
    """Return a copy in double precision (or of integers, as they are); None where something is unusual."""
    xp = array_namespace(array)
    if 0 in array.shape:
        return None
    if integers and xp.isdtype(array.dtype, ("integral", "bool")):
        return xp.astype(array, xp.int64, copy=True)
    found = in_double(array)
    if found is None or not bool(xp.all(xp.isfinite(found))):
        return None
    if not has_usual_magnitude(float(xp.max(xp.abs(found)))):
        return None
    return found.clone() if is_torch_array(found) else xp.asarray(found, copy=True)
