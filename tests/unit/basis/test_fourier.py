from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

from oracles.feature_maps import fourier_1d, fourier_products
from replaystats.basis import Fourier


def torus(n_points, dimension, period=2 * np.pi):
    """Equidistant points of one period, on which the mean of a trigonometric polynomial is its integral."""
    axis = np.arange(n_points) * period / n_points
    return np.stack(np.meshgrid(*[axis] * dimension), axis=-1).reshape(-1, dimension)


def test_one_dimension_is_the_basis_of_the_paper():
    s = np.linspace(-np.pi, np.pi, 50)
    assert Fourier(4).n_basis == 9
    assert_allclose(Fourier(4)(s), [fourier_1d(4, value) for value in s], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    "basis",
    [Fourier(4), Fourier(3, period=5.0), Fourier(2, dimension=2), Fourier(2, dimension=3, kind="total")],
    ids=repr,
)
def test_orthonormal_over_one_period(basis):
    # Products of two functions have frequencies up to 2 * order < 9: the sum over 9 points is exact.
    states = torus(9, basis.dimension, basis.period)
    phi = basis(states)
    gram = phi.T @ phi * basis.period**basis.dimension / len(states)
    assert_allclose(gram, np.eye(basis.n_basis), atol=1e-14)


@pytest.mark.parametrize("kind", ["tensor", "total"])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_differs_from_the_products_of_one_dimensional_functions_by_a_rotation(kind, dimension):
    states = np.random.default_rng(0).uniform(-4, 4, size=(30, dimension))
    phi = Fourier(2, dimension=dimension, kind=kind)(states)
    products = np.array([fourier_products(2, state, kind) for state in states])
    assert phi.shape == products.shape
    assert_allclose(phi @ phi.T, products @ products.T, atol=1e-13)


@pytest.mark.parametrize(("order", "dimension"), [(0, 1), (1, 4), (3, 2), (2, 6)])
def test_number_of_functions_is_that_of_lattice_points(order, dimension):
    lattice = np.stack(np.meshgrid(*[np.arange(-order, order + 1)] * dimension), axis=-1).reshape(
        -1, dimension
    )
    inside = np.count_nonzero(np.abs(lattice).sum(axis=1) <= order)
    assert Fourier(order, dimension=dimension, kind="total").n_basis == inside
    assert Fourier(order, dimension=dimension).n_basis == len(lattice)


def test_order_zero_is_the_constant():
    assert_allclose(Fourier(0, dimension=2)(np.zeros((3, 2))), np.full((3, 1), 1 / (2 * np.pi)))
    assert_allclose(Fourier(0).gradient([1.0, 2.0]), np.zeros((2, 1, 1)))


@given(
    st.integers(0, 4),
    st.sampled_from(["tensor", "total"]),
    st.lists(st.floats(-50, 50), min_size=1, max_size=3),
    st.floats(0.5, 20),
)
def test_norm_of_the_features_is_the_same_everywhere(order, kind, state, period):
    basis = Fourier(order, dimension=len(state), kind=kind, period=period)
    phi = basis([state])
    # cos^2 + sin^2 = 1 for every frequency.
    assert_allclose((phi**2).sum(), basis.n_basis / period ** len(state), rtol=1e-12)


@given(st.floats(-10, 10), st.integers(-3, 3))
def test_periodic(state, turns):
    basis = Fourier(4, period=3.0)
    assert_allclose(basis([state + 3.0 * turns]), basis([state]), atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"order": -1}, r"`order` must be an int >= 0; got -1\."),
        ({"order": 2.0}, r"`order` must be an int >= 0; got 2\.0\."),
        ({"order": 2, "dimension": 0}, r"`dimension` must be an int in \[1, 1000000\]; got 0\."),
        ({"order": 2, "kind": "tensr"}, r'`kind` must be one of .*; got \'tensr\'\. Did you mean "tensor"\?'),
        ({"order": 2, "period": 0.0}, r"`period` must be a finite number in \(0, inf\); got 0\.0\."),
        ({"order": 2, "period": [1.0, 2.0]}, r"`period` must be one number, or 1 \(one per dimension\)"),
        ({"order": 2, "period": "long"}, r"`period` must be a finite number in \(0, inf\); got 'long'\."),
        ({"order": 4, "dimension": 10}, r"`order` must be such that .* got 3486784401 functions\. Lower"),
        (
            {"order": 20, "dimension": 9, "kind": "total"},
            r"`order` must be such that there are at most 1000000",
        ),
    ],
)
def test_bad_parameters(arguments, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        Fourier(**arguments)
