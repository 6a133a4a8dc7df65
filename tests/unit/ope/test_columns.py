from functools import cache

import numpy as np
import pytest

import replaystats as rs
from replaystats.ope.parts import _some_rows, relevant_columns, screened
from replaystats.ope.problem import make_problem


def log(seed, n=60, length=10, noise=2, copy=False):
    """Column 0 moves and pays, column 1 ends episodes where it is large; then columns of noise, or a copy."""
    rng = np.random.default_rng(seed)
    states, rewards, actions, ends = [], [], [], []
    for _ in range(n):
        s, path, paid, acts, over = rng.normal(size=2), [], [], [], False
        for _ in range(length):
            extra = [s[0]] if copy else rng.normal(size=noise)
            path.append(np.concatenate([s, extra]))
            a = int(rng.integers(2))
            paid.append(s[0] + 0.3 * rng.normal())
            acts.append(a)
            over = abs(s[1]) > 1.3
            s = np.array([0.7 * s[0] + a, 0.6 * s[1]]) + 0.6 * rng.normal(size=2)
            if over:
                break
        path.append(np.concatenate([s, [s[0]] if copy else rng.normal(size=noise)]))
        states.append(np.array(path))
        rewards.append(np.array(paid))
        actions.append(np.array(acts))
        ends.append(over)
    return rs.Trajectories(states, rewards, actions, terminated=np.array(ends))


def half(states):
    return np.full((len(states), 2), 0.5)


@cache
def screening(seed):
    """A log, its problem, and which columns stay; several tests look at it."""
    problem = make_problem(log(seed), half, discount=0.9)
    return problem, relevant_columns(problem).keep


@pytest.mark.parametrize(
    ("first", "n", "most"), [(2, 1, 1), pytest.param(0, 8, 4, marks=pytest.mark.statistical)]
)
def test_relevant_columns_stay_and_noise_goes(first, n, most):
    """2 (16) columns of noise at level .05: more than 1 (4) kept have probability .003 (.001)."""
    kept = np.array([screening(i)[1] for i in range(first, first + n)])
    assert kept[:, :2].all()
    assert kept[:, 2:].sum() <= most


def test_a_policy_of_logged_states_keeps_all_columns():
    """Probabilities that stand in columns of a log say nothing of other states."""
    data = log(0)
    known = {state.tobytes() for state in data.states}

    def looked_up(states):
        if not all(state.tobytes() in known for state in states):
            raise KeyError("a state that was never logged")
        return half(states)

    assert relevant_columns(make_problem(data, looked_up, discount=0.9)).keep.all()
    assert np.isfinite(rs.evaluate(data, looked_up, discount=0.9).value)


def test_of_two_copies_one_stays():
    keep = relevant_columns(make_problem(log(0, copy=True), half, discount=0.9)).keep
    assert keep[0] != keep[2]


def test_what_the_policy_looks_at_stays():
    def follows_noise(states):
        return np.column_stack([states[:, 3] > 0, states[:, 3] <= 0]).astype(float)

    found = relevant_columns(make_problem(log(1), follows_noise, discount=0.9))
    assert found.keep[3]
    assert found.p_values[3] == 0.0


def test_ends_are_not_thinned_out():
    """One end in a hundred steps: a twentieth of the steps would leave five of 100."""
    n, length = 100, 100
    s = np.random.default_rng(0).normal(size=(n, length + 1, 2))
    data = rs.Trajectories(s, s[:, :-1, 0], np.zeros((n, length), int), terminated=True)
    problem = make_problem(data, half, discount=0.9, n_actions=2)
    rows = _some_rows(problem)
    assert problem.terminal[rows].sum() == 100
    assert len(rows) <= 2600


def test_discrete_states_keep_all():
    s = np.random.default_rng(0).integers(3, size=(40, 6, 2)).astype(float)
    data = rs.Trajectories(s, s[:, :-1, 0], terminated=True)
    assert relevant_columns(make_problem(data, None, discount=0.9)).keep.all()


def test_models_see_only_the_columns_that_stay():
    problem, keep = screening(2)
    assert not keep.all()
    narrow = screened(problem)
    assert np.array_equal(narrow.states, problem.states[:, keep])
    assert np.array_equal(narrow.start_states, problem.start_states[:, keep])
    assert np.array_equal(narrow.following, problem.following)
    found = rs.evaluate(log(2, n=30), half, discount=0.5, method="LSTDQ")
    assert found.basis_.dimension < 4
    assert any("leave out the state's column(s)" in note for note in found.notes)


@pytest.mark.slow
def test_states_that_are_labels_without_a_noise_column_still_have_a_linear_model() -> None:
    rng = np.random.default_rng(0)
    states = np.stack([rng.integers(0, 3, (80, 31)), rng.normal(size=(80, 31))], axis=2)
    actions = rng.integers(0, 2, (80, 30))
    data = rs.Trajectories(states, states[:, :-1, 0] + actions, actions, terminated=True)
    found = rs.evaluate(
        data, lambda s: np.tile([0.3, 0.7], (len(s), 1)), discount=0.9, horizon=None, method="LSTDQ"
    )
    assert found.interval.low < 1.7 * (1.0 - 0.9**30) / 0.1 + 1.0
    assert "leave out the state's column(s) 1" in " ".join(found.notes)


def test_more_columns_than_rows_keep_their_distances():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(6, 5, 300))
    data = rs.Trajectories(
        states, rng.normal(size=(6, 4)), rng.integers(2, size=(6, 4)), terminated=np.ones(6, bool)
    )
    problem = make_problem(data, half, discount=0.9)
    fewer = screened(problem)
    assert fewer.states.shape == fewer.next_states.shape == (24, 30)
    unit = problem.visited.std(axis=0)
    for one, other in ((0, 5), (3, 20)):
        expected = np.linalg.norm((problem.states[one] - problem.next_states[other]) / unit)
        np.testing.assert_allclose(np.linalg.norm(fewer.states[one] - fewer.next_states[other]), expected)


def test_columns_are_not_tested_with_fewer_than_ten_rows_for_each():
    assert relevant_columns(make_problem(log(0, n=4, length=3), half, discount=0.9)).keep.all()
