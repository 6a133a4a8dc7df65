"""Every smooth basis in one, two and three dimensions against central differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.feature_maps import central_difference
from replaystats.basis import RBF, Fourier, FunctionBasis, Nystroem, Polynomial, RandomFourier

# Central differences with step 1e-5 of functions of size one: truncation 1e-10 times third derivatives.
FINITE_DIFFERENCE = 2e-7
ROUNDING = 1e-12


def waves(x):
    return np.stack([np.sin(x.sum(axis=1)), np.prod(x, axis=1), np.exp(-(x**2).sum(axis=1))], axis=1)


SMOOTH = {
    "fourier": lambda d: Fourier(3 if d < 3 else 1, dimension=d),
    "fourier_total": lambda d: Fourier(3, dimension=d, kind="total", period=5.0),
    "fourier_periods": lambda d: Fourier(2, dimension=d, kind="total", period=[4.0, 5.0, 6.0][:d]),
    "monomial": lambda d: Polynomial(4, dimension=d, center=0.3, scale=1.5),
    "hermite": lambda d: Polynomial(4, dimension=d, family="hermite", scale=[1.1, 0.9, 1.3][:d]),
    "legendre": lambda d: Polynomial(4, dimension=d, family="legendre", center=[0.1, -0.2, 0.4][:d]),
    "chebyshev": lambda d: Polynomial(4, dimension=d, family="chebyshev"),
    "rbf": lambda d: RBF(7, intercept=True).fit(data(d), random_state=1),
    "rbf_narrow": lambda d: RBF(7, bandwidth=0.7).fit(data(d), random_state=1),
    "random_fourier": lambda d: RandomFourier(12, gamma=0.4).fit(data(d), random_state=2),
    "random_fourier_intercept": lambda d: RandomFourier(12, intercept=True).fit(data(d), random_state=2),
    "nystroem": lambda d: Nystroem(6, gamma=0.8, intercept=True).fit(data(d), random_state=3),
    "function": lambda d: FunctionBasis(waves, n_basis=3, finite_differences=True),
}


def data(d):
    return np.random.default_rng(5).normal(size=(60, d))


@pytest.fixture(params=[1, 2, 3], ids=lambda d: f"d={d}")
def dimension(request):
    return request.param


@pytest.fixture(params=SMOOTH)
def basis(request, dimension):
    return SMOOTH[request.param](dimension)


@pytest.fixture
def states(dimension):
    return np.random.default_rng(6).uniform(-1.5, 1.5, size=(8, dimension))


def test_shapes(basis, states, dimension):
    n, q = len(states), basis.n_basis
    assert basis(states).shape == (n, q)
    assert basis.gradient(states).shape == (n, q, dimension)
    assert basis.hessian(states).shape == (n, q, dimension, dimension)


def test_gradient_against_finite_differences(basis, states):
    expected = central_difference(basis, states)
    assert_allclose(basis.gradient(states), expected, atol=FINITE_DIFFERENCE * (1 + np.abs(expected).max()))


def test_hessian_against_finite_differences_of_the_gradient(basis, states):
    # Where the basis itself differentiates numerically its noise, 1e-11, is divided by 1e-5 once more.
    tolerance = 1e-5 if isinstance(basis, FunctionBasis) else FINITE_DIFFERENCE
    expected = central_difference(basis.gradient, states)
    assert_allclose(basis.hessian(states), expected, atol=tolerance * (1 + np.abs(expected).max()))


def test_contractions_are_those_of_gradient_and_hessian(basis, states, dimension):
    rng = np.random.default_rng(7)
    direction = rng.normal(size=states.shape)
    matrix = rng.normal(size=(len(states), dimension, dimension))  # not symmetric, not definite
    gradient, hessian = basis.gradient(states), basis.hessian(states)
    slope = np.einsum("nqa,na->nq", gradient, direction)
    curvature = np.einsum("nqab,nab->nq", hessian, matrix)
    scale = 1 + np.abs(hessian).max()
    assert_allclose(basis.directional(states, direction), slope, atol=ROUNDING * scale)
    assert_allclose(basis.second_order(states, matrix), curvature, atol=ROUNDING * scale)


def test_no_states_give_empty_arrays(basis, dimension):
    none = np.empty((0, dimension))
    assert basis(none).shape == (0, basis.n_basis)
    assert basis.directional(none, none).shape == (0, basis.n_basis)
    assert basis.second_order(none, np.empty((0, dimension, dimension))).shape == (0, basis.n_basis)


def test_one_dimensional_shorthands():
    basis, s = Fourier(3), np.linspace(-2.0, 2.0, 9)
    drift, diffusion = np.sin(s), 1.0 + s**2
    assert_allclose(basis(s), basis(s[:, None]))
    assert_allclose(basis.directional(s, drift), basis.gradient(s)[:, :, 0] * drift[:, None])
    assert_allclose(basis.second_order(s, diffusion), basis.hessian(s)[:, :, 0, 0] * diffusion[:, None])


def test_gaussian_curvature_keeps_its_digits_far_from_the_origin():
    near = RBF([[0.0, 0.0], [1.0, 0.5], [-0.5, 1.0]], bandwidth=0.8)
    far = RBF(near.centers + 1e5, bandwidth=0.8)
    states = np.array([[0.25, 0.5], [-0.75, 0.125]])  # exact in binary, also after the shift
    matrix = np.broadcast_to([[1.0, 0.3], [0.3, 2.0]], (2, 2, 2))
    assert_allclose(far.second_order(states + 1e5, matrix), near.second_order(states, matrix), rtol=1e-9)
