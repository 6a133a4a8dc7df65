"""What kernel ridge costs and buys over n, and the rules for claims about time and cost.

Sizes grow with n as the paper says, with constants (n^(1/8) alone would be 2.0 to 3.3 for every n that can be
run); all methods share the kernel exp(-6 |x - x'|^2) and the paper's lambda = n^(-2/3). Seconds are those of
a fit on one core; errors and variances are those of predictions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.stats import binom

from replaystats import ReplayKernelRidge, make_plan, replicate
from replaystats.basis import Basis, Nystroem, RandomFourier
from replaystats.moments import ridge_moments
from replaystats.plans import ResamplingPlan
from replaystats.simulate import two_bumps, two_bumps_function
from replaystats.solvers import Solution, Solver
from replaystats.toolkit import ArrayLike, FloatArray, significant

from .cells import Cell, Settings, cell_stream
from .kernel import penalty, whole
from .measures import (
    FAILS,
    HOLDS,
    IN_PART,
    REPLAYED,
    UNDECIDED,
    Evidence,
    Verdict,
    of_all,
    rmse,
)

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


CONFIDENCE = 0.99
# Ratios of times this close to 1 are no gain: another machine may turn them round.
MARGIN = 1.1
# Below this n the cubic part of a full fit is not yet most of its time.
SMALLEST_JUDGED = 4000
# What the paper calls large-scale: from here on a full fit takes noticeable time.
SMALLEST_LARGE = 1000
_SIZES_OF_REPLAY = ("claimed", "exact", "example1", "example2")
# Example 1 with s = 1, p = 2, delta = 1/5: 2s / (2s + p) (1 - delta), the exponent of the squared error.
RATE_1 = 0.4
ByMethod = dict[str, dict[int, dict[str, float]]]


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return an interval for the median from order statistics, valid for any distribution.

    Examples
    --------
    >>> median_interval(list(range(1, 101)))
    (37, 64)
    """
    ordered = sorted(values)
    depth = int(binom.ppf((1 - CONFIDENCE) / 2, len(ordered), 0.5))
    return ordered[max(0, depth - 1)], ordered[min(len(ordered) - 1, len(ordered) - depth)]


def faster(ratios: Sequence[float]) -> bool | None:
    """Say whether replayed / plain is clearly below 1 (True), clearly above (False), or neither (None)."""
    low, high = median_interval(ratios)
    if high < 1 / MARGIN:
        return True
    return False if low > MARGIN else None


def saves_time(evidence: Evidence) -> Verdict:
    """Judge Tables 1 and 2 as they are worded, on the sizes of their rows and on larger ones."""
    found: dict[int, list[bool | None]] = {}
    medians: dict[int, list[float]] = {}
    for cell in evidence.cells[evidence.first]:
        ratios = evidence.journal.results(cell.key)["ratios"]
        found.setdefault(cell["n"], []).extend(faster(ratios[m]) for m in REPLAYED)
        medians.setdefault(cell["n"], []).extend(float(np.median(ratios[m])) for m in REPLAYED)
    rows = [n for n in found if n <= 250]
    decided = [answer for n in rows for answer in found[n]]
    overtaken = [n for n in found if all(answer is True for answer in found[n])]
    parts = [
        f"n = {n}: {significant(min(m), 2)} to {significant(max(m), 2)}" for n, m in sorted(medians.items())
    ]
    reason = (
        "Median of replayed / plain time with lean code, over k and U, V: " + "; ".join(parts) + ". In the "
        f"table's rows replay is clearly faster in {decided.count(True)}, clearly slower in "
        f"{decided.count(False)} of {len(decided)} comparisons."
    )
    if overtaken:
        reason += f" It is clearly faster in all of them at n = {', '.join(map(str, sorted(overtaken)))}."
    if all(decided):
        return Verdict(HOLDS, reason)
    largest_wins = max(found) in overtaken and max(found) > 250
    if largest_wins:
        return Verdict(IN_PART, reason)
    return Verdict(FAILS if False in decided else UNDECIDED, reason)


def _scaling(evidence: Evidence) -> ByMethod:
    """Return the results of every method by n; "worst" is the variance with features fixed or redrawn."""
    rows: ByMethod = {}
    for cell in sorted(evidence.cells["scaling"], key=lambda one: int(one["n"])):
        row = evidence.journal.results(cell.key)
        worst = max(row["variance"], row.get("variance_redrawn", 0.0))
        rows.setdefault(cell["method"], {})[cell["n"]] = row | {"worst": worst}
    return rows


def _decided(label: str, largest: int, reason: str, beside: str = "") -> Verdict:
    """Return the verdict; undecided where the largest n says nothing about an order of growth."""
    if largest >= SMALLEST_JUDGED:
        return Verdict(label, reason, beside)
    return Verdict(UNDECIDED, f"{reason} Too small: an order of growth needs n = {SMALLEST_JUDGED}.", beside)


