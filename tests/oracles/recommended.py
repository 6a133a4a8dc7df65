"""The recommended method step by step: one subset, one penalty, one eigenvalue at a time.

It imports nothing from the package under test. Observations are g (n, q, q) and f (n, q).
"""

from __future__ import annotations

import numpy as np

from .judgement import separation, smallest_real_parts
from .lepski import balanced

PENALTIES = [10.0 ** (power / 2) for power in range(-12, 1)]


def condition(A, n_rounds=20):
    """Condition number after rows and columns are divided by the root of their largest entry, many times."""
    A = np.array(A, dtype=float)
    for _ in range(n_rounds):
        rows, columns = np.abs(A).max(axis=1, keepdims=True), np.abs(A).max(axis=0, keepdims=True)
        A = A / np.sqrt(rows) / np.sqrt(columns)
    s = np.linalg.svd(A, compute_uv=False)
    return s[0] / s[-1]


def recommended(g, f, half_samples, draw, constant):
    """Return the kind of problem, the share of half-samples that cross, and the estimate.

    ``draw(statistic, size)`` lists subsets; `constant` has the coefficients of a constant function.
    """
    n, q = f.shape
    A = g.sum(axis=0)
    eigenvalues = smallest_real_parts(g, half_samples)
    crossing = np.mean(eigenvalues < -1e-8)
    away = separation(eigenvalues[:100], n, len(half_samples[0]), replacement=False)
    ill_posed = condition(A) > 2.0**26 or (condition(A) > 1e3 and crossing > 0.1)
    if not ill_posed and crossing <= 0.01 and away >= 4.0:
        return "well", crossing, np.linalg.solve(A, f.sum(axis=0))
    if ill_posed:
        subsets, kappa, path = draw("U", max(min(10 * q, n // 2), round(0.3 * n))), 1.5, PENALTIES
    else:
        subsets, kappa, path = draw("V", n), 0.5, [0.0, *PENALTIES]
    scale = np.linalg.norm(A, 2) * len(subsets[0]) / n
    means = []
    for s in half_samples:
        theta = np.linalg.lstsq(g[s].sum(axis=0), f[s].sum(axis=0), rcond=q * 8 * np.finfo(float).eps)[0]
        means.append((A @ constant) @ theta / (constant @ A @ constant))
    origin = constant * np.median(means)
    shifted = f - g @ origin
    answers = [balanced(g[s], shifted[s], kappa=kappa, path=path, scale=scale)[0] + origin for s in subsets]
    return "ill" if ill_posed else "noisy", crossing, np.mean(answers, axis=0)
