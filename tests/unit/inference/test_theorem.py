"""The paper's quantities, where they are known in closed form; and subsets with weights of their own."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import replaystats as rs
from replaystats.inference.diagnosis import paper_conditions


@pytest.fixture
def rng():
    return np.random.default_rng(20260)


def mean_of(y, plan):
    return rs.average(rs.replicate(rs.Moments(np.ones(len(y)), y), plan))


def test_of_a_mean_over_all_subsets_every_quantity_is_the_sample_variance(rng):
    y = rng.normal(size=9)
    found = rs.inference.theorem(mean_of(y, rs.make_plan(9, statistic="complete", subsample_size=4)))
    for value in (found.sigma, found.n_variance, found.k_zeta_kk, 16 * found.zeta_1k):
        assert value.item() == pytest.approx(y.var(ddof=1), rel=1e-9)
    assert found.variance_ratio == pytest.approx(1.0)
    assert found.sigma_ratio == pytest.approx(1.0)
    assert found.zeta_ratio == pytest.approx(4 / 9)
    assert found.monte_carlo_share == 0


@pytest.mark.parametrize(
    ("statistic", "expected"), [("U", 1 + (100 / 20 - 1) / 50), ("V", 1 + 100 / (20 * 50))]
)
def test_the_first_order_ratio_is_that_of_a_mean(rng, statistic, expected):
    """Var(average of B means) / Var(mean) by simulation: 4000 data sets, within 3 standard errors."""
    plan = rs.make_plan(100, statistic=statistic, subsample_size=20, n_resamples=50, random_state=0)
    found = rs.inference.theorem(mean_of(rng.normal(size=100), plan))
    assert found.linear_ratio == pytest.approx(expected)
    draws = rng.normal(size=(4000, 100))
    means = np.empty(len(draws))
    for i, y in enumerate(draws):
        rows = (
            rng.random((50, 100)).argsort(axis=1)[:, :20]
            if statistic == "U"
            else rng.integers(100, size=(50, 20))
        )
        means[i] = y[rows].mean()
    measured = means.var(ddof=1) * 100
    assert abs(measured - expected) < 3 * measured * np.sqrt(2 / 4000)


def test_functionals_give_the_matrices_of_predictions(rng):
    X = rng.normal(size=(200, 3))
    moments = rs.moments.ridge_moments(X, X.sum(axis=1) + rng.normal(size=200))
    estimate = rs.average(
        rs.replicate(moments, rs.make_plan(200, subsample_size=60, n_resamples=100, random_state=0))
    )
    points = rng.normal(size=(2, 3))
    of_theta, of_points = rs.inference.theorem(estimate), rs.inference.theorem(estimate, points)
    np.testing.assert_allclose(of_points.sigma, points @ of_theta.sigma @ points.T)
    np.testing.assert_allclose(of_points.k_zeta_kk, points @ of_theta.k_zeta_kk @ points.T)
    assert "Theorem 1 at n = 200, k = 60, B = 100" in str(of_points)


def test_of_regressors_the_matrices_are_those_of_predictions(rng):
    X = rng.random((80, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=80)
    options = {"resampling": rs.Resampling("U", 30, 400), "random_state": 0}
    model = rs.ReplayKernelRidge(alpha=0.1, **options).fit(X, y)
    points = np.array([[0.2], [0.7]])
    found = rs.inference.theorem(model, points)
    values = model.predict_members(points)
    v = np.cov(values.T)
    np.testing.assert_allclose(found.sigma, 80 * 30 / 50 * v)  # delete-d: k / (n - k) v
    np.testing.assert_allclose(found.k_zeta_kk, 30 * (v + found.n_variance / 80))
    np.testing.assert_allclose(found.replay_covariance, found.n_variance / 80 + v / 400)
    with pytest.raises(ValueError, match="`X` must be the points of prediction"):
        rs.inference.theorem(model)


def test_a_weighted_average_has_the_noise_of_its_effective_number(rng):
    """Monte-Carlo variance of a self-normalised average is sum w^2 (h - mean)^2, not v / B."""
    g, f = rng.gamma(4.0, 0.25, 30), rng.normal(1.0, 1.0, 30)
    subsets = rng.random((60, 30)).argsort(axis=1)[:, :10]
    weights = rng.gamma(0.5, size=60) + 1e-3
    estimate = rs.average(
        rs.replicate(rs.Moments(g, f), rs.plan_from_indices(subsets, 30, weights=weights)), "mean"
    )
    h = f[subsets].sum(axis=1) / g[subsets].sum(axis=1)
    w = weights / weights.sum()
    expected = np.sum(w**2 * (h - w @ h) ** 2)
    assert estimate.replay_covariance.monte_carlo.item() == pytest.approx(expected, rel=0.05)


def test_a_plug_in_is_refused(rng):
    with pytest.raises(ValueError, match="`estimate` must be an average of replicates"):
        rs.inference.theorem(rs.plug_in(rs.Moments(np.ones(5), np.arange(5.0))))


def test_small_n_over_bk_is_never_called_quiet_beside_measured_noise():
    plan = rs.make_plan(1000, subsample_size=500, n_resamples=500, random_state=0)
    quiet, loud = paper_conditions(plan, 0.004)[0], paper_conditions(plan, 0.89)[0]
    assert "adds little noise" in str(quiet)
    assert "adds little noise" not in str(loud)
    assert "89% of the variance is noise" in str(loud)


def test_subsets_drawn_with_unequal_probabilities_average_to_the_complete_statistic(rng):
    """Every subset once, with weights 1 / P for repetition in proportion to P: the complete U-statistic."""
    g, f = rng.gamma(4.0, 0.25, 6), rng.normal(1.0, 1.0, 6)
    moments = rs.Moments(g, f)
    every = np.array(list(combinations(range(6), 3)))
    complete = rs.average(rs.replicate(moments, rs.plan_from_indices(every, 6))).theta
    times = rng.integers(1, 4, size=len(every))  # drawn so often
    plan = rs.plan_from_indices(np.repeat(every, times, axis=0), 6, weights=np.repeat(1.0 / times, times))
    np.testing.assert_allclose(rs.average(rs.replicate(moments, plan)).theta, complete)


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1.0, 0.0], "`weights` must be positive"), ([1.0], "`weights` must be as long as `indices`")],
)
def test_weights_of_subsets_are_checked(weights, message):
    with pytest.raises(ValueError, match=message):
        rs.plan_from_indices([[0, 1], [1, 2]], 3, weights=weights)
