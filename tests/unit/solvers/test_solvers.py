"""Solvers against NumPy, SciPy and MASS::ginv's rule; failures are a mask."""

import numpy as np
import pytest
import scipy.linalg

from replaystats.solvers import LU, Auto, PseudoInverse, Ridge


@pytest.fixture
def systems(rng):
    A = rng.normal(size=(20, 5, 5)) + 4 * np.eye(5)
    return A, rng.normal(size=(20, 5))


@pytest.mark.parametrize("n_outputs", [None, 3])
@pytest.mark.parametrize("solver", [LU(), PseudoInverse(), Auto()], ids=repr)
def test_regular_systems(rng, systems, solver, n_outputs):
    A, b = systems
    b = b if n_outputs is None else rng.normal(size=(20, 5, n_outputs))
    solution = solver.solve(A, b)
    assert not solution.failed.any()
    for matrix, right, theta in zip(A, b, solution.theta, strict=True):
        np.testing.assert_allclose(theta, scipy.linalg.solve(matrix, right), rtol=1e-9)


def test_ridge(systems):
    A, b = systems
    ridge = Ridge(0.7).solve(A, b).theta
    expected = np.linalg.solve(A + 0.7 * np.eye(5), b[..., None])[..., 0]
    np.testing.assert_allclose(ridge, expected, rtol=1e-10)


def test_pseudo_inverse_drops_what_ginv_drops(rng):
    """MASS::ginv keeps singular values above sqrt(eps) times the largest."""
    U, _, Vt = np.linalg.svd(rng.normal(size=(4, 4)))
    s = np.array([1.0, 1e-3, 2e-8, 1e-8])
    A, b = (U * s) @ Vt, rng.normal(size=4)
    solution = PseudoInverse().solve(A[None], b[None])
    expected = (Vt[:3].T / s[:3]) @ (U[:, :3].T @ b)
    np.testing.assert_allclose(solution.theta[0], expected, rtol=1e-6)
    assert solution.truncated[0] == 1
    assert solution.condition[0] == pytest.approx(1e8, rel=1e-6)


@pytest.mark.parametrize("solver", [LU(), PseudoInverse(), Auto(), Ridge(0.0)], ids=repr)
def test_one_bad_matrix_does_not_spoil_the_stack(systems, solver):
    A, b = systems
    A = A.copy()
    A[3], A[7] = 0.0, np.nan
    solution = solver.solve(A, b)
    np.testing.assert_array_equal(np.flatnonzero(solution.failed), [3, 7])
    assert np.isnan(solution.theta[[3, 7]]).all()
    good = ~solution.failed
    np.testing.assert_allclose(solution.theta[good], LU().solve(A[good], b[good]).theta, rtol=1e-8)


def test_numerically_singular_counts_as_failed(rng):
    column = rng.normal(size=(5, 1))
    A = column @ column.T + 1e-18 * np.eye(5)
    assert LU().solve(A[None], column.T).failed[0]


def test_bad_parameters():
    with pytest.raises(ValueError, match="`alpha` must be"):
        Ridge(-1.0)
    with pytest.raises(ValueError, match="`rcond` must be"):
        PseudoInverse(1.0)
    with pytest.raises(ValueError, match="`rcond` must be"):
        Auto(0.0)
