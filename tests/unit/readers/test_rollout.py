"""Rollouts: every recorded step must be one that an environment made, and none may join two episodes."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from replaystats import readers

gymnasium = pytest.importorskip("gymnasium", reason="rollouts need gymnasium")
MODES = ("NEXT_STEP", "SAME_STEP", "DISABLED")


class Corridor(gymnasium.Env):
    """State (copy, episode, step); the reward of a step is the action times 10 plus the step it starts from.

    Episode e of copy c has 1 + (c + 2 e) % 4 steps; even ones terminate, odd ones are cut off.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gymnasium.spaces.Discrete(5)

    def __init__(self, copy=0):
        self.copy, self.episodes, self.state = copy, count(), np.zeros(3)
        self.dt = 0.25

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state[:] = self.copy, next(self.episodes), 0
        return self.observe(), {}

    def step(self, action):
        _, episode, step = self.state
        self.state[2] += 1
        over = self.state[2] == 1 + (self.copy + 2 * episode) % 4
        ends = bool(over and episode % 2 == 0), bool(over and episode % 2 == 1)
        return self.observe(), 10.0 * action + step, *ends, {}

    def observe(self):
        return self.state.copy()


def expected_steps(copy, n_episodes):
    return [1 + (copy + 2 * e) % 4 for e in range(n_episodes)]


def check_every_step(data, first_copy_episodes):
    """Compare with what the corridor must have done, episode by episode."""
    assert data.dt == 0.25
    copies = [copy for copy, n in enumerate(first_copy_episodes) for _ in range(n)]
    episodes = [e for n in first_copy_episodes for e in range(n)]
    lengths = [length for copy, n in enumerate(first_copy_episodes) for length in expected_steps(copy, n)]
    assert_array_equal(data.n_steps, lengths)
    expected = [[c, e, t] for c, e, L in zip(copies, episodes, lengths, strict=True) for t in range(L + 1)]
    assert_array_equal(data.states, expected)
    step = np.concatenate([np.arange(length) for length in lengths])
    assert_array_equal(data.rewards, 10.0 * data.actions + step)
    assert_array_equal(data.terminated, np.array(episodes) % 2 == 0)
    assert_array_equal(data.truncated, np.array(episodes) % 2 == 1)
    assert data.actions.dtype.kind == "i"


def test_single_environment():
    check_every_step(readers.rollout(Corridor(), lambda s: int(s[2]) % 5, 6), [6])


def test_environment_that_hands_out_one_buffer_again_and_again():
    class InPlace(Corridor):
        def observe(self):
            return self.state

    check_every_step(readers.rollout(InPlace(), lambda s: int(s[2]) % 5, 6), [6])


@pytest.mark.parametrize("mode", MODES)
def test_vector_environment_has_no_bogus_transition(mode):
    env = gymnasium.vector.SyncVectorEnv(
        [lambda copy=copy: Corridor(copy) for copy in range(3)],
        autoreset_mode=gymnasium.vector.AutoresetMode[mode],
        copy=False,
    )
    data = readers.rollout(env, lambda s: s[:, 2].astype(int) % 5, 8)
    check_every_step(data, [3, 3, 2])  # the same number of episodes from each copy, short or long


def test_cartpole_agrees_with_a_loop_written_out():
    env = gymnasium.make("CartPole-v1")
    states, rewards = [], []
    for i in range(3):
        s, _ = env.reset(seed=5 if i == 0 else None)
        states.append([s])
        rewards.append(0)
        over = False
        while not over:
            s, r, terminated, truncated, _ = env.step(int(s[2] > 0))
            states[-1].append(s)
            rewards[-1] += r
            over = terminated or truncated
    data = readers.rollout(gymnasium.make("CartPole-v1"), lambda s: int(s[2] > 0), 3, seed=5)
    assert_array_equal(data.states, np.concatenate(states))
    assert_array_equal(data.n_steps, rewards)
    assert data.dt == 0.02
    assert data.terminated.all()


def cartpole_step(s, force):
    """One Euler step of the cart and pole (Barto, Sutton and Anderson, 1983), for rows of states."""
    _, v, angle, spin = s.T
    cos, sin = np.cos(angle), np.sin(angle)
    push = (force + 0.05 * spin**2 * sin) / 1.1
    angular = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    linear = push - 0.05 * angular * cos / 1.1
    return s + 0.02 * np.column_stack([v, linear, spin, angular])


@pytest.mark.parametrize("mode", [*MODES, "native"])
def test_every_step_of_a_vector_cartpole_obeys_the_equations_of_motion(mode, rng):
    if mode == "native":
        env = gymnasium.make_vec("CartPole-v1", num_envs=5, vectorization_mode="vector_entry_point")
    else:
        copies = [lambda: gymnasium.make("CartPole-v1")] * 5
        env = gymnasium.vector.SyncVectorEnv(copies, autoreset_mode=gymnasium.vector.AutoresetMode[mode])
    data = readers.rollout(env, lambda s: rng.integers(0, 2, len(s)), 20, seed=0)
    steps = data.transitions()
    expected = cartpole_step(steps.states, np.where(data.actions == 1, 10.0, -10.0))
    np.testing.assert_allclose(steps.next_states, expected, atol=1e-6)  # the environment rounds to float32
    assert_array_equal(data.rewards, 1.0)
    assert data.terminated.all()
    assert data.dt == 0.02


