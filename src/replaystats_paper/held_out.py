"""How far the fixed test points move the kernel ridge numbers.

The published numbers of all cells share one set of 100 test points, and so do ours; with other points both
would move together. That error is the same in every cell, so their scatter does not show it: it is measured
here, by drawing the test points many times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .cells import Cell, Settings, cell_stream
from .kernel import TASKS, draw_plans, fit_predict, penalty
from .measures import METHODS, REPLAYED, differences, median_of, summarise

N_SETS = 24
N_RESAMPLES = 25
SHARE = {"simulated": 0.1, "boston": 0.7}


def run_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return the compared quantities for each test set, by measure and quantity."""
    n, k = cell["n"], round(SHARE[cell["data"]] * cell["n"])
    collected = []
    for number in range(N_SETS):
        task = TASKS[cell["data"]](cell_stream(settings.seed, cell.key + " points", number))
        predictions = np.empty((len(METHODS), repetitions, len(task.y_test)))
        for repetition in range(repetitions):
            # The same streams for every test set: what differs between sets is, mostly, the points.
            rng = cell_stream(settings.seed, cell.key, repetition)
            X, y = task.draw(n, rng)
            for method, plan in enumerate(draw_plans(n, N_RESAMPLES, k, rng)):
                predictions[method, repetition], _ = fit_predict(X, y, task.X_test, plan, penalty(n))
        collected.append(_quantities(summarise(predictions, task.y_test)))
    return {
        measure: {
            quantity: [one[measure][quantity] for one in collected] for quantity in collected[0][measure]
        }
        for measure in collected[0]
    }


def _quantities(results: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return what `compare` compares: log medians, reductions and shares, by measure."""
    found: dict[str, dict[str, float]] = {}
    for measure in ("variance", "rmse"):
        logs = {method: float(np.log(median_of(results, measure, method))) for method in METHODS}
        reductions = {f"{method}/plain": logs[method] - logs["plain"] for method in REPLAYED}
        shares = {
            f"{method} > 0": float((differences(results, measure, method) > 0).mean()) for method in REPLAYED
        }
        found[measure] = {**logs, **reductions, **shares}
    return found
