"""The objectives of `widths` on a device: blocks of rows are stacked, and one call factors all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from .._core.arrays import like, to_numpy
from .._core.device_linalg import add_to_diagonal, cholesky, solve_factored
from .._core.typing import FloatArray, IntArray
from ..kernel.device_home import half_square_kernel

# Blocks whose lengths differ by less than this share make one stack, cut to the shortest.
_ALIKE = 0.05

Average = Callable[[FloatArray], tuple[float, FloatArray]]


def average_on_device(
    X: FloatArray, y: FloatArray, blocks: list[IntArray], reference: Any, *, likelihood: bool
) -> Average:
    """Return the average over blocks of an objective of `widths`, and its slope, as a function.

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
            found = _inverse(log_parameters, points)
            if found is None:
                return np.inf, slope * 0.0
            values, by_matrix = objective(found[1:], targets)
            value += float(to_numpy(values).sum())
            slope += _slope(log_parameters, found[0], found[1], by_matrix)
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


def _inverse(log_parameters: FloatArray, X: Any) -> tuple[Any, Any, Any, Any] | None:
    """Return scaled points, K, C^-1 and log det C of stacks; None a step too far towards alpha = 0."""
    xp = array_namespace(X)
    S = X * like(np.exp(log_parameters[:-1] / 2), X)
    K = half_square_kernel(S * 2**0.5, S * 2**0.5)
    lower, failed = cholesky(add_to_diagonal(K + 0.0, float(np.exp(log_parameters[-1]))))
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


def _slope(log_parameters: FloatArray, S: Any, K: Any, G: Any) -> FloatArray:
    """Return the derivatives in log gamma and log alpha, summed over the stack, on the host."""
    xp = array_namespace(S)
    by_alpha = np.exp(log_parameters[-1]) * float(to_numpy(xp.sum(xp.linalg.diagonal(G))))
    G = G * K
    by_gamma = -2 * xp.sum(S * (S * xp.sum(G, axis=-1)[..., None] - G @ S), axis=(0, 1))
    return np.append(to_numpy(by_gamma), by_alpha)
