"""Generalised cross-validation of a ridge penalty from sums alone: no row is looked at again."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from .._core.choice import Choice
from .._core.typing import FloatArray

# Third decades, relative to the largest eigenvalue.
_RELATIVE_PENALTIES = 10.0 ** (np.arange(-36, 4) / 3)


def choose_moment_penalty(A: FloatArray, b: FloatArray, y_square: FloatArray, n_rows: int) -> Choice:
    """Choose the penalty of ``(A + alpha I) theta = b`` by generalised cross-validation.

    With eigenvalues d of A, a fit has sum d / (d + alpha) degrees of freedom and the residual sum of squares
    y^T y - 2 theta^T b + theta^T A theta.

    Parameters
    ----------
    A : ndarray of shape (q, q)
        Phi^T Phi.
    b : ndarray of shape (q, n_outputs)
        Phi^T y.
    y_square : ndarray of shape (n_outputs,)
        y^T y.
    n_rows : int
        Rows in the sums.

    Notes
    -----
    O(q^3) operations, for all penalties together.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 20))
    >>> y = X[:, :1] + rng.normal(size=(50, 1))
    >>> choice = choose_moment_penalty(X.T @ X, X.T @ y, (y**2).sum(axis=0), 50)
    >>> 5 < choice.value < 50
    True
    """
    d, Q = eigh(A)
    d = np.maximum(d, 0.0)
    alphas = _RELATIVE_PENALTIES * max(float(d[-1]), float(np.finfo(np.float64).tiny))
    weight = 1.0 / (d + alphas[:, None])  # (r, q)
    rotated = (Q.T @ b) ** 2  # (q, n_outputs)
    residual = y_square - (2 * weight) @ rotated + (d * weight**2) @ rotated  # (r, n_outputs)
    free = 1.0 - (d * weight).sum(axis=1) / n_rows  # (r,)
    errors = np.full(len(alphas), np.inf)
    known = free > 0
    errors[known] = np.maximum(residual[known], 0.0).mean(axis=1) / n_rows / free[known] ** 2
    best = int(np.argmin(errors))
    reason = f"smallest generalised cross-validation error ({errors[best]:.3g}) of {len(alphas)} penalties"
    return Choice(float(alphas[best]), reason)
