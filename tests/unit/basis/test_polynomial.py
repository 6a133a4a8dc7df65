from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.polynomial import chebyshev, hermite_e, legendre
from numpy.testing import assert_allclose
from scipy.special import eval_hermitenorm
from sklearn.preprocessing import PolynomialFeatures

from replaystats.basis import Polynomial


@pytest.mark.parametrize(
    ("family", "vander"),
    [
        ("hermite", hermite_e.hermevander),
        ("legendre", legendre.legvander),
        ("chebyshev", chebyshev.chebvander),
        ("monomial", lambda z, degree: np.vander(z, degree + 1, increasing=True)),
    ],
)
def test_one_dimension_against_numpy(family, vander):
    x = np.linspace(-1.0, 1.0, 21)
    assert_allclose(Polynomial(8, family=family)(x), vander(x, 8), rtol=1e-13, atol=1e-12)


def test_hermite_against_scipy():
    x = np.linspace(-3.0, 3.0, 15)
    expected = np.stack([eval_hermitenorm(n, x) for n in range(7)], axis=1)
    assert_allclose(Polynomial(6, family="hermite")(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_monomials_come_in_the_order_of_scikit_learn(dimension):
    x = np.random.default_rng(0).normal(size=(10, dimension))
    expected = PolynomialFeatures(degree=3).fit_transform(x)
    assert_allclose(Polynomial(3, dimension=dimension)(x), expected, rtol=1e-13)


def test_products_of_one_dimensional_polynomials():
    x = np.random.default_rng(1).normal(size=(10, 2))
    first, second = hermite_e.hermevander(x[:, 0], 2).T, hermite_e.hermevander(x[:, 1], 2).T
    expected = [
        first[0] * second[0],
        first[1] * second[0],
        first[0] * second[1],
        first[2] * second[0],
        first[1] * second[1],
        first[0] * second[2],
    ]
    assert_allclose(Polynomial(2, dimension=2, family="hermite")(x), np.transpose(expected), rtol=1e-12)


def test_hermite_polynomials_are_eigenfunctions_of_the_ornstein_uhlenbeck_generator():
    # He_n'' - x He_n' = -n He_n, and in d dimensions -|n| times the product.
    basis = Polynomial(4, dimension=3, family="hermite")
    x = np.random.default_rng(2).normal(size=(20, 3))
    generator = basis.directional(x, -x) + basis.second_order(x, np.broadcast_to(np.eye(3), (20, 3, 3)))
    assert_allclose(generator, -basis.exponents.sum(axis=1) * basis(x), atol=1e-11)


@given(st.floats(-5, 5), st.floats(0.1, 5), st.floats(-3, 3))
def test_center_and_scale_standardise(center, scale, z):
    basis = Polynomial(5, family="legendre", center=center, scale=scale)
    assert_allclose(basis([center + scale * z]), Polynomial(5, family="legendre")([z]), rtol=1e-9, atol=1e-9)


def test_degree_zero_is_the_constant():
    assert_allclose(Polynomial(0, dimension=2)(np.ones((3, 2))), np.ones((3, 1)))
    assert_allclose(Polynomial(0).hessian([1.0]), np.zeros((1, 1, 1, 1)))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"degree": -1}, r"`degree` must be an int >= 0; got -1\."),
        ({"degree": 2, "dimension": 0}, r"`dimension` must be an int >= 1; got 0\. It is the number of"),
        ({"degree": 2, "family": "hermit"}, r'`family` must be one of .* Did you mean "hermite"\?'),
        ({"degree": 2, "scale": -1.0}, r"`scale` must be a finite number in \(0, inf\); got -1\.0\."),
        ({"degree": 2, "center": np.nan}, r"`center` must be a finite number in \(-inf, inf\); got nan\."),
        ({"degree": 2, "center": [0.0, 1.0]}, r"`center` must be one number, or 1 \(one per dimension\)"),
        ({"degree": 30, "dimension": 30}, r"`degree` must be such that there are at most 1000000 functions"),
    ],
)
def test_bad_parameters(arguments, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        Polynomial(**arguments)
