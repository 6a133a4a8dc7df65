"""Arrays of any kind: NumPy here, PyTorch, CuPy or JAX where the user's data live.

Large arrays (one row per observation, step or point) stay where they are and in the kind they came in;
everything of the size of the answer (q x q, B x q) is computed on the host. These few functions are the only
bridge; which libraries a public name takes is declared beside it (`takes_arrays_of`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

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


def computes_like_numpy(array: Any) -> bool:
    """Whether the array's library has what fits need beyond the array API: PyTorch, CuPy and JAX have."""
    return bool(is_torch_array(array) or is_cupy_array(array) or is_jax_array(array))


def frozen(array: Any) -> np.ndarray:
    """Return a read-only float copy, so that a frozen record cannot change through its arrays."""
    copy = np.array(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy


def to_numpy(array: Any) -> np.ndarray:
    """Bring any array to the host as a NumPy array; NumPy arrays pass as they are."""
    if is_torch_array(array):
        return np.asarray(array.detach().cpu().numpy())
    if is_cupy_array(array):
        return np.asarray(array.get())
    if is_foreign(array) and not is_jax_array(array):
        return np.asarray(np.from_dlpack(array))
    return np.asarray(decoded(array))


def decoded(column: Any) -> Any:
    """Return a column of Arrow without its dictionary: PyArrow fills missing entries of one with others."""
    kind: Any = getattr(column, "type", None)
    return column.cast(kind.value_type) if hasattr(kind, "index_type") else column


def check_unmasked(value: Any, name: str) -> None:
    """Raise where entries of an array are masked: later steps would take them for numbers."""
    if np.ma.is_masked(value):
        raise TypeError(must_be(name, "an array without masked entries", "some", "Fill or drop them first."))


def as_array(value: Any, name: str) -> np.ndarray:
    """Bring numbers or arrays of any kind to the host; lists of different lengths make no array."""
    check_unmasked(value, name)
    try:
        return to_numpy(value)
    except ValueError as error:
        raise ValueError(must_be(name, "a regular array", "lists of different lengths")) from error
    except Exception as error:  # objects have conversions of their own, and ranges more entries than memory
        raise TypeError(must_be(name, "an array", type(value).__name__)) from error


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
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        array = array.copy()  # PyTorch warns of what nobody may write to
    return xp.asarray(array, dtype=dtype, device=device(reference))


def in_double(array: Any) -> Any:
    """Return numbers in double precision where they live; None where their library has none there.

    Examples
    --------
    >>> in_double(np.arange(2)) is None  # here already
    True
    """
    if not computes_like_numpy(array):
        return None
    if is_jax_array(array) and not import_module("jax").config.jax_enable_x64:
        return None
    if is_torch_array(array) and array.device.type == "mps":
        return None
    xp = array_namespace(array)
    if not xp.isdtype(array.dtype, ("bool", "integral", "real floating")):
        return None
    return xp.astype(array.detach() if is_torch_array(array) else array, xp.float64, copy=False)


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
    if is_foreign(values) and isinstance(rows, np.ndarray):
        xp = array_namespace(values)
        places = xp.asarray(rows.reshape(-1), device=device(values))
        return xp.reshape(xp.take(values, places, axis=0), (*rows.shape, *values.shape[1:]))
    if isinstance(values, np.ndarray) and isinstance(rows, np.ndarray) and rows.dtype.kind in "iu":
        return np.take(values, rows, axis=0)  # in half the time of an index
    return values[rows] if hasattr(values, "shape") else np.asarray(values)[rows]


Declared = TypeVar("Declared", bound=Callable[..., Any])

# NumPy runs everything and is not listed. The first, second and last are tested on the CPU; PyTorch and CuPy
# on a CUDA device where there is one (pytest -m gpu).
LIBRARIES = ("torch", "jax", "cupy", "array_api_strict")


@dataclass(frozen=True, slots=True)
class Capability:
    """What a public name does with arrays of other libraries.

    Attributes
    ----------
    name : str
    libraries : tuple of str
    where : str
        Where the work is done.
    """

    name: str
    libraries: tuple[str, ...]
    where: str


CAPABILITIES: dict[str, Capability] = {}


def takes_arrays_of(*libraries: str, where: str) -> Callable[[Declared], Declared]:
    """Declare that a function or class takes arrays of `libraries`, and answers in their kind."""

    def declare(target: Declared) -> Declared:
        CAPABILITIES[target.__qualname__] = Capability(target.__qualname__, libraries, where)
        return target

    return declare


def is_accelerator(array: Any) -> bool:
    """Whether the array lives on a GPU or the like, where large dense systems are cheap.

    Examples
    --------
    >>> is_accelerator(np.zeros(2))
    False
    """
    if is_torch_array(array):
        return str(array.device.type) != "cpu"
    if is_jax_array(array):
        return str(next(iter(array.devices())).platform) != "cpu"
    return bool(is_cupy_array(array))


def item_size(array: Any) -> int:
    """Return the bytes of one number."""
    return int(array_namespace(array).finfo(array.dtype).bits) // 8


def free_memory(array: Any) -> int | None:
    """Return the bytes that are free on the accelerator of `array`; None where nobody says."""
    if is_torch_array(array) and array.device.type == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info(array.device)
        held = torch.cuda.memory_reserved(array.device) - torch.cuda.memory_allocated(array.device)
        return int(free + held)
    if is_cupy_array(array):
        return int(array.device.mem_info[0])
    return None
