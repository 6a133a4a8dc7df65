"""What is no object of the library it should come from is refused with a sentence, not with a traceback."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from replaystats import readers

WRONG = [3, None, "text", [1, 2], np.zeros(3), {}, object()]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    "reader",
    [readers.from_sb3, readers.from_d3rlpy, readers.from_torchrl],
    ids=lambda one: one.__name__,
)
def test_buffers_and_data_sets(reader, wrong):
    with pytest.raises((TypeError, ValueError), match=r"^`(buffer|dataset|data)(\[0\])?` must be"):
        reader(wrong)


@pytest.mark.parametrize(
    "wrong", [w for w in WRONG if not isinstance(w, str)], ids=lambda one: type(one).__name__
)
def test_minari(wrong):
    with pytest.raises((TypeError, ValueError), match=r"^`dataset(\[0\])?` must be"):
        readers.from_minari(wrong)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda one: type(one).__name__)
def test_environments_and_policies(wrong):
    with pytest.raises(TypeError, match=r"^`env` must be a Gymnasium environment"):
        readers.rollout(wrong, lambda s: 0, 1)
    with pytest.raises(TypeError, match=r"^`policy` must be a function of the observation"):
        readers.rollout(gymnasium.make("CartPole-v1"), wrong, 1)


def test_flags_are_booleans():
    class Buffer:
        observations = next_observations = rewards = actions = dones = timeouts = np.zeros((3, 1))
        pos, full, n_envs = 3, True, 1

    with pytest.raises(TypeError, match="`dones_are_terminal` must be True or False; got 'no'"):
        readers.from_sb3(Buffer(), dones_are_terminal="no")
