"""Penalties for regression, chosen by leave-one-out without refits.

With the smoother's eigenvectors Q and eigenvalues d, the fit at penalty a is Q diag(d / (d + a)) Q^T y. Its
residuals r and the diagonal 1 - h of what it leaves are two products for all penalties together, and

    leave-one-out residual of observation i = r_i / (1 - h_ii)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import pdist

from .._core.choice import Choice
from .._core.errors import must_be
from .._core.random import as_generator
from .._core.thresholds import LARGE_DENSE_SYSTEM
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import check_array, check_int, check_length
from ..kernel.kernels import KERNELS_WITH_GAMMA, Kernel

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
    values, vectors = eigh(K)
    return _curve(vectors, np.maximum(values, 0.0), y, alphas)


def choose_kernel(
    points: ArrayLike,
    y: ArrayLike,
    kernel: Kernel,
    *,
    gammas: ArrayLike | None = None,
    n_rows: int = LARGE_DENSE_SYSTEM,
    random_state: RandomLike = None,
) -> tuple[Choice, Choice]:
    """Choose the width `gamma` of a kernel and the penalty of one fit on all rows, together.

    Every width is judged with its best penalty. The smallest error of a noisy curve is often an accident, so
    of all widths that are at most one standard error worse than the best, the one nearest to the median
    heuristic (one over the median squared distance) is taken.

    Parameters
    ----------
    points : array-like of shape (n, p)
        In the units that the kernel shall see.
    y : array-like of shape (n,) or (n, n_outputs)
        Centred, where the model has an intercept.
    kernel : Kernel
        Its own gamma is not looked at unless it is the only one in `gammas`.
    gammas : array-like, optional
        Default: powers of 4 around one over the median squared distance.
    n_rows : int
        Of more rows than this a random part is used; the penalty is then scaled up by n / n_rows, which
        keeps it the same per observation.
    random_state : None, int, Generator, RandomState or SeedSequence

    Returns
    -------
    gamma, alpha : Choice

    Examples
    --------
    >>> from replaystats.kernel.kernels import make_kernel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> gamma, alpha = choose_kernel(X, np.sin(20 * X[:, 0]), make_kernel("rbf", n_features=1))
    >>> gamma.value > 10  # the default 1 / n_features would be far too smooth
    True
    """
    points, y = _check_rows(points, y, "points")
    if kernel.name not in KERNELS_WITH_GAMMA:
        rule = f"one of {', '.join(KERNELS_WITH_GAMMA)}, which have a gamma"
        raise ValueError(
            must_be("kernel", rule, repr(kernel.name), "Use kernel_penalties for the penalty alone.")
        )
    used = _some_rows(len(points), check_int(n_rows, "n_rows", low=2), random_state)
    sample, target = points[used], y[used]
    typical = 1 / _median_squared_distance(sample)
    grid = check_array(_GAMMA_FACTORS * typical if gammas is None else gammas, "gammas", ndim=1)
    curves = []
    for gamma in grid:
        K = replace(kernel, gamma=float(gamma))(sample, sample)
        curves.append(kernel_penalties(K, target))
    best = _nearest_of_the_good(curves, np.abs(np.log(grid / typical)))
    reason = (
        f"of {len(grid)} widths, each with its best penalty, the nearest to the median heuristic "
        f"({typical:.3g}) within one standard error of the smallest error"
    )
    chosen = curves[best].choice
    scale = len(points) / len(sample)
    where = "" if scale == 1 else f" on {len(sample)} of {len(points)} rows, scaled up by {scale:.3g}"
    return Choice(float(grid[best]), reason), Choice(chosen.value * scale, chosen.reason + where)


def _nearest_of_the_good(curves: list[PenaltyCurve], distance: FloatArray) -> int:
    """Return the position of the nearest curve that is at most one standard error worse than the best."""
    best = min(curves, key=lambda curve: float(curve.errors.min()))
    good = []
    for position, curve in enumerate(curves):
        excess = curve.squared - best.squared
        if excess.mean() <= excess.std() / math.sqrt(len(excess)):
            good.append(position)
    return min(good, key=lambda position: float(distance[position]))


def _curve(Q: FloatArray, d: FloatArray, y: FloatArray, alphas: ArrayLike | None) -> PenaltyCurve:
    """Judge penalties for a smoother with eigenvectors Q (n, m) and eigenvalues d (m,)."""
    if alphas is None:
        alphas = _RELATIVE_PENALTIES * max(float(d.max()), np.finfo(np.float64).tiny)
    grid = check_array(alphas, "alphas", ndim=1)
    if grid.min() <= 0:
        raise ValueError(must_be("alphas", "positive", f"{grid.min():g}"))
    kept = grid[:, None] / (d + grid[:, None])  # (r, m): the share of each direction that stays unexplained
    rotated = Q.T @ y  # (m, n_outputs)
    complete = Q.shape[0] == Q.shape[1]  # then nothing lies outside, not even by rounding
    outside = np.zeros_like(y) if complete else y - Q @ rotated
    beyond = np.zeros(len(Q)) if complete else np.maximum(1 - (Q**2).sum(axis=1), 0.0)
    residuals = outside + Q @ (kept[:, :, None] * rotated)  # (r, n, n_outputs)
    free = beyond + kept @ (Q**2).T  # (r, n): 1 - h_ii
    with np.errstate(divide="ignore", invalid="ignore"):
        left_out = residuals / free[:, :, None]
    squared = np.mean(left_out**2, axis=2)  # (r, n)
    errors = np.nan_to_num(squared.mean(axis=1), nan=np.inf, posinf=np.inf)
    return PenaltyCurve(alphas=grid, errors=errors, squared=squared[np.argmin(errors)])


def _check_rows(X: ArrayLike, y: ArrayLike, name: str) -> tuple[FloatArray, FloatArray]:
    X, y = check_array(X, name, ndim=2), check_array(y, "y", ndim=(1, 2))
    check_length(len(y), len(X), "y", name)
    return X, y.reshape(len(y), -1)


def _some_rows(n: int, n_rows: int, rng: RandomLike) -> np.ndarray:
    if n <= n_rows:
        return np.arange(n)
    return np.sort(as_generator(rng).choice(n, n_rows, replace=False))


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
