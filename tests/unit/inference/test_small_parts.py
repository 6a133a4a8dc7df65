"""What intervals are put together from, against loops, SciPy and enumeration of all subsets."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.tree import DecisionTreeRegressor
from tests.oracles import inference as variances, small_parts as oracle

import replaystats as rs
from replaystats import make_plan
from replaystats._core.thresholds import NEGLIGIBLE
from replaystats.inference import subset_overlaps
from replaystats.inference.model_checks import measured_coverage, outside_support, overidentification_test
from replaystats.inference.producers import PooledShare, pooled_share, simultaneous_level
from replaystats.inference.variance import replay_variance


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.parametrize("scale", [0.05, 1.0])
def test_pooled_share_against_sums_over_observations(rng, statistic, scale):
    y = rng.normal(size=(30, 8))
    plan = make_plan(30, statistic=statistic, subsample_size=12, n_resamples=60, random_state=1)
    values = y[plan.indices()].mean(axis=1) + scale * rng.normal(size=(60, 8))

    def corrected(theta, counts):
        return variances.infinitesimal_jackknife(theta, counts, replacement=statistic == "V")[1]

    share, trust, noise = oracle.pooled(values, plan.counts(), corrected)
    found = pooled_share(values, plan)
    assert (found.share, found.trust, found.noise) == pytest.approx((share, trust, noise))
    assert found.error_noise == pytest.approx(noise / (2 * share) if share > 0 else 1.0)
    failed = np.arange(60) >= 50
    some = pooled_share(values, plan, failed=failed)
    kept = replay_variance(values[:50], rs.plan_from_indices(plan.indices()[:50], 30))
    if statistic == "U":
        assert some.share == pytest.approx(max(0.0, kept.sampling.mean() / kept.replicate.mean()))


@pytest.mark.parametrize("trust", [0.0, 0.3, 1.0])
def test_ratios_are_pulled_together_by_as_much_as_they_are_not_trusted(rng, trust):
    plan = make_plan(30, subsample_size=12, n_resamples=60, random_state=1)
    found = replay_variance(rng.normal(size=(60, 8)), plan)
    variance = PooledShare(0.2, trust).variance(found)
    for j in range(8):
        own = found.sampling[j] / found.replicate[j]
        pulled = max(0.0, trust * own + (1 - trust) * 0.2)
        assert variance[j] == pytest.approx(pulled * found.replicate[j] + found.monte_carlo[j])


def test_degrees_of_a_pooled_variance_are_those_of_its_posterior(rng):
    """A normal prior and normal noise: the spread of the truth around the pulled ratio, simulated."""
    share, spread, noise = 0.2, 0.03, 0.05
    truth = share + spread * rng.normal(size=200_000)
    own = truth + noise * rng.normal(size=len(truth))
    trust = spread**2 / (spread**2 + noise**2)
    pooled = PooledShare(share, trust, noise)
    left = np.var(truth - (share + trust * (own - share))) / share**2  # relative variance of what is left
    assert pooled.degrees == pytest.approx(4 + 2 / left, rel=0.02)
    assert PooledShare(0.2, 0.0, 0.1).degrees == np.inf
    assert PooledShare(0.01, 0.5, 0.1).degrees == pytest.approx(4.04)


@pytest.mark.parametrize("carrying", [2, 10, 60])
@pytest.mark.parametrize("statistic", ["U", "V", "balanced"])
def test_effective_rows_are_those_that_carry_an_answer(rng, statistic, carrying):
    """Ensemble that are sums of a_i over their rows: L = a, known. 2000 members leave a tenth of it open."""
    n, k = 60, 30
    a = np.where(np.arange(n) < carrying, rng.choice([-1.0, 1.0], n), 0.0)[:, None]
    a = a - a.mean()
    plan = make_plan(n, statistic=statistic, subsample_size=k, n_resamples=2000, random_state=1)
    found = pooled_share(a[plan.indices()].sum(axis=1), plan)
    assert found.linear_share == pytest.approx(1, abs=0.1)
    assert found.effective_rows == pytest.approx((a**2).sum() ** 2 / (a**4).sum(), rel=0.25)


def test_many_rows_and_few_members_leave_the_usual_number_of_rows(rng):
    """100 members of 20,000 rows tell nothing about single rows: noise is not taken for a concentration."""
    n = 20_000
    y = rng.normal(size=(n, 4))
    plan = make_plan(n, statistic="balanced", subsample_size=n // 2, n_resamples=100, random_state=1)
    found = pooled_share(y[plan.indices()].mean(axis=1), plan)
    assert found.effective_rows > n / 30
    assert found.degrees > 1000


def test_rows_limit_the_degrees_of_a_pooled_variance():
    """n - 1 at most; where two rows carry a nearly linear answer, 2 / (1 / 2 - 1 / n)."""
    assert PooledShare(0.9, 0.0, n_rows=10, effective_rows=10 / 3).degrees == pytest.approx(9)
    assert PooledShare(0.9, 0.0, n_rows=1000, effective_rows=2.0).degrees == pytest.approx(2 / 0.499)
    # pooled ratios of members that are hardly linear in the data do not depend on the rows at one point only
    pooled = PooledShare(0.1, 0.0, n_rows=1000, effective_rows=2.0, linear_share=0.1)
    assert pooled.degrees == pytest.approx(2 / 0.0499)


def test_intervals_of_learners_have_these_degrees(rng):
    X = rng.uniform(size=(80, 2))
    y = X[:, 0] + rng.normal(size=80)
    model = rs.ReplayRegressor(
        DecisionTreeRegressor(), resampling=rs.Resampling(n_resamples=60), random_state=0
    ).fit(X, y)
    mean, error = model.predict(X[:4] + 0.01, return_std=True)
    degrees = 1 / (1 / 59 + 1 / model.estimate_._pooled.degrees)
    low, high = model.confidence_interval(X[:4] + 0.01, 0.9)
    assert_allclose(high - mean, stats.t.ppf(0.95, degrees) * error)
    assert_allclose(mean - low, high - mean)


@pytest.mark.parametrize(("level", "n_parts"), [(0.8, 10), (0.9, 4), (0.99, 10)])
def test_measured_coverage_row_by_row(rng, level, n_parts):
    predictions, scale = rng.normal(size=60), rng.uniform(0.5, 2.0, size=60)
    residuals = scale * rng.normal(size=60)
    found = measured_coverage(predictions, np.abs(residuals / scale), level, n_parts=n_parts)
    share, thirds = oracle.coverage(predictions, residuals / scale, level, n_parts)
    assert (found.share, found.n_rows) == (pytest.approx(share), 60)
    assert found.by_prediction == pytest.approx(thirds)
    with_gaps = measured_coverage(
        np.r_[predictions, np.nan], np.r_[np.abs(residuals / scale), 1.0], level, n_parts=n_parts
    )
    assert with_gaps.share == pytest.approx(share)


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_band_level_is_that_of_the_largest_of_normals(rng, memory):
    """2,000 multipliers know the quantile C to about .03, 40,000 draws better."""
    shifts = rng.normal(size=(400, 12))
    for j in range(1, 12):
        shifts[:, j] = memory * shifts[:, j - 1] + np.sqrt(1 - memory**2) * shifts[:, j]
    centred = shifts - shifts.mean(axis=0)
    critical = oracle.largest_of_normals(centred.T @ centred, 0.9, 40_000, rng)
    found = stats.norm.ppf(0.5 + simultaneous_level(shifts, 0.9) / 2)
    assert found == pytest.approx(critical, abs=0.1)
    if memory == 0.0:  # Sidak
        assert found == pytest.approx(stats.norm.ppf(0.5 + 0.9 ** (1 / 12) / 2), abs=0.12)


def test_a_band_over_answers_that_do_not_move_is_none():
    assert simultaneous_level(np.ones((10, 3)), 0.9) == 0.9
    one = np.random.default_rng(0).normal(size=(50, 1))
    both = simultaneous_level(np.hstack([one, np.ones((50, 1))]), 0.9)
    assert both == simultaneous_level(one, 0.9)


@pytest.mark.parametrize("d", [1, 3])
def test_outside_support_against_sorted_distances(rng, d):
    data = rng.normal(size=(60, d)) * np.arange(1.0, d + 1)
    points = np.vstack([rng.normal(size=(10, d)), 4.0 + rng.normal(size=(4, d))])
    expected = [oracle.outside(p, data, 1.0 - NEGLIGIBLE) for p in points]
    assert outside_support(points, data).tolist() == expected
    assert any(expected)
    assert not all(expected)


def test_overlaps_count_what_subsets_have_in_common():
    plan = make_plan(12, statistic="V", subsample_size=5, n_resamples=30, random_state=0)
    found = subset_overlaps(plan)
    subsets = plan.indices().tolist()
    for a in range(30):
        for b in range(30):
            common = sum(subsets[a].count(i) * subsets[b].count(i) for i in range(12))
            assert found[a, b] == common


def test_sargan_is_the_difference_of_two_projections(rng):
    """J = (u' P_Z u) / (u'u / n) from projection matrices; and as strict as chi-square over draws."""
    n = 80
    z, w, u = rng.normal(size=(n, 3)), rng.normal(size=(n, 1)), rng.normal(size=n)
    x = z @ [1.0, 0.5, 0.2] + 0.7 * u + rng.normal(size=n)
    y = 2 * x + w[:, 0] + u
    Z, D = np.column_stack([np.ones(n), w, z]), np.column_stack([np.ones(n), w, x])
    P = Z @ np.linalg.inv(Z.T @ Z) @ Z.T
    theta = np.linalg.inv(D.T @ P @ D) @ D.T @ P @ y
    residual = y - D @ theta
    expected = residual @ P @ residual / np.mean(residual**2)
    found = overidentification_test(x[:, None], y, z, exogenous=w)
    assert found.statistic == pytest.approx(expected)
    assert (found.degrees_of_freedom, found.p_value) == (2, pytest.approx(stats.chi2.sf(expected, 2)))


# -- the theorem by enumeration --------------------------------------------------------------------


@pytest.fixture
def pair(rng):
    """A ratio of 7 observations with two coefficients, which is far from linear."""
    g = rng.normal(size=(7, 2, 2)) * 0.3 + np.eye(2) * rng.gamma(3.0, 0.5, size=(7, 1, 1))
    return g, rng.normal(size=(7, 2))


@pytest.mark.parametrize("k", [4, 5])
def test_quantities_of_the_theorem_by_enumeration(pair, k):
    g, f = pair

    def h(rows):
        return np.linalg.solve(g[rows].sum(axis=0), f[rows].sum(axis=0))

    U, jackknife, zeta_kk = oracle.zetas_of_all_subsets(h, 7, k)
    estimate = rs.average(
        rs.replicate(rs.Moments(g, f), make_plan(7, statistic="complete", subsample_size=k))
    )
    np.testing.assert_allclose(estimate.theta, U, rtol=1e-9)
    found = rs.inference.theorem(estimate)
    np.testing.assert_allclose(found.n_variance, 7 * jackknife, rtol=1e-8)
    np.testing.assert_allclose(found.k_zeta_kk, k * zeta_kk, rtol=1e-8)
    left = np.array([h([j for j in range(7) if j != i]) for i in range(7)])
    sigma = 7 * (6 / 7) * (left - left.mean(axis=0)).T @ (left - left.mean(axis=0))
    np.testing.assert_allclose(found.sigma, sigma, rtol=1e-8)
    assert found.zeta_ratio == pytest.approx(found.zeta_kk.sum() / (7 * found.zeta_1k.sum()))
    assert found.variance_ratio == pytest.approx(np.trace(jackknife) / np.trace(sigma / 7))
    points = np.array([[1.0, -2.0]])
    of_point = rs.inference.theorem(estimate, points)
    assert of_point.k_zeta_kk.item() == pytest.approx((points @ (k * zeta_kk) @ points.T).item())


@pytest.mark.parametrize(("statistic", "second"), [("U", "k / n"), ("V", "k / n^(1/4)")])
def test_conditions_are_those_of_the_statistic(pair, statistic, second):
    plan = make_plan(7, statistic=statistic, subsample_size=4, n_resamples=2000, random_state=0)
    found = rs.inference.theorem(rs.average(rs.replicate(rs.Moments(*pair), plan)))
    values = {"n / (B k)": 7 / 8000, "k / n": 4 / 7, "k / n^(1/4)": 4 / 7**0.25}
    for name in ("n / (B k)", second):
        assert found.conditions[name] == (pytest.approx(values[name]), values[name] <= 0.1)
    assert ("zeta_kk / (n zeta_1k)" in found.conditions) == (statistic == "U")
