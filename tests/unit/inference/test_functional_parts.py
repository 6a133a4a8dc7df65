"""The parts of an interval, each against a slow reference: quantiles, noise, inversion, unvisited states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

import replaystats as rs
from oracles import questions as oracle, settings
from replaystats.engine.linear import linearise
from replaystats.inference.components import ReplayVariance
from replaystats.inference.degrees import (
    bias_aware_quantile,
    bounded_skewness,
    degrees_of_freedom,
    effective_sample,
    monte_carlo_degrees,
    skewed,
)
from replaystats.inference.functionals import InferenceContext, ValueRange, functional_pivot
from replaystats.inference.noise import functional_moments, noise_of
from replaystats.inference.pivot import Pivot, interval, invert_studentised
from replaystats.inference.producers import variance_of_members
from replaystats.moments import FactoredMoments


@pytest.mark.parametrize("ratio", [0.0, 0.3, 2.0, 20.0])
@pytest.mark.parametrize("degrees", [1.0, 4.0, 200.0])
def test_bias_aware_quantile_against_root_search(ratio, degrees):
    got = bias_aware_quantile(np.array([ratio]), np.array([degrees]), 0.1)[0]
    assert got == pytest.approx(oracle.bias_aware(ratio, degrees, 0.9), rel=1e-8)


def critical_values(level, degrees, skewness):
    """Between which numbers of standard errors the studentised answer lies."""
    one = np.ones_like(skewness)
    ends = interval(Pivot(estimate=0 * one, standard_error=one, degrees=degrees, skewness=skewness), level)
    return -ends.high, -ends.low


def test_critical_values_undo_halls_transformation():
    skewness = np.array([-0.38, 0.05, 0.3])
    low, high = critical_values(0.95, np.full(3, 12.0), skewness)
    for critical, wanted in ((low, stats.t.ppf(0.025, 12)), (high, stats.t.ppf(0.975, 12))):
        transformed = critical + skewness * (critical**2 / 3 + 1 / 6) + skewness**2 * critical**3 / 27
        np.testing.assert_allclose(transformed, wanted, rtol=1e-10)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95, 0.999])
def test_skewness_is_taken_out_up_to_a_share_of_where_the_cube_root_is_steepest(level):
    most = 0.8 * oracle.steepest_skewness(level)
    size = most * np.array([-1.5, -0.5, 0.5, 1.5])
    degrees, skewness = bounded_skewness(1 - level, np.full(4, 30.0), size)
    np.testing.assert_allclose(skewness, np.clip(size, -most, most))
    # What is left of the square is variance of the variance: 2 / degrees.
    np.testing.assert_allclose(2 / degrees, 2 / 30 + size**2 - skewness**2)


def test_intervals_of_any_skewness_grow_with_their_level():
    skewness = np.linspace(-1, 1, 41)
    ends = [critical_values(level, np.full(41, 25.0), skewness) for level in np.linspace(0.05, 0.999, 60)]
    low, high = np.diff([low for low, _ in ends], axis=0), np.diff([high for _, high in ends], axis=0)
    assert low.max() < 0 < high.min()


def test_two_values_have_all_of_their_skewness_taken_out():
    degrees, skewness = bounded_skewness(0.05, np.array([30.0]), np.array([0.9]), np.array([0.0]))
    assert skewness[0] == 0.9
    assert degrees[0] == pytest.approx(30.0)


@pytest.mark.parametrize("law", ["normal", "exponential", "t", "coin"])
def test_skewness_is_shrunk_by_what_signs_alone_would_show(law):
    rng = np.random.default_rng(4)
    draw = {
        "normal": lambda: rng.normal(size=40),
        "exponential": lambda: rng.exponential(size=40),
        "t": lambda: rng.standard_t(3, size=40),
        "coin": lambda: (rng.uniform(size=40) < 0.1) * 1.0,
    }[law]
    for _ in range(5):
        values = draw() + 0.3
        noise = noise_of(values[:, None])
        expected = oracle.skewness_less_chance(values)
        np.testing.assert_allclose((noise.skewness[0], noise.excess[0]), expected, rtol=1e-7, atol=1e-9)


def test_rows_without_noise_have_no_skewness():
    noise = noise_of(np.zeros((6, 1)))
    assert noise.skewness[0] == noise.excess[0] == noise.variance[0] == 0.0


@pytest.mark.parametrize("form", ["dense", "one step", "steps", "streamed"])
def test_the_variance_of_a_regression_against_refits(form):
    rng = np.random.default_rng(9)
    x, y, X = rng.normal(size=(24, 3)), rng.normal(size=24), rng.normal(size=(4, 3))
    offsets = np.arange(25) if form != "steps" else np.arange(0, 25, 2)
    factored = FactoredMoments(x, x, y, offsets)
    dense = factored.multiply_out()
    moments = dense if form == "dense" else factored
    if form == "streamed":
        source = rs.data.ArrayBlocks({"X": x, "y": y}, block_rows=7)
        moments = rs.moments.StreamedMoments(
            source, lambda block: rs.moments.ridge_moments(block["X"], block["y"])
        )
    noise = functional_moments(moments, linearise(dense), X)
    n = len(dense.g)
    expected = oracle.equal_noise_variance(dense.g, dense.f, X)
    least = n / (n - 1) * (oracle.influence(dense.g, dense.f, X) ** 2).sum(axis=0)
    np.testing.assert_allclose(noise.without_surplus().variance, np.maximum(expected, least), rtol=1e-8)
    shares = oracle.equal_noise_shares(dense.g, X)
    degrees = np.minimum(noise_of(oracle.leave_one_out(dense.g, dense.f, X)).degrees, oracle.degrees(shares))
    np.testing.assert_allclose(noise.degrees, degrees, rtol=1e-8)


@pytest.mark.parametrize("sizes", [[1] * 12, [1, 2, 2, 3, 4, 6]])
def test_the_variance_of_a_regression_is_unbiased_for_equal_noise(sizes):
    """It is a quadratic form of the noise, with the trace w'Aw: rows and clusters of any size."""
    rng = np.random.default_rng(3)
    unit, c = np.repeat(np.arange(len(sizes)), sizes), np.array([[0.5, -1.0, 2.0]])
    x = rng.normal(size=(len(unit), 3))
    g = np.array([x[unit == i].T @ x[unit == i] for i in range(len(sizes))])
    trace = 0.0
    for noise in np.eye(len(unit)):
        f = np.array([x[unit == i].T @ noise[unit == i] for i in range(len(sizes))])
        trace += oracle.equal_noise_variance(g, f, c)[0]
    assert trace == pytest.approx((c @ np.linalg.inv(x.T @ x) @ c.T).item())


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
    noise = functional_moments(moments if factored else dense, linearise(dense), X)
    shifts = oracle.leave_one_out(dense.g, dense.f, X)
    directions = np.array([oracle.cheapest_direction(dense.g, dense.f, c) for c in X])
    duals = X @ np.linalg.inv(dense.g.sum(axis=0))
    shares = np.einsum("mq,nqr,mr->nm", duals, dense.g, directions)
    np.testing.assert_allclose(shares.sum(axis=0), 1.0)
    expected = noise_of(shifts, shares)
    for name in ("variance", "covariance", "matrix_variance", "skewness", "degrees"):
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
        got = functional_moments(both, linearise(both), np.eye(5), output)
        expected = functional_moments(alone, linearise(alone), np.eye(5))
        np.testing.assert_allclose(got.variance, expected.variance)
        np.testing.assert_allclose(got.matrix_variance, expected.matrix_variance)


