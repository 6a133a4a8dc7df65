import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression

import replaystats as rs
from replaystats.inference.pivot import interval
from replaystats.ope.methods.fitted_q import Leaves, fitted_q_value, logged_pairs, start_value
from replaystats.ope.problem import make_problem


def drift(seed=0, n=60, length=8):
    """A state that halves and is pushed by action 1; rewards are the state; both actions logged alike."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n)
    states, actions = [s], []
    for _ in range(length):
        a = rng.integers(2, size=n)
        s = 0.5 * s + a + 0.2 * rng.normal(size=n)
        states.append(s)
        actions.append(a)
    table = np.stack(states, 1)
    return rs.Trajectories(table[:, :, None], table[:, :-1], np.stack(actions, 1), truncated=True)


def often(s):
    return np.tile([0.2, 0.8], (len(s), 1))


def drift_truth(discount, start=0.0, push=0.8):
    """Q is linear: V(s) = s / (1 - discount / 2) + push discount / ((1 - discount)(1 - discount / 2))."""
    return start / (1 - discount / 2) + push * discount / ((1 - discount) * (1 - discount / 2))


def test_leaf_means_as_loops():
    rng = np.random.default_rng(0)
    x, y, asked = rng.normal(size=(50, 2)), rng.normal(size=50), rng.normal(size=(7, 2))
    forest = ExtraTreesRegressor(3, min_samples_leaf=4, random_state=0).fit(x, y)
    means = Leaves.of(forest, x).means(y)
    slow = []
    for point in asked:
        each = []
        for tree in forest.estimators_:
            same = tree.apply(x) == tree.apply(point[None])[0]
            each.append(y[same].mean())
        slow.append(np.mean(each))
    assert Leaves.of(forest, asked).predict(means) == pytest.approx(slow)


def test_a_linear_regressor_on_a_linear_problem():
    problem = make_problem(drift(), often, discount=0.5)
    found = fitted_q_value(problem, LinearRegression())
    ends = interval(found.pivot, 0.999)
    truth = drift_truth(0.5, start=problem.start_states.mean())
    assert ends.low[0] <= truth <= ends.high[0]
    assert ends.high[0] - ends.low[0] < 1.5
    assert found.coarse is None


def test_start_values_of_the_true_function():
    problem = make_problem(drift(n=400), often, discount=0.5)
    ahead = drift_truth(0.5)

    def true_q(pair):
        return pair[:, 0] + 0.5 * ((0.5 * pair[:, 0] + pair[:, 2]) / 0.75 + ahead)

    value = start_value(problem, true_q, np.arange(400))
    assert value == pytest.approx(drift_truth(0.5, start=problem.start_states.mean()))
    assert logged_pairs(problem, np.arange(3)).shape == (3, 3)


@pytest.mark.slow
def test_trees_cover():
    """95 % intervals of 10 logs: fewer than 7 have probability 1e-4 at coverage .93."""
    hits = 0
    for seed in range(10):
        found = fitted_q_value(make_problem(drift(seed), often, discount=0.8))
        ends = interval(found.pivot)
        hits += bool(ends.low[0] <= drift_truth(0.8) <= ends.high[0])
    assert hits >= 7


def test_continuous_actions():
    rng = np.random.default_rng(0)
    s, a = rng.normal(size=(40, 5, 1)), rng.normal(size=(40, 4, 1))
    data = rs.Trajectories(s, s[:, :-1, 0] + a[:, :, 0], a, truncated=True)
    problem = make_problem(data, lambda x: np.ones((len(x), 1)), discount=0.0)
    found = fitted_q_value(problem, LinearRegression(), n_members=5)
    assert found.full == pytest.approx(s[:, 0, 0].mean() + 1.0)
