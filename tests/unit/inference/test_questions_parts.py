"""The parts of an interval, each against a slow twin: quantiles, noise, inversion, unvisited states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

import replaystats as rs
from oracles import questions as oracle
from oracles import settings
from replaystats.engine.linear import linearise
from replaystats.inference.degrees import (
    bias_aware_quantile,
    degrees_of_freedom,
    effective_sample,
    monte_carlo_degrees,
    skewed,
    skewed_quantiles,
)
from replaystats.inference.intervals import invert_studentised
from replaystats.inference.noise import noise_of, question_noise
from replaystats.inference.undetermined import ValueRange, unvisited_ends
from replaystats.moments import FactoredMoments


@pytest.mark.parametrize("ratio", [0.0, 0.3, 2.0, 20.0])
@pytest.mark.parametrize("degrees", [1.0, 4.0, 200.0])
def test_bias_aware_quantile_against_root_search(ratio, degrees):
    got = bias_aware_quantile(np.array([ratio]), np.array([degrees]), 0.9)[0]
    assert got == pytest.approx(oracle.bias_aware(ratio, degrees, 0.9), rel=1e-8)


def test_skewed_quantiles_undo_halls_transformation():
    skewness = np.array([-0.4, 0.05, 0.3])
    low, high = skewed_quantiles(0.95, np.full(3, 12.0), skewness)
    for critical, wanted in ((low, stats.t.ppf(0.025, 12)), (high, stats.t.ppf(0.975, 12))):
        transformed = critical + skewness * (critical**2 / 3 + 1 / 6) + skewness**2 * critical**3 / 27
        np.testing.assert_allclose(transformed, wanted, rtol=1e-10)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10, 30])
def test_two_values_have_the_mid_p_interval_of_a_count(count):
    """A count of rare events, from its skewness alone, against Poisson probabilities."""

    def tail(mean):  # P(X < count) + P(X = count) / 2
        return stats.poisson.cdf(count, mean) - stats.poisson.pmf(count, mean) / 2

    low, high = (
        count - skewed(np.array(t), count**-0.5, 0.0) * count**0.5 for t in stats.norm.ppf([0.975, 0.025])
    )
    assert high == pytest.approx(optimize.brentq(lambda m: tail(m) - 0.025, count, 9 * count), rel=0.02)
    assert low == pytest.approx(optimize.brentq(lambda m: tail(m) - 0.975, 1e-9, count), abs=0.1)


def test_excess_is_none_of_two_values_and_two_of_normal_ones():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.uniform(size=50_000) < 0.03, rng.normal(size=50_000)])
    np.testing.assert_allclose(noise_of(values).excess, [0.0, 2.0], atol=0.1)


def test_degrees_of_freedom_of_equal_normal_and_lone_units():
    values = np.random.default_rng(0).normal(size=20_000)
    effective = effective_sample(np.array([(values**2).sum()]), np.array([(values**4).sum()]))
    assert degrees_of_freedom(effective, values.size)[0] == pytest.approx(values.size, rel=0.05)
    assert degrees_of_freedom(np.array([1.0]), 1000)[0] == pytest.approx(2.0, rel=0.01)
    assert degrees_of_freedom(np.array([7.0]), 7)[0] == 6.0  # equal units: n - 1


@pytest.mark.parametrize("s_mm", [0.002, 0.02, 0.2])
def test_inversion_against_root_search(s_mm):
    s_LL, s_Lm, low, high = 1.7, 0.05, -2.2, 1.9
    below, above = invert_studentised(*(np.array([x]) for x in (s_LL, s_Lm, s_mm, low, high)))
    np.testing.assert_allclose(
        (below[0], above[0]), oracle.fieller_by_search(s_LL, s_Lm, s_mm, low, high), rtol=1e-9
    )


def test_inversion_is_unbounded_where_the_matrix_may_be_singular():
    below, above = invert_studentised(*(np.array([x]) for x in (1.0, 0.0, 0.3, -1.96, 1.96)))
    assert oracle.fieller_by_search(1.0, 0.0, 0.3, -1.96, 1.96) is None
    assert below[0] == -np.inf
    assert above[0] == np.inf


def one_hot_data(rng, n, steps=5, states=6, unvisited=2):
    """Chains on `states` states whose last `unvisited` ones are reached, but never left."""
    left, right, response, offsets = [], [], [], [0]
    eye = np.eye(states)
    for _ in range(n):
        for _ in range(steps):
            s, following = rng.integers(states - unvisited), rng.integers(states)
            left.append(eye[s])
            right.append(eye[s] - 0.8 * eye[following])
            response.append(rng.normal())
        offsets.append(len(left))
    return FactoredMoments(np.array(left), np.array(right), np.array(response), np.array(offsets))


@pytest.mark.parametrize("factored", [False, True])
def test_noise_of_questions_against_refits(factored):
    rng = np.random.default_rng(5)
    moments = one_hot_data(rng, 25, unvisited=0)
    dense = moments.multiply_out()
    X = rng.normal(size=(4, 6))
    noise = question_noise(moments if factored else dense, linearise(dense), X)
    shifts = oracle.leave_one_out(dense.g, dense.f, X)
    directions = np.array([oracle.cheapest_direction(dense.g, dense.f, c) for c in X])
    duals = X @ np.linalg.inv(dense.g.sum(axis=0))
    shares = np.einsum("mq,nqr,mr->nm", duals, dense.g, directions)
    np.testing.assert_allclose(shares.sum(axis=0), 1.0)
    expected = noise_of(shifts, shares)
    for name in ("variance", "covariance", "matrix_variance", "skewness", "effective", "degrees"):
        np.testing.assert_allclose(getattr(noise, name), getattr(expected, name), rtol=1e-7, err_msg=name)
    n = len(shifts)
    jackknife = (n - 1) / n * np.square(shifts - shifts.mean(axis=0)).sum(axis=0)
    np.testing.assert_allclose(noise.variance, jackknife, rtol=1e-9)
    np.testing.assert_allclose(noise.matrix_variance, n * shares.var(axis=0, ddof=1), rtol=1e-9)


def test_noise_of_two_outputs_is_that_of_each():
    rng = np.random.default_rng(2)
    g, f = settings.OLS.draw(rng, 40)
    both = rs.Moments(g, np.stack([f, 2 * f[::-1]], axis=2))
    for output, alone in enumerate((rs.Moments(g, f), rs.Moments(g, 2 * f[::-1]))):
        got = question_noise(both, linearise(both), np.eye(5), output)
        expected = question_noise(alone, linearise(alone), np.eye(5))
        np.testing.assert_allclose(got.variance, expected.variance)
        np.testing.assert_allclose(got.matrix_variance, expected.matrix_variance)


@pytest.mark.parametrize("factored", [False, True])
def test_ends_of_unvisited_states_against_linear_programmes(factored):
    rng = np.random.default_rng(3)
    moments = one_hot_data(rng, 12)
    dense = moments.multiply_out()
    X = np.concatenate([np.eye(6), [[0.5, 0.5, 0, 0, 0, 0], [1.0, 0, 0, 0, -1.0, 0]]])
    limits = ValueRange(low=-3.0, high=5.0)
    ends = unvisited_ends(moments if factored else dense, X, limits)
    for row, c in enumerate(X):
        expected = oracle.bellman_ends(dense.g, dense.f, c, -3.0, 5.0)
        np.testing.assert_allclose((ends.low[row], ends.high[row]), expected, atol=1e-8)
    np.testing.assert_allclose(ends.undetermined * limits.width, ends.high - ends.low, rtol=1e-9)


def test_jackknife_of_ends_against_linear_programmes_without_each_unit():
    rng = np.random.default_rng(4)
    dense = one_hot_data(rng, 5, steps=3, states=6).multiply_out()  # some states are visited by one unit only
    assert ((dense.g != 0).any(axis=2).sum(axis=0) == 1).any()
    X = np.eye(6)[:4]
    ends = unvisited_ends(dense, X, ValueRange(low=-3.0, high=5.0))
    rest = [np.arange(5) != i for i in range(5)]
    for row, c in enumerate(X):
        refits = np.array([oracle.bellman_ends(dense.g[k], dense.f[k], c, -3.0, 5.0) for k in rest])
        jackknife = 4 / 5 * np.square(refits - refits.mean(axis=0)).sum(axis=0)
        got = (ends.noise_low.variance[row], ends.noise_high.variance[row])
        np.testing.assert_allclose(got, jackknife, rtol=1e-7, atol=1e-12)


def test_ends_meet_where_everything_is_visited():
    dense = one_hot_data(np.random.default_rng(6), 30, unvisited=0).multiply_out()
    ends = unvisited_ends(dense, np.eye(6), ValueRange(low=-9.0, high=9.0))
    theta = np.linalg.solve(dense.g.sum(axis=0), dense.f.sum(axis=0))
    np.testing.assert_allclose(ends.low, theta)
    np.testing.assert_allclose(ends.high, theta)
    noise = question_noise(dense, linearise(dense), np.eye(6))
    np.testing.assert_allclose(ends.noise_low.variance, noise.variance)


def test_value_range_must_be_ordered():
    with pytest.raises(ValueError, match="`value_range` must be"):
        ValueRange(low=1.0, high=0.0)


def test_few_members_leave_few_degrees_of_freedom():
    few, many = (monte_carlo_degrees(1.0, 12.0 * 50 / members, 200, members) for members in (50, 5000))
    assert few < 2
    assert many > 100
    assert monte_carlo_degrees(0.0, 0.0, 200, 50) == 199  # nothing varies
