"""Replay buffers, as stand-ins always and as the real classes where they are installed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from oracles import rl_libraries
from oracles.known_episodes import make_episodes
from replaystats import Trajectories, readers

LENGTHS = (3, 1, 4, 2, 5)


def assert_same(left, right):
    for name in ("states", "offsets", "rewards", "actions", "terminated", "truncated", "dt"):
        assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


def as_float32(data):
    """What is left of the rewards in a buffer of float32; the states are small integers."""
    return Trajectories(
        data["states"],
        [r.astype(np.float32) for r in data["rewards"]],
        data["actions"],
        data["terminated"],
        data["truncated"],
    )


def steps_of(data):
    """Every step as (s, s', a, r, terminated, truncated), episode after episode."""
    for i, states in enumerate(data["states"]):
        for t in range(len(states) - 1):
            last = t == len(states) - 2
            ends = bool(last and data["terminated"][i]), bool(last and data["truncated"][i])
            yield states[t], states[t + 1], data["actions"][i][t], data["rewards"][i][t], *ends


# ---------------------------------------------------------------- Stable-Baselines3


def stand_in_sb3(size, n_envs=1, **options):
    return rl_libraries.SB3Buffer(size, n_envs, **options)


def real_sb3(size, n_envs=1, timeouts=True, optimize_memory_usage=False):
    buffers = pytest.importorskip(
        "stable_baselines3.common.buffers", reason="Stable-Baselines3 is not installed"
    )
    spaces = pytest.importorskip("gymnasium").spaces
    box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    return buffers.ReplayBuffer(
        size,
        box,
        spaces.Discrete(4),
        device="cpu",
        n_envs=n_envs,
        optimize_memory_usage=optimize_memory_usage,
        handle_timeout_termination=timeouts,
    )


def fill_sb3(buffer, *logs):
    for steps in zip(*(list(steps_of(log)) for log in logs), strict=True):
        s, s2, a, r, terminated, truncated = (np.array(values) for values in zip(*steps, strict=True))
        buffer.add(
            s, s2, a, r, terminated | truncated, [{"TimeLimit.truncated": bool(cut)} for cut in truncated]
        )
    return buffer


@pytest.fixture(params=[stand_in_sb3, real_sb3], ids=["stand-in", "real"])
def sb3(request):
    return request.param


def test_sb3_partly_filled(sb3):
    log = make_episodes(LENGTHS)
    assert_same(readers.from_sb3(fill_sb3(sb3(100), log)), as_float32(log))


def test_sb3_full_circle_starts_with_the_oldest_step(sb3):
    log = make_episodes(LENGTHS)  # 15 steps
    data = readers.from_sb3(fill_sb3(sb3(13), log))
    # the first two steps were overwritten: of the first episode one step is left
    expected = as_float32(
        log | {name: [log[name][0][2:], *log[name][1:]] for name in ("states", "rewards", "actions")}
    )
    assert_same(data, expected)


def test_sb3_environments_are_kept_apart(sb3):
    logs = [make_episodes(LENGTHS, seed=s) for s in (0, 1)]
    logs[1] = logs[1] | {"states": [states + 100.0 for states in logs[1]["states"]]}
    data = readers.from_sb3(fill_sb3(sb3(40, n_envs=2), *logs))
    assert_same(data, Trajectories.concatenate([as_float32(log) for log in logs]))


def test_sb3_unfinished_episode_is_neither_terminated_nor_truncated(sb3):
    log = make_episodes([3]) | {"terminated": np.array([False]), "truncated": np.array([False])}
    data = readers.from_sb3(fill_sb3(sb3(10), log))
    assert (data.terminated.tolist(), data.truncated.tolist()) == ([False], [False])


def test_sb3_without_final_states_or_timeouts_is_refused(sb3):
    with pytest.raises(
        ValueError, match=r"without optimize_memory_usage; got one with it. It keeps no final states"
    ):
        readers.from_sb3(sb3(10, optimize_memory_usage=True, timeouts=False))
    log = make_episodes([3, 2])
    without_limits = fill_sb3(sb3(10, timeouts=False), log)
    with pytest.raises(ValueError, match="A time limit would pass for a terminal state"):
        readers.from_sb3(without_limits)
    assert readers.from_sb3(without_limits, dones_are_terminal=True).terminated.tolist() == [True, True]
    with pytest.raises(ValueError, match="a buffer with steps in it; got an empty one"):
        readers.from_sb3(sb3(10))


def test_sb3_wrong_next_state_is_seen(sb3):
    log = make_episodes([4, 3])
    buffer = fill_sb3(sb3(10), log)
    buffer.next_observations[1] = -7.0
    with pytest.raises(ValueError, match="`next_states` must be the state of the following row"):
        readers.from_sb3(buffer)
    cut = readers.from_sb3(buffer, gaps="cut")
    assert cut.n_steps.tolist() == [2, 2, 3]
    assert cut.parent.tolist() == [0, 0, 1]
    assert cut.truncated.tolist() == [True, False, True]


def test_sb3_dictionary_observations():
    buffer = fill_sb3(stand_in_sb3(20), make_episodes(LENGTHS))
    plain = readers.from_sb3(buffer)
    buffer.observations = {"position": buffer.observations}
    buffer.next_observations = {"position": buffer.next_observations}
    assert_same(readers.from_sb3(buffer, observation="position"), plain)
    with pytest.raises(ValueError, match=r'got "positon". Did you mean "position"?'):
        readers.from_sb3(buffer, observation="positon")


# ---------------------------------------------------------------- TorchRL


class StandInTorchRL:
    buffer = staticmethod(rl_libraries.TorchRLBuffer)
    steps = staticmethod(rl_libraries.TensorDict)


class RealTorchRL:
    @staticmethod
    def buffer(size):
        data = pytest.importorskip("torchrl.data")
        return data.ReplayBuffer(storage=data.LazyTensorStorage(size))

    @staticmethod
    def steps(entries, batch_size):
        torch = pytest.importorskip("torch")
        tensordict = pytest.importorskip("tensordict")
        nested = tensordict.TensorDict({}, batch_size=list(batch_size))
        for key, values in entries.items():
            nested.set(key, torch.as_tensor(np.array(values)))
        return nested


@pytest.fixture(params=[StandInTorchRL, RealTorchRL], ids=["stand-in", "real"])
def torchrl(request):
    if request.param is RealTorchRL:
        pytest.importorskip("torchrl", reason="TorchRL is not installed")
    return request.param


def entries_of(log, ids=None):
    s, s2, a, r, terminated, truncated = (np.array(values) for values in zip(*steps_of(log), strict=True))
    entries = {
        "observation": s,
        "action": a,
        ("next", "observation"): s2,
        ("next", "reward"): r[:, np.newaxis],
        ("next", "done"): (terminated | truncated)[:, np.newaxis],
        ("next", "terminated"): terminated[:, np.newaxis],
        ("next", "truncated"): truncated[:, np.newaxis],
    }
    return entries if ids is None else entries | {("collector", "traj_ids"): ids}


def test_torchrl_keeps_float64(torchrl):
    log = make_episodes(LENGTHS)
    assert_same(readers.from_torchrl(torchrl.steps(entries_of(log), (15,))), Trajectories(**log))


def test_torchrl_circular_buffer(torchrl):
    log = make_episodes(LENGTHS)
    buffer = torchrl.buffer(13)
    entries = entries_of(log)
    for part in (slice(0, 6), slice(6, 15)):
        buffer.extend(torchrl.steps({k: v[part] for k, v in entries.items()}, (part.stop - part.start,)))
    expected = log | {name: [log[name][0][2:], *log[name][1:]] for name in ("states", "rewards", "actions")}
    assert_same(readers.from_torchrl(buffer), Trajectories(**expected))


def test_torchrl_batch_of_environments(torchrl):
    logs = [make_episodes(LENGTHS, seed=s) for s in (0, 1)]
    both = [entries_of(log) for log in logs]
    steps = torchrl.steps({key: np.stack([part[key] for part in both]) for key in both[0]}, (2, 15))
    assert_same(readers.from_torchrl(steps), Trajectories.concatenate([Trajectories(**log) for log in logs]))


def test_torchrl_trajectory_ids_put_interleaved_batches_together(torchrl):
    log = make_episodes([6, 6])
    entries = entries_of(log, ids=np.repeat([0, 1], 6))
    order = np.array([0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11])  # two batches of three steps of two environments
    steps = torchrl.steps({key: values[order] for key, values in entries.items()}, (12,))
    assert_same(readers.from_torchrl(steps), Trajectories(**log))


def test_torchrl_without_truncated_has_it_from_done(torchrl):
    log = make_episodes(LENGTHS)
    entries = entries_of(log)
    del entries["next", "truncated"]
    assert_same(readers.from_torchrl(torchrl.steps(entries, (15,))), Trajectories(**log))


def test_torchrl_missing_entry_is_named(torchrl):
    entries = entries_of(make_episodes([2]))
    del entries["next", "terminated"]
    with pytest.raises(
        ValueError, match=r"a TensorDict with the entry \('next', 'terminated'\); got the entries obs"
    ):
        readers.from_torchrl(torchrl.steps(entries, (2,)))
    with pytest.raises(ValueError, match="a batch of steps; got batch size"):
        readers.from_torchrl(torchrl.steps({}, ()))


def test_torchrl_real_rollout():
    pytest.importorskip("torchrl", reason="TorchRL is not installed")
    envs = pytest.importorskip("torchrl.envs", reason="TorchRL is not installed")
    env = envs.GymEnv("CartPole-v1")
    env.set_seed(0)
    steps = env.rollout(60, break_when_any_done=False)
    data = readers.from_torchrl(steps, action=None)
    assert data.n_transitions == 60
    assert data.terminated[:-1].all()
    assert_array_equal(data.transitions().next_states, steps["next", "observation"].numpy())
