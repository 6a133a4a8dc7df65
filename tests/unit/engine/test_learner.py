"""Any regressor on every subset: by index, seeded per subset, whatever the workers."""

from __future__ import annotations

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from replaystats import make_plan, plan_from_indices
from replaystats.engine.learner import replicate_learner


@pytest.fixture
def data(rng):
    X = rng.normal(size=(30, 3))
    return X, X @ [1.0, 2.0, 3.0] + rng.normal(size=30)


def test_members_are_fits_on_the_rows_of_their_subset(data):
    X, y = data
    plan = make_plan(30, statistic="V", subsample_size=12, n_resamples=6, random_state=0)
    replicates = replicate_learner(KernelRidge(), X, y, plan, seed=0)
    expected = [KernelRidge().fit(X[rows], y[rows]).predict(X) for rows in plan.indices()]
    assert_allclose(replicates.values(X)[:, :, 0], expected, rtol=1e-12)
    assert all(model.X_fit_.shape == (12, 3) for model in replicates.models)  # not n rows with zero weights


def test_several_outputs(data):
    X, y = data
    plan = make_plan(30, subsample_size=12, n_resamples=4, random_state=0)
    replicates = replicate_learner(LinearRegression(), X, np.column_stack([y, -y]), plan, seed=0)
    members = replicates.values(X)
    assert members.shape == (4, 30, 2)
    assert_allclose(members[..., 0], -members[..., 1], rtol=1e-9)


def test_random_members_depend_on_seed_and_subset_alone(data):
    X, y = data
    model = make_pipeline(StandardScaler(), ExtraTreeRegressor(max_features=1))
    plan = make_plan(30, subsample_size=20, n_resamples=5, random_state=0)

    def members(plan, seed):
        return replicate_learner(model, X, y, plan, seed=seed).values(X)

    first = members(plan, 7)
    with parallel_config("threading", n_jobs=2):
        assert_array_equal(members(plan, 7), first)
    assert_array_equal(members(plan.extend(3), 7)[:5], first)
    assert (members(plan, 8) != first).any()
    same_rows = plan_from_indices(np.repeat(plan.indices(0, 1), 2, axis=0), 30)
    pair = members(same_rows, 7)
    assert (pair[0] != pair[1]).any()  # the same rows, but a stream of its own each


def test_fit_parameters_with_one_entry_per_row_are_cut(data):
    X, y = data
    weight = np.linspace(0.1, 2.0, 30)
    plan = make_plan(30, subsample_size=12, n_resamples=3, random_state=0)
    for given in (weight, list(weight)):
        replicates = replicate_learner(
            LinearRegression(), X, y, plan, seed=0, fit_params={"sample_weight": given}
        )
        for model, rows in zip(replicates.models, plan.indices(), strict=True):
            expected = LinearRegression().fit(X[rows], y[rows], sample_weight=weight[rows])
            assert_allclose(model.coef_, expected.coef_, rtol=1e-9)


def test_plan_for_other_data_is_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="`plan` must be made for the 30 rows of `X`; got n_observations=31"):
        replicate_learner(LinearRegression(), X, y, make_plan(31, n_resamples=2, random_state=0), seed=0)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_trees_that_skip_checks_predict_what_they_would_alone(rng, n_outputs):
    X = rng.normal(size=(60, 3))
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    y = rng.normal(size=(60, n_outputs)) if n_outputs > 1 else rng.normal(size=60)
    plan = make_plan(60, subsample_size=30, n_resamples=6, random_state=0)
    members = replicate_learner(DecisionTreeRegressor(), X, y, plan, seed=0)
    # thresholds are midpoints of rows, so rows and midpoints decide between neighbouring floats
    asked = np.concatenate([X, (X[1:] + X[:-1]) / 2])[::-1]
    alone = [model.predict(asked).reshape(len(asked), -1) for model in members.models]
    assert_array_equal(members.values(asked), np.stack(alone))


def test_trees_still_refuse_what_they_cannot_read(data):
    X, y = data
    plan = make_plan(len(y), subsample_size=10, n_resamples=3, random_state=0)
    members = replicate_learner(DecisionTreeRegressor(), X, y, plan, seed=0)
    with pytest.raises(ValueError, match=r"infinity|too large"):
        members.values(np.full((2, X.shape[1]), np.inf))
    with pytest.raises(ValueError, match="features"):
        members.values(X[:, :1])
