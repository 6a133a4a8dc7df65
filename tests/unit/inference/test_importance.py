"""Averages under importance sampling against complete enumeration; variance and coverage by simulation."""

import math

import numpy as np
import pytest

import replaystats as rs
from replaystats.inference import influence_probabilities, influence_values, reweighted_average


@pytest.fixture(scope="module")
def ratio():
    """A ratio of eight observations with unequal leverage."""
    rng = np.random.default_rng(1)
    g = rng.gamma(6.0, 0.2, 8)
    return rs.Moments(g, 2.0 * g + rng.normal(0.0, 0.5, 8))


def plan_for(moments, statistic, **options):
    p = influence_probabilities(moments, uniform_share=0.4)
    return rs.make_plan(
        moments.n_observations, statistic=statistic, probabilities=p, random_state=3, **options
    )


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.parametrize("form", ["horvitz_thompson", "self_normalised", "difference"])
def test_weighted_subsets_aim_at_the_complete_statistic(ratio, statistic, form):
    """Within 4.5 Monte-Carlo standard errors of the enumeration, from which unweighted draws are far."""
    complete = {"U": "complete", "V": "complete_v"}[statistic]
    truth = rs.average(rs.replicate(ratio, rs.make_plan(8, statistic=complete, subsample_size=4))).theta
    plan = plan_for(ratio, statistic, subsample_size=4, n_resamples=20_000, weighting="subsets")
    replicates = rs.replicate(ratio, plan)
    found = reweighted_average(replicates, form)
    assert abs(found.theta - truth) < 4.5 * found.standard_error
    error = replicates.theta.std() / math.sqrt(20_000)
    assert abs(replicates.theta.mean() - truth) > 10 * error  # without weights the target is another one
    assert found.effective_resamples == pytest.approx(plan.effective_resamples, rel=1e-12)
    assert plan.effective_resamples < 20_000


def test_the_difference_form_is_the_least_noisy(ratio):
    replicates = rs.replicate(
        ratio, plan_for(ratio, "V", subsample_size=6, n_resamples=5000, weighting="subsets")
    )
    error = {
        form: reweighted_average(replicates, form).standard_error
        for form in ("difference", "horvitz_thompson")
    }
    assert error["difference"] < error["horvitz_thompson"] / 2


def test_the_mean_of_a_weighted_plan_is_self_normalised(ratio):
    replicates = rs.replicate(ratio, plan_for(ratio, "V", subsample_size=4, weighting="subsets"))
    expected = reweighted_average(replicates, "self_normalised").theta
    np.testing.assert_allclose(rs.average(replicates).theta, expected, rtol=1e-12)


