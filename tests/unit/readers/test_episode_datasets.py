"""Minari and d3rlpy: whole episodes, with and without the state they end in."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from oracles import rl_libraries
from oracles.known_episodes import make_episodes
from replaystats import Trajectories, readers

LENGTHS = (3, 1, 4)


def assert_same(left, right):
    for name in ("states", "offsets", "rewards", "actions", "terminated", "truncated", "dt"):
        assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


# ---------------------------------------------------------------- Minari


def stand_in_episode(*fields):
    names = ("id", "observations", "actions", "rewards", "terminations", "truncations", "infos")
    return SimpleNamespace(**dict(zip(names, fields, strict=True)))


def real_episode(*fields):
    return pytest.importorskip("minari", reason="Minari is not installed").EpisodeData(*fields)


@pytest.fixture(params=[stand_in_episode, real_episode], ids=["stand-in", "real"])
def episode(request):
    return request.param


def minari_episodes(log, episode):
    for i, (states, rewards, actions) in enumerate(
        zip(log["states"], log["rewards"], log["actions"], strict=True)
    ):
        last = np.arange(len(rewards)) == len(rewards) - 1
        yield episode(
            i, states, actions, rewards, last & log["terminated"][i], last & log["truncated"][i], {}
        )


def test_minari_episodes(episode):
    log = make_episodes(LENGTHS)
    assert_same(readers.from_minari(minari_episodes(log, episode), dt=0.1), Trajectories(**log, dt=0.1))


def test_minari_dataset_is_iterated(episode):
    log = make_episodes(LENGTHS)
    dataset = SimpleNamespace(iterate_episodes=lambda: minari_episodes(log, episode))
    assert_same(readers.from_minari(dataset), Trajectories(**log))


def test_minari_dictionary_observations(episode):
    log = make_episodes(LENGTHS)
    episodes = [
        episode(e.id, {"pole": e.observations}, e.actions, e.rewards, e.terminations, e.truncations, {})
        for e in minari_episodes(log, stand_in_episode)
    ]
    assert_same(readers.from_minari(episodes, observation="pole"), Trajectories(**log))
    assert_same(readers.from_minari(episodes), Trajectories(**log))  # all entries side by side: there is one
    with pytest.raises(
        ValueError,
        match=r'`observation` must be an entry of the observations; got "Pol". Did you mean "pole"',
    ):
        readers.from_minari(episodes, observation="Pol")


def test_minari_broken_episodes_are_refused(episode):
    good = dict(terminations=np.array([False, True]), truncations=np.zeros(2, bool))
    early = dict(terminations=np.array([True, False]), truncations=np.zeros(2, bool))

    def make(n_states, flags, n_steps=2):
        flags = [flag[:n_steps] for flag in flags.values()]
        return [episode(0, np.zeros((n_states, 1)), np.zeros(n_steps), np.zeros(n_steps), *flags, {})]

    with pytest.raises(
        ValueError, match="`observations` must be one more than the 2 rewards in episode 0; got 2"
    ):
        readers.from_minari(make(2, good))
    with pytest.raises(
        ValueError, match="`terminations` must be set on the last step only; got an earlier one in ep"
    ):
        readers.from_minari(make(3, early))
    with pytest.raises(ValueError, match="at least one step per episode; got none in episode 0"):
        readers.from_minari(make(1, good, n_steps=0))
    with pytest.raises(ValueError, match="`dataset` must be at least one episode; got none"):
        readers.from_minari([])


@pytest.mark.filterwarnings("ignore")  # Minari's own, about descriptions and temporary folders
def test_minari_stored_dataset_with_an_unfinished_episode(tmp_path, monkeypatch):
    """Minari marks a stub as truncated, and that is what is read: its value goes on after the last state."""
    minari = pytest.importorskip("minari", reason="Minari is not installed")
    pytest.importorskip("h5py", reason="storing a Minari data set needs h5py")
    pytest.importorskip("jax", reason="creating a Minari data set needs jax")
    gymnasium = pytest.importorskip("gymnasium")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = minari.DataCollector(gymnasium.make("CartPole-v1"))
    env.reset(seed=0)
    over = False
    while not over:
        _, _, terminated, truncated, _ = env.step(0)
        over = terminated or truncated
    env.reset()
    for _ in range(3):
        env.step(1)
    dataset = env.create_dataset(
        "test/stub-v0", algorithm_name="none", author="x", author_email="x", code_permalink="x"
    )
    data = readers.from_minari(dataset, dt=readers.find_dt(dataset.recover_environment()))
    assert data.dt == 0.02
    assert data.n_steps[1] == 3
    assert data.terminated.tolist() == [True, False]
    assert data.truncated.tolist() == [False, True]


# ---------------------------------------------------------------- d3rlpy


def real_d3rlpy_dataset(observations, actions, rewards, terminals, timeouts):
    d3rlpy = pytest.importorskip("d3rlpy", reason="d3rlpy is not installed")
    float32 = (np.asarray(values, np.float32) for values in (observations, rewards, terminals, timeouts))
    observations, rewards, terminals, timeouts = float32
    return d3rlpy.dataset.MDPDataset(observations, actions, rewards, terminals, timeouts)


@pytest.fixture(params=[rl_libraries.d3rlpy_dataset, real_d3rlpy_dataset], ids=["stand-in", "real"])
def d3rlpy_dataset(request):
    return request.param


def without_final_states(log):
    """The arguments of an MDPDataset: as many observations as rewards."""
    ends = [np.arange(len(r)) == len(r) - 1 for r in log["rewards"]]
    return {
        "observations": np.concatenate([s[:-1] for s in log["states"]]),
        "actions": np.concatenate(log["actions"]),
        "rewards": np.concatenate(log["rewards"]),
        "terminals": np.concatenate([e & t for e, t in zip(ends, log["terminated"], strict=True)]).astype(
            float
        ),
        "timeouts": np.concatenate([e & t for e, t in zip(ends, log["truncated"], strict=True)]).astype(
            float
        ),
    }


def float32_rewards(log):
    return log | {"rewards": [np.asarray(r, np.float32) for r in log["rewards"]]}


def test_d3rlpy_terminated_episodes_need_a_decision(d3rlpy_dataset):
    dataset = d3rlpy_dataset(**without_final_states(make_episodes((3, 2, 4))))
    with pytest.raises(
        ValueError, match="got None, with 2 terminated episodes whose last state d3rlpy does not store"
    ):
        readers.from_d3rlpy(dataset)


def test_d3rlpy_with_the_final_states_given_is_exact(d3rlpy_dataset):
    log = float32_rewards(make_episodes((3, 2, 1)))
    dataset = d3rlpy_dataset(**without_final_states(log))
    data = readers.from_d3rlpy(dataset, final_states=[s[-1] for s in log["states"]], dt=0.1)
    assert_same(data, Trajectories(**log, dt=0.1))
    with pytest.raises(
        ValueError, match=r"`final_states` must be of shape \(n, d\) = \(3, 2\); got \(2, 2\)"
    ):
        readers.from_d3rlpy(dataset, final_states=np.zeros((2, 2)))


def test_d3rlpy_repeat_never_invents_a_zero_state(d3rlpy_dataset):
    log = float32_rewards(make_episodes((3, 2, 1)))
    data = readers.from_d3rlpy(d3rlpy_dataset(**without_final_states(log)), final_states="repeat")
    assert data.n_steps.tolist() == [3, 1, 1]  # the one that timed out loses its last step, as in d3rlpy
    assert data.terminated.tolist() == [True, False, True]
    assert_array_equal(data.states[[2, 3]], [[0.0, 2.0], [0.0, 2.0]])
    assert_array_equal(data.rewards[:3], log["rewards"][0])
    assert data.actions.dtype.kind == "i"


def test_d3rlpy_drop(d3rlpy_dataset):
    log = make_episodes((3, 2, 4))
    data = readers.from_d3rlpy(d3rlpy_dataset(**without_final_states(log)), final_states="drop")
    assert data.n_steps.tolist() == [2, 1, 3]
    assert not data.terminated.any()
    assert data.truncated.all()


def test_d3rlpy_timeouts_need_no_decision(d3rlpy_dataset):
    cut_off = {"terminated": np.zeros(2, bool), "truncated": np.ones(2, bool)}
    data = readers.from_d3rlpy(d3rlpy_dataset(**without_final_states(make_episodes((3, 2)) | cut_off)))
    assert data.n_steps.tolist() == [2, 1]
    assert data.truncated.all()
