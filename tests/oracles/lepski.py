"""Lepski's balancing principle as in the textbook: one loop per penalty, per observation, per pair."""

from __future__ import annotations

import numpy as np


def tikhonov(A, b, penalty):
    """argmin |A theta - b|^2 + penalty^2 |theta|^2, through the stacked least-squares problem."""
    q = len(b)
    stacked = np.vstack([A, penalty * np.eye(q)])
    return np.linalg.lstsq(stacked, np.concatenate([b, np.zeros(q)]), rcond=None)[0]


def influence(A, penalty, residual):
    """The solution for the right-hand side `residual`: the map R_a itself."""
    return tikhonov(A, residual, penalty)


def absolute_value(A):
    """(A^T A)^(1/2), by an eigendecomposition rather than an SVD."""
    values, vectors = np.linalg.eigh(A.T @ A)
    return vectors @ np.diag(np.sqrt(np.maximum(values, 0))) @ vectors.T


def balanced(g, f, *, kappa, path, scale, targets=None):
    """Return (theta, chosen penalty) for observations g (k, q, q), f (k, q).

    `scale` is what a relative penalty is multiplied by; `targets` (m, q) gives the metric.
    """
    A, b = sum(g), sum(f)
    k = len(g)
    metric = absolute_value(A) if targets is None else targets.T @ targets / len(targets)
    solutions, variances = [], []
    for a in path:
        theta = tikhonov(A, b, a * scale)
        moves = [influence(A, a * scale, f[i] - g[i] @ theta) for i in range(k)]
        centre = sum(moves) / k
        covariance = sum(np.outer(m - centre, m - centre) for m in moves) * k / (k - 1)
        solutions.append(theta)
        variances.append(np.trace(metric @ covariance))
    for j in reversed(range(len(path))):
        differences = [solutions[j] - solutions[i] for i in range(j)]
        if all(d @ metric @ d <= kappa**2 * variances[i] for i, d in enumerate(differences)):
            return solutions[j], path[j]
    raise AssertionError("the smallest penalty is always acceptable")
