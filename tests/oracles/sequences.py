"""Anytime-valid intervals and change detection, slow and obvious. Imports nothing of the package."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import integrate, special, stats


def bayes_factor(t, n, g):
    """Ratio of the density of a studentised mean: effect N(0, g) over effect 0, by quadrature."""

    def weighted(effect):
        return stats.nct.pdf(t, n - 1, effect * np.sqrt(n)) * stats.norm.pdf(effect, 0, np.sqrt(g))

    spread = 10 * np.sqrt(g)
    with warnings.catch_warnings(action="ignore", category=integrate.IntegrationWarning):
        found, _ = integrate.quad(weighted, -spread, spread, limit=400, points=[t / np.sqrt(n)])
    return found / stats.t.pdf(t, n - 1)


def betting_ends(values, alpha, cap=0.5, cells=2000):
    """Ends of the cells of a grid in which a lower bound of the hedged capital never reached 1 / alpha."""
    kept = []
    for cell in range(cells):
        a, b = cell / cells, (cell + 1) / cells
        up = down = 1.0
        alive = True
        total, squares = 0.0, 0.25
        for t, x in enumerate(values, start=1):
            stake = np.sqrt(2 * np.log(2 / alpha) / (squares / t * t * np.log(t + 1)))
            up *= 1 + min(stake, cap / b) * (x - b)
            down *= 1 - min(stake, cap / (1 - a)) * (x - a)
            alive &= (up + down) / 2 < 1 / alpha
            total += x
            squares += (x - (0.5 + total) / (t + 1)) ** 2
        kept += [a, b] if alive else []
    return min(kept), max(kept)


def change_evidence(values, first=10):
    """The mixture of likelihood ratios after every value, for values without ties."""
    scores = []
    for i, x in enumerate(values):
        rank = sum(v < x for v in values[:i])
        scores.append(integrate.quad(special.ndtri, rank / (i + 1), (rank + 1) / (i + 1))[0] * (i + 1))
    evidence = []
    for n in range(1, len(values) + 1):
        total = 0.0
        for k in range(first, n):
            S = sum(k / i * scores[i - 1] for i in range(k + 1, n + 1))
            C = sum((k / i) ** 2 for i in range(k + 1, n + 1))
            weight = np.log(first + 0.5) / ((k + 1) * np.log(k + 1) ** 2)
            total += weight * np.exp(S**2 / (2 * (1 + C))) / np.sqrt(1 + C)
        evidence.append(total)
    return evidence
