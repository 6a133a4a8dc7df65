"""The debiased average, slowly: every subset solved, every observation left out of everything in turn.

Nothing is imported from the package under test.
"""

from __future__ import annotations

import itertools

import numpy as np


def ratio(g, f):
    """[sum g]^-1 [sum f]."""
    return np.linalg.solve(g.sum(axis=0), f.sum(axis=0))


def average_over_subsets(g, f, k):
    """The mean of the ratio over all subsets of k observations."""
    subsets = itertools.combinations(range(len(g)), k)
    return np.mean([ratio(g[list(s)], f[list(s)]) for s in subsets], axis=0)


def on_the_line(answer_n, answer_k, n, k):
    """The value at 1 / k = 0 of the line through (1 / n, answer_n) and (1 / k, answer_k)."""
    slope = (answer_k - answer_n) / (1 / k - 1 / n)
    return answer_n - slope / n


def debiased(g, f, k):
    """Both answers from the data at hand, and the line through them."""
    n = len(g)
    return on_the_line(ratio(g, f), average_over_subsets(g, f, k), n, k)


def debiased_covariance(g, f, k):
    """Delete-one jackknife of the combination, its weights those of all n observations."""
    n = len(g)
    left_out = []
    for i in range(n):
        rest = np.arange(n) != i
        both = ratio(g[rest], f[rest]), average_over_subsets(g[rest], f[rest], k)
        left_out.append(on_the_line(*both, n, k))
    centred = np.array(left_out) - np.mean(left_out, axis=0)
    return (n - 1) / n * centred.T @ centred
