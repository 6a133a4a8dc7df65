"""What is reported where models fail, ratios are weak, or start states lie outside the log."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import replaystats as rs
from replaystats.inference.pivot import Pivot
from replaystats.inference.producers import mean_pivot
from replaystats.ope.method import MethodResult
from replaystats.ope.select import Candidate, most_precise


def merged_labels(seed: int, n: int = 200) -> rs.Trajectories:
    """One label hides the last action, which decides what action 1 pays."""
    rng = np.random.default_rng(seed)
    acts = rng.integers(2, size=(n, 6))
    before = np.c_[np.zeros(n, int), acts[:, :-1]]
    rewards = np.where(acts == 1, np.where(before == 1, 2.0, -1.0), 0.2)
    chances = np.full((n, 6), 0.5)
    return rs.Trajectories(
        np.zeros((n, 7)), rewards=rewards, actions=acts, terminated=True, behavior_probability=chances
    )


def test_a_hidden_state_is_answered_by_ratios_and_not_by_bounds() -> None:
    for seed in range(3):
        found = rs.evaluate(merged_labels(seed), lambda s: np.tile([0.1, 0.9], (len(s), 1)), discount=1.0)
        assert found.reliable
        assert found.method != "bounds"
        assert found.informative < 0.5
        assert found.interval.low <= 6.87 <= found.interval.high


def test_a_pivot_whose_limits_are_left_out_has_the_interval_of_its_noise() -> None:
    pivot = Pivot(estimate=np.ones(1), standard_error=np.full(1, 0.5), degrees=np.full(1, 20.0))
    found = MethodResult(pivot=pivot, missed=(0.1, 0.0))
    reach = 0.5 * stats.t.ppf(0.975, 20)
    assert found.interval(0.95) == pytest.approx((0.9 - reach, 1.0 + reach))
    assert found.impossible == ""
    assert found.squared_error == pytest.approx(0.5**2 + 0.05**2)


def test_rounding_is_no_order_of_the_log() -> None:
    """On a ring, nothing is random but the actions: a count model without any error leaves rounding alone."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        acts = rng.integers(2, size=(60, 6))
        places = np.cumsum(np.c_[np.zeros((60, 1), int), 2 * acts - 1], axis=1) % 5
        data = rs.Trajectories(
            places[..., None],
            rewards=0.2 * places[:, :-1],
            actions=acts,
            terminated=True,
            behavior_probability=np.full((60, 6), 0.5),
        )
        found = rs.evaluate(data, lambda s: np.tile([0.25, 0.75], (len(s), 1)), discount=1.0)
        assert found.reliable


def outside_start(**settings: object) -> rs.Evaluation:
    rng = np.random.default_rng(0)
    s, a = rng.normal(size=(60, 5, 1)), rng.integers(0, 2, (60, 4))
    rewards = np.clip(s[:, :-1, 0], -1.0, 1.0) + a
    data = rs.Trajectories(s, rewards, a, terminated=np.ones(60, bool))
    return rs.evaluate(data, discount=0.9, start=[[1e6]], **settings)  # type: ignore[arg-type]


def test_a_start_state_outside_the_log_is_unreliable() -> None:
    found = outside_start()
    assert not found.reliable
    assert "outside the log" in found.sentence


def test_a_model_that_nothing_can_contradict_is_not_reported() -> None:
    """Forty steps of the other action: the test of the basis sees little, and ratios leave no episode."""
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.normal(size=(30, 41)), axis=1)
    actions = rng.integers(2, size=(30, 40))
    data = rs.Trajectories(states, states[:, :-1] + actions, actions=actions)
    settings = {"discount": 0.9, "behavior": np.full(actions.size, 0.5)}
    named = rs.evaluate(data, lambda s: np.ones(len(s), int), method="LSTDQ", **settings)
    assert not named.reliable
    assert "too few effective episodes" in " ".join(named.failed_checks)
    assert rs.evaluate(data, lambda s: np.ones(len(s), int), **settings).method != "LSTDQ"


def test_bounds_hold_outside_the_log_where_the_range_of_rewards_is_given() -> None:
    found = outside_start(reward_range=(-1.0, 2.0))
    assert found.reliable
    assert found.method == "bounds"


def test_states_from_which_no_logged_step_leads_to_an_end_count_as_never_tried() -> None:
    """Without the last episode, state 1 only leads to itself, and its sum of rewards has no end."""
    paths = [[0, 2]] * 28 + [[0, 1, 1, 1], [0, 1, 2]]
    ends = np.array([True] * 28 + [False, True])
    data = rs.Trajectories(
        [np.array(path)[:, None] for path in paths],
        [np.ones(len(path) - 1) for path in paths],
        [np.array([int(b == 1) if a == 0 else 0 for a, b in pairwise(path)]) for path in paths],
        terminated=ends,
        truncated=~ends,
    )
    found = rs.evaluate(data, lambda s: np.tile([0.5, 0.5], (len(s), 1)), discount=1.0)
    counted = next(row for row in found.estimates if row.name == "count model")
    assert np.isfinite(counted.value)


def test_a_policy_may_write_into_its_argument() -> None:
    def scaled(states: np.ndarray) -> np.ndarray:
        states -= 0.3
        states /= 2.0
        return np.full((len(states), 2), 0.5)

    rng = np.random.default_rng(0)
    s, a = rng.normal(size=(30, 5, 1)), rng.integers(0, 2, (30, 4))
    data = rs.Trajectories(s, s[:, :-1, 0] + a, a, terminated=np.ones(30, bool))
    kept = data.states.copy()
    plain = rs.evaluate(data, lambda x: np.full((len(x), 2), 0.5), discount=0.9)
    assert rs.evaluate(data, scaled, discount=0.9).value == plain.value
    np.testing.assert_array_equal(data.states, kept)


def test_names_of_other_libraries_and_tables_are_answered_in_a_sentence() -> None:
    data = merged_labels(0, 20)
    with pytest.raises(TypeError, match=r"`gamma` must be left out.*`discount`"):
        rs.evaluate(data, gamma=0.9)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match=r"must be a Trajectories; got DataFrame.*rs.readers"):
        rs.evaluate(pandas.DataFrame({"reward": [1.0]}), discount=0.9)


def test_a_method_takes_over_only_where_its_error_is_smaller_beyond_chance() -> None:
    def one(name: str, error: float) -> Candidate:
        pivot = replace(mean_pivot(np.arange(41.0)), standard_error=np.array([error]))
        return Candidate(method=SimpleNamespace(name=name), result=MethodResult(pivot=pivot), seconds=0.0)

    # F with 40 and 40 degrees of freedom has the quantile 1.69 at .95; 1.25^2 = 1.56, 1.35^2 = 1.82.
    assert most_precise([one("first", 1.0), one("last", 1.25)]).method.name == "last"
    assert most_precise([one("first", 1.0), one("last", 1.35)]).method.name == "first"
