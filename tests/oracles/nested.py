"""How many functions to use, by Lepski's principle: loops over sizes, observations and pairs."""

from __future__ import annotations

import numpy as np


def nested(g, f, levels, kappa, targets=None):
    """Return theta and the chosen level for observations g (k, q, q), f (k, q)."""
    k, q = f.shape
    A, b = g.sum(axis=0), f.sum(axis=0)
    if targets is None:
        _, s, Vt = np.linalg.svd(A)
        metric = Vt.T @ np.diag(s) @ Vt
    else:
        metric = targets.T @ targets / len(targets)
    thetas, variances, names = [], [], sorted(set(levels))
    for level in names:
        used = [i for i in range(q) if levels[i] <= level]
        inverse = np.linalg.inv(A[np.ix_(used, used)])
        theta = np.zeros(q)
        theta[used] = inverse @ b[used]
        moved = np.zeros((k, q))
        for i in range(k):
            moved[i, used] = inverse @ (f[i] - g[i] @ theta)[used]
        centred = moved - moved.mean(axis=0)
        variances.append(sum(row @ metric @ row for row in centred) * k / (k - 1))
        thetas.append(theta)
    for place, level in enumerate(names):
        gaps = [thetas[place] - thetas[larger] for larger in range(place + 1, len(names))]
        limits = [kappa * np.sqrt(variances[larger]) for larger in range(place + 1, len(names))]
        if all(np.sqrt(gap @ metric @ gap) <= limit for gap, limit in zip(gaps, limits, strict=True)):
            return thetas[place], level
    raise AssertionError("the largest is always acceptable")
