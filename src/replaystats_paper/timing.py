"""Time: the paper's tables with lean code, and the whole grid against a reference implementation.

Seconds are those of the processor on one thread, so that other programs on the machine do not count. The
reference implementation computes the same numbers the way the authors' R code does: loops over subsets,
trajectories and steps, features evaluated anew at every visit, and for kernel ridge what `krls` computes
whether asked or not (the covariance of coefficients and of fitted values, pointwise derivatives with their
variances). It is used only to state how much time is saved.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from replaystats.plans import ResamplingPlan, make_plan
from replaystats.simulate import OrnsteinUhlenbeck
from replaystats.toolkit import FloatArray, IntArray

from . import kernel, policy
from .cells import Cell, Settings, cell_stream
from .measures import METHODS
from .sources import Source

# Subsets that the reference implementation computes; the rest is extrapolated, its time being linear in B.
REFERENCE_SUBSETS = 3
REFERENCE_CELLS = {
    "policy": {"n": 1000, "B": 500, "k": 500},
    "kernel": {"n": 200, "B": 50, "k": 15},
    "boston": {"n": 100, "B": 300, "k": 70},
}


def run_table_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Time plain and replayed fits, without and with the prediction of 100 points, in seconds.

    The three take turns on every data set, each going first equally often, so that whatever slows the machine
    down slows all of them; `ratios` holds replayed / plain of every turn, prediction included.
    """
    source = kernel.simulated_source(cell_stream(settings.seed, "simulated test points"))
    n, alpha = cell["n"], kernel.penalty(cell["n"])
    turns = budgeted(repetitions, n)
    seconds = np.zeros((2, turns, len(METHODS)))
    for turn in range(turns):
        rng = cell_stream(settings.seed, cell.key, turn)
        X, y = source.draw(n, rng)
        plans = kernel.draw_plans(n, cell["B"], cell["k"], rng)
        for step in range(len(METHODS)):
            method = (turn + step) % len(METHODS)
            started = time.process_time()
            model = kernel.fit_paper(X, y, plans[method], alpha)
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


def run_reference_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Time one repetition of one cell with this package and with the reference implementation, in seconds."""
    del repetitions  # one is enough: seconds, not a distribution
    kind = cell["kind"]
    size = REFERENCE_CELLS[kind]
    rng = cell_stream(settings.seed, cell.key)
    fast, slow = _REFERENCES[kind](size["n"], size["B"], size["k"], rng)
    return {"size": size, "fast_seconds": fast, "slow_seconds": slow, "ratio": slow / fast}


def best_of(action: Callable[[], object], times: int = 3) -> float:
    """Return the shortest of several times, in seconds."""
    shortest = np.inf
    for _ in range(times):
        started = time.process_time()
        action()
        shortest = min(shortest, time.process_time() - started)
    return float(shortest)


def _policy_reference(n: int, n_resamples: int, k: int, rng: np.random.Generator) -> tuple[float, float]:
    process = OrnsteinUhlenbeck()

    def fast() -> None:
        rng = np.random.default_rng(0)
        data = process.sample(n, 2, start="paper", random_state=rng)
        policy.paper_estimates(data, policy.GRID, rng, n_resamples, k)

    states = process.sample(n, 2, random_state=rng).states.reshape(n, 3)
    subsets = _some_subsets(n, k, rng)
    per_subset = _seconds(
        lambda: [
            policy_replicate(states, subset, algorithm, 1.0)
            for subset in subsets
            for algorithm in policy.ALGORITHMS
        ]
    ) / len(subsets)  # fmt: skip
    # The plain estimate is one more pass over all n trajectories.
    return best_of(fast), per_subset * (2 * n_resamples + n / k)


def _kernel_reference(
    source: Source, n: int, n_resamples: int, k: int, rng: np.random.Generator
) -> tuple[float, float]:
    X, y = source.draw(n, rng)
    plans = kernel.draw_plans(n, n_resamples, k, rng)

    def fast() -> None:
        for plan in plans:
            kernel.fit_predict(X, y, source.points, plan, kernel.penalty(n))

    def slow(rows: np.ndarray) -> np.ndarray:
        dual, _ = krls(X[rows], y[rows], kernel.penalty(n))
        return krls_predict(X[rows], y[rows], dual, source.points)

    subsets = _some_subsets(n, k, rng)
    with np.errstate(invalid="ignore", divide="ignore"):  # a constant column costs the same time
        per_subset = _seconds(lambda: [slow(subset) for subset in subsets]) / len(subsets)
        plain = _seconds(lambda: slow(np.arange(n)))
    return best_of(fast), per_subset * 2 * n_resamples + plain


def _simulated_reference(n: int, n_resamples: int, k: int, rng: np.random.Generator) -> tuple[float, float]:
    return _kernel_reference(kernel.simulated_source(rng), n, n_resamples, k, rng)


def _boston_reference(n: int, n_resamples: int, k: int, rng: np.random.Generator) -> tuple[float, float]:
    return _kernel_reference(kernel.boston_source(rng), n, n_resamples, k, rng)


_REFERENCES = {"policy": _policy_reference, "kernel": _simulated_reference, "boston": _boston_reference}


def _some_subsets(n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    plan: ResamplingPlan = make_plan(n, subsample_size=k, n_resamples=REFERENCE_SUBSETS, random_state=rng)
    return plan.indices()


def _seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


ORDER = 4
DT, DRIFT, DIFFUSION = 0.1, 0.05, 1.0


def reward_rate(s: float, beta: float) -> float:
    """Return the paper's reward rate at one state."""
    cos, sin = math.cos(s), math.sin(s)
    growth = 3 * DRIFT * s * cos**2 * sin
    return beta * cos**3 + growth - 0.5 * DIFFUSION**2 * (6 * cos * sin**2 - 3 * cos**3)


