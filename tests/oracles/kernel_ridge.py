"""Slow, obvious reference of kernel ridge regression as R's KRLS 1.0-0 does it, and of its replay.

Both X and y are standardised by mean and standard deviation (divisor n - 1) of the rows that are fitted;
the kernel is exp(-|z - z'|^2 / p) with p columns; (K + alpha I) c = y. Imports nothing from the package.
"""

from __future__ import annotations

import numpy as np


def gaussian_kernel(a, b):
    """exp(-|a_i - b_j|^2 / p), one row at a time."""
    return np.array([np.exp(-((b - row) ** 2).sum(axis=1) / len(row)) for row in a])


def fit_predict(X, y, X_test, alpha):
    """Fit on the rows of (X, y), standardised on themselves, and predict at X_test in the units of y."""
    centre, scale = X.mean(axis=0), X.std(axis=0, ddof=1)
    if np.any(scale == 0):
        raise ValueError("a column of X is constant on these rows")
    z, z_test = (X - centre) / scale, (X_test - centre) / scale
    y_centre, y_scale = y.mean(), y.std(ddof=1)
    dual = np.linalg.solve(gaussian_kernel(z, z) + alpha * np.eye(len(y)), (y - y_centre) / y_scale)
    return gaussian_kernel(z_test, z) @ dual * y_scale + y_centre


def replay_predict(X, y, X_test, alpha, subsets):
    """Average of the predictions of one fit per index list, all with the same `alpha`."""
    total = np.zeros(len(X_test))
    for subset in subsets:
        rows = list(subset)
        total += fit_predict(X[rows], y[rows], X_test, alpha)
    return total / len(subsets)
