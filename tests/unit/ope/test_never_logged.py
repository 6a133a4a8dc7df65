"""Policies that take actions which are not in the log: nobody knows, and everybody says so."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs
from replaystats import ReplayWarning

BASIS = rs.basis.Polynomial(1)


def log(n_steps=1, n=400, seed=0):
    """Arm 0 earns 0 and arm 1 earns 1, whatever the state; there is an arm 2 that nobody tried."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(2, size=(n, n_steps))
    return rs.Trajectories(
        rng.normal(size=(n, n_steps + 1, 1)), 1.0 * arm, arm, terminated=np.ones(n, dtype=bool)
    )


def mixed(*chances):
    return lambda states: np.tile(chances, (len(states), 1))


@pytest.mark.parametrize(
    ("unknown", "n_steps"),
    [(0.1, 1), (1.0, 4), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(0.3, 4), (1.0, 1)])],
)
def test_the_interval_holds_whatever_the_action_is_worth(unknown, n_steps):
    """By hand: the untried arm may earn 0 or 1 at every step, the others earn a half."""
    policy = mixed(0.5 * (1 - unknown), 0.5 * (1 - unknown), unknown)
    found = rs.evaluate(log(n_steps), policy, discount=0.9, basis=BASIS, n_actions=3)
    total = sum(0.9**t for t in range(n_steps))
    known = 0.5 * (1 - unknown) * total
    assert found.interval.low <= known + 0.02  # it earns nothing
    assert found.interval.high >= known + unknown * total - 0.02  # it earns one every time
    assert any("which the log never does" in note for note in found.notes)
    assert found.interval.low <= found.value <= found.interval.high


@pytest.mark.parametrize(
    ("lowest", "discount", "unknown"),
    [
        (-2.0, 0.5, 0.5),
        (0.0, 0.9, 0.2),
        (1.0, 0.5, 1.0),
        (10.0, 0.5, 0.5),
        (10.0, 0.9, 0.2),
        (-2.0, 0.5, 1.0),
    ],
)
def test_zero_is_no_special_reward(lowest, discount, unknown):
    """By hand: the untried arm earns least or most at every step for ever, the other the mean of both."""
    rng = np.random.default_rng(1)
    data = rs.Trajectories(
        rng.normal(size=(200, 5, 1)), lowest + rng.uniform(size=(200, 4)), np.zeros((200, 4), dtype=int)
    )
    found = rs.evaluate(data, mixed(1 - unknown, unknown), discount=discount, basis=BASIS)
    least, most = ((lowest + (1 - unknown) * 0.5 + unknown * arm) / (1 - discount) for arm in (0.0, 1.0))
    assert found.interval.low <= least + 0.01
    assert found.interval.high >= most - 0.01
    assert found.interval.low <= found.value <= found.interval.high
    if unknown < 1.0:  # and it does not take to flight: some of what is possible at all is ruled out
        assert found.interval.high - found.interval.low < 0.8 / (1 - discount)


def test_logged_actions_have_the_interval_they_had():
    known = rs.evaluate(log(), mixed(0.5, 0.5), discount=0.9, basis=BASIS)
    more = rs.evaluate(log(), mixed(0.5, 0.5, 0.0), discount=0.9, basis=BASIS, n_actions=3)
    assert known.interval == pytest.approx(more.interval)
    assert not any("never does" in note for note in more.notes)


def counted_log(n=200, n_steps=6, seed=3):
    """Four states in a ring, of which the last pays; one action goes on, the other stays."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(2, size=(n, n_steps))
    places = np.concatenate([np.zeros((n, 1)), np.cumsum(arm, axis=1) % 4], axis=1)
    return rs.Trajectories(places, (places[:, :-1] == 3) + 0.1 * rng.normal(size=arm.shape), arm)


@pytest.mark.parametrize("table", [False, True])
def test_fits_warn(table):
    states, rng = np.zeros((200, 3, 1)), np.random.default_rng(0)
    if table:
        states = rng.integers(0, 400, size=(200, 3, 1)).astype(float)
    arm = rng.integers(2, size=(200, 2))
    data = rs.Trajectories(states, 1.0 * arm, arm, terminated=np.zeros(200, dtype=bool))
    model = rs.LSTDQ(
        rs.basis.OneHot(400 if table else 1), policy=lambda s: np.full(len(s), 2), discount=0.5,
        resampling=rs.Resampling(n_resamples=20), random_state=0,
    )  # fmt: skip
    with pytest.warns(ReplayWarning) as caught:
        model.fit(data)
    assert any(r"takes the action(s) 2, which the log never does" in str(each.message) for each in caught)


def test_moments_warn_and_a_policy_of_logged_actions_does_not():
    with pytest.warns(ReplayWarning, match=r"takes the action\(s\) 2, which the log never does"):
        rs.moments.lstd_q_moments(log(3), BASIS, policy=mixed(0.4, 0.4, 0.2), discount=0.9)
    rs.moments.lstd_q_moments(log(3), BASIS, policy=mixed(0.5, 0.5, 0.0), discount=0.9)


def test_a_log_that_always_did_the_same_in_a_state_does_not_support_a_coin():
    """Estimated probabilities are near zero and one; ratios of what was logged have the mean one half."""
    rng = np.random.default_rng(0)
    state, states, rewards, actions = rng.normal(size=150), [], [], []
    for _ in range(4):
        acts = (state < 0).astype(int)
        states.append(state)
        actions.append(acts)
        rewards.append(state - acts)
        state = 0.5 * state + 0.5 * acts + 0.5 * rng.normal(size=150)
    columns = (np.stack(x, axis=1) for x in ([*states, state], rewards, actions))
    data = rs.Trajectories(*columns, terminated=True)
    found = rs.evaluate(data, lambda s: np.full((len(s), 2), 0.5), discount=1.0)
    assert not found.reliable
    assert "the policy does what is missing there in the log" in found.sentence
