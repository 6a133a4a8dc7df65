"""Intervals per question, bands and differences: what they promise, on small problems with a known answer."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from scipy import stats

import replaystats as rs
from oracles import questions as oracle
from replaystats.inference.functionals import (
    InferenceContext,
    ValueRange,
    functional_pivot,
    one_unit_determines,
)
from replaystats.inference.noise import noise_of
from replaystats.inference.pivot import interval as interval_of
from replaystats.inference.producers import difference, mean_pivot, simultaneous_level
from support.cases import slow_except


def functional_intervals(moments, X, **options):
    return interval_of(functional_pivot(moments, X, **options))


def test_the_mean_of_normal_data_has_students_interval_up_to_its_skewness():
    y = np.random.default_rng(0).normal(size=400)
    y -= stats.skew(y) * 0.15 * (y**2 - y.var())  # nearly symmetric
    interval = functional_intervals(rs.Moments(np.ones(400), y), np.eye(1))
    student = stats.t.interval(0.95, 399, y.mean(), y.std(ddof=1) / 20)
    np.testing.assert_allclose(
        (interval.low[0], interval.high[0]), student, atol=0.01 * (student[1] - student[0])
    )


def test_a_weak_instrument_has_a_long_or_unbounded_interval_and_a_strong_one_the_usual():
    def interval(strength):
        rng = np.random.default_rng(5)
        z, v = rng.normal(size=(2, 200))
        x = np.sqrt(strength / 200) * z + v
        moments = rs.Moments(z * x, z * (x + 0.95 * v + 0.3 * rng.normal(size=200)))
        return functional_intervals(moments, np.eye(1))

    strong, weak = interval(4000), interval(1)
    assert strong.pivot.standard_error[0] * 3.9 == pytest.approx(strong.high[0] - strong.low[0], rel=0.1)
    assert weak.pivot.how[0] == "inverted"
    assert weak.high[0] - weak.low[0] > 6 * weak.pivot.standard_error[0]


def test_series_with_memory_have_wider_intervals():
    rng = np.random.default_rng(1)
    noise = rng.normal(size=300)
    y = np.array([noise[max(0, i - 5) : i + 1].sum() for i in range(300)])
    moments = rs.Moments(np.ones(300), y)
    alone = functional_intervals(moments, np.eye(1))
    series = functional_intervals(moments, np.eye(1), setting=InferenceContext(sequential=True))
    growth = (series.high - series.low) / (alone.high - alone.low)
    assert 2.0 < growth[0] < 6.0
    assert series.pivot.degrees[0] < alone.pivot.degrees[0]


def one_change(n_blocks=12):
    """Return the moments of a mean of blocks of a series that changed once."""
    return rs.Moments(np.ones((n_blocks, 1, 1)), (np.arange(n_blocks) >= n_blocks // 2)[:, None] * 1.0)


def test_a_series_that_changed_once_has_a_long_interval():
    low, high = functional_intervals(one_change(), np.eye(1), setting=InferenceContext(sequential=True))
    assert low[0] < -1.0
    assert high[0] > 2.0
    low, high = functional_intervals(one_change(), np.eye(1))  # independent units
    assert 0.0 < low[0] < high[0] < 1.0


def test_unseen_events_leave_no_interval_of_width_zero():
    states = np.tile(np.arange(3), (50, 1))
    data = rs.Trajectories(states, rewards=np.zeros((50, 2)), terminated=np.ones(50, dtype=bool))
    value = rs.LSTD(
        rs.basis.OneHot(3), discount=0.9, resampling=rs.Resampling(n_resamples=10), random_state=0
    ).fit(data)
    answer = value.policy_value([[0.0]])
    assert answer.confidence_interval().withheld  # all rewards alike: nothing bounds what was not seen
    low, high = answer.confidence_interval(value_range=(0.0, 1.0))
    assert low == 0.0
    assert high == pytest.approx(1 - 0.05 ** (1 / 50))


# With a state that is only ever an end, and without.
@pytest.mark.parametrize("table", slow_except([True], [True, False]))
def test_rare_rewards_are_covered_for_every_probability(table):
    """Exactly, by enumeration: every count of rewards has its interval, and its binomial probability."""
    n, counts = 60, np.arange(31)

    def interval(count):
        rewards = (np.arange(n) < count).astype(float)[:, None]
        states = np.tile([0, 1], (n, 1))
        data = rs.Trajectories(states, rewards=rewards, terminated=np.ones(n, dtype=bool))
        ones = rs.basis.FunctionBasis(lambda s: np.ones((len(s), 1)), 1)
        basis = rs.basis.OneHot(2) if table else ones
        model = rs.LSTD(basis, discount=0.9, resampling=rs.Resampling(n_resamples=4), random_state=0).fit(
            data
        )
        return model.policy_value([[0.0]]).confidence_interval(value_range=(0.0, 1.0))

    low, high = np.array([tuple(interval(count)) for count in counts]).T
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high)[1:] > 0).all()
    shares = np.arange(0.01, 0.3, 0.01)
    covered = [
        stats.binom.pmf(counts, n, p)[(low <= p) & (p <= high)].sum() + stats.binom.sf(30, n, p)
        for p in shares
    ]
    assert np.mean(covered) == pytest.approx(0.96, abs=0.015)
    assert np.min(covered) > 0.92


def test_one_row_does_not_silence_another():
    rng = np.random.default_rng(0)
    states = rng.integers(3, size=(40, 6))
    data = rs.Trajectories(states, rewards=rng.normal(size=(40, 5)))
    model = rs.LSTD(
        rs.basis.OneHot(4), discount=0.5, resampling=rs.Resampling(n_resamples=10), random_state=0
    ).fit(data)
    interval = model.confidence_interval(np.arange(4.0)[:, None], value_range=(-3.0, 3.0))
    assert interval.undecided.tolist() == [False, False, False, True]  # never visited
    np.testing.assert_allclose((interval.low[3], interval.high[3]), (-3, 3))
    assert (interval.high[:3] - interval.low[:3] < 2).all()
    assert interval.pivot.undetermined_share[3] == pytest.approx(1.0)
    assert not interval.withheld.any()


def test_a_function_that_is_zero_in_the_log_leaves_its_states_open():
    """Its coefficient is set aside as zero, which is no answer about the states where it is not."""
    rng = np.random.default_rng(0)
    data = rs.Trajectories(rng.integers(3, size=(40, 6, 1)).astype(float), rewards=rng.uniform(size=(40, 5)))
    basis = rs.basis.FunctionBasis(lambda s: np.c_[np.ones(len(s)), s[:, 0], s[:, 0] > 2.5], 3)
    model = rs.LSTD(basis, discount=0.5, resampling=rs.Resampling(n_resamples=10), random_state=0).fit(data)
    interval = model.confidence_interval([[1.0], [3.0]], value_range=(0.0, 2.0))
    assert interval.high[0] - interval.low[0] < 0.5
    np.testing.assert_allclose((interval.low[1], interval.high[1]), (0, 2), atol=1e-9)


def test_centred_rewards_over_a_table_keep_the_intervals_of_the_table():
    """A coefficient is then no value but its distance from the worth of the mean reward."""
    rng = np.random.default_rng(0)
    data = rs.Trajectories(rng.integers(3, size=(40, 6)), rewards=rng.uniform(0.8, 1.0, size=(40, 5)))
    plain, centred = (
        rs.LSTD(
            basis,
            discount=0.9,
            resampling=rs.Resampling(n_resamples=10),
            random_state=0,
        )
        .fit(data)
        .confidence_interval(np.arange(4.0)[:, None])
        for basis in (rs.basis.OneHot(4), rs.basis.Centered(rs.basis.OneHot(4)))
    )
    np.testing.assert_allclose(
        centred, plain, atol=5e-3
    )  # the table has ends of its own where states are unseen
    assert centred.high[3] - centred.low[3] > 1  # never visited: the range of values


def test_value_range_is_checked():
    with pytest.raises(ValueError, match="`value_range` must be None here"):
        rs.plug_in(rs.Moments([1.0, 2.0], [1.0, 2.0])).confidence_interval(np.eye(1), value_range=(0.0, 1.0))
    setting = InferenceContext(value_range=ValueRange(low=0.0, high=1.0))
    with pytest.raises(TypeError, match="`value_range` must be a pair"):
        setting.with_range(3.0)


def test_band_of_one_question_is_its_interval_and_of_many_lies_below_bonferroni():
    rng = np.random.default_rng(0)
    smooth = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 200))
    level = simultaneous_level(smooth, 0.9)
    assert 0.9 < level < 1 - 0.1 / 200
    assert simultaneous_level(smooth[:, :1], 0.9) == pytest.approx(0.9, abs=0.015)


def test_paired_difference_is_students_of_the_differences():
    x, y = np.random.default_rng(3).normal(size=(2, 60))
    y = y + x
    moves = [(z - z.mean())[:, None] / 59 for z in (x, y)]
    pair = mean_pivot(x), mean_pivot(y)
    interval = interval_of(difference(*pair, *moves))
    expected = noise_of(moves[0] - moves[1])
    assert expected.variance[0] == pytest.approx((x - y).var(ddof=1) / 60)
    student = stats.t.interval(0.95, 59, (x - y).mean(), np.sqrt(expected.variance[0]))
    np.testing.assert_allclose((interval.low[0], interval.high[0]), student, atol=0.06)
    with pytest.raises(ValueError, match="`other` must be fitted on the same 60 units"):
        difference(*pair, moves[0], moves[1][:50])


def test_models_compare_at_the_same_states():
    data = rs.simulate.ornstein_uhlenbeck(300, start="uniform", random_state=0)
    small, large = (
        rs.LSTD(
            rs.basis.Fourier(order), discount=0.9, resampling=rs.Resampling(n_resamples=20), random_state=0
        ).fit(data)
        for order in (3, 4)
    )
    X = np.linspace(-2, 2, 5)[:, None]
    low, high = large.compare(small, X)
    difference = large.predict(X) - small.predict(X)
    assert ((low < difference) & (difference < high)).all()
    low, high = large.plug_in_.compare(large.plug_in_, large.basis_(X))
    np.testing.assert_allclose(high - low, 0.0, atol=1e-12)  # everything is in common
    band = large.confidence_band(X)
    single = large.confidence_interval(X)
    assert (band.high >= single.high).all()


def test_a_difference_where_nothing_was_seen_is_not_known_exactly(rng):
    """No unit moves the answer at a state that no unit visited, and pairs said: exactly zero."""
    paths = [rng.integers(0, 4, size=9).astype(float) for _ in range(60)]
    data = rs.Trajectories(paths, [path[:-1] + rng.normal(size=8) for path in paths])
    far, near = (
        rs.LSTD(rs.basis.OneHot(5), discount=gamma, random_state=0).fit(data) for gamma in (0.9, 0.8)
    )
    X = np.arange(5.0)[:, None]
    found = far.compare(near, X)
    assert found.withheld.tolist() == [False] * 4 + [True]
    alone = far.confidence_interval(X), near.confidence_interval(X)
    assert (found.high[:4] < alone[0].high[:4] - alone[1].low[:4]).all()  # pairs know more, where they know
    assert "leave one of the two answers open" in found.sentences[4]


def test_a_difference_has_every_outputs_own_noise(rng):
    X = rng.normal(size=(200, 2))
    Y = X @ rng.normal(size=(2, 3)) + rng.normal(size=(200, 3)) * [1.0, 10.0, 100.0]
    both, first = (
        rs.plug_in(rs.moments.ridge_moments(X, Y)),
        rs.plug_in(rs.moments.ridge_moments(X[:, :1], Y)),
    )
    found = both.compare(first, X[:3], X[:3, :1])
    assert found.low.shape == (3, 3)
    for output in range(3):
        alone = [rs.plug_in(rs.moments.ridge_moments(x, Y[:, output])) for x in (X, X[:, :1])]
        expected = alone[0].compare(alone[1], X[:3], X[:3, :1])
        np.testing.assert_allclose(found.low[:, output], expected.low, rtol=1e-10)
        np.testing.assert_allclose(found.high[:, output], expected.high, rtol=1e-10)
    assert len(found.sentences) == 9
    with pytest.raises(ValueError, match="`other` must be an estimate with 3 output"):
        both.compare(alone[1], X[:3], X[:3, :1])


@pytest.mark.parametrize("method", ["mean", "controlled"])
def test_subsets_in_common_leave_no_noise_in_a_difference(rng, method):
    moments = rs.Moments(np.eye(2) + 0.2 * rng.normal(size=(60, 2, 2)), rng.normal(size=(60, 2)))
    scaled = rs.Moments(moments.g, 2 * moments.f)

    def averaged(moments, seed):
        plan = rs.make_plan(60, subsample_size=0.5, n_resamples=30, random_state=seed)
        return rs.average(rs.replicate(moments, plan), method)

    first, same, other = averaged(moments, 0), averaged(scaled, 0), averaged(scaled, 1)
    X = np.eye(2)
    paired = first.compare(same, X)
    # theta - 2 theta = -theta on the same subsets: noise and all are those of theta itself.
    expected = rs.plug_in(moments).standard_error ** 2 + np.diag(first.replay_covariance.monte_carlo)
    np.testing.assert_allclose(paired.pivot.standard_error**2, expected, rtol=1e-6)
    apart = first.compare(other, X)  # on different ones the noise of both
    larger = expected + np.diag(other.replay_covariance.monte_carlo)
    np.testing.assert_allclose(apart.pivot.standard_error**2, larger, rtol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_an_answer_that_one_unit_alone_determines_is_found(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(12, 4)) * (rng.uniform(size=(12, 4)) < 0.6)
    rows[:, 3] = 0.0
    rows[seed, 3] = 2.0  # one row alone
    ahead = rows - 0.9 * np.roll(rows, 1, axis=0) if seed % 2 else rows  # least squares, or a chain
    moments = rs.Moments(rows[:, :, None] * ahead[:, None, :], rows * rows[:, :1])
    X = np.vstack([np.eye(4), rng.normal(size=(2, 4)), [0.0, 1.0, 1.0, 0.0]])
    np.testing.assert_array_equal(one_unit_determines(moments, X), oracle.one_unit_decides(moments.g, X))
    factored = rs.moments.FactoredMoments(rows, ahead, rows[:, 0], np.arange(13))
    np.testing.assert_array_equal(one_unit_determines(factored, X), oracle.one_unit_decides(moments.g, X))


@pytest.mark.parametrize("average", ["plug_in", "auto"])
def test_the_effect_of_an_indicator_of_one_row_has_no_finite_interval(average):
    """That row is fitted exactly: 95 % intervals of its effect held it in 221 of 400 data sets."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), np.arange(60) == 7])
    moments = rs.moments.ols_moments(X, 1.0 + X @ [2.0, 3.0] + rng.normal(size=60))
    plan = rs.make_plan(60, subsample_size=0.9, n_resamples=50, random_state=0)
    with pytest.warns(rs.ReplayWarning) if average == "auto" else contextlib.nullcontext():
        fit = rs.plug_in(moments) if average == "plug_in" else rs.average(rs.replicate(moments, plan))
    interval = fit.confidence_interval(np.eye(3))
    assert interval.withheld.tolist() == [False, False, True]
    assert "one unit alone determines this answer" in interval.sentences[2]
    assert interval.low[1] < 2.0 < interval.high[1]


def test_a_tile_that_one_episode_visited_gets_the_range_of_values():
    """Values elsewhere keep their usual intervals."""
    states = [np.array([0.1, 0.3, 0.1, 0.4]) for _ in range(30)] + [np.array([0.1, 0.9, 0.9, 0.9])]
    rewards = [np.random.default_rng(i).normal(size=3) for i in range(31)]
    data = rs.Trajectories([path[:, None] for path in states], rewards)
    tiles = rs.basis.TileCoding(1, 2, 0.0, 1.0)
    model = rs.LSTD(tiles, discount=0.5, resampling=rs.Resampling(on_failure="drop"), random_state=0).fit(
        data
    )
    low, high = model.confidence_interval([[0.2], [0.8]])
    limits = model.plug_in_.setting.value_range
    assert (low[1], high[1]) == (limits.low, limits.high)
    assert high[0] - low[0] < 0.5 * limits.width
