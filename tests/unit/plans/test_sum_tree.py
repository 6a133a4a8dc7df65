"""The tree of sums against plain cumulated sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from replaystats.estimators._buffer_data import SumTree


@given(
    capacity=st.integers(1, 70),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1e6)), min_size=1, max_size=40),
    batch=st.booleans(),
)
def test_sums_and_searches_are_those_of_the_cumulated_priorities(capacity, changes, batch):
    tree, plain = SumTree(capacity), np.zeros(capacity)
    for index, value in changes:
        plain[index % capacity] = value
    if batch:
        tree.update(np.array([i % capacity for i, _ in changes]), np.array([v for _, v in changes]))
    else:
        for index, value in changes:
            tree.set(index % capacity, value)
    np.testing.assert_array_equal(tree.priorities, plain)
    assert tree.total == pytest.approx(plain.sum())
    positive = np.flatnonzero(plain)
    if positive.size:
        middle = (
            np.cumsum(plain)[positive] - plain[positive] / 2
        )  # away from the edges, where rounding decides
        clear = plain[positive] > 1e-9 * plain.sum()
        np.testing.assert_array_equal(tree.find(middle)[clear], positive[clear])
        # nothing without weight is ever found, not even at the very end
        assert plain[tree.find(np.array([0.0, tree.total]))].min() > 0


def test_draws_are_proportional(rng):
    priorities = np.array([0.0, 1.0, 2.0, 0.0, 5.0])
    tree = SumTree(5)
    tree.update(np.arange(5), priorities)
    counts = np.bincount(tree.sample(20_000, rng), minlength=5)
    assert counts[[0, 3]].sum() == 0
    assert stats.chisquare(counts[[1, 2, 4]], 20_000 * np.array([1, 2, 5]) / 8).pvalue > 1e-4


def test_rounding_errors_do_not_pile_up():
    tree = SumTree(4)
    tree.update(np.arange(4), np.array([1e16, 1.0, 1.0, 1.0]))
    tree.set(0, 0.0)
    assert tree.total == 3.0


def test_priorities_cannot_be_changed_from_outside():
    with pytest.raises(ValueError, match="read-only"):
        SumTree(3).priorities[0] = 1.0
