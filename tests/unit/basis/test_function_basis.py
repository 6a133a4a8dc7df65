from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from replaystats.basis import Fourier, FunctionBasis

PAPER = Fourier(3, dimension=2, kind="total")
STATES = np.random.default_rng(0).uniform(-1, 1, size=(6, 2))


def powers(x):
    return np.hstack([x, x**2, x**3])


def test_given_derivatives_are_used():
    basis = FunctionBasis(PAPER, PAPER.n_basis, gradient=PAPER.gradient, hessian=PAPER.hessian)
    assert basis.derivative_order == 2
    assert_allclose(basis(STATES), PAPER(STATES))
    assert_allclose(basis.gradient(STATES), PAPER.gradient(STATES))
    assert_allclose(basis.hessian(STATES), PAPER.hessian(STATES))


def test_finite_differences_fill_what_is_not_given():
    values_only = FunctionBasis(PAPER, PAPER.n_basis, finite_differences=True)
    assert_allclose(values_only.gradient(STATES), PAPER.gradient(STATES), atol=1e-9)
    assert_allclose(values_only.hessian(STATES), PAPER.hessian(STATES), atol=1e-6)
    # With the true gradient one difference is enough, which is more accurate.
    with_gradient = FunctionBasis(PAPER, PAPER.n_basis, gradient=PAPER.gradient, finite_differences=True)
    assert_allclose(with_gradient.hessian(STATES), PAPER.hessian(STATES), atol=1e-8)


def test_finite_difference_steps_follow_the_size_of_the_state():
    basis = FunctionBasis(powers, 3, finite_differences=True)
    x = 1e6
    assert_allclose(basis.gradient([x])[0, :, 0], [1.0, 2 * x, 3 * x**2], rtol=1e-8)
    assert_allclose(basis.hessian([x])[0, 1:, 0, 0], [2.0, 6 * x], rtol=1e-5)


def test_any_dimension_unless_stated():
    assert FunctionBasis(powers, 9)(np.ones((4, 3))).shape == (4, 9)
    with pytest.raises(ValueError, match=r"`states` must be of shape \(N, 2\); got shape \(4, 3\)"):
        FunctionBasis(powers, 6, dimension=2)(np.ones((4, 3)))


def test_derivatives_are_not_approximated_unasked():
    values_only = FunctionBasis(powers, 3)
    with pytest.raises(TypeError, match=r"`basis` must be differentiable; .*`finite_differences=True`"):
        values_only.gradient([1.0])
    first_only = FunctionBasis(PAPER, PAPER.n_basis, gradient=PAPER.gradient)
    assert first_only.derivative_order == 1
    assert first_only.directional(STATES, STATES).shape == (6, PAPER.n_basis)
    with pytest.raises(TypeError, match=r"`basis` must be twice differentiable; .*Pass that derivative"):
        first_only.second_order(STATES, np.ones((6, 2, 2)))


def test_pickle_and_equality():
    basis = FunctionBasis(powers, 3, finite_differences=True, dimension=1)
    assert pickle.loads(pickle.dumps(basis)) == basis
    assert FunctionBasis(powers, 3) != basis
    assert repr(basis) == "FunctionBasis(function=powers, n_basis=3, finite_differences=True, dimension=1)"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FunctionBasis(3, 1), r"`function` must be a function of the states; got 3\."),
        (lambda: FunctionBasis(powers, 0), r"`n_basis` must be an int >= 1; got 0\."),
        (
            lambda: FunctionBasis(powers, 3, gradient=1),
            r"`gradient` must be a function of the states; got 1\.",
        ),
        (lambda: FunctionBasis(powers, 3, hessian=powers), r"`gradient` must be given when `hessian` is"),
        (
            lambda: FunctionBasis(powers, 3, finite_differences=1),
            r"`finite_differences` must be True or False",
        ),
        (
            lambda: FunctionBasis(powers, 4)([1.0]),
            r"`function\(states\)` must be of shape \(1, 4\); got shape",
        ),
        (lambda: FunctionBasis(np.log, 1)([0.0]), r"`function\(states\)` must be finite"),
        (
            lambda: FunctionBasis(powers, 3, gradient=powers).gradient([1.0]),
            r"`gradient\(states\)` must be a 3-D array; got shape \(1, 3\)\.",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_input(make, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        make()
