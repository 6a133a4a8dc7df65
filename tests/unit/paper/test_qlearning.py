"""The maze, and the learner in lockstep against the reference implementation, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.qlearning import Maze, Reference
from replaystats_paper import Cell, Settings, find_experiments, qlearning
from replaystats_paper.qlearning import GridWorld, Lockstep, Rule, optimal_values, ring_maze

PICTURE = ("S..#.", ".#...", ".#.#.", "....G")
TIMEOUT = 17  # short enough that many episodes of the first dozen are cut off
ROUNDING = 1e-9
SHORT = {"n_episodes": 12, "timeout": TIMEOUT}
# The last one has steps that must be cut.
RULES = [
    Rule(minibatch=4, **SHORT),
    Rule(minibatch=4, ratio=3, **SHORT),
    Rule(minibatch=12, step_size=0.3, **SHORT),
]


def test_the_maze_of_zhang_and_sutton():
    world = ring_maze()
    walls = {divmod(int(s), 20) for s in np.flatnonzero(~world.free)}
    ring = {(r, c) for r in range(1, 19) for c in range(1, 19) if r in (1, 18) or c in (1, 18)}
    assert walls == ring - {(1, 2), (2, 1)}
    assert divmod(world.start, 20) == (10, 10)
    assert divmod(world.goal, 20) == (19, 19)
    assert world.distances()[world.start] == 54


@pytest.mark.parametrize("size", [6, 9, 20])
def test_moves_and_optimal_values_agree_with_the_picture(size):
    world = ring_maze(size)
    maze = Maze(world.picture)
    free = np.flatnonzero(world.free)
    for state in free:
        assert world.moves[state].tolist() == [maze.move(state, a) for a in range(4)]
    distance = maze.distances()
    assert sorted(distance) == free.tolist()  # every free cell can reach the goal
    q = optimal_values(world)
    expected = [[-1.0 - distance[maze.move(s, a)] for a in range(4)] for s in free if s != world.goal]
    np.testing.assert_array_equal(q[world.learnable], expected)
    np.testing.assert_array_equal(q[world.goal], 0.0)
    assert np.isnan(q[~world.free]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GridWorld(["S.", "G"]), "`picture` must be rows of one length"),
        (lambda: GridWorld(["S..."]), "`picture` must be a maze with one G; got 0"),
        (lambda: GridWorld(["SSG"]), "`picture` must be a maze with one S; got 2"),
        (lambda: optimal_values(GridWorld(["S#G"])), "whose goal can be reached"),
        (lambda: ring_maze(5), "`size` must be an int >= 6; got 5"),
        (lambda: Rule(minibatch=0), "`minibatch` must be an int >= 1; got 0"),
        (lambda: Rule(ratio=0), "`ratio` must be an int >= 1; got 0"),
        (lambda: Rule(step_size=0.0), "`step_size` must be"),
        (lambda: Rule(explore=-0.1), "`explore` must be"),
        (lambda: Rule(n_episodes=0), "`n_episodes` must be an int >= 1; got 0"),
    ],
)
def test_bad_mazes_and_rules_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"ratio{r.ratio}-k{r.minibatch}")
def test_lockstep_equals_the_reference_step_by_step(rule):
    capacities = np.array([7, 1000, 40])  # one that wraps at once, one that never does
    fast, rng = Lockstep(GridWorld(PICTURE), rule, capacities), np.random.default_rng(5)
    names = ("minibatch", "ratio", "step_size", "explore", "timeout")
    constants = {name: getattr(rule, name) for name in names}
    references = [Reference(Maze(PICTURE), capacity=capacity, **constants) for capacity in capacities]
    while fast.run_ids.size:
        running, uniforms = fast.run_ids.copy(), rng.random((len(fast.run_ids), fast.width))
        fast.step(uniforms)
        for run, row in zip(running, uniforms, strict=True):
            references[run].step(row)
        for place, run in enumerate(fast.run_ids):  # a run that has just finished is compared at the end
            np.testing.assert_allclose(fast.q[place], references[run].values, rtol=0, atol=ROUNDING)
    np.testing.assert_array_equal(fast.returns, [reference.returns for reference in references])
    final = [reference.values for reference in references]
    np.testing.assert_allclose(fast.final, final, rtol=0, atol=ROUNDING)
    # The comparison meets time limits and goals.
    assert (fast.returns == -TIMEOUT).any()
    assert (fast.returns > -TIMEOUT).any()


def learnt(picture, capacity, **rule):
    """Return the action values of one run after its last episode."""
    return (
        Lockstep(GridWorld([picture]), Rule(**rule), np.array([capacity]))
        .run(np.random.default_rng(5))
        .final[0]
    )


def test_a_pair_that_fills_the_minibatch_moves_to_its_target_and_no_further():
    # One cell from the goal, and every draw is of the same transition: 50 steps of 0.1 would end at -5.
    q = learnt("SG", 1, minibatch=50, explore=1.0, n_episodes=30, timeout=1)
    assert q[0, 1] == pytest.approx(-1.0, rel=1e-12)


def test_a_memory_that_holds_everything_is_not_made_larger():
    learner = Lockstep(GridWorld(PICTURE), Rule(n_episodes=3, timeout=TIMEOUT), np.array([10**9]))
    assert learner.memory.capacity.tolist() == [3 * TIMEOUT]


def test_a_timeout_bootstraps_and_the_goal_does_not():
    # Two cells, the goal to the right: every other action stays put, and is worth -2 though episodes are cut
    # after one step.
    q = learnt("SG", 100, explore=1.0, minibatch=1, n_episodes=4000, timeout=1)
    np.testing.assert_allclose(q[0], [-2, -1, -2, -2], atol=1e-6)


def test_with_full_exploration_q_reaches_the_optimum_of_a_corridor():
    q = learnt("S...G", 10**5, explore=1.0, n_episodes=60, timeout=200)
    np.testing.assert_allclose(q[:4, 1], [-4, -3, -2, -1], atol=0.05)


def test_a_cell_has_the_late_returns_and_the_parts_of_the_error(monkeypatch):
    monkeypatch.setattr(qlearning, "ring_maze", lambda: ring_maze(6))
    cell = Cell("qlearning", (("B", 1), ("episodes", 10), ("n", 50)))
    found = qlearning.run_qlearning_cell(cell, Settings(), 5)
    world = ring_maze(6)
    runs = Lockstep(world, Rule(n_episodes=10), np.full(5, 50)).run(
        qlearning.cell_stream(Settings().seed, cell.key)
    )
    assert found["returns"] == pytest.approx([np.mean(row[4:]) for row in runs.returns])
    gaps = [(q - optimal_values(world))[world.learnable].ravel() for q in runs.final]
    squared_error = np.mean([np.mean(gap**2) for gap in gaps])
    assert found["bias2"] + found["variance"] == pytest.approx(squared_error)
    assert found["variance"] == pytest.approx(
        np.mean([np.var(pair, ddof=1) for pair in zip(*gaps, strict=True)])
    )


def test_it_runs_by_name_only():
    assert "qlearning" not in [experiment.name for experiment in find_experiments(["all"])]
    assert find_experiments(["all", "qlearning"])[-1].name == "qlearning"


@pytest.mark.statistical
def test_the_orderings_of_the_maze_show_in_a_small_one():
    """The 8 x 8 maze has the shape of the full study at capacities a few dozen times smaller."""

    def returns(capacity, ratio):
        rule = Rule(n_episodes=15, timeout=1000, ratio=ratio)
        runs = Lockstep(ring_maze(8), rule, np.full(48, capacity)).run(np.random.default_rng([8, capacity]))
        late = runs.returns[:, 5:].mean(axis=1)
        return late.mean(), late.std(ddof=1) / np.sqrt(48)

    def clearly_more(one, other):
        return one[0] - other[0] > 4 * np.hypot(one[1], other[1])

    assert clearly_more(returns(30, 1), returns(1000, 1))  # a large memory hurts
    assert clearly_more(returns(10**6, 1), returns(1000, 1))  # one that keeps everything recovers
    assert clearly_more(returns(1000, 16), returns(30, 16))  # at 16 the best is large
