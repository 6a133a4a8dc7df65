"""Arrays of any kind: NumPy here, PyTorch, CuPy or JAX where the user's data live.

Large arrays (one row per observation) stay where they are and in the kind they came in; everything of the
size of the answer (q x q, B x q) is computed on the host. These few functions are the only bridge.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_cupy_array,
    is_jax_array,
    is_torch_array,
)

from .errors import must_be


def is_foreign(array: Any) -> bool:
    """Whether `array` is an array of another library than NumPy."""
    return is_array_api_obj(array) and not isinstance(array, (np.ndarray, np.generic))


def to_numpy(array: Any) -> np.ndarray:
    """Bring any array to the host as a NumPy array; NumPy arrays pass as they are."""
    if is_torch_array(array):
        return np.asarray(array.detach().cpu().numpy())
    if is_cupy_array(array):
        return np.asarray(array.get())
    if is_foreign(array) and not is_jax_array(array):
        return np.asarray(np.from_dlpack(array))
    return np.asarray(array)


def as_array(value: Any, name: str) -> np.ndarray:
    """Bring numbers or arrays of any kind to the host; lists of different lengths make no array."""
    try:
        return to_numpy(value)
    except ValueError as error:
        raise ValueError(must_be(name, "a regular array", "lists of different lengths")) from error


def on_host(value: Any) -> Any:
    """Bring an array of another library to the host; frames, lists and NumPy pass as they are."""
    return to_numpy(value) if is_foreign(value) else value


def like(array: Any, reference: Any) -> Any:
    """Bring `array` to the kind, device and (for real numbers) precision of `reference`.

    Examples
    --------
    >>> like(np.ones(2), reference=np.zeros(3)).dtype
    dtype('float64')
    """
    if not is_foreign(reference):
        return to_numpy(array)
    xp = array_namespace(reference)
    real = np.issubdtype(np.asarray(array).dtype, np.floating) if isinstance(array, np.ndarray) else False
    dtype = reference.dtype if real and xp.isdtype(reference.dtype, "real floating") else None
    return xp.asarray(array, dtype=dtype, device=device(reference))


def check_finite(array: Any, name: str) -> Any:
    """Raise unless every entry of `array`, of any kind, is finite; return it."""
    xp = array_namespace(array)
    if not bool(xp.all(xp.isfinite(array))):
        hint = "Remove or impute those entries first."
        raise ValueError(must_be(name, "finite", "NaN or infinite values", hint))
    return array


def take_rows(values: Any, rows: Any) -> Any:
    """Return some rows (indices or a slice) of an array, a sparse matrix, a list or a data frame."""
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return values[rows] if hasattr(values, "shape") else np.asarray(values)[rows]
