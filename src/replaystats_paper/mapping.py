"""The map of kernel ridge as the paper fits it: time, variance, bias and error over n, k and B.

On the same data sets and test points: the full fit, replay over k and B, divide and conquer, Nystroem
features, and a full fit whose lambda is chosen by leave-one-out. Errors are against the true function.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from replaystats import make_plan, replicate, ridge_moments
from replaystats.basis import Nystroem
from replaystats.simulate import two_bumps_function
from replaystats.solvers import Ridge
from replaystats.toolkit import FloatArray

from . import kernel, tuned
from .cells import Cell, Settings, cell_stream

SIZES = ((20, 50), (20, 200), (100, 50), (100, 200))  # (k, B)
PLAIN = "full fit"
LARGEST_FULL, LARGEST_TUNED = 4000, 1000
FEWEST, MOST = 6, 60

Predict = Callable[[FloatArray, FloatArray, FloatArray, np.random.Generator], FloatArray]


def run_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return time, variance, squared bias and RMSE of every method at one n."""
    n = cell["n"]
    repetitions = min(repetitions, max(FEWEST, round(MOST * (500 / n) ** 1.2)))
    task = kernel.simulated_task(cell_stream(settings.seed, "simulated test points"))
    truth = two_bumps_function(task.X_test)
    methods = methods_at(n)
    predictions = np.empty((len(methods), repetitions, len(truth)))
    seconds = np.empty((len(methods), repetitions))
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        X, y = task.draw(n, rng)
        for i in np.roll(np.arange(len(methods)), repetition):  # they take turns
            started = time.process_time()
            predictions[i, repetition] = list(methods.values())[i](X, y, task.X_test, rng)
            seconds[i, repetition] = time.process_time() - started
    variance = predictions.var(axis=1, ddof=1)
    # The mean over repetitions has a variance of its own, which is no bias.
    bias = (predictions.mean(axis=1) - truth) ** 2 - variance / repetitions
    mse = ((predictions - truth) ** 2).mean(axis=(1, 2))
    return {
        "repetitions": repetitions,
        "rows": {
            name: {
                "seconds": float(np.median(seconds[i])),
                "variance": float(variance[i].mean()),
                "bias2": float(bias[i].mean()),
                "rmse": math.sqrt(mse[i]),
            }
            for i, name in enumerate(methods)
        },
    }


def methods_at(n: int) -> dict[str, Predict]:
    """Return what is compared at n; a full fit only as far as it takes seconds."""
    methods: dict[str, Predict] = {}
    if n <= LARGEST_FULL:
        methods[PLAIN] = full_fit
    for k, n_resamples in SIZES:
        if k < n / 2:
            methods[f"U, k = {k}, B = {n_resamples}"] = _replayed(k, n_resamples)
    methods["divide and conquer, parts of 100"] = divide_and_conquer
    methods["Nystroem, 100 landmarks"] = nystroem
    if n <= LARGEST_TUNED:
        methods["full fit, lambda by leave-one-out"] = _tuned
    return methods


def window(rows: dict[str, dict[str, float]]) -> list[str]:
    """Return the replayed methods that beat the full fit in time, variance and error together."""
    if PLAIN not in rows:
        return []
    measures = ("seconds", "variance", "rmse")
    return [
        name
        for name, row in rows.items()
        if name.startswith("U,") and all(row[measure] < rows[PLAIN][measure] for measure in measures)
    ]


def full_fit(X: FloatArray, y: FloatArray, X_test: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Predict with the paper's fit on all the data."""
    return kernel.fit_predict(X, y, X_test, kernel.whole(len(y)), kernel.penalty(len(y)))[0]


def _replayed(k: int, n_resamples: int) -> Predict:
    def predict(X: FloatArray, y: FloatArray, X_test: FloatArray, rng: np.random.Generator) -> FloatArray:
        plan = make_plan(len(y), statistic="U", subsample_size=k, n_resamples=n_resamples, rng=rng)
        return kernel.fit_predict(X, y, X_test, plan, kernel.penalty(len(y)))[0]

    return predict


def divide_and_conquer(
    X: FloatArray, y: FloatArray, X_test: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Average the paper's fits on disjoint parts of 100."""
    plan = make_plan(len(y), statistic="partition", subsample_size=min(100, len(y)), rng=rng)
    return kernel.fit_predict(X, y, X_test, plan, kernel.penalty(len(y)))[0]


def nystroem(X: FloatArray, y: FloatArray, X_test: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Ridge in the features of 100 landmarks."""
    basis = Nystroem(min(100, len(y)), gamma=6.0).fit(X, rng=rng)  # 1 / p in units of U[0, 1]
    theta = replicate(
        ridge_moments(X, y, basis), kernel.whole(len(y)), solver=Ridge(kernel.penalty(len(y)))
    ).theta[0]
    return np.asarray(basis(X_test) @ theta)


def _tuned(X: FloatArray, y: FloatArray, X_test: FloatArray, rng: np.random.Generator) -> FloatArray:
    return tuned.fit_predict_loo(X, y, X_test)[0]
