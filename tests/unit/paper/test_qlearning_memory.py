"""Rings, trees and samplers, against deques, cumulated sums and frequencies."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from scipy import stats

from replaystats.toolkit import SumTrees
from replaystats_paper.learner import ReplayMemory


def fill(memory, n, rng, chance_of_end=0.2):
    """Store n random transitions in every run; return them as one deque per run."""
    kept = [deque(maxlen=int(capacity)) for capacity in memory.capacity]
    for _ in range(n):
        pairs = rng.integers(0, 1600, size=len(kept))
        ended = rng.random(len(kept)) < chance_of_end
        memory.store(pairs, ended)
        for run, ring in enumerate(kept):
            ring.append((int(pairs[run]), bool(ended[run])))
    return kept


@pytest.mark.parametrize("n", [3, 17, 64])
def test_a_ring_holds_the_latest(n, rng):
    memory = ReplayMemory(np.array([5, 16, 100]), "uniform")
    kept = fill(memory, n, rng)
    assert memory.size.tolist() == [len(ring) for ring in kept]
    for run, ring in enumerate(kept):
        slots = memory.first[run] + np.arange(memory.size[run])
        assert sorted(memory.pairs(slots)) == sorted(pair for pair, _ in ring)
        assert memory.pairs(memory.newest[run]) == ring[-1][0]


@pytest.mark.parametrize("n_steps", [1, 2, 5])
@pytest.mark.parametrize("n", [4, 23])
def test_follow_goes_to_the_end_of_the_episode_or_of_the_memory(n_steps, n, rng):
    memory = ReplayMemory(np.array([6, 30]), "uniform")
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
            assert memory.pairs(last[run, 0]) == ring[age + n_taken - 1][0]


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


def test_trees_forget_runs():
    trees = SumTrees(np.array([20, 300, 2]))
    trees.assign(np.array([[19], [299], [1]]), np.array([[1.0], [2.0], [3.0]]))
    trees.keep(np.array([False, True, True]))
    assert trees.total.tolist() == [2.0, 3.0]
    assert trees.find(np.array([[0.5], [0.5]])).tolist() == [[299], [1]]


def test_uniform_draws_are_uniform_over_what_is_stored(rng):
    memory = ReplayMemory(np.array([8, 1000]), "uniform")
    fill(memory, 20, rng)
    slots, weights = memory.draw(rng.random((2, 20_000)))
    assert weights is None
    for run, size in enumerate((8, 20)):
        counts = np.bincount(slots[run] - memory.first[run], minlength=size)
        assert counts.size == size
        assert stats.chisquare(counts).pvalue > 1e-4


def test_combined_draws_end_with_the_latest(rng):
    memory = ReplayMemory(np.array([8, 1000]), "combined")
    fill(memory, 20, rng)
    uniforms = rng.random((2, 10))
    slots, weights = memory.draw(uniforms)
    memory.sampler = "uniform"
    plain, _ = memory.draw(uniforms)
    assert weights is None
    np.testing.assert_array_equal(slots[:, :-1], plain[:, :-1])
    np.testing.assert_array_equal(slots[:, -1], memory.newest)


def test_prioritised_draws_follow_the_priorities(rng):
    memory = ReplayMemory(np.array([6]), "prioritised")
    for pair in range(6):
        memory.store(np.array([pair]), np.array([False]))
    errors = np.array([[0.0, 1.0, -2.0, 4.0, 8.0, 16.0]])
    memory.learn(np.arange(6)[None], errors)
    slots, weights = memory.draw(rng.random((1, 30_000)))
    expected = (np.abs(errors[0]) + 0.01) ** 0.6
    expected /= expected.sum()
    shares = np.bincount(slots[0], minlength=6) / 30_000
    np.testing.assert_allclose(shares, expected, atol=1e-3)  # stratified: far closer than independent draws
    largest = (6 * expected.min()) ** -0.4
    np.testing.assert_allclose(weights[0], (6 * expected[slots[0]]) ** -0.4 / largest, rtol=1e-12)


def test_a_new_transition_enters_with_the_largest_priority_seen():
    memory = ReplayMemory(np.array([3]), "prioritised")
    for pair in range(4):  # the fourth takes the place of the first
        memory.store(np.array([pair]), np.array([False]))
        memory.learn(memory.newest[:, None], np.array([[(7.0, 0.5, 0.5, 0.5)[pair]]]))
    memory.store(np.array([9]), np.array([False]))
    high = 7.01**0.6
    slots, _ = memory.draw(np.array([[0.5]]))
    assert memory.pairs(slots).tolist() == [[9]]
    # The two others hold 0.51**0.6 each, so the new one holds the rest of the total.
    np.testing.assert_allclose(memory.trees.total, [high + 2 * 0.51**0.6], rtol=1e-12)
