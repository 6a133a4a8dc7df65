"""Widths of a Gaussian kernel, one per feature, learnt on a few thousand rows in blocks.

First, under the Gaussian process y ~ N(0, s^2 (K + alpha I)), K the kernel matrix of some hundred rows, the
scale s has a closed form, and what is left to minimise over log gamma_1, ..., log gamma_p and log alpha is

    (m / 2) log(y^T C^-1 y) + (1 / 2) log det C,        C = K + alpha I.

That finds which features matter. Where there are more rows, the mean squared leave-one-out error is minimised
from there, over several blocks together: random ones, which see the whole function coarsely, and leaves of
neighbours, which see a part of it as densely as the data allow. Errors are what predictions are judged by,
and they trust the model less than the likelihood does; many blocks make the answer depend little on which
were drawn, at a cost that is linear in their number.

Both objectives f depend on C alone, so with G = df / dC the derivative in log gamma_j is
-gamma_j sum_il (G o K)_il (x_ij - x_lj)^2, which two products give for all features together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, IntArray, RandomLike
from .._core.validation import check_array, check_length
from ..kernel.kernels import Kernel
from ..kernel.partition_trees import PartitionTree
from .device_widths import Average, average_on_device

Objective = Callable[[FloatArray, FloatArray, FloatArray], tuple[float, FloatArray]]

# Rows of the likelihood: half a second at most.
LIKELIHOOD_ROWS = 500
# Blocks of the leave-one-out error: random ones and leaves, rows of each, and how many at most.
RANDOM_ROWS, LEAF_ROWS = 300, 200
RANDOM_BLOCKS, LEAF_BLOCKS = 4, 8
# With fewer rows than this, blocks would repeat what the likelihood has seen.
FEWEST_ROWS = 1200
# Steps of the likelihood where it stands alone, where errors follow, and of these.
ITERATIONS, FIRST_ITERATIONS, ERROR_ITERATIONS = 40, 20, 15
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
    rows : ndarray of int
        Rows it was learnt on.
    n_evaluations : int
        Of the likelihood or the error of one block.
    """

    gamma: FloatArray
    alpha: float
    rows: IntArray
    n_evaluations: int

    def __repr__(self) -> str:
        widths = ", ".join(f"{value:.2g}" for value in self.gamma)
        return f"Bandwidths(gamma=[{widths}], alpha={self.alpha:.2g}, from {len(self.rows)} rows)"


def learn_bandwidths(
    points: ArrayLike, y: ArrayLike, *, rng: RandomLike = None, home: Any = None
) -> Bandwidths:
    """Learn a width per feature, and the penalty, on random blocks and leaves of the data.

    Parameters
    ----------
    points : array-like of shape (n, p)
        In units in which every column has a scale of about one.
    y : array-like of shape (n,) or (n, n_outputs)
        Centred, where the model has an intercept. Outputs share the widths, and count alike after division
        by their standard deviations.
    rng : None, int, Generator, RandomState or SeedSequence
    home : array, optional
        An array on an accelerator: blocks are factored where it lives, in its precision.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(300, 2))  # the second column does not matter
    >>> learnt = learn_bandwidths(X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=300), rng=0)
    >>> bool(learnt.gamma[0] > 100 * learnt.gamma[1])
    True
    """
    X, targets = check_array(points, "points", ndim=2), check_array(y, "y", ndim=(1, 2))
    check_length(len(targets), len(X), "y", "points")
    (n, p), targets, rng = X.shape, targets.reshape(len(targets), -1), as_generator(rng)
    targets = targets[:, np.square(targets).sum(axis=0) > 0]  # a zero output says nothing about widths
    if targets.shape[1] == 0:
        return Bandwidths(gamma=np.full(p, 1.0 / p), alpha=1.0, rows=np.arange(0), n_evaluations=0)
    targets = targets / np.sqrt(np.square(targets).mean(axis=0))
    few, order = n < FEWEST_ROWS, rng.permutation(n)
    start = np.append(np.full(p, np.log(0.5 / p)), np.log(0.1))
    first: list[IntArray] = [order[:LIKELIHOOD_ROWS]]
    if not few:
        first.append(order[LIKELIHOOD_ROWS : 2 * LIKELIHOOD_ROWS])
    steps = ITERATIONS if few else FIRST_ITERATIONS
    # Some hundred rows may miss a feature that only works together with others; two draws rarely do.
    tried = [_minimise(negative_log_likelihood, start, X, targets, [rows], steps, home) for rows in first]
    found, blocks, n_evaluations = tried[0], first, sum(one.nfev for one in tried)
    if not few:
        coarse = _random_blocks(order)
        found = min(tried, key=lambda one: _total_error(one.x, X, targets, coarse, home))
        blocks = [*coarse, *_leaves(X * np.exp(found.x[:-1] / 2), rng)]
        found = _minimise(leave_one_out_error, found.x, X, targets, blocks, ERROR_ITERATIONS, home)
        n_evaluations += found.nfev * len(blocks)
    return Bandwidths(
        gamma=np.exp(found.x[:-1]),
        alpha=float(np.exp(found.x[-1])),
        rows=np.unique(np.concatenate([*first, *blocks])),
        n_evaluations=n_evaluations,
    )


