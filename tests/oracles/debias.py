"""The debiased average, slowly: every subset solved, every observation left out of everything in turn.

Nothing is imported from the package under test.
"""

from __future__ import annotations

import numpy as np

from .inference import complete_u, ratio


def on_the_line(answer_n, answer_k, n, k):
    """The value at 1 / k = 0 of the line through (1 / n, answer_n) and (1 / k, answer_k)."""
    slope = (answer_k - answer_n) / (1 / k - 1 / n)
    return answer_n - slope / n


def debiased(g, f, k):
    """Both answers from the data at hand, and the line through them."""
    n = len(g)
    return on_the_line(ratio(g, f), complete_u(g, f, k), n, k)


def debiased_covariance(g, f, k):
    """Delete-one jackknife of the combination, its weights those of all n observations."""
    n = len(g)
    left_out = []
    for i in range(n):
        rest = np.arange(n) != i
        both = ratio(g[rest], f[rest]), complete_u(g[rest], f[rest], k)
        left_out.append(on_the_line(*both, n, k))
    centred = np.array(left_out) - np.mean(left_out, axis=0)
    return (n - 1) / n * centred.T @ centred
