"""The buffer in the place of Stable-Baselines3's, with the real package."""

from __future__ import annotations

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")
sb3 = pytest.importorskip("stable_baselines3")
buffers = pytest.importorskip("stable_baselines3.common.buffers")
make_vec_env = pytest.importorskip("stable_baselines3.common.env_util").make_vec_env
SB3ReplayBuffer = pytest.importorskip("replaystats.buffer.sb3").SB3ReplayBuffer


def trained(kind, n_envs=1, **options):
    env = make_vec_env("CartPole-v1", n_envs=n_envs, seed=0, env_kwargs={"max_episode_steps": 40})
    return sb3.DQN(
        "MlpPolicy",
        env,
        learning_starts=50,
        buffer_size=300,
        seed=1,
        train_freq=4,
        device="cpu",
        replay_buffer_class=kind,
        replay_buffer_kwargs=options,
        exploration_fraction=1.0,
    ).learn(600)


@pytest.mark.parametrize("n_envs", [1, 2])
def test_it_holds_what_theirs_holds(n_envs):
    """Acting at random with the same seed, both see the same steps, oldest first."""
    env = make_vec_env("CartPole-v1", n_envs=n_envs, env_kwargs={"max_episode_steps": 15})
    space, actions = env.observation_space, env.action_space
    ours = SB3ReplayBuffer(100, space, actions, device="cpu", n_envs=n_envs)
    theirs = buffers.ReplayBuffer(100, space, actions, device="cpu", n_envs=n_envs)
    env.seed(3)
    states, rng = env.reset(), np.random.default_rng(0)
    for _ in range(130):
        action = rng.integers(0, 2, n_envs)
        following, reward, done, infos = env.step(action)
        final = following.copy()
        for i in np.flatnonzero(done):
            final[i] = infos[i]["terminal_observation"]
        for buffer in (ours, theirs):
            buffer.add(states, final, action, reward, done, infos)
        states = following
    assert (ours.size(), ours.pos, ours.full) == (theirs.size(), theirs.pos, theirs.full)
    rings, order = ours.memory._rings, (np.arange(theirs.buffer_size) + theirs.pos) % theirs.buffer_size
    for ring in range(n_envs):
        slots = rings.in_time(ring)
        np.testing.assert_array_equal(rings.arrays["state"][slots], theirs.observations[order, ring])
        np.testing.assert_array_equal(
            rings.arrays["next_state"][slots], theirs.next_observations[order, ring]
        )
        np.testing.assert_array_equal(rings.arrays["action"][slots], theirs.actions[order, ring])
        ended = theirs.dones[order, ring] * (1 - theirs.timeouts[order, ring])
        np.testing.assert_array_equal(rings.arrays["end"][slots] == 1, ended == 1)
    ours_batch, theirs_batch = ours.sample(8), theirs.sample(8)
    for name in ("observations", "actions", "next_observations", "dones", "rewards"):
        a, b = getattr(ours_batch, name), getattr(theirs_batch, name)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)


@pytest.mark.parametrize("n_envs", [1, 2])
def test_dqn_trains_and_evaluates(n_envs, tmp_path):
    model = trained(SB3ReplayBuffer, n_envs, n_step=3, discount=0.99, sampling="proportional")
    memory = model.replay_buffer.memory
    assert len(memory) == 300
    assert memory.trajectories().n_steps.max() <= 40
    batch = model.replay_buffer.last_batch
    memory.update_priorities(batch.indices, np.ones(len(batch.indices)))
    model.save_replay_buffer(tmp_path / "buffer.pkl")
    model.load_replay_buffer(tmp_path / "buffer.pkl")
    assert len(model.replay_buffer.memory) == 300
    model.replay_buffer.reset()
    assert model.replay_buffer.size() == 0


def test_with_the_same_draws_dqn_learns_the_same_network(monkeypatch):
    """Bit for bit: so with its own draws, of the same law, it learns as with their buffer."""

    def their_draw(memory, size):
        slots = np.random.randint(0, len(memory), size=size)  # noqa: NPY002
        np.random.randint(0, high=1, size=(size,))  # noqa: NPY002 - they draw an environment as well
        return slots, None

    monkeypatch.setattr("replaystats.buffer.memory.ReplayBuffer._draw", their_draw)
    ours, theirs = trained(SB3ReplayBuffer), trained(buffers.ReplayBuffer)
    weights = [model.policy.state_dict() for model in (ours, theirs)]
    for name, value in weights[1].items():
        np.testing.assert_array_equal(weights[0][name], value)


def test_the_discount_is_that_of_the_algorithm():
    """Single steps leave it to the algorithm; n-step returns are those of Stable-Baselines3's own buffer."""
    env = make_vec_env("CartPole-v1", env_kwargs={"max_episode_steps": 15})
    spaces = (env.observation_space, env.action_space)
    single, ours = SB3ReplayBuffer(100, *spaces), SB3ReplayBuffer(100, *spaces, n_step=3, discount=0.9)
    theirs = buffers.NStepReplayBuffer(100, *spaces, n_steps=3, gamma=0.9)
    env.seed(3)
    states, rng = env.reset(), np.random.default_rng(0)
    for _ in range(70):
        following, reward, done, infos = env.step(rng.integers(0, 2, 1))
        final = infos[0]["terminal_observation"][None] if done[0] else following
        for buffer in (single, ours, theirs):
            buffer.add(states, final, np.zeros(1, int), reward, done, infos)
        states = following
    assert single.sample(4).discounts is None
    found, expected = ours.sample(500), theirs._get_samples(np.arange(70))
    where = {tuple(state): i for i, state in enumerate(expected.observations.numpy())}
    rows = [where[tuple(state)] for state in found.observations.numpy()]
    assert len(set(rows)) > 60
    for name in ("rewards", "dones", "next_observations"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name)[rows], rtol=1e-6)
    going_on = ~found.dones.numpy().astype(bool)  # after a terminal state the discount plays no role
    np.testing.assert_allclose(found.discounts[going_on], expected.discounts[rows][going_on], rtol=1e-6)
    with pytest.raises(ValueError, match="`discount` must be given with n_step"):
        SB3ReplayBuffer(100, *spaces, n_step=3)


def test_final_states_are_needed():
    env = gym.make("CartPole-v1")
    with pytest.raises(ValueError, match="`optimize_memory_usage` must be False"):
        SB3ReplayBuffer(10, env.observation_space, env.action_space, optimize_memory_usage=True)


def test_observations_of_several_parts_are_refused():
    parts = gym.spaces.Dict({"a": gym.spaces.Discrete(2), "b": gym.spaces.Box(0.0, 1.0)})
    with pytest.raises(TypeError, match="`observation_space` must be one of arrays"):
        SB3ReplayBuffer(10, parts, gym.spaces.Discrete(2))
