"""Trajectories as a sequence: indexing, iteration, splitting; records that nobody else can change."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score, train_test_split

from replaystats import Trajectories, readers


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    lengths = [3, 1, 4, 2, 5, 2]
    return Trajectories(
        [rng.standard_normal((n + 1, 2)) for n in lengths],
        [rng.standard_normal(n) for n in lengths],
        [rng.integers(0, 2, n) for n in lengths],
        terminated=np.arange(6) % 2 == 0,
        dt=[rng.uniform(0.5, 1.0, n) for n in lengths],
        behavior_probability=[rng.uniform(0.1, 1.0, n) for n in lengths],
    )


def episode(data, i):
    """Everything recorded about one trajectory, by the definition of the offsets."""
    states = slice(data.offsets[i], data.offsets[i + 1])
    steps = slice(data.offsets[i] - i, data.offsets[i + 1] - i - 1)
    per_step = [getattr(data, name)[steps] for name in ("rewards", "actions", "dt", "behavior_probability")]
    return [data.states[states], *per_step, data.terminated[i], data.truncated[i], data.parent[i]]


def same(data, which, chosen):
    assert isinstance(chosen, Trajectories)
    assert len(chosen) == len(which)
    for k, i in enumerate(which):
        for mine, theirs in zip(episode(chosen, k), episode(data, i), strict=True):
            assert np.array_equal(mine, theirs)


class TestIndexing:
    @pytest.mark.parametrize(
        ("key", "which"),
        [
            (2, [2]),
            (-1, [5]),
            (np.int64(3), [3]),
            (slice(1, 4), [1, 2, 3]),
            (slice(None, None, -2), [5, 3, 1]),
            ([4, 0, 4], [4, 0, 4]),
            (np.array([5, 1], dtype=np.uint8), [5, 1]),
            (np.array([True, False, False, True, False, True]), [0, 3, 5]),
            (([1, 2], Ellipsis), [1, 2]),
        ],
    )
    def test_every_kind_of_key(self, data, key, which):
        same(data, which, data[key])

    def test_iteration_gives_each_once(self, data):
        episodes = list(data)
        assert len(episodes) == 6
        for i, one in enumerate(episodes):
            same(data, [i], one)

    def test_outside_is_an_index_error_so_that_loops_end(self, data):
        for i in (6, -7):
            with pytest.raises(IndexError, match=f"trajectory {i} of 6"):
                data[i]

    @pytest.mark.parametrize("key", ["a", 1.5, True, slice(3, 3), [0.5]])
    def test_anything_else_is_refused(self, data, key):
        with pytest.raises(ValueError, match="`which` must be"):
            data[key]

    def test_it_is_no_array(self, data):
        with pytest.raises(TypeError, match="must be an array here; got Trajectories"):
            np.asarray(data)


class MeanReward(BaseEstimator):
    """The smallest estimator there is: predicts the mean reward it was fitted to."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, data, y=None):
        self.seen_ = [one.states.tobytes() for one in data]
        self.mean_ = data.rewards.mean() + self.shift
        return self

    def score(self, data, y=None):
        assert not {one.states.tobytes() for one in data} & set(self.seen_)
        return -float(np.mean((data.rewards - self.mean_) ** 2))


class TestScikitLearn:
    def test_cross_validation_holds_trajectories_out(self, data):
        scores = cross_val_score(MeanReward(), data, cv=3)
        expected = [
            -np.mean((data[test].rewards - data[train].rewards.mean()) ** 2)
            for train, test in KFold(3).split(np.zeros(6))
        ]
        assert np.allclose(scores, expected, rtol=1e-14)

    def test_grid_search_and_groups(self, data):
        search = GridSearchCV(MeanReward(), {"shift": [0.0, 50.0]}, cv=GroupKFold(3))
        search.fit(data, groups=[0, 0, 1, 1, 2, 2])
        assert search.best_params_ == {"shift": 0.0}

    def test_train_test_split(self, data):
        train, test = train_test_split(data, test_size=2, random_state=0)
        assert isinstance(train, Trajectories)
        assert isinstance(test, Trajectories)
        assert sorted([*train.parent, *test.parent]) == list(range(6))


class TestRecordsAreTheirOwn:
    def make(self):
        return {
            "states": np.zeros((3, 3, 2)),
            "rewards": np.ones((3, 2)),
            "actions": np.ones((3, 2), dtype=np.int64),
            "terminated": np.zeros(3, dtype=bool),
            "truncated": np.zeros(3, dtype=bool),
            "dt": np.ones((3, 2)),
            "behavior_probability": np.ones((3, 2)),
        }

    def flat(self):
        n_steps = {"rewards": np.ones(6), "actions": np.ones(6, int), "dt": np.ones(6)}
        return {
            "states": np.zeros((9, 2)),
            "offsets": np.array([0, 3, 6, 9]),
            "terminated": np.zeros(3, dtype=bool),
            "behavior_probability": np.ones(6),
        } | n_steps

    @pytest.mark.parametrize("route", ["constructor", "from_flat"])
    def test_overwriting_what_was_given_changes_nothing(self, route):
        given = self.make() if route == "constructor" else self.flat()
        data = (Trajectories if route == "constructor" else readers.from_flat)(**given)
        before = {name: np.copy(getattr(data, name)) for name in given}
        for array in given.values():
            array[...] = 1 - array if array.dtype != bool else ~array
        for name, value in before.items():
            assert np.array_equal(getattr(data, name), value), name

    def test_the_arrays_of_a_record_cannot_be_written_to(self, data):
        for record in (data, data[2:4], data.split(2), Trajectories.concatenate([data, data])):
            for name in ("states", "offsets", "rewards", "actions", "terminated", "dt"):
                with pytest.raises(ValueError, match="read-only"):
                    getattr(record, name)[0] = 0

    def test_what_was_given_stays_writable(self):
        given = self.make()
        Trajectories(**given)
        given["states"][0] = 1.0

    def test_torch_tensors_are_copied_too(self):
        torch = pytest.importorskip("torch")
        states = torch.zeros((2, 3), dtype=torch.float64)
        data = Trajectories(states)
        states += 1.0
        assert not data.states.any()

    def test_pickle_and_deepcopy(self, data):
        for copied in (pickle.loads(pickle.dumps(data)), copy.deepcopy(data)):
            same(data, range(6), copied)


