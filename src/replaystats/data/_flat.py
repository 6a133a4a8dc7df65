"""From the shapes people have (3-D arrays, lists of episodes) to flat arrays plus offsets.

Everything here checks before it stacks, so that a mismatch names the trajectory it is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.arrays import to_numpy
from .._core.errors import must_be
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import check_array, check_real

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


def flatten_states(states: Any) -> tuple[FloatArray, IntArray]:
    """Return the states as rows (N + n, d) and the offsets (n+1,) of the trajectories in them."""
    if not is_ragged(states):
        array = check_array(states, "states", ndim=(2, 3), hint=STATES_HINT)
        array = array[:, :, np.newaxis] if array.ndim == 2 else array
        n, length, d = array.shape
        _check_has_step(np.full(n, length))
        return np.ascontiguousarray(array.reshape(n * length, d)), np.arange(n + 1) * length
    if len(states) == 0:
        raise ValueError(must_be("states", "non-empty", "a list of 0 trajectories", STATES_HINT))
    pieces = [_as_columns(check_array(s, f"states[{i}]", ndim=(1, 2))) for i, s in enumerate(states)]
    d = pieces[0].shape[1]
    for i, piece in enumerate(pieces):
        if piece.shape[1] != d:
            rule = f"of one state dimension (states[0] has d = {d})"
            raise ValueError(must_be("states", rule, f"d = {piece.shape[1]} in states[{i}]"))
    lengths = np.array([len(piece) for piece in pieces])
    _check_has_step(lengths)
    return np.concatenate(pieces), offsets_of(lengths)


def flatten_steps(value: Any, name: str, n_steps: IntArray, *, ndim: tuple[int, ...] = (1,)) -> np.ndarray:
    """Return per-step values as rows (N, ...); `ndim` lists the dimensions one trajectory may have.

    Integers stay integers (actions are often labels); everything else becomes float64.
    """
    if not is_ragged(value):
        return _flatten_regular_steps(value, name, n_steps, ndim)
    if len(value) != len(n_steps):
        rule = f"a list of {len(n_steps)} arrays, one per trajectory"
        raise ValueError(must_be(name, rule, f"a list of {len(value)}"))
    arrays = [_check_numbers(piece, f"{name}[{i}]", ndim) for i, piece in enumerate(value)]
    for i, (array, expected) in enumerate(zip(arrays, n_steps, strict=True)):
        if len(array) != expected:
            rule = f"of length L = {expected}, one less than the {expected + 1} states of that trajectory"
            raise ValueError(must_be(f"{name}[{i}]", rule, f"length {len(array)}"))
        if array.shape[1:] != arrays[0].shape[1:]:
            rule = f"of one shape per step ({name}[0] has {arrays[0].shape[1:]})"
            raise ValueError(must_be(name, rule, f"{array.shape[1:]} in {name}[{i}]"))
    return np.concatenate(arrays)


def flatten_dt(dt: Any, n_steps: IntArray) -> float | FloatArray | None:
    """Return `dt` as None, one positive float, or one positive number per step (N,)."""
    if dt is None:
        return None
    if not is_ragged(dt) and np.ndim(dt) == 0:
        number = dt.item() if isinstance(dt, np.ndarray) else dt
        return check_real(number, "dt", low=0.0, closed="neither")
    steps = np.asarray(flatten_steps(dt, "dt", n_steps), dtype=np.float64)
    if steps.min() <= 0.0:
        raise ValueError(must_be("dt", "positive on every step", f"{steps.min():g} as the smallest"))
    return steps


def check_flags(flags: ArrayLike | None, name: str, n: int) -> BoolArray:
    """Return one bool per trajectory (n,); None means all False."""
    if flags is None:
        return np.zeros(n, dtype=np.bool_)
    array = np.asarray(flags)
    hint = "Flags are per trajectory: of per-step flags pass the last one of each."
    if array.dtype != np.bool_:
        raise TypeError(must_be(name, f"{n} booleans, one per trajectory", f"dtype {array.dtype}", hint))
    if array.shape != (n,):
        raise ValueError(must_be(name, f"of shape (n,) = ({n},)", f"shape {array.shape}", hint))
    return array


def _as_columns(array: FloatArray) -> FloatArray:
    return array[:, np.newaxis] if array.ndim == 1 else array


def _check_has_step(lengths: IntArray) -> None:
    short = np.flatnonzero(lengths < 2)
    if len(short):
        i = int(short[0])
        got = f"{lengths[i]} in trajectory {i} ({len(short)} such)"
        raise ValueError(must_be("states", "at least 2 states per trajectory (one step)", got, "Drop it."))


def _flatten_regular_steps(value: Any, name: str, n_steps: IntArray, ndim: Sequence[int]) -> np.ndarray:
    n, length = len(n_steps), int(n_steps[0])
    if np.any(n_steps != length):
        rule = f"a list of {n} arrays, because the trajectories differ in length"
        raise ValueError(must_be(name, rule, f"shape {np.shape(value)}"))
    array = to_numpy(value)
    if array.ndim - 1 not in ndim or array.shape[:2] != (n, length):
        rule = f"of shape (n, L) = ({n}, {length}) to match `states` with (n, L+1) = ({n}, {length + 1})"
        raise ValueError(must_be(name, rule, f"shape {array.shape}"))
    clean = _check_numbers(array, name, tuple(d + 1 for d in ndim))
    return clean.reshape(n * length, *clean.shape[2:])


def _check_numbers(value: Any, name: str, ndim: tuple[int, ...]) -> np.ndarray:
    array: np.ndarray = to_numpy(value)
    if array.ndim in ndim and array.size and np.issubdtype(array.dtype, np.integer):
        return array
    return check_array(value, name, ndim=ndim)
