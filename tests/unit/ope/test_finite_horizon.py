import numpy as np
import pytest

import replaystats as rs
from oracles import finite_horizon as reference
from replaystats._core.thresholds import PENALTIES
from replaystats.inference.pivot import interval
from replaystats.ope.counts import fit_counts, plausible_range
from replaystats.ope.methods.finite_horizon import (
    _backward,
    _shrunk_to_one,
    _StepSums,
    finite_horizon_value,
)
from replaystats.ope.problem import make_problem
from support import policy_worlds

TARGET = np.array([0.2, 0.8])


def line_truth(horizon, discount):
    moves, rewards = np.zeros((5, 2, 5)), np.zeros((5, 2))
    for s in range(5):
        moves[s, 0, max(0, s - 1)] += 0.8
        moves[s, 1, min(4, s + 1)] += 0.8
        moves[s, :, s] += 0.2
    rewards[4] = 1.0
    return reference.dynamic_programming(moves, rewards, np.tile(TARGET, (5, 1)), discount, horizon)[0]


@pytest.mark.parametrize("discount", [0.95, pytest.param(1.0, marks=pytest.mark.slow)])
def test_covers_on_a_line_with_a_clock(discount):
    """95 % intervals of 40 logs: fewer than 32 would have probability 1e-3 at coverage .93."""
    truth, hits = line_truth(10, discount), 0
    for seed in range(40):
        log = policy_worlds.line(np.random.default_rng([3, seed]))
        model = fit_counts(line_problem(log, discount), np.full(1000, 0.5), pooled=True)
        ends = interval(model.at_start.pivot(model.problem))
        hits += bool(ends.low[0] <= truth <= ends.high[0])
    assert hits >= 32


def line_problem(log, discount=0.95, n=100, length=10, horizon=10):
    states = np.concatenate(
        [log["states"].reshape(n, length, 1), log["next_states"].reshape(n, length, 1)[:, -1:]], axis=1
    )
    data = rs.Trajectories(
        states, log["rewards"].reshape(n, length), log["actions"].reshape(n, length), terminated=True
    )
    return make_problem(data, lambda s: np.tile(TARGET, (len(s), 1)), discount=discount, horizon=horizon)


def test_pooled_counts_are_dynamic_programming_with_the_logged_frequencies():
    """Five states; what was seen at the last step only says what it earned, not where it leads."""
    log = policy_worlds.line(np.random.default_rng(4), n=40)
    moves, rewards, times = np.zeros((5, 2, 5)), np.zeros((5, 2)), np.zeros((5, 2))
    for i in range(400):
        s, a = int(log["states"][i, 0]), log["actions"][i]
        rewards[s, a] += log["rewards"][i]
        times[s, a] += 1
        moves[s, a, int(log["next_states"][i, 0])] += i % 10 < 9
    moves /= moves.sum(axis=2, keepdims=True)
    slow = reference.dynamic_programming(moves, rewards / times, np.tile(TARGET, (5, 1)), 0.9, 10)[0]
    found = fit_counts(line_problem(log, 0.9, n=40), pooled=True)
    assert found.at_start.value == pytest.approx(slow, rel=1e-9)
    assert found.lowest.value == pytest.approx(slow, rel=1e-9)
    assert found.unseen == pytest.approx(0.0, abs=1e-12)


def test_pooled_counts_bound_what_was_never_tried():
    """Action 1 is taken out of the log: the policy takes it in .8, and nothing is known after it."""
    log = policy_worlds.line(np.random.default_rng(4), n=40)
    log["actions"][:] = 0
    found = fit_counts(line_problem(log, n=40, horizon=2), pooled=True)
    worst, best = plausible_range(found.problem)
    assert found.unseen == pytest.approx(0.8 + 0.2 * 0.95 * 0.8)
    assert found.highest.value - found.lowest.value == pytest.approx(found.unseen * (best - worst))


def test_backward_recursion_is_that_of_fresh_regressions():
    rng = np.random.default_rng(0)
    problem = line_problem(policy_worlds.line(rng, n=30), n=30)
    here, there = rng.normal(size=(2, 300, 4))
    onward, moves = problem.following / 0.95, problem.time < 9
    for step, parts in ((None, [np.ones(300, bool)]), (problem.time, [problem.time == t for t in range(10)])):
        found = _backward([_StepSums.of(problem, here, there, rows) for rows in parts], 10, 0.01)
        slow = reference.backward_coefficients(
            here, there, problem.actions, problem.rewards, onward, 0.95, 10, 0.01, moves, step
        )
        assert found == pytest.approx(slow, rel=1e-6, abs=1e-9)


def test_ratios_are_ridge_regressions_shrunk_to_one():
    rng = np.random.default_rng(1)
    x, asked, y = rng.normal(size=(25, 3)), rng.normal(size=(5, 3)), rng.exponential(size=25)
    assert _shrunk_to_one(x, y, asked) == pytest.approx(reference.leave_one_out_ridge(x, y, asked, PENALTIES))


def test_units_are_what_counts():
    """Every episode twice, as one unit: the same interval as of single episodes, up to the models."""
    log = policy_worlds.line(np.random.default_rng([3, 5]), n=60)
    once = line_problem(log, n=60)
    data = once.data[np.tile(np.arange(60), 2)]
    twice = make_problem(
        data, once.policy, discount=0.95, horizon=10, units=np.tile(np.arange(60), 2)
    )  # fmt: skip
    first, second = (
        finite_horizon_value(p, TARGET[p.actions] / 0.5).pivot.standard_error for p in (once, twice)
    )
    assert second == pytest.approx(first, rel=0.1)


def test_a_horizon_shorter_than_the_log():
    problem = line_problem(policy_worlds.line(np.random.default_rng(0), n=400), n=400, horizon=6)
    found = finite_horizon_value(problem, TARGET[problem.actions] / 0.5).pivot
    ends = interval(found, 0.999)
    assert ends.low[0] <= line_truth(6, 0.95) <= ends.high[0]


@pytest.mark.slow
def test_a_season_in_no_column_is_valued_step_by_step():
    """A real state and a push whose sign turns at half time: pooled steps do not hold."""
    rng = np.random.default_rng(8)
    sign = np.where(np.arange(8) < 4, 1.0, -1.0)

    def run(chance, n):
        state, columns = rng.normal(size=n), ([], [], [])
        states = [state]
        for t in range(8):
            acts = (rng.random(n) < chance).astype(int)
            state = 0.5 * state + sign[t] * (acts - 0.5) + 0.3 * rng.normal(size=n)
            for column, new in zip(columns, (state, state * sign[t], acts), strict=True):
                column.append(new)
        return np.stack([*states, *columns[0]], axis=1), *(np.stack(c, axis=1) for c in columns[1:])

    truth = run(0.8, 100_000)[1].sum(axis=1).mean()
    states, rewards, actions = run(0.5, 200)
    data = rs.Trajectories(states, rewards, actions, terminated=True)
    policy = lambda s: np.tile(TARGET, (len(s), 1))  # noqa: E731
    found = rs.evaluate(data, policy, discount=1.0, behavior=np.full(1600, 0.5))
    by_name = {one.name: one for one in found.estimates}
    apart = by_name["doubly robust, each step apart"]
    assert apart.interval.low <= truth <= apart.interval.high
    assert "step of the episode" in by_name["doubly robust, by step"].failed_check
    assert "step of the episode" not in apart.failed_check