def features(s: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return value, first and second derivative of the Fourier basis at one state, each of shape (q,)."""
    i = np.arange(1, ORDER + 1)
    cos, sin = np.cos(i * s), np.sin(i * s)
    scale = 1 / math.sqrt(math.pi)
    value = scale * np.concatenate([[1 / math.sqrt(2)], cos, sin])
    first = scale * np.concatenate([[0.0], -i * sin, i * cos])
    second = scale * np.concatenate([[0.0], -i * i * cos, -i * i * sin])
    return value, first, second


def moment(states: FloatArray, algorithm: str, beta: float) -> tuple[FloatArray, FloatArray]:
    """Return g (q, q) and f (q,) of one trajectory (3,)."""
    q = 2 * ORDER + 1
    g, f = np.zeros((q, q)), np.zeros(q)
    last = len(states) - (2 if algorithm == "phibe2" else 1)
    for j in range(last):
        value, first, second = features(states[j])
        if algorithm == "lstd":
            right = value - math.exp(-beta * DT) * features(states[j + 1])[0]
            reward = DT * reward_rate(states[j], beta)
        else:
            weights = (1.0,) if algorithm == "phibe1" else (2.0, -0.5)
            steps = [states[j + i + 1] - states[j] for i in range(len(weights))]
            drift = sum(c * step for c, step in zip(weights, steps, strict=True)) / DT
            spread = sum(c * step**2 for c, step in zip(weights, steps, strict=True)) / DT
            right = beta * value - drift * first - 0.5 * spread * second
            reward = reward_rate(states[j], beta)
        g += np.outer(value, right)
        f += reward * value
    return g, f


def policy_replicate(states: FloatArray, subset: IntArray, algorithm: str, beta: float) -> FloatArray:
    """Return theta of one subset: a loop over its trajectories, then the pseudo-inverse."""
    q = 2 * ORDER + 1
    A, b = np.zeros((q, q)), np.zeros(q)
    for i in subset:
        g, f = moment(states[i], algorithm, beta)
        A += g
        b += f
    return np.asarray(np.linalg.pinv(A, rcond=math.sqrt(np.finfo(np.float64).eps)) @ b)


def krls(X: FloatArray, y: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Fit as KRLS 1.0-0 does with its defaults; return coefficients (n,) and average derivatives (p,)."""
    n, p = X.shape
    Z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    target = (y - y.mean()) / y.std(ddof=1)
    K = np.array([np.exp(-((Z - row) ** 2).sum(axis=1) / p) for row in Z])
    eigenvalues, Q = np.linalg.eigh(K)
    inverse = (Q / (eigenvalues + alpha)) @ Q.T
    dual = inverse @ target
    residual = target - K @ dual
    vcov_dual = (residual @ residual / n) * (Q / (eigenvalues + alpha) ** 2) @ Q.T
    _ = K @ vcov_dual @ K  # covariance of the fitted values
    derivatives = np.empty(p)
    for column in range(p):
        distance = np.array([value - Z[:, column] for value in Z[:, column]])
        L = distance * K
        derivatives[column] = (-2 / p * (L @ dual)).mean()
        _ = (4 / p**2) * (L @ vcov_dual @ L.T).sum() / n**2  # its variance
    return dual, derivatives


def krls_predict(X: FloatArray, y: FloatArray, dual: FloatArray, X_test: FloatArray) -> FloatArray:
    """Predict at X_test (m, p) from a fit."""
    centre, scale = X.mean(axis=0), X.std(axis=0, ddof=1)
    Z, T = (X - centre) / scale, (X_test - centre) / scale
    K = np.array([np.exp(-((Z - row) ** 2).sum(axis=1) / X.shape[1]) for row in T])
    return np.asarray((K @ dual) * y.std(ddof=1) + y.mean())
