"""Episodes that were read twice."""

import numpy as np
import pytest

import replaystats as rs


def log(n, seed, *, grid=None):
    rng = np.random.default_rng(seed)
    states, rewards = rng.normal(size=(n, 5)), rng.exponential(size=(n, 4))
    if grid is not None:
        states, rewards = np.round(states * grid) / grid, np.round(rewards)
    return states, rewards


def test_episodes_that_were_read_twice_are_noted(seed):
    """The interval of 24 is narrower than that of 12 by more than a quarter, and nothing was said."""
    states, rewards = log(12, seed)
    once = rs.evaluate(rs.Trajectories(states, rewards, terminated=True), discount=0.9)
    assert not any("copies" in note for note in once.notes)
    twice = rs.Trajectories(np.tile(states, (2, 1)), np.tile(rewards, (2, 1)), terminated=True)
    found = rs.evaluate(twice, discount=0.9)
    assert found.value == pytest.approx(once.value, rel=1e-12)
    assert any("12 of 24 episodes are copies of others" in note for note in found.notes)
    assert np.ptp(found.interval) < 0.75 * np.ptp(once.interval)


def test_states_that_come_back_make_no_copies(seed):
    """Two places and rewards of 0 and 1: short episodes are the same by chance."""
    states, rewards = log(60, seed, grid=0.5)
    data = rs.Trajectories(0.5 + 0.25 * states[:, :2], np.minimum(rewards[:, :1], 1.0), terminated=True)
    assert not any("copies" in note for note in rs.evaluate(data, discount=0.9).notes)
