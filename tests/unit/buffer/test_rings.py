"""Rings and a tree of sums, against deques and cumulated sums."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numpy as np
import pytest

from replaystats.buffer.priorities import SumTree
from replaystats.buffer.rows import Rings


def rings_of(capacities):
    return Rings(np.array(capacities), {"pair": ((), np.int16), "end": ((), bool)})


def fill(memory, n, rng, chance_of_end=0.2):
    """Store n random rows in every ring; return them as one deque per ring."""
    kept = [deque(maxlen=int(capacity)) for capacity in memory.capacity]
    for _ in range(n):
        pairs = rng.integers(0, 1600, size=len(kept))
        ended = rng.random(len(kept)) < chance_of_end
        memory.append({"pair": pairs, "end": ended})
        for run, ring in enumerate(kept):
            ring.append((int(pairs[run]), bool(ended[run])))
    return kept


@pytest.mark.parametrize("n", [3, 17, 64])
def test_a_ring_holds_the_latest(n, rng):
    memory = rings_of([5, 16, 100])
    kept = fill(memory, n, rng)
    assert memory.size.tolist() == [len(ring) for ring in kept]
    for run, ring in enumerate(kept):
        slots = memory.first[run] + np.arange(memory.size[run])
        assert sorted(memory.arrays["pair"][slots]) == sorted(pair for pair, _ in ring)
        assert memory.arrays["pair"][memory.newest[run]] == ring[-1][0]


@pytest.mark.parametrize("since", [0, 7, 23])
@pytest.mark.parametrize("running", [False, True])
def test_episodes_are_those_that_a_loop_finds(since, running, rng):
    """Row 7 begins an episode, as a reader of finished episodes knows; rows that left are not known."""
    memory = rings_of([6, 30])
    ended = rng.random((23, 2)) < 0.3
    ended[6] = True
    for row in ended:
        memory.append({"pair": [0, 0], "end": row})
    for ring, capacity in enumerate((6, 30)):
        oldest, expected, begin = max(0, 23 - capacity), [], since
        if begin < oldest:  # nobody knows where the oldest episode began
            begin = next((row + 1 for row in range(oldest, 23) if ended[row, ring]), None)
        for row in range(begin if begin is not None else 23, 23):
            if ended[row, ring] or (running and row == 22):
                expected.append((begin, row + 1))
                begin = row + 1
        found = memory.episodes(ring, since, running=running)
        assert list(pairwise(found.tolist())) == expected


def test_a_tree_finds_what_cumulated_sums_find(rng):
    for n_leaves in (1, 3, 16, 17, 700, 5000):
        tree, plain = SumTree(n_leaves), np.zeros(n_leaves)
        for _ in range(60):
            leaf = rng.integers(0, n_leaves, size=8)  # with repeats: the later counts
            value = rng.exponential(size=8) * (rng.random(8) < 0.7)
            value[-1] += 0.1  # no tree may be empty
            tree.assign(leaf, value)
            for place, number in zip(leaf, value, strict=True):
                plain[place] = number
        assert tree.total == pytest.approx(plain.sum(), rel=1e-12)
        mass = rng.random(500) * plain.sum()
        found = tree.find(mass)
        np.testing.assert_array_equal(found, np.searchsorted(plain.cumsum(), mass, side="right"))
        np.testing.assert_array_equal(tree.leaves(found), plain[found])


def test_a_tree_never_finds_an_empty_leaf_at_the_very_end():
    tree = SumTree(40)
    tree.assign(np.array([0, 21]), np.array([0.1, 0.2]))
    assert tree.find(np.array([0.3, 0.1 + 0.2, 1e9, 0.0])).tolist() == [21, 21, 21, 0]
