"""One matrix: array libraries x workers x budgets x where the data are. Same seed, subsets and answer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from joblib import parallel_config
from threadpoolctl import threadpool_info

import replaystats as rs
from replaystats.data.blocks import ArrayBlocks
from replaystats.engine import JoblibExecutor
from replaystats.engine.executors import SerialExecutor, make_executor
from replaystats.moments import StreamedMoments
from support.cases import slow_except

N = 20000  # two row blocks
WATCHED = np.concatenate([np.arange(16), np.arange(16376, 16392), np.arange(N - 16, N)])
WORKERS, BUDGETS, PLACES = (1, 4), (2**26, 2**30), ("in memory", "out of core")


def least_squares(block):
    """Moments whose last outputs are the counts of some observations: sums show the subsets themselves."""
    X = np.column_stack([np.ones(len(block["x"])), block["x"]])
    watched = (block["number"][:, None] == WATCHED).astype(float)
    f = np.concatenate([(X * block["y"][:, None])[:, :, None], X[:, :, None] * watched[:, None]], axis=2)
    return rs.Moments(X[:, :, None] * X[:, None], f, symmetric=True)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    x = rng.normal(size=N) * 10.0 ** rng.integers(-3, 4, size=N)
    return {"x": x, "y": 3 * x + rng.standard_cauchy(N), "number": np.arange(N)}


def moments_at(place, data):
    if place == "in memory":
        return least_squares(data)
    return StreamedMoments(ArrayBlocks(data, block_rows=3777), least_squares)


@pytest.fixture(scope="module", params=["U", "V"])
def reference(request, data):
    plan = rs.make_plan(N, statistic=request.param, subsample_size=0.1, n_resamples=100, random_state=11)
    return plan, rs.replicate(least_squares(data), plan, exact=True)


def half(*factors):
    """All combinations; those with an odd sum of positions are slow, so that every pair of values is fast."""
    places = itertools.product(*(range(len(factor)) for factor in factors))
    return [
        pytest.param(*case, marks=[pytest.mark.slow] if sum(place) % 2 else [])
        for place, case in zip(places, itertools.product(*factors), strict=True)
    ]


@pytest.mark.parametrize(("workers", "budget", "place"), half(WORKERS, BUDGETS, PLACES))
def test_exact_sums_give_the_same_bits(data, reference, workers, budget, place):
    plan, expected = reference
    with rs.config_context(memory_budget=budget):
        found = rs.replicate(moments_at(place, data), plan, executor=JoblibExecutor(workers), exact=True)
    # Subsets: how often each watched observation is in each of them.
    np.testing.assert_array_equal(found.sums.b[:, 0, 1:], plan.counts()[:, WATCHED])
    np.testing.assert_array_equal(found.sums.A, expected.sums.A)
    np.testing.assert_array_equal(found.theta, expected.theta)


@pytest.mark.parametrize("library", slow_except(["numpy", "torch"], ["numpy", "torch", "jax.numpy"]))
@pytest.mark.parametrize(("workers", "budget"), half(WORKERS, BUDGETS))
def test_plain_sums_agree_to_rounding(data, reference, library, workers, budget):
    plan, expected = reference
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    if library == "jax.numpy":
        pytest.importorskip("jax").config.update("jax_enable_x64", True)
    held = moments_at("in memory", data)
    moments = rs.Moments(xp.asarray(held.g), xp.asarray(held.f), symmetric=True)
    with rs.config_context(memory_budget=budget):
        found = rs.replicate(moments, plan, executor=JoblibExecutor(workers))
    np.testing.assert_array_equal(found.sums.b[:, 0, 1:], plan.counts()[:, WATCHED])
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-10, atol=1e-10)


class TestThreads:
    def test_every_task_has_one_blas_thread(self):
        """And what the caller had is restored."""

        def blas_threads(_=None):
            return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

        before = blas_threads()
        inside = JoblibExecutor(2).map(blas_threads, range(4))
        assert inside == [[1] * len(before)] * 4
        assert blas_threads() == before

    def test_results_come_in_order(self):
        for executor in (SerialExecutor(), JoblibExecutor(3)):
            assert executor.map(lambda i: i * i, range(20)) == [i * i for i in range(20)]
            assert list(executor.stream(lambda i: i * i, range(20))) == [i * i for i in range(20)]

    def test_n_jobs_means_what_it_means_in_scikit_learn(self):
        assert isinstance(make_executor(None), SerialExecutor)
        assert isinstance(make_executor(1), SerialExecutor)
        assert make_executor(3).n_workers == 3
        with parallel_config("threading", n_jobs=2):
            assert make_executor(None).n_workers == 2
