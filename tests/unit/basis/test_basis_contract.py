"""What every basis promises, whichever it is: fit, checks of states, value semantics."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from replaystats.basis import (
    RBF,
    Basis,
    Fourier,
    Nystroem,
    OneHot,
    Polynomial,
    RandomFourier,
    TileCoding,
)

STATES = np.random.default_rng(0).uniform(0, 2, size=(30, 2))
READY = [
    Fourier(2, dimension=2),
    Polynomial(3, dimension=2, family="hermite"),
    RBF(STATES[:4]),
    Nystroem(4, landmarks=STATES[:4]),
    RandomFourier(4, frequencies=STATES[:2]),
    TileCoding(3, 2, low=[0.0, 0.0], high=[2.0, 2.0]),
]
UNFITTED = [RBF(5), RBF(5, bandwidth=1.0), RandomFourier(6, gamma=1.0), Nystroem(5)]
every = pytest.mark.parametrize("basis", [*READY, OneHot(3), *UNFITTED], ids=repr)
ready = pytest.mark.parametrize("basis", READY, ids=repr)
unfitted = pytest.mark.parametrize("basis", UNFITTED, ids=repr)


@ready
def test_fit_of_a_ready_basis_is_itself(basis):
    assert basis.fitted
    assert basis.fit(STATES) is basis


@unfitted
def test_fit_returns_a_new_fitted_basis(basis):
    fitted = basis.fit(STATES, random_state=0)
    assert not basis.fitted
    assert basis.dimension is None
    assert fitted.fitted
    assert fitted.dimension == 2
    assert fitted.n_basis == basis.n_basis
    assert fitted(STATES).shape == (30, basis.n_basis)
    assert fitted.fit(STATES[:3]) is fitted


@unfitted
def test_unfitted_basis_says_what_to_do(basis):
    with pytest.raises(NotFittedError, match=r"`basis` must be fitted .* Call `basis.fit\(states\)`"):
        basis(STATES)
    with pytest.raises(NotFittedError):
        basis.directional(STATES, STATES)
    with pytest.raises(ValueError, match=r"`states` must be non-empty; got shape \(0, 2\)"):
        basis.fit(np.empty((0, 2)))


@every
def test_copies_are_equal_and_evaluate_alike(basis):
    for same_basis in (copy.deepcopy(basis), pickle.loads(pickle.dumps(basis)), dataclasses.replace(basis)):
        assert same_basis == basis
        assert hash(same_basis) == hash(basis)
        if basis.dimension == 2:
            assert_array_equal(same_basis(STATES), basis(STATES))


def test_different_bases_are_unequal():
    bases = [*READY, OneHot(3), *UNFITTED, Fourier(3, dimension=2), RBF(STATES[1:5]), "Fourier"]
    for i, basis in enumerate(bases):
        assert [j for j, other in enumerate(bases) if basis == other] == [i]


@every
def test_frozen(basis):
    name = dataclasses.fields(basis)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(basis, name, 7)


def test_arrays_inside_cannot_be_changed_from_outside():
    centers = np.array([0.0, 1.0])
    basis = RBF(centers)
    centers[0] = 5.0
    assert basis.centers[0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        basis.centers[0, 0] = 5.0


def test_repr_is_short():
    assert repr(Fourier(4)) == "Fourier(order=4)"
    assert repr(RBF(STATES[:4], bandwidth=0.5)) == "RBF(centers=array(4, 2), bandwidth=0.5)"


class Model(BaseEstimator):
    def __init__(self, basis=None):
        self.basis = basis


@every
def test_parameter_of_a_scikit_learn_estimator(basis):
    assert clone(Model(basis)).get_params()["basis"] == basis
    assert repr(basis) in repr(Model(basis))


@ready
@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        (np.ones((4, 3)), r"`states` must be of shape \(N, 2\); got shape \(4, 3\)\. That is the state dim"),
        (np.ones(4), r"`states` must be of shape \(N, 2\); got shape \(4,\)\."),
        (np.ones((4, 0)), r"`states` must be of shape \(N, d\) with d >= 1; got shape \(4, 0\)\."),
        (np.ones((4, 3, 2)), r"`states` must be a 1-D or 2-D array; got shape \(4, 3, 2\)\."),
        (
            [[0.0, np.nan]],
            r"`states` must be finite; got 1 NaN or infinite value\(s\), the first at index \(0, 1\)",
        ),
        ([[0.0, np.inf]], r"`states` must be finite; got 1 NaN or infinite"),
        ([["a", "b"]], r"`states` must be a numeric 1-D or 2-D array; got text \(dtype <U1\)\."),
    ],
)
def test_bad_states(basis, states, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        basis(states)
    with pytest.raises((TypeError, ValueError), match=sentence):
        basis.fit(states)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda b: b.directional(STATES, STATES[:5]),
            r"`direction` must be of shape \(30, 2\) to match `states`; got shape \(5, 2\)\.",
        ),
        (lambda b: b.directional(STATES, STATES[:, 0]), r"`direction` must be of shape \(30, 2\)"),
        (lambda b: b.directional(STATES, np.nan * STATES), r"`direction` must be finite"),
        (
            lambda b: b.second_order(STATES, np.eye(2)),
            r"`matrix` must be a 1-D or 3-D array; got shape \(2, 2\)\.",
        ),
        (
            lambda b: b.second_order(STATES, np.ones((30, 2, 3))),
            r"`matrix` must be of shape \(30, 2, 2\) to match `states`; got shape \(30, 2, 3\)\.",
        ),
    ],
)
def test_bad_directions_and_matrices(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(Fourier(2, dimension=2))


class Ramp(Basis):
    """A user's subclass that is no dataclass: the smallest thing that works."""

    def __init__(self, slope):
        self.slope = slope

    n_basis = 1
    dimension = 1
    derivative_order = 0

    def _value(self, x):
        return self.slope * np.maximum(x, 0.0)


def test_a_plain_subclass_is_compared_by_identity():
    first, second = Ramp(2.0), Ramp(2.0)
    assert_array_equal(first([-1.0, 1.0]), [[0.0], [2.0]])
    assert first == first
    assert first != second
    assert len({first, second}) == 2
    assert repr(first) == "Ramp()"
    with pytest.raises(TypeError, match=r"Use a smooth basis such as Fourier"):
        first.gradient([1.0])
