"""Appendix A by enumeration: importance sampling over subsets, on all subsets of small data sets.

h is a ratio of sums. Drawing subset S with probability P(S) and weighing h by w = 1 / (N P) estimates the
same average over all N subsets; what the B draws add to the variance is zeta_W = Var(w h). For P proportional
to |h| that is (mean |h|)^2 - (mean h)^2, never above the uniform Var(h); but P needs h of every subset. A
proposal over observations, as a prioritised memory has, gives P(S) proportional to the product of its
members' weights.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from replaystats.toolkit import FloatArray

from .cells import Cell, Settings, cell_stream

N = 20  # C(20, 10) = 184,756 subsets


def run_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return zeta under three proposals, averaged over data sets of `N` observations."""
    k = cell["k"]
    subsets = np.fromiter((i for subset in combinations(range(N), k) for i in subset), dtype=np.intp).reshape(
        -1, k
    )
    totals = dict.fromkeys(("uniform", "abs_h", "influence"), 0.0)
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        g, f = rng.gamma(4.0, 0.25, N), rng.normal(1.0, 1.0, N)
        for name, value in zetas(g, f, subsets).items():
            totals[name] += value / repetitions
    return {"zeta": totals, "n": N, "subsets": len(subsets)}


def zetas(g: FloatArray, f: FloatArray, subsets: np.ndarray) -> dict[str, float]:
    """Return Var(w h) for uniform P, P ~ |h|, and P ~ products of weights, half influence, half uniform."""
    h = f[subsets].sum(axis=1) / g[subsets].sum(axis=1)
    influence = np.abs(f - g * (f.sum() / g.sum()))
    weight = 0.5 * influence / influence.sum() + 0.5 / len(g)
    product = np.exp(np.log(weight)[subsets].sum(axis=1))
    return {
        "uniform": float(h.var()),
        "abs_h": float(np.mean(np.abs(h)) ** 2 - h.mean() ** 2),
        "influence": _weighted_variance(h, product / product.sum()),
    }


def _weighted_variance(h: FloatArray, probability: FloatArray) -> float:
    """Return Var(h / (N P)) when a subset is drawn with probability P."""
    weights = 1.0 / (len(h) * probability)
    return float(np.sum(probability * (weights * h) ** 2) - h.mean() ** 2)
