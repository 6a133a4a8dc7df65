"""Landmarks that stand for all rows: the pivots of a Cholesky factorisation of the kernel matrix.

The factorisation takes, at every step, the row that the landmarks so far describe worst, and knows how badly.
When no row's error exceeds t, the Nystroem kernel differs from the kernel by at most n t in any direction, so
landmarks with n t well below the penalty give the same fit as all n rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpstrf

from .._core.random import as_generator
from .._core.thresholds import LARGE_DENSE_SYSTEM
from .._core.typing import FloatArray, IntArray, RandomLike
from .kernels import Kernel


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
    n_candidates: int = LARGE_DENSE_SYSTEM,
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
        Rows to choose from, which also tell whether the landmarks are enough, O(n_candidates m^2) operations.
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
