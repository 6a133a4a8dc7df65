"""The second order of a ratio of moments by its definition: loops over pairs of units, no algebra."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def terms(g, f):
    """Return H_i and M_i of every unit, shape (n, q), as the definitions have them."""
    n, q = f.shape
    inverse = np.linalg.inv(g.mean(axis=0))
    theta = inverse @ f.mean(axis=0)
    H = np.array([inverse @ (f[i] - g[i] @ theta) for i in range(n)])
    D = np.array([inverse @ g[i] - np.eye(q) for i in range(n)])
    product = np.mean([D[j] @ H[j] for j in range(n)], axis=0)
    M = np.empty((n, q))
    for i in range(n):
        others = [D[j] @ D[j] @ H[i] + D[j] @ D[i] @ H[j] + D[i] @ D[j] @ H[j] for j in range(n)]
        M[i] = -(D[i] @ H[i] - product) + np.mean(others, axis=0)
    return H, M, D


def constant(g, f):
    """Return c = tr Cov(H, M) / tr Var(H)."""
    H, M, _ = terms(g, f)
    return float(np.sum(H * M) / np.sum(H * H))


def jackknifed_constant(g, f, n_groups):
    """Return c with the delete-a-group bias correction, and its standard error."""
    group = np.arange(len(f)) % n_groups
    left = np.array([constant(g[group != j], f[group != j]) for j in range(n_groups)])
    corrected = n_groups * constant(g, f) - (n_groups - 1) * left.mean()
    return corrected, float(np.sqrt((n_groups - 1) / n_groups * np.sum((left - left.mean()) ** 2)))


def pair_variance(g, f):
    """Return the variance of D_1 H_2 + D_2 H_1 of every coefficient, over all pairs of units."""
    H, _, D = terms(g, f)
    n = len(f)
    products = [D[i] @ H[j] + D[j] @ H[i] for i in range(n) for j in range(n)]
    return np.mean(np.square(products), axis=0)


def unbiased_variance(h, n, k):
    """Return Wang and Lindsay's (2014) unbiased variance of the complete U-statistic, for k <= n / 2.

    U^2 less the mean of h(S) h(S') over all pairs of disjoint subsets.
    """
    subsets = list(combinations(range(n), k))
    values = {subset: h(list(subset)) for subset in subsets}
    U = np.mean(list(values.values()), axis=0)
    disjoint = [values[a] * values[b] for a in subsets for b in subsets if not set(a) & set(b)]
    return U**2 - np.mean(disjoint, axis=0)
