"""NumPy files: three layouts, and nothing that could run a program on loading."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from replaystats import Trajectories, readers


@pytest.fixture
def data(rng):
    return Trajectories(
        rng.standard_normal((3, 5, 2)),
        rng.standard_normal((3, 4)),
        rng.integers(0, 2, (3, 4)),
        terminated=np.array([True, False, True]),
        truncated=np.array([False, True, False]),
        dt=0.1,
    )


def assert_same(left, right):
    for name in ("states", "offsets", "rewards", "actions", "terminated", "truncated", "dt"):
        assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


def test_episodes_of_one_length(data, tmp_path):
    np.savez(
        tmp_path / "log.npz",
        obs=data.states.reshape(3, 5, 2),
        rewards=data.rewards.reshape(3, 4),
        a=data.actions.reshape(3, 4),
        terminated=data.terminated,
        cut=data.truncated,
        time_step=np.float64(0.1),
    )
    read = readers.read_npz(tmp_path / "log.npz", states="obs", actions="a", truncated="cut", dt="time_step")
    assert_same(read, data)


def test_flat_with_offsets(data, tmp_path):
    fields = ("states", "offsets", "rewards", "actions", "terminated", "truncated")
    np.savez_compressed(tmp_path / "log.npz", **{name: getattr(data, name) for name in fields})
    names = {name: name for name in fields}
    assert_same(readers.read_npz(tmp_path / "log.npz", **names, dt=0.1), data)


def test_single_steps(data, tmp_path):
    steps = data.transitions()
    cut = np.zeros(len(steps), bool)
    cut[7] = True
    np.savez(
        tmp_path / "log.npz", s=steps.states, s2=steps.next_states, r=steps.rewards, d=steps.terminal, t=cut
    )
    read = readers.read_npz(
        tmp_path / "log.npz", states="s", next_states="s2", rewards="r", terminated="d", truncated="t"
    )
    assert_array_equal(read.states, data.states)
    assert_array_equal(read.terminated, data.terminated)


def test_pickled_arrays_are_not_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return pytest.fail, ("a user's file was unpickled",)

    ragged = np.empty(1, dtype=object)
    ragged[0] = Bomb()
    np.savez(tmp_path / "log.npz", states=ragged, rewards=np.ones(2), terminated=np.array([True]))
    with pytest.raises(ValueError, match="`states` must be a plain array; got pickled objects, not opened"):
        readers.read_npz(tmp_path / "log.npz")


def test_names(data, tmp_path):
    np.savez(tmp_path / "log.npz", states=data.states.reshape(3, 5, 2), reward=data.rewards.reshape(3, 4))
    with pytest.raises(
        ValueError, match=r'`rewards` must be an array of the file; got "rewards". Did you mean "reward"?'
    ):
        readers.read_npz(tmp_path / "log.npz")
    with pytest.raises(
        ValueError, match=r"`terminated` .* There are states, reward. If there is none, pass terminated=None"
    ):
        readers.read_npz(tmp_path / "log.npz", rewards="reward")
    read = readers.read_npz(tmp_path / "log.npz", rewards="reward", terminated=None)
    assert_array_equal(read.rewards, data.rewards)
    with pytest.raises(ValueError, match="`offsets` must be None when `next_states` is given"):
        readers.read_npz(tmp_path / "log.npz", offsets="a", next_states="b")
    np.save(tmp_path / "one.npy", data.states)
    with pytest.raises(ValueError, match=r"`path` must be an .npz file; got a single array"):
        readers.read_npz(tmp_path / "one.npy")
