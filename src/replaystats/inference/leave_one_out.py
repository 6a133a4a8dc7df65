"""Leave-one-out residuals of ridge regression from its one system: no row is fitted again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .._core.config import memory_budget, takes_memory_budget
from .._core.typing import FloatArray


@takes_memory_budget
def ridge_leave_one_out(
    features: Callable[[slice], FloatArray],
    y: FloatArray,
    A: FloatArray,
    alpha: float,
    *,
    sample_weight: FloatArray | None = None,
) -> FloatArray:
    """Return what every row misses when it is predicted by the fit on the others.

    The fit solves ``(A + alpha I) theta = b`` with A = Phi^T W Phi and b = Phi^T W y. With
    h_i = w_i phi_i^T (A + alpha I)^-1 phi_i, the residual of row i from the fit without it is
    ``(y_i - phi_i^T theta) / (1 - h_i)``, exactly.

    Parameters
    ----------
    features : callable
        Takes a slice of rows, returns their features (r, q).
    y : ndarray of shape (n, n_outputs)
        In the units of the fit (centred, where it is).
    A : ndarray of shape (q, q)
    alpha : float
    sample_weight : ndarray of shape (n,), optional

    Notes
    -----
    Two passes over the rows, O(n q^2). An intercept that was taken off y before is held fixed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
    >>> left_out = ridge_leave_one_out(lambda rows: X[rows], y, X.T @ X, 0.5)
    >>> theta = np.linalg.solve(X[1:].T @ X[1:] + 0.5 * np.eye(3), X[1:].T @ y[1:])
    >>> np.allclose(left_out[0], y[0] - X[0] @ theta)
    True
    """
    n, q = len(y), len(A)
    factor = cho_factor(A + alpha * np.eye(q), lower=True)
    weight = np.ones(n) if sample_weight is None else sample_weight
    step = max(1, memory_budget() // (64 * q))
    parts = [slice(first, min(first + step, n)) for first in range(0, n, step)]
    b = sum(features(rows).T @ (weight[rows, None] * y[rows]) for rows in parts)
    theta = cho_solve(factor, b)
    residuals = np.empty_like(y)
    for rows in parts:
        phi = features(rows)
        leverage = weight[rows] * np.einsum("rq,qr->r", phi, cho_solve(factor, phi.T))
        left = np.maximum(1.0 - leverage, np.finfo(np.float64).eps)[:, None]
        residuals[rows] = (y[rows] - phi @ theta) / left
    return residuals
