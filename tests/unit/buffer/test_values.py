"""Values while training: exact sums as rows leave, the last layer of a network, returns at any look."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs
from replaystats.buffer.values import BLOCK_ROWS

BASIS = rs.basis.Polynomial(1)


def lstd(data):
    return rs.moments.lstd_moments(data, BASIS, discount=0.9)


def line(rng, n):
    """One chain of n steps: states, actions, rewards, next states, ends."""
    states = rng.normal(size=(n + 1, 1))
    ends = rng.random(n) < 0.1
    return states[:-1], rng.integers(0, 2, n), rng.normal(size=n), states[1:], ends


def oracle_sums(buffer, discount):
    """The sums of LSTD over what the rings hold, step by step."""
    arrays, A, b = buffer._rings.arrays, np.zeros((2, 2)), np.zeros(2)
    for slot in buffer._rings.used():
        here, there = (np.array([1.0, float(arrays[name][slot][0])]) for name in ("state", "next_state"))
        going = arrays["end"][slot] != 1
        A += np.outer(here, here - discount * going * there)
        b += arrays["reward"][slot] * here
    return A, b


@pytest.mark.parametrize("n_envs", [1, 3])
def test_sums_are_those_of_the_rows_in_the_buffer(n_envs, rng):
    buffer = rs.ReplayBuffer(60 * n_envs, n_envs=n_envs, gaps="cut")
    view = buffer.view(lstd)
    for n in (1, 20, 50, 3, 200):
        parts = [np.stack(part, axis=1) for part in zip(*(line(rng, n) for _ in range(n_envs)), strict=True)]
        buffer.add(*(part[:, 0] if n_envs == 1 else part for part in parts))
        for found, expected in zip(view.total(), oracle_sums(buffer, 0.9), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_nothing_is_left_of_a_huge_row():
    buffer = rs.ReplayBuffer(100, gaps="cut")
    view = buffer.view(lambda data: rs.moments.lstd_moments(data, rs.basis.Polynomial(0), discount=0.5))
    for reward in [1.0] * 50 + [1e18] + [1.0] * 100:
        buffer.add([0.0], 0, reward, [0.0])
        view.total()
    assert view.total()[1].tolist() == [100.0]


def test_only_blocks_that_changed_are_computed(rng):
    calls = []

    def counted(data):
        calls.append(len(data))
        return lstd(data)

    buffer = rs.ReplayBuffer(3 * BLOCK_ROWS)
    view = buffer.view(counted)
    buffer.add(*line(rng, 3 * BLOCK_ROWS))
    view.total()
    assert calls == [BLOCK_ROWS] * 3
    buffer.end_episode()
    buffer.add([0.0], 0, 1.0, [0.0])
    view.total()
    view.total()
    assert calls == [BLOCK_ROWS] * 4
    view.refresh()
    view.total()
    assert calls == [BLOCK_ROWS] * 7


def drifting(rng, n, length=10, reward=lambda states: states[:, 0]):
    """Episodes of s' = .8 s + noise from N(1, 1), whose reward is the state: worth 1 / (1 - .72) at .9."""
    states = np.empty((n, length + 1, 1))
    states[:, 0, 0] = 1.0 + rng.normal(size=n)
    for t in range(length):
        states[:, t + 1] = 0.8 * states[:, t] + 0.5 * rng.normal(size=(n, 1))
    buffer = rs.ReplayBuffer(n * length, discount=0.9)
    here, there = states[:, :-1].reshape(-1, 1), states[:, 1:].reshape(-1, 1)
    cut = np.tile(np.arange(length) == length - 1, n)
    buffer.add(here, np.zeros(len(here), int), reward(here), there, truncated=cut)
    return buffer


@pytest.mark.parametrize("n", [3, 20])
def test_the_last_layer_covers_from_the_first_episodes(n):
    """100 data sets: coverage .95 within three standard errors, .065."""
    rng = np.random.default_rng(n)
    weights, shift = rng.normal(size=(1, 8)), rng.normal(size=8)
    covered = 0
    for _ in range(100):
        found = drifting(rng, n).last_layer(lambda x: np.tanh(x @ weights + shift)).look()
        covered += found.interval.low[0] <= 1 / 0.28 <= found.interval.high[0]
        assert np.isfinite([found.interval.low[0], found.interval.high[0]]).all()
        assert found.n_episodes == n
    assert covered >= 88


