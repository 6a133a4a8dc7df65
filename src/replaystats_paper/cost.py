"""What kernel ridge costs and buys over n.

Sizes grow with n as the paper says, with constants (n^(1/8) alone would be 2.0 to 3.3 for every n that can be
run); all methods share the kernel exp(-6 |x - x'|^2) and the paper's lambda = n^(-2/3). Seconds are those of
a fit on one core; errors and variances are those of predictions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from replaystats import ReplayKernelRidge, make_plan, replicate
from replaystats.basis import Basis, Nystroem, RandomFourier
from replaystats.moments import ridge_moments
from replaystats.plans import ResamplingPlan
from replaystats.simulate import two_bumps, two_bumps_function
from replaystats.solvers import Solution, Solver
from replaystats.toolkit import ArrayLike, FloatArray

from .cells import Cell, Settings, cell_stream
from .kernel import penalty, whole
from .measures import rmse

LARGEST_FULL = 4000  # beyond, a full fit takes a minute
FEWEST_LARGE = 3  # data sets beyond
GAMMA = 6.0  # 1 / p in units of the standard deviation of U[0, 1]
N_TEST = 300

Predictor = Callable[[FloatArray], FloatArray]
# Methods whose features are drawn at random, apart from the subsets.
RANDOM_FEATURES = ("claimed", "example1", "example2", "nystroem")

# Example 1 with smoothness s = 1, p = 2 inputs and delta = 1/5: B = n^(2/5), k = n^(4/5), q = n^(2/5) log n.
DELTA = 0.2

LABELS = {
    "full": "full kernel ridge",
    "claimed": "replay, (B, k, q) = (n^13/8 / 20, 6 n^1/8, 6 n^1/8)",
    "exact": "replay, exact kernel, (B, k) = (n^13/8 / 20, 6 n^1/8)",
    "example1": "replay, Example 1 (s = 1, delta = 1/5)",
    "example2": "replay, Example 2 (n, n^1/2, n^1/2)",
    "nystroem": "Nystroem, 4 n^1/2 landmarks",
    "divide": "divide and conquer, n^1/3 parts",
}
CLAIMED = {
    "full": 3.0,
    "claimed": 2.0,
    "exact": 2.0,
    "example1": 2.0,
    "example2": 2.5,
    "nystroem": 2.0,
    "divide": 7 / 3,
}


def sizes(method: str, n: int) -> dict[str, int]:
    """Return B, k and q of a method at n, rounded up.

    Examples
    --------
    >>> sizes("claimed", 500), sizes("claimed", 16_000)
    ({'B': 1216, 'k': 14, 'q': 14}, {'B': 339364, 'k': 21, 'q': 21})
    """
    if method in ("claimed", "exact"):
        small = math.ceil(6 * n ** (1 / 8))
        return {"B": math.ceil(n ** (13 / 8) / 20), "k": small, "q": small}
    if method == "example1":
        return {
            "B": math.ceil(n ** (2 * DELTA)),
            "k": math.ceil(n ** (1 - DELTA)),
            "q": math.ceil(n ** ((1 - DELTA) / 2) * math.log(n)),
        }
    return {"B": n, "k": math.ceil(n**0.5), "q": math.ceil(n**0.5)}


def run_scaling_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return the shortest fit time in seconds, mean RMSE and median variance over a few data sets.

    A method with random features is run twice on every data set: with one draw of the features for all data
    sets ("variance"), and with a new draw for each ("variance_redrawn"), which is what its user has.
    """
    method, n = cell["method"], cell["n"]
    repetitions = data_sets(n, repetitions)
    key = f"scaling n={n}"  # the same data for all methods
    X_test = cell_stream(settings.seed, "scaling test points").random((N_TEST, 2))
    draws = (True, False) if method in RANDOM_FEATURES else (True,)
    seconds, predictions = [], np.empty((len(draws), repetitions, N_TEST))
    for repetition in range(repetitions):
        X, y = two_bumps(n, random_state=cell_stream(settings.seed, key, repetition))
        for i, fixed in enumerate(draws):
            features = cell_stream(settings.seed, f"{cell.key} features", 0 if fixed else 1 + repetition)
            subsets = cell_stream(settings.seed, f"{cell.key} subsets", repetition)
            started = time.process_time()
            predict = fit_method(method, X, y, features, subsets)
            seconds.append(time.process_time() - started)
            predictions[i, repetition] = predict(X_test)
    errors = rmse(predictions, two_bumps_function(X_test)).mean(axis=1)
    variances = np.median(predictions.var(axis=1, ddof=1), axis=-1)
    results = {"seconds": min(seconds), "rmse": float(errors[-1]), "variance": float(variances[0])}
    return results | ({"variance_redrawn": float(variances[-1])} if len(draws) > 1 else {})


