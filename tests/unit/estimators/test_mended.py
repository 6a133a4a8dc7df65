"""Defects of 0.1, each with a test that failed then; tests/contract has what holds for all estimators."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, RegressorMixin

import replaystats as rs
from replaystats.kernel.fits import fit_subsets
from replaystats.kernel.kernels import make_kernel
from replaystats.kernel.problem import KernelProblem

BASIS = rs.basis.Polynomial(1)


@pytest.fixture(scope="module")
def data():
    return rs.simulate.ornstein_uhlenbeck(60, start="uniform", random_state=0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("combine", "median"),
        ("resampling__statistic", "V"),
        ("resampling__size", 0.3),
        ("resampling__on_failure", "drop"),
    ],
)
def test_the_recommended_method_refuses_what_it_would_ignore(data, name, value):
    model = rs.LSTD(BASIS, solver="recommended").set_params(**{name: value})
    name = name.removeprefix("resampling__")
    with pytest.raises(ValueError, match=f'`{name}` must be left at its default with solver="recommended"'):
        model.fit(data)


def test_recommendation_is_forgotten_by_partial_fit(data):
    model = rs.LSTD(BASIS, discount=0.9, solver="recommended", random_state=0).fit(data)
    assert hasattr(model, "recommendation_")
    model.set_params(solver=None).partial_fit(data)
    assert not hasattr(model, "recommendation_")


def test_lstdq_with_continuous_actions_sees_what_lies_outside(rng):
    states, actions = rng.normal(size=(80, 3)), rng.normal(size=(80, 2, 1))
    log = rs.Trajectories(states, rewards=states[:, :-1], actions=actions)
    model = rs.LSTDQ(
        rs.basis.Polynomial(1, 2),
        lambda s: 0.5 * s,
        discount=0.5,
        resampling=rs.Resampling(n_resamples=20),
        random_state=0,
    )
    found = model.fit(log).diagnose([[0.0], [0.3]])
    assert found.outside_share == 0.0
    assert model.diagnose([[0.0], [0.3]], actions=[[50.0], [60.0]]).outside_share == 1.0


class Picky(RegressorMixin, BaseEstimator):
    """Refuses rows whose mean is high."""

    def __init__(self, highest=0.55):
        self.highest = highest

    def fit(self, X, y):
        if X.mean() > self.highest:
            raise ValueError("too high")
        self.mean_ = y.mean()
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_a_regressor_that_fails_on_some_subsets(rng):
    X = rng.uniform(size=(40, 1))
    y = X[:, 0]
    options = {"resampling": rs.Resampling(size=8, n_resamples=60), "random_state": 0}
    with pytest.warns(rs.ReplayWarning, match="could not be fitted on .* of 60 subsets: too high"):
        model = rs.ReplayRegressor(Picky(), **options).set_params(resampling__on_failure="warn").fit(X, y)
    failed = model.estimate_.members.failed
    assert 0 < failed.sum() < 60
    means = y[model.plan_.indices()].mean(axis=1)
    assert_allclose(model.predict(X[:2]), means[~failed].mean())
    assert model.diagnose().reasons
    silent = rs.ReplayRegressor(Picky(), oob_score=True, **options)
    silent.set_params(resampling__on_failure="drop").fit(X, y)
    assert np.isfinite(silent.oob_score_)
    with pytest.raises(ValueError, match="too high"):
        rs.ReplayRegressor(Picky(), **options).fit(X, y)
    with pytest.raises(ValueError, match="too high"):
        rs.ReplayRegressor(Picky(-1.0), **options).set_params(resampling__on_failure="drop").fit(X, y)


@pytest.mark.parametrize("units", [None, "global", "subset"])
def test_kernel_fits_are_extended_as_if_fitted_at_once(rng, units):
    X = np.column_stack([rng.normal(size=30), rng.integers(2, size=30)])  # the second may be constant
    y = rng.normal(size=30)

    def fits(n_resamples):
        plan = rs.make_plan(30, subsample_size=5, n_resamples=n_resamples, random_state=0)
        return fit_subsets(KernelProblem.checked(X, y, 0.1, make_kernel(n_features=2), units, None), plan)

    few, many = fits(20).extend(25), fits(45)
    assert_allclose(few.values(X[:4]), many.values(X[:4]), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(few.indices, many.indices)
    assert few.n_redrawn == many.n_redrawn
    assert (few.n_redrawn > 0) == (units == "subset")


def test_further_trees_leave_the_first_ones_alone(rng):
    X = rng.uniform(size=(120, 2))
    y = np.sin(4 * X[:, 0])
    options = {
        "alpha": 0.1,
        "gamma": 2.0,
        "method": "local",
        "random_state": 0,
    }
    few, many = (
        rs.ReplayKernelRidge(resampling=rs.Resampling(size=30, n_resamples=trees), **options).fit(X, y)
        for trees in (3, 7)
    )
    assert_allclose(few.extend(4).predict(X[:5]), many.predict(X[:5]), rtol=1e-12)


def test_the_median_of_predictions_is_not_that_of_coefficients():
    """Three answers (1, 0), (0, 1), (1, 1): the median of their sums is 1, that of coefficients adds to 2."""
    theta = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    g, f = np.broadcast_to(np.eye(2), (3, 2, 2)), theta
    replicates = rs.replicate(rs.Moments(g, f), rs.plan_from_indices([[0], [1], [2]], 3))
    estimate = rs.average(replicates, "median")
    assert_allclose(estimate.theta, [1.0, 1.0])
    assert_allclose(estimate.predict([[1.0, 1.0]]), [1.0])
    assert_allclose(estimate.predict(np.eye(2)), estimate.theta)


def test_more_functions_than_steps_are_refused_where_they_take_minutes():
    rng = np.random.default_rng(0)
    wide = rs.Trajectories(rng.normal(size=(12, 6, 2000)), rng.normal(size=(12, 5)))
    with pytest.raises(ValueError, match="`basis` must be of at most one function a step"):
        rs.LSTD(BASIS, discount=0.9).fit(wide)
