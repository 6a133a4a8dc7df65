"""What "auto" means on an accelerator, where dense systems are cheap.

Widths come from stacked blocks of rows, and of several fits one is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from .._core.arrays import like, to_numpy
from .._core.choice import Choice
from .._core.linalg import add_to_diagonal, cholesky, solve_factored
from .._core.typing import FloatArray, IntArray
from ..kernel.device_leaves import DeviceLeaves, fit_device_leaves
from ..kernel.local_influence import sampled_errors
from ..kernel.problem import DeviceHome, half_square_kernel

# Blocks whose lengths differ by less than this share make one stack, cut to the shortest.
_ALIKE = 0.05

Average = Callable[[FloatArray], tuple[float, FloatArray]]
# Rows at which candidates are compared: their errors are paired, which cancels most of the noise.
SAMPLED_ROWS = 2000
# The kernel matrix becomes its factor in place; right sides and the library's own workspace come on top.
EXACT_COPIES = 1.5
# Leaves and trees to compare with the exact fit: the same as on the host.
LEAVES = ((200, 8), (1000, 4))
# Landmarks where the exact fit does not fit: their matrix is solved on the host.
MAX_DEVICE_LANDMARKS = 1000


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


class DeviceChoice(NamedTuple):
    """The fit that was kept, its mean squared leave-one-out error at the sampled rows, and why."""

    model: DeviceLeaves
    error: float
    choice: Choice


def exact_fits(home: DeviceHome) -> bool:
    """Whether the kernel matrix of all rows fits into the memory that is free on the device."""
    n = len(home.problem.y)
    return EXACT_COPIES * n * n * home.item_size <= home.room


def sampled_rows(n: int, rng: np.random.Generator) -> IntArray:
    """Return rows to compare candidates at."""
    return np.sort(rng.permutation(n)[:SAMPLED_ROWS])


def choose_on_device(home: DeviceHome, rows: IntArray, *, seed: int) -> DeviceChoice:
    """Fit all rows at once, where they fit, and leaves of two sizes; keep the best by leave-one-out errors.

    Parameters
    ----------
    home : DeviceHome
        With the penalty that will be used.
    rows : ndarray of int
        From `sampled_rows`.
    seed : int
        Of the trees.

    Notes
    -----
    O(n^3) operations for the exact fit: half a second for n = 36,000 on one H200, in double precision.
    """
    n = len(home.problem.y)
    sizes = [(size, trees) for size, trees in LEAVES if size < n]
    if exact_fits(home):
        sizes.append((n, 1))
    best: DeviceChoice | None = None
    tried = []
    for size, trees in sizes:
        model = fit_device_leaves(home, leaf_size=size, n_trees=trees, seed=seed)
        error = float(np.mean(sampled_errors(model, rows) ** 2))
        tried.append(f"{error:.3g} ({'all rows' if size == n else f'leaves of {size}'})")
        if best is None or error < best.error:
            best = DeviceChoice(model, error, Choice((size, trees), ""))
    assert best is not None  # leaves of 200 rows always fit
    reason = f"smallest mean squared leave-one-out error at {len(rows)} rows: {', '.join(tried)}"
    return best._replace(choice=Choice(best.choice.value, reason))


def landmark_error(
    phi: FloatArray,
    y: FloatArray,
    weight: FloatArray | None,
    sums: tuple[FloatArray, FloatArray],
    alpha: float,
) -> float:
    """Return the mean squared leave-one-out error of a ridge regression on features at some rows.

    Parameters
    ----------
    phi : ndarray of shape (r, q)
        Features of the rows.
    y : ndarray of shape (r, n_outputs)
        In the units of the fit.
    weight : ndarray of shape (r,) or None
    sums : A (q, q) and b (q, n_outputs)
        Over all rows.
    alpha : float
    """
    A, b = sums
    inverse = np.linalg.inv(A + alpha * np.eye(len(A)))
    leverage = np.einsum("rq,rq->r", phi @ inverse, phi) * (1.0 if weight is None else weight)
    left = (y - phi @ (inverse @ b.reshape(len(A), -1))) / (1 - leverage)[:, None]
    return float(np.mean(left**2))
