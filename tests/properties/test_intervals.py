"""What every interval of the library obeys, whatever it was made from: producers, and rules for all."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import LinearRegression

import replaystats as rs
from replaystats.inference.pivot import interval, p_value
from replaystats.inference.producers import band, difference, mean_pivot
from replaystats.ope.intervals import GroupJackknife

N = 24


def rows(seed, n=N):
    """Features with an intercept, and targets."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    return x, x @ [1.0, -0.5] + rng.exponential(size=n)


def averaged(moments):
    plan = rs.make_plan(moments.n_observations, n_resamples=60, random_state=0)
    return rs.average(rs.replicate(moments, plan), "controlled")


def of_mean(x, y):
    return mean_pivot(y)


def of_moments_of_mean(x, y):
    return rs.plug_in(rs.Moments(np.ones(len(y)), y)).pivot()


def of_groups(x, y):
    groups = y.reshape(8, -1)
    left_out = (groups.sum() - groups.sum(axis=1)) / (y.size - groups.shape[1])
    problem = SimpleNamespace(effective_groups=8.0, n_units=y.size, low=-np.inf, high=np.inf)
    return GroupJackknife(float(y.mean()), left_out).pivot(problem)


def of_plug_in(x, y):
    return rs.plug_in(rs.moments.ols_moments(x, y, intercept=False)).pivot(x[:3])


def of_replay(x, y):
    return averaged(rs.moments.ols_moments(x, y, intercept=False)).pivot(x[:3])


def of_ensemble(x, y):
    """Of members of which nothing is known but their predictions."""
    model = rs.ReplayRegressor(
        LinearRegression(), resampling=rs.Resampling("U", n_resamples=30), random_state=0
    ).fit(x, y)
    return model.estimate_.pivot(x[:3])


def of_kernel_ridge(x, y):
    """Of the function, with the error of smoothing."""
    resampling = rs.Resampling("U", n_resamples=60)
    model = rs.ReplayKernelRidge(
        gamma=0.5, alpha=0.3, method="subsets", resampling=resampling, random_state=0
    ).fit(x[:, 1:], y)
    return model.confidence_interval(x[:3, 1:]).pivot


