"""Rings and sum trees, against deques and cumulated sums."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from replaystats.buffer.priorities import SumTrees
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


@pytest.mark.parametrize("n_steps", [1, 2, 5])
@pytest.mark.parametrize("n", [4, 23])
def test_follow_goes_to_the_end_of_the_episode_or_of_the_memory(n_steps, n, rng):
    memory = rings_of([6, 30])
    kept = fill(memory, n, rng, chance_of_end=0.3)
    for run, ring in enumerate(kept):
        capacity, size = int(memory.capacity[run]), len(ring)
        oldest = n % capacity if n > capacity else 0
        for age in range(size):  # 0 is the oldest
            slots = np.zeros((2, 1), dtype=int) + memory.newest[:, None]
            slots[run] = memory.first[run] + (oldest + age) % capacity
            last, length = memory.follow(slots, n_steps, np.arange(2)[:, None])
            n_taken = 1
            while n_taken < n_steps and age + n_taken < size and not ring[age + n_taken - 1][1]:
                n_taken += 1
            assert length[run, 0] == n_taken
            assert memory.arrays["pair"][last[run, 0]] == ring[age + n_taken - 1][0]


def test_trees_find_what_cumulated_sums_find(rng):
    n_leaves = np.array([3, 16, 17, 700])
    trees = SumTrees(n_leaves)
    priorities = [np.zeros(n) for n in n_leaves]
    for _ in range(60):
        leaf = np.stack([rng.integers(0, n, size=8) for n in n_leaves])  # with repeats: the later counts
        value = rng.exponential(size=leaf.shape) * (rng.random(leaf.shape) < 0.7)
        value[:, -1] += 0.1  # no tree may be empty
        trees.assign(leaf, value)
        for run, flat in enumerate(priorities):
            for place, number in zip(leaf[run], value[run], strict=True):
                flat[place] = number
    totals = np.array([flat.sum() for flat in priorities])
    np.testing.assert_allclose(trees.total, totals, rtol=1e-12)
    mass = rng.random((4, 500)) * totals[:, None]
    found = trees.find(mass)
    for run, flat in enumerate(priorities):
        np.testing.assert_array_equal(found[run], np.searchsorted(flat.cumsum(), mass[run], side="right"))
    np.testing.assert_array_equal(
        trees.leaves(found), [flat[f] for flat, f in zip(priorities, found, strict=True)]
    )


def test_trees_never_find_an_empty_leaf_at_the_very_end():
    trees = SumTrees(np.array([40]))
    trees.assign(np.array([[0, 21]]), np.array([[0.1, 0.2]]))
    assert trees.find(np.array([[0.3, 0.1 + 0.2, 1e9, 0.0]])).tolist() == [[21, 21, 21, 0]]
