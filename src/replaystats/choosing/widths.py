"""Widths of a Gaussian kernel, one per feature, learnt on a few hundred rows by marginal likelihood.

Under the Gaussian process y ~ N(0, s^2 (K + alpha I)) with K the kernel matrix, the scale s has a closed
form, and what is left to minimise over log gamma_1, ..., log gamma_p and log alpha is

    (m / 2) log(y^T C^-1 y) + (1 / 2) log det C,        C = K + alpha I.

With G = (C^-1 - a a^T m / y^T a) o K, a = C^-1 y, the derivative in log gamma_j is
-gamma_j sum_il G_il (x_ij - x_lj)^2 / 2, which two products give for all features together. So one evaluation
costs one Cholesky factorisation and one inverse, whatever p.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import check_array, check_int, check_length
from ..kernel.kernels import Kernel

# Half a second at most; more rows sharpen the widths less than they cost (docs/kernel_ridge.md).
DEFAULT_ROWS = 500
MAX_ITERATIONS = 40
# Columns have unit scale, so a width beyond these makes a column irrelevant, or every point a stranger.
_LOG_GAMMA_BOUNDS = (-14.0, 7.0)
_LOG_ALPHA_BOUNDS = (-16.0, 7.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bandwidths:
    """Learnt parameters of kernel ridge regression with a Gaussian kernel.

    Attributes
    ----------
    gamma : ndarray of shape (p,)
        One per feature; nearly zero for a feature that does not matter.
    alpha : float
        Penalty of one fit on all rows: the noise variance over the variance of the function. It does not
        depend on the number of rows.
    n_rows : int
        Rows it was learnt on.
    n_evaluations : int
        Of the marginal likelihood.
    """

    gamma: FloatArray
    alpha: float
    n_rows: int
    n_evaluations: int

    def __repr__(self) -> str:
        widths = ", ".join(f"{value:.2g}" for value in self.gamma)
        return f"Bandwidths(gamma=[{widths}], alpha={self.alpha:.2g}, from {self.n_rows} rows)"


def learn_bandwidths(
    points: ArrayLike, y: ArrayLike, *, n_rows: int = DEFAULT_ROWS, rng: RandomLike = None
) -> Bandwidths:
    """Learn a width per feature, and the penalty, on a random part of the data.

    Parameters
    ----------
    points : array-like of shape (n, p)
        In units in which every column has a scale of about one.
    y : array-like of shape (n,) or (n, n_outputs)
        Centred, where the model has an intercept. Outputs share the widths, and each has a scale of its own.
    n_rows : int
        Rows to learn from; O(n_rows^3) operations an evaluation.
    rng : None, int, Generator, RandomState or SeedSequence

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(300, 2))  # the second column does not matter
    >>> learnt = learn_bandwidths(X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=300), rng=0)
    >>> bool(learnt.gamma[0] > 100 * learnt.gamma[1])
    True
    """
    X, y = check_array(points, "points", ndim=2), check_array(y, "y", ndim=(1, 2))
    check_length(len(y), len(X), "y", "points")
    n, p = X.shape
    rows = as_generator(rng).permutation(n)[: check_int(n_rows, "n_rows", low=2)]
    X, y = X[rows], y.reshape(n, -1)[rows]
    y = y[:, np.square(y).sum(axis=0) > 0]  # an output that is zero says nothing about widths
    if y.shape[1] == 0:
        return Bandwidths(gamma=np.full(p, 1.0 / p), alpha=1.0, n_rows=len(X), n_evaluations=0)
    start = np.append(np.full(p, np.log(0.5 / p)), np.log(0.1))
    found = minimize(
        negative_log_likelihood,
        start,
        args=(X, y),
        jac=True,
        method="L-BFGS-B",
        bounds=[_LOG_GAMMA_BOUNDS] * p + [_LOG_ALPHA_BOUNDS],
        options={"maxiter": MAX_ITERATIONS},
    )
    return Bandwidths(
        gamma=np.exp(found.x[:-1]), alpha=float(np.exp(found.x[-1])), n_rows=len(X), n_evaluations=found.nfev
    )


def negative_log_likelihood(
    log_parameters: FloatArray, X: FloatArray, y: FloatArray
) -> tuple[float, FloatArray]:
    """Return minus the log marginal likelihood, less constants, and its gradient.

    Parameters
    ----------
    log_parameters : ndarray of shape (p + 1,)
        log gamma_1, ..., log gamma_p, log alpha.
    X : ndarray of shape (m, p)
    y : ndarray of shape (m, n_outputs)
        None of them all zero.
    """
    m, n_outputs = y.shape
    alpha = np.exp(log_parameters[-1])
    S = X * np.exp(log_parameters[:-1] / 2)
    K = Kernel("rbf")(S, S)
    C = K.copy()
    C.ravel()[:: m + 1] += alpha
    lower, info = dpotrf(C.T, lower=1, overwrite_a=1)
    if info != 0:  # a step too far towards alpha = 0: not better than anything
        return np.inf, np.zeros_like(log_parameters)
    log_det = 2 * np.log(np.diag(lower)).sum()
    inverse = _symmetric(dpotri(lower, lower=1)[0])
    a = inverse @ y  # (m, n_outputs)
    square = np.einsum("io,io->o", y, a)  # y^T C^-1 y, per output
    value = 0.5 * (m * np.log(square).sum() + n_outputs * log_det)
    G = n_outputs * inverse - (a * (m / square)) @ a.T
    by_alpha = 0.5 * alpha * np.trace(G)
    G *= K
    # sum_il G_il (s_ij - s_lj)^2 = 2 sum_i s_ij^2 G_i. - 2 s_j^T G s_j
    by_gamma = -np.einsum("ij,ij->j", S, S * G.sum(axis=1)[:, None] - G @ S)
    return float(value), np.append(by_gamma, by_alpha)


def _symmetric(lower: FloatArray) -> FloatArray:
    """Return the symmetric matrix whose lower triangle is given (the upper one may hold anything)."""
    lower = np.tril(lower)
    return lower + np.tril(lower, -1).T