def data_sets(n: int, repetitions: int) -> int:
    """Return how many data sets a cell has: fewer where a fit takes long.

    Examples
    --------
    >>> data_sets(500, 5), data_sets(16_000, 5)
    (5, 3)
    """
    return repetitions if n <= LARGEST_FULL else min(repetitions, FEWEST_LARGE)


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


def fit_method(
    method: str, X: FloatArray, y: FloatArray, features: np.random.Generator, subsets: np.random.Generator
) -> Predictor:
    """Fit one of the methods of `LABELS`; return what predicts."""
    n = len(y)
    if method == "divide":
        part = n // round(n ** (1 / 3))
        plan = make_plan(n, statistic="partition", subsample_size=part, random_state=subsets)
    elif method in ("full", "nystroem"):
        plan = whole(n)
    else:
        size = sizes(method, n)
        plan = make_plan(
            n, statistic="U", subsample_size=size["k"], n_resamples=size["B"], random_state=subsets
        )
    if method not in RANDOM_FEATURES:
        return _fit_kernel(X, y, plan)
    if method == "nystroem":
        basis: Basis = Nystroem(math.ceil(4 * n**0.5), gamma=GAMMA)
    else:
        q = sizes(method, n)["q"]
        basis = RandomFourier(q + q % 2, gamma=GAMMA)  # a cosine and a sine each
    return _fit_features(X, y, basis.fit(X, random_state=features), plan)


@dataclass(frozen=True, slots=True)
class BareRidge(Solver):
    """Add alpha I and solve, nothing else: condition numbers would be most of the time that is measured."""

    alpha: float

    def solve(self, A: FloatArray, b: FloatArray, *, symmetric: bool = False) -> Solution:
        """See the base class; the condition stays unknown."""
        answers = np.linalg.solve(A + self.alpha * np.eye(A.shape[-1]), b[..., None])
        theta = np.asarray(answers[..., 0], dtype=np.float64)
        failed = np.asarray(~np.isfinite(theta).all(axis=1))
        return Solution(
            theta=theta,
            failed=failed,
            condition=np.full(len(A), np.nan),
            truncated=np.zeros(len(A), dtype=np.intp),
        )


def _fit_features(X: FloatArray, y: FloatArray, basis: Basis, plan: ResamplingPlan) -> Predictor:
    """Ridge in feature space on every subset of the plan; coefficients are averaged.

    A subset of no more rows than features is solved in its rows: the same answer from less.
    """
    if plan.subsample_size <= basis.n_basis:
        model = ReplayKernelRidge(penalty(len(y)), kernel="linear", standardize=None, method="subsets")
        fitted = model.fit(basis(X), y, plan=plan)
        return lambda points: np.asarray(fitted.predict(basis(points)))
    moments = ridge_moments(X, y, basis)
    theta = replicate(moments, plan, solver=BareRidge(penalty(len(y)))).theta.mean(axis=0)
    return lambda points: np.asarray(basis(points) @ theta)
