"""Landmarks: what they leave undescribed, and the greedy order in which they come."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from oracles import landmarks as oracle
from replaystats.kernel.features import choose_landmarks
from replaystats.kernel.kernels import Kernel


@pytest.fixture
def points(rng):
    return rng.normal(size=(120, 2))


def test_enough_landmarks_describe_every_row(points):
    found = choose_landmarks(points, Kernel("rbf", 0.3), tolerance=1e-3, max_landmarks=120, random_state=0)
    K = rbf_kernel(points, gamma=0.3)
    assert found.complete
    assert oracle.undescribed(K, found.rows).max() <= 1e-3
    assert oracle.undescribed(K, found.rows[:-1]).max() > 1e-3


@pytest.mark.parametrize(("tolerance", "most"), [(1e-3, 120), (1e-4, 8)])
def test_the_next_landmark_is_the_row_described_worst(points, tolerance, most):
    found = choose_landmarks(
        points, Kernel("rbf", 0.3), tolerance=tolerance, max_landmarks=most, random_state=0
    )
    expected = oracle.greedy(rbf_kernel(points, gamma=0.3), found.rows[0], tolerance, most)
    assert_array_equal(found.rows, expected)


def test_too_few_landmarks_say_so(points):
    found = choose_landmarks(points, Kernel("rbf", 30.0), tolerance=1e-3, max_landmarks=10, random_state=0)
    assert len(found.rows) == 10
    assert not found.complete
    assert "not enough" in repr(found)


def test_candidates_are_a_random_part(points):
    few = choose_landmarks(
        points, Kernel("rbf", 0.3), tolerance=1e-3, max_landmarks=50, n_candidates=30, random_state=1
    )
    assert few.n_candidates == 30
    assert len(np.unique(few.rows)) == len(few.rows) <= 30


def test_a_tolerance_below_rounding_stops_there():
    points = np.repeat(np.arange(5.0), 10)[:, None]  # five different points
    found = choose_landmarks(points, Kernel("rbf"), tolerance=0.0, max_landmarks=50, random_state=0)
    assert len(found.rows) == 5
