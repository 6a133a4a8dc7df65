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
from .measures import METHODS, rmse

N_SETS = 24
N_RESAMPLES = 25
SHARE = {"simulated": 0.1, "boston": 0.7}


def run_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return log medians of variance and RMSE for each test set, by measure and method."""
    n, k = cell["n"], round(SHARE[cell["data"]] * cell["n"])
    logs = np.empty((2, len(METHODS), N_SETS))
    for number in range(N_SETS):
        task = TASKS[cell["data"]](cell_stream(settings.seed, cell.key + " points", number))
        predictions = np.empty((len(METHODS), repetitions, len(task.y_test)))
        for repetition in range(repetitions):
            # The same streams for every test set: what differs between sets is, mostly, the points.
            rng = cell_stream(settings.seed, cell.key, repetition)
            X, y = task.draw(n, rng)
            for method, plan in enumerate(draw_plans(n, N_RESAMPLES, k, rng)):
                predictions[method, repetition], _ = fit_predict(X, y, task.X_test, plan, penalty(n))
        logs[0, :, number] = np.log(np.median(predictions.var(axis=1, ddof=1), axis=1))
        logs[1, :, number] = np.log(np.median(rmse(predictions, task.y_test), axis=1))
    return {
        measure: dict(zip(METHODS, logs[i].tolist(), strict=True))
        for i, measure in enumerate(("variance", "rmse"))
    }
