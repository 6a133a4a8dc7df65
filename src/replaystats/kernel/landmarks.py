"""Landmarks that stand for all rows: the pivots of a Cholesky factorisation of the kernel matrix.

The factorisation takes, at every step, the row that the landmarks so far describe worst, and knows how badly.
When no row's error exceeds t, the Nystroem kernel differs from the kernel by at most n t in any direction, so
landmarks with n t well below the penalty give the same fit as all n rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg.lapack import dpstrf

from .._core.arrays import like, to_numpy
from .._core.linalg import solve_lower
from .._core.random import as_generator
from .._core.typing import FloatArray, IntArray, RandomLike
from .device_leaves import on_device
from .kernels import Kernel
from .problem import DeviceData

# Rows that may become landmarks: they also tell whether the landmarks are enough.
DEFAULT_CANDIDATES = 1000
# Blocks in which pivots are drawn.
_BLOCKS = 10
# A drawn row counts as a repetition when others of its block leave less than this share of the largest.
_REPEATED = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Landmarks:
    """Rows that describe the others.

    Attributes
    ----------
    rows : ndarray of int, shape (m,)
        Best first.
    complete : bool
        Whether they describe every candidate to within the tolerance.
    n_candidates : int
    tolerance : float
    """

    rows: IntArray
    complete: bool
    n_candidates: int
    tolerance: float

    def suffice(self, n_rows: int) -> bool:
        """Whether they describe the candidates, and are few enough among all rows to save work."""
        return self.complete and 4 * len(self.rows) <= n_rows

    def __repr__(self) -> str:
        enough = "enough" if self.complete else "not enough"
        return f"Landmarks({len(self.rows)} of {self.n_candidates} candidates, {enough})"


def choose_landmarks(
    points: FloatArray,
    kernel: Kernel,
    *,
    tolerance: float,
    max_landmarks: int,
    n_candidates: int = DEFAULT_CANDIDATES,
    random_state: RandomLike = None,
) -> Landmarks:
    """Choose landmarks among random candidates by a pivoted Cholesky factorisation.

    Parameters
    ----------
    points : ndarray of shape (n, p)
    kernel : Kernel
        Of points, with values of at most about one on the diagonal.
    tolerance : float
        Largest error k(x, x) - k_m(x, x) that a row may be left with.
    max_landmarks : int
        Stop there; `complete` is then False.
    n_candidates : int
        Rows to choose from, O(n_candidates m^2) operations.
    random_state : None, int, Generator, RandomState or SeedSequence

    Examples
    --------
    >>> points = np.linspace(0, 1, 500)[:, None]
    >>> choose_landmarks(points, Kernel("rbf"), tolerance=1e-6, max_landmarks=50, random_state=0)
    Landmarks(6 of 500 candidates, enough)
    """
    candidates = as_generator(random_state).permutation(len(points))[:n_candidates]
    sample = points[candidates]
    # Below rounding no pivot means anything.
    tolerance = max(tolerance, len(sample) * float(np.finfo(np.float64).eps))
    _, pivots, rank, _ = dpstrf(kernel(sample, sample).T, tol=tolerance, lower=1, overwrite_a=1)
    chosen = candidates[pivots[: min(rank, max_landmarks)] - 1]
    return Landmarks(
        rows=chosen, complete=rank <= max_landmarks, n_candidates=len(candidates), tolerance=tolerance
    )


# Landmarks for more rows than an exact fit can hold: randomly pivoted Cholesky on the device.
#
# Pivots are drawn with probabilities in proportion to what the landmarks so far leave of k(x, x), a block
# at a time, and rows of a block that repeat each other are dropped: near-best low-rank approximation for
# O(n q^2) operations, without looking at the n x n matrix (Chen, Epperly, Tropp and Webber 2025).


def random_landmarks(
    device: DeviceData, *, tolerance: float, max_landmarks: int, rng: np.random.Generator
) -> Landmarks:
    """Choose landmarks among all rows by randomly pivoted Cholesky.

    Parameters
    ----------
    device : DeviceData
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
    >>> problem = KernelProblem.checked(X, X[:, 0], 1.0, Kernel("rbf"), None, None)
    >>> device, rng = DeviceData.of(problem, X), np.random.default_rng(0)
    >>> found = random_landmarks(device, tolerance=1e-4, max_landmarks=50, rng=rng)
    >>> found.complete, 3 <= len(found.rows) <= 20
    (True, True)
    """
    xp, n = array_namespace(device.points), len(device.problem.y)
    left, factor = np.ones(n), None
    chosen: IntArray = np.empty(0, dtype=np.intp)
    while len(chosen) < max_landmarks and left.max() > tolerance:
        size = min(max(1, max_landmarks // _BLOCKS), max_landmarks - len(chosen), int(np.count_nonzero(left)))
        drawn = rng.choice(n, size=size, replace=False, p=left / left.sum())
        columns = _left_of(device, factor, drawn)  # (n, b)
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


def _left_of(device: DeviceData, factor: Any, rows: IntArray) -> Any:
    """Return the columns `rows` of what the landmarks so far leave of the kernel matrix, (n, b)."""
    xp, index = array_namespace(device.points), on_device(device.points, rows)
    columns = device.kernel(device.points, xp.take(device.points, index, axis=0))
    if factor is None:
        return columns
    return columns - factor @ xp.matrix_transpose(xp.take(factor, index, axis=0))


def _distinct(block: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return which rows of a block add something, and the Cholesky factor of their matrix."""
    block = np.asarray(block, dtype=np.float64)
    tolerance = _REPEATED * float(np.diag(block).max())
    lower, pivots, rank, _ = dpstrf(block, tol=tolerance, lower=1)
    return np.asarray(pivots[:rank] - 1, dtype=np.intp), np.tril(lower[:rank, :rank])
