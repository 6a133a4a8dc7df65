"""What kernel ridge costs and buys over n, k and B.

Two kinds of cells. Scaling: sizes grow with n as the paper says, with constants (n^(1/8) alone would be
2.0 to 3.3 for every n that can be run); all methods share the kernel exp(-6 |x - x'|^2) and the paper's
lambda = n^(-2/3); time is that of the fit. The map: fits as the published numbers have them, over n, k and B,
beside divide and conquer, Nystroem features and a full fit whose lambda is chosen by leave-one-out; time
includes the prediction. Seconds are of one core; errors and variances are those of predictions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from replaystats import (
    ReplayKernelRidge,
    ResamplingPlan,
    config_context,
    get_config,
    make_plan,
    replicate,
    ridge_moments,
)
from replaystats.basis import Basis, Nystroem, RandomFourier
from replaystats.simulate import two_bumps, two_bumps_function
from replaystats.solvers import Ridge, Solution, Solver
from replaystats.toolkit import ArrayLike, FloatArray

from .cells import Cell, Settings, cell_stream
from .kernel import fit_predict, fit_predict_loo, penalty, simulated_source, whole
from .measures import rmse

LARGEST_FULL = 4000  # beyond, a full fit takes a minute
FEWEST_LARGE = 3  # data sets beyond
FEWEST, MOST = 6, 60  # data sets of the map
GAMMA = 6.0  # 1 / p in units of the standard deviation of U[0, 1]
N_TEST = 300

Predictor = Callable[[FloatArray], FloatArray]
Fit = Callable[[FloatArray, FloatArray, np.random.Generator, np.random.Generator], Predictor]
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
    repetitions = data_sets(n, repetitions, "scaling")
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
            predict = _FITS[method](X, y, features, subsets)
            seconds.append(time.process_time() - started)
            predictions[i, repetition] = predict(X_test)
    errors = rmse(predictions, two_bumps_function(X_test)).mean(axis=1)
    variances = np.median(predictions.var(axis=1, ddof=1), axis=-1)
    results = {"seconds": min(seconds), "rmse": float(errors[-1]), "variance": float(variances[0])}
    return results | ({"variance_redrawn": float(variances[-1])} if len(draws) > 1 else {})


def data_sets(n: int, repetitions: int, study: str) -> int:
    """Return how many data sets a cell of the map or of the scaling study has: fewer the larger they are.

    Examples
    --------
    >>> data_sets(500, 60, "map"), data_sets(16_000, 60, "map"), data_sets(16_000, 5, "scaling")
    (60, 6, 3)
    """
    if study == "map":
        affordable: int = round(MOST * (500 / n) ** 1.2)
        return min(repetitions, max(FEWEST, affordable))
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


def _fit_full(
    X: FloatArray, y: FloatArray, features: np.random.Generator, subsets: np.random.Generator
) -> Predictor:
    return _fit_kernel(X, y, whole(len(y)))


def _fit_divide(
    X: FloatArray, y: FloatArray, features: np.random.Generator, subsets: np.random.Generator
) -> Predictor:
    n = len(y)
    size = n // round(n ** (1 / 3))
    return _fit_kernel(X, y, make_plan(n, statistic="partition", subsample_size=size, random_state=subsets))


def _exact(
    X: FloatArray, y: FloatArray, features: np.random.Generator, subsets: np.random.Generator
) -> Predictor:
    return _fit_kernel(X, y, _plan("exact", len(y), subsets))


def _plan(method: str, n: int, rng: np.random.Generator) -> ResamplingPlan:
    size = sizes(method, n)
    return make_plan(n, statistic="U", subsample_size=size["k"], n_resamples=size["B"], random_state=rng)


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


def _replay(method: str) -> Fit:
    def fit(
        X: FloatArray, y: FloatArray, features: np.random.Generator, subsets: np.random.Generator
    ) -> Predictor:
        q = sizes(method, len(y))["q"]
        basis = RandomFourier(q + q % 2, gamma=GAMMA).fit(
            X, random_state=features
        )  # a cosine and a sine each
        return _fit_features(X, y, basis, _plan(method, len(y), subsets))

    return fit


def _fit_nystroem(
    X: FloatArray, y: FloatArray, features: np.random.Generator, subsets: np.random.Generator
) -> Predictor:
    basis = Nystroem(math.ceil(4 * len(y) ** 0.5), gamma=GAMMA).fit(X, random_state=features)
    return _fit_features(X, y, basis, whole(len(y)))


_FITS: dict[str, Fit] = {
    "full": _fit_full,
    "claimed": _replay("claimed"),
    "exact": _exact,
    "example1": _replay("example1"),
    "example2": _replay("example2"),
    "nystroem": _fit_nystroem,
    "divide": _fit_divide,
}


SIZES = ((20, 50), (20, 200), (100, 50), (100, 200))  # (k, B)
PLAIN = "full fit"
LARGEST_TUNED = 1000

Predict = Callable[[FloatArray, FloatArray, FloatArray, np.random.Generator], FloatArray]


def run_map_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return time, variance, squared bias and RMSE of every method at one n."""
    n = cell["n"]
    repetitions = data_sets(n, repetitions, "map")
    source = simulated_source(cell_stream(settings.seed, "simulated test points"))
    truth = source.also["true"]
    methods = methods_at(n)
    predictions = np.empty((len(methods), repetitions, len(truth)))
    seconds = np.empty((len(methods), repetitions))
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        X, y = source.draw(n, rng)
        for i in np.roll(np.arange(len(methods)), repetition):  # they take turns
            started = time.process_time()
            predictions[i, repetition] = list(methods.values())[i](X, y, source.points, rng)
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
    """Predict with the paper's fit on all the data, whose matrix may need more than the memory budget."""
    needed = max(get_config()["memory_budget"], 24 * len(y) ** 2)
    with config_context(memory_budget=needed):
        return fit_predict(X, y, X_test, whole(len(y)), penalty(len(y)))[0]


def _replayed(k: int, n_resamples: int) -> Predict:
    def predict(X: FloatArray, y: FloatArray, X_test: FloatArray, rng: np.random.Generator) -> FloatArray:
        plan = make_plan(len(y), statistic="U", subsample_size=k, n_resamples=n_resamples, random_state=rng)
        return fit_predict(X, y, X_test, plan, penalty(len(y)))[0]

    return predict


def divide_and_conquer(
    X: FloatArray, y: FloatArray, X_test: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Average the paper's fits on disjoint parts of 100."""
    plan = make_plan(len(y), statistic="partition", subsample_size=min(100, len(y)), random_state=rng)
    return fit_predict(X, y, X_test, plan, penalty(len(y)))[0]


def nystroem(X: FloatArray, y: FloatArray, X_test: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Ridge in the features of 100 landmarks."""
    basis = Nystroem(min(100, len(y)), gamma=6.0).fit(X, random_state=rng)  # 1 / p in units of U[0, 1]
    theta = replicate(ridge_moments(X, y, basis), whole(len(y)), solver=Ridge(penalty(len(y)))).theta[0]
    return np.asarray(basis(X_test) @ theta)


def _tuned(X: FloatArray, y: FloatArray, X_test: FloatArray, rng: np.random.Generator) -> FloatArray:
    return fit_predict_loo(X, y, X_test)[0]