def bounded(moments, X, low, high):
    limits = InferenceContext(value_range=ValueRange(low=low, high=high))
    return functional_pivot(moments, X, setting=limits)


@pytest.mark.parametrize("factored", [False, True])
@pytest.mark.parametrize("n", [5, 12])  # of 5 units some states are visited by one only
def test_ends_of_states_that_fewer_than_two_visited_against_linear_programmes(factored, n):
    rng = np.random.default_rng(4)
    moments = one_hot_data(rng, n, steps=3, states=6)
    dense = moments.multiply_out()
    visits = (dense.g != 0).any(axis=2).sum(axis=0)
    assert (visits == 1).any() == (n == 5)
    seen = visits >= 2
    X = np.concatenate([np.eye(6), [[0.5, 0.5, 0, 0, 0, 0], [1.0, 0, 0, 0, -1.0, 0]]])
    found = bounded(moments if factored else dense, X, -3.0, 5.0)
    middle = dense.f - dense.g[:, :, ~seen].sum(axis=2)  # values of 1, the middle, put in
    shifts = oracle.leave_one_out(dense.g[:, seen][:, :, seen], middle[:, seen], X[:, seen])
    jackknife = (n - 1) / n * np.square(shifts - shifts.mean(axis=0)).sum(axis=0)
    for row, c in enumerate(X):
        expected = oracle.bellman_ends(dense.g, dense.f, c, -3.0, 5.0)
        ends = found.estimate[row] - found.bias_bound[row], found.estimate[row] + found.bias_bound[row]
        np.testing.assert_allclose(ends, expected, atol=1e-8)
    np.testing.assert_allclose(found.standard_error**2, jackknife, rtol=1e-7, atol=1e-12)


