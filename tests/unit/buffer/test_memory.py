"""The replay buffer against a list of steps."""

from __future__ import annotations

import threading
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import replaystats as rs
from oracles.replay import ListBuffer, rank_probabilities
from replaystats.buffer.priorities import RankBased

ENDS = ("", "terminal", "cut")


def steps(rng, n, n_envs=1, chance=0.2):
    """Yield (states, actions, rewards, next_states, end codes) of n steps of every environment."""
    here = rng.normal(size=(n_envs, 2)).astype(np.float32)
    for _ in range(n):
        there = rng.normal(size=(n_envs, 2)).astype(np.float32)
        end = np.where(rng.random(n_envs) < chance, rng.integers(1, 3, n_envs), 0)
        yield here, rng.integers(0, 3, n_envs), rng.normal(size=n_envs), there, end
        here = np.where(end[:, None] > 0, rng.normal(size=(n_envs, 2)), there).astype(np.float32)


def fill(buffer, n, seed=0, block=None):
    """Add n steps of every environment, one at a time or in blocks; return the list that has the same."""
    rng = np.random.default_rng(seed)
    known = ListBuffer(buffer.capacity, buffer.n_envs)
    made = list(steps(rng, n, buffer.n_envs))
    for here, action, reward, there, end in made:
        for env in range(buffer.n_envs):
            known.add(env, here[env], action[env], reward[env], there[env], ENDS[end[env]])
    if block is None:
        for here, action, reward, there, end in made:
            one = (here, action, reward, there, end == 1, end == 2)
            buffer.add(*(part[0] for part in one) if buffer.n_envs == 1 else one)
    for first in range(0, n, block or n) if block else ():
        parts = [np.stack(part) for part in zip(*made[first : first + block], strict=True)]
        here, action, reward, there, end = parts
        buffer.add(here, action, reward, there, end == 1, end == 2)
    return known


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("block", [None, 7, 90])
@pytest.mark.parametrize("sampling", ["uniform", "proportional", "rank"])
def test_samples_are_steps_of_the_list(n_envs, n_step, block, sampling):
    """After 100 steps in rings of 30, every drawn row has the n-step return of the list."""
    buffer = rs.ReplayBuffer(
        30 * n_envs, n_envs=n_envs, n_step=n_step, discount=0.9, sampling=sampling, random_state=1
    )
    known = fill(buffer, 100, block=block)
    batch = buffer.sample(300)
    places = {
        tuple(step[0]): (env, place)
        for env, ring in enumerate(known.rings)
        for place, step in enumerate(ring)
    }
    for i in range(300):
        env, place = places[tuple(batch.states[i])]
        total, following, factor = known.n_step(env, place, n_step, 0.9)
        assert batch.rewards[i] == pytest.approx(total, abs=1e-12)
        assert batch.discounts[i] == pytest.approx(factor, abs=1e-12)
        np.testing.assert_array_equal(batch.next_states[i], following)
        assert batch.actions[i] == known.rings[env][place][1]


@pytest.mark.parametrize("n_envs", [1, 2])
def test_uniform_draws_are_uniform(n_envs):
    buffer = rs.ReplayBuffer(20 * n_envs, n_envs=n_envs, random_state=0)
    fill(buffer, 33)
    counts = np.bincount(buffer.sample(40_000).indices, minlength=20 * n_envs)
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("sampling", ["proportional", "rank"])
def test_prioritised_draws_and_weights(sampling, rng):
    buffer = rs.ReplayBuffer(50, sampling=sampling, exponent=0.7, correction=1.0, random_state=1)
    fill(buffer, 50)
    priorities = rng.permutation(np.arange(1.0, 51.0))
    for _ in range(2):  # the second time nothing changes
        buffer.update_priorities(np.arange(50), priorities)
    share = priorities**0.7 / (priorities**0.7).sum()
    if sampling == "rank":
        share = np.array(rank_probabilities(priorities.tolist(), 0.7))
    batch = buffer.sample(50_000)
    drawn = np.bincount(batch.indices, minlength=50) / 50_000
    np.testing.assert_allclose(drawn, share, atol=1e-4)  # stratified: far closer than independent draws
    weights = 1 / share
    np.testing.assert_allclose(batch.weights, (weights / weights.max())[batch.indices], rtol=1e-9)
    assert buffer.sample(9, correction=0.0).weights.tolist() == [1.0] * 9


