"""Fitted ensembles of scikit-learn: the same predictions, and intervals against the slow reference."""

from __future__ import annotations

import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor, ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

import replaystats as rs
from oracles.new_observation import jackknife_plus_after_bootstrap

ENSEMBLES = [
    BaggingRegressor(LinearRegression(), 40, random_state=0),
    BaggingRegressor(LinearRegression(), 40, max_features=0.7, max_samples=0.5, random_state=0),
    BaggingRegressor(KNeighborsRegressor(3), 40, max_samples=0.5, bootstrap=False, random_state=0),
    RandomForestRegressor(40, min_samples_leaf=3, random_state=0),
    ExtraTreesRegressor(40, min_samples_leaf=3, bootstrap=True, max_samples=0.6, random_state=0),
]


@pytest.fixture
def data(rng):
    X = rng.uniform(size=(60, 4))
    return X, X[:, 0] + 0.2 * rng.normal(size=60), rng.uniform(size=(7, 4))


@pytest.mark.parametrize("ensemble", ENSEMBLES, ids=lambda e: type(e).__name__)
def test_predictions_are_those_of_the_ensemble_and_intervals_those_of_the_reference(data, ensemble):
    X, y, X_new = data
    ensemble.fit(X, y)
    model = rs.from_bagging(ensemble, X, y)
    assert_allclose(model.predict(X_new), ensemble.predict(X_new), rtol=1e-10)
    low, high = model.predict_interval(X_new, 0.8)
    expected = jackknife_plus_after_bootstrap(
        model.predict_members(X), model.predict_members(X_new), ensemble.estimators_samples_, y, 0.8
    )
    assert_allclose((low, high), expected, rtol=1e-9)
    assert (model.predict(X_new, return_std=True)[1] > 0).all()


@pytest.mark.parametrize("ensemble", ENSEMBLES, ids=lambda e: type(e).__name__)
def test_data_frames_are_read_as_the_ensemble_reads_them(data, ensemble):
    X, y, new = data
    frame, asked = (pd.DataFrame(rows, columns=list("abcd")) for rows in (X, new))
    model, plain = (rs.from_bagging(clone(ensemble).fit(rows, y), rows, y) for rows in (frame, X))
    assert_allclose(model.predict(asked), plain.predict(new))
    assert_allclose(model.predict_interval(asked), plain.predict_interval(new))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(asked[list("bacd")])


def test_out_of_bag_score_is_that_of_scikit_learn(data):
    X, y, _ = data
    forest = RandomForestRegressor(80, min_samples_leaf=3, oob_score=True, random_state=0).fit(X, y)
    assert_allclose(rs.from_bagging(forest, X, y).oob_curve().score[-1], forest.oob_score_, rtol=1e-8)


def test_what_cannot_be_used(data):
    X, y, _ = data
    with pytest.raises(TypeError, match="`fitted` must be a fitted BaggingRegressor"):
        rs.from_bagging(LinearRegression().fit(X, y), X, y)
    whole = ExtraTreesRegressor(5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="`fitted` must be one whose models leave rows out"):
        rs.from_bagging(whole, X, y)
    forest = RandomForestRegressor(5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="`X` must be of the 4 columns of `fitted`; got 3"):
        rs.from_bagging(forest, X[:, :3], y)
    with pytest.raises(ValueError, match="`y` must be as long as `X`"):
        rs.from_bagging(forest, X, y[:-1])
    with pytest.raises(ValueError, match="the 60 rows that `fitted` was fitted on; got 20 rows"):
        rs.from_bagging(forest, X[:20], y[:20])


def test_columns_in_another_order_are_refused(data):
    """They were taken as they stood: out-of-bag predictions of a table with its columns exchanged."""
    X, y, _ = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    forest = RandomForestRegressor(20, random_state=0).fit(frame, y)
    rs.from_bagging(forest, frame, y)
    with pytest.raises(ValueError, match=r"`X` must be a frame of the columns .*, in this order"):
        rs.from_bagging(forest, frame[["b", "a", "c", "d"]], y)