def test_ends_meet_where_everything_is_visited():
    dense = one_hot_data(np.random.default_rng(6), 30, unvisited=0).multiply_out()
    found = bounded(dense, np.eye(6), -9.0, 9.0)
    theta = np.linalg.solve(dense.g.sum(axis=0), dense.f.sum(axis=0))
    np.testing.assert_allclose(found.estimate, theta)
    np.testing.assert_allclose(found.bias_bound, 0.0, atol=1e-12)


def test_value_range_must_be_ordered():
    with pytest.raises(ValueError, match="`value_range` must be"):
        ValueRange(low=1.0, high=0.0)


def test_few_members_leave_few_degrees_of_freedom():
    few, many = (monte_carlo_degrees(1.0, 12.0 * 50 / members, 200, members) for members in (50, 5000))
    assert few < 2
    assert many > 100
    assert monte_carlo_degrees(0.0, 0.0, 200, 50) == 199  # nothing varies


@pytest.mark.parametrize("correction", [0.1, 1.0, 10.0])
def test_degrees_of_a_controlled_variance_are_those_of_squares_of_noisy_slopes(correction):
    """Slopes are known but for noise of the variance correction / n each; its squares are taken off."""
    rng, n = np.random.default_rng(2), 60
    slopes = rng.normal(size=n)
    slopes /= np.sqrt((slopes**2).sum())  # the variance is one
    noisy = slopes + np.sqrt(correction / n) * rng.normal(size=(40_000, n))
    found = (noisy**2).sum(axis=1) - correction
    expected = np.clip(2.0 / found.var(), 1.0, n - 1.0)
    assert monte_carlo_degrees(1.0, correction, n, 20, controlled=True) == pytest.approx(expected, rel=0.05)


def test_a_controlled_variance_that_is_mostly_noise_gives_way_to_its_bound():
    plan = rs.make_plan(50, n_resamples=20, random_state=0)
    sampling, raw = np.array([1.0, 0.05]), np.array([1.1, 0.9])
    parts = ReplayVariance(
        sampling=sampling, monte_carlo=np.zeros(2), raw=raw, replicate=np.ones(2),
        delete_d=np.array([0.9, 1.2]), plan=plan, n_used=20,
    )  # fmt: skip
    variance, degrees = variance_of_members(parts, controlled=True)
    np.testing.assert_allclose(variance, [1.0, 1.2])
    assert degrees[0] == 49.0  # known as well as the units allow
    assert degrees[1] == 19.0
