"""Sums on grids: the same bits in any order, held to math.fsum, which rounds the true sum once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from replaystats.moments.streamed import ExactGrid, column_maxima

NUMBERS = st.floats(-1e12, 1e12, allow_subnormal=False)


def grid_sum(rows, counts, order=None):
    """The sum of count x row through the grid, added one after the other in `order`."""
    grid = ExactGrid.from_maxima(column_maxima(rows), int(counts.sum()))
    high, low = grid.split(rows)
    total_high, total_low = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for i in range(len(rows)) if order is None else order:
        total_high += counts[i] * high[i]
        total_low += counts[i] * low[i]
    return grid.join(total_high[None], total_low[None])[0]


@given(st.lists(st.tuples(NUMBERS, st.integers(0, 5)), min_size=1, max_size=40), st.randoms())
def test_any_order_gives_the_same_bits(terms, random):
    rows = np.array([[value] for value, _ in terms])
    counts = np.array([count for _, count in terms])
    order = list(range(len(terms)))
    random.shuffle(order)
    assert grid_sum(rows, counts).tobytes() == grid_sum(rows, counts, order).tobytes()


@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_sums_are_those_of_fsum_to_the_grid(values):
    """What is dropped of each term is at most 2^(e - 2p - 2); the join rounds once."""
    rows = np.array(values)[:, None]
    found = grid_sum(rows, np.ones(len(values), dtype=int))[0]
    exact = math.fsum(values)
    bits = 53 - len(values).bit_length()
    largest = max(map(abs, values))
    dropped = len(values) * math.ldexp(1.0, math.frexp(largest)[1] - 2 * bits - 2)
    assert abs(Fraction(found) - Fraction(exact)) <= Fraction(dropped) + Fraction(math.ulp(exact))


def test_a_case_that_an_ordinary_sum_gets_wrong():
    values = np.array([1e16, 1.0, -1e16, 1.0])
    assert values.sum() != 2.0
    assert grid_sum(values[:, None], np.ones(4, dtype=int)) == [2.0]


def test_slices_lie_on_their_grids(rng):
    rows = rng.normal(size=(200, 3)) * [1.0, 1e-8, 1e20]
    grid = ExactGrid.from_maxima(column_maxima(rows), n_terms=1000)
    high, low = grid.split(rows)
    assert np.array_equal(np.rint(np.ldexp(high, grid.bits)), np.ldexp(high, grid.bits))
    assert np.array_equal(np.rint(np.ldexp(low, 2 * grid.bits + 1)), np.ldexp(low, 2 * grid.bits + 1))
    assert np.array_equal(grid.join(high, low), rows)  # 43 + 44 bits hold every one of the 53


@pytest.mark.parametrize(
    ("n_terms", "bits"), [(1, 51), (3, 51), (4, 50), (1000, 43), (10**6, 33), (10**8, 26)]
)
def test_bits_leave_room_for_the_terms(n_terms, bits):
    assert ExactGrid.from_maxima(np.ones(1), n_terms).bits == bits
    assert n_terms * 2**bits <= 2**53


def test_columns_have_exponents_of_their_own():
    grid = ExactGrid.from_maxima(np.array([0.0, 0.5, 1.0, 3.0]), 10)
    assert grid.exponent.tolist() == [0, 0, 1, 2]


def test_what_exceeds_the_range_is_infinite():
    rows = np.full((2, 1), 1.7e308)
    assert grid_sum(rows, np.ones(2, dtype=int)) == [np.inf]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_first_bad_column_is_named(bad):
    with pytest.raises(
        ValueError, match=r"`moments` must be finite; got NaN or infinity in column 1\. Remove"
    ):
        ExactGrid.from_maxima(np.array([1.0, bad, bad]), 10)


def test_maxima_are_of_absolute_values_and_keep_nan():
    rows = np.array([[-3.0, 1.0, np.nan], [2.0, -0.5, 0.0]])
    np.testing.assert_array_equal(column_maxima(rows), [3.0, 1.0, np.nan])