def test_weights_inside_the_sums_have_the_linear_variance_of_the_formula():
    """Var*(lin) = sum H^2 / (n^2 k p) with replacement, within 6 standard errors (sqrt(2/B), relative)."""
    rng = np.random.default_rng(2)
    g = rng.gamma(4.0, 0.25, 60)
    moments = rs.Moments(g, 2.0 * g + rng.normal(size=60))
    plan = plan_for(moments, "V", subsample_size=400 // 10, n_resamples=20_000)
    replicates = rs.replicate(moments, plan)
    H = influence_values(moments).ravel()
    linear = np.vstack([plan.counts(start, start + 5000) for start in range(0, 20_000, 5000)])
    linear = linear @ (plan.observation_weights * H) / 40
    expected = (H**2 / plan.probabilities).sum() / (60**2 * 40)
    assert linear.var(ddof=1) == pytest.approx(expected, rel=4 * math.sqrt(2 / 20_000) * 1.5)
    # optimal probabilities beat uniform ones, whose variance is sum H^2 / (n k)
    assert expected < (H**2).sum() / (60 * 40)
    assert replicates.theta.var() == pytest.approx(expected, rel=0.25)


def test_weighted_and_uniform_draws_have_the_same_target():
    """At k = n = 100 both are within 4 standard errors and the O(1/k) bias of the plug-in."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(100, 3))
    moments = rs.moments.ridge_moments(X, X @ [1.0, 2.0, 3.0] + rng.normal(size=100))
    plug_in = rs.plug_in(moments).theta
    uniform = rs.make_plan(100, statistic="V", subsample_size=100, n_resamples=4000, random_state=0)
    weighted = plan_for(moments, "V", subsample_size=100, n_resamples=4000)
    for plan in (uniform, weighted):
        replicates = rs.replicate(moments, plan)
        error = replicates.theta.std(axis=0) / math.sqrt(4000)
        bias = 2 * np.abs(influence_values(moments)).max() / 100**1.5
        assert (np.abs(rs.average(replicates).theta - plug_in) < 4 * error + bias).all()
        controlled = rs.average(replicates, "controlled")
        assert (np.abs(controlled.theta - plug_in) < bias).all()


def test_jackknife_is_the_derivative_of_the_complete_average(ratio):
    """Cov(count_i, h) = d/du_i of the average when observation i has the weight u_i in the data.

    The average over all multisets is computed exactly; reweighting the data changes the probabilities of the
    draws in proportion, and the weights inside the sums stay 1 / r_i.
    """
    n, k = 8, 3
    p = influence_probabilities(ratio, uniform_share=0.4)
    complete = rs.make_plan(n, statistic="complete_v", subsample_size=k)
    counts = complete.counts()
    h = rs.replicate(ratio.scaled(1 / (n * p)), complete).theta.ravel()

    def law(probabilities):
        # complete.subset_weights are multinomial probabilities under 1/n
        return complete.subset_weights * n**k * np.prod(probabilities**counts, axis=1)

    weights = law(p)
    assert weights.sum() == pytest.approx(1.0)
    covariance = (weights * (h - weights @ h)) @ counts
    step = 1e-5
    for i in range(n):
        up, down = p.copy(), p.copy()
        up[i] *= 1 + step
        down[i] *= 1 - step
        derivative = (law(up / up.sum()) @ h - law(down / down.sum()) @ h) / (2 * step)
        assert derivative == pytest.approx(covariance[i], rel=1e-6, abs=1e-9)


def test_unproven_variances_leave_the_interval_of_the_plug_in():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 2))
    moments = rs.moments.ridge_moments(X, X.sum(axis=1) + rng.normal(size=80))
    with_replacement = rs.average(rs.replicate(moments, plan_for(moments, "V", n_resamples=200)), "auto")
    assert with_replacement.confidence_interval().low.shape == (2,)
    without = rs.average(rs.replicate(moments, plan_for(moments, "U", n_resamples=200)), "auto")
    plain = rs.plug_in(moments).confidence_interval()
    np.testing.assert_allclose(without.confidence_interval().low, plain.low)
    outside = rs.average(
        rs.replicate(moments, plan_for(moments, "V", n_resamples=200, subsample_size=8, weighting="subsets"))
    )
    np.testing.assert_allclose(outside.confidence_interval().low, plain.low)


def test_reweighting_needs_a_plan_with_weights(ratio):
    with pytest.raises(ValueError, match="`replicates` must be drawn with weights of whole subsets"):
        reweighted_average(rs.replicate(ratio, rs.make_plan(8, random_state=0)))
    with pytest.raises(ValueError, match='Did you mean "difference"'):
        reweighted_average(rs.replicate(ratio, rs.make_plan(8, random_state=0)), "diference")


@pytest.mark.statistical
@pytest.mark.parametrize("heavy", [False, True], ids=["homoskedastic", "noisy leverage"])
def test_coverage_with_replacement_and_influence_probabilities(heavy, seed, numbers):
    """Nominal 95 % intervals over 1500 data sets: coverage in [.93, .965]; its Monte-Carlo error is .006."""
    rng = np.random.default_rng([7, seed])
    covered = []
    for number in numbers(1500):
        X = rng.normal(size=(200, 2))
        noise = rng.normal(size=200) * (np.abs(X[:, 0]) if heavy else 1.0)
        moments = rs.moments.ridge_moments(X, X @ [1.0, -1.0] + noise)
        p = influence_probabilities(moments, uniform_share=0.2)
        plan = rs.make_plan(
            200, statistic="V", subsample_size=100, n_resamples=200, probabilities=p, random_state=number
        )
        low, high = rs.average(rs.replicate(moments, plan), "auto").confidence_interval(np.eye(2)[:1])
        covered.append(low[0] <= 1.0 <= high[0])
    assert 0.93 < np.mean(covered) < 0.965
