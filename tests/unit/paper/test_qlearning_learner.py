"""The learner in lockstep against the reference implementation, step by step, on the same random numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from oracles.qlearning import Maze, Reference
from replaystats_paper.gridworld import GridWorld, active_features
from replaystats_paper.learner import SAMPLERS, Lockstep, Rule, Schedule

PICTURE = ("S..#.", ".#...", ".#.#.", "....G")
TIMEOUT = 17  # short enough that many episodes of the first dozen are cut off
ROUNDING = 1e-9
RULES = [
    Rule(sampler=sampler, n_step=n_step, minibatch=4, ratio=ratio, features=features, discount=discount)
    for sampler, n_step, (features, ratio, discount) in product(
        SAMPLERS, (1, 3), (("table", 1, 1.0), ("table", 0.25, 0.9), ("tiles", 3, 0.95))
    )
]
RULES += [Rule(timeouts="end", n_step=n_step, minibatch=4) for n_step in (1, 3)]
RULES += [Rule(minibatch=12, step_size=0.3, sampler=sampler) for sampler in SAMPLERS]  # steps must be cut


def generators(n):
    return [np.random.default_rng([5, run]) for run in range(n)]


def make_reference(rule, capacity):
    active = active_features(GridWorld(PICTURE), rule.features).tolist()
    names = ("sampler", "minibatch", "ratio", "n_step", "timeouts", "step_size", "discount", "explore")
    constants = {name: getattr(rule, name) for name in names}
    return Reference(Maze(PICTURE), active, capacity=capacity, timeout=TIMEOUT, **constants)


@pytest.mark.parametrize(
    "rule",
    RULES,
    ids=lambda r: f"{r.sampler}-{r.n_step}step-{r.features}-ratio{r.ratio:g}-{r.timeouts}-k{r.minibatch}",
)
def test_lockstep_equals_the_reference_step_by_step(rule):
    capacities = np.array([7, 1000, 40])  # one that wraps at once, one that never does
    schedule = Schedule(n_episodes=12, timeout=TIMEOUT, checkpoints=(5, 12))
    fast = Lockstep(GridWorld(PICTURE), rule, schedule, capacities, generators(3))
    references, streams = [make_reference(rule, capacity) for capacity in capacities], generators(3)
    width = 2 + rule.minibatches * rule.minibatch
    while fast.run_ids.size:
        running = fast.run_ids.copy()
        fast.step()
        for run in running:
            references[run].step(streams[run].random(width))
        for place, run in enumerate(fast.run_ids):  # a run that has just finished is compared at the end
            np.testing.assert_allclose(
                fast.values.weights[place], references[run].weights, rtol=0, atol=ROUNDING
            )
    histories = fast.run()
    np.testing.assert_array_equal(histories.returns, [reference.returns for reference in references])
    assert histories.n_steps == sum(reference.clock for reference in references)
    final = [[[reference.q(s, a) for a in range(4)] for s in range(20)] for reference in references]
    goal = references[0].maze.goal
    np.testing.assert_allclose(
        np.delete(histories.q[-1], goal, axis=1), np.delete(final, goal, axis=1), rtol=0, atol=ROUNDING
    )


def test_the_reference_comparison_meets_timeouts_goals_and_ties():
    rule = RULES[0]
    schedule = Schedule(n_episodes=12, timeout=TIMEOUT, checkpoints=())
    returns = Lockstep(GridWorld(PICTURE), rule, schedule, np.array([40] * 3), generators(3)).run().returns
    assert (returns == -TIMEOUT).any()
    assert (returns > -TIMEOUT).any()


def test_a_run_does_not_depend_on_the_runs_beside_it():
    schedule = Schedule(n_episodes=6, timeout=TIMEOUT, checkpoints=(6,))
    rule = Rule(sampler="prioritised", n_step=3, minibatch=4)
    world = GridWorld(PICTURE)
    together = Lockstep(world, rule, schedule, np.array([7, 30, 500]), generators(3)).run()
    alone = Lockstep(world, rule, schedule, np.array([30]), [generators(2)[1]]).run()
    np.testing.assert_array_equal(together.returns[1], alone.returns[0])
    np.testing.assert_allclose(together.q[:, 1], alone.q[:, 0], rtol=0, atol=ROUNDING)


def test_a_pair_that_fills_the_minibatch_moves_to_its_target_and_no_further():
    # One cell from the goal, and every draw is of the same transition: 50 steps of 0.1 would end at -5.
    schedule = Schedule(n_episodes=30, timeout=1, checkpoints=(30,))
    rule = Rule(minibatch=50, explore=1.0)
    q = Lockstep(GridWorld(["SG"]), rule, schedule, np.array([1]), generators(1)).run().q[0, 0, 0]
    assert q[1] == pytest.approx(-1.0, rel=1e-12)


def test_a_diverging_run_is_stopped_and_charged_the_timeout():
    schedule = Schedule(n_episodes=40, timeout=50, checkpoints=(1, 40))
    rule = Rule(features="tiles", step_size=1.0, minibatch=200)  # many whole steps at once on shared tiles
    histories = Lockstep(GridWorld(PICTURE), rule, schedule, np.array([500] * 3), generators(3)).run()
    assert np.isfinite(histories.returns).all()
    assert (histories.returns[:, -1] == -50).all()
    assert np.isnan(histories.q[1]).all()
    assert histories.n_steps < 3 * 40 * 50


def test_a_memory_that_holds_everything_is_not_made_larger():
    schedule = Schedule(n_episodes=3, timeout=TIMEOUT, checkpoints=())
    learner = Lockstep(GridWorld(PICTURE), Rule(), schedule, np.array([10**9]), generators(1))
    assert learner.memory.capacity.tolist() == [3 * TIMEOUT]


@pytest.mark.parametrize(
    ("features", "timeouts", "staying"),
    [("table", "bootstrap", -2), ("tiles", "bootstrap", -2), ("table", "end", -1)],
)
def test_a_timeout_bootstraps_and_the_goal_does_not(features, timeouts, staying):
    # Two cells, the goal to the right: every other action stays put. With episodes cut after one step, a
    # learner that takes the cut for an end values staying at -1; the truth is -2.
    schedule = Schedule(n_episodes=4000, timeout=1, checkpoints=(4000,))
    rule = Rule(explore=1.0, minibatch=1, features=features, timeouts=timeouts)
    q = Lockstep(GridWorld(["SG"]), rule, schedule, np.array([100]), generators(1)).run().q[0, 0, 0]
    np.testing.assert_allclose(q, [staying, -1, staying, staying], atol=1e-6)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("n_step", [1, 3])
def test_with_full_exploration_q_reaches_the_optimum_of_a_corridor(sampler, n_step):
    # n-step returns of a random policy are biased for n > 1: they stay above -len of the walk, below Q*.
    world = GridWorld(["S...G"])
    schedule = Schedule(n_episodes=60, timeout=200, checkpoints=(60,))
    rule = Rule(explore=1.0, sampler=sampler, n_step=n_step)
    q = Lockstep(world, rule, schedule, np.array([10**5]), generators(1)).run().q[0, 0]
    optimum = np.array([-4, -3, -2, -1])
    if n_step == 1:
        np.testing.assert_allclose(q[:4, 1], optimum, atol=0.05)
    else:
        assert (q[:3, 1] < optimum[:3] - 0.2).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sampler": "combine"}, 'Did you mean "combined"'),
        ({"minibatch": 0}, "`minibatch` must be an int >= 1; got 0"),
        ({"ratio": 1.5}, "`ratio` must be a whole number, or one over a whole number; got 1.5"),
        ({"ratio": 0.0}, "`ratio` must be"),
        ({"n_step": 0}, "`n_step` must be"),
        ({"features": "net"}, "`features` must be"),
        ({"timeouts": "ignore"}, "`timeouts` must be"),
        ({"step_size": 0.0}, "`step_size` must be"),
        ({"discount": 1.1}, "`discount` must be"),
        ({"explore": -0.1}, "`explore` must be"),
    ],
)
def test_a_bad_rule_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Rule(**arguments)


def test_a_bad_schedule_is_refused():
    with pytest.raises(ValueError, match=r"`checkpoints` must be an int in \[1, 10\]; got 11"):
        Schedule(n_episodes=10, checkpoints=(11,))


def test_one_generator_per_run_is_asked_for():
    with pytest.raises(ValueError, match=r"`generators` must be as long as `capacities` \(2\); got 1"):
        Lockstep(GridWorld(["SG"]), Rule(), Schedule(), np.array([1, 2]), generators(1))