def test_time_limit_is_a_truncation_and_max_steps_another():
    env = gymnasium.make("Pendulum-v1")
    data = readers.rollout(env, lambda s: np.zeros(1), 2, seed=0)
    assert_array_equal(data.n_steps, 200)
    assert data.truncated.all()
    assert not data.terminated.any()
    short = readers.rollout(env, lambda s: np.zeros(1), 2, seed=0, max_steps=7)
    assert_array_equal(short.n_steps, 7)
    assert short.truncated.all()
    assert_array_equal(short.states[:8], data.states[:8])
    assert short.actions.shape == (14, 1)


def test_both_flags_count_as_terminated():
    class Both(Corridor):
        def step(self, action):
            state, reward, terminated, truncated, info = super().step(action)
            over = terminated or truncated
            return state, reward, over, over, info

    data = readers.rollout(Both(), lambda s: 0, 3)
    assert data.transitions().terminal.sum() == 3


@pytest.mark.parametrize(
    ("name", "dt"),
    [("CartPole-v1", 0.02), ("Pendulum-v1", 0.05), ("Acrobot-v1", 0.2), ("MountainCar-v0", None)],
)
def test_dt_is_found_where_the_environment_states_it(name, dt):
    assert readers.find_dt(gymnasium.make(name)) == dt
    copies = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(name)] * 2)
    assert readers.find_dt(copies) == dt


def test_dt_may_be_given():
    assert readers.rollout(Corridor(), lambda s: 0, 1, dt=2.0).dt == 2.0


def test_discrete_observations_become_one_column():
    class Labelled(Corridor):
        def observe(self):
            return int(self.state[2])

    data = readers.rollout(Labelled(), lambda s: 0, 1, max_steps=3)
    assert data.states.tolist() == [[0.0], [1.0]]


def test_refusals():
    unknown = gymnasium.vector.SyncVectorEnv([Corridor])
    unknown.metadata = {}
    with pytest.raises(ValueError, match=r'states its mode in env.metadata\["autoreset_mode"\]; got None'):
        readers.rollout(unknown, lambda s: np.zeros(1, int), 1)
    vector = gymnasium.vector.SyncVectorEnv([Corridor])
    with pytest.raises(ValueError, match="`max_steps` must be None for a vector environment; got 5"):
        readers.rollout(vector, lambda s: np.zeros(1, int), 1, max_steps=5)
    with pytest.raises(ValueError, match="`n_episodes` must be an int >= 1; got 0"):
        readers.rollout(Corridor(), lambda s: 0, 0)


class TestObservationsOfSeveralEntries:
    """Dictionaries and tuples become rows, as gymnasium.wrappers.FlattenObservation makes them."""

    def test_blackjack_has_tuples(self):
        env = gymnasium.make("Blackjack-v1")
        data = readers.rollout(env, lambda s: int(s[0] < 17), 20, seed=0)
        assert data.dimension == 3
        assert np.array_equal(data.actions, data.transitions().states[:, 0] < 17)

    def test_dictionaries_in_the_order_of_their_keys(self):
        space = gymnasium.spaces.Dict(
            {"b": gymnasium.spaces.Box(-9, 9, (2,)), "a": gymnasium.spaces.Box(-9, 9, (1,))}
        )

        class Named(gymnasium.Env):
            observation_space, action_space = space, gymnasium.spaces.Discrete(2)

            def reset(self, **options):
                super().reset(**options)
                self.t = 0
                return self.observe(), {}

            def observe(self):
                return {"b": np.array([1.0, 2.0]) + self.t, "a": np.array([7.0]) - self.t}

            def step(self, action):
                self.t += 1
                return self.observe(), 1.0, self.t == 3, False, {}

        plain = readers.rollout(Named(), lambda s: 0, 2)
        flat = readers.rollout(gymnasium.wrappers.FlattenObservation(Named()), lambda s: 0, 2)
        assert np.array_equal(plain.states, flat.states)
        assert plain.states[0].tolist() == [7.0, 1.0, 2.0]
        copies = gymnasium.vector.SyncVectorEnv([Named, Named])
        assert np.array_equal(readers.rollout(copies, lambda s: np.zeros(2, int), 2).states, plain.states)


def test_the_probability_of_each_action_is_recorded():
    rng = np.random.default_rng(0)
    data = readers.rollout(
        gymnasium.make("CartPole-v1"),
        lambda s: int(rng.random() < 0.7),
        3,
        seed=0,
        behavior_probability=lambda s, a: 0.7 if a == 1 else 0.3,
    )
    assert np.array_equal(data.behavior_probability, np.where(data.actions == 1, 0.7, 0.3))
