"""Stacks of matrices: NumPy one by one is the truth, and one bad matrix does not spoil its neighbors."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from replaystats._core.linalg import (
    cholesky_stack,
    condition_stack,
    equilibrate,
    indefinite_stack,
    inverted_condition,
    one_thread,
    scaled_singular_values,
    solve_stack,
)

SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


@pytest.fixture
def stack(rng):
    return rng.normal(size=(6, 4, 4)) + 4 * np.eye(4), rng.normal(size=(6, 4, 2))


def test_solutions_are_those_of_each_matrix_alone(stack):
    A, b = stack
    x, failed = solve_stack(A, b)
    assert not failed.any()
    assert_allclose(x, [np.linalg.solve(one, right) for one, right in zip(A, b, strict=True)], rtol=1e-13)


@pytest.mark.parametrize("spoil", ["singular", "nan", "infinite", "right-hand side"])
def test_one_bad_matrix_is_marked_and_the_others_solved(stack, spoil):
    A, b = stack
    good, _ = solve_stack(A, b)
    if spoil == "singular":
        A[2] = 0.0
    elif spoil == "right-hand side":
        b[2, 0, 0] = np.nan
    else:
        A[2, 0, 0] = np.nan if spoil == "nan" else np.inf
    x, failed = solve_stack(A, b)
    assert_array_equal(failed, np.arange(6) == 2)
    assert np.isnan(x[2]).all()
    assert_array_equal(x[~failed], good[~failed])


def test_a_stack_of_bad_matrices_and_an_empty_one():
    x, failed = solve_stack(np.stack([SINGULAR, SINGULAR]), np.ones((2, 2, 1)))
    assert failed.all()
    assert np.isnan(x).all()
    x, failed = solve_stack(np.empty((0, 3, 3)), np.empty((0, 3, 1)))
    assert x.shape == (0, 3, 1)
    assert failed.shape == (0,)


def test_factors_are_lower_and_give_the_matrix_back(stack):
    A = stack[0] @ stack[0].transpose(0, 2, 1)
    lower, failed = cholesky_stack(A)
    assert not failed.any()
    assert_array_equal(lower, np.tril(lower))
    assert_allclose(lower @ lower.transpose(0, 2, 1), A, rtol=1e-13, atol=1e-12)


def test_what_is_not_positive_definite_is_marked(stack):
    A = stack[0] @ stack[0].transpose(0, 2, 1)
    good, _ = cholesky_stack(A)
    A[1], A[3, 0, 0] = -A[1], np.nan
    lower, failed = cholesky_stack(A)
    assert_array_equal(failed, [False, True, False, True, False, False])
    assert np.isnan(lower[failed]).all()
    assert_allclose(lower[~failed], good[~failed], rtol=1e-14)


def test_conditions_are_those_of_numpy_in_the_1_norm(stack):
    A = stack[0]
    A[4] = 0.0
    condition = condition_stack(A, np.arange(6) == 4)
    assert condition[4] == np.inf
    rest = [0, 1, 2, 3, 5]
    assert_allclose(condition[rest], [np.linalg.cond(A[i], 1) for i in rest], rtol=1e-12)


def test_a_known_condition():
    assert condition_stack(np.diag([1.0, 1e-6])[None], np.array([False])) == pytest.approx([1e6])


def test_equilibrated_matrices_have_rows_and_columns_of_size_1(stack):
    units = np.array([1.0, 1e-12, 1e8, 3e20])
    A = stack[0] * units[:, None] * units[::-1]
    r, c = equilibrate(A)
    scaled = np.abs(r[..., :, None] * A * c[..., None, :])
    for axis in (-1, -2):
        assert (scaled.max(axis=axis) <= 2).all()
        assert (scaled.max(axis=axis) >= 0.25).all()
    assert_array_equal(np.frexp(r)[0], 0.5)  # powers of two
    assert_array_equal(np.frexp(c)[0], 0.5)


def test_large_matrices_are_equilibrated_as_small_ones_are(rng):
    """Those have their scales in single precision."""
    units = 10.0 ** rng.uniform(-150, 150, size=100)
    A = rng.normal(size=(100, 100)) * units[:, None] * units[::-1]
    r, c = equilibrate(A)
    largest = np.abs(r[:, None] * A * c).max(axis=0)
    assert (largest <= 2).all()
    assert (largest >= 0.25).all()


def scaled_condition(A):
    s = scaled_singular_values(A)
    return s[0] / s[-1] if s[-1] > 0 else np.inf


@pytest.mark.parametrize("q", [3, 80])
def test_the_condition_from_an_inverse_is_the_ratio_of_singular_values(rng, q):
    U, V = (np.linalg.qr(rng.normal(size=(q, q))).Q for _ in range(2))
    A = U * np.geomspace(1.0, 1e-7, q) @ V
    exact = scaled_condition(A)
    assert 0.9 * exact <= inverted_condition(A, np.linalg.inv(A)) <= 1.1 * exact
    units = np.exp2(np.round(rng.uniform(-30, 30, size=q)))
    moved = units[:, None] * A * units[::-1]
    assert_allclose(inverted_condition(moved, np.linalg.inv(moved)), exact, rtol=0.3)


def test_the_condition_of_nothing_is_nothing():
    assert inverted_condition(np.zeros((2, 2)), np.zeros((2, 2))) == 0.0


def test_an_empty_row_keeps_its_scale():
    r, c = equilibrate(np.diag([4.0, 0.0]))
    assert (r[1], c[1]) == (1.0, 1.0)


def test_conditions_hardly_depend_on_units(stack):
    """Scales that bring largest entries to 1 are not unique, so a few percent remain."""
    A, units = stack[0][0], np.array([1.0, 1e-6, 1e4, 1e9])
    assert_allclose(scaled_condition(units[:, None] * A * units), scaled_condition(A), rtol=0.1)
    assert scaled_condition(np.diag([1.0, 1e-30])) == pytest.approx(1.0)
    assert scaled_condition(SINGULAR - SINGULAR) == np.inf


@pytest.mark.parametrize("q", [3, 80])  # as one stack, and one by one
def test_where_a_symmetric_part_is_not_definite(rng, q):
    A = rng.normal(size=(6, q, q)) + 4 * q * np.eye(q)
    A[1, 0, 0] = -1.0
    A[2] -= 4.1 * q * np.eye(q)
    A[3, 1, 2] = np.nan
    A[4, 0, 0] = np.inf
    with np.errstate(invalid="ignore"):
        finite = [0, 1, 2, 5]
        smallest = np.linalg.eigvalsh((A + A.swapaxes(1, 2))[finite])[:, 0]
    expected = np.ones(6, dtype=bool)
    expected[finite] = smallest <= 0
    np.testing.assert_array_equal(indefinite_stack(A), expected)
    assert expected.tolist() == [False, True, True, True, True, False]


def test_small_systems_have_one_thread_of_the_blas_and_large_ones_all():
    def threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        with one_thread(1000):
            assert threads() == {1}
        with one_thread(1001):
            assert threads() == {2}
        assert threads() == {2}
