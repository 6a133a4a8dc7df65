"""Off policy, episodes that were cut off: ratios do not tell what follows, and it is not worth nothing."""

import numpy as np
import pytest

import replaystats as rs

DISCOUNT, RIGHT = 0.95, 0.6


def pushed(n, length, seed):
    """A point that actions, right or left with probability 1/2, push by .5; it earns where it gets to."""
    rng = np.random.default_rng(seed)
    states, actions = np.zeros((n, length + 1)), rng.integers(2, size=(n, length))
    states[:, 0] = rng.normal(size=n)
    for t in range(length):
        states[:, t + 1] = 0.9 * states[:, t] + actions[:, t] - 0.5 + 0.3 * rng.normal(size=n)
    even = np.full((n, length), 0.5)
    return rs.Trajectories(states, states[:, 1:], actions, terminated=False, behavior_probability=even)


def to_the_right(states):
    return np.tile([1 - RIGHT, RIGHT], (len(states), 1))


def true_value():
    """Where the mean goes is 10 (1 - .9^t) times the mean push, .5 (2 RIGHT - 1); starts have mean 0."""
    push = 0.5 * (2 * RIGHT - 1)
    return push * (1 / (1 - DISCOUNT) - 0.9 / (1 - 0.9 * DISCOUNT)) / (1 - 0.9)


def test_the_closed_form_is_that_of_the_recursion():
    mean = total = 0.0
    for t in range(2000):
        mean = 0.9 * mean + 0.5 * (2 * RIGHT - 1)
        total += DISCOUNT**t * mean
    assert true_value() == pytest.approx(total)


def test_long_episodes_are_enough_for_ratios(seed):
    data = pushed(60, 20, seed)
    chances = np.where(data.actions == 1, RIGHT, 1 - RIGHT)
    found = rs.evaluate(data, chances, discount=0.3)
    assert found.method in ("doubly robust", "importance sampling, weighted")
    assert found.reliable


@pytest.mark.statistical
def test_an_interval_that_is_said_to_hold_covers_where_most_of_the_future_was_cut_off(numbers):
    """Of 120 logs 59 missed and were said to hold; 5 do now. 60 that cover in .95 miss 10 in 1 of 1000."""
    truth, missed = true_value(), 0
    for i in numbers(60):
        found = rs.evaluate(pushed(100, 10, i), to_the_right, discount=DISCOUNT)
        missed += found.reliable and not found.interval.low <= truth <= found.interval.high
    assert missed < 10


def test_a_little_after_cuts_has_a_bias_bound_in_place_of_a_test_of_the_model():
    """States decay by .9, a coin of .02 ends episodes, cuts at 60: 9 % of the future lies after cuts."""
    rng, episodes = np.random.default_rng(4), []
    for _ in range(60):
        path, ended = [1.0], False
        while len(path) <= 60 and not ended:
            path.append(0.9 * path[-1] + 0.3 * rng.normal())
            ended = rng.random() < 0.02
        episodes.append((np.array(path), ended))
    ends = [ended for _, ended in episodes]
    data = rs.Trajectories(
        [path for path, _ in episodes],
        [path[:-1] for path, _ in episodes],
        terminated=ends,
        truncated=[not ended for ended in ends],
    )
    found = rs.evaluate(data, discount=0.98)
    assert found.method == "mean return, completed after cuts"
    assert "model" not in [a.code for a in found.assumptions]
    share = np.mean([0.0 if ended else 0.98**60 for ended in ends])
    assert 0.05 < share < 0.1
    assert found.result.pivot.bias_bound[0] >= 0.05 * share * np.ptp(found.bounds) * (1 - 1e-9)
    assert found.interval.low < 1.0 / (1.0 - 0.98 * 0.98 * 0.9) < found.interval.high
