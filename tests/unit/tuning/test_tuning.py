"""Automatic subset sizes and numbers of subsets: the rule, the reason, and the promise they keep."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs
from replaystats.tuning.recommended import choose_subsample_size, grow_resamples


@pytest.fixture
def least_squares(rng):
    X = rng.normal(size=(120, 3))
    return rs.moments.ridge_moments(X, X @ [1.0, 2.0, 3.0] + rng.normal(size=120))


def weak_ratio(n, mean, seed):
    """Moments with q = 1 whose denominator is near zero for small subsets."""
    rng = np.random.default_rng(seed)
    return rs.Moments(mean + rng.normal(size=n), rng.normal(size=n))


def test_half_of_the_data_where_nothing_crosses(least_squares):
    choice = choose_subsample_size(least_squares)
    assert choice.value == 60
    assert "0.5 n" in choice.reason


def test_seven_observations_per_unknown(rng):
    X = rng.normal(size=(150, 10))
    choice = choose_subsample_size(rs.moments.ridge_moments(X, X[:, 0]))
    assert choice.value == 100
    assert "10 per unknown" in choice.reason


def test_larger_subsets_where_half_samples_cross():
    moments = weak_ratio(200, 0.15, seed=2)
    choice = choose_subsample_size(moments)
    assert choice.value == 140
    for size, crosses in ((100, True), (choice.value, False)):
        plan = rs.make_plan(200, statistic="U", subsample_size=size, n_resamples=100, random_state=0)
        ratio = rs.engine.subset_sums(moments, plan).A[:, 0, 0] / moments.total()[0][0, 0]
        assert (ratio <= 0).any() == crosses


def test_no_size_helps_a_hopeless_problem():
    choice = choose_subsample_size(weak_ratio(200, 0.0, seed=0))
    assert choice.value == 100
    assert "no size helps" in choice.reason


def test_never_more_than_all_data(rng):
    X = rng.normal(size=(12, 3))
    assert choose_subsample_size(rs.moments.ridge_moments(X, X[:, 0])).value == 12


def pilot_of(moments, method="mean"):
    plan = rs.make_plan(len(moments), statistic="U", subsample_size=0.5, n_resamples=50, random_state=0)
    return rs.average(rs.replicate(moments, plan), method)


def test_growing_stops_at_the_target(least_squares):
    estimate, choice = grow_resamples(pilot_of(least_squares), share=0.01)
    parts = estimate.replay_covariance.components(None)
    assert choice.value == len(estimate.replicates)
    assert parts.monte_carlo.sum() <= 0.01 * (parts.monte_carlo + parts.sampling).sum()
    assert 80 < choice.value < 400  # theory: (n / k - 1) / share = 100 for a linear estimator
    assert "Monte-Carlo noise is 0." in choice.reason


def test_growing_keeps_the_first_replicates(least_squares):
    pilot = pilot_of(least_squares)
    estimate, _ = grow_resamples(pilot)
    np.testing.assert_array_equal(estimate.replicates.theta[:50], pilot.replicates.theta)


def test_the_control_variate_needs_fewer(least_squares):
    _, plain = grow_resamples(pilot_of(least_squares), share=0.001)
    _, controlled = grow_resamples(pilot_of(least_squares, "controlled"), share=0.001)
    assert controlled.value < plain.value


def test_the_cap_is_kept_and_said(least_squares):
    _, choice = grow_resamples(pilot_of(least_squares), share=1e-5, most=120)
    assert choice.value == 120
    assert choice.reason.startswith("the cap")


def test_targets_decide_what_matters(least_squares):
    estimate, _ = grow_resamples(pilot_of(least_squares), X=[[1.0, 0.0, 0.0]], share=0.01)
    parts = estimate.replay_covariance.components(np.array([[1.0, 0.0, 0.0]]))
    assert parts.monte_carlo.sum() <= 0.01 * (parts.monte_carlo + parts.sampling).sum()


def test_the_plug_in_cannot_grow(least_squares):
    with pytest.raises(ValueError, match="`estimate` must be an average of replicates"):
        grow_resamples(rs.plug_in(least_squares))


class Means:
    """Subset means of normal numbers: v = s^2 (1/k - 1/n), sampling variance s^2 / n."""

    def __init__(self, z, plan):
        self.z, self.plan, self.failed = z, plan, np.zeros(plan.n_resamples, dtype=bool)

    def values(self, X):
        return self.z[self.plan.indices()].mean(axis=1)[:, None, None]

    def mean(self, X):
        return self.values(X).mean(axis=0)

    def linear(self, X):
        return None

    def extend(self, n_more):
        return Means(self.z, self.plan.extend(n_more))


def test_any_members_grow_until_noise_is_negligible():
    z = np.random.default_rng(0).normal(size=40)
    pilot = rs.average(Means(z, rs.make_plan(40, subsample_size=20, n_resamples=50, random_state=0)))
    estimate, choice = grow_resamples(pilot, np.zeros((1, 1)), most=3000)
    noise = (1 / 20 - 1 / 40) / choice.value / (1 / 40)  # over the sampling variance
    assert 0.5 / 99 < noise < 1.5 / 99
    assert choice.value == estimate.members.plan.n_resamples