MEANS = [of_mean, of_moments_of_mean]
REGRESSIONS = [of_plug_in, of_replay, of_ensemble, of_kernel_ridge]
ALL = [*MEANS, of_groups, *REGRESSIONS]
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("producer", ALL)
@settings(max_examples=8, deadline=None)
@given(seed=seeds, shift=st.floats(-5, 5), scale=st.floats(0.1, 20))
def test_shifted_and_scaled_targets_have_shifted_and_scaled_intervals(producer, seed, shift, scale):
    x, y = rows(seed)
    plain, moved = interval(producer(x, y)), interval(producer(x, shift + scale * y))
    for end, other in zip(plain, moved, strict=True):
        np.testing.assert_allclose(other, shift + scale * end, rtol=1e-6, atol=1e-6)
    turned = interval(producer(x, -y))
    np.testing.assert_allclose((-turned.high, -turned.low), (plain.low, plain.high), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("producer", REGRESSIONS)
@settings(max_examples=8, deadline=None)
@given(seed=seeds, unit=st.floats(0.01, 100))
def test_units_of_features_do_not_matter(producer, seed, unit):
    x, y = rows(seed)
    one, other = interval(producer(x, y)), interval(producer(x * [1.0, unit], y))
    np.testing.assert_allclose((other.low, other.high), (one.low, one.high), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("producer", [*MEANS, of_plug_in])  # others draw subsets, which have an order
@settings(max_examples=8, deadline=None)
@given(seed=seeds)
def test_the_order_of_rows_does_not_matter(producer, seed):
    x, y = rows(seed)
    order = np.r_[:3, 3 + np.random.default_rng(seed).permutation(N - 3)]  # questions are the first rows
    one, other = interval(producer(x, y)), interval(producer(x[order], y[order]))
    np.testing.assert_allclose((other.low, other.high), (one.low, one.high), rtol=1e-8)


@pytest.mark.parametrize("producer", ALL)
@settings(max_examples=8, deadline=None)
@given(seed=seeds)
def test_intervals_grow_with_the_level_and_agree_with_p_values(producer, seed):
    record = producer(*rows(seed))
    ends = [interval(record, level) for level in (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)]
    assert (np.diff([end.low for end in ends], axis=0) < 0).all()
    assert (np.diff([end.high for end in ends], axis=0) > 0).all()
    p = p_value(record)
    for level, (low, high) in zip((0.8, 0.95), (ends[1], ends[3]), strict=True):
        np.testing.assert_array_equal((low <= 0) & (high >= 0), p > 1 - level)


@settings(max_examples=8, deadline=None)
@given(seed=seeds)
def test_rows_repeated_in_their_unit_are_integer_weights(seed):
    x, y = rows(seed)
    times = np.random.default_rng(seed).integers(1, 5, size=N)
    unit = np.repeat(np.arange(N), times)
    repeated = rs.plug_in(rs.moments.ols_moments(x[unit], y[unit], intercept=False, clusters=unit))
    g, f = x[:, :, None] * x[:, None, :], x * y[:, None]
    weighted = rs.plug_in(rs.Moments(times[:, None, None] * g, times[:, None] * f, symmetric=True))
    for one, other in zip(repeated.confidence_interval(), weighted.confidence_interval(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)
    one = interval(mean_pivot(y, weights=times))
    other = rs.plug_in(rs.Moments(times * 1.0, times * y)).confidence_interval()
    np.testing.assert_allclose((one.low, one.high), (other.low, other.high), rtol=1e-8)


@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_a_thing_minus_itself_is_zero_and_minus_a_copy_of_other_units_is_not(seed):
    x, y = rows(seed)
    fit, shifted = (
        rs.plug_in(rs.moments.ols_moments(x, target, intercept=False)) for target in (y, y + x[:, 0])
    )
    low, high = fit.compare(fit, x[:3])
    np.testing.assert_array_equal((low, high), 0.0)
    low, high = shifted.compare(fit, x[:3])  # does not depend on the data
    np.testing.assert_allclose((low, high), 1.0, atol=1e-9)
    moves = (y - y.mean())[:, None] / (N - 1)
    low, high = interval(difference(mean_pivot(y), mean_pivot(y[::-1]), moves, moves[::-1]))
    assert low[0] < 0 < high[0]


@pytest.mark.parametrize("producer", ALL)
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_data_without_any_event_have_no_interval_of_width_zero(producer, value):
    x, y = rows(0)
    low, high = interval(producer(x, np.full_like(y, value)))
    assert (low == -np.inf).all()
    assert (high == np.inf).all()


@pytest.mark.parametrize("basis", [rs.basis.OneHot(3), rs.basis.Polynomial(1)])
def test_a_log_without_any_reward_has_no_interval_of_width_zero(basis):
    states = np.random.default_rng(0).integers(3, size=(30, 6)).astype(float)
    data = rs.Trajectories(states, rewards=np.zeros((30, 5)))
    model = rs.LSTD(basis, discount=0.9, random_state=0).fit(data)
    assert model.policy_value([[0.0]]).confidence_interval().withheld
    low, high = model.policy_value([[0.0]]).confidence_interval(value_range=(0.0, 1.0))
    assert low == 0.0
    assert 0.05 < high < 0.2  # three units in thirty


@pytest.mark.parametrize("make", [rs.plug_in, averaged])
@settings(max_examples=5, deadline=None)
@given(seed=seeds, level=st.floats(0.5, 0.99))
def test_a_summary_has_the_intervals_of_the_estimate(make, seed, level):
    x, y = rows(seed)
    fit = make(rs.moments.ols_moments(x, y, intercept=False))
    table, ends = rs.summary(fit, confidence_level=level), fit.confidence_interval(confidence_level=level)
    np.testing.assert_array_equal((table.low, table.high), (ends.low, ends.high))
    np.testing.assert_array_equal((table.low > 0) | (table.high < 0), table.p_value < 1 - level)


@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_a_mean_has_one_interval_by_every_way(seed):
    _, y = rows(seed)
    fit = rs.MomentRatio(lambda z: np.ones((len(z), 1, 1)), lambda z: z[:, None], random_state=0).fit(y)
    ways = [
        interval(mean_pivot(y)),
        rs.plug_in(rs.Moments(np.ones(N), y)).confidence_interval(),
        fit.plug_in_.confidence_interval(),
        rs.summary(fit.plug_in_),
        rs.plug_in(rs.moments.ols_moments(np.ones((N, 1)), y, intercept=False)).confidence_interval(),
    ]
    for way in ways[1:]:
        np.testing.assert_allclose((way.low, way.high), (ways[0].low, ways[0].high), rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("law", ["normal", "exponential", "lognormal", "rare"])
def test_a_mean_of_returns_is_evaluated_like_any_mean(seed, law):
    rng = np.random.default_rng(seed)
    values = 5.0 * (rng.permutation(40) < 3) if law == "rare" else getattr(rng, law)(size=40)
    log = rs.Trajectories(np.zeros((40, 2, 1)), rewards=values[:, None], terminated=np.ones(40, bool))
    found, mean = rs.evaluate(log, discount=0.9, random_state=0).interval, interval(mean_pivot(values))
    ends = np.clip((mean.low[0], mean.high[0]), *((0.0, 5.0) if law == "rare" else (-np.inf, np.inf)))
    np.testing.assert_allclose((found.low, found.high), ends, rtol=1e-9)


def fitted():
    """One fit of every estimator of values or coefficients."""
    rng = np.random.default_rng(0)
    states, actions = rng.integers(2, size=(2, 60, 5, 1))
    log = rs.Trajectories(states[:, :, 0], rewards=rng.normal(size=(60, 4)), actions=actions[:, :4, 0])
    options = {"resampling": rs.Resampling(n_resamples=40), "random_state": 0}
    x, y = rows(0)
    yield rs.LSTD(rs.basis.OneHot(2), discount=0.5, **options).fit(log)
    yield rs.LSTDQ(rs.basis.OneHot(2), lambda s: np.full((len(s), 2), 0.5), discount=0.5, **options).fit(log)
    yield rs.LSPI(rs.basis.OneHot(2), discount=0.5, **options).fit(log)
    diffusion = rs.simulate.ornstein_uhlenbeck(60, random_state=0)
    yield rs.PhiBE(rs.basis.Polynomial(1), **options).fit(diffusion)
    yield rs.MomentRatio(
        lambda z: z[:, :2, None] * z[:, None, :2], lambda z: z[:, :2] * z[:, 2:], **options
    ).fit(np.column_stack([x, y]))


def test_the_summary_of_every_estimator_has_the_intervals_of_its_estimate():
    for model in fitted():
        for estimate in (model.estimate_, model.plug_in_):
            table, ends = rs.summary(estimate), estimate.confidence_interval()
            np.testing.assert_array_equal((table.low, table.high), (ends.low, ends.high))
        table, ends = rs.summary(model), model.estimate_.confidence_interval()
        np.testing.assert_array_equal((table.low, table.high), (ends.low, ends.high))


def test_the_value_of_a_policy_has_the_interval_of_the_state():
    for model in fitted():
        if not hasattr(model, "policy_value"):
            continue
        state = [[0.0]]
        one, other = model.policy_value(state).confidence_interval(), model.confidence_interval(state)
        assert (one.low, one.high) == (other.low[0], other.high[0])


@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_a_band_contains_the_intervals_and_that_of_one_row_is_about_its_interval(seed):
    x, y = rows(seed)
    fit = rs.plug_in(rs.moments.ols_moments(x, y, intercept=False))
    whole, single = fit.confidence_band(x), fit.confidence_interval(x)
    assert (whole.high >= single.high).all()
    assert (whole.low <= single.low).all()
    moves = (y - y.mean())[:, None] / (N - 1)
    one, own = band(mean_pivot(y), moves), interval(mean_pivot(y))
    assert (one.high - one.low)[0] == pytest.approx((own.high - own.low)[0], rel=0.1)
