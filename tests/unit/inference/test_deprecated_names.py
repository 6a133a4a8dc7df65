"""What 0.1 called the variance of an average: found with a warning, and the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import replaystats as rs


@pytest.fixture
def case(rng):
    moments = rs.Moments(np.ones(40) + 0.1 * rng.random(40), rng.normal(size=40))
    plan = rs.make_plan(40, subsample_size=0.5, n_resamples=200, rng=1)
    return rs.replicate(moments, plan), plan


def old(name):
    with pytest.warns(
        DeprecationWarning, match=rf"`inference\.{name}` will be removed in 0\.3; write `inference\."
    ):
        return getattr(rs.inference, name)


def test_the_infinitesimal_jackknife(case):
    replicates, plan = case
    found, new = old("infinitesimal_jackknife")(replicates.theta, plan), rs.inference.replay_variance
    parts = new(replicates.theta, plan)
    assert_array_equal(found.variance, parts.variance)
    assert_array_equal(found.corrected, parts.sampling)
    assert_array_equal(found.monte_carlo_variance, parts.monte_carlo)
    assert_array_equal(found.member_variance, parts.replicate)
    assert_array_equal(found.delete_d, parts.delete_d)


def test_the_jackknife_from_overlaps(case):
    replicates, plan = case
    overlaps = rs.inference.subset_overlaps(plan)
    expected = rs.inference.replay_variance(replicates.theta, plan).variance
    assert_allclose(old("overlap_jackknife")(replicates.theta, plan, overlaps), expected, rtol=1e-10)


def test_the_covariance_of_replicates(case):
    replicates, plan = case
    expected = rs.inference.replay_variance(replicates.theta, plan, covariance=True)
    assert_array_equal(old("replay_covariance")(replicates).total, expected.total)


@pytest.mark.parametrize("name", ["ReplayCovariance", "Components"])
def test_records_have_one_name_now(name):
    assert old(name) is rs.inference.ReplayVariance


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="no attribute 'jackknife_of_all_trades'"):
        _ = rs.inference.jackknife_of_all_trades
