"""Penalties for regression, chosen by leave-one-out without refits.

With the smoother's eigenvectors Q and eigenvalues d, the fit at penalty a is Q diag(d / (d + a)) Q^T y. Its
residuals r and the diagonal 1 - h of what it leaves are two products for all penalties together, and

    leave-one-out residual of observation i = r_i / (1 - h_ii)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import pdist

from .._core.choice import Choice
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_length
from ..kernel.kernels import Kernel

# Quarter decades, relative to the largest eigenvalue.
_RELATIVE_PENALTIES = 10.0 ** (np.arange(-40, 5) / 4)
_GAMMA_FACTORS = 4.0 ** np.arange(-3, 4)
# Third decades, relative to the largest eigenvalue.
_MOMENT_PENALTIES = 10.0 ** (np.arange(-36, 4) / 3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PenaltyCurve:
    """Estimated prediction error along a path of penalties.

    Attributes
    ----------
    alphas : ndarray of shape (r,)
    errors : ndarray of shape (r,)
        Mean squared prediction error, averaged over outputs; infinite where an observation is interpolated.
    squared : ndarray of shape (n,)
        Squared error of every observation at the best penalty; `errors` holds such means.
    """

    alphas: FloatArray
    errors: FloatArray
    squared: FloatArray

    @property
    def best(self) -> float:
        """The penalty with the smallest error."""
        return float(self.alphas[np.argmin(self.errors)])

    @property
    def choice(self) -> Choice:
        """The best penalty, and why."""
        reason = f"smallest leave-one-out error ({self.errors.min():.3g}) of {len(self.alphas)} penalties"
        if self.best in (self.alphas.min(), self.alphas.max()):
            reason += "; it is the end of the path, so a wider one may be better"
        return Choice(self.best, reason)

    def __repr__(self) -> str:
        return f"PenaltyCurve({len(self.alphas)} penalties, best {self.best:.3g} by leave-one-out)"


def kernel_penalties(K: ArrayLike, y: ArrayLike, alphas: ArrayLike | None = None) -> PenaltyCurve:
    """Judge penalties alpha of kernel ridge regression, ``(K + alpha I) c = y``.

    Parameters
    ----------
    K : array-like of shape (n, n)
        Symmetric positive semi-definite kernel matrix.
    y : array-like of shape (n,) or (n, n_outputs)
        Centred, where the model has an intercept.
    alphas : array-like of shape (r,), optional
        Positive penalties; default quarter decades around the eigenvalues.

    Notes
    -----
    One eigendecomposition, O(n^3), then O(n^2 r).
    """
    K, y = _check_rows(K, y, "K")
    if K.shape[0] != K.shape[1]:
        raise ValueError(must_be("K", "square", f"shape {K.shape}"))
    d, Q = eigh(K)
    d = np.maximum(d, 0.0)
    if alphas is None:
        alphas = _RELATIVE_PENALTIES * max(float(d.max()), np.finfo(np.float64).tiny)
    grid = check_array(alphas, "alphas", ndim=1)
    if grid.min() <= 0:
        raise ValueError(must_be("alphas", "positive", f"{grid.min():g}"))
    kept = grid[:, None] / (d + grid[:, None])  # (r, n): the share of each direction that stays unexplained
    residuals = Q @ (kept[:, :, None] * (Q.T @ y))  # (r, n, n_outputs)
    free = kept @ (Q**2).T  # (r, n): 1 - h_ii
    with np.errstate(divide="ignore", invalid="ignore"):
        left_out = residuals / free[:, :, None]
    squared = np.mean(left_out**2, axis=2)  # (r, n)
    errors = np.nan_to_num(squared.mean(axis=1), nan=np.inf, posinf=np.inf)
    return PenaltyCurve(alphas=grid, errors=errors, squared=squared[np.argmin(errors)])


def choose_width(points: ArrayLike, y: ArrayLike, kernel: Kernel) -> Choice:
    """Choose the width `gamma` of a kernel by leave-one-out, each of seven with its best penalty.

    Parameters
    ----------
    points : array-like of shape (n, p)
        In the units that the kernel shall see.
    y : array-like of shape (n,) or (n, n_outputs)
        Centred, where the model has an intercept.
    kernel : Kernel
        Its own gamma is not looked at.

    Examples
    --------
    >>> from replaystats.kernel.kernels import make_kernel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> gamma = choose_width(X, np.sin(20 * X[:, 0]), make_kernel("rbf", n_features=1))
    >>> gamma.value > 10  # the default 1 / n_features would be far too smooth
    True
    """
    points, y = _check_rows(points, y, "points")
    grid = _GAMMA_FACTORS / _median_squared_distance(points)
    curves = [kernel_penalties(replace(kernel, gamma=float(one))(points, points), y) for one in grid]
    best = int(np.argmin([curve.errors.min() for curve in curves]))
    reason = f"smallest leave-one-out error of {len(grid)} widths around one over the median squared distance"
    return Choice(float(grid[best]), f"{reason}, on {len(points)} rows")


def _check_rows(X: ArrayLike, y: ArrayLike, name: str) -> tuple[FloatArray, FloatArray]:
    X, y = check_array(X, name, ndim=2), check_array(y, "y", ndim=(1, 2))
    check_length(len(y), len(X), "y", name)
    return X, y.reshape(len(y), -1)


def _median_squared_distance(points: FloatArray) -> float:
    """Return the median over pairs of different points; 1 where all are the same."""
    squared = pdist(points, "sqeuclidean")
    apart = squared[squared > 0]
    return float(np.median(apart)) if apart.size else 1.0


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
    alphas = _MOMENT_PENALTIES * max(float(d[-1]), float(np.finfo(np.float64).tiny))
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
