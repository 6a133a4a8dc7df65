"""Slow, obvious references of the intervals for a new observation. Imports nothing from the package."""

from __future__ import annotations

import math

import numpy as np


def averages_without(members, subsets, weights=None):
    """Average, for every row i and point x, the members whose subset does not contain i.

    `members` is (B, m), `subsets` a list of B index lists; returns a function of i giving (m,), or None.
    """
    weights = np.ones(len(subsets)) if weights is None else np.asarray(weights)

    def average(i):
        kept = [b for b, subset in enumerate(subsets) if i not in set(subset) and weights[b] > 0]
        return None if not kept else np.average(members[kept], axis=0, weights=weights[kept])

    return average


def jackknife_plus_after_bootstrap(members_train, members_new, subsets, y, level, weights=None, scale=None):
    """Kim, Xu and Barber (2020), one new point at a time; `scale` is (at rows, at points)."""
    n, m = len(y), members_new.shape[1]
    at_rows = averages_without(members_train, subsets, weights)
    at_points = averages_without(members_new, subsets, weights)
    sigma, sigma_new = (np.ones(n), np.ones(m)) if scale is None else scale
    kept = [i for i in range(n) if at_rows(i) is not None]
    low, high = np.empty(m), np.empty(m)
    rank = math.ceil(round(level * (len(kept) + 1), 9))
    for j in range(m):
        lower, upper = [], []
        for i in kept:
            size = abs(y[i] - at_rows(i)[i]) / sigma[i] * sigma_new[j]
            lower.append(size - at_points(i)[j])
            upper.append(size + at_points(i)[j])
        infinite = rank > len(kept)
        low[j] = -np.inf if infinite else -sorted(lower)[rank - 1]
        high[j] = np.inf if infinite else sorted(upper)[rank - 1]
    return low, high


def leave_one_out(fit_predict, X, y):
    """Prediction of every row by a fit on the others."""
    found = [fit_predict(np.delete(X, i, 0), np.delete(y, i, 0), X[i : i + 1])[0] for i in range(len(y))]
    return np.array(found)
