"""Linear algebra, where arrays live, with one behaviour on singular input: a mask, no exception."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_cupy_array, is_jax_array, is_torch_array
from scipy.linalg import lapack
from threadpoolctl import ThreadpoolController

from .arrays import free_memory, is_foreign, item_size, to_numpy
from .thresholds import LARGE_DENSE_SYSTEM
from .typing import BoolArray, FloatArray

# Times q, as a share of the largest: singular values of sums below this are rounding noise.
ROUNDING = 8 * float(np.finfo(np.float64).eps)
# Cost: from this size on, matrices one after the other, in place, are faster than a stack of copies.
LARGE = 64


@cache
def _thread_pools() -> ThreadpoolController:
    """Return the thread pools of the libraries loaded by now; finding them takes some milliseconds."""
    return ThreadpoolController()


def one_thread(n_rows: int) -> Any:
    """Return a context in which the BLAS runs on one thread, where systems have up to 1000 rows.

    Threads gain little for small matrices, and on a busy machine they wait for each other: with two threads
    on two busy cores, factors and products of 60 rows took 100 times the processor time, those of 500 rows 75
    times.

    Examples
    --------
    >>> with one_thread(60):
    ...     np.linalg.inv(2 * np.eye(2)).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    return _thread_pools().limit(limits=1 if n_rows <= LARGE_DENSE_SYSTEM else None, user_api="blas")


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


def indefinite_stack(A: FloatArray) -> BoolArray:
    """Return where the symmetric part of A[i] is not positive definite, shape (m,).

    Examples
    --------
    >>> indefinite_stack(np.array([[[1.0, 5.0], [-5.0, 1.0]], [[1.0, 0.0], [0.0, -1.0]]]))
    array([False,  True])
    """
    if A.shape[-1] < LARGE:
        return cholesky_stack(A + A.swapaxes(1, 2))[1]
    # One after the other in the cache, and in place; LAPACK finds NaN not positive, but not infinity. Lower
    # factors take it two thirds of the time of upper ones.
    found = ((lapack.dpotrf((each + each.T).T, lower=1, overwrite_a=1, clean=0)[1] != 0) for each in A)
    return np.fromiter(found, np.bool_, len(A)) | ~_finite(A)


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
    rows, columns = _unit_scales(A, rounds=10)  # of 2^1000, a factor of two is left
    return np.exp2(np.round(rows)), np.exp2(np.round(columns))


def in_span(rows: FloatArray, *others: FloatArray) -> tuple[FloatArray, ...]:
    """Return points in coordinates of the span of `rows` (N, d), columns in units of their scatter.

    Linear functions of the rows, and distances between them, are what they were, in N columns for d.

    Examples
    --------
    >>> in_span(np.array([[1.0, 2.0, 2.0]]), np.array([[2.0, 4.0, 4.0]]))[1].shape
    (1, 1)
    """
    spread = rows.std(axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    basis = np.linalg.qr((rows / unit).T).Q
    return tuple(np.asarray((each / unit) @ basis) for each in (rows, *others))


def _unit_scales(A: FloatArray, rounds: int = 20) -> tuple[FloatArray, FloatArray]:
    """Return log2 of the scales of rows and columns, (..., q), that bring their largest entries to 1.

    The logarithms of the scales halve in every round (Ruiz 2001), so 20 rounds undo any units. Large matrices
    have them in single precision: it knows scales to 1e-4, and takes a quarter of the time.
    """
    kind = np.float32 if A.shape[-1] >= LARGE else np.float64
    with np.errstate(divide="ignore"):
        size: Any = np.log2(np.abs(A)).astype(kind)  # zeros stay out of every maximum, as minus infinity
    rows, columns = np.zeros((2, *A.shape[:-1]))
    empty = [np.isneginf(size.max(axis=axis)) for axis in (-1, -2)]
    for _ in range(rounds):  # every round halves what is left
        r, c = (size.max(axis=axis) / 2 for axis in (-1, -2))
        r[empty[0]], c[empty[1]] = 0.0, 0.0
        size -= r[..., :, None]
        size -= c[..., None, :]
        rows -= r
        columns -= c
    return rows, columns


def scaled_singular_values(A: FloatArray) -> FloatArray:
    """Return the singular values of one matrix after its rows and columns are brought to size 1."""
    r, c = np.exp2(_unit_scales(A))
    return np.asarray(np.linalg.svd(r[:, None] * A * c, compute_uv=False), dtype=np.float64)


def inverted_condition(A: FloatArray, inverse: FloatArray) -> float:
    """Return the condition number of a matrix scaled to size 1, from its inverse: at most 5 % low.

    Norms by the power method, O(q^2); a pseudo-inverse gives the condition of what it inverts.

    Examples
    --------
    >>> A = np.array([[1.0, 0.5e9], [0.5e9, 1e18]])
    >>> round(inverted_condition(A, np.linalg.inv(A)), 1)
    3.0
    """
    r, c = np.exp2(_unit_scales(A))
    return _spectral_norm(r[:, None] * A * c) * _spectral_norm(inverse / c[:, None] / r)


def _spectral_norm(A: FloatArray) -> float:
    """Return the largest singular value, by the power method: 16 rounds leave a few per cent."""
    x, norm = np.random.default_rng(0).normal(size=len(A)), 0.0
    for _ in range(16):
        y = A @ (x / np.linalg.norm(x))
        norm, x = float(np.linalg.norm(y)), A.T @ y
        if norm == 0.0:
            return norm
    return norm


def _finite(stack: FloatArray) -> BoolArray:
    return np.asarray(np.isfinite(stack).all(axis=(1, 2)))


# The array API has no triangular solve and no selection, and its Cholesky factorisation raises for one bad
# matrix of a stack; each library has its own words for these. Matrices may be overwritten: on a device the
# largest of them decides what fits.


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
        return xp.partition(values, place, axis=1)[:, place].copy()  # a view would keep all values
    return xp.sort(values, axis=1)[:, place]
