"""Locations of replicates and their scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from replaystats.inference.components import locate, location_scores, tail_index


def test_median_scores_have_the_asymptotic_variance(rng):
    """1 / (4 density^2) = pi/2 sigma^2 for a normal law; the density estimate has an error of about 5 %."""
    values = 3.0 * rng.normal(size=(4000, 3))
    scores = location_scores(values, "median")
    np.testing.assert_allclose(scores.var(axis=0), math.pi / 2 * 9, rtol=0.2)
    assert (np.sign(scores) == np.sign(values - np.median(values, axis=0))).all()


@pytest.mark.parametrize("n_members", [100, 300])
def test_the_bend_of_normal_quantiles_is_not_in_the_scores(n_members):
    """A difference quotient over 0.97 B^(-1/3) to either side is 5 or 2 % too long, its square twice that."""
    values = stats.norm.ppf((np.arange(n_members) + 0.5) / n_members)[:, None]
    scores = location_scores(values, "median")
    np.testing.assert_allclose(scores.var(axis=0), math.pi / 2, rtol=0.025)


def test_locations(rng):
    theta = rng.normal(size=(50, 2, 3))
    np.testing.assert_array_equal(locate(theta, "median"), np.median(theta, axis=0))
    weights = rng.uniform(size=50)
    np.testing.assert_allclose(
        locate(theta, "mean", weights=weights), np.average(theta, axis=0, weights=weights)
    )
    for method in ("mean", "median"):
        scores = location_scores(theta, method)
        assert scores.shape == theta.shape
        np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("index", [1.0, 1.5, 3.0])
def test_tail_index_of_a_power_law(rng, index):
    """Hill's estimator from 500 exceedances has a relative error of 1 / sqrt(500) = 4.5 %."""
    values = rng.uniform(size=5000) ** (-1 / index) * rng.choice([-1, 1], 5000)
    values[:4000] = 0.01 * rng.normal(size=4000)  # the median is 0 and the top tenth a pure power law
    assert tail_index(values[:, None]) == pytest.approx(index, rel=0.2)


def test_tail_index_sees_one_bad_coefficient(rng):
    light = rng.normal(size=(1000, 4))
    heavy = np.concatenate([light, rng.standard_cauchy((1000, 1))], axis=1)
    assert tail_index(heavy) < 2 < 4 < tail_index(light)


def test_replicates_that_do_not_move_have_no_tail():
    assert tail_index(np.ones((100, 2))) == math.inf
    assert math.isnan(tail_index(np.arange(4.0)[:, None]))
