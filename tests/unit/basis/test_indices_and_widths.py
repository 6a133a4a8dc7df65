"""Multi-indices by enumeration, and the widths of bumps by sorting all distances."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from replaystats.basis.gaussian import draw_distinct, median_gamma, neighbor_widths
from replaystats.basis.polynomial import half_lattice, tensor_indices, total_degree_indices


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("degree", [0, 1, 3])
def test_indices_are_all_there_once_and_by_increasing_sum(dimension, degree):
    grid = set(itertools.product(range(degree + 1), repeat=dimension))
    for found, expected in (
        (tensor_indices(dimension, degree), grid),
        (total_degree_indices(dimension, degree), {k for k in grid if sum(k) <= degree}),
    ):
        listed = [tuple(k) for k in found.tolist()]
        assert len(listed) == len(expected)
        assert set(listed) == expected
        assert [sum(k) for k in listed] == sorted(map(sum, listed))


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("degree", [1, 2])
def test_half_of_the_lattice_has_one_of_every_pair(dimension, degree):
    half = {tuple(k) for k in half_lattice(tensor_indices(dimension, degree)).tolist()}
    everything = set(itertools.product(range(-degree, degree + 1), repeat=dimension)) - {(0,) * dimension}
    assert len(half) == len(everything) // 2
    assert {k for k in everything if k not in half} == {tuple(-i for i in k) for k in half}


@pytest.mark.parametrize(("n", "d"), [(12, 1), (20, 2), (15, 4), (3, 3)])
def test_a_width_reaches_the_neighbours(rng, n, d):
    points = rng.normal(size=(n, d))
    found = neighbor_widths(points, "width")
    distances = []
    for i in range(n):
        others = sorted(math.dist(points[i], points[j]) for j in range(n) if j != i)
        distances.append(others[min(2 * d, n - 1) - 1])
    assert found == pytest.approx(np.maximum(distances, np.median(distances)))


def test_the_median_heuristic_is_the_median_of_all_pairs(rng):
    points = rng.normal(size=(15, 2))
    pairs = [math.dist(a, b) for a, b in itertools.combinations(points, 2)]
    assert median_gamma(points, "gamma") == pytest.approx(0.5 / np.median(pairs) ** 2)
    for measure in (median_gamma, neighbor_widths):
        with pytest.raises(ValueError, match="`gamma` must be given"):
            measure(np.ones((5, 2)), "gamma")


def test_distinct_rows_do_not_depend_on_the_order_of_the_data(rng):
    states = rng.integers(0, 4, size=(60, 2)).astype(float)
    distinct = sorted({tuple(row) for row in states.tolist()})
    assert [tuple(row) for row in draw_distinct(states, 100, rng).tolist()] == distinct
    draws = [draw_distinct(x, 5, np.random.default_rng(3)) for x in (states, states[::-1])]
    np.testing.assert_array_equal(*draws)
    assert len({tuple(row) for row in draws[0].tolist()} & set(distinct)) == 5
