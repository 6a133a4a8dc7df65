"""Do subsets cross singularity? Where they do, the mean of the replicates has no usable variance.

With R the inverse of the expected subset matrix, the matrices I + R (A_b - E A_b) scatter around I.
An eigenvalue with real part <= 0 means that between the data and subset b the matrix has been singular: the
replicates then lie on both sides of a pole.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs

from .._core.linalg import cholesky_stack
from .._core.typing import BoolArray, FloatArray
from ..engine import Replicates
from ..engine.linear import Linearisation
from ..plans import ResamplingPlan

# From this many unknowns on all eigenvalues cost more than anything else, and the smallest of a few subsets,
# which then differ little, are found by Arnoldi's method.
LARGE_BASIS, FEW_SUBSETS = 60, 8


def crossed(replicates: Replicates, linear: Linearisation) -> BoolArray:
    """Return which subsets crossed singularity, shape (B,).

    Parameters
    ----------
    replicates : Replicates
    linear : Linearisation
        Of the replicates' moments at share k / n.

    Notes
    -----
    Where the matrices of the data and of the subset both have a positive definite symmetric part, so has
    every matrix between them, and none is singular: a Cholesky factorisation tells. For the rest, the same
    test on I + R (A_b - E A_b), which leaves eigenvalues to be computed for few.
    """
    A = replicates.sums.A
    crossing = np.zeros(len(A), dtype=bool)
    unclear = np.ones(len(A), dtype=bool)
    A_all, _ = replicates.moments.total()
    if linear.truncated == 0 and not cholesky_stack((A_all + A_all.T)[None])[1][0]:
        unclear = cholesky_stack(A + A.swapaxes(1, 2))[1]
    if unclear.any():
        relative = _relative_matrices(replicates, linear, unclear)
        doubtful = cholesky_stack(relative + relative.swapaxes(1, 2))[1]
        left = np.flatnonzero(unclear)[doubtful]
        crossing[left] = _smallest_real_parts(relative[doubtful]) <= 0
    return crossing


def smallest_eigenvalues(
    replicates: Replicates, linear: Linearisation, *, first: int | None = None
) -> FloatArray:
    """Return min Re eig(I + R (A_b - E A_b)) of the `first` subsets (default all): 1 is safe, 0 singular."""
    n_basis, count = len(linear.inverse), len(replicates) if first is None else min(first, len(replicates))
    if first is not None and n_basis >= LARGE_BASIS:
        return _by_arnoldi(replicates, linear, min(count, FEW_SUBSETS))
    return _smallest_real_parts(_relative_matrices(replicates, linear, slice(count)))


def separation(eigenvalues: FloatArray, plan: ResamplingPlan) -> float:
    """Return how many standard errors the moment matrix of all data is away from a singular one.

    Subsets scatter more than samples of size n do, by sqrt((n - k) / k) or sqrt(n / k). With that taken off,
    the mean of the smallest eigenvalues over their standard deviation is the t statistic of "not singular";
    for one instrumental variable it is that of the first stage.

    Parameters
    ----------
    eigenvalues : ndarray of shape (m,)
        From `smallest_eigenvalues`.
    plan : ResamplingPlan
        Of the subsets.
    """
    rescaling = plan.design.rescaling
    scale = math.sqrt(rescaling) if math.isfinite(rescaling) else 0.0
    spread = scale * float(eigenvalues.std())
    return (1 - scale * (1 - float(eigenvalues.mean()))) / spread if spread > 0 else math.inf


def _smallest_real_parts(matrices: FloatArray) -> FloatArray:
    # A subset whose matrix is not finite has no safe distance to singularity.
    smallest = np.full(len(matrices), -np.inf)
    finite = np.isfinite(matrices).all(axis=(1, 2))
    if finite.any():
        smallest[finite] = np.linalg.eigvals(matrices[finite]).real.min(axis=1)
    return smallest


def _by_arnoldi(replicates: Replicates, linear: Linearisation, count: int) -> FloatArray:
    """Return the smallest real parts of I + R (A_b - E A_b) for the first subsets, to about two digits.

    q^2 operations per step instead of 25 q^3 for all eigenvalues.
    """
    A_all, _ = replicates.moments.total()
    q = len(A_all)
    start = np.random.default_rng(0).normal(size=q)
    smallest = np.empty(count)
    for b in range(count):
        deviation = replicates.sums.A[b] - linear.share * A_all

        def step(v: Any, D: FloatArray = deviation) -> Any:
            return v.ravel() + linear.inverse @ (D @ v.ravel())

        operator: Any = LinearOperator((q, q), matvec=step, dtype=np.dtype(np.float64))
        try:
            found = eigs(operator, k=1, which="SR", ncv=24, tol=0.02, v0=start, return_eigenvectors=False)
            smallest[b] = found[0].real
        except ArpackError:
            matrix = np.eye(q) + linear.inverse @ deviation
            smallest[b] = _smallest_real_parts(matrix[None])[0]
    return smallest


def _relative_matrices(
    replicates: Replicates, linear: Linearisation, which: slice | BoolArray = slice(None)
) -> FloatArray:
    """Return matrices similar to I + R (A_b - E A_b), as symmetric as the problem allows, (B, q, q).

    With S = L L^T the symmetric part of R^-1, the similar L^T (.) L^-T is exactly symmetric where the moments
    are, which makes the Cholesky test sharp.
    """
    A_all, _ = replicates.moments.total()
    left, right = linear.inverse, np.eye(len(A_all))
    if linear.truncated == 0 and linear.set_aside == 0:
        expected = np.linalg.inv(linear.inverse)
        lower, failed = cholesky_stack((expected + expected.T)[None])
        if not failed[0]:
            left, right = lower[0].T @ left, np.linalg.inv(lower[0]).T
    deviation = replicates.sums.A[which] - linear.share * A_all
    # Two products of a (B q, q) with a (q, q) matrix instead of 2 B tiny ones.
    half = deviation @ right
    moved = (half.swapaxes(1, 2) @ left.T).swapaxes(1, 2)
    relative: FloatArray = np.eye(len(A_all)) + moved
    return relative
