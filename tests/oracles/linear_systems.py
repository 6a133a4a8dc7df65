"""Slow, obvious references of the default solver: exact rational elimination, and a truncated SVD by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def exact_solve(A, b):
    """Solve one regular system in rational arithmetic, rounded once at the end."""
    q = len(A)
    rows = [[Fraction(float(v)) for v in A[i]] + [Fraction(float(b[i]))] for i in range(q)]
    for i in range(q):
        pivot = next(r for r in range(i, q) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(q):
            if r != i and rows[r][i] != 0:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[i], strict=True)]
    return np.array([float(rows[i][q] / rows[i][i]) for i in range(q)])


def least_norm_solve(A, b, rcond):
    """Solve one system by an SVD that keeps singular values above rcond of the largest."""
    U, s, Vt = np.linalg.svd(A)
    theta = np.zeros(len(b))
    for value, left, right in zip(s, U.T, Vt, strict=True):
        if value > rcond * s[0]:
            theta += right * (left @ b) / value
    return theta
