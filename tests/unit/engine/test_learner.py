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
from sklearn.tree import ExtraTreeRegressor

from replaystats import make_plan, plan_from_indices
from replaystats.engine.learner import replicate_learner


@pytest.fixture
def data(rng):
    X = rng.normal(size=(30, 3))
    return X, X @ [1.0, 2.0, 3.0] + rng.normal(size=30)


def test_members_are_fits_on_the_rows_of_their_subset(data):
    X, y = data
    plan = make_plan(30, statistic="V", subsample_size=12, n_resamples=6, rng=0)
    replicates = replicate_learner(KernelRidge(), X, y, plan, seed=0)
    expected = [KernelRidge().fit(X[rows], y[rows]).predict(X) for rows in plan.indices()]
    assert_allclose(replicates.values(X)[:, :, 0], expected, rtol=1e-12)
    assert all(model.X_fit_.shape == (12, 3) for model in replicates.models)  # not n rows with zero weights


def test_several_outputs(data):
    X, y = data
    plan = make_plan(30, subsample_size=12, n_resamples=4, rng=0)
    replicates = replicate_learner(LinearRegression(), X, np.column_stack([y, -y]), plan, seed=0)
    members = replicates.values(X)
    assert members.shape == (4, 30, 2)
    assert_allclose(members[..., 0], -members[..., 1], rtol=1e-9)


def test_random_members_depend_on_seed_and_subset_alone(data):
    X, y = data
    model = make_pipeline(StandardScaler(), ExtraTreeRegressor(max_features=1))
    plan = make_plan(30, subsample_size=20, n_resamples=5, rng=0)

    def members(plan, seed):
        return replicate_learner(model, X, y, plan, seed=seed).values(X)

    first = members(plan, 7)
    with parallel_config("threading", n_jobs=2):
        assert_array_equal(members(plan, 7), first)
    assert_array_equal(members(plan.extend(3), 7)[:5], first)
    assert (members(plan, 8) != first).any()
    same_rows = plan_from_indices(np.repeat(plan.indices(0, 1), 2, axis=0), 30)
    twins = members(same_rows, 7)
    assert (twins[0] != twins[1]).any()  # the same rows, but a stream of its own each


def test_fit_parameters_with_one_entry_per_row_are_cut(data):
    X, y = data
    weight = np.linspace(0.1, 2.0, 30)
    plan = make_plan(30, subsample_size=12, n_resamples=3, rng=0)
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
        replicate_learner(LinearRegression(), X, y, make_plan(31, n_resamples=2, rng=0), seed=0)
