"""Rows in groups, copied rows, rows away from the data, several levels, and wrong rows of an ensemble."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import replaystats as rs


def patients(rng, n_groups, largest=6):
    """Return rows of groups of unequal size that share an effect."""
    groups = np.repeat(np.arange(n_groups), rng.integers(1, largest + 1, size=n_groups))
    X = rng.normal(size=(n_groups, 2))[groups] + 0.1 * rng.normal(size=(len(groups), 2))
    effect = rng.normal(size=n_groups)[groups]
    return X, X[:, 0] + effect + 0.3 * rng.normal(size=len(groups)), groups


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(rs.ReplayKernelRidge(random_state=0), marks=pytest.mark.slow),
        rs.ReplayRegressor(
            DecisionTreeRegressor(min_samples_leaf=3),
            resampling=rs.Resampling(n_resamples=40),
            random_state=0,
        ),
    ],
    ids=["kernel", "trees"],
)
def test_intervals_cover_rows_of_new_groups(model):
    """60 groups of 1 to 6 rows, 90 % intervals, 6 data sets: .90 +- .02; by rows .75."""
    covered = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y, groups = patients(rng, 60)
        Z, z, _ = patients(rng, 200)
        low, high = model.fit(X, y, groups=groups).predict_interval(Z, 0.9)
        covered.append(np.mean((low <= z) & (z <= high)))
    assert 0.84 < np.mean(covered) < 0.97


def test_members_hold_whole_groups(rng):
    X, y, groups = patients(rng, 20)
    model = rs.ReplayRegressor(
        Ridge(), resampling=rs.Resampling(n_resamples=30), oob_score=True, random_state=0
    )
    model.fit(X, y, groups=groups)
    assert model.plan_.n_observations == 20
    left = model._calibration().left_out
    absent = np.unpackbits(left.bits, axis=1, count=model.plan_.n_resamples).astype(bool)
    for group in range(20):
        assert (absent[groups == group] == absent[groups == group][0]).all()
    assert np.isfinite(model.oob_score_)
    assert model.extend(5).plan_.n_resamples == 35


def test_the_jackknife_leaves_groups_out_together(rng):
    X, y, groups = patients(rng, 30)
    options = {"alpha": 1.0, "gamma": 0.5, "method": "local", "random_state": 0}
    by_row = rs.ReplayKernelRidge(**options).fit(X, y).predict(X[:20], return_std=True)[1]
    by_group = rs.ReplayKernelRidge(**options).fit(X, y, groups=groups).predict(X[:20], return_std=True)[1]
    assert by_group.mean() > 1.2 * by_row.mean()


def test_groups_are_refused_in_a_sentence(rng):
    X, y, groups = patients(rng, 10)
    with pytest.raises(ValueError, match="`groups` must be one label for each"):
        rs.ReplayKernelRidge().fit(X, y, groups=groups[1:])
    with pytest.raises(ValueError, match="`groups` must be labels of at least two groups"):
        rs.ReplayKernelRidge().fit(X, y, groups=np.zeros(len(y)))
    with pytest.raises(ValueError, match='`method` must be "auto", "features" or "local" with groups'):
        rs.ReplayKernelRidge(1.0, gamma=1.0, method="subsets").fit(X, y, groups=groups)


def test_copied_rows_count_once(rng):
    X = rng.uniform(-1, 1, size=(50, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=50)
    with pytest.warns(rs.ReplayWarning, match="200 of 250 rows are copies"):
        model = rs.ReplayKernelRidge(random_state=0, oob_score=True).fit(X.repeat(5, 0), y.repeat(5))
    plain = rs.ReplayKernelRidge(random_state=0).fit(X, y)
    assert model.X_fit_.shape == (50, 2)
    assert model.oob_prediction_.shape == (250,)
    np.testing.assert_allclose(model.predict(X), plain.predict(X))


def test_rows_away_from_the_data_are_wider_and_flagged(rng):
    X = rng.normal(size=(200, 2))
    model = rs.ReplayKernelRidge(random_state=0).fit(X, np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=200))
    asked = np.array([[0.0, 0.0], [9.0, 0.0]])
    low, high = model.predict_interval(asked)
    assert (high - low)[1] > 2 * (high - low)[0]
    assert model.outside(asked).tolist() == [False, True]
    assert model.outside(rng.normal(size=(500, 2))).mean() < 0.05


def test_unknown_categories_are_flagged(rng):
    frame = pd.DataFrame({"x": rng.normal(size=40), "kind": rng.choice(["a", "b"], size=40)})
    frame["kind"] = frame["kind"].astype("category").cat.codes.map({0: "a", 1: "b"})
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["kind"]), remainder="passthrough"
    )
    model = rs.ReplayRegressor(
        make_pipeline(encode, Ridge()), resampling=rs.Resampling(n_resamples=20), random_state=0
    )
    model.fit(frame, frame["x"].to_numpy())
    asked = pd.DataFrame({"x": [0.0, 0.0, 50.0], "kind": ["a", "c", "b"]})
    assert model.outside(asked).tolist() == [False, True, True]


def test_several_levels_are_a_frame_with_the_index(rng):
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"], index=np.arange(100, 160))
    model = rs.ReplayKernelRidge(0.1, gamma=1.0, random_state=0).fit(frame, frame["a"].to_numpy())
    found = model.predict_interval(frame.iloc[:4], [0.5, 0.9])
    assert found.index.tolist() == [100, 101, 102, 103]
    assert found.columns.tolist() == [(0.5, "low"), (0.5, "high"), (0.9, "low"), (0.9, "high")]
    np.testing.assert_array_equal(found[0.9, "high"], model.predict_interval(frame.iloc[:4], 0.9).high)


def test_intervals_within_groups_by_the_name_of_a_column(rng):
    frame = pd.DataFrame({"a": rng.normal(size=80), "kind": rng.integers(2, size=80)})
    y = frame["a"] + (0.1 + frame["kind"]) * rng.normal(size=80)
    model = rs.ReplayKernelRidge(random_state=0).fit(frame, y)
    low, high = model.predict_interval(frame, 0.8, groups="kind")
    width = high - low
    assert width[frame["kind"] == 1].mean() > 2 * width[frame["kind"] == 0].mean()


def test_an_ensemble_is_given_its_own_rows(rng):
    X = rng.normal(size=(80, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=80)
    forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    for rows in (np.arange(80)[::-1], rng.permutation(80)):
        with pytest.raises(ValueError, match="must be the rows that `fitted` was fitted on"):
            rs.from_bagging(forest, X[rows], y[rows])
    with pytest.raises(ValueError, match="must be the rows that `fitted` was fitted on"):
        rs.from_bagging(forest, X, y[::-1])
    with pytest.raises(ValueError, match="must be the 80 rows that `fitted` was fitted on"):
        rs.from_bagging(forest, X[:-1], y[:-1])
    with pytest.raises(TypeError, match="`fitted` must be a regressor; got the classifier"):
        rs.from_bagging(RandomForestClassifier(3).fit(X, y > 0), X, y)


def test_an_ensemble_with_groups_uses_models_without_them(rng):
    X, y, groups = patients(rng, 40, 3)
    bagging = BaggingRegressor(n_estimators=60, max_samples=0.3, bootstrap=False, random_state=0).fit(X, y)
    plain, grouped = rs.from_bagging(bagging, X, y), rs.from_bagging(bagging, X, y, groups=groups)
    by_row, by_group = (np.nanmean(np.abs(model._calibration().residuals)) for model in (plain, grouped))
    assert by_group > by_row
