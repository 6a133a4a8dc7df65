"""Kernel ridge regression as the paper runs it (R's KRLS 1.0-0), on simulated data and on Boston housing.

And what stands beside it: lambda chosen by leave-one-out, how far the fixed test points move the numbers, and
the tables of times, in processor seconds on one thread, so that other programs do not count.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from replaystats import ReplayKernelRidge
from replaystats.plans import ResamplingPlan, make_plan, plan_from_indices
from replaystats.simulate import two_bumps, two_bumps_function
from replaystats.toolkit import FloatArray
from replaystats.tuning import kernel_penalties

from .cells import Cell, Settings, cell_stream
from .measures import MEASURES, METHODS, REPLAYED, quantities, rmse, summarise
from .sources import Source, boston

N_TEST = 100


def simulated_source(rng: np.random.Generator, n_test: int = N_TEST) -> Source:
    """Return the paper's simulated regression with freshly drawn test points.

    Its RMSE is measured against targets with their noise, as the paper's; errors against the regression
    function stand beside it.
    """
    X, y = two_bumps(n_test, random_state=rng)
    return Source(lambda n, rng: two_bumps(n, random_state=rng), X, y, also={"true": two_bumps_function(X)})


SOURCES = {"simulated": simulated_source, "boston": boston}


def penalty(n: int) -> float:
    """Return the paper's lambda, n^(-2/3) with the full n also on subsets."""
    return float(n ** (-2 / 3))


def fit_predict(
    X: FloatArray, y: FloatArray, X_test: FloatArray, plan: ResamplingPlan, alpha: float
) -> FloatArray:
    """Return the average prediction (m,) of one fit per subset."""
    return np.asarray(fit_paper(X, y, plan, alpha).predict(X_test))


def fit_paper(X: FloatArray, y: FloatArray, plan: ResamplingPlan, alpha: float) -> ReplayKernelRidge:
    """Fit on every subset as KRLS 1.0-0 does: own units, kernel exp(-|z - z'|^2 / p), lambda as given."""
    model = ReplayKernelRidge(alpha, kernel="rbf", gamma=None, standardize="subset", method="subsets")
    return model.fit(X, y, plan=plan)


def whole(n: int) -> ResamplingPlan:
    """Return the plan whose one subset is the whole data: the plain estimator."""
    return plan_from_indices(np.arange(n)[None], n)


def draw_plans(n: int, n_resamples: int, k: int, rng: np.random.Generator) -> list[ResamplingPlan]:
    """Return the plans of plain, U and V."""
    options: dict[str, Any] = {"subsample_size": k, "n_resamples": n_resamples, "random_state": rng}
    return [whole(n), *(make_plan(n, statistic=statistic, **options) for statistic in REPLAYED)]


def paper_fits(
    X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator, B: int, k: int
) -> FloatArray:
    """Return the predictions of plain, U and V, (3, m)."""
    plans = draw_plans(len(y), B, k, rng)
    return np.array([fit_predict(X, y, points, plan, penalty(len(y))) for plan in plans])


ALPHAS = np.logspace(-4, 2, 49)
ROWS = ("plain", "U", "V", "loo")


def fit_predict_loo(X: FloatArray, y: FloatArray, X_test: FloatArray) -> tuple[FloatArray, float]:
    """Fit all the data, in KRLS's units, with the lambda of smallest leave-one-out error.

    Returns
    -------
    predictions : ndarray of shape (m,)
    alpha : float
        The chosen lambda.

    Examples
    --------
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> predictions, alpha = fit_predict_loo(x, np.sin(6 * x[:, 0]), x)
    >>> bool(abs(predictions - np.sin(6 * x[:, 0])).max() < 0.01)
    True
    """
    points = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    K = np.exp(-cdist(points, points, "sqeuclidean") / X.shape[1])
    alpha = kernel_penalties(K, (y - y.mean()) / y.std(ddof=1), ALPHAS).best
    return fit_predict(X, y, X_test, whole(len(y)), alpha), alpha


def run_tuned_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Compute plain, U, V and the tuned fit on the same training sets; errors against the function."""
    source = SOURCES[cell["data"]](cell_stream(settings.seed, f"{cell['data']} test points"))
    n = cell["n"]
    predictions = np.empty((len(ROWS), repetitions, len(source.truth)))
    alphas = np.empty(repetitions)
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        X, y = source.draw(n, rng)
        predictions[:-1, repetition] = paper_fits(X, y, source.points, rng, cell["B"], cell["k"])
        predictions[-1, repetition], alphas[repetition] = fit_predict_loo(X, y, source.points)
    variance = np.median(predictions.var(axis=1, ddof=1), axis=1)
    error = rmse(predictions, source.also.get("true", source.truth)).mean(axis=1)
    return {
        "variance": dict(zip(ROWS, variance.tolist(), strict=True)),
        "rmse": dict(zip(ROWS, error.tolist(), strict=True)),
        "paper_alpha": penalty(n),
        "loo_alpha": float(np.median(alphas)),
    }


N_SETS = 24
N_RESAMPLES = 25
SHARE = {"simulated": 0.1, "boston": 0.7}


def run_test_sets_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return the compared quantities for each test set, by measure and quantity."""
    n, k = cell["n"], round(SHARE[cell["data"]] * cell["n"])
    collected = []
    for number in range(N_SETS):
        source = SOURCES[cell["data"]](cell_stream(settings.seed, cell.key + " points", number))
        predictions = np.empty((len(METHODS), repetitions, len(source.truth)))
        for repetition in range(repetitions):
            # The same streams for every test set: what differs between sets is, mostly, the points.
            rng = cell_stream(settings.seed, cell.key, repetition)
            X, y = source.draw(n, rng)
            predictions[:, repetition] = paper_fits(X, y, source.points, rng, N_RESAMPLES, k)
        results = summarise(predictions, source.truth)
        collected.append({measure: quantities(results, measure) for measure in MEASURES})
    return {
        measure: {name: [one[measure][name] for one in collected] for name in collected[0][measure]}
        for measure in MEASURES
    }


def run_table_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Time plain and replayed fits, without and with the prediction of 100 points, in seconds.

    The three take turns on every data set, each going first equally often, so that whatever slows the machine
    down slows all of them; `ratios` holds replayed / plain of every turn, prediction included.
    """
    source = simulated_source(cell_stream(settings.seed, "simulated test points"))
    n, alpha = cell["n"], penalty(cell["n"])
    turns = budgeted(repetitions, n)
    seconds = np.zeros((2, turns, len(METHODS)))
    for turn in range(turns):
        rng = cell_stream(settings.seed, cell.key, turn)
        X, y = source.draw(n, rng)
        plans = draw_plans(n, cell["B"], cell["k"], rng)
        for step in range(len(METHODS)):
            method = (turn + step) % len(METHODS)
            started = time.process_time()
            model = fit_paper(X, y, plans[method], alpha)
            fitted = time.process_time()
            model.predict(source.points)
            seconds[:, turn, method] = fitted - started, time.process_time() - started
    fit, total = seconds
    return {
        "turns": turns,
        "fit": dict(zip(METHODS, fit.mean(axis=0).tolist(), strict=True)),
        "fit_and_predict": dict(zip(METHODS, total.mean(axis=0).tolist(), strict=True)),
        "ratios": {m: (total[:, i] / total[:, 0]).tolist() for i, m in enumerate(METHODS) if i > 0},
    }


def budgeted(repetitions: int, n: int) -> int:
    """Return how often to repeat what grows with n: all repetitions to n = 500, then fewer, at least 9."""
    return min(repetitions, max(9, round(repetitions * (500 / n) ** 2)))
