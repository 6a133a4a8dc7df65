"""LSTD(lambda), discounts that change, importance ratios, centred rewards: against loops and exact values."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import replaystats as rs
from oracles import decisions, traces as oracle

BASIS = rs.basis.Fourier(2)
ROUNDING = 1e-11


def value(state):
    return BASIS(np.reshape(state, (1, -1)))[0]


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    lam=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    weighted=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_traces_equal_the_loop_on_ragged_data(lengths, lam, weighted, seed):
    rng = np.random.default_rng(seed)
    states = [rng.normal(size=(length + 1, 1)) for length in lengths]
    rewards, discounts = ([rng.random(length) for length in lengths] for _ in range(2))
    ratios = [rng.exponential(size=length) for length in lengths] if weighted else None
    terminated = rng.random(len(lengths)) < 0.5
    moments = rs.moments.lstd_moments(
        rs.Trajectories(states, rewards, terminated=terminated),
        BASIS,
        discount=np.concatenate(discounts),
        trace=lam,
        importance=np.concatenate(ratios) if weighted else None,
    )
    g, f = oracle.lstd_lambda_moments(states, rewards, value, discounts, lam, terminated, ratios)
    np.testing.assert_allclose(moments.g, g, rtol=1e-9, atol=ROUNDING)
    np.testing.assert_allclose(moments.f, f, rtol=1e-9, atol=ROUNDING)


def test_without_decay_a_trace_is_lstd_exactly(rng):
    data = rs.Trajectories(rng.normal(size=(5, 9)), rng.normal(size=(5, 8)))
    plain = rs.moments.lstd_moments(data, BASIS, discount=0.9)
    np.testing.assert_array_equal(
        rs.moments.lstd_moments(data, BASIS, discount=0.9, trace=0.0).rows, plain.rows
    )


def test_full_trace_is_the_regression_of_returns_on_features(rng):
    """With lambda = 1 and terminated episodes, theta solves least squares on the discounted returns."""
    lengths = rng.integers(1, 12, size=60)
    states = [rng.uniform(-3, 3, size=(length + 1, 1)) for length in lengths]
    rewards = [rng.normal(size=length) for length in lengths]
    data = rs.Trajectories(states, rewards, terminated=np.ones(60, dtype=bool))
    theta = rs.plug_in(rs.moments.lstd_moments(data, BASIS, discount=0.9, trace=1.0)).theta
    returns = [sum(0.9**i * r for i, r in enumerate(row[j:])) for row in rewards for j in range(len(row))]
    features = BASIS(np.concatenate([s[:-1] for s in states]))
    np.testing.assert_allclose(theta, np.linalg.lstsq(features, returns)[0], atol=1e-10)


@pytest.mark.parametrize("trace", [0.0, 0.5, 0.9])
def test_every_trace_finds_the_exact_value_of_a_chain(trace):
    """One-hot features, 4000 trajectories: within 5 standard errors of the jackknife, for every lambda."""
    chain = rs.simulate.FiniteChain.random(5, random_state=0)
    data = chain.sample(4000, 6, random_state=1)
    moments = rs.moments.lstd_moments(data, rs.basis.OneHot(5), discount=chain.discount, trace=trace)
    fit = rs.plug_in(moments)
    assert (np.abs(fit.theta - chain.values) < 5 * fit.standard_error).all()
    assert (fit.standard_error < 0.3 * np.abs(chain.values).max()).all()


def test_one_step_that_ends_is_worth_its_reward_only():
    """r = 1 and the episode is over: 1, and not 1 / (1 - 0.95) = 20."""
    data = rs.Trajectories(np.zeros((10, 2)), np.ones((10, 1)), terminated=np.ones(10, dtype=bool))
    for trace in (0.0, 0.7, 1.0):
        moments = rs.moments.lstd_moments(data, rs.basis.OneHot(1), discount=0.95, trace=trace)
        np.testing.assert_allclose(rs.plug_in(moments).theta, 1.0, rtol=1e-14)


def test_a_rate_discounts_every_step_by_its_duration(rng):
    """Ten units of time in steps of any length earn the same, discounted by when they begin."""
    dt = [rng.uniform(0.1, 2.0, size=30) for _ in range(50)]
    rate, beta = 3.0, 0.5
    earned = [
        rate * (1 - np.exp(-beta * d)) / beta for d in dt
    ]  # of a reward rate, seen from the step's start
    data = rs.Trajectories([np.zeros(31)] * 50, earned, dt=dt)
    theta = rs.plug_in(rs.moments.lstd_moments(data, rs.basis.OneHot(1), discount_rate=beta)).theta
    np.testing.assert_allclose(theta, rate / beta, rtol=1e-12)
    by_hand = rs.moments.lstd_moments(data, rs.basis.OneHot(1), discount=np.exp(-beta * np.concatenate(dt)))
    np.testing.assert_allclose(rs.plug_in(by_hand).theta, theta, rtol=1e-12)
    centred = rs.moments.lstd_moments(data, rs.basis.OneHot(1), discount_rate=beta, center_rewards=True)
    np.testing.assert_allclose(rs.plug_in(centred).theta, [0.0, rate], atol=1e-10)  # m is a reward per time


@pytest.mark.parametrize("trace", [0.0, 0.5])
def test_importance_ratios_give_the_value_of_the_other_policy(trace):
    """Within 5 standard errors of the target's exact value, and far from the behaviour's."""
    rng = np.random.default_rng(3)
    transition, reward, behaviour, target = decisions.random_process(rng)
    states, actions, rewards = decisions.roll_out(transition, reward, behaviour, 6000, 5, rng)
    data = rs.Trajectories(states.astype(float), rewards, actions=actions)

    def ratio(states, actions):
        s = states[:, 0].astype(int)
        return target[s, actions] / behaviour[s, actions]

    moments = rs.moments.lstd_moments(data, rs.basis.OneHot(4), discount=0.8, trace=trace, importance=ratio)
    fit = rs.plug_in(moments)
    truth = (target * decisions.action_values(transition, reward, target, 0.8)).sum(axis=1)
    other = (behaviour * decisions.action_values(transition, reward, behaviour, 0.8)).sum(axis=1)
    assert (np.abs(fit.theta - truth) < 5 * fit.standard_error).all()
    assert (np.abs(fit.theta - other) > 10 * fit.standard_error).any()


def test_centring_leaves_plain_predictions_and_estimates_the_mean(rng):
    data = rs.simulate.FiniteChain.ring(reward="out_of_span").sample(200, 20, random_state=0)
    basis = rs.basis.Fourier(2, period=16)
    for trace in (0.0, 0.6):
        plain = rs.plug_in(rs.moments.lstd_moments(data, basis, discount=0.9, trace=trace)).theta
        centred = rs.plug_in(
            rs.moments.lstd_moments(data, basis, discount=0.9, trace=trace, center_rewards=True)
        ).theta
        np.testing.assert_allclose(centred[-1], data.rewards.mean(), rtol=1e-12)
        states = np.arange(16.0)[:, None]
        np.testing.assert_allclose(
            basis(states) @ centred[:-1] + centred[-1] / 0.1, basis(states) @ plain, atol=1e-10
        )


def test_centred_moments_are_those_of_centred_rewards(rng):
    """The upper equations, with m at the mean reward, are LSTD on r - mean r."""
    data = rs.Trajectories(rng.normal(size=(6, 5)), 5.0 + rng.normal(size=(6, 4)))
    A, b = rs.moments.lstd_moments(data, BASIS, discount=0.9, center_rewards=True).total()
    theta = np.linalg.solve(A, b)
    rewards = data.rewards - data.rewards.mean()
    by_hand = rs.plug_in(rs.moments.lstd_moments(data, BASIS, discount=0.9, reward=rewards)).theta
    np.testing.assert_allclose(theta[:-1], by_hand, atol=1e-9)
    np.testing.assert_array_equal(A[-1, :-1], 0.0)


def test_bad_input_has_its_sentence(rng):
    data = rs.Trajectories(rng.normal(size=(3, 3)), np.zeros((3, 2)), terminated=[True, False, False])
    with pytest.raises(ValueError, match="`discount` must be given, or else `discount_rate`; got both"):
        rs.moments.lstd_moments(data, BASIS, discount=0.9, discount_rate=1.0)
    with pytest.raises(ValueError, match="`discount` must be given, or else `discount_rate`; got none"):
        rs.moments.lstd_moments(data, BASIS)
    with pytest.raises(ValueError, match="`dt` must be known to use `discount_rate`; got None"):
        rs.moments.lstd_moments(data, BASIS, discount_rate=1.0)
    with pytest.raises(
        ValueError, match=r"`discount` must be as long as `the steps of the data` \(6\); got 5"
    ):
        rs.moments.lstd_moments(data, BASIS, discount=np.full(5, 0.9))
    with pytest.raises(ValueError, match=r"`discount` must be in \[0, 1\] on every step; got 0.9 to 1.1"):
        rs.moments.lstd_moments(data, BASIS, discount=np.array([0.9, 0.9, 0.9, 0.9, 0.9, 1.1]))
    with pytest.raises(ValueError, match=r"`trace` must be a finite number in \[0, 1\]; got 2"):
        rs.moments.lstd_moments(data, BASIS, discount=0.9, trace=2)
    with pytest.raises(ValueError, match="`importance` must be non-negative and not all zero"):
        rs.moments.lstd_moments(data, BASIS, discount=0.9, importance=np.full(6, -1.0))
    with pytest.raises(ValueError, match="`center_rewards` must be False where trajectories terminate"):
        rs.moments.lstd_moments(data, BASIS, discount=0.9, center_rewards=True)
    going_on = rs.Trajectories(rng.normal(size=(3, 3)), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="infinite"):
        rs.moments.lstd_moments(going_on, BASIS, discount=1.0, center_rewards=True)