@pytest.mark.parametrize("policy", [None, lambda states: np.zeros(len(states), int)])
def test_features_in_which_values_are_not_linear_are_reported(rng, policy):
    """60 data sets: a level of .05 exceeds 9 with probability .001; with squares as rewards all are found."""
    options = {} if policy is None else {"policy": policy, "n_actions": 1}

    def reported(n, **world):
        looks = [drifting(rng, 40, **world).last_layer(lambda x: x, **options).look() for _ in range(n)]
        return sum(not look.reliable for look in looks)

    assert reported(60) <= 9
    assert reported(5, reward=lambda states: states[:, 0] ** 2) == 5
    few = drifting(rng, 3).last_layer(lambda x: x, **options).look()
    assert np.isnan(few.p_value)
    assert few.reliable


def test_the_last_layer_without_a_ridge_is_lstd(rng):
    buffer = drifting(rng, 50)
    model = rs.LSTD(BASIS, discount=0.9, random_state=0).fit(buffer.trajectories())
    starts = buffer.trajectories().states[buffer.trajectories().offsets[:-1]]
    expected = model.plug_in_predict(starts).mean()
    assert buffer.last_layer(lambda x: x, ridge=1e-9).look().value == pytest.approx(expected, rel=1e-6)


def test_a_policy_and_a_network_that_change(rng):
    """LSTDQ of two policies from random actions, for a network of PyTorch that is copied at `refresh`."""
    torch = pytest.importorskip("torch")
    buffer = rs.ReplayBuffer(4000, discount=0.5)
    states, actions = rng.normal(size=(400, 5, 1)), rng.integers(0, 2, (400, 4))
    for i in range(400):
        buffer.add(states[i, :-1], actions[i], 1.0 * actions[i], states[i, 1:], np.arange(4) == 3)
    network = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh())
    layer = buffer.last_layer(network, policy=lambda s: np.ones(len(s), int), n_actions=2)
    ones = layer.look()
    with torch.no_grad():
        network[0].weight.zero_()
    assert layer.look().value == ones.value  # not before refresh
    layer.refresh(network, policy=lambda s: np.zeros(len(s), int))
    none = layer.look()
    assert ones.interval.low[0] > none.interval.high[0]
    assert none.value == pytest.approx(0.0, abs=0.05)


def test_a_network_gets_observations_as_they_were_added(rng):
    """Images in bytes, a block at a time, for the network and the policy; values are those of flat rows."""
    pictures = rng.integers(0, 256, (41, 3, 4, 2), dtype=np.uint8)
    ends, shapes = np.arange(40) % 4 == 3, set()

    def features(images):
        shapes.add(images.shape[1:])
        return images.mean(axis=(1, 2)) if images.ndim == 4 else images.reshape(-1, 12, 2).mean(axis=1)

    def policy(images):
        shapes.add(images.shape[1:])
        return (images.reshape(len(images), -1)[:, 0] > 99).astype(int)

    found = []
    for shape in ((3, 4, 2), (24,)):
        buffer, rows = rs.ReplayBuffer(40, discount=0.5), pictures.reshape(41, *shape)
        buffer.add(rows[:-1], np.arange(40) % 2, np.arange(40.0), rows[1:], ends)
        found.append(buffer.last_layer(features, policy=policy, n_actions=2).look())
    assert shapes == {(3, 4, 2), (24,)}
    assert repr(found[0]) == repr(found[1])


def test_a_module_is_asked_in_evaluation(rng):
    """What a network leaves out at random while it learns is in; the network itself goes on learning."""
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(torch.nn.Linear(1, 6), torch.nn.Dropout(0.5))
    layer = drifting(rng, 20).last_layer(network)
    assert repr(layer.look()) == repr(layer.look())
    assert network.training


def test_rewards_shift_the_value_and_nothing_else(rng):
    buffer, shifted = drifting(rng, 10), None
    shifted = rs.ReplayBuffer(100, discount=0.9)
    arrays = buffer._rings.arrays
    cut = arrays["end"] == 2
    shifted.add(arrays["state"], arrays["action"], arrays["reward"] + 5, arrays["next_state"], truncated=cut)
    plain, moved = (b.last_layer(np.tanh).look() for b in (buffer, shifted))
    assert moved.value - plain.value == pytest.approx(50.0, rel=1e-4)
    assert moved.interval.high - moved.interval.low == pytest.approx(
        plain.interval.high - plain.interval.low, rel=1e-3
    )


