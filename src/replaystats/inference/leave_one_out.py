"""Ridge regression without single rows, from its one system: no row is fitted again.

The fit solves (A + alpha I) theta = b with A = Phi^T W Phi and b = Phi^T W y. With L L^T = A + alpha I,
u = L^-1 phi and h_i = w_i |u_i|^2, exactly

    e_i = (y_i - phi_i^T theta) / (1 - h_i)             residual of row i from the fit without it
    h(x) - h_-i(x) = w_i e_i u(x)^T u_i                 change of the prediction at x when row i is left out
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from .._core.config import memory_budget
from .._core.typing import FloatArray, IntArray

Features = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class RidgeWithoutRows:
    """Leave-one-out residuals of a ridge regression, and what leaving rows out does elsewhere.

    Attributes
    ----------
    residuals : ndarray of shape (n, n_outputs)
    """

    residuals: FloatArray
    _features: Features
    _X: FloatArray
    _lower: FloatArray  # (q, q)
    _pull: FloatArray  # (n, n_outputs): w_i e_i
    _reach: FloatArray  # (n_outputs,): the largest |w_i e_i u_i|

    def at(self, X: FloatArray) -> RidgeChanges:
        """Return the changes at points (m, p)."""
        return RidgeChanges(self, _whitened(self._lower, self._features(X)))


@dataclass(frozen=True, slots=True, eq=False)
class RidgeChanges:
    """Changes of predictions at some points; see `inference.new_observation.Changes`."""

    _fit: RidgeWithoutRows
    _points: FloatArray  # (m, q)

    def reach(self, points: slice, output: int) -> FloatArray:
        """Bound |change| over all rows, by Cauchy-Schwarz, shape (t,)."""
        return np.asarray(np.linalg.norm(self._points[points], axis=1) * self._fit._reach[output])

    def values(self, points: slice, rows: IntArray, output: int) -> FloatArray:
        """Return prediction minus prediction without the row, shape (t, r)."""
        fit = self._fit
        u = _whitened(fit._lower, fit._features(fit._X[rows]))
        return np.asarray(self._points[points] @ (fit._pull[rows, output, None] * u).T)


def ridge_leave_one_out(
    features: Features,
    X: FloatArray,
    y: FloatArray,
    A: FloatArray,
    alpha: float,
    *,
    sample_weight: FloatArray | None = None,
) -> RidgeWithoutRows:
    """Leave every row out of a ridge regression.

    Parameters
    ----------
    features : callable
        Takes points (r, p), returns their features (r, q).
    X : ndarray of shape (n, p)
    y : ndarray of shape (n, n_outputs)
        In the units of the fit (centred, where it is).
    A : ndarray of shape (q, q)
        The (weighted) sum of phi phi^T.
    alpha : float
    sample_weight : ndarray of shape (n,), optional

    Notes
    -----
    Two passes over the rows, O(n q^2). An intercept that was taken off y before is held fixed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
    >>> without = ridge_leave_one_out(lambda X: X, X, y, X.T @ X, 0.5)
    >>> theta = np.linalg.solve(X[1:].T @ X[1:] + 0.5 * np.eye(3), X[1:].T @ y[1:])
    >>> np.allclose(without.residuals[0], y[0] - X[0] @ theta)
    True
    """
    n, q = len(y), len(A)
    lower = np.asarray(np.linalg.cholesky(A + alpha * np.eye(q)), dtype=np.float64)
    weight = np.ones((n, 1)) if sample_weight is None else sample_weight[:, None]
    step = max(1, memory_budget() // (64 * q))
    parts = [slice(first, min(first + step, n)) for first in range(0, n, step)]
    # In whitened features u the fit is u^T L^-1 b.
    b = np.sum([_whitened(lower, features(X[rows])).T @ (weight[rows] * y[rows]) for rows in parts], axis=0)
    residuals, length = np.empty_like(y), np.empty((n, 1))
    for rows in parts:
        u = _whitened(lower, features(X[rows]))
        square = np.einsum("rq,rq->r", u, u)[:, None]
        left = np.maximum(1.0 - weight[rows] * square, np.finfo(np.float64).eps)
        residuals[rows], length[rows] = (y[rows] - u @ b) / left, np.sqrt(square)
    pull = weight * residuals
    reach = np.abs(pull * length).max(axis=0)
    return RidgeWithoutRows(residuals, features, X, lower, pull, reach)


def _whitened(lower: FloatArray, phi: FloatArray) -> FloatArray:
    return np.asarray(solve_triangular(lower, phi.T, lower=True).T)
