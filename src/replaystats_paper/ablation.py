"""What decides the result of policy evaluation: the inverse, the discount rate, and where the data lie.

Every cell tries the same list of inverses on the same data sets and the same subsets, so that nothing else
differs between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replaystats import replicate
from replaystats.simulate import OrnsteinUhlenbeck
from replaystats.solvers import LU, Lepski, PseudoInverse, Solution, Solver
from replaystats.toolkit import FloatArray

from .cells import Cell, Settings, cell_stream
from .measures import METHODS, rmse, squared_iqr
from .policy import ALGORITHMS, FEATURES, GRID, Systems, draw_systems

RCONDS = (0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
RIDGES = (1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
# Lepski's rule looks at every observation, so that fewer subsets must do.
BALANCED = "chosen"
BALANCED_RESAMPLES = 30


@dataclass(frozen=True, slots=True)
class RelativeRidge(Solver):
    """Add alpha |A| I to every matrix (|.| the Frobenius norm): one alpha for sums of any size."""

    alpha: float

    def solve(self, A: FloatArray, b: FloatArray, *, symmetric: bool = False) -> Solution:
        """See the base class."""
        size = np.linalg.norm(A, axis=(1, 2))[:, None, None]
        return LU().solve(A + self.alpha * size * np.eye(A.shape[-1]), b, symmetric=symmetric)


def inverses() -> dict[str, Solver]:
    """Return the inverses that are compared, by label; rcond = 0 is the plain inverse."""
    truncated: dict[str, Solver] = {f"rcond={rcond:g}": PseudoInverse(rcond) for rcond in RCONDS}
    penalised: dict[str, Solver] = {f"alpha={alpha:g}": RelativeRidge(alpha) for alpha in RIDGES}
    return {"published": PseudoInverse(), **truncated, **penalised}


def run_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Compute one setting: "paper", "beta=0.1" or "uniform" (starts that cover the test grid)."""
    beta = 0.1 if cell["setting"] == "beta=0.1" else 1.0
    process = OrnsteinUhlenbeck(discount_rate=beta)
    start = "uniform" if cell["setting"] == "uniform" else "paper"
    solvers = inverses()
    labels = [*solvers, BALANCED] if cell["setting"] == "paper" else list(solvers)
    predictions = np.empty((len(labels), len(ALGORITHMS), len(METHODS), repetitions, len(GRID)))
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        systems = draw_systems(cell["n"], cell["B"], cell["k"], process, rng, start=start)
        for i, solver in enumerate(solvers.values()):
            predictions[i, :, :, repetition] = systems.predictions(systems.solve(solver))
        if BALANCED in labels:
            predictions[-1, :, :, repetition] = _balanced(systems)
    truth = process.value(GRID)
    return {
        algorithm: {label: _row(predictions[i, a], truth) for i, label in enumerate(labels)}
        for a, algorithm in enumerate(ALGORITHMS)
    }


def _balanced(systems: Systems) -> FloatArray:
    """Return predictions (3 algorithms, 3 methods, m) with the penalty that Lepski's rule finds."""
    rule = Lepski(targets=FEATURES)
    plans = [replace(plan, n_resamples=min(BALANCED_RESAMPLES, plan.n_resamples)) for plan in systems.plans]
    thetas = [
        [
            rule.solve_full(moments).theta[0],
            *(replicate(moments, plan, solver=rule).theta.mean(axis=0) for plan in plans),
        ]
        for moments in systems.moments
    ]
    return np.asarray(np.array(thetas) @ FEATURES.T)


def _row(predictions: FloatArray, truth: FloatArray) -> dict[str, dict[str, float]]:
    """Summarise (3 methods, M, m): medians of variance, squared IQR and RMSE."""
    medians = {
        "variance": np.median(predictions.var(axis=1, ddof=1), axis=-1),
        "iqr2": np.median(squared_iqr(predictions), axis=-1),
        "rmse": np.median(rmse(predictions, truth), axis=-1),
    }
    return {measure: dict(zip(METHODS, values.tolist(), strict=True)) for measure, values in medians.items()}