@pytest.mark.parametrize("n_envs", [1, 2])
def test_returns_are_counted_once(n_envs, rng):
    buffer = rs.ReplayBuffer(400 * n_envs, n_envs=n_envs, gaps="cut")
    monitor, expected = buffer.monitor(discount=0.5), []
    for _ in range(30):
        length = int(rng.integers(1, 6))
        rewards = rng.normal(size=(length, n_envs))
        states = rng.normal(size=(length + 1, n_envs, 1))
        ends = np.zeros((length, n_envs), bool)
        ends[-1] = True
        expected += (rewards * 0.5 ** np.arange(length)[:, None]).sum(axis=0).tolist()
        parts = (states[:-1], np.zeros((length, n_envs), int), rewards, states[1:], ends)
        buffer.add(*(part[:, 0] if n_envs == 1 else part for part in parts))
        now = monitor.look()
    assert now.n_values == len(expected)
    assert now.value == pytest.approx(np.mean(expected))
    assert monitor.look().n_values == len(expected)


def test_episodes_that_left_unseen_are_reported():
    buffer = rs.ReplayBuffer(10)
    monitor = buffer.monitor()
    for i in range(14):
        buffer.add([float(i)], 0, 1.0, [i + 1.0], i % 4 == 3)
    with pytest.warns(rs.ReplayWarning, match="left the buffer before"):
        assert monitor.look().n_values == 1  # steps 8 to 11; of 4 to 7 the first may be missing
    for i in range(14, 16):
        buffer.add([float(i)], 0, 1.0, [i + 1.0], i % 4 == 3)
    assert monitor.look().n_values == 2


@pytest.mark.parametrize("units", ["environment", lambda states: states[:, 0]])
def test_episodes_of_one_unit_count_together(units, rng):
    """Each of 30 environments earns the same in all of its episodes."""
    buffer = rs.ReplayBuffer(30 * 40, n_envs=30, gaps="cut")
    earned = rng.normal(size=30)
    states = np.tile(np.arange(30.0)[:, None], (2, 1, 1))
    for _ in range(8):
        ends = np.array([[False] * 30, [True] * 30])
        buffer.add(states, np.zeros((2, 30), int), np.tile(earned / 2, (2, 1)), states, ends)
    now, plain = buffer.monitor(units=units).look(), buffer.monitor().look()
    assert now.n_values == 240
    assert now.value == pytest.approx(earned.mean())
    width = float((now.one_look.high - now.one_look.low)[0])
    assert width == pytest.approx(2 * 2.045 * earned.std(ddof=1) / np.sqrt(30), rel=0.1)
    assert not plain.changes or plain.n_values < 240
    assert not now.changes


def test_a_range_of_rewards_bounds_returns():
    buffer = rs.ReplayBuffer(10)
    assert buffer.monitor(reward_range=(-1, 2), max_steps=5).sequence.bounds == (-5.0, 10.0)
    assert buffer.monitor(reward_range=(1, 1.5), discount=0.5).sequence.bounds == (1.0, 3.0)
    bounds = buffer.monitor(reward_range=(0, 1), discount=0.5, max_steps=2).sequence.bounds
    assert bounds == (0.0, 1.5)


def test_a_callback_gets_the_monitored_value(rng):
    buffer, calls = rs.ReplayBuffer(1000), []
    buffer.call_every(100, lambda step, now: calls.append((step, now.n_values)), buffer.monitor().look)
    for _ in range(50):
        states = rng.normal(size=(6, 1))
        buffer.add(states[:-1], np.zeros(5, int), rng.normal(size=5), states[1:], np.arange(5) == 4)
    assert calls == [(100, 20), (200, 40)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.view(3), "`moments` must be a function"),
        (lambda b: b.view(lambda data: 3).total(), "`moments` must be a Moments"),
        (lambda b: b.last_layer(3), "`network` must be a function"),
        (lambda b: b.last_layer(np.tanh, policy=len), "`n_actions` must be"),
        (lambda b: b.last_layer(np.tanh, ridge=-1.0), "`ridge` must be"),
        (lambda b: b.monitor(discount=2.0), "`discount` must be"),
        (lambda b: b.monitor(units="users"), "`units` must be one of"),
        (lambda b: b.monitor(reward_range=(0, 1)), "`max_steps` must be given"),
        (lambda b: b.monitor(reward_range=(0, 1), max_steps=2.5), "`max_steps` must be an int"),
        (lambda b: b.monitor(reward_range=(0, 1), max_steps=9, bounds=(0, 9)), "`reward_range` must be None"),
        (lambda b: b.monitor(reward_range=(0, 1), max_steps=9, units="environment"), "`units` must be None"),
    ],
)
def test_bad_input_has_its_sentence(call, message):
    buffer = rs.ReplayBuffer(9)
    buffer.add([0.0], 0, 1.0, [1.0], terminated=True)
    with pytest.raises((ValueError, TypeError), match=message):
        call(buffer)
