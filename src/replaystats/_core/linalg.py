"""Batched linear algebra with one behaviour on singular input: a mask, never an exception for the stack."""

from __future__ import annotations

import numpy as np

from .typing import BoolArray, FloatArray


def solve_stack(A: FloatArray, b: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Solve A[i] x[i] = b[i] for a stack of matrices.

    Parameters
    ----------
    A : ndarray of shape (m, q, q)
    b : ndarray of shape (m, q, r)

    Returns
    -------
    x : ndarray of shape (m, q, r)
        NaN where the solve failed.
    failed : ndarray of bool, shape (m,)
        Exactly singular, or not finite.
    """
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


def _finite(stack: FloatArray) -> BoolArray:
    return np.asarray(np.isfinite(stack).all(axis=(1, 2)))
