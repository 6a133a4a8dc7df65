"""The learner in lockstep against the reference implementation, step by step, on the same random numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from oracles.qlearning import Maze, Reference
from replaystats_paper.learner import SAMPLERS, GridWorld, Lockstep, Rule, Schedule

PICTURE = ("S..#.", ".#...", ".#.#.", "....G")
TIMEOUT = 17  # short enough that many episodes of the first dozen are cut off
ROUNDING = 1e-9
SCHEDULE = Schedule(n_episodes=12, timeout=TIMEOUT)
RULES = [
    Rule(sampler=sampler, minibatch=4, ratio=ratio) for sampler, ratio in product(SAMPLERS, (1, 0.25, 3))
]
RULES += [Rule(minibatch=12, step_size=0.3, sampler=sampler) for sampler in SAMPLERS]  # steps must be cut


def generators(n):
    return [np.random.default_rng([5, run]) for run in range(n)]


def make_reference(rule, capacity):
    names = ("sampler", "minibatch", "ratio", "step_size", "explore")
    constants = {name: getattr(rule, name) for name in names}
    return Reference(Maze(PICTURE), capacity=capacity, timeout=TIMEOUT, **constants)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.sampler}-ratio{r.ratio:g}-k{r.minibatch}")
def test_lockstep_equals_the_reference_step_by_step(rule):
    capacities = np.array([7, 1000, 40])  # one that wraps at once, one that never does
    fast = Lockstep(GridWorld(PICTURE), rule, SCHEDULE, capacities, generators(3))
    references, streams = [make_reference(rule, capacity) for capacity in capacities], generators(3)
    width = 2 + rule.minibatches * rule.minibatch
    while fast.run_ids.size:
        running = fast.run_ids.copy()
        fast.step()
        for run in running:
            references[run].step(streams[run].random(width))
        for place, run in enumerate(fast.run_ids):  # a run that has just finished is compared at the end
            np.testing.assert_allclose(fast.q[place], references[run].values, rtol=0, atol=ROUNDING)
    histories = fast.run()
    np.testing.assert_array_equal(histories.returns, [reference.returns for reference in references])
    assert histories.n_steps == sum(reference.clock for reference in references)
    final = [reference.values for reference in references]
    np.testing.assert_allclose(histories.q, final, rtol=0, atol=ROUNDING)


def test_the_reference_comparison_meets_timeouts_goals_and_ties():
    returns = (
        Lockstep(GridWorld(PICTURE), RULES[0], SCHEDULE, np.array([40] * 3), generators(3)).run().returns
    )
    assert (returns == -TIMEOUT).any()
    assert (returns > -TIMEOUT).any()


def test_a_run_does_not_depend_on_the_runs_beside_it():
    schedule = Schedule(n_episodes=6, timeout=TIMEOUT)
    rule = Rule(sampler="combined", minibatch=4)
    world = GridWorld(PICTURE)
    together = Lockstep(world, rule, schedule, np.array([7, 30, 500]), generators(3)).run()
    alone = Lockstep(world, rule, schedule, np.array([30]), [generators(2)[1]]).run()
    np.testing.assert_array_equal(together.returns[1], alone.returns[0])
    np.testing.assert_allclose(together.q[1], alone.q[0], rtol=0, atol=ROUNDING)


def test_a_pair_that_fills_the_minibatch_moves_to_its_target_and_no_further():
    # One cell from the goal, and every draw is of the same transition: 50 steps of 0.1 would end at -5.
    rule, schedule = Rule(minibatch=50, explore=1.0), Schedule(n_episodes=30, timeout=1)
    q = Lockstep(GridWorld(["SG"]), rule, schedule, np.array([1]), generators(1)).run().q[0, 0]
    assert q[1] == pytest.approx(-1.0, rel=1e-12)


def test_a_memory_that_holds_everything_is_not_made_larger():
    schedule = Schedule(n_episodes=3, timeout=TIMEOUT)
    learner = Lockstep(GridWorld(PICTURE), Rule(), schedule, np.array([10**9]), generators(1))
    assert learner.memory.capacity.tolist() == [3 * TIMEOUT]


def test_a_timeout_bootstraps_and_the_goal_does_not():
    # Two cells, the goal to the right: every other action stays put, and is worth -2 though episodes are cut
    # after one step.
    schedule = Schedule(n_episodes=4000, timeout=1)
    rule = Rule(explore=1.0, minibatch=1)
    q = Lockstep(GridWorld(["SG"]), rule, schedule, np.array([100]), generators(1)).run().q[0, 0]
    np.testing.assert_allclose(q, [-2, -1, -2, -2], atol=1e-6)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_with_full_exploration_q_reaches_the_optimum_of_a_corridor(sampler):
    rule, schedule = Rule(explore=1.0, sampler=sampler), Schedule(n_episodes=60, timeout=200)
    q = Lockstep(GridWorld(["S...G"]), rule, schedule, np.array([10**5]), generators(1)).run().q[0]
    np.testing.assert_allclose(q[:4, 1], [-4, -3, -2, -1], atol=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sampler": "combine"}, 'Did you mean "combined"'),
        ({"minibatch": 0}, "`minibatch` must be an int >= 1; got 0"),
        ({"ratio": 1.5}, "`ratio` must be a whole number, or one over a whole number; got 1.5"),
        ({"ratio": 0.0}, "`ratio` must be"),
        ({"step_size": 0.0}, "`step_size` must be"),
        ({"explore": -0.1}, "`explore` must be"),
    ],
)
def test_a_bad_rule_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Rule(**arguments)


def test_a_bad_schedule_is_refused():
    with pytest.raises(ValueError, match="`n_episodes` must be an int >= 1; got 0"):
        Schedule(n_episodes=0)


def test_one_generator_per_run_is_asked_for():
    with pytest.raises(ValueError, match=r"`generators` must be as long as `capacities` \(2\); got 1"):
        Lockstep(GridWorld(["SG"]), Rule(), Schedule(), np.array([1, 2]), generators(1))
