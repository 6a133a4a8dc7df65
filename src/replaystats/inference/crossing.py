"""Do subsets cross singularity? Where they do, the mean of the replicates has no usable variance.

With R the inverse of the expected subset matrix, the matrices I + R (A_b - E A_b) scatter around I.
An eigenvalue with real part <= 0 means that between the data and subset b the matrix has been singular: the
replicates then lie on both sides of a pole.
"""

from __future__ import annotations

import math

import numpy as np

from .._core.linalg import cholesky_stack
from .._core.typing import BoolArray, FloatArray
from ..engine import Replicates
from ..engine.linear import Linearisation
from ..plans import ResamplingPlan


def crossed(replicates: Replicates, linear: Linearisation) -> BoolArray:
    """Return which subsets crossed singularity, shape (B,).

    Parameters
    ----------
    replicates : Replicates
    linear : Linearisation
        Of the replicates' moments at share k / n.

    Notes
    -----
    A positive definite symmetric part is enough for eigenvalues in the right half plane and costs a
    Cholesky factorisation; eigenvalues are computed for the rest only.
    """
    relative = _relative_matrices(replicates, linear)
    _, unclear = cholesky_stack(relative + relative.swapaxes(1, 2))
    crossing = np.zeros(len(relative), dtype=bool)
    crossing[unclear] = _smallest_real_parts(relative[unclear]) <= 0
    return crossing


def smallest_eigenvalues(
    replicates: Replicates, linear: Linearisation, *, first: int | None = None
) -> FloatArray:
    """Return min Re eig(I + R (A_b - E A_b)) of the `first` subsets (default all): 1 is safe, 0 singular."""
    return _smallest_real_parts(_relative_matrices(replicates, linear, first))


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


def _relative_matrices(replicates: Replicates, linear: Linearisation, first: int | None = None) -> FloatArray:
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
    deviation = replicates.sums.A[:first] - linear.share * A_all
    # Two products of a (B q, q) with a (q, q) matrix instead of 2 B tiny ones.
    half = deviation @ right
    moved = (half.swapaxes(1, 2) @ left.T).swapaxes(1, 2)
    relative: FloatArray = np.eye(len(A_all)) + moved
    return relative
