"""What theory says does not change an answer, or changes it in a known way, on data nobody chose."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

import replaystats as rs

SEEDS = st.integers(0, 2**31)
SCALES = st.floats(-6, 6).map(lambda power: 10.0**power)
BASIS = rs.basis.Polynomial(1, dimension=2)  # 1, x and y: any change of units is inside its span
STATES = np.array([[0.0, 0.0], [1.0, -1.0], [0.5, 2.0]])


def log(seed, *, scale=1.0, n=25):
    """Episodes of uneven length, each cut off or ended; `scale` is the unit of the states."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 7, size=n)
    states = [scale * rng.normal(size=(length + 1, 2)) for length in lengths]
    rewards = [rng.normal(size=length) for length in lengths]
    ended = rng.random(n) < 0.5
    return rs.Trajectories(states, rewards=rewards, terminated=ended, truncated=~ended)


def episodes(data):
    """Return the parts of `data` as lists, one entry per episode."""
    states = [data.states[a:b] for a, b in itertools.pairwise(data.offsets)]
    rewards = [data.rewards[a:b] for a, b in itertools.pairwise(data.step_offsets)]
    return states, rewards, np.asarray(data.terminated)


def plug_in(data, **options):
    return rs.plug_in(rs.moments.lstd_moments(data, BASIS, discount=0.8, **options))


def values(data, states=STATES, **options):
    return plug_in(data, **options).predict(BASIS(states))


@given(SEEDS)
def test_the_order_of_trajectories_is_nothing(seed):
    data = log(seed)
    states, rewards, ended = episodes(data)
    order = np.random.default_rng(seed + 1).permutation(len(states))
    shuffled = rs.Trajectories(
        [states[i] for i in order],
        rewards=[rewards[i] for i in order],
        terminated=ended[order],
        truncated=~ended[order],
    )
    assert_allclose(values(shuffled), values(data), rtol=1e-8, atol=1e-8)


@given(SEEDS, SCALES)
def test_the_unit_of_the_states_is_nothing(seed, scale):
    expected = values(log(seed))
    assert_allclose(values(log(seed, scale=scale), STATES * scale), expected, rtol=1e-7, atol=1e-7)


@given(SEEDS, st.floats(-5, 5), SCALES)
def test_values_are_in_the_unit_of_the_rewards(seed, shift, scale):
    """Scaled rewards scale the value; a constant added to each adds shift / (1 - discount) without an end."""
    data = log(seed)
    states, rewards, _ = episodes(data)
    flags = {"terminated": np.zeros(len(states), bool), "truncated": np.ones(len(states), bool)}
    endless = rs.Trajectories(states, rewards=rewards, **flags)
    moved = rs.Trajectories(states, rewards=[scale * (r + shift) for r in rewards], **flags)
    expected = scale * (values(endless) + shift / (1 - 0.8))
    assert_allclose(values(moved), expected, rtol=1e-7, atol=1e-7 * scale)


@given(SEEDS)
def test_data_seen_twice_say_the_same_and_seem_surer(seed):
    """Duplicates leave the plug-in alone; the sandwich takes them for news, by (n - 1) / (2 n - 1)."""
    data, n = log(seed), 25
    states, rewards, ended = episodes(data)
    twice = np.tile(ended, 2)
    doubled = rs.Trajectories(states * 2, rewards=rewards * 2, terminated=twice, truncated=~twice)
    assert_allclose(values(doubled), values(data), rtol=1e-8, atol=1e-8)
    once, again = (
        rs.inference.sandwich_covariance(rs.moments.lstd_moments(d, BASIS, discount=0.8))
        for d in (data, doubled)
    )
    assert_allclose(again, once * (n - 1) / (2 * n - 1), rtol=1e-6, atol=1e-10 * np.abs(once).max())


@given(SEEDS)
def test_a_cut_through_an_episode_is_nothing_without_traces(seed):
    data = log(seed)
    states, rewards, ended = episodes(data)
    cut_states, cut_rewards, cut_ended = [], [], []
    for s, r, e in zip(states, rewards, ended, strict=True):
        cut_states += [s[:2], s[1:]]
        cut_rewards += [r[:1], r[1:]]
        cut_ended += [False, e]
    flags = np.array(cut_ended)
    pieces = rs.Trajectories(cut_states, rewards=cut_rewards, terminated=flags, truncated=~flags)
    assert_allclose(values(pieces), values(data), rtol=1e-8, atol=1e-8)


@given(SEEDS)
def test_the_moments_of_two_logs_are_the_sum_of_theirs(seed):
    first, second = log(seed), log(seed + 1)
    (s1, r1, e1), (s2, r2, e2) = episodes(first), episodes(second)
    ended = np.concatenate([e1, e2])
    both = rs.Trajectories(s1 + s2, rewards=r1 + r2, terminated=ended, truncated=~ended)
    totals = [rs.moments.lstd_moments(d, BASIS, discount=0.8).total() for d in (first, second, both)]
    for part in (0, 1):
        assert_allclose(totals[2][part], totals[0][part] + totals[1][part], rtol=1e-10, atol=1e-10)


@given(SEEDS, SCALES)
def test_least_squares_does_not_see_the_units_of_its_columns(seed, scale):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(40), rng.normal(size=(40, 2))])
    y = X @ [1.0, 2.0, -1.0] + rng.normal(size=40)
    theta = rs.plug_in(rs.moments.ridge_moments(X * [1.0, scale, 1.0], y)).theta
    expected = np.linalg.lstsq(X, y, rcond=None)[0] / [1.0, scale, 1.0]
    assert_allclose(theta * [1.0, scale, 1.0], expected * [1.0, scale, 1.0], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("statistic", ["U", "V"])
@given(seed=SEEDS)
def test_replay_of_a_mean_is_the_mean(statistic, seed):
    """A linear problem leaves nothing for replay to do once its noise is controlled."""
    y = np.random.default_rng(seed).normal(size=30)
    moments = rs.Moments(np.ones(30), y)
    plan = rs.make_plan(30, statistic=statistic, subsample_size=10, n_resamples=20, random_state=0)
    controlled = rs.average(rs.replicate(moments, plan), "controlled")
    assert_allclose(controlled.theta, y.mean(), rtol=1e-9, atol=1e-12)
