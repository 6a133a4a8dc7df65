"""How well widths and a penalty explain y: marginal likelihood and leave-one-out error, with slopes.

Both objectives f depend on C = K + alpha I alone, so with G = df / dC the derivative in log gamma_j is
-gamma_j sum_il (G o K)_il (x_ij - x_lj)^2, which two products give for all features together. On a device,
blocks of rows are stacked, and one call factors all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from scipy.linalg.lapack import dpotrf, dpotri

from .._core.arrays import like, to_numpy
from .._core.linalg import add_to_diagonal, cholesky, solve_factored
from .._core.typing import FloatArray, IntArray
from .kernels import Kernel, profile, profile_slope
from .problem import squared_distances

# Blocks whose lengths differ by less than this share make one stack, cut to the shortest.
_ALIKE = 0.05

Average = Callable[[FloatArray], tuple[float, FloatArray]]


def of_varying(
    objective: Callable[[FloatArray, FloatArray, FloatArray], tuple[float, FloatArray]],
    X: FloatArray,
    y: FloatArray,
) -> Average:
    """Return an objective of log parameters that looks only at columns that vary: others add nothing."""
    vary = np.append((X[:1] != X).any(axis=0), True)
    if vary.all():
        return lambda log_parameters: objective(log_parameters, X, y)
    Z = X[:, vary[:-1]]

    def of_all(log_parameters: FloatArray) -> tuple[float, FloatArray]:
        slope = np.zeros_like(log_parameters)
        value, slope[vary] = objective(log_parameters[vary], Z, y)
        return value, slope

    return of_all


def negative_log_likelihood(
    log_parameters: FloatArray, X: FloatArray, y: FloatArray, kernel: str = "rbf"
) -> tuple[float, FloatArray]:
    """Return minus the log marginal likelihood, less constants, and its gradient.

    Parameters
    ----------
    log_parameters : ndarray of shape (p + 1,)
        log gamma_1, ..., log gamma_p, log alpha.
    X : ndarray of shape (m, p)
    y : ndarray of shape (m, n_outputs)
        None of them all zero.
    kernel : {"rbf", "matern12", "matern32", "matern52"}
    """
    m, n_outputs = y.shape
    found = _inverse(log_parameters, X, kernel)
    if found is None:
        return np.inf, np.zeros_like(log_parameters)
    S, K, inverse, log_det = found
    a = inverse @ y  # (m, n_outputs)
    square = float(np.einsum("io,io->", y, a))  # y^T C^-1 y, over outputs
    value = 0.5 * n_outputs * (m * np.log(square) + log_det)
    inverse -= ((m / square) * a) @ a.T  # twice df / dC, for one output
    return float(value), 0.5 * n_outputs * _slope(log_parameters, S, K, inverse)


def leave_one_out_error(
    log_parameters: FloatArray, X: FloatArray, y: FloatArray, kernel: str = "rbf"
) -> tuple[float, FloatArray]:
    """Return (m / 2) log of the sum of squared leave-one-out residuals, and its gradient.

    With c = C^-1 y and d the diagonal of C^-1 the residuals are c / d.

    Parameters
    ----------
    log_parameters, X, y, kernel
        As in `negative_log_likelihood`.
    """
    m = len(y)
    found = _inverse(log_parameters, X, kernel)
    if found is None:
        return np.inf, np.zeros_like(log_parameters)
    S, K, inverse, _ = found
    c, d = inverse @ y, np.diag(inverse)[:, None]
    residuals = c / d
    square = float((residuals**2).sum())
    by_c = m * residuals / square / d
    by_d = (by_c * residuals).sum(axis=1)  # minus the derivative, so that it has a root
    half = inverse * np.sqrt(by_d)[:, None]
    G = half.T @ half
    G -= c @ (inverse @ by_c).T
    return 0.5 * m * float(np.log(square)), _slope(log_parameters, S, K, G)


def _inverse(
    log_parameters: FloatArray, X: FloatArray, kernel: str
) -> tuple[FloatArray, FloatArray, FloatArray, float] | None:
    """Return scaled points, slopes of K, C^-1 and log det C; None a step too far towards alpha = 0."""
    S = X * np.exp(log_parameters[:-1] / 2)
    if kernel == "rbf":
        K = Kernel("rbf")(S, S)
        C = K.copy()
    else:
        square = np.maximum(squared_distances(S * 2**0.5, S * 2**0.5), 0.0)
        C, K = profile(kernel, square), profile_slope(kernel, square)
    C.ravel()[:: len(C) + 1] += np.exp(log_parameters[-1])
    lower, info = dpotrf(C.T, lower=1, overwrite_a=1)
    if info != 0:
        return None
    log_det = 2 * float(np.log(np.diag(lower)).sum())
    return S, K, _mirrored(dpotri(lower, lower=1, overwrite_c=1)[0]), log_det


def _slope(log_parameters: FloatArray, S: FloatArray, K: FloatArray, G: FloatArray) -> FloatArray:
    """Return the derivatives in log gamma and log alpha from G = df / dC, destroying G.

    G need not be symmetric: it only ever meets symmetric matrices.
    """
    by_alpha = np.exp(log_parameters[-1]) * np.trace(G)
    G *= K
    # sum_il G_il (s_ij - s_lj)^2 = sum_i s_ij^2 (G_i. + G_.i) - 2 s_j^T G s_j
    both = 0.5 * (G.sum(axis=0) + G.sum(axis=1))
    by_gamma = -2 * np.einsum("ij,ij->j", S, S * both[:, None] - G @ S)
    return np.append(by_gamma, by_alpha)


def _mirrored(lower: FloatArray, step: int = 64) -> FloatArray:
    """Write the lower triangle over the upper one (which may hold anything), in blocks for the cache."""
    above = np.triu(np.ones((step, step), dtype=bool), 1)
    for first in range(0, len(lower), step):
        here, right = slice(first, first + step), slice(first + step, None)
        block = lower[here, here]
        np.copyto(block, block.T.copy(), where=above[: len(block), : len(block)])
        lower[here, right] = lower[right, here].T
    return lower


def average_on_device(
    X: FloatArray,
    y: FloatArray,
    blocks: list[IntArray],
    reference: Any,
    *,
    likelihood: bool,
    kernel: str = "rbf",
) -> Average:
    """Return the average over blocks of an objective, and its slope, as a function.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    y : ndarray of shape (n, n_outputs)
    blocks : list of ndarray of int
        Rows of every block. Blocks of nearly the same length lose a row or two, so that they stack.
    reference : array
        Where to compute, and in which precision.
    likelihood : bool
        The negative log marginal likelihood, else the leave-one-out error.
    kernel : {"rbf", "matern12", "matern32", "matern52"}

    Returns
    -------
    callable
        Takes log gamma_1, ..., log gamma_p, log alpha; returns a number and p + 1 slopes, on the host.
    """
    stacks = [(like(X[rows], reference), like(y[rows], reference)) for rows in _alike(blocks)]
    objective = _likelihood if likelihood else _leave_one_out

    def average(log_parameters: FloatArray) -> tuple[float, FloatArray]:
        value, slope = 0.0, np.zeros_like(log_parameters)
        for points, targets in stacks:
            found = _inverse_on_device(log_parameters, points, kernel)
            if found is None:
                return np.inf, slope * 0.0
            values, by_matrix = objective(found[1:], targets)
            value += float(to_numpy(values).sum())
            slope += _slope_on_device(log_parameters, found[0], found[1], by_matrix)
        n_blocks = sum(points.shape[0] for points, _ in stacks)
        return value / n_blocks, slope / n_blocks

    return average


def _alike(blocks: list[IntArray]) -> list[IntArray]:
    """Return stacks (b, k) of blocks of nearly the same length, cut to the shortest of them."""
    groups: list[list[IntArray]] = []
    for rows in sorted(blocks, key=len):
        if groups and len(rows) <= (1 + _ALIKE) * len(groups[-1][0]):
            groups[-1].append(rows)
        else:
            groups.append([rows])
    return [np.stack([rows[: len(group[0])] for rows in group]) for group in groups]


def _inverse_on_device(log_parameters: FloatArray, X: Any, kernel: str) -> tuple[Any, Any, Any, Any] | None:
    """Return scaled points, slopes of K, C^-1 and log det C of stacks; None where alpha is too near 0."""
    xp = array_namespace(X)
    S = X * like(np.exp(log_parameters[:-1] / 2), X)
    square = squared_distances(S * 2**0.5, S * 2**0.5)
    K, values = profile_slope(kernel, square), profile(kernel, square)
    lower, failed = cholesky(add_to_diagonal(values, float(np.exp(log_parameters[-1]))))
    if failed.any():
        return None
    b, k = K.shape[:2]
    eye = xp.broadcast_to(xp.eye(k, dtype=X.dtype, device=device(X)), (b, k, k))
    log_det = 2 * xp.sum(xp.log(xp.linalg.diagonal(lower)), axis=-1)
    return S, K, solve_factored(lower, eye), log_det


def _likelihood(found: tuple[Any, Any, Any], y: Any) -> tuple[Any, Any]:
    """Return minus the log marginal likelihoods (b,) and their derivatives in C (b, k, k)."""
    (_, inverse, log_det), (m, n_outputs) = found, y.shape[1:]
    xp = array_namespace(y)
    a = inverse @ y
    square = xp.sum(y * a, axis=(-2, -1))
    value = 0.5 * n_outputs * (m * xp.log(square) + log_det)
    share = (m / square)[:, None, None]
    return value, 0.5 * n_outputs * (inverse - share * (a @ xp.matrix_transpose(a)))


def _leave_one_out(found: tuple[Any, Any, Any], y: Any) -> tuple[Any, Any]:
    """Return (k / 2) log of the sums of squared residuals (b,) and their derivatives in C (b, k, k)."""
    (_, inverse, _), m = found, y.shape[1]
    xp = array_namespace(y)
    c, d = inverse @ y, xp.linalg.diagonal(inverse)[..., None]
    residuals = c / d
    square = xp.sum(residuals * residuals, axis=(-2, -1))
    by_c = m * residuals / square[:, None, None] / d
    by_d = -xp.sum(by_c * residuals, axis=-1)
    M = c @ xp.matrix_transpose(inverse @ by_c)
    G = -(0.5 * (M + xp.matrix_transpose(M)) + (inverse * by_d[:, None, :]) @ inverse)
    return 0.5 * m * xp.log(square), G


def _slope_on_device(log_parameters: FloatArray, S: Any, K: Any, G: Any) -> FloatArray:
    """Return the derivatives in log gamma and log alpha, summed over the stack, on the host."""
    xp = array_namespace(S)
    by_alpha = np.exp(log_parameters[-1]) * float(to_numpy(xp.sum(xp.linalg.diagonal(G))))
    G = G * K
    by_gamma = -2 * xp.sum(S * (S * xp.sum(G, axis=-1)[..., None] - G @ S), axis=(0, 1))
    return np.append(to_numpy(by_gamma), by_alpha)
