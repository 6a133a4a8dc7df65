"""Data in parts give what the data give at once."""

import numpy as np
import pytest

import replaystats as rs


def same(model, whole):
    np.testing.assert_allclose(model.estimate_.theta, whole.estimate_.theta, rtol=1e-9)
    np.testing.assert_allclose(model.plug_in_.theta, whole.plug_in_.theta, rtol=1e-9)
    assert model.moments_.n_observations == whole.moments_.n_observations


@pytest.mark.parametrize("n_functions", [4, 20], ids=["written out", "factored"])
def test_lstd_and_phibe(n_functions):
    data = rs.simulate.ornstein_uhlenbeck(400, start="uniform", random_state=0)
    parts = [data.select(np.arange(start, start + 100)) for start in range(0, 400, 100)]
    solver = rs.solvers.Ridge(1e-3)
    for make in (
        lambda: rs.LSTD(rs.basis.Fourier(n_functions), discount=0.9, solver=solver, random_state=0),
        lambda: rs.PhiBE(rs.basis.Fourier(n_functions), discount_rate=1.0, solver=solver, random_state=0),
    ):
        model = make()
        for part in parts:
            model.partial_fit(part)
        same(model, make().fit(data))


def test_moment_ratio():
    rng = np.random.default_rng(1)
    Z = rng.normal(3.0, 1.0, size=(200, 2))
    options = {"g": lambda Z: Z[:, 0], "f": lambda Z: Z[:, 1], "random_state": 0}
    model = rs.MomentRatio(**options).partial_fit(Z[:50]).partial_fit(Z[50:])
    same(model, rs.MomentRatio(**options).fit(Z))
    model.fit(Z[:50])  # fit forgets
    assert model.moments_.n_observations == 50


def test_a_basis_that_looks_at_the_data_stays_as_it_was():
    data = rs.simulate.ornstein_uhlenbeck(200, start="uniform", random_state=2)
    first, rest = data.select(np.arange(100)), data.select(np.arange(100, 200))
    model = rs.LSTD(rs.basis.Nystroem(5), discount=0.9, random_state=0).partial_fit(first)
    fitted = model.basis_
    model.partial_fit(rest)
    assert model.basis_ is fitted
    expected = rs.moments.lstd_moments(data, fitted, discount=0.9)
    np.testing.assert_allclose(model.moments_.rows, expected.rows, rtol=1e-12)
    assert model._observed().shape == data.states.shape


def test_parts_that_do_not_fit_together():
    def g(Z):
        return Z[:, :, None] * Z[:, None, :]

    model = rs.MomentRatio(g=g, f=lambda Z: Z, random_state=0).partial_fit(
        np.random.default_rng(3).normal(size=(30, 2))
    )
    with pytest.raises(
        ValueError, match="`moments` must be like those before, with n_basis=2; got n_basis=3"
    ):
        model.partial_fit(np.random.default_rng(4).normal(size=(30, 3)))