class TestEnds:
    STATES = (np.zeros((3, 1)), np.zeros((5, 1)))
    REWARDS = (np.ones(2), np.ones(4))

    def test_episodes_of_several_lengths_must_say_how_they_ended(self):
        with pytest.raises(ValueError, match="must be given where trajectories differ in length"):
            Trajectories(list(self.STATES), list(self.REWARDS))
        with pytest.raises(ValueError, match="or terminated=False if none did"):
            readers.from_flat(np.zeros(8), [0, 3, 8], np.ones(6))
        with pytest.raises(ValueError, match="`terminated` must be given"):
            readers.from_transitions([0.0, 1.0, 5.0], [1.0, 2.0, 6.0], [1.0, 1.0, 1.0], episode=[0, 0, 1])

    @pytest.mark.parametrize("ends", [False, True, [True, False], np.array([False, False])])
    def test_saying_it_is_enough(self, ends):
        data = Trajectories(list(self.STATES), list(self.REWARDS), terminated=ends)
        assert np.array_equal(data.terminated, np.broadcast_to(ends, 2))

    def test_all_cut_off_says_it_too(self):
        data = Trajectories(list(self.STATES), list(self.REWARDS), truncated=True)
        assert data.truncated.all()
        assert not data.terminated.any()
        with pytest.raises(ValueError, match="`terminated` must be given"):
            Trajectories(list(self.STATES), list(self.REWARDS), truncated=[True, False])

    def test_one_length_or_no_rewards_needs_no_flag(self):
        assert len(Trajectories(np.zeros((2, 3)), np.ones((2, 2)))) == 2
        assert len(Trajectories(list(self.STATES))) == 2

    @pytest.mark.parametrize("wrong", [0, "no", None.__class__, [0, 1], 1.0])
    def test_flags_are_booleans(self, wrong):
        with pytest.raises(TypeError, match="`terminated` must be"):
            Trajectories(list(self.STATES), list(self.REWARDS), terminated=wrong)


class TestBehaviorProbability:
    @pytest.mark.parametrize("wrong", [0.0, -0.1, 1.0001, np.nan])
    def test_it_is_a_probability_of_what_happened(self, wrong):
        probability = np.full((2, 2), 0.5)
        probability[1, 0] = wrong
        with pytest.raises(ValueError, match=r"`behavior_probability` must be"):
            Trajectories(np.zeros((2, 3)), behavior_probability=probability)

    def test_it_goes_where_the_steps_go(self, data):
        pieces = data.split(2)
        assert np.array_equal(pieces.behavior_probability, data.behavior_probability)
        both = Trajectories.concatenate([data, data[:2]])
        expected = np.concatenate([data.behavior_probability, data[:2].behavior_probability])
        assert np.array_equal(both.behavior_probability, expected)
        with pytest.raises(ValueError, match="no behavior_probability in parts"):
            Trajectories.concatenate([data, Trajectories(np.zeros((1, 2, 2)), [[1.0]], [[0]], dt=1.0)])


class TestNames:
    def test_states_and_actions_may_be_names(self):
        data = Trajectories(
            [["A", "B", "end"], ["B", "A"]],
            [[1.0, 2.0], [3.0]],
            [["go", "stop"], ["go"]],
            terminated=[True, False],
        )
        assert data.states.ravel().tolist() == ["A", "B", "end", "B", "A"]
        assert data.actions.tolist() == [0, 1, 0]
        assert data.action_labels == ("go", "stop")
        assert data[1].states.ravel().tolist() == ["B", "A"]
        assert data[1].action_labels == ("go", "stop")

    def test_parts_that_lack_an_action_keep_its_name(self):
        """Some of many files may lack an action: then 0 stands for another name there."""
        parts = [
            Trajectories([["A", "B"]], [[1.0]], [[name]], terminated=True) for name in ("stop", "go", "wait")
        ]
        data = Trajectories.concatenate(parts)
        assert data.action_labels == ("go", "stop", "wait")
        assert data.actions.tolist() == [1, 0, 2]
        numbers = Trajectories([["A", "B"]], [[1.0]], [[0]], terminated=True)
        with pytest.raises(ValueError, match=r"numbers as actions in parts.*names as actions"):
            Trajectories.concatenate([parts[0], numbers])

    def test_numbers_somebody_forgot_to_convert_are_refused(self):
        with pytest.raises(TypeError, match="got text"):
            Trajectories([["1", "2"], ["3", "4"]])
        with pytest.raises(TypeError, match="numbers in all trajectories, or names in all"):
            Trajectories([["A", "B"], [1.0, 2.0]])
