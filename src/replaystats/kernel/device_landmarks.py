"""Landmarks for more rows than an exact fit can hold: randomly pivoted Cholesky on the device.

Pivots are drawn with probabilities in proportion to what the landmarks so far leave of k(x, x), a block at a
time, and rows of a block that repeat each other are dropped: near-best low-rank approximation for O(n q^2)
operations, without looking at the n x n matrix (Chen, Epperly, Tropp and Webber 2025).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg.lapack import dpstrf

from .._core.arrays import like, to_numpy
from .._core.device_linalg import solve_lower
from .._core.typing import FloatArray, IntArray
from .device_home import DeviceHome, half_square_kernel
from .device_leaves import on_device
from .landmarks import Landmarks

# Blocks in which pivots are drawn.
_BLOCKS = 10
# A drawn row counts as a repetition when others of its block leave less than this share of the largest.
_REPEATED = 1e-3


def random_landmarks(
    home: DeviceHome, *, tolerance: float, max_landmarks: int, rng: np.random.Generator
) -> Landmarks:
    """Choose landmarks among all rows by randomly pivoted Cholesky.

    Parameters
    ----------
    home : DeviceHome
    tolerance : float
        Largest error k(x, x) - k_m(x, x) that a row may be left with.
    max_landmarks : int
        Stop there; `complete` is then False unless the tolerance is met.
    rng : Generator

    Examples
    --------
    >>> from replaystats.kernel.kernels import Kernel
    >>> from replaystats.kernel.problem import KernelProblem
    >>> X = np.linspace(0, 1, 500)[:, None]
    >>> problem = KernelProblem.checked(X, X[:, 0], None, 1.0, Kernel("rbf"), None, None)
    >>> home, rng = DeviceHome.of(problem, X), np.random.default_rng(0)
    >>> found = random_landmarks(home, tolerance=1e-4, max_landmarks=50, rng=rng)
    >>> found.complete, 3 <= len(found.rows) <= 20
    (True, True)
    """
    xp, n = array_namespace(home.points), len(home.problem.y)
    left, factor = np.ones(n), None
    chosen: IntArray = np.empty(0, dtype=np.intp)
    while len(chosen) < max_landmarks and left.max() > tolerance:
        size = min(max(1, max_landmarks // _BLOCKS), max_landmarks - len(chosen), int(np.count_nonzero(left)))
        drawn = rng.choice(n, size=size, replace=False, p=left / left.sum())
        columns = _left_of(home, factor, drawn)  # (n, b)
        kept, lower = _distinct(to_numpy(xp.take(columns, on_device(columns, drawn), axis=0)))
        columns = xp.take(columns, on_device(columns, kept), axis=1)
        new = xp.matrix_transpose(
            solve_lower(like(lower, columns)[None], xp.matrix_transpose(columns)[None])[0]
        )
        factor = new if factor is None else xp.concat([factor, new], axis=1)
        left = np.maximum(left - to_numpy(xp.sum(new * new, axis=1)), 0.0)
        chosen = np.concatenate([chosen, drawn[kept]])
        left[chosen] = 0.0
    complete = bool(left.max() <= tolerance)
    return Landmarks(rows=chosen, complete=complete, n_candidates=n, tolerance=tolerance)


def _left_of(home: DeviceHome, factor: Any, rows: IntArray) -> Any:
    """Return the columns `rows` of what the landmarks so far leave of the kernel matrix, (n, b)."""
    xp, index = array_namespace(home.points), on_device(home.points, rows)
    columns = half_square_kernel(home.points, xp.take(home.points, index, axis=0))
    if factor is None:
        return columns
    return columns - factor @ xp.matrix_transpose(xp.take(factor, index, axis=0))


def _distinct(block: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return which rows of a block add something, and the Cholesky factor of their matrix."""
    block = np.asarray(block, dtype=np.float64)
    tolerance = _REPEATED * float(np.diag(block).max())
    lower, pivots, rank, _ = dpstrf(block, tol=tolerance, lower=1)
    return np.asarray(pivots[:rank] - 1, dtype=np.intp), np.tril(lower[:rank, :rank])
