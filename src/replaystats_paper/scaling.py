"""The cost claim of kernel ridge: measured time against n, and the accuracy bought with it.

All methods share the kernel exp(-6 |x - x'|^2) and the paper's lambda = n^(-2/3); errors are against the true
regression function. Time is that of the fit, in seconds of one core.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from replaystats import ReplayKernelRidge, ResamplingPlan, make_plan, replicate, ridge_moments
from replaystats.basis import Basis, Nystroem, RandomFourier
from replaystats.simulate import two_bumps, two_bumps_function
from replaystats.solvers import Ridge
from replaystats.toolkit import ArrayLike, FloatArray

from .cells import Cell, Settings, cell_stream
from .kernel import penalty, whole
from .measures import rmse

GAMMA = 6.0  # 1 / p in units of the standard deviation of U[0, 1]
N_TEST = 2000

Predictor = Callable[[FloatArray], FloatArray]
Fit = Callable[[FloatArray, FloatArray, np.random.Generator], Predictor]

# Example 1 with smoothness s = 1, p = 2 inputs and delta = 1/5: B = n^(2/5), k = n^(4/5), q = n^(2/5) log n.
DELTA = 0.2

LABELS = {
    "full": "full kernel ridge",
    "cheapest": "replay, (B, k, q) = (n^13/8, n^1/8, n^1/8)",
    "example1": "replay, Example 1 (s = 1, delta = 1/5)",
    "example2": "replay, Example 2 (n, n^1/2, n^1/2)",
    "nystroem": "Nystroem, 4 n^1/2 landmarks",
    "divide": "divide and conquer, n^1/3 parts",
}
CLAIMED = {"full": 3.0, "cheapest": 2.0, "example1": 2.0, "example2": 2.5, "nystroem": 2.0, "divide": 7 / 3}


def sizes(method: str, n: int) -> dict[str, int]:
    """Return B, k and q of a method at n, rounded up."""
    exponents = {"cheapest": (13 / 8, 1 / 8, 1 / 8), "example2": (1.0, 0.5, 0.5)}
    if method == "example1":
        return {
            "B": math.ceil(n ** (2 * DELTA)),
            "k": math.ceil(n ** (1 - DELTA)),
            "q": math.ceil(n ** ((1 - DELTA) / 2) * math.log(n)),
        }
    return {name: math.ceil(n**exponent) for name, exponent in zip("Bkq", exponents[method], strict=True)}


def run_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return the shortest fit time in seconds and the mean RMSE over a few data sets."""
    fit = _FITS[cell["method"]]
    seconds, errors = [], []
    for repetition in range(repetitions):
        # The same data for all methods.
        rng = cell_stream(settings.seed, f"scaling n={cell['n']}", repetition)
        X, y = two_bumps(cell["n"], rng=rng)
        X_test = rng.random((N_TEST, 2))
        started = time.process_time()
        predict = fit(X, y, rng)
        seconds.append(time.process_time() - started)
        errors.append(float(rmse(predict(X_test), two_bumps_function(X_test))))
    return {"seconds": min(seconds), "rmse": float(np.mean(errors))}


def fitted_exponent(n: ArrayLike, seconds: ArrayLike) -> float:
    """Return the slope of log time against log n.

    Examples
    --------
    >>> round(fitted_exponent([10, 100, 1000], [1.0, 100.0, 10000.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(n), np.log(seconds), 1)[0])


def _fit_kernel(X: FloatArray, y: FloatArray, plan: ResamplingPlan) -> Predictor:
    """Exact kernel ridge on every subset of the plan; predictions are averaged."""
    model = ReplayKernelRidge(penalty(len(y)), kernel="rbf", gamma=GAMMA, standardize=None, method="subsets")
    fitted = model.fit(X, y, plan=plan)
    return lambda points: np.asarray(fitted.predict(points))


def _full(X: FloatArray, y: FloatArray, rng: np.random.Generator) -> Predictor:
    return _fit_kernel(X, y, whole(len(y)))


def _divide(X: FloatArray, y: FloatArray, rng: np.random.Generator) -> Predictor:
    n = len(y)
    plan = make_plan(n, statistic="partition", subsample_size=n // round(n ** (1 / 3)), rng=rng)
    return _fit_kernel(X, y, plan)


def _fit_features(X: FloatArray, y: FloatArray, basis: Basis, plan: ResamplingPlan) -> Predictor:
    """Ridge in feature space on every subset of the plan; coefficients are averaged."""
    moments = ridge_moments(X, y, basis)
    theta = replicate(moments, plan, solver=Ridge(penalty(len(y)))).theta.mean(axis=0)
    return lambda points: np.asarray(basis(points) @ theta)


def _replay(method: str) -> Fit:
    def fit(X: FloatArray, y: FloatArray, rng: np.random.Generator) -> Predictor:
        size = sizes(method, len(y))
        even = size["q"] + size["q"] % 2  # a cosine and a sine for each frequency
        basis = RandomFourier(even, gamma=GAMMA).fit(X, rng=rng)
        plan = make_plan(len(y), statistic="U", subsample_size=size["k"], n_resamples=size["B"], rng=rng)
        return _fit_features(X, y, basis, plan)

    return fit


def _nystroem(X: FloatArray, y: FloatArray, rng: np.random.Generator) -> Predictor:
    basis = Nystroem(math.ceil(4 * len(y) ** 0.5), gamma=GAMMA).fit(X, rng=rng)
    return _fit_features(X, y, basis, whole(len(y)))


_FITS: dict[str, Fit] = {
    "full": _full,
    "cheapest": _replay("cheapest"),
    "example1": _replay("example1"),
    "example2": _replay("example2"),
    "nystroem": _nystroem,
    "divide": _divide,
}
