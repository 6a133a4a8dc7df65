"""Directions that a matrix sees from neither side, on matrices made so that they are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space, subspace_angles

from replaystats.solvers import Auto
from replaystats.solvers.base import Structure, common_null_space, name_features, takes_part


def matrix_without(rng, null, q, *, left=None):
    """A q x q matrix with A v = 0 for the columns v of `null`, and u^T A = 0 for those of `left`."""
    left = null if left is None else left
    inside, outside = np.linalg.qr(null).Q, np.linalg.qr(left).Q
    return (np.eye(q) - outside @ outside.T) @ rng.normal(size=(q, q)) @ (np.eye(q) - inside @ inside.T)


def scales(rng, q):
    """Powers of two over six decades, as the solver takes them."""
    return 2.0 ** rng.integers(-10, 11, size=q)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_space_that_both_sides_lack_is_found(rng, d, scaled):
    q = 7
    null = rng.normal(size=(q, d))
    original = matrix_without(rng, null, q)
    rows, columns = (scales(rng, q) if scaled else np.ones(q) for _ in range(2))
    A = rows[:, None] * original * columns
    left, right = common_null_space(A, rows, columns, 1e-9)
    assert left.shape == right.shape == (q, d)
    assert np.abs(A @ right).max() < 1e-9 * np.abs(A).max()
    assert np.abs(left.T @ A).max() < 1e-9 * np.abs(A).max()
    np.testing.assert_allclose(right.T @ right, np.eye(d), atol=1e-12)
    # Features' own coordinates: both are the space that was taken out, which SciPy finds as well.
    for own in (columns[:, None] * right, rows[:, None] * left):
        assert subspace_angles(own, null).max() < 1e-6
    assert subspace_angles(columns[:, None] * right, null_space(original, rcond=1e-9)).max() < 1e-6


@pytest.mark.parametrize("shared", [0, 1])
def test_a_direction_that_one_side_sees_is_no_structure(rng, shared):
    """Two null vectors on each side, of which `shared` are the same: only those are set aside."""
    q = 6
    common = rng.normal(size=(q, shared))
    null, left = (np.hstack([common, rng.normal(size=(q, 2 - shared))]) for _ in range(2))
    A = matrix_without(rng, null, q, left=left)
    found = common_null_space(A, np.ones(q), np.ones(q), 1e-9)
    assert [x.shape for x in found] == [(q, shared)] * 2
    if shared:
        assert subspace_angles(found[1], common).max() < 1e-6


def test_a_regular_matrix_has_none(rng):
    left, right = common_null_space(rng.normal(size=(5, 5)), np.ones(5), np.ones(5), 1e-9)
    assert left.shape == right.shape == (5, 0)


def test_features_take_part_by_the_size_of_their_coefficient():
    directions = np.array([[1.0, -0.5, 0.04, 0.0], [0.0, 0.0, 1e-9, -1e-9]])
    assert takes_part(directions).tolist() == [[True, True, False, False], [False, False, True, True]]


def test_features_are_named_up_to_eight():
    assert name_features(np.array([3])) == "feature 3"
    assert name_features(np.arange(12)) == "features 0, 1, 2, 3, 4, 5, 6, 7 and 4 more"
    assert Structure(np.array([0]), np.array([[0.0, 2.0, -2.0, 0.0]])).n_directions == 2


def test_a_completed_matrix_has_full_rank_and_the_same_answers(rng):
    features = rng.normal(size=(40, 6)) * [1.0, 1e3, 1.0, 1e-3, 1.0, 1.0]
    features[:, 4] = features[:, 0] - 2 * features[:, 1]
    features[:, 5] = 0.0
    A = features.T @ (features - 0.9 * np.roll(features, 1, axis=0))
    b = features.T @ rng.normal(size=40)
    solution = Auto().solve(A[None], b[None])
    assert solution.structure.n_directions == 2
    completed = solution.structure.completed(A)
    np.testing.assert_allclose(
        features @ np.linalg.solve(completed, b), features @ solution.theta[0], rtol=1e-9
    )
    assert np.linalg.matrix_rank(A) == 4
    size = np.sqrt(np.abs(np.diagonal(completed)))
    assert np.linalg.cond(completed / size / size[:, None]) < 1e3
