"""Batched linear algebra with one behaviour on singular input: a mask, never an exception for the stack."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array

from .arrays import is_foreign
from .typing import BoolArray, FloatArray

# Times q, as a share of the largest: singular values of sums below this are rounding noise.
ROUNDING = 8 * float(np.finfo(np.float64).eps)


def solve_stack(A: Any, b: Any) -> tuple[Any, Any]:
    """Solve A[i] x[i] = b[i] for a stack of matrices, where they live.

    Parameters
    ----------
    A : array of shape (m, q, q)
    b : array of shape (m, q, r)

    Returns
    -------
    x : array of shape (m, q, r)
        NaN where the solve failed.
    failed : array of bool, shape (m,)
        Exactly singular, or not finite.
    """
    if is_foreign(A):
        return _solve_on_device(A, b)
    failed = ~(_finite(A) & _finite(b))
    if not failed.any():
        try:
            return np.asarray(np.linalg.solve(A, b), dtype=np.float64), failed
        except np.linalg.LinAlgError:
            pass  # NumPy gives up on the whole stack for one singular matrix: find it below
    # The determinant has the factorisation of the solve, so its sign is 0 exactly where that would fail.
    good = np.flatnonzero(~failed)
    failed[good] = np.linalg.slogdet(A[good])[0] == 0
    x: FloatArray = np.full(b.shape, np.nan)
    x[~failed] = np.linalg.solve(A[~failed], b[~failed])
    return x, failed


def _solve_on_device(A: Any, b: Any) -> tuple[Any, Any]:
    """Do the same for arrays of another library, whose solve may refuse the whole stack for one matrix."""
    xp = array_namespace(A, b)
    finite = xp.all(xp.isfinite(A), axis=(1, 2)) & xp.all(xp.isfinite(b), axis=(1, 2))
    unit = xp.eye(A.shape[-1], dtype=A.dtype, device=device(A))
    safe = xp.where(finite[:, None, None], A, unit)
    nothing = xp.asarray(float("nan"), dtype=b.dtype, device=device(b))
    if is_torch_array(A):  # one factorisation, whose report names the bad matrices
        import torch

        x, info = torch.linalg.solve_ex(safe, b)
        failed = ~finite | (info != 0)
        return xp.where(failed[:, None, None], nothing, x), failed
    failed = ~finite | (xp.linalg.slogdet(safe)[0] == 0)
    x = xp.linalg.solve(xp.where(failed[:, None, None], unit, safe), b)
    return xp.where(failed[:, None, None], nothing, x), failed


def cholesky_stack(A: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Factor A[i] = L[i] L[i]^T for a stack; NaN and True where A[i] is not positive definite."""
    failed = ~_finite(A)
    if not failed.any():
        try:
            return np.asarray(np.linalg.cholesky(A), dtype=np.float64), failed
        except np.linalg.LinAlgError:
            pass
    lower: FloatArray = np.full(A.shape, np.nan)
    for i in np.flatnonzero(~failed):  # only stacks that hold a bad matrix come here
        try:
            lower[i] = np.linalg.cholesky(A[i])
        except np.linalg.LinAlgError:
            failed[i] = True
    return lower, failed


def condition_stack(A: FloatArray, failed: BoolArray) -> FloatArray:
    """Return the condition number in the 1-norm of every matrix; infinite where `failed`.

    From the explicit inverse: a few times cheaper than singular values for small matrices.
    """
    condition = np.full(A.shape[0], np.inf)
    good = ~failed
    inverse = np.linalg.inv(A[good])
    condition[good] = np.linalg.norm(A[good], 1, axis=(1, 2)) * np.linalg.norm(inverse, 1, axis=(1, 2))
    return condition


def equilibrate(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return powers of two r, c that bring the rows and columns of ``r[:, None] * A * c`` to size 1.

    Size is the largest entry, up to a factor of two. Powers of two change no digit, so what is scaled can be
    scaled back exactly. An empty row or column keeps the scale 1.

    Parameters
    ----------
    A : ndarray of shape (..., q, q)
        Finite.

    Returns
    -------
    r, c : ndarray of shape (..., q)

    Examples
    --------
    >>> r, c = equilibrate(np.array([[4.0, 2.0**30], [2.0**30, 2.0**60]]))
    >>> float((r[:, None] * np.array([[4.0, 2.0**30], [2.0**30, 2.0**60]]) * c).max())
    1.0
    """
    rows, columns = _unit_scales(A)
    return np.exp2(np.round(np.log2(rows))), np.exp2(np.round(np.log2(columns)))


def _unit_scales(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return scales of rows and columns, shape (..., q), that bring their largest entries to 1.

    The logarithms of the scales halve in every round (Ruiz 2001), so 20 rounds undo any units.
    """
    size = np.abs(A)
    rows, columns = np.ones((2, *A.shape[:-1]))
    for _ in range(20):
        r, c = _inverse_root(size.max(axis=-1)), _inverse_root(size.max(axis=-2))
        size *= r[..., :, None]
        size *= c[..., None, :]
        rows, columns = rows * r, columns * c
    return rows, columns


def scaled_condition(A: FloatArray) -> float:
    """Return the condition number (2-norm) of one matrix after its rows and columns are brought to size 1.

    Examples
    --------
    >>> round(scaled_condition(np.array([[1.0, 0.5e9], [0.5e9, 1e18]])), 1)
    3.0
    """
    s = scaled_singular_values(A)
    return float(s[0] / s[-1]) if s[-1] > 0 else float("inf")


def scaled_singular_values(A: FloatArray) -> FloatArray:
    """Return the singular values of one matrix after its rows and columns are brought to size 1."""
    r, c = _unit_scales(A)
    return np.asarray(np.linalg.svd(r[:, None] * A * c, compute_uv=False), dtype=np.float64)


def _inverse_root(size: FloatArray) -> FloatArray:
    return 1.0 / np.sqrt(np.where(size > 0, size, 1.0))


def _finite(stack: FloatArray) -> BoolArray:
    return np.asarray(np.isfinite(stack).all(axis=(1, 2)))
