"""Steps chained back into trajectories, and flat arrays taken as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_array_equal

from oracles.known_episodes import make_episodes
from replaystats import Trajectories, readers


def assert_same(left, right):
    for name in ("states", "offsets", "rewards", "actions", "terminated", "truncated", "dt", "parent"):
        assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


def steps_of(log):
    ends = [np.arange(len(r)) == len(r) - 1 for r in log["rewards"]]
    return {
        "states": np.concatenate([s[:-1] for s in log["states"]]),
        "next_states": np.concatenate([s[1:] for s in log["states"]]),
        "rewards": np.concatenate(log["rewards"]),
        "actions": np.concatenate(log["actions"]),
        "terminated": np.concatenate([e & t for e, t in zip(ends, log["terminated"], strict=True)]),
        "truncated": np.concatenate([e & t for e, t in zip(ends, log["truncated"], strict=True)]),
    }


@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_cutting_and_chaining_are_inverse(lengths):
    log = make_episodes(lengths)
    assert_same(readers.from_transitions(**steps_of(log)), Trajectories(**log))
    flat = Trajectories(**log)
    again = readers.from_flat(
        flat.states, flat.offsets, flat.rewards, flat.actions, flat.terminated, flat.truncated
    )
    assert_same(again, flat)


def test_episode_ids_end_a_trajectory_without_a_flag():
    s = np.arange(4.0)
    data = readers.from_transitions(s, s + 1, episode=["a", "a", "b", "b"])
    assert data.n_steps.tolist() == [2, 2]
    assert not data.truncated.any()
    assert readers.from_transitions(s, s + 1).n_steps.tolist() == [4]


def test_independent_rows_are_one_trajectory_each(rng):
    s, s2 = rng.standard_normal((2, 5, 3))
    with pytest.raises(
        ValueError, match="4 of 5 rows end so without an end being flagged: sort the rows, pass `episode`"
    ):
        readers.from_transitions(s, s2)
    data = readers.from_transitions(s, s2, np.ones(5), gaps="cut", dt=0.1)
    assert data.n_steps.tolist() == [1] * 5
    assert_array_equal(data.transitions().next_states, s2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"next_states": np.zeros((2, 3))}, r"must be of the shape of `states` \(3, 1\); got \(2, 3\)"),
        ({"states": [0.0, np.nan, 1.0]}, "`states` must be finite"),
        ({"rewards": np.ones(2)}, "`rewards` must be one per step, 3 in all; got 2"),
        ({"terminated": np.zeros(2, bool)}, r"`terminated` must be of shape \(n,\) = \(3,\); got"),
        ({"episode": [1, 2]}, "`episode` must be as long as `states` .3.; got 2"),
        ({"gaps": "fill"}, "`gaps` must be one of"),
        ({"dt": [0.1, 0.0, 0.1]}, "`dt` must be positive on every step; got 0 as the smallest"),
        ({"dt": -1.0}, "`dt` must be a finite number"),
        ({"actions": [1, 2]}, "`actions` must be one per step"),
    ],
)  # fmt: skip
def test_refusals(change, message):
    s = np.arange(3.0)
    with pytest.raises(ValueError, match=message):
        readers.from_transitions(**{"states": s, "next_states": s + 1} | change)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 2, 4], "increasing integers from 0 to the number of states .5.; got 0 to 4"),
        ([0.0, 5.0], "got float64 of shape"),
        ([0, 4, 5], "every trajectory has at least 2 states .one step.; got 1 in trajectory 1"),
        ([0, 4, 2, 5], "got -2 in trajectory 1"),
    ],
)
def test_wrong_offsets(offsets, message):
    with pytest.raises(ValueError, match=message):
        readers.from_flat(np.zeros(5), offsets)


def test_rows_of_several_episodes_that_alternate():
    s = np.arange(6.0)
    given = dict(states=s, next_states=s + 1.0, rewards=s, episode=[0, 1, 0, 1, 0, 1], time_limit=None)
    with pytest.raises(ValueError, match=r"`episode` must be the same in consecutive rows, .* got 0 on both"):
        readers.from_transitions(**given, terminated=False)
    ended = [False, True, True, False, False, True]  # environments one after the other, in turn
    whole = readers.from_transitions(**given | {"episode": [0, 0, 1, 0, 0, 0]}, terminated=ended)
    assert_array_equal(whole.n_steps, [2, 1, 3])
