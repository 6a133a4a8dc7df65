"""Slow, obvious references of the variance formulas: refits, enumeration and textbook matrices.

They import nothing from the package under test.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

# The three-atom population (g, f) with its probabilities, for exact expectations by enumeration.
ATOMS = np.array([[1.0, 1.0], [2.0, 1.5], [0.7, -0.3]])
PROBABILITIES = np.array([0.5, 0.3, 0.2])


def ratio(g, f, alpha=0.0):
    """[sum g + alpha I]^-1 [sum f]."""
    return np.linalg.solve(g.sum(axis=0) + alpha * np.eye(g.shape[1]), f.sum(axis=0))


def weighted_ratio(g, f, w, alpha=0.0):
    """[sum w g + alpha I]^-1 [sum w f]."""
    A = np.tensordot(w, g, axes=1) + alpha * np.eye(g.shape[1])
    return np.linalg.solve(A, np.tensordot(w, f, axes=1))


def influence_by_difference(g, f, alpha=0.0, eps=1e-6):
    """n times the derivative of theta as observation i gains weight at the expense of all."""
    n = len(g)
    values = []
    for i in range(n):
        up, down = np.full(n, 1.0 - eps), np.full(n, 1.0 + eps)
        up[i] += n * eps
        down[i] -= n * eps
        values.append((weighted_ratio(g, f, up, alpha) - weighted_ratio(g, f, down, alpha)) / (2 * eps))
    return np.array(values)


def delete_one(g, f, alpha=0.0):
    """Refit without each observation in turn."""
    everyone = np.arange(len(g))
    return np.array([ratio(g[everyone != i], f[everyone != i], alpha) for i in everyone])


def jackknife(left_out):
    """(n-1)/n sum of outer products of deviations."""
    n = len(left_out)
    centred = left_out - left_out.mean(axis=0)
    return (n - 1) / n * sum(np.outer(d, d) for d in centred)


def lemma_1(g, f):
    """The paper's covariance of the plug-in: G Sigma_0 G^T / n, with vec stacking columns."""
    n, q = f.shape
    A, theta = g.mean(axis=0), ratio(g, f)
    inverse = np.linalg.inv(A)
    stacked = np.array([np.concatenate([g[i].flatten(order="F"), f[i]]) for i in range(n)])
    sigma_0 = np.cov(stacked, rowvar=False)
    # d(A^-1 b) = -A^-1 dA theta + A^-1 db, and dA theta = (theta^T kron I) vec(dA).
    G = np.concatenate([-inverse @ np.kron(theta[None, :], np.eye(q)), inverse], axis=1)
    return G @ sigma_0 @ G.T / n


def complete_u(g, f, k):
    """The average of the ratio over all subsets."""
    subsets = itertools.combinations(range(len(g)), k)
    return np.mean([ratio(g[list(s)], f[list(s)]) for s in subsets], axis=0)


def v_functional(g, f, k, p):
    """E of the ratio on k draws from the data with probabilities p, by enumerating all ordered draws."""
    total = 0.0
    for draw in itertools.product(range(len(g)), repeat=k):
        total = total + math.prod(p[i] for i in draw) * ratio(g[list(draw)], f[list(draw)])
    return total


def infinitesimal_jackknife(theta, counts, *, replacement):
    """Raw and corrected variance of the mean of theta (B,) by explicit sums over observations."""
    B, n = counts.shape
    k = counts[0].sum()
    D = theta - theta.mean()
    v = (D**2).sum() / (B - 1)
    squares = sum(((counts[:, i] - k / n) @ D / (B - 1)) ** 2 for i in range(n))
    if replacement:
        raw = n / (n - 1) * squares
        return raw, raw - k * v / (B - 1)
    raw = n * (n - 1) / (n - k) ** 2 * squares
    return raw, raw - k * (n - 1) / (n - k) * v / (B - 1)


# The three-atom population


def samples(n):
    """Every sample of size n with its probability: (n, 2) arrays."""
    for atoms in itertools.product(range(3), repeat=n):
        yield ATOMS[list(atoms)], math.prod(PROBABILITIES[list(atoms)])


def h(sample):
    """The scalar ratio."""
    return sample[:, 1].sum() / sample[:, 0].sum()


def zeta(c, k):
    """Var(E[h_k | Z_1..Z_c]) by enumeration."""
    mean = mean_square = 0.0
    for head, p in samples(c):
        conditional = sum(r * h(np.concatenate([head, tail])) for tail, r in samples(k - c))
        mean += p * conditional
        mean_square += p * conditional**2
    return mean_square - mean**2
