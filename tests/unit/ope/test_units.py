"""The unit of rewards and of states is nobody's business, nor is how many steps one episode has."""

import numpy as np
import pytest
from scipy import stats
from tests.unit.ope.test_visits import homeward, walk

import replaystats as rs
from replaystats.ope.counts import returns_to_go
from replaystats.ope.intervals import skewed_mean_interval
from replaystats.ope.problem import make_problem
from support.cases import slow_except

EVEN = np.array([0.5, 0.5])


def scaled(data, states=1.0, rewards=1.0):
    n = len(data)
    return rs.Trajectories(
        states * data.states.reshape(n, -1),
        rewards * data.rewards.reshape(n, -1),
        data.actions.reshape(n, -1),
        terminated=data.terminated,
    )


@pytest.mark.parametrize("factor", slow_except([2.0**-30], [2.0**-30, 2.0**30]))
def test_states_in_other_units_have_the_same_values(factor):
    """Places so far apart that tanh separated two of them were taken for two, and the bases were smaller."""
    data, chances = walk(60, 40)
    found = rs.evaluate(data, homeward, discount=0.9, behavior=chances)
    log = scaled(data, states=factor)
    other = rs.evaluate(log, lambda s: homeward(s / factor), discount=0.9, behavior=chances)
    assert found.method == other.method == "doubly robust, ratios of visits"
    assert other.value == found.value
    assert other.interval == found.interval


@pytest.mark.parametrize("policy", [None, homeward])
def test_rewards_in_other_units_have_the_same_values_and_objections(policy):
    data, chances = walk(20, 8)
    found = rs.evaluate(data, policy, discount=0.9, behavior=chances)
    tested, failed = (
        [t.possible for t in found.log.basis_tests],
        [w.failed_check[:10] for w in found.estimates],
    )
    for factor in (2.0**-40, 2.0**40):
        other = rs.evaluate(scaled(data, rewards=factor), policy, discount=0.9, behavior=chances)
        assert other.value == factor * found.value
        assert other.interval == tuple(factor * end for end in found.interval)
        assert other.failed_checks == found.failed_checks
        assert [t.possible for t in other.log.basis_tests] == tested
        assert [w.failed_check[:10] for w in other.estimates] == failed


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_sentences_show_the_digits_that_the_interval_carries(unit):
    rng = np.random.default_rng(0)
    rewards = unit * (5.0 + rng.normal(size=(40, 1)))
    found = rs.evaluate(rs.Trajectories(rng.normal(size=(40, 2)), rewards, terminated=True), discount=0.9)
    shown = [float(word) for word in found.sentence.replace(",", "").split() if word[:1].isdigit()]
    assert shown[0] == pytest.approx(found.value, abs=0.05 * unit)
    assert shown[2:4] == pytest.approx(found.interval, abs=0.05 * unit)


# -- few episodes ----------------------------------------------------------------------------------


def test_the_rewards_of_three_episodes_do_not_bound_their_mean(numbers):
    """Ends at the smallest and largest reward covered in .72. The share of 300 has an error of .013."""
    covered = 0
    for i in numbers(300):
        rewards = 5.0 + np.random.default_rng(i).normal(size=(3, 1))
        data = rs.Trajectories(np.zeros((3, 2)), rewards, terminated=True)
        low, high = rs.evaluate(data, discount=0.0).interval
        covered += low <= 5.0 <= high
    assert covered / 300 > 0.95 - 4 * 0.013


def test_rewards_that_come_back_bound_the_mean():
    won = np.array([[0.0], [1.0], [1.0], [0.0]])
    data = rs.Trajectories(np.zeros((4, 2)), won, terminated=True)
    low, high = rs.evaluate(data, discount=0.0).interval
    assert (low, high) == (0.0, 1.0)
    wider = rs.evaluate(data, discount=0.0, reward_range=(-1.0, 2.0)).interval
    assert wider.low < 0.0
    assert wider.high > 1.0


# -- many steps, many episodes ---------------------------------------------------------------------


def test_returns_of_a_long_episode():
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=200_000)
    problem = make_problem(rs.Trajectories(np.zeros((1, 200_001)), rewards[None]), None, discount=0.99)
    found = returns_to_go(problem)
    expected = 0.0
    for reward in rewards[:-2000:-1]:
        expected = reward + 0.99 * expected
    assert found[-1999] == pytest.approx(expected, rel=1e-12)
    assert found[-1] == rewards[-1]


def test_a_few_clicks_of_many_visitors_are_clopper_and_pearsons():
    """Half a million returns of two kinds: minutes and gigabytes, where every one had a weight of its own."""
    n, k = 500_000, 12
    clicks = np.zeros(n)
    clicks[:k] = 1.0
    low, high = skewed_mean_interval(clicks, 0.95, (0.0, 1.0))
    assert low == pytest.approx(stats.beta.ppf(0.025, k, n - k + 1), rel=0.05)
    assert high == pytest.approx(stats.beta.ppf(0.975, k + 1, n - k), rel=0.05)
