"""Whether replay helps and whether its average may be trusted: every number by loops over subsets.

They import nothing from the package under test. Observations are g (n, q, q) and f (n, q), subsets rows of
indices.
"""

from __future__ import annotations

import math

import numpy as np

from .inference import delete_one, jackknife, ratio
from .small_parts import zetas_of_all_subsets


def smallest_real_parts(g, subsets, alpha=0.0):
    """min Re eig of (expected subset matrix)^-1 (subset matrix), one subset after the other."""
    penalty = alpha * np.eye(g.shape[1])
    expected = len(subsets[0]) / len(g) * g.sum(axis=0) + penalty
    relative = [np.linalg.solve(expected, g[list(subset)].sum(axis=0) + penalty) for subset in subsets]
    return np.array([np.linalg.eigvals(matrix).real.min() for matrix in relative])


def separation(eigenvalues, n, k, *, replacement):
    """Standard errors from a matrix at 1 to a singular one at 0, on the scale of n observations."""
    scale = math.sqrt(k / n if replacement else k / (n - k))
    mean = 1 - scale * (1 - np.mean(eigenvalues))
    return mean / (scale * np.std(eigenvalues))


def hill(theta):
    """Tail index from the largest tenth: the mean of log(distance / the next smaller distance)."""
    distances = []
    centre = np.median(theta, axis=0)
    unit = np.median(np.abs(theta - centre), axis=0)
    for row in theta:
        distances.append(max(abs(x - c) / u for x, c, u in zip(row, centre, unit, strict=True)))
    distances.sort(reverse=True)
    top = len(distances) // 10
    return top / sum(math.log(d / distances[top]) for d in distances[:top])


def linear_parts(g, f, subsets):
    """The mean influence value of the observations of every subset, and the influence values."""
    A, theta = g.mean(axis=0), ratio(g, f)
    influence = np.array([np.linalg.solve(A, f_i - g_i @ theta) for g_i, f_i in zip(g, f, strict=True)])
    return np.array([influence[list(subset)].mean(axis=0) for subset in subsets]), influence


def controlled_jackknife(g, f, subsets):
    """Infinitesimal jackknife of subsets without replacement, with the exact slopes of the linear part."""
    n, k, B = len(g), len(subsets[0]), len(subsets)
    linear, influence = linear_parts(g, f, subsets)
    rest = np.array([ratio(g[list(s)], f[list(s)]) for s in subsets]) - linear
    rest = rest - rest.mean(axis=0)
    total = 0.0
    for i in range(n):
        known = (n - k) / (n * (n - 1)) * influence[i]
        seen = sum(r for r, subset in zip(rest, subsets, strict=True) if i in subset) / (B - 1)
        total = total + np.outer(known + seen, known + seen)
    noise = k * (1 - k / n) * sum(np.outer(r, r) for r in rest) / (B - 1) ** 2
    return n * (n - 1) / (n - k) ** 2 * (total - noise)


def predicted_gain(X, g, f, replayed, bias, share):
    """Ratios of variances and of mean squared errors, replay over plug-in, summed over the rows of X.

    `replayed` is the covariance of the average, `bias` its bias, of which the plug-in has the `share`.
    """
    plain = sum(x @ jackknife(delete_one(g, f)) @ x for x in X)
    ours = sum(x @ replayed @ x for x in X)
    squared = sum((x @ bias) ** 2 for x in X)
    return ours / plain, (ours + squared) / (plain + share**2 * squared)


def gain_of_all_subsets(X, g, f, k):
    """The same for the average over all subsets of k: jackknife of that average, by enumeration."""
    n = len(g)
    U, replayed, _ = zetas_of_all_subsets(lambda rows: ratio(g[rows], f[rows]), n, k)
    return predicted_gain(X, g, f, replayed, (U - ratio(g, f)) / (1 - k / n), k / n)