def _total_error(
    log_parameters: FloatArray, X: FloatArray, y: FloatArray, blocks: list[IntArray], home: Any
) -> float:
    if home is not None:
        return average_on_device(X, y, blocks, home, likelihood=False)(log_parameters)[0]
    return sum(leave_one_out_error(log_parameters, X[rows], y[rows])[0] for rows in blocks)


def _random_blocks(order: IntArray) -> list[IntArray]:
    n_blocks = min(RANDOM_BLOCKS, len(order) // RANDOM_ROWS)
    return list(order[: n_blocks * RANDOM_ROWS].reshape(n_blocks, RANDOM_ROWS))


def _leaves(points: FloatArray, rng: np.random.Generator) -> list[IntArray]:
    leaves = PartitionTree.grow(points, LEAF_ROWS, rng).leaves
    return [leaves[number] for number in rng.permutation(len(leaves))[:LEAF_BLOCKS]]


def _minimise(
    objective: Objective,
    start: FloatArray,
    X: FloatArray,
    y: FloatArray,
    blocks: list[IntArray],
    steps: int,
    home: Any = None,
) -> Any:
    """Minimise the average of an objective over blocks of rows, where `home` lives if there is one."""
    # A block of neighbours on which y is constant has nothing to say.
    blocks = [rows for rows in blocks if np.ptp(y[rows])] or [np.arange(len(X))]
    data = [(X[rows], y[rows]) for rows in blocks]

    def on_host(log_parameters: FloatArray) -> tuple[float, FloatArray]:
        parts = [objective(log_parameters, *block) for block in data]
        return sum(value for value, _ in parts) / len(parts), np.mean([slope for _, slope in parts], axis=0)

    average: Average = on_host
    if home is not None:
        likelihood = objective is negative_log_likelihood
        average = average_on_device(X, y, blocks, home, likelihood=likelihood)
    bounds = [_LOG_GAMMA_BOUNDS] * (len(start) - 1) + [_LOG_ALPHA_BOUNDS]
    return minimize(average, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})


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
    found = _inverse(log_parameters, X)
    if found is None:
        return np.inf, np.zeros_like(log_parameters)
    S, K, inverse, log_det = found
    a = inverse @ y  # (m, n_outputs)
    square = float(np.einsum("io,io->", y, a))  # y^T C^-1 y, over outputs
    value = 0.5 * n_outputs * (m * np.log(square) + log_det)
    G = 0.5 * n_outputs * (inverse - (m / square) * (a @ a.T))
    return float(value), _slope(log_parameters, S, K, G)


def leave_one_out_error(log_parameters: FloatArray, X: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """Return (m / 2) log of the sum of squared leave-one-out residuals, and its gradient.

    With c = C^-1 y and d the diagonal of C^-1 the residuals are c / d.

    Parameters
    ----------
    log_parameters, X, y
        As in `negative_log_likelihood`.
    """
    m = len(y)
    found = _inverse(log_parameters, X)
    if found is None:
        return np.inf, np.zeros_like(log_parameters)
    S, K, inverse, _ = found
    c, d = inverse @ y, np.diag(inverse)[:, None]
    residuals = c / d
    square = float((residuals**2).sum())
    by_c = m * residuals / square / d
    by_d = -(by_c * residuals).sum(axis=1)
    M = c @ (inverse @ by_c).T
    G = -(0.5 * (M + M.T) + (inverse * by_d) @ inverse)
    return 0.5 * m * float(np.log(square)), _slope(log_parameters, S, K, G)


def _inverse(
    log_parameters: FloatArray, X: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, float] | None:
    """Return the scaled points, K, C^-1 and log det C; None a step too far towards alpha = 0."""
    S = X * np.exp(log_parameters[:-1] / 2)
    K = Kernel("rbf")(S, S)
    C = K.copy()
    C.ravel()[:: len(C) + 1] += np.exp(log_parameters[-1])
    lower, info = dpotrf(C.T, lower=1, overwrite_a=1)
    if info != 0:
        return None
    log_det = 2 * float(np.log(np.diag(lower)).sum())
    return S, K, _symmetric(dpotri(lower, lower=1)[0]), log_det


def _slope(log_parameters: FloatArray, S: FloatArray, K: FloatArray, G: FloatArray) -> FloatArray:
    """Return the derivatives in log gamma and log alpha from G = df / dC, destroying G."""
    by_alpha = np.exp(log_parameters[-1]) * np.trace(G)
    G *= K
    # sum_il G_il (s_ij - s_lj)^2 = 2 sum_i s_ij^2 G_i. - 2 s_j^T G s_j
    by_gamma = -2 * np.einsum("ij,ij->j", S, S * G.sum(axis=1)[:, None] - G @ S)
    return np.append(by_gamma, by_alpha)


def _symmetric(lower: FloatArray) -> FloatArray:
    """Return the symmetric matrix whose lower triangle is given (the upper one may hold anything)."""
    lower = np.tril(lower)
    return lower + np.tril(lower, -1).T
