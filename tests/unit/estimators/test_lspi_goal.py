"""LSPI says when a log cannot tell policies apart."""

import numpy as np
import pytest

import replaystats as rs


def test_a_log_without_a_goal_is_named():
    """MountainCar under random actions: -1 at every step, and nobody ever arrives."""
    gymnasium = pytest.importorskip("gymnasium")
    rng = np.random.default_rng(0)
    env = gymnasium.make("MountainCar-v0", max_episode_steps=50)
    data = rs.readers.rollout(env, lambda _: int(rng.integers(3)), n_episodes=10, seed=0)
    with pytest.warns(rs.ReplayWarning, match="no goal"):
        rs.LSPI(rs.basis.Standardized(rs.basis.Polynomial(1, 2)), n_resamples=5, random_state=0).fit(data)