def test_ranks_drift_by_less_than_the_changes_since_the_last_sort(rng):
    """Between two sorts the rank of a priority is that among the priorities of the last sort."""
    rule, priorities = RankBased(200, 1.0), np.zeros(200)
    rule.add(np.arange(200))
    rule.update(np.arange(200), priorities + 1.0)
    for _ in range(40):
        where, values = rng.integers(0, 200, 30), rng.exponential(size=30)
        rule.update(where, values)
    held = rule._priority
    exact = np.array(rank_probabilities(held.tolist(), 1.0))
    used = rule._tree.leaves(np.arange(200))
    ranks, exact_ranks = 1 / used, exact.max() / exact
    assert np.abs(ranks - exact_ranks).max() <= 200  # never worse than one full turn
    assert stats.spearmanr(ranks, exact_ranks).statistic > 0.8


def test_a_new_row_has_the_largest_priority():
    buffer = rs.ReplayBuffer(4, sampling="proportional", exponent=1.0, random_state=0)
    fill(buffer, 3)
    buffer.update_priorities([0, 1, 2], [7.0, 0.5, 0.5])
    buffer.end_episode()
    buffer.add(np.zeros(2, np.float32), 0, 0.0, np.ones(2, np.float32))
    counts = np.bincount(buffer.sample(1500).indices, minlength=4) / 100
    np.testing.assert_allclose(counts, [7, 0.5, 0.5, 7], atol=0.02)


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("n", [12, 25, 200])
def test_trajectories_are_the_whole_episodes(n_envs, n):
    buffer = rs.ReplayBuffer(25 * n_envs, n_envs=n_envs)
    episodes = fill(buffer, n).episodes()
    data = buffer.trajectories()
    assert len(data) == len(episodes)
    for found, expected in zip(data, episodes, strict=True):
        np.testing.assert_array_equal(found.rewards, [step[2] for step in expected])
        np.testing.assert_array_equal(found.actions, [step[1] for step in expected])
        np.testing.assert_array_equal(found.states, [*(step[0] for step in expected), expected[-1][3]])
        assert found.terminated[0] == (expected[-1][4] == "terminal")
    assert len(buffer.trajectories(running=True)) >= len(data)


def test_log_probabilities_are_those_of_the_log():
    buffer = rs.ReplayBuffer(10)
    for t in range(3):
        buffer.add([t], t, 1.0, [t + 1], t == 2, log_probability=np.log(0.25 * (t + 1)))
    np.testing.assert_allclose(buffer.trajectories().behavior_probability, [0.25, 0.5, 0.75])
    assert buffer.sample(5).log_probabilities.shape == (5,)
    with pytest.raises(
        ValueError, match="`log_probability` must be given for all rows or for none; got None"
    ):
        buffer.add([0], 0, 1.0, [1])


def test_evaluate_is_that_of_the_episodes():
    buffer = rs.ReplayBuffer(2000, discount=0.9)
    fill(buffer, 500)
    found, expected = buffer.evaluate(), rs.evaluate(buffer.trajectories(), discount=0.9)
    assert (found.value, found.interval.low, found.interval.high) == (
        expected.value,
        expected.interval.low,
        expected.interval.high,
    )
    assert "The interval is for one look" in found.notes[-1]


def test_callbacks_every_n_steps():
    buffer, calls = rs.ReplayBuffer(100), []
    buffer.call_every(10, lambda step, found: calls.append((step, found)), lambda: len(buffer))
    fill(buffer, 35)
    assert calls == [(10, 10), (20, 20), (30, 30)]
    with pytest.raises(TypeError, match="`callback` must be a function"):
        buffer.call_every(10, 3, len)


