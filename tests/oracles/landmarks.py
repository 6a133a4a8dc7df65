"""Landmarks one after the other, from the definition of what they leave undescribed."""

from __future__ import annotations

import numpy as np


def undescribed(K, rows):
    """k(x, x) less its best approximation from the landmarks, for every row of a kernel matrix."""
    rows = list(rows)
    best = K[:, rows] @ np.linalg.pinv(K[np.ix_(rows, rows)]) @ K[rows]
    return np.diag(K) - np.diag(best)


def greedy(K, first, tolerance, most):
    """Rows in order, each the one that those before it describe worst, until all are within the tolerance.

    All rows are described equally badly at the beginning, so the first of them is given.
    """
    rows = [int(first)]
    while len(rows) < most and undescribed(K, rows).max() > tolerance:
        rows.append(int(np.argmax(undescribed(K, rows))))
    return rows
