"""Kernel ridge regression as the paper runs it (R's KRLS 1.0-0), on simulated data and on Boston housing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from replaystats import ReplayKernelRidge, load_boston
from replaystats.plans import ResamplingPlan, make_plan, plan_from_indices
from replaystats.simulate import two_bumps, two_bumps_function
from replaystats.toolkit import FloatArray

from .cells import Cell, Settings, cell_stream
from .measures import METHODS, rmse, summarise

N_TEST = 100


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Where training data come from, and the test points that every repetition shares.

    Attributes
    ----------
    X_test : ndarray of shape (m, p)
    y_test : ndarray of shape (m,)
        Targets with their noise: what the paper's RMSE is measured against.
    f_test : ndarray of shape (m,)
        What the predictions should be: the regression function, or `y_test` where nobody knows it.
    draw : callable
        ``draw(n, rng)`` gives training data.
    """

    X_test: FloatArray
    y_test: FloatArray
    f_test: FloatArray
    draw: Callable[[int, np.random.Generator], tuple[FloatArray, FloatArray]]


def simulated_task(rng: np.random.Generator, n_test: int = N_TEST) -> Task:
    """Return the paper's simulated regression with freshly drawn test points."""
    X_test, y_test = two_bumps(n_test, rng=rng)
    return Task(X_test, y_test, two_bumps_function(X_test), lambda n, rng: two_bumps(n, rng=rng))


def boston_task(rng: np.random.Generator, n_test: int = N_TEST) -> Task:
    """Return Boston housing with `n_test` rows held out; training rows come from the others.

    A training set without variation in a column (chas) cannot be standardised; it is drawn again.
    """
    X, y = _boston()
    order = rng.permutation(len(y))
    test, pool = order[:n_test], order[n_test:]

    def draw(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        while True:
            rows = rng.choice(pool, n, replace=False)
            if (X[rows].max(axis=0) > X[rows].min(axis=0)).all():
                return X[rows], y[rows]

    return Task(X[test], y[test], y[test], draw)


TASKS = {"simulated": simulated_task, "boston": boston_task}


def penalty(n: int) -> float:
    """Return the paper's lambda, n^(-2/3) with the full n also on subsets."""
    return float(n ** (-2 / 3))


def fit_predict(
    X: FloatArray, y: FloatArray, X_test: FloatArray, plan: ResamplingPlan, alpha: float
) -> tuple[FloatArray, int]:
    """Return the average prediction (m,) of one fit per subset, and how many subsets were drawn again."""
    fitted = fit_paper(X, y, plan, alpha)
    return fitted.predict(X_test), fitted.n_redrawn_


def fit_paper(X: FloatArray, y: FloatArray, plan: ResamplingPlan, alpha: float) -> ReplayKernelRidge:
    """Fit on every subset as KRLS 1.0-0 does: own units, kernel exp(-|z - z'|^2 / p), lambda as given."""
    model = ReplayKernelRidge(alpha, kernel="rbf", gamma=None, standardize="subset", method="subsets")
    return model.fit(X, y, plan=plan)


def whole(n: int) -> ResamplingPlan:
    """Return the plan whose one subset is the whole data: the plain estimator."""
    return plan_from_indices(np.arange(n)[None], n)


def draw_plans(n: int, n_resamples: int, k: int, rng: np.random.Generator) -> list[ResamplingPlan]:
    """Return the plans of plain, U and V."""
    return [
        whole(n),
        *(
            make_plan(n, statistic=statistic, subsample_size=k, n_resamples=n_resamples, rng=rng)
            for statistic in ("U", "V")
        ),
    ]


def run_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Compute one cell: M training sets, plain and replayed, on one fixed set of test points."""
    name = "boston" if cell.study == "boston" else "simulated"
    task = TASKS[name](cell_stream(settings.seed, f"{name} test points"))
    n, alpha = cell["n"], penalty(cell["n"])
    predictions = np.empty((len(METHODS), repetitions, len(task.y_test)))
    redrawn = np.zeros(len(METHODS), dtype=int)
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        X, y = task.draw(n, rng)
        for method, plan in enumerate(draw_plans(n, cell["B"], cell["k"], rng)):
            predictions[method, repetition], again = fit_predict(X, y, task.X_test, plan, alpha)
            redrawn[method] += again
    results: dict[str, Any] = summarise(predictions, task.y_test)
    if name == "simulated":  # the paper's errors contain the noise of the test targets; these do not
        results["rmse_true"] = dict(zip(METHODS, rmse(predictions, task.f_test).tolist(), strict=True))
    # One draw in (1 + redraws per subset) was kept: the share that was thrown away.
    kept = repetitions * cell["B"]
    results["redrawn"] = {
        method: int(count) / (kept + int(count)) for method, count in zip(METHODS, redrawn, strict=True)
    }
    return {"krr": results}


@lru_cache(maxsize=1)
def _boston() -> tuple[FloatArray, FloatArray]:
    return load_boston()
