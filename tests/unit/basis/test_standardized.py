"""A basis in standardised units: the same functions, with derivatives in the units of the data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles.feature_maps import central_difference
from replaystats.basis import RBF, Polynomial, RandomFourier, Standardized, TileCoding

STATES = np.random.default_rng(3).normal([5.0, -100.0], [0.1, 20.0], size=(40, 2))
BASES = [RBF(6, intercept=True), RandomFourier(8), Polynomial(3, dimension=2, family="hermite")]


@pytest.fixture(params=BASES, ids=lambda basis: type(basis).__name__)
def basis(request):
    return Standardized(request.param).fit(STATES, random_state=0)


def test_it_is_the_inner_basis_at_standardised_states(basis):
    z = (STATES - STATES.mean(axis=0)) / STATES.std(axis=0)
    inner = basis.basis.fit(z, random_state=0)
    assert basis.dimension == 2
    assert_allclose(basis(STATES), inner(z), rtol=1e-12)


def test_units_do_not_matter():
    units = np.array([1000.0, 0.001])
    here = Standardized(RBF(6)).fit(STATES, random_state=0)(STATES)
    there = Standardized(RBF(6)).fit(STATES * units, random_state=0)(STATES * units)
    assert_allclose(here, there, rtol=1e-9)


def test_derivatives_against_central_differences(basis):
    states, units = STATES[:5], STATES.std(axis=0)
    in_units = lambda z: basis(z * units)  # noqa: E731  # differences with one step for both variables
    gradient = central_difference(in_units, states / units)
    assert_allclose(basis.gradient(states) * units, gradient, atol=2e-7)
    hessian = central_difference(lambda z: basis.gradient(z * units), states / units) * units[:, None]
    assert_allclose(basis.hessian(states) * np.outer(units, units), hessian, atol=2e-7)


def test_contractions_against_the_full_derivatives(basis, rng):
    states, v, m = STATES[:5], rng.normal(size=(5, 2)), rng.normal(size=(5, 2, 2))
    gradient, hessian = basis.gradient(states), basis.hessian(states)
    assert_allclose(basis.directional(states, v), np.einsum("nqa,na->nq", gradient, v), rtol=1e-10)
    second = np.einsum("nqab,nab->nq", hessian, m)
    assert_allclose(basis.second_order(states, m), second, atol=1e-10 * np.abs(hessian).max())


def test_a_constant_variable_keeps_its_unit():
    states = np.column_stack([np.full(10, 7.0), np.arange(10.0)])
    assert Standardized(Polynomial(1, dimension=2)).fit(states).scale[0] == 1.0


def test_given_units_are_kept_when_the_inner_basis_is_fitted():
    basis = Standardized(RBF(4), center=[0.0, 0.0], scale=[2.0, 3.0])
    assert not basis.fitted
    fitted = basis.fit(STATES, random_state=0)
    assert fitted.fitted
    assert fitted.scale.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"basis": "rbf"}, "`basis` must be a Basis; got str."),
        ({"basis": Polynomial(1), "center": [0.0]}, "`scale` must be given with `center`, or neither"),
        ({"basis": Polynomial(1), "center": [0.0], "scale": [0.0]}, "`scale` must be 1 positive numbers"),
        ({"basis": Polynomial(1), "center": [0.0], "scale": [1.0, 1.0]}, "`scale` must be 1 positive"),
    ],
)
def test_wrong_parameters_get_a_sentence(options, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        Standardized(**options)


def test_tiles_stay_without_derivatives():
    tiles = Standardized(TileCoding(2, 3, low=[-2.0, -2.0], high=[2.0, 2.0])).fit(STATES)
    assert tiles.derivative_order == 0
    with pytest.raises(TypeError, match="Standardise a smooth basis"):
        tiles.gradient(STATES)
