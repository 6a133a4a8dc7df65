"""Extrapolation in 1 / k, when it is allowed, and the choice of the estimate with the smallest error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression

import replaystats as rs
from oracles import debias as oracle
from oracles import settings
from replaystats._core.errors import ReplayWarning
from replaystats.inference.measures import bias_law
from replaystats.inference.stability import Stability


def small_problem(rng, n=8, q=2):
    return np.eye(q) + 0.2 * rng.normal(size=(n, q, q)), rng.normal(size=(n, q))


def inverse_mean(rng, n):
    """1 / E x of log-normal x: a bias of order 1 / n upwards."""
    x = rng.lognormal(sigma=0.7, size=n)
    return rs.Moments(x[:, None, None], np.ones((n, 1)))


def half_samples(moments, n_resamples=200, **options):
    plan = rs.make_plan(len(moments), subsample_size=0.5, n_resamples=n_resamples, random_state=0, **options)
    return rs.replicate(moments, plan, on_failure="drop")


def crossing_problem():
    states = settings.ou_paths(np.random.default_rng(0), 300, start=0.5)
    return rs.Moments(*settings.trajectory_moments(settings.lstd_pair, states))


def test_all_subsets_give_the_references_answer_and_error(rng):
    g, f = small_problem(rng)
    plan = rs.make_plan(8, statistic="complete", subsample_size=5)
    estimate = replace(rs.average(rs.replicate(rs.Moments(g, f), plan), "controlled"), method="debiased")
    assert_allclose(estimate.theta, oracle.debiased(g, f, 5), rtol=1e-10)
    assert_allclose(estimate.covariance, oracle.debiased_covariance(g, f, 5), rtol=1e-8)


def test_several_outputs_are_as_many_problems(rng):
    g, f = small_problem(rng)
    outputs = np.stack([f, 2 * f[:, ::-1]], axis=2)
    plan = rs.make_plan(8, statistic="complete", subsample_size=5)

    def debiased(f):
        return replace(rs.average(rs.replicate(rs.Moments(g, f), plan), "controlled"), method="debiased")

    both = debiased(outputs)
    for output in range(2):
        one = debiased(outputs[:, :, output])
        assert_allclose(both.theta[:, output], one.theta, rtol=1e-10)
        assert_allclose(both.standard_error[:, output], one.standard_error, rtol=1e-8)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_half_samples_mirror_the_mean_in_the_plug_in(rng, statistic):
    moments = inverse_mean(rng, 200)
    members = half_samples(moments, 1000, statistic=statistic)
    plain, mean, debiased = (
        rs.plug_in(moments),
        rs.average(members, "controlled"),
        rs.average(members, "debiased"),
    )
    assert debiased.method == "debiased"
    factor = 1.0 if statistic == "U" else 0.5
    assert_allclose(debiased.theta, plain.theta - factor * (mean.theta - plain.theta), rtol=1e-12)
    assert "find the same bias" in debiased.choice.reason
    low, high = debiased.confidence_interval()
    assert low < debiased.theta < high


def test_without_a_law_it_is_what_auto_takes_and_says_so(rng):
    linear = rs.Moments(np.ones((50, 1, 1)), rng.normal(size=(50, 1)))  # a mean has no bias at all
    with pytest.warns(ReplayWarning, match='hands back what "auto" takes'):
        estimate = rs.average(half_samples(linear), "debiased")
    assert (estimate.method, estimate.requested, estimate.choice.value) == (
        "controlled",
        "debiased",
        "controlled",
    )
    with pytest.warns(ReplayWarning, match='hands back what "auto" takes'):
        assert rs.average(half_samples(crossing_problem()), "debiased").method == "median"


@pytest.mark.parametrize("concentration", [4, 16])
def test_auto_is_not_huge_where_the_mean_does(concentration):
    """Weak instruments, 40 data sets: no worse than the plug-in by a tenth, and better than the mean."""
    errors = {"plug-in": [], "mean": [], "auto": []}
    for seed in range(40):
        moments = rs.Moments(*settings.iv_moments(np.random.default_rng(seed), 100, concentration))
        members = half_samples(moments)
        errors["plug-in"].append(rs.plug_in(moments).theta - 1.0)
        for method in ("mean", "auto"):
            errors[method].append(rs.average(members, method).theta - 1.0)
    rms = {method: np.sqrt(np.mean(np.square(error))) for method, error in errors.items()}
    assert rms["auto"] < 1.1 * rms["plug-in"]
    assert rms["auto"] < rms["mean"]


def test_a_bias_that_is_not_of_order_one_over_k_is_no_law(rng):
    """Subsets of a grid find biases that differ by more than a quarter where 1 / k^2 dominates."""
    n = 40
    v = rng.normal(size=n)
    moments = rs.Moments((0.5 + v)[:, None, None], np.ones((n, 1)))  # 1 / mean with a weak mean
    law = bias_law(Stability(replicates=half_samples(moments)))
    assert law is None or not law.confirmed


def test_units_of_the_features_change_neither_the_answer_nor_the_choice(rng):
    g, f = small_problem(rng, 120, 3)
    scale = np.array([1.0, 1e-3, 1e5])
    X = rng.normal(size=(4, 3))
    scaled = rs.Moments(g * scale[:, None] * scale, f * scale)
    plain = rs.average(half_samples(rs.Moments(g, f)), "best")
    other = rs.average(half_samples(scaled), "best")
    assert plain.method == other.method
    assert_allclose(other.predict(X * scale), plain.predict(X), rtol=1e-6)


def test_the_best_is_the_median_where_subsets_cross():
    estimate = rs.average(half_samples(crossing_problem()), "best")
    assert estimate.method == "median"
    assert "cross singularity" in estimate.choice.reason


def test_the_plug_in_may_be_the_best_and_keeps_its_rivals(rng):
    linear = rs.Moments(np.ones((50, 1, 1)), rng.normal(size=(50, 1)))
    members = half_samples(linear)
    estimate = rs.average(members, "best")
    assert (estimate.method, estimate.requested, estimate.plan) == ("plug_in", "best", None)
    assert_allclose(estimate.theta, rs.plug_in(linear).theta)
    assert_allclose(estimate.confidence_interval(), rs.plug_in(linear).confidence_interval())
    more = estimate.extend(50)
    assert len(more.stability.replicates) == 250
    assert str(more.diagnose())


def test_a_large_bias_is_taken_off():
    """Twenty squared means, each biased by 1 / n: the sum of biases is far above the noise of their sum."""
    rng = np.random.default_rng(3)
    n, q = 60, 20
    x = rng.normal(size=(n, q))
    # theta_1 = sum_j mean(x_j)^2 needs second-order terms: solve [1, -x; 0, I] theta = [0; x] per coordinate.
    g = np.zeros((n, q + 1, q + 1))
    g[:, 0, 0] = 1.0
    g[:, 0, 1:] = -x
    g[:, np.arange(1, q + 1), np.arange(1, q + 1)] = 1.0
    f = np.concatenate([np.zeros((n, 1)), x], axis=1)
    question = np.eye(q + 1)[:1]
    members = half_samples(rs.Moments(g, f))
    estimate = rs.average(members, "best", X=question)
    assert estimate.method == "debiased"
    truth, plain = 0.0, rs.plug_in(rs.Moments(g, f)).predict(question)[0]
    assert abs(estimate.predict(question)[0] - truth) < 0.5 * abs(plain - truth)


def test_members_of_learners_have_no_plug_in_to_extrapolate_to(rng):
    X = rng.normal(size=(60, 2))
    for average in ("debiased", "best"):
        with pytest.raises(ValueError, match="`combine` must be"):
            rs.ReplayRegressor(
                LinearRegression(), resampling=rs.Resampling(n_resamples=5), combine=average
            ).fit(X, X[:, 0])


def test_the_value_of_a_policy_says_whose_it_is():
    data = rs.simulate.ornstein_uhlenbeck(200, start="uniform", random_state=0)
    options = {"discount": np.exp(-0.1), "resampling": rs.Resampling(n_resamples=50), "random_state": 0}
    model = rs.LSTD(rs.basis.Fourier(2), **options).fit(data)
    value = model.policy_value([[0.0], [0.5]])
    assert value.method in ("plug_in", "controlled", "median", "debiased")
    assert value.why
    assert value.method in repr(value)
    named = rs.LSTD(rs.basis.Fourier(2), combine="mean", **options).fit(data)
    assert named.policy_value([[0.0]]).method == "mean"
    assert_allclose(named.policy_value([[0.0]]).value, named.predict([[0.0]])[0])
    best = rs.LSTD(rs.basis.Fourier(2), combine="best", **options).fit(data)
    assert best.choices_["combine"].value == best.estimate_.method


@pytest.mark.statistical
def test_bias_is_gone_and_the_error_is_right():
    """300 data sets: less than a third of the plug-in's bias is left, and the variance is right within 30 %.

    What is linear in the data has mean zero and is taken off before means over data sets are compared; a
    variance over 300 data sets has a standard error of 8 %, and more with skewed answers.
    """
    plain, found, predicted, linear = [], [], [], []
    mean = np.exp(0.7**2 / 2)
    for seed in range(300):
        moments = inverse_mean(np.random.default_rng(seed), 30)
        estimate = replace(rs.average(half_samples(moments, 100), "controlled"), method="debiased")
        plain.append(rs.plug_in(moments).theta[0] - 1 / mean)
        found.append(estimate.theta[0] - 1 / mean)
        predicted.append(estimate.covariance[0, 0])
        linear.append(-(np.mean(moments.g) - mean) / mean**2)
    left, bias = np.subtract(found, linear), np.subtract(plain, linear)
    noise = left.std() / np.sqrt(300)
    assert bias.mean() > 4 * noise
    assert abs(left.mean()) < bias.mean() / 3 + 2 * noise
    assert abs(np.mean(predicted) / np.var(found) - 1) < 0.3
