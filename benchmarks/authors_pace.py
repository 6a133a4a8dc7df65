"""How much slower is a computation as the authors' code does it? One repetition of one cell of each grid.

    python benchmarks/authors_pace.py

Processor seconds on one thread. The slow implementation (tests/oracles/authors.py) computes a few subsets;
the rest is extrapolated, its time being linear in B. Prints the ratios.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from replaystats.plans import make_plan
from replaystats.simulate import OrnsteinUhlenbeck
from replaystats_paper import kernel, policy
from replaystats_paper.sources import boston

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.oracles.authors import krls, krls_predict, policy_replicate

# Subsets that the reference implementation computes; the rest is extrapolated, its time being linear in B.
SUBSETS = 3
CELLS = {
    "policy": {"n": 1000, "B": 500, "k": 500},
    "kernel": {"n": 200, "B": 50, "k": 15},
    "boston": {"n": 100, "B": 300, "k": 70},
}


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
    source, n: int, n_resamples: int, k: int, rng: np.random.Generator
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
    return _kernel_reference(boston(rng), n, n_resamples, k, rng)


REFERENCES = {"policy": _policy_reference, "kernel": _simulated_reference, "boston": _boston_reference}


def _some_subsets(n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    plan = make_plan(n, subsample_size=k, n_resamples=SUBSETS, random_state=rng)
    return plan.indices()


def _seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


if __name__ == "__main__":
    for kind, size in CELLS.items():
        fast, slow = REFERENCES[kind](size["n"], size["B"], size["k"], np.random.default_rng(20260))
        print(f"{kind}: {size}, here {fast:.3g} s, reference {slow:.3g} s, ratio {slow / fast:.3g}")
