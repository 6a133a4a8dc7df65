"""Replayed kernel ridge against scikit-learn's bagging: fit and predict, drawing included, one thread.

`BaggingRegressor(KernelRidge)` passes 0/1 weights over all n rows, so every member builds the n x n matrix;
`SubsetKernelRidge` hides the weights, and bagging then fits on the rows of the subset. The table's speed-ups
are over the latter. Run as a script to time the three in turns: ``python benchmarks/bench_kernel_ridge.py``.
"""

from __future__ import annotations

import time
import tracemalloc
from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import BaggingRegressor
from sklearn.kernel_ridge import KernelRidge

import replaystats as rs

ALPHA, GAMMA = 0.05, 10.0
# n, k, B, test points, whether stock bagging can be waited for
CASES = {
    "n=250 k=20 B=50": (250, 20, 50, 100, True),
    "n=5000 k=200 B=200": (5000, 200, 200, 1000, False),
    "n=50000 k=500 B=400": (50_000, 500, 400, 1000, False),
}


class SubsetKernelRidge(KernelRidge):
    """KernelRidge that bagging cannot give weights to."""

    def fit(self, X, y):
        return super().fit(X, y)


def make_data(n, m):
    rng = np.random.default_rng(0)
    X, X_test = rng.uniform(size=(n, 2)), rng.uniform(size=(m, 2))
    bump = np.exp(-10 * ((X - 0.25) ** 2).sum(axis=1)) + 0.5 * np.exp(-14 * ((X - 0.7) ** 2).sum(axis=1))
    return X, bump + 0.5 * rng.normal(size=n), X_test


def make_bagging(member, k, n_subsets):
    return BaggingRegressor(member, n_subsets, max_samples=k, bootstrap=False, random_state=0)


def make_replay(k, n_subsets):
    return rs.ReplayKernelRidge(
        ALPHA,
        gamma=GAMMA,
        method="subsets",
        resampling=rs.Resampling("U", k, n_subsets),
        standardize=None,
        random_state=0,
    )


def contestants(case):
    """Return the models by name, and the data."""
    n, k, n_subsets, m, with_stock = CASES[case]
    by_indices = SubsetKernelRidge(ALPHA, kernel="rbf", gamma=GAMMA)
    models = {
        "replaystats": make_replay(k, n_subsets),
        "bagging, by indices": make_bagging(by_indices, k, n_subsets),
    }
    if with_stock:
        models["bagging, stock"] = make_bagging(KernelRidge(ALPHA, kernel="rbf", gamma=GAMMA), k, n_subsets)
    return models, make_data(n, m)


NAMES = [(case, name) for case in CASES for name in contestants(case)[0]]


@pytest.mark.parametrize(("case", "name"), NAMES)
def test_fit_and_predict(measure, benchmark, case, name):
    benchmark.group = f"kernel ridge, fit and predict, {case}"
    models, (X, y, X_test) = contestants(case)
    small = CASES[case][0] <= 250
    rounds = 50 if small and name == "replaystats" else 3
    answer = measure(
        lambda: _fit_predict(models[name], X, y, X_test),
        rounds=rounds,
        baseline=name == "bagging, by indices",
    )
    assert np.isfinite(answer).all()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("task", ["mean", "mean and standard error"])
def test_predict(measure, benchmark, case, task):
    benchmark.group = f"kernel ridge, predict alone, {case}"
    n, k, n_subsets, m, _ = CASES[case]
    X, y, X_test = make_data(n, m)
    model = make_replay(k, n_subsets).fit(X, y)
    with_error = task != "mean"
    measure(lambda: model.predict(X_test, return_std=with_error), rounds=3, baseline=not with_error)


def _fit_predict(model, X, y, X_test):
    return model.fit(X, y).predict(X_test)


def _peak_mib(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def compare(case):
    """Time the contestants in turns, so that a busy machine disturbs all of them alike."""
    models, (X, y, X_test) = contestants(case)
    best = dict.fromkeys(models, np.inf)
    for _ in range(40 if CASES[case][0] <= 250 else 4):
        for name, model in models.items():
            start = time.perf_counter()
            _fit_predict(model, X, y, X_test)
            best[name] = min(best[name], time.perf_counter() - start)
    print(case)
    for name, model in models.items():
        peak = _peak_mib(partial(_fit_predict, model, X, y, X_test))
        ratio = best[name] / best["replaystats"]
        print(f"  {name:20s} {1e3 * best[name]:9.2f} ms {ratio:7.1f}x {peak:8.1f} MiB")


if __name__ == "__main__":
    for case in CASES:
        compare(case)
