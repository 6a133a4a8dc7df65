"""Landmarks: what they leave undescribed, and the greedy order in which they come."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from replaystats.kernel.kernels import Kernel
from replaystats.kernel.landmarks import choose_landmarks


@pytest.fixture
def points(rng):
    return rng.normal(size=(120, 2))


def undescribed(points, rows, gamma):
    """k(x, x) less its best approximation from the landmarks, from the definition."""
    K = rbf_kernel(points, points[rows], gamma=gamma)
    return 1.0 - np.einsum("ij,ji->i", K, np.linalg.pinv(rbf_kernel(points[rows], gamma=gamma)) @ K.T)


def test_enough_landmarks_describe_every_row(points):
    found = choose_landmarks(points, Kernel("rbf", 0.3), tolerance=1e-3, max_landmarks=120, rng=0)
    assert found.complete
    assert undescribed(points, found.rows, 0.3).max() <= 1e-3
    assert undescribed(points, found.rows[:-1], 0.3).max() > 1e-3


def test_the_next_landmark_is_the_row_described_worst(points):
    found = choose_landmarks(points, Kernel("rbf", 0.3), tolerance=1e-4, max_landmarks=8, rng=0)
    worst = [int(np.argmax(undescribed(points, found.rows[:m], 0.3))) for m in range(1, 8)]
    assert_array_equal(found.rows[1:8], worst)


def test_too_few_landmarks_say_so(points):
    found = choose_landmarks(points, Kernel("rbf", 30.0), tolerance=1e-3, max_landmarks=10, rng=0)
    assert len(found.rows) == 10
    assert not found.complete
    assert "not enough" in repr(found)


def test_candidates_are_a_random_part(points):
    few = choose_landmarks(
        points, Kernel("rbf", 0.3), tolerance=1e-3, max_landmarks=50, n_candidates=30, rng=1
    )
    assert few.n_candidates == 30
    assert len(np.unique(few.rows)) == len(few.rows) <= 30


def test_a_tolerance_below_rounding_stops_there():
    points = np.repeat(np.arange(5.0), 10)[:, None]  # five different points
    found = choose_landmarks(points, Kernel("rbf"), tolerance=0.0, max_landmarks=50, rng=0)
    assert len(found.rows) == 5