def test_gaps_are_refused_or_cut():
    for gaps in ("raise", "cut"):
        buffer = rs.ReplayBuffer(10, gaps=gaps)
        buffer.add([[0.0], [1.0]], [0, 0], [1.0, 1.0], [[1.0], [2.0]])
        if gaps == "raise":
            with pytest.raises(ValueError, match="`state` must be the next state of the step before it"):
                buffer.add([9.0], 0, 1.0, [10.0])
            assert len(buffer) == 2
        else:
            buffer.add([[9.0], [20.0]], [0, 0], [1.0, 1.0], [[10.0], [21.0]])
            assert [len(episode.rewards) for episode in buffer.trajectories()] == [2, 1]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_vector_environments_of_gymnasium(mode):
    """What `record` stores is what single environments with the same seeds and actions give."""
    gym = pytest.importorskip("gymnasium")
    modes = {"next_step": gym.vector.AutoresetMode.NEXT_STEP, "same_step": gym.vector.AutoresetMode.SAME_STEP}
    envs = gym.make_vec(
        "CartPole-v1",
        num_envs=3,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": modes[mode]},
        max_episode_steps=15,
    )
    buffer = rs.ReplayBuffer(900, n_envs=3)
    states, _ = envs.reset(seed=4)
    rng = np.random.default_rng(0)
    for _ in range(120):
        actions = rng.integers(0, 2, 3)
        result = envs.step(actions)
        buffer.record(envs, states, actions, result)
        states = result[0]
    data = buffer.trajectories()
    assert len(data) > 10
    lengths = data.n_steps
    assert lengths.max() <= 15
    assert (data.truncated[lengths < 15] == 0).all()  # only the time limit cuts
    assert (data.rewards == 1.0).all()  # the step of a reset has reward 0
    n_resets = len(data) if mode == "next_step" else 0
    assert 360 - n_resets - 3 <= len(buffer) <= 360 - n_resets + 3
    position, velocity = data.states[:-1, 0], data.states[:-1, 1]
    inside = np.ones(len(position), bool)
    inside[data.offsets[1:-1] - 1] = False
    np.testing.assert_allclose((position + 0.02 * velocity)[inside], data.states[1:, 0][inside], atol=1e-6)


def test_a_reset_of_ones_own_is_no_step_to_leave_out():
    """One environment has ended; `end_episode` and a reset come in place of its reset by itself."""
    envs = SimpleNamespace(metadata={"autoreset_mode": "next_step"})
    for own in (False, True):
        buffer = rs.ReplayBuffer(20, n_envs=2)
        here, there = np.zeros((2, 1)), np.ones((2, 1))
        no, actions = np.zeros(2, bool), np.zeros(2, int)
        buffer.record(envs, here, actions, (there, np.ones(2), np.array([True, False]), no, {}))
        if own:
            buffer.end_episode()
            there = here
        buffer.record(envs, there, actions, (there, np.ones(2), no, no, {}))
        assert len(buffer) == (4 if own else 3)


def test_tensors(rng):
    torch = pytest.importorskip("torch")
    buffer = rs.ReplayBuffer(50, random_state=0)
    fill(buffer, 50)
    batch = buffer.sample(8, device="cpu")
    assert batch.states.dtype == batch.rewards.dtype == torch.float32
    assert batch.terminated.dtype == torch.bool
    assert batch.log_probabilities is None


def test_readers_never_see_half_a_change():
    """One thread adds blocks whose rows agree while another samples."""
    buffer, wrong, done = rs.ReplayBuffer(400, gaps="cut"), [], threading.Event()
    ones = np.ones((50, 1))

    def read():
        while not done.is_set():
            batch = buffer.sample(64)
            if not (batch.states[:, 0] == batch.next_states[:, 0]).all():
                wrong.append(batch)

    buffer.add(ones, np.zeros(50, int), np.zeros(50), ones)
    reader = threading.Thread(target=read)
    reader.start()
    for number in range(500):
        buffer.add(number * ones, np.zeros(50, int), np.zeros(50), number * ones)
    done.set()
    reader.join()
    assert not wrong


