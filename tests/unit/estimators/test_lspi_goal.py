"""LSPI says when a log cannot tell policies apart, learns to balance, and extends what may be extended."""

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
        rs.LSPI(
            rs.basis.Standardized(rs.basis.Polynomial(1, 2)),
            resampling=rs.Resampling(n_resamples=5),
            random_state=0,
        ).fit(data)


@pytest.mark.slow
def test_random_pushes_teach_to_balance():
    """Section of the docs, one log of 1000 episodes: 399 to 500 of 500 steps in ten such logs."""
    gymnasium = pytest.importorskip("gymnasium")
    rng = np.random.default_rng(3)
    env = gymnasium.make("CartPole-v1")
    data = rs.readers.rollout(env, lambda _: int(rng.integers(2)), n_episodes=1000, seed=3)
    basis = rs.basis.Squashed(rs.basis.Polynomial(2, dimension=4))
    model = rs.LSPI(
        basis, discount=0.95, evaluation="plug_in", resampling=rs.Resampling(n_resamples=5), random_state=0
    ).fit(data)
    played = rs.readers.rollout(env, lambda s: int(model.policy_(s[None])[0]), n_episodes=10, seed=4)
    assert data.n_steps.mean() < 30
    assert played.n_steps.mean() > 350


def test_more_subsets_only_where_the_policy_does_not_depend_on_them():
    rng = np.random.default_rng(0)
    s, a = rng.integers(2, size=(2, 100, 1))
    data = rs.Trajectories(np.hstack([s, s ^ a]), rewards=1.0 * s, actions=a)
    settings = {"discount": 0.5, "resampling": rs.Resampling(n_resamples=10), "random_state": 0}
    model = rs.LSPI(rs.basis.OneHot(2), evaluation="plug_in", **settings).fit(data)
    model.extend(5)
    assert model.plan_.n_resamples == model.evaluation_.plan_.n_resamples == 15
    with pytest.raises(ValueError, match=r"`evaluation` must be .* fit again"):
        rs.LSPI(rs.basis.OneHot(2), **settings).fit(data).extend(5)
