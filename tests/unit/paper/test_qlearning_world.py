"""The maze, its shortest way and its optimal values, against breadth-first search written twice."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.qlearning import Maze
from replaystats_paper.learner import GridWorld, optimal_values, ring_maze, shortest_path


def test_the_maze_of_zhang_and_sutton():
    world = ring_maze()
    walls = {divmod(int(s), 20) for s in np.flatnonzero(~world.free)}
    ring = {(r, c) for r in range(1, 19) for c in range(1, 19) if r in (1, 18) or c in (1, 18)}
    assert walls == ring - {(1, 2), (2, 1)}
    assert divmod(world.start, 20) == (10, 10)
    assert divmod(world.goal, 20) == (19, 19)
    assert shortest_path(world) == 54


@pytest.mark.parametrize("size", [6, 9, 20])
def test_moves_and_optimal_values_agree_with_the_picture(size):
    world = ring_maze(size)
    maze = Maze(world.picture)
    free = np.flatnonzero(world.free)
    for state in free:
        assert world.moves[4 * state : 4 * state + 4].tolist() == [maze.move(state, a) for a in range(4)]
    distance = maze.distances()
    assert sorted(distance) == free.tolist()  # every free cell can reach the goal
    assert shortest_path(world) == distance[world.start]
    q = optimal_values(world)
    expected = [[-1.0 - distance[maze.move(s, a)] for a in range(4)] for s in free if s != world.goal]
    np.testing.assert_array_equal(q[world.learnable], expected)
    np.testing.assert_array_equal(q[world.goal], 0.0)
    assert np.isnan(q[~world.free]).all()


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (["S.", "G"], "`picture` must be rows of one length"),
        (["S..."], "`picture` must be a maze with one G; got 0"),
        (["SSG"], "`picture` must be a maze with one S; got 2"),
    ],
)
def test_a_bad_picture_is_refused(picture, message):
    with pytest.raises(ValueError, match=message):
        GridWorld(picture)


def test_a_goal_behind_walls_is_refused():
    with pytest.raises(ValueError, match="whose goal can be reached"):
        optimal_values(GridWorld(["S#G"]))


def test_a_ring_needs_room():
    with pytest.raises(ValueError, match="`size` must be an int >= 6; got 5"):
        ring_maze(5)
