"""Slow, obvious references of what intervals are put together from; nothing of the package is used."""

from __future__ import annotations

import itertools
import math

import numpy as np


def coverage(predictions, residuals, level, n_parts):
    """Share of residuals within the rank of those of the other parts, of all and of thirds by prediction."""
    n, inside = len(residuals), []
    for i in range(n):
        others = sorted(abs(residuals[j]) for j in range(n) if j % n_parts != i % n_parts)
        rank = math.ceil(level * (len(others) + 1) - 1e-9)
        inside.append(rank > len(others) or abs(residuals[i]) <= others[rank - 1])
    order = sorted(range(n), key=lambda i: predictions[i])
    thirds = np.array_split(np.array(order), 3)
    return np.mean(inside), tuple(np.mean([inside[i] for i in third]) for third in thirds)


def largest_of_normals(covariance, level, n_draws, rng):
    """Quantile of the largest |studentised| coordinate of a normal vector, by drawing such vectors."""
    root = np.linalg.cholesky(covariance + 1e-12 * np.eye(len(covariance)) * np.trace(covariance))
    error = np.sqrt(np.diag(covariance))
    return np.quantile(np.abs(rng.normal(size=(n_draws, len(root))) @ root.T / error).max(axis=1), level)


def outside(point, data, inner):
    """Whether the sqrt(N)-th nearest row is farther than it is for a share `inner` of the rows themselves."""
    scale = [column.std() or 1.0 for column in data.T]
    rank = max(1, int(math.sqrt(len(data))))

    def far(x, skip=None):
        apart = sorted(
            math.dist(x / scale, row / scale) for i, row in enumerate(data) if skip is None or i != skip
        )
        return apart[min(rank, len(apart)) - 1]

    return far(point) > np.quantile([far(row, i) for i, row in enumerate(data)], inner)


def pooled(values, counts, infinitesimal_jackknife):
    """Share, trust and noise of ratios sampling / member variance, from all members and from two halves."""

    def ratios(rows):
        sampling = [infinitesimal_jackknife(v, counts[rows]) for v in values[rows].T]
        member = [v.var(ddof=1) for v in values[rows].T]
        return np.divide(sampling, member), np.mean(sampling) / np.mean(member)

    half = len(values) // 2
    (each, share), (one, _), (two, _) = (
        ratios(rows) for rows in (slice(None), slice(half, None), slice(half))
    )
    noise = np.mean((one - two) ** 2) / 4
    return max(share, 0.0), min(1.0, max(0.0, 1 - noise / each.var())), math.sqrt(noise)


def zetas_of_all_subsets(h, n, k):
    """U of h over all k-subsets of n, its delete-one jackknife variance, and the variance of h on one subset.

    The last is the mean square around U, plus what U itself varies by.
    """
    values = {s: h(list(s)) for s in itertools.combinations(range(n), k)}
    U = np.mean(list(values.values()), axis=0)
    without = [np.mean([v for s, v in values.items() if i not in s], axis=0) for i in range(n)]
    centre = np.mean(without, axis=0)
    jackknife = sum(np.outer(w - centre, w - centre) for w in without) * (n - 1) / n
    spread = np.mean([np.outer(v - U, v - U) for v in values.values()], axis=0)
    return U, jackknife, spread + jackknife


def ridge_on_rows(X, y, alpha, points):
    """Predictions of ridge regression without an intercept, by the augmented least-squares problem."""
    q = X.shape[1]
    design = np.vstack([X, math.sqrt(alpha) * np.eye(q)])
    target = np.concatenate([y, np.zeros(q)])
    return points @ np.linalg.lstsq(design, target, rcond=None)[0]


def walk_down(directions, thresholds, children, point):
    """The leaf at which a point ends, one cut after the other."""
    node = 0 if len(children) else -1
    while node >= 0:
        left = sum(d * x for d, x in zip(directions[node], point, strict=True)) <= thresholds[node]
        node = children[node][0 if left else 1]
    return -node - 1


def count_moments(n, k, *, replacement):
    """Variance of how often a row is drawn into a subset, and covariance of two such counts."""
    if replacement:  # multinomial
        return k / n * (1 - 1 / n), -k / n**2
    return k / n * (1 - k / n), -k * (n - k) / (n**2 * (n - 1))  # hypergeometric
