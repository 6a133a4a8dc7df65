"""The core at the paper's largest cell: n=5000, q=9, k/n=0.3, B=1000, drawing included, one thread."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs
from replaystats.tuning.recommended import grow_resamples

N, K, B = 5000, 1500, 1000


@pytest.fixture(scope="module")
def moments():
    data = rs.simulate.ornstein_uhlenbeck(N, start="uniform", random_state=0)
    return rs.moments.lstd_moments(data, rs.basis.Fourier(4), discount=np.exp(-0.1))


def numpy_loop(g, f, *, replace):
    """What one writes without a library: choose, gather, sum, solve, once per subset."""
    rng = np.random.default_rng(0)
    theta = np.empty((B, 9))
    for b in range(B):
        chosen = rng.choice(N, K, replace=replace)
        theta[b] = np.linalg.solve(g[chosen].sum(axis=0), f[chosen].sum(axis=0))
    return theta


def numpy_loop_stacked(rows, *, replace):
    """The same after stacking [vec g | f] by hand, so that one gather and one sum serve both."""
    rng = np.random.default_rng(0)
    theta = np.empty((B, 9))
    for b in range(B):
        total = rows[rng.choice(N, K, replace=replace)].sum(axis=0)
        theta[b] = np.linalg.solve(total[:81].reshape(9, 9), total[81:])
    return theta


@pytest.mark.parametrize("statistic", ["U", "V"])
class TestPolicyEvaluation:
    def test_numpy_loop(self, measure, benchmark, moments, statistic):
        benchmark.group = f"replicates, {statistic}, n={N} q=9 k/n=0.3 B={B}"
        g, f = moments.g.copy(), moments.f.copy()
        theta = measure(lambda: numpy_loop(g, f, replace=statistic == "V"), baseline=True)
        assert np.isfinite(theta).all()

    def test_numpy_loop_stacked(self, measure, benchmark, moments, statistic):
        benchmark.group = f"replicates, {statistic}, n={N} q=9 k/n=0.3 B={B}"
        theta = measure(lambda: numpy_loop_stacked(moments.rows, replace=statistic == "V"))
        assert np.isfinite(theta).all()

    def test_replaystats(self, measure, benchmark, moments, statistic):
        benchmark.group = f"replicates, {statistic}, n={N} q=9 k/n=0.3 B={B}"

        def run():
            plan = rs.make_plan(N, statistic=statistic, subsample_size=K, n_resamples=B, random_state=0)
            return rs.replicate(moments, plan, solver=rs.solvers.LU())

        replicates = measure(run, rounds=20)
        loop = numpy_loop_stacked(moments.rows, replace=statistic == "V")
        spread = loop.std(axis=0) / np.sqrt(B)
        assert (np.abs(replicates.theta.mean(axis=0) - loop.mean(axis=0)) < 6 * spread).all()

    def test_replaystats_auto(self, measure, benchmark, moments, statistic):
        """As many subsets as 1 % of noise needs, with the average: less noise than the loop's."""
        benchmark.group = f"replicates, {statistic}, n={N} q=9 k/n=0.3 B={B}"

        def run():
            plan = rs.make_plan(N, statistic=statistic, subsample_size=K, n_resamples=100, random_state=0)
            return grow_resamples(rs.average(rs.replicate(moments, plan), "auto"))[0]

        estimate = measure(run, rounds=20)
        loop = numpy_loop_stacked(moments.rows, replace=statistic == "V")
        noise = estimate.replay_covariance.components(None).monte_carlo
        assert (noise < loop.var(axis=0) / B).all()


@pytest.mark.benchmark(group="stages of replicates, U")
class TestStages:
    def test_draw(self, measure):
        plan = rs.make_plan(N, subsample_size=K, n_resamples=B, random_state=0)
        measure(lambda: [plan.draw(tile, 0) for tile in range(plan.n_tiles)], rounds=20)

    def test_accumulate(self, measure, moments):
        """Counts times moments, which the machine's matrix product bounds."""
        plan = rs.make_plan(N, subsample_size=K, n_resamples=B, random_state=0)
        counts = [plan.draw(tile, 0).counts() for tile in range(plan.n_tiles)]
        measure(lambda: [W @ moments.rows for W in counts], rounds=20, flop=2 * B * N * 90)

    def test_solve(self, measure, moments):
        plan = rs.make_plan(N, subsample_size=K, n_resamples=B, random_state=0)
        sums = rs.engine.subset_sums(moments, plan)
        measure(lambda: rs.solvers.LU().solve(sums.A, sums.b), rounds=20)

    def test_solve_pseudo_inverse(self, measure, moments):
        plan = rs.make_plan(N, subsample_size=K, n_resamples=B, random_state=0)
        sums = rs.engine.subset_sums(moments, plan)
        measure(lambda: rs.solvers.PseudoInverse().solve(sums.A, sums.b), rounds=20)


@pytest.mark.benchmark(group="large plan without holding B x n, U, n=1e6 q=9 k/n=0.3 B=256")
def test_one_tile_of_a_million_observations(measure):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(10**6, 90))
    rows[:, :81:10] += 10.0
    moments = rs.Moments.from_rows(rows, 9, None, symmetric=False)
    plan = rs.make_plan(10**6, subsample_size=0.3, n_resamples=256, random_state=0)
    replicates = measure(lambda: rs.replicate(moments, plan), rounds=2, flop=2 * 256 * 10**6 * 90)
    assert replicates.n_failed == 0
