"""Cholesky factors, triangular systems and order statistics where arrays live, whatever their library.

The array API has no triangular solve and no selection, and its Cholesky factorisation raises for one bad
matrix of a stack; each library has its own words for these. Matrices may be overwritten: on a device the
largest of them decides what fits.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_cupy_array, is_jax_array, is_torch_array

from .arrays import to_numpy
from .typing import BoolArray


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


def exponential(array: Any) -> Any:
    """Return exp of an array, in place where the library can."""
    if is_torch_array(array):
        return array.exp_()
    if is_cupy_array(array) or isinstance(array, np.ndarray):
        return array_namespace(array).exp(array, out=array)
    return array_namespace(array).exp(array)


def add_to_diagonal(matrices: Any, number: float) -> Any:
    """Return matrices (b, k, k) plus `number` times the identity, in place where the library can."""
    if is_jax_array(matrices):
        places = np.arange(matrices.shape[-1])
        return matrices.at[:, places, places].add(number)
    flat = array_namespace(matrices).reshape(matrices, (matrices.shape[0], -1))
    flat[:, :: matrices.shape[-1] + 1] += number
    return array_namespace(matrices).reshape(flat, matrices.shape)


def cholesky(matrices: Any) -> tuple[Any, BoolArray]:
    """Factor symmetric matrices (b, k, k), which are destroyed where the library can.

    Returns
    -------
    lower : array of shape (b, k, k)
        Numbers without meaning for a matrix that is not positive definite.
    failed : ndarray of bool, shape (b,)
        Which those are; on the host.
    """
    if is_torch_array(matrices):
        import torch

        transposed = matrices.mT  # in LAPACK's order, so that the factor may take the matrix's place
        info = torch.empty(matrices.shape[0], dtype=torch.int32, device=matrices.device)
        lower, info = torch.linalg.cholesky_ex(transposed, out=(transposed, info))
        return lower, np.asarray(to_numpy(info) != 0)
    xp = array_namespace(matrices)
    if is_jax_array(matrices) or is_cupy_array(matrices):
        lower = xp.linalg.cholesky(matrices)  # NaN where it fails
        return lower, ~to_numpy(xp.all(xp.isfinite(lower), axis=(-2, -1)))
    try:
        return xp.linalg.cholesky(matrices), np.zeros(matrices.shape[0], dtype=bool)
    except Exception:  # each library has an error of its own for one bad matrix of a stack
        if matrices.shape[0] == 1:
            return matrices, np.ones(1, dtype=bool)
        parts = [cholesky(matrices[i : i + 1, ...]) for i in range(matrices.shape[0])]
        return xp.concat([lower for lower, _ in parts]), np.concatenate([bad for _, bad in parts])


def solve_lower(lower: Any, right: Any, *, transposed: bool = False) -> Any:
    """Solve L x = right, or L^T x = right, for stacks (b, k, k) and (b, k, r)."""
    if is_torch_array(lower):
        import torch

        if transposed:
            return torch.linalg.solve_triangular(lower.mT, right, upper=True)
        return torch.linalg.solve_triangular(lower, right, upper=False)
    xp, options = array_namespace(lower), {"lower": True, "trans": 1 if transposed else 0}
    if is_jax_array(lower):
        return import_module("jax.scipy.linalg").solve_triangular(lower, right, **options)
    if is_cupy_array(lower) or isinstance(lower, np.ndarray):
        library = import_module("cupyx.scipy.linalg" if is_cupy_array(lower) else "scipy.linalg")
        pairs = zip(lower, right, strict=True)
        return xp.stack([library.solve_triangular(one, two, **options) for one, two in pairs])
    kept = xp.tril(lower)
    return xp.linalg.solve(xp.matrix_transpose(kept) if transposed else kept, right)


def solve_factored(lower: Any, right: Any) -> Any:
    """Solve L L^T x = right for stacks (b, k, k) and (b, k, r)."""
    return solve_lower(lower, solve_lower(lower, right), transposed=True)


def inverse_diagonal(lower: Any) -> Any:
    """Return the diagonals of (L L^T)^-1, shape (b, k): squared lengths of the columns of L^-1.

    O(k^3 / 3) per matrix, some columns at a time: column j of L^-1 starts at row j. Where the corner that
    starts there cannot be copied beside a matrix that fills the device, whole columns are solved, O(k^3).
    """
    xp, (b, k) = array_namespace(lower), lower.shape[:2]
    step, free = k if k <= 2048 else 2048, free_memory(lower)
    copied = free is None or 1.2 * b * k * k * item_size(lower) < free
    found = []
    for first in range(0, k, step):
        size, start = min(step, k - first), first if copied else 0
        head = xp.eye(k - start, size, k=start - first, dtype=lower.dtype, device=device(lower))
        right = xp.broadcast_to(head, (b, k - start, size))
        columns = solve_lower(lower[:, start:, start:] if start else lower, right)
        found.append(xp.sum(columns * columns, axis=1))
    return xp.concat(found, axis=1)


def kth_smallest(values: Any, place: int) -> Any:
    """Return the entry at `place` (from 0) in the order of every row of values (t, r), shape (t,)."""
    if is_torch_array(values):
        return values.kthvalue(place + 1, dim=1).values
    xp = array_namespace(values)
    if is_cupy_array(values) or isinstance(values, np.ndarray):
        return xp.partition(values, place, axis=1)[:, place]
    return xp.sort(values, axis=1)[:, place]
