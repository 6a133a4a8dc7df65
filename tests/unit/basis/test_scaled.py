"""Scaled bases: functions of one size, the same predictions, the same derivatives up to their units."""

import numpy as np
import pytest

import replaystats as rs
from replaystats.basis import RBF, Fourier, OneHot, Polynomial, Scaled

STATES = np.random.default_rng(0).normal(scale=7.0, size=(50, 2))


def test_every_function_has_root_mean_square_one():
    fitted = Scaled(Polynomial(3, dimension=2)).fit(STATES)
    assert fitted.fitted
    np.testing.assert_allclose((fitted(STATES) ** 2).mean(axis=0), 1.0)


def test_derivatives_are_those_of_the_scaled_functions():
    inner = Polynomial(3, dimension=2)
    fitted = Scaled(inner).fit(STATES)
    step = 1e-5
    for axis in range(2):
        shift = step * np.eye(2)[axis]
        slope = (fitted(STATES + shift) - fitted(STATES - shift)) / (2 * step)
        np.testing.assert_allclose(fitted.gradient(STATES)[:, :, axis], slope, atol=1e-6)
    divisor = np.asarray(fitted.scales)
    np.testing.assert_allclose(fitted.hessian(STATES), inner.hessian(STATES) / divisor[:, None, None])
    direction, matrix = np.ones((50, 2)), np.broadcast_to(np.eye(2), (50, 2, 2))
    np.testing.assert_allclose(fitted.directional(STATES, direction), fitted.gradient(STATES).sum(axis=2))
    np.testing.assert_allclose(
        fitted.second_order(STATES, matrix), np.einsum("nqaa->nq", fitted.hessian(STATES))
    )


def test_an_inner_basis_that_needs_data_is_fitted_first_and_functions_without_data_stay():
    fitted = Scaled(RBF(5)).fit(STATES[:, :1], random_state=0)
    assert fitted.fitted
    assert fitted.fit(STATES[:, :1]) is fitted
    unvisited = Scaled(OneHot(3)).fit([0, 1, 1])
    np.testing.assert_allclose(unvisited.scales, [np.sqrt(1 / 3), np.sqrt(2 / 3), 1.0])


@pytest.mark.parametrize("model", ["LSTD", "PhiBE"])
def test_plain_solves_predict_the_same_and_penalties_do_not(model):
    data = rs.simulate.ornstein_uhlenbeck(300, start="uniform", random_state=0)
    grid = np.linspace(-2, 2, 7)

    def predictions(solver, basis):
        make = getattr(rs, model)
        fit = make(basis, solver=solver, resampling=rs.Resampling(n_resamples=20), random_state=0)
        return fit.fit(data).predict(grid)

    plain = [predictions(rs.solvers.LU(), basis) for basis in (Polynomial(3), Scaled(Polynomial(3)))]
    np.testing.assert_allclose(*plain, atol=1e-8)
    ridge = [predictions(rs.solvers.Ridge(5.0), basis) for basis in (Polynomial(3), Scaled(Polynomial(3)))]
    assert np.abs(ridge[0] - ridge[1]).max() > 1e-3


def test_a_scaled_penalty_does_not_depend_on_the_units_of_the_state():
    data = rs.simulate.ornstein_uhlenbeck(300, start="uniform", random_state=0)
    stretched = rs.Trajectories(1000 * data.states.reshape(300, 3, 1), data.rewards.reshape(300, 2))
    model = rs.LSTD(
        Scaled(Polynomial(3)),
        solver=rs.solvers.Ridge(5.0),
        resampling=rs.Resampling(n_resamples=20),
        random_state=0,
    )
    here = model.fit(data).predict([[0.5]])
    np.testing.assert_allclose(model.fit(stretched).predict([[500.0]]), here, rtol=1e-9)


def test_bad_input_has_its_sentence():
    with pytest.raises(TypeError, match="`basis` must be a Basis; got int"):
        Scaled(3)
    with pytest.raises(ValueError, match="`scales` must be 3 positive numbers"):
        Scaled(Fourier(1), [1.0, 2.0])
    with pytest.raises(TypeError, match="`basis` must be differentiable"):
        Scaled(OneHot(2)).fit([0, 1]).gradient([0])


@pytest.mark.parametrize("wrap", [lambda b: b, Scaled, rs.basis.Standardized, rs.basis.Centered])
@pytest.mark.parametrize("inner", [Polynomial(2), rs.basis.Fourier(1, kind="total")])
def test_fit_takes_the_dimension_of_the_data(wrap, inner, rng):
    states = rng.normal(size=(30, 3))
    fitted, declared = wrap(inner).fit(states), wrap(type(inner)(2, 3)).fit(states)
    if isinstance(inner, Polynomial):
        np.testing.assert_array_equal(fitted(states), declared(states))
    assert fitted.dimension == 3
    with pytest.raises(ValueError, match=r"`states` must be of shape \(N, 3\)"):
        fitted(states[:, :2])
