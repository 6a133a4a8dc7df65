"""How well widths and a penalty explain y: marginal likelihood and leave-one-out error, with slopes.

Both objectives f depend on C = K + alpha I alone, so with G = df / dC the derivative in log gamma_j is
-gamma_j sum_il (G o K)_il (x_ij - x_lj)^2, which two products give for all features together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from scipy.linalg.lapack import dpotrf, dpotri

from .._core.arrays import like, to_numpy
from .._core.linalg import add_to_diagonal, cholesky, solve_factored
from .._core.typing import FloatArray
from .kernels import profile, profile_slope
from .problem import device_kernel, squared_distances

Objective = Callable[[FloatArray], tuple[float, FloatArray]]


def objective(
    X: FloatArray, y: FloatArray, *, likelihood: bool, kernel: str = "rbf", reference: Any = None
) -> Objective:
    """Return minus the log marginal likelihood, less constants, or the leave-one-out error, as a function.

    The error is (m / 2) log of the sum of squared residuals c / d, with c = C^-1 y and d the diagonal of
    C^-1.

    Parameters
    ----------
    X : ndarray of shape (m, p)
    y : ndarray of shape (m, n_outputs)
        None of them all zero.
    likelihood : bool
    kernel : {"rbf", "matern12", "matern32", "matern52"}
    reference : array, optional
        Where to compute, and in which precision; default here.

    Returns
    -------
    callable
        Takes log gamma_1, ..., log gamma_p, log alpha; returns a number and p + 1 slopes, on the host.
    """
    points, targets = (X, y) if reference is None else (like(X, reference), like(y, reference))
    judge = _likelihood if likelihood else _leave_one_out

    def at(log_parameters: FloatArray) -> tuple[float, FloatArray]:
        S = points * like(np.exp(log_parameters[:-1] / 2), points)
        slopes, C = _matrices(kernel, S * 2**0.5)
        found = _inverse(add_to_diagonal(C[None], float(np.exp(log_parameters[-1])))[0])
        if found is None:  # a step too far towards alpha = 0
            return np.inf, np.zeros_like(log_parameters)
        value, by_matrix = judge(*found, targets)
        return value, _slope(log_parameters, S, slopes, by_matrix)

    return at


def _matrices(kernel: str, S: Any) -> tuple[Any, Any]:
    """Return the slopes of a kernel in squared distances, and its values."""
    if kernel == "rbf":
        K = device_kernel(kernel, S, S)
        return K, array_namespace(K).asarray(K, copy=True)
    square = squared_distances(S, S)
    return profile_slope(kernel, square), profile(kernel, square)


def _inverse(C: Any) -> tuple[Any, float] | None:
    """Return C^-1 and log det C, destroying C; None where it is not positive definite."""
    if isinstance(C, np.ndarray):
        lower, info = dpotrf(C.T, lower=1, overwrite_a=1)
        if info:
            return None
        log_det = 2 * float(np.log(np.diag(lower)).sum())
        return _mirrored(dpotri(lower, lower=1, overwrite_c=1)[0]), log_det
    stack, failed = cholesky(C[None])
    if failed.any():
        return None
    xp = array_namespace(C)
    eye = xp.eye(C.shape[0], dtype=C.dtype, device=device(C))
    log_det = 2 * float(xp.sum(xp.log(xp.linalg.diagonal(stack[0]))))
    return solve_factored(stack, eye[None])[0], log_det


def _likelihood(inverse: Any, log_det: float, y: Any) -> tuple[float, Any]:
    """Return minus the log marginal likelihood and its derivative in C."""
    m, n_outputs = y.shape
    a = inverse @ y
    square = float((y * a).sum())  # over outputs
    outer = (m / square * a) @ array_namespace(a).matrix_transpose(a)
    value = 0.5 * n_outputs * (m * np.log(square) + log_det)
    return float(value), 0.5 * n_outputs * (inverse - outer)


def _leave_one_out(inverse: Any, _: float, y: Any) -> tuple[float, Any]:
    """Return (m / 2) log of the sum of squared leave-one-out residuals and its derivative in C."""
    xp, m = array_namespace(y), len(y)
    c, d = inverse @ y, xp.linalg.diagonal(inverse)[:, None]
    residuals = c / d
    square = float((residuals * residuals).sum())
    by_c = m / square * residuals / d
    by_d = xp.sum(by_c * residuals, axis=1)  # minus the derivative, so that it has a root
    half = inverse * xp.sqrt(by_d)[:, None]
    G = xp.matrix_transpose(half) @ half
    return 0.5 * m * float(np.log(square)), G - c @ xp.matrix_transpose(inverse @ by_c)


def _slope(log_parameters: FloatArray, S: Any, K: Any, G: Any) -> FloatArray:
    """Return the derivatives in log gamma and log alpha from G = df / dC, which need not be symmetric."""
    xp = array_namespace(S)
    by_alpha = np.exp(log_parameters[-1]) * float(xp.sum(xp.linalg.diagonal(G)))
    G = G * K
    # sum_il G_il (s_ij - s_lj)^2 = sum_i s_ij^2 (G_i. + G_.i) - 2 s_j^T G s_j
    both = 0.5 * (xp.sum(G, axis=0) + xp.sum(G, axis=1))
    by_gamma = -2 * xp.sum(S * (S * both[:, None] - G @ S), axis=0)
    return np.append(to_numpy(by_gamma), by_alpha)


def _mirrored(lower: FloatArray, step: int = 64) -> FloatArray:
    """Write the lower triangle over the upper one (which may hold anything), in blocks for the cache."""
    above = np.triu(np.ones((step, step), dtype=bool), 1)
    for first in range(0, len(lower), step):
        here, right = slice(first, first + step), slice(first + step, None)
        block = lower[here, here]
        np.copyto(block, block.T.copy(), where=above[: len(block), : len(block)])
        lower[here, right] = lower[right, here].T
    return lower
