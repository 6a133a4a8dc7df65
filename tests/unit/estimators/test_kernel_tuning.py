"""Automatic width and penalty of replayed kernel ridge."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

import replaystats as rs
from replaystats.estimators.kernel_tuning import choose_ensemble_alpha, choose_gamma, descend
from replaystats.replicates.kernels import make_kernel
from replaystats.replicates.penalties import choose_kernel, kernel_penalties

STEP = math.sqrt(10)


@pytest.fixture
def bumps(rng):
    X = rng.uniform(size=(80, 2))
    return X, rs.simulate.two_bumps_function(X) + 0.3 * rng.normal(size=80)


def out_of_bag_error(X, y, plan, alpha, gamma):
    """One scikit-learn fit per subset, one loop per observation."""
    sums, counts = np.zeros(len(X)), np.zeros(len(X))
    for subset in plan.indices():
        fit = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma).fit(X[subset], y[subset])
        outside = np.setdiff1d(np.arange(len(X)), subset)
        sums[outside] += fit.predict(X[outside])
        counts[outside] += 1
    return np.mean((sums / counts - y) ** 2)


def test_the_penalty_is_a_local_minimum_of_the_out_of_bag_error(bumps):
    X, y = bumps
    plan = rs.make_plan(80, statistic="U", subsample_size=30, n_resamples=40, rng=0)
    choice = choose_ensemble_alpha(X, y, plan, kernel=make_kernel("rbf", n_features=2, gamma=5.0))
    errors = [out_of_bag_error(X, y, plan, choice.value * f, 5.0) for f in (1 / STEP, 1.0, STEP)]
    assert errors[1] <= min(errors)
    assert "out-of-bag" in choice.reason


def test_the_search_starts_at_leave_one_out_times_k_over_n(bumps):
    X, y = bumps
    kernel = make_kernel("rbf", n_features=2, gamma=5.0)
    plan = rs.make_plan(80, statistic="U", subsample_size=20, n_resamples=10, rng=0)
    start = kernel_penalties(kernel(X, X), y).best * 20 / 80
    choice = choose_ensemble_alpha(X, y, plan, kernel=kernel)
    steps = math.log(choice.value / start, STEP)
    assert steps == pytest.approx(round(steps), abs=1e-9)
    assert f"{start:.3g}" in choice.reason


def test_without_anything_out_of_bag_the_start_is_kept(bumps):
    X, y = bumps
    plan = rs.make_plan(80, statistic="U", subsample_size=80, n_resamples=3, rng=0)
    kernel = make_kernel("rbf", n_features=2, gamma=5.0)
    choice = choose_ensemble_alpha(X, y, plan, kernel=kernel)
    assert choice.value == kernel_penalties(kernel(X, X), y).best
    assert "out of bag" in choice.reason


@pytest.mark.parametrize("standardize", [None, "global", "subset"])
def test_every_kind_of_units(bumps, standardize):
    X, y = bumps
    plan = rs.make_plan(80, statistic="V", subsample_size=30, n_resamples=20, rng=0)
    choice = choose_ensemble_alpha(
        X, y + 5.0, plan, kernel=make_kernel("rbf", n_features=2), standardize=standardize
    )
    assert 0 < choice.value < 100


def test_a_precomputed_kernel_gives_the_same(bumps):
    X, y = bumps
    plan = rs.make_plan(80, statistic="U", subsample_size=30, n_resamples=20, rng=0)
    kernel = make_kernel("rbf", n_features=2, gamma=5.0)
    by_points = choose_ensemble_alpha(X, y, plan, kernel=kernel)
    precomputed = make_kernel("precomputed", n_features=80)
    by_gram = choose_ensemble_alpha(kernel(X, X), y, plan, kernel=precomputed)
    assert by_gram.value == pytest.approx(by_points.value, rel=1e-9)


def test_observations_without_weight_do_not_count(bumps):
    X, y = bumps
    plan = rs.make_plan(80, statistic="U", subsample_size=30, n_resamples=20, rng=0)
    kernel = make_kernel("rbf", n_features=2, gamma=5.0)
    weight = np.ones(80)
    weight[:3] = 0.0
    spoilt = y.copy()
    spoilt[:3] += 1e3  # moves leave-one-out, hence the start, but not the best of a long descent
    clean = choose_ensemble_alpha(X, y, plan, kernel=kernel, sample_weight=weight)
    robust = choose_ensemble_alpha(X, spoilt, plan, kernel=kernel, sample_weight=weight)
    assert 0.2 < robust.value / clean.value < 5


def test_gamma_is_that_of_the_points_as_the_kernel_sees_them(bumps):
    X, y = bumps
    kernel = make_kernel("rbf", n_features=2)
    standardised = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    expected, _ = choose_kernel(standardised, y - y.mean(), kernel)
    assert choose_gamma(X, y, kernel=kernel, standardize="global").value == pytest.approx(expected.value)


def test_gamma_in_units_of_the_data(bumps):
    X, y = bumps
    kernel = make_kernel("rbf", n_features=2)
    plain = choose_gamma(X, y, kernel=kernel, standardize="global").value
    stretched = choose_gamma(X * [1.0, 1e3], y + 7.0, kernel=kernel, standardize="global").value
    assert stretched == pytest.approx(plain, rel=1e-9)


@pytest.mark.parametrize(("optimum", "best"), [(1.0, 1.0), (30.0, 31.6), (0.004, 0.00316)])
def test_descend_finds_the_nearest_step(optimum, best):
    found, n_looked_at = descend(lambda a: abs(math.log(a / optimum)), 1.0)
    assert found == pytest.approx(best, rel=1e-2)
    assert n_looked_at <= 9


def test_descend_gives_up_after_a_while():
    _, n_looked_at = descend(lambda a: -a, 1.0, most=5)
    assert n_looked_at == 5


@pytest.mark.statistical
def test_averages_with_the_chosen_penalty_beat_the_published_one():
    """Simulated kernel ridge of the paper, n=100, k=50, B=100: 0.152 against 0.181 (both +- 0.006)."""
    points = np.random.default_rng(1).uniform(size=(300, 2))
    truth = rs.simulate.two_bumps_function(points)
    errors = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(100, 2))
        y = rs.simulate.two_bumps_function(X) + 0.5 * rng.normal(size=100)
        plan = rs.make_plan(100, statistic="U", subsample_size=50, n_resamples=100, rng=seed)
        kernel = make_kernel("rbf", n_features=2)
        chosen = choose_ensemble_alpha(X, y, plan, kernel=kernel, standardize="global").value
        for alpha in (chosen, 100 ** (-2 / 3)):
            model = rs.ReplayKernelRidge(alpha, standardize="global").fit(X, y, plan=plan)
            errors.append(math.sqrt(np.mean((model.predict(points) - truth) ** 2)))
    ours, published = np.array(errors).reshape(-1, 2).T
    assert ours.mean() < 0.95 * published.mean()