def order_of_cost(evidence: Evidence) -> Verdict:
    """Judge "from O(n^3) to as low as O(n^2), with less variance", sizes growing as the paper says."""
    rows = _scaling(evidence)
    common = max(rows["full"])
    full = rows["full"][common]
    exponent = {}
    for method, by_size in rows.items():
        shared = [n for n in by_size if n <= common]
        exponent[method] = fitted_exponent(shared, [by_size[n]["seconds"] for n in shared])
    parts: list[str] = []
    good: dict[str, bool | None] = {}
    for method in (*_SIZES_OF_REPLAY, "divide", "nystroem"):
        if common in rows.get(method, {}):
            ratios = {name: rows[method][common][name] / full[name] for name in ("seconds", "rmse", "worst")}
            better = ratios["seconds"] < 1 and exponent[method] < exponent["full"]
            close = 1 / MARGIN <= ratios["seconds"] <= MARGIN
            good[method] = False if ratios["worst"] > 1 else None if close else better
            shown = (f"{name} × {significant(ratio, 2)}" for name, ratio in ratios.items())
            parts.append(f"{method}: exponent {exponent[method]:.1f}, {', '.join(shown)}")
    reason = (
        f"At n = {common} against the full fit (exponent {exponent['full']:.1f}; worst: the variance with "
        f"features fixed or redrawn): {'; '.join(parts)}."
    )
    claimed, *examples = (good.get(name, False) for name in ("claimed", "example1", "example2", "exact"))
    in_part = IN_PART if True in examples else FAILS
    open_question = claimed is None or (None in examples and True not in examples)
    return _decided(HOLDS if claimed else UNDECIDED if open_question else in_part, common, reason)


def example_1(evidence: Evidence) -> Verdict:
    """Judge Example 1: its cost, and its rate of convergence over all sizes that were run."""
    rows = _scaling(evidence)["example1"]
    sizes_n = list(rows)
    rate = stats.linregress(np.log(sizes_n), 2 * np.log([row["rmse"] for row in rows.values()]))
    cost = fitted_exponent(sizes_n, [row["seconds"] for row in rows.values()])
    reason = (
        f"Squared error ~ n^({significant(rate.slope, 2)} +- {significant(rate.stderr, 1)}), claimed "
        f"{significant(-RATE_1, 2)}; time ~ n^{significant(cost, 2)}, claimed {CLAIMED['example1']:g} and "
        f"(log n)^2; n = {sizes_n[0]} to {sizes_n[-1]}."
    )
    good = int(rate.slope - 2 * rate.stderr <= -RATE_1) + int(cost <= CLAIMED["example1"])
    return _decided((FAILS, IN_PART, HOLDS)[good], sizes_n[-1], reason)


def example_2(evidence: Evidence) -> Verdict:
    """Judge Example 2: its cost, and a variance below the full fit's."""
    rows, full = (_scaling(evidence)[method] for method in ("example2", "full"))
    n = max(rows)
    cost = fitted_exponent(list(rows), [row["seconds"] for row in rows.values()])
    ratio = rows[n]["worst"] / full[n]["variance"]
    reason = (
        f"Time ~ n^{significant(cost, 2)}; at n = {n} the variance is {significant(ratio, 2)} times that of "
        "the full fit."
    )
    good = int(cost <= CLAIMED["example2"]) + int(ratio < 1)
    return _decided((FAILS, IN_PART, HOLDS)[good], n, reason)


def operations(evidence: Evidence) -> Verdict:
    """Judge the cost O(B k q^2 + B q^3) by the growth of measured times."""
    parts, bad, largest = [], 0, 0
    for method in ("claimed", "example1", "example2"):
        rows = _scaling(evidence)[method]
        counts = [sizes(method, n) for n in rows]
        steps = [c["B"] * (c["k"] * c["q"] ** 2 + c["q"] ** 3) for c in counts]
        predicted = fitted_exponent(list(rows), steps)
        found = fitted_exponent(list(rows), [row["seconds"] for row in rows.values()])
        bad += found > predicted + 0.15
        largest = max(rows)
        parts.append(f"{method} {significant(found, 2)} (predicted {significant(predicted, 2)})")
    return _decided(of_all(bad, len(parts)), largest, f"Exponents of time: {', '.join(parts)}.")


def practical(evidence: Evidence) -> Verdict:
    """Judge "a practical and efficient alternative, especially for large-scale problems"."""
    rows = _scaling(evidence)
    wins: dict[int, list[str]] = {}
    for n, full in rows["full"].items():
        known = {method: rows[method][n] for method in _SIZES_OF_REPLAY if n in rows[method]}
        measures = (("seconds", "seconds"), ("worst", "variance"), ("rmse", "rmse"))
        wins[n] = [m for m, row in known.items() if all(row[mine] < full[its] for mine, its in measures)]
    listed = (f"n = {n}: {', '.join(names) or 'none'}" for n, names in wins.items())
    largest = max(wins)
    error = rows["divide"][largest]["rmse"] / rows["full"][largest]["rmse"]
    large = [bool(names) for n, names in wins.items() if n >= SMALLEST_LARGE]
    label = HOLDS if all(large) else IN_PART if any(large) else FAILS
    reason = f"Below the full fit in time, variance and error: {'; '.join(listed)}."
    return _decided(label, largest, reason, f"Divide and conquer there: RMSE × {significant(error, 2)}.")
