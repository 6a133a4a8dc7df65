"""CV+ and hierarchical conformal intervals, row by row."""

from __future__ import annotations

import math

import numpy as np


def interval(means, spreads, fold, sizes, level, groups=None):
    """Return the ends at one point: means and spreads (K,) of the fits, fold and sizes (n,) of the rows."""
    low, high = [], []
    for k, size in zip(fold, sizes, strict=True):
        low.append(means[k] - spreads[k] * size)
        high.append(means[k] + spreads[k] * size)
    labels = list(range(len(fold))) if groups is None else list(groups)
    n_groups = len(set(labels))
    share = [1 / labels.count(label) / (n_groups + 1) for label in labels]
    return -_quantile([-end for end in low], share, level), _quantile(high, share, level)


def _quantile(values, share, level):
    total = 0.0
    for place in np.argsort(values, kind="stable"):
        total += share[place]
        if total >= level - 1e-9:
            return values[place]
    return math.inf


def predictive_variance(K, k, alpha):
    """Return alpha + 1 - k' (K + alpha I)^-1 k of a process of unit variance."""
    return alpha + 1 - k @ np.linalg.solve(K + alpha * np.eye(len(K)), k)