def test_memory_is_that_of_the_arrays():
    buffer = rs.ReplayBuffer(1000)
    fill(buffer, 10)
    assert buffer.nbytes == 1000 * (2 * 8 + 8 + 8 + 1)  # two states, action, reward, end


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rs.ReplayBuffer(0), "`capacity` must be"),
        (lambda: rs.ReplayBuffer(3, n_envs=4), "`capacity` must be"),
        (lambda: rs.ReplayBuffer(9, sampling="x"), '`sampling` must be one of "uniform"'),
        (lambda: rs.ReplayBuffer(9).sample(3), "`buffer` must be filled"),
        (lambda: rs.ReplayBuffer(9).add([1.0], 0, np.nan, [1.0]), "`reward` must be finite"),
        (lambda: rs.ReplayBuffer(9).add([np.inf], 0, 1.0, [1.0]), "`state` must be finite"),
        (lambda: rs.ReplayBuffer(9).add([1.0], 0, 1.0, [1.0, 2.0]), "`next_state` must be of the shape"),
        (lambda: rs.ReplayBuffer(9, n_envs=2).add([1.0], 0, 1.0, [1.0]), "`reward` must be a number"),
        (lambda: rs.ReplayBuffer(9).add([[1.0]], [0], [1.0, 2.0], [[1.0]]), "leading shape of `reward`"),
        (lambda: filled().add([1.5, 2.0, 3.0], 0, 1.0, [1.0, 2.0, 3.0]), "`state` must be of shape"),
        (lambda: filled().sample(0), "`batch_size` must be"),
        (lambda: filled().update_priorities([0], [1.0]), '`sampling` must be "proportional"'),
        (lambda: filled("rank").update_priorities([0], [0.0]), "`priorities` must be positive"),
        (lambda: filled("rank").update_priorities([8], [1.0]), "`indices` must be those of rows"),
        (lambda: filled("rank").update_priorities([0], [1e308]), "`priorities` must be of a magnitude"),
        (lambda: rs.ReplayBuffer(9).trajectories(), "`buffer` must be filled"),
        (lambda: rs.ReplayBuffer(9).add({"a": [1.0]}, 0, 1.0, {"a": [2.0]}), "FlattenObservation"),
        (lambda: filled().add([1.0, 2.0], 300, 1.0, [1.0, 2.0]), "`action` must be numbers that int8 holds"),
        (lambda: filled().add([1e300, 2.0], 0, 1.0, [1.0, 2.0]), "`state` must be numbers that"),
        (lambda: filled().add([1.0, 2.0], 0.5, 1.0, [1.0, 2.0]), "`action` must be numbers that int8 holds"),
        (
            lambda: rs.ReplayBuffer(9).add([1.0], 0, 1.0, [2.0], log_probability=0.5),
            "`log_probability` must be",
        ),
        (
            lambda: rs.ReplayBuffer(9).add([[0.0], [5.0]], [0, 0], [1.0, 1.0], [[1.0], [6.0]]),
            "`state` must be the",
        ),
        (lambda: rs.ReplayBuffer(9, journal="no-such-folder/j"), "`journal` must be in a folder"),
        (lambda: same_step({}), "`result` must be one with final_obs"),
    ],
)
def test_bad_input_has_its_sentence(call, message):
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        call()


def filled(sampling="uniform"):
    buffer = rs.ReplayBuffer(9, sampling=sampling)
    buffer.add(np.float32([0.0, 0.0]), np.int8(0), 1.0, np.float32([1.0, 2.0]), terminated=True)
    return buffer


def same_step(info):
    envs, one = SimpleNamespace(metadata={"autoreset_mode": "same_step"}), np.ones(1, bool)
    rs.ReplayBuffer(9).record(envs, [[0.0]], [0], ([[1.0]], np.ones(1), one, ~one, info))


def test_numbers_take_the_type_of_the_first_rows():
    """An environment that resets in single precision and steps in double: nothing is cut off."""
    buffer = rs.ReplayBuffer(9)
    states = [np.float32([0.5]), np.array([0.1]), np.array([0.2])]
    for here, there in pairwise(states):
        buffer.add(here, np.int8(1), 1.0, there)
    assert buffer.trajectories(running=True).states.ravel().tolist() == [0.5, 0.1, 0.2]
    buffer.end_episode()
    buffer.add(np.float32([0.25]), 3.0, 1.0, np.array([0.5]))
    assert buffer.sample(50).actions.dtype == np.int8
