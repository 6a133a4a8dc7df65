"""One flag `done` for two ways to end: asked about, never guessed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from replaystats import readers
from replaystats.readers.flat import looks_like_a_limit


def log(lengths, ended):
    """One row per state: episodes 0, 1, ... with a column done."""
    frames = [
        pd.DataFrame({"episode": i, "x": np.arange(n + 1.0), "reward": [1.0] * n + [np.nan], "done": False})
        for i, n in enumerate(lengths)
    ]
    for frame, end in zip(frames, ended, strict=True):
        frame.loc[len(frame) - 2, "done"] = end
    return pd.concat(frames, ignore_index=True)


@pytest.fixture
def old_style():
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.geometric(0.01, 50), 100)  # 50 episodes, cut off at 100 steps
    assert (lengths == 100).sum() >= 10
    return lengths, log(lengths, np.ones(50, dtype=bool))


def test_many_episodes_of_the_largest_length_are_asked_about(old_style):
    lengths, table = old_style
    n = (lengths == 100).sum()
    with pytest.raises(ValueError, match=f"got {n} of 50 episodes flagged as ended after exactly 100 steps"):
        readers.from_table(table, states="x", terminated="done")


def test_both_answers_are_taken(old_style):
    lengths, table = old_style
    cut = readers.from_table(table, states="x", terminated="done", time_limit=100)
    assert np.array_equal(cut.terminated, lengths < 100)
    assert np.array_equal(cut.truncated, lengths == 100)
    ended = readers.from_table(table, states="x", terminated="done", time_limit=None)
    assert ended.terminated.all()


def test_other_layouts_ask_as_well(old_style, tmp_path):
    lengths, table = old_style
    data = readers.from_table(table, states="x", terminated="done", time_limit=None)
    steps = data.transitions()
    with pytest.raises(ValueError, match="`time_limit` must be given"):
        readers.from_transitions(steps.states, steps.next_states, steps.rewards, terminated=steps.terminal)
    np.savez(
        tmp_path / "log.npz",
        states=data.states,
        offsets=data.offsets,
        rewards=data.rewards,
        done=data.terminated,
    )
    with pytest.raises(ValueError, match="`time_limit` must be given"):
        readers.read_npz(tmp_path / "log.npz", offsets="offsets", terminated="done")
    cut = readers.read_npz(tmp_path / "log.npz", offsets="offsets", terminated="done", time_limit=100)
    assert np.array_equal(cut.terminated, lengths < 100)


def test_a_log_that_tells_is_not_asked(old_style):
    _, table = old_style
    table["cut"] = False
    assert readers.from_table(table, states="x", terminated="done", truncated="cut").terminated.all()


@pytest.mark.parametrize("limit", ["never", 0, 2.5, True])
def test_the_answer_is_checked(old_style, limit):
    with pytest.raises((ValueError, TypeError), match="`time_limit` must be"):
        readers.from_table(old_style[1], states="x", terminated="done", time_limit=limit)


class TestSuspicion:
    @pytest.mark.parametrize("seed", range(20))
    def test_episodes_that_end_by_themselves_are_not_suspected(self, seed):
        rng = np.random.default_rng(seed)
        for lengths in (
            rng.geometric(0.02, 200),
            rng.poisson(30, 200) + 1,
            rng.integers(1, 40, 200),
            rng.integers(1, 12, 200),
        ):
            assert not looks_like_a_limit(lengths, np.ones(200, dtype=bool))

    @pytest.mark.parametrize("seed", range(20))
    def test_limits_are(self, seed):
        rng = np.random.default_rng(seed)
        for mean in (50, 100, 400):
            lengths = np.minimum(rng.geometric(1 / mean, 100), 100)
            assert looks_like_a_limit(lengths, np.ones(100, dtype=bool))
            assert not looks_like_a_limit(lengths, lengths < 100)  # a flag that knows the difference

    def test_short_episodes_share_lengths_by_chance(self):
        assert not looks_like_a_limit(np.full(50, 4), np.ones(50, dtype=bool))


class TestActions:
    """Labels come as floats (one is missing), one-hot, or as names; quantities stay numbers."""

    def read(self, **columns):
        table = log([2, 3], [True, False]).assign(**columns)
        return readers.from_table(table, states="x", actions=list(columns), terminated="done")

    def test_whole_numbers_that_are_floats_because_one_is_missing(self):
        data = self.read(a=[0.0, 1.0, np.nan, 2.0, 0.0, 1.0, np.nan])
        assert data.actions.dtype == np.int64
        assert data.actions.tolist() == [0, 1, 2, 0, 1]

    def test_one_hot(self):
        data = self.read(left=[1, 0, np.nan, 0, 1, 0, np.nan], right=[0, 1, np.nan, 1, 0, 1, np.nan])
        assert data.actions.tolist() == [0, 1, 1, 0, 1]

    def test_names(self):
        data = self.read(a=["up", "down", None, "down", "up", "up", None])
        assert data.actions.tolist() == [1, 0, 0, 1, 1]
        assert data.action_labels == ("down", "up")
        with pytest.raises(TypeError, match=r"a name in every row of a step; got (None|nan) in step 1"):
            self.read(a=["up", None, None, "down", "up", "up", None])

    def test_quantities_stay(self):
        assert self.read(a=[0.5, 1.0, np.nan, 2.0, 0.0, 1.0, np.nan]).actions.dtype == np.float64
        two = self.read(a=[0.0, 1, np.nan, 1, 0, 1, np.nan], b=[1.0, 1, np.nan, 0, 0, 1, np.nan])
        assert two.actions.shape == (5, 2)


def test_probabilities_from_every_table_layout():
    table = log([2, 3], [True, False]).assign(p=[0.5, 0.25, np.nan, 1.0, 0.5, 0.125, np.nan])
    p = [0.5, 0.25, 1.0, 0.5, 0.125]
    options = dict(states="x", terminated="done", behavior_probability="p")
    assert readers.from_table(table, **options).behavior_probability.tolist() == p
    steps = table.dropna().assign(following=lambda t: t["x"] + 1.0)
    assert readers.from_table(steps, next_states="following", **options).behavior_probability.tolist() == p
    lists = table.groupby("episode").agg(list)
    lists["p"] = [row[:-1] for row in lists["p"]]
    lists["done"] = [True, False]
    assert readers.from_table(lists, **options).behavior_probability.tolist() == p
    table.loc[0, "p"] = 0.0
    with pytest.raises(ValueError, match=r"`behavior_probability` must be in \(0, 1\] on every step; got 0"):
        readers.from_table(table, **options)
