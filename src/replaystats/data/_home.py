"""Trajectories that live on a device: states and steps that stay there, flat, in double precision.

Whatever is not plainly right here (a shape, a number that is not finite, a library without double precision)
is left to the host, which has a sentence for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array

from .._core.arrays import computes_like_numpy, in_double
from .._core.typing import IntArray
from .._core.validation import has_usual_magnitude
from ._flat import is_ragged, offsets_of


def home_of(states: Any, given: dict[str, Any]) -> tuple[dict[str, Any], IntArray | None]:
    """Return what of a record stays where it lives, by name, and the trajectories' offsets if any does."""
    found = states_at_home(states)
    if found is None:
        return {}, None
    flat, offsets = found
    steps = {name: steps_at_home(given[name], name, np.diff(offsets) - 1) for name in ("rewards", "actions")}
    return {"states": flat} | {name: value for name, value in steps.items() if value is not None}, offsets


def states_at_home(states: Any) -> tuple[Any, IntArray] | None:
    """Return states as rows (N + n, d) where they live, and offsets (n+1,); None for the host to see to."""
    if not is_ragged(states):
        if not computes_like_numpy(states) or states.ndim not in (2, 3) or states.shape[1] < 2:
            return None
        n, length = states.shape[:2]
        flat = _usual(array_namespace(states).reshape(states, (n * length, *states.shape[2:])))
        return None if flat is None else (_columns(flat), np.arange(n + 1) * length)
    pieces = list(states)
    if not pieces or not all(computes_like_numpy(piece) and piece.ndim in (1, 2) for piece in pieces):
        return None
    pieces = [_columns(piece) for piece in pieces]
    lengths = np.array([piece.shape[0] for piece in pieces])
    if lengths.min() < 2 or len({piece.shape[1] for piece in pieces}) > 1:
        return None
    flat = _usual(array_namespace(*pieces).concat(pieces))
    return None if flat is None else (flat, offsets_of(lengths))


def steps_at_home(value: Any, name: str, n_steps: IntArray) -> Any:
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


def _columns(rows: Any) -> Any:
    return rows[:, None] if rows.ndim == 1 else rows


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
