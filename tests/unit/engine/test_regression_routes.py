"""Least squares, ridge and random features by the moment engine, against statsmodels and scikit-learn."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge as SklearnRidge

import replaystats as rs


def test_least_squares_equals_statsmodels(rng):
    X, y = sm.add_constant(rng.normal(size=(80, 3))), rng.normal(size=80)
    moments = rs.moments.ridge_moments(X, y)
    np.testing.assert_allclose(rs.plug_in(moments).theta, sm.OLS(y, X).fit().params, rtol=1e-9)
    plan = rs.make_plan(80, subsample_size=30, n_resamples=20, random_state=0)
    expected = [sm.OLS(y[idx], X[idx]).fit().params for idx in plan.indices()]
    np.testing.assert_allclose(rs.replicate(moments, plan).theta, expected, rtol=1e-8)


def test_weighted_least_squares_equals_statsmodels(rng):
    X, y, weight = sm.add_constant(rng.normal(size=(50, 2))), rng.normal(size=50), rng.random(50)
    theta = rs.plug_in(rs.moments.ridge_moments(X, y, sample_weight=weight)).theta
    np.testing.assert_allclose(theta, sm.WLS(y, X, weights=weight).fit().params, rtol=1e-9)


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_ridge_equals_scikit_learn_on_every_subset(rng, n_outputs):
    X = rng.normal(size=(60, 4))
    y = rng.normal(size=60 if n_outputs is None else (60, n_outputs))
    plan = rs.make_plan(60, statistic="V", subsample_size=25, n_resamples=10, random_state=1)
    theta = rs.replicate(rs.moments.ridge_moments(X, y), plan, solver=rs.solvers.Ridge(0.3)).theta
    for idx, got in zip(plan.indices(), theta, strict=True):
        expected = SklearnRidge(alpha=0.3, fit_intercept=False).fit(X[idx], y[idx]).coef_.T
        np.testing.assert_allclose(got, expected, rtol=1e-8)


def test_random_features_converge_to_exact_kernel_ridge():
    """RMS distance to exact kernel ridge falls about as q^-1/2: by 4 from q = 50 to 800, allowed 2.5 to 7."""
    X, y = rs.simulate.two_bumps(120, random_state=0)
    points = rs.simulate.two_bumps(200, random_state=1)[0]
    exact = KernelRidge(alpha=0.5, kernel="rbf", gamma=3.0).fit(X, y).predict(points)

    def distance(n_components, seed):
        basis = rs.basis.RandomFourier(n_components, gamma=3.0).fit(X, random_state=seed)
        theta = rs.plug_in(rs.moments.ridge_moments(X, y, basis), rs.solvers.Ridge(0.5)).theta
        return ((basis(points) @ theta - exact) ** 2).mean()

    few, many = (np.sqrt(np.mean([distance(q, seed) for seed in range(6)])) for q in (50, 800))
    assert 2.5 < few / many < 7
    assert many < 0.05 * np.abs(exact).max()


def test_nystroem_with_every_point_is_exact_kernel_ridge():
    X, y = rs.simulate.two_bumps(60, random_state=0)
    basis = rs.basis.Nystroem(60, gamma=3.0).fit(X, random_state=0)
    theta = rs.plug_in(rs.moments.ridge_moments(X, y, basis), rs.solvers.Ridge(0.1)).theta
    exact = KernelRidge(alpha=0.1, kernel="rbf", gamma=3.0).fit(X, y).predict(X)
    np.testing.assert_allclose(basis(X) @ theta, exact, atol=1e-6)


def test_instrumental_variables_equal_the_closed_form(rng):
    """Just-identified IV is (Z'X)^-1 Z'y."""
    Z = rng.normal(size=(40, 2))
    X = Z @ rng.normal(size=(2, 2)) + rng.normal(size=(40, 2))
    y = rng.normal(size=40)
    model = rs.MomentRatio(
        g=lambda data: data[:, :2, None] * data[:, None, 2:4],
        f=lambda data: data[:, :2] * data[:, 4:],
        combine="mean",
        resampling=rs.Resampling(size=40, n_resamples=5),
        random_state=0,
    ).fit(np.column_stack([Z, X, y]))
    np.testing.assert_allclose(model.plug_in_.theta, np.linalg.solve(Z.T @ X, Z.T @ y), rtol=1e-9)
    np.testing.assert_allclose(model.estimate_.theta, model.plug_in_.theta, rtol=1e-9)
