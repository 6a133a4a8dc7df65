"""Time: the paper's tables with lean code, and the whole grid against a slow twin of the authors' code.

Seconds are those of the processor on one thread, so that other programs on the machine do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from replaystats.plans import ResamplingPlan, make_plan
from replaystats.simulate import OrnsteinUhlenbeck

from . import kernel, policy, slow_twin
from .cells import Cell, Settings, cell_stream
from .measures import METHODS

# Subsets that the twin computes before the rest is extrapolated: it is linear in their number.
TWIN_SUBSETS = 3
TWIN_CELLS = {
    "policy": {"n": 1000, "B": 500, "k": 500},
    "kernel": {"n": 200, "B": 50, "k": 15},
    "boston": {"n": 100, "B": 300, "k": 70},
}


def run_table_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Time plain and replayed fits, without and with the prediction of 100 points, in seconds.

    The three take turns on every data set, each going first equally often, so that whatever slows the machine
    down slows all of them; `ratios` holds replayed / plain of every turn, prediction included.
    """
    task = kernel.simulated_task(cell_stream(settings.seed, "simulated test points"))
    n, alpha = cell["n"], kernel.penalty(cell["n"])
    turns = budgeted(repetitions, n)
    seconds = np.zeros((2, turns, len(METHODS)))
    for turn in range(turns):
        rng = cell_stream(settings.seed, cell.key, turn)
        X, y = task.draw(n, rng)
        plans = kernel.draw_plans(n, cell["B"], cell["k"], rng)
        for step in range(len(METHODS)):
            method = (turn + step) % len(METHODS)
            started = time.process_time()
            model = kernel.fit_paper(X, y, plans[method], alpha)
            fitted = time.process_time()
            model.predict(task.X_test)
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


def run_twin_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Time one repetition of one cell with this package and with the slow twin, in seconds."""
    del repetitions  # one is enough: seconds, not a distribution
    kind = cell["kind"]
    size = TWIN_CELLS[kind]
    rng = cell_stream(settings.seed, cell.key)
    fast, slow = _TWINS[kind](size["n"], size["B"], size["k"], rng)
    return {"size": size, "fast_seconds": fast, "slow_seconds": slow, "ratio": slow / fast}


def best_of(action: Callable[[], object], times: int = 3) -> float:
    """Return the shortest of several times, in seconds."""
    shortest = np.inf
    for _ in range(times):
        started = time.process_time()
        action()
        shortest = min(shortest, time.process_time() - started)
    return float(shortest)


def _policy_twin(n: int, n_resamples: int, k: int, rng: np.random.Generator) -> tuple[float, float]:
    process = OrnsteinUhlenbeck()
    solver = Settings().parsed_solver

    def fast() -> None:
        systems = policy.draw_systems(n, n_resamples, k, process, np.random.default_rng(0), start="paper")
        systems.predictions(systems.solve(solver))

    states = process.sample(n, 2, rng=rng).states.reshape(n, 3)
    subsets = _some_subsets(n, k, rng)
    per_subset = _seconds(
        lambda: [
            slow_twin.policy_replicate(states, subset, algorithm, 1.0)
            for subset in subsets
            for algorithm in policy.ALGORITHMS
        ]
    ) / len(subsets)  # fmt: skip
    # The plain estimate is one more pass over all n trajectories.
    return best_of(fast), per_subset * (2 * n_resamples + n / k)


def _kernel_twin(
    task: kernel.Task, n: int, n_resamples: int, k: int, rng: np.random.Generator
) -> tuple[float, float]:
    X, y = task.draw(n, rng)
    plans = kernel.draw_plans(n, n_resamples, k, rng)

    def fast() -> None:
        for plan in plans:
            kernel.fit_predict(X, y, task.X_test, plan, kernel.penalty(n))

    def slow(rows: np.ndarray) -> np.ndarray:
        dual, _ = slow_twin.krls(X[rows], y[rows], kernel.penalty(n))
        return slow_twin.krls_predict(X[rows], y[rows], dual, task.X_test)

    subsets = _some_subsets(n, k, rng)
    with np.errstate(invalid="ignore", divide="ignore"):  # a constant column costs the same time
        per_subset = _seconds(lambda: [slow(subset) for subset in subsets]) / len(subsets)
        plain = _seconds(lambda: slow(np.arange(n)))
    return best_of(fast), per_subset * 2 * n_resamples + plain


def _simulated_twin(n: int, n_resamples: int, k: int, rng: np.random.Generator) -> tuple[float, float]:
    return _kernel_twin(kernel.simulated_task(rng), n, n_resamples, k, rng)


def _boston_twin(n: int, n_resamples: int, k: int, rng: np.random.Generator) -> tuple[float, float]:
    return _kernel_twin(kernel.boston_task(rng), n, n_resamples, k, rng)


_TWINS = {"policy": _policy_twin, "kernel": _simulated_twin, "boston": _boston_twin}


def _some_subsets(n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    plan: ResamplingPlan = make_plan(n, subsample_size=k, n_resamples=TWIN_SUBSETS, rng=rng)
    return plan.indices()


def _seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started
