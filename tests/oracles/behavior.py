"""Reference implementations for estimated logging policies."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def mixture_weights(likelihood):
    """Weights of known components with the largest likelihood, by a general optimiser over logits."""

    def loss(logits):
        weights = np.exp(logits - logits.max())
        return -np.log(likelihood @ (weights / weights.sum())).mean()

    found = minimize(
        loss, np.zeros(likelihood.shape[1]), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12}
    )
    weights = np.exp(found.x - found.x.max())
    return weights / weights.sum()


def pool_adjacent_violators(x, y):
    """Isotonic regression of y on x, tied x together: merge neighbouring blocks while means decrease."""
    blocks = []
    for value in sorted(set(x)):
        inside = [b for a, b in zip(x, y, strict=True) if a == value]
        blocks.append([sum(inside) / len(inside), len(inside), [value]])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, size, values = blocks.pop()
            first = blocks[-1]
            first[0] = (first[0] * first[1] + mean * size) / (first[1] + size)
            first[1] += size
            first[2] += values
    fitted = {value: mean for mean, _, values in blocks for value in values}
    return np.array([fitted[value] for value in x])
