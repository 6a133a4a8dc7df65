"""Trajectories against an obvious loop over the episodes they were built from."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_array_equal

from replaystats.data import Trajectories


def make_episodes(lengths, d=2, seed=0):
    """Ragged episodes with everything recorded: states, rewards, integer actions, flags, dt per step."""
    rng = np.random.default_rng(seed)
    return {
        "states": [rng.standard_normal((length + 1, d)) for length in lengths],
        "rewards": [rng.standard_normal(length) for length in lengths],
        "actions": [rng.integers(0, 4, length) for length in lengths],
        "terminated": rng.random(len(lengths)) < 0.5,
        "truncated": rng.random(len(lengths)) < 0.5,
        "dt": [np.full(length, 0.1 + 0.05 * i) for i, length in enumerate(lengths)],
    }


def assert_same(left, right):
    for name in ("states", "offsets", "rewards", "actions", "terminated", "truncated", "dt"):
        assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


lengths_of_episodes = st.lists(st.integers(1, 6), min_size=1, max_size=6)


# ---------------------------------------------------------------- shapes in, flat out


def test_array_and_list_input_store_the_same_rows(rng):
    states, rewards = rng.standard_normal((4, 3, 2)), rng.standard_normal((4, 2))
    from_array = Trajectories(states, rewards, actions=np.arange(8).reshape(4, 2), dt=0.1)
    from_list = Trajectories(list(states), list(rewards), actions=list(np.arange(8).reshape(4, 2)), dt=0.1)
    assert_same(from_array, from_list)
    assert from_array.states.flags.c_contiguous
    assert from_array.states.shape == (12, 2)
    assert from_array.actions.dtype.kind == "i"


def test_one_dimensional_states_may_leave_out_their_axis(rng):
    states = rng.standard_normal((4, 3))
    assert_same(Trajectories(states), Trajectories(states[:, :, np.newaxis]))
    ragged = np.empty(2, dtype=object)
    ragged[:] = [states[0], states[1, :2]]
    assert_same(Trajectories(ragged), Trajectories([states[0][:, np.newaxis], states[1, :2]]))


def test_sizes():
    data = Trajectories(**make_episodes([3, 1, 2]))
    assert (len(data), data.n_trajectories, data.n_transitions, data.dimension) == (3, 3, 6, 2)
    assert_array_equal(data.n_steps, [3, 1, 2])
    assert_array_equal(data.offsets, [0, 4, 6, 9])
    assert_array_equal(data.step_offsets, [0, 3, 4, 6])
    assert_array_equal(data.parent, [0, 1, 2])


def test_continuous_actions_keep_their_width(rng):
    data = Trajectories(rng.standard_normal((3, 4, 1)), actions=rng.standard_normal((3, 3, 2)))
    assert data.actions.shape == (9, 2)


def test_repr_says_what_is_there():
    data = Trajectories(**make_episodes([3, 1], seed=1))
    n_terminated = int(data.terminated.sum())
    assert n_terminated
    expected = f"Trajectories(2 x 1-3 steps, d=2, rewards, actions, dt per step, {n_terminated} terminated)"
    assert repr(data) == expected
    assert repr(data.transitions()) == "Transitions(4 steps, d=2)"
    assert repr(data.windows(1)) == "Windows(4 x 2 states, d=2)"


def test_pickle_round_trip():
    data = Trajectories(**make_episodes([3, 1, 2]))
    assert_same(pickle.loads(pickle.dumps(data)), data)


def test_fields_cannot_be_replaced():
    data = Trajectories([[0.0, 1.0]])
    with pytest.raises(AttributeError):
        data.states = np.zeros((2, 1))


# ---------------------------------------------------------------- transitions and windows


@given(lengths_of_episodes)
def test_transitions_against_a_loop(lengths):
    episodes = make_episodes(lengths)
    steps = Trajectories(**episodes).transitions()
    row = 0
    for i, (states, rewards) in enumerate(zip(episodes["states"], episodes["rewards"], strict=True)):
        for j in range(len(rewards)):
            assert_array_equal(steps.states[row], states[j])
            assert_array_equal(steps.next_states[row], states[j + 1])
            assert steps.rewards[row] == rewards[j]
            assert steps.trajectory[row] == i
            assert steps.dt[row] == episodes["dt"][i][j]
            assert steps.terminal[row] == (episodes["terminated"][i] and j == len(rewards) - 1)
            row += 1
    assert len(steps) == row


@given(lengths_of_episodes, st.integers(1, 3), st.integers(1, 3))
def test_windows_against_a_loop(lengths, order, stride):
    episodes = make_episodes([length + order - 1 for length in lengths])
    data = Trajectories(**episodes)
    windows = data.windows(order, stride)
    row = 0
    for i, (states, rewards) in enumerate(zip(episodes["states"], episodes["rewards"], strict=True)):
        for j in range(0, len(rewards) - order + 1, stride):
            assert_array_equal(windows.states[row], states[j : j + order + 1])
            assert_array_equal(data.states[windows.start[row]], states[j])
            assert windows.rewards[row] == rewards[j]
            assert windows.trajectory[row] == i
            assert windows.dt[row] == episodes["dt"][i][j]
            row += 1
    assert len(windows) == row


def test_optional_parts_stay_absent():
    data = Trajectories([[0.0, 1.0, 2.0]])
    for view in (data.transitions(), data.windows(2)):
        assert view.rewards is None
        assert view.dt is None


def test_scalar_dt_reaches_every_row():
    data = Trajectories(np.zeros((2, 3)), dt=np.float64(0.5))
    assert_array_equal(data.transitions().dt, np.full(4, 0.5))
    assert_array_equal(data.windows(2).dt, np.full(2, 0.5))


def test_both_flags_mean_terminated():
    data = Trajectories(np.zeros((2, 2)), terminated=[True, False], truncated=[True, True])
    assert_array_equal(data.transitions().terminal, [True, False])


def test_windows_name_the_trajectory_that_is_too_short():
    data = Trajectories(**make_episodes([3, 1, 1]))
    message = (
        r"`order` must be at most the number of steps of every trajectory \(1 in trajectory 1\); got 2\. "
        r"2 of 3 trajectories are too short: drop them with data\.select\(data\.n_steps >= 2\)"
    )
    with pytest.raises(ValueError, match=message):
        data.windows(2)
    assert len(data.select(data.n_steps >= 2).windows(2)) == 2


def test_windows_need_an_even_time_step():
    data = Trajectories(np.zeros((2, 3)), dt=[[0.1, 0.1], [0.1, 0.3]])
    with pytest.raises(ValueError, match=r"`dt` must be constant .* got 0\.1 to 0\.3 in trajectory 1"):
        data.windows(2)
    assert_array_equal(data.windows(1).dt, [0.1, 0.1, 0.1, 0.3])


def test_windows_forgive_the_rounding_of_clock_readings():
    clock = 1e3 + 0.1 * np.arange(5)
    assert np.ptp(np.diff(clock)) > 0.0
    assert len(Trajectories(np.zeros((1, 5)), dt=[np.diff(clock)]).windows(3)) == 2


# ---------------------------------------------------------------- new data from old


@given(lengths_of_episodes, st.data())
def test_select_equals_building_from_the_chosen_episodes(lengths, data):
    index = data.draw(st.lists(st.integers(-len(lengths), len(lengths) - 1), min_size=1, max_size=8))
    episodes = make_episodes(lengths)
    chosen = {
        name: value[index] if isinstance(value, np.ndarray) else [value[i] for i in index]
        for name, value in episodes.items()
    }
    selected = Trajectories(**episodes).select(index)
    assert_same(selected, Trajectories(**chosen))
    assert_array_equal(selected.parent, np.arange(len(lengths))[index])


def test_select_by_mask_equals_select_by_index():
    data = Trajectories(**make_episodes([3, 1, 2]))
    assert_same(data.select([True, False, True]), data.select([0, 2]))


@given(lengths_of_episodes, st.integers(1, 4))
def test_split_keeps_every_transition(lengths, n_steps):
    data = Trajectories(**make_episodes(lengths))
    pieces = data.split(n_steps)
    before, after = data.transitions(), pieces.transitions()
    for name in ("states", "next_states", "rewards", "terminal", "dt"):
        assert_array_equal(getattr(before, name), getattr(after, name))
    assert_array_equal(pieces.parent[after.trajectory], before.trajectory)
    assert pieces.n_steps.max() <= n_steps
    assert_array_equal(pieces.actions, data.actions)
    # a piece that does not end its trajectory is cut off, not ended
    ends = np.append(pieces.parent[1:] != pieces.parent[:-1], True)
    assert pieces.truncated[~ends].all()
    assert_array_equal(pieces.truncated[ends], data.truncated)


def test_split_pieces_keep_their_first_parent():
    assert_array_equal(Trajectories(np.zeros((2, 5))).split(2).split(1).parent, [0] * 4 + [1] * 4)


@given(lengths_of_episodes, lengths_of_episodes)
def test_concatenate_undoes_select(first, second):
    data = Trajectories(**make_episodes(first + second))
    head = data.select(np.arange(len(first)))
    tail = data.select(np.arange(len(first), len(first + second)))
    assert_same(Trajectories.concatenate([head, tail]), data)


def test_concatenate_keeps_clusters_apart():
    data = Trajectories(np.zeros((2, 3))).split(1)
    assert_array_equal(Trajectories.concatenate([data, data]).parent, [0, 0, 1, 1, 2, 2, 3, 3])


def test_concatenate_joins_different_time_steps():
    coarse, fine = (Trajectories(np.zeros((1, 3)), dt=dt) for dt in (0.5, 0.1))
    assert Trajectories.concatenate([coarse, coarse]).dt == 0.5
    assert_array_equal(Trajectories.concatenate([coarse, fine]).dt, [0.5, 0.5, 0.1, 0.1])


# ---------------------------------------------------------------- bad input

PAIR = np.zeros((2, 2))  # two trajectories of one step


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": []}, "`states` must be non-empty; got a list of 0 trajectories"),
        ({"states": np.empty((0, 3))}, "`states` must be non-empty"),
        ({"states": np.zeros(3)}, r"`states` must be a 2-D or 3-D array; got shape \(3,\). Pass an array"),
        ({"states": [np.zeros((2, 2, 2))]}, r"`states\[0\]` must be a 1-D or 2-D array"),
        ({"states": [[0.0, np.nan]]}, r"`states\[0\]` must be finite; got 1 NaN or infinite value"),
        ({"states": np.full((2, 2), np.inf)}, "`states` must be finite; got 4 NaN or infinite value"),
        ({"states": [np.zeros((2, 1)), np.zeros((2, 3))]}, r"d = 1\); got d = 3 in states\[1\]"),
        ({"states": [[0.0, 1.0], [0.0]]}, r"at least 2 states per trajectory .* got 1 in trajectory 1"),
        ({"states": np.zeros((2, 1))}, r"at least 2 states per trajectory .* got 1 in trajectory 0"),
        (
            {"states": np.zeros((5, 3)), "rewards": np.zeros((5, 3))},
            r"`rewards` must be of shape \(n, L\) = \(5, 2\) to match `states` .* got shape \(5, 3\)",
        ),
        (
            {"states": PAIR, "rewards": [[1.0, 2.0], [1.0]]},
            r"`rewards\[0\]` must be of length L = 1",
        ),
        ({"states": PAIR, "rewards": [[1.0]]}, "`rewards` must be a list of 2 arrays"),
        ({"states": PAIR, "rewards": [[1.0], [np.nan]]}, r"`rewards\[1\]` must be finite"),
        (
            {"states": [[0.0, 1.0], [0.0, 1.0, 2.0]], "rewards": PAIR},
            "`rewards` must be a list of 2 arrays, because the trajectories differ in length",
        ),
        (
            {"states": PAIR, "actions": np.zeros((2, 1, 1, 1))},
            r"`actions` must be of shape \(n, L\)",
        ),
        (
            {"states": PAIR, "actions": [np.zeros((1, 2)), np.zeros((1, 3))]},
            r"`actions` must be of one shape per step .* got \(3,\) in actions\[1\]",
        ),
        (
            {"states": PAIR, "terminated": [True]},
            r"`terminated` must be of shape \(n,\) = \(2,\)",
        ),
        ({"states": PAIR, "dt": 0.0}, "`dt` must be a finite number in"),
        (
            {"states": PAIR, "dt": [[0.1], [-0.1]]},
            "`dt` must be positive on every step; got -0.1",
        ),
        ({"states": PAIR, "dt": [0.1, 0.1]}, r"`dt\[0\]` must be a 1-D array"),
    ],
)
def test_bad_input_has_its_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        Trajectories(**arguments)


@pytest.mark.parametrize("name", ["terminated", "truncated"])
def test_flags_must_be_booleans_per_trajectory(name):
    with pytest.raises(TypeError, match=f"`{name}` must be 2 booleans, one per trajectory; got dtype int64"):
        Trajectories(np.zeros((2, 3)), **{name: [0, 1]})


def test_states_must_be_numbers():
    with pytest.raises(TypeError, match=r"`states\[0\]` must be a numeric"):
        Trajectories([["1.5", "b"]])


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ([3], "indices from 3 to 3"),
        ([-4], "indices from -4 to -4"),
        ([0.5], "float64 of shape"),
        ([True, False], "bool of shape"),
        ([[0]], "int64 of shape"),
        ([], "at least one trajectory; got none"),
        ([False, False, False], "at least one trajectory; got none"),
    ],
)
def test_select_rejects(which, message):
    with pytest.raises(ValueError, match=f"`which` must be .*{message}"):
        Trajectories(np.zeros((3, 2))).select(which)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"states": np.zeros((1, 2, 2))}, "d = 2 in parts"),
        ({"states": np.zeros((1, 2)), "rewards": [[0.0]]}, "rewards in parts"),
        ({"states": np.zeros((1, 2)), "actions": [[0]]}, r"actions of shape \(\) in parts"),
        ({"states": np.zeros((1, 2)), "dt": 0.1}, "dt in parts"),
    ],
)
def test_concatenate_rejects_unlike_parts(other, message):
    with pytest.raises(ValueError, match=f"`parts` must be alike .*{message}"):
        Trajectories.concatenate([Trajectories(np.zeros((1, 2))), Trajectories(**other)])


def test_concatenate_rejects_nothing():
    with pytest.raises(ValueError, match="`parts` must be a non-empty list"):
        Trajectories.concatenate([])


@pytest.mark.parametrize("call", [lambda d: d.windows(0), lambda d: d.windows(1, 0), lambda d: d.split(0)])
def test_counts_start_at_one(call):
    with pytest.raises(ValueError, match="must be an int >= 1; got 0"):
        call(Trajectories(np.zeros((1, 3))))
