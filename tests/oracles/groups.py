"""Slow, obvious reference of grouped moments: one observation after the other added to its group."""

from __future__ import annotations

import numpy as np


def summed_by_group(g, f, labels):
    """Return sums of g (n, q, q) and f (n, q) over the observations of every group."""
    n_groups = max(labels) + 1
    A = np.zeros((n_groups, *g.shape[1:]))
    b = np.zeros((n_groups, *f.shape[1:]))
    for i, group in enumerate(labels):
        A[group] += g[i]
        b[group] += f[i]
    return A, b
