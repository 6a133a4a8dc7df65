"""Leave-one-out and generalised cross-validation by doing them: one refit per observation and penalty."""

from __future__ import annotations

import numpy as np


def ridge_leave_one_out(X, y, alpha):
    """Mean squared error of predicting each row from the fit without it."""
    errors = []
    for i in range(len(X)):
        kept = np.arange(len(X)) != i
        A = X[kept].T @ X[kept] + alpha * np.eye(X.shape[1])
        errors.append((y[i] - X[i] @ np.linalg.solve(A, X[kept].T @ y[kept])) ** 2)
    return np.mean(errors)


def kernel_leave_one_out_error(K, y, alpha, i):
    """Squared error of predicting observation i from the kernel ridge fit without it."""
    kept = np.flatnonzero(np.arange(len(K)) != i)
    dual = np.linalg.solve(K[np.ix_(kept, kept)] + alpha * np.eye(len(kept)), y[kept])
    return (y[i] - K[i, kept] @ dual) ** 2


def kernel_leave_one_out(K, y, alpha):
    """Mean of those over all observations."""
    return np.mean([kernel_leave_one_out_error(K, y, alpha, i) for i in range(len(K))])
