"""ReplayRegressor: any regressor, the same face as kernel ridge."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import replaystats as rs


@parametrize_with_checks([rs.ReplayRegressor(Ridge(), resampling=rs.Resampling(n_resamples=10))])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        rs.ReplayRegressor(
            DecisionTreeRegressor(max_depth=3), resampling=rs.Resampling("V", n_resamples=25), oob_score=True
        ),
    ]
)
def test_scikit_learn_checks_of_other_settings(estimator, check):
    check(estimator)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 3))
    return X, X @ [1.0, -1.0, 0.5] + 0.2 * rng.normal(size=60)


def test_kernel_ridge_is_the_same_by_either_door(data):
    X, y = data
    plan = rs.make_plan(60, statistic="V", subsample_size=25, n_resamples=40, random_state=0)
    batched = rs.ReplayKernelRidge(0.3, gamma=0.2, standardize=None, oob_score=True).fit(X, y, plan=plan)
    one_by_one = rs.ReplayRegressor(
        KernelRidge(alpha=0.3, kernel="rbf", gamma=0.2), resampling=rs.Resampling("U"), oob_score=True
    )
    one_by_one.fit(X, y, plan=plan)
    for model in (batched, one_by_one):
        assert model.plan_ is plan
    assert_allclose(one_by_one.predict(X, return_std=True), batched.predict(X, return_std=True), rtol=1e-7)
    assert_allclose(one_by_one.oob_prediction_, batched.oob_prediction_, rtol=1e-8)
    assert_allclose(one_by_one.oob_curve().score, batched.oob_curve().score, rtol=1e-8)
    assert_allclose(one_by_one.plug_in_predict(X), batched.plug_in_predict(X), rtol=1e-8)


def test_standard_error_of_a_mean_is_the_textbook_one(rng):
    """The regressor that predicts the mean of y: the complete statistic has variance s^2 / n exactly."""
    X, y = np.ones((7, 1)), rng.normal(size=7)
    model = rs.ReplayRegressor(Ridge(alpha=0.0, fit_intercept=True), resampling=rs.Resampling("complete", 3))
    mean, error = model.fit(X, y).predict(X[:1], return_std=True)
    assert_allclose(mean, y.mean(), rtol=1e-12)
    assert_allclose(error, y.std(ddof=1) / np.sqrt(7), rtol=1e-10)


def test_leaving_one_out_gives_the_delete_one_jackknife(data):
    X, y = data[0][:12], data[1][:12]
    model = rs.ReplayRegressor(LinearRegression(), resampling=rs.Resampling("complete", 11)).fit(X, y)
    _, error = model.predict(X[:4], return_std=True)
    kept = [np.delete(np.arange(12), i) for i in range(12)]
    left_out = np.array([LinearRegression().fit(X[rows], y[rows]).predict(X[:4]) for rows in kept])
    assert_allclose(error**2, 11 / 12 * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0), rtol=1e-9)


def test_weights_reach_the_members_by_index(data):
    X, y = data
    weight = np.linspace(0.1, 3, 60)
    model = rs.ReplayRegressor(Ridge(), resampling=rs.Resampling(n_resamples=5), random_state=0).fit(
        X, y, sample_weight=weight
    )
    rows = model.plan_.indices()[2]
    expected = Ridge().fit(X[rows], y[rows], sample_weight=weight[rows])
    assert_allclose(model.replicates_.models[2].coef_, expected.coef_, rtol=1e-10)
    assert_allclose(model.plug_in_.coef_, Ridge().fit(X, y, sample_weight=weight).coef_, rtol=1e-10)


def test_data_frames_keep_their_columns(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    columns = make_column_transformer((StandardScaler(), ["c", "a"]))
    model = rs.ReplayRegressor(
        make_pipeline(columns, Ridge()),
        resampling=rs.Resampling(n_resamples=8),
        random_state=0,
        oob_score=True,
    )
    by_name = model.fit(frame, y)
    assert list(by_name.feature_names_in_) == ["a", "b", "c"]
    plain = rs.ReplayRegressor(
        make_pipeline(StandardScaler(), Ridge()), resampling=rs.Resampling(n_resamples=8), random_state=0
    )
    assert_allclose(by_name.predict(frame), plain.fit(X[:, [2, 0]], y).predict(X[:, [2, 0]]), rtol=1e-10)
    low, high = by_name.confidence_interval(frame)
    assert (low < high).all()
    with pytest.raises(ValueError, match="feature names should match"):
        by_name.predict(frame.rename(columns={"a": "z"}))


def test_sparse_input_and_missing_values_are_the_members_business(data):
    X, y = data
    dense = rs.ReplayRegressor(Ridge(), resampling=rs.Resampling(n_resamples=5), random_state=0).fit(X, y)
    thin = rs.ReplayRegressor(Ridge(), resampling=rs.Resampling(n_resamples=5), random_state=0).fit(
        sparse.csr_array(X), y
    )
    assert_allclose(thin.predict(sparse.csr_array(X)), dense.predict(X), rtol=1e-4)
    holes = X.copy()
    holes[::7, 0] = np.nan
    boosted = rs.ReplayRegressor(
        HistGradientBoostingRegressor(max_iter=2), resampling=rs.Resampling(n_resamples=3), random_state=0
    )
    assert np.isfinite(boosted.fit(holes, y).predict(holes)).all()
    with pytest.raises(ValueError, match="NaN"):
        dense.fit(holes, y)


def test_small_budget_gives_the_same(data):
    X, y = data
    model = rs.ReplayRegressor(Ridge(), resampling=rs.Resampling(n_resamples=300), random_state=0).fit(X, y)
    points = np.tile(X, (10, 1))
    expected = model.predict(points, return_std=True)
    with rs.config_context(memory_budget=2**20):
        assert_allclose(model.predict(points, return_std=True), expected, rtol=1e-8)


def test_grid_search_clone_and_pickle(data):
    X, y = data
    model = rs.ReplayRegressor(Ridge(), resampling=rs.Resampling(n_resamples=10), random_state=0)
    search = GridSearchCV(model, {"estimator__alpha": [0.1, 1e4]}, cv=3).fit(X, y)
    assert search.best_params_ == {"estimator__alpha": 0.1}
    best = search.best_estimator_
    assert_array_equal(pickle.loads(pickle.dumps(best)).predict(X), best.predict(X))
    assert_array_equal(clone(best).fit(X, y).predict(X), best.predict(X))


@pytest.mark.parametrize("estimator", [None, "ridge", LogisticRegression()])
def test_only_regressors_are_taken(data, estimator):
    with pytest.raises(TypeError, match="`estimator` must be a scikit-learn regressor"):
        rs.ReplayRegressor(estimator).fit(*data)


def test_auto_takes_small_subsets_for_a_line_and_large_ones_for_steps(rng):
    X = rng.uniform(size=(400, 1))
    line = rs.ReplayRegressor(
        LinearRegression(), resampling=rs.Resampling(size="auto", n_resamples=20), random_state=0
    )
    line.fit(X, X[:, 0] + rng.normal(size=400))
    assert line.plan_.subsample_size == line.choices_["subsample_size"].value <= 100
    steps = rs.ReplayRegressor(
        DecisionTreeRegressor(), resampling=rs.Resampling(size="auto", n_resamples=20), random_state=0
    ).fit(X, np.floor(40 * X[:, 0]))
    assert steps.choices_["subsample_size"].value == 200
    assert "out-of-bag" in steps.choices_["subsample_size"].reason


def test_trees_get_more_members_by_default_than_lines(rng):
    X = rng.uniform(size=(100, 4))
    y = X[:, 0] + np.sin(6 * X[:, 1]) + rng.normal(size=100)
    line, tree = (
        rs.ReplayRegressor(member, random_state=0).fit(X, y)
        for member in (LinearRegression(), DecisionTreeRegressor())
    )
    assert line.plan_.n_resamples < tree.plan_.n_resamples
    assert tree.estimate_.error_noise <= 0.25 or tree.plan_.n_resamples == 2000
    assert "of a point's own standard error" in tree.choices_["n_resamples"].reason
    again = rs.ReplayRegressor(DecisionTreeRegressor(), random_state=0).fit(X, y)
    assert_array_equal(tree.predict(X), again.predict(X))


def test_members_stop_at_ten_million_rows_by_default(rng, monkeypatch):
    monkeypatch.setattr("replaystats.estimators.regression.CHEAP_WORK", 50 * 150)
    X = rng.uniform(size=(100, 4))
    model = rs.ReplayRegressor(DecisionTreeRegressor(), random_state=0).fit(X, rng.normal(size=100))
    assert model.plan_.n_resamples == 150
    assert model.choices_["n_resamples"].reason.startswith("the cap")


def test_a_partition_is_one_by_default(data):
    model = rs.ReplayRegressor(LinearRegression(), resampling=rs.Resampling("partition", 20)).fit(*data)
    assert model.plan_.n_resamples == 3


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize(
    "model",
    [
        rs.ReplayRegressor(DecisionTreeRegressor(), resampling=rs.Resampling(n_resamples=30), random_state=0),
        rs.ReplayRegressor(
            LinearRegression(), combine="median", resampling=rs.Resampling(n_resamples=30), random_state=0
        ),
        rs.ReplayKernelRidge(random_state=0),
        rs.ReplayKernelRidge(method="local", random_state=0),
        rs.ReplayKernelRidge(method="subsets", resampling=rs.Resampling(n_resamples=20), random_state=0),
    ],
)
def test_no_points_have_no_answers(data, model, n_outputs):
    X, y = data
    model = clone(model).fit(X, y if n_outputs == 1 else np.column_stack([y, -y]))
    none, shape = np.empty((0, 3)), (0,) if n_outputs == 1 else (0, 2)
    found = [
        model.predict(none),
        *model.predict(none, return_std=True, return_interval=True),
        *model.confidence_interval(none),
        *model.predict_interval(none, scale="local"),
        model.plug_in_predict(none),
    ]
    assert [answer.shape for answer in found] == [shape] * len(found)
    if model.estimate_.plan is not None:
        assert model.predict_members(none).shape == (len(model.replicates_.failed), *shape)
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.predict(np.empty((0, 2)))


def test_dates_are_refused_by_the_name_of_their_column(data):
    X, y = data
    table = pd.DataFrame(X, columns=list("abc")).assign(when=pd.date_range("2020", periods=60))
    trees = rs.ReplayRegressor(
        DecisionTreeRegressor(), resampling=rs.Resampling(n_resamples=20), random_state=0
    )
    utc = table["when"].dt.tz_localize("UTC")
    for dated in (table, table[["when"]], table.assign(when=utc), table.assign(when=utc.diff())):
        with pytest.raises(TypeError, match=r"`X\['when'\]` must be numbers; got dates"):
            trees.fit(dated, y)
    trees.fit(table[["a", "b"]], y)
    with pytest.raises(TypeError, match=r"`X\['a'\]` must be as it was in `fit`; got dates"):
        trees.predict(table[["when", "b"]].rename(columns={"when": "a"}))
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"`X\['when'\]` must be numbers; got dates"):
        trees.fit(polars.DataFrame({"a": X[:, 0], "when": table["when"].to_numpy()}), y)


def test_a_pipeline_may_read_dates(data):
    _, y = data
    table = pd.DataFrame({"when": pd.date_range("2020", periods=60)})
    days = FunctionTransformer(lambda dates: dates.apply(lambda column: column.dt.day_of_year))
    model = rs.ReplayRegressor(
        make_pipeline(days, LinearRegression()), resampling=rs.Resampling(n_resamples=20), random_state=0
    )
    assert model.fit(table, y).predict(table[:5]).shape == (5,)
    assert model.predict(table[:0]).shape == (0,)


def test_auto_adds_members_and_keeps_the_first(rng):
    X = rng.uniform(size=(60, 1))
    y = X[:, 0] + rng.normal(size=60)
    grown = rs.ReplayRegressor(
        LinearRegression(), resampling=rs.Resampling(n_resamples="auto"), random_state=0
    ).fit(X, y)
    count = grown.choices_["n_resamples"].value
    assert count == len(grown.replicates_) == grown.plan_.n_resamples
    fixed = rs.ReplayRegressor(
        LinearRegression(), resampling=rs.Resampling(n_resamples=count), random_state=0
    ).fit(X, y)
    assert_allclose(grown.predict_members(X[:5]), fixed.predict_members(X[:5]), rtol=1e-12)
    # means of half-samples: the noise of B members is 1 / B of the variance of the mean, so 99 are enough
    assert 100 <= count <= 300


@pytest.mark.parametrize(("n", "p", "warned"), [(5, 1, True), (8, 3, True), (8, 1, False), (12, 3, False)])
def test_lines_through_as_many_points_as_they_have_parameters_are_warned_of(rng, n, p, warned):
    """With k = n // 2 = p + 1 rows their slopes have Cauchy's tails: no mean, no variance, no interval."""
    X = rng.normal(size=(n, p))
    y = X[:, 0] + rng.normal(size=n)
    model = rs.ReplayRegressor(LinearRegression(), resampling=rs.Resampling(n_resamples=20), random_state=0)
    if warned:
        with pytest.warns(rs.ReplayWarning, match=f"k={n // 2} rows are too few for this regressor"):
            model.fit(X, y)
    else:
        model.fit(X, y)


def test_exact_fits_that_stay_among_the_targets_are_not_warned_of(rng):
    X = rng.normal(size=(12, 2))
    y = rng.normal(size=12)
    rs.ReplayRegressor(DecisionTreeRegressor(), resampling=rs.Resampling(n_resamples=20), random_state=0).fit(
        X, y
    )
    rs.ReplayRegressor(LinearRegression(), resampling=rs.Resampling(n_resamples=20), random_state=0).fit(
        X, X @ [1.0, 2.0]
    )


@pytest.mark.parametrize("regressor", [LinearRegression(), DecisionTreeRegressor()])
def test_members_that_agree_but_for_rounding_are_not_multiplied(rng, regressor):
    """A target without noise, or a constant one: 2000 members were fitted, for noise of 1e-16."""
    X = rng.normal(size=(60, 2))
    y = np.ones(60) if isinstance(regressor, DecisionTreeRegressor) else X @ [2.0, 0.0] + 1.0
    model = rs.ReplayRegressor(regressor, random_state=0).fit(X, y)
    assert model.choices_["n_resamples"].value == 100
    assert "but for rounding" in model.choices_["n_resamples"].reason


def test_local_noise_refuses_missing_values_by_name(rng):
    X = rng.normal(size=(60, 2))
    X[3, 0] = np.nan
    model = rs.ReplayRegressor(
        HistGradientBoostingRegressor(max_iter=3), resampling=rs.Resampling(n_resamples=20), random_state=0
    )
    model.fit(X, rng.normal(size=60))
    with pytest.raises(ValueError, match='`X` must be complete when scale="local"; got missing values'):
        model.predict_interval(X[:2], 0.8, scale="local")


def test_frames_of_polars_keep_their_names_in_a_pipeline(rng):
    """A pipeline that selects columns by name got an array, and said that it wants a data frame."""
    polars = pytest.importorskip("polars")
    frame = pd.DataFrame({"x": rng.normal(size=60), "colour": rng.choice(["red", "blue"], 60)})
    y = frame["x"] + (frame["colour"] == "red")
    encoded = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    model = rs.ReplayRegressor(
        make_pipeline(encoded, Ridge()), resampling=rs.Resampling(n_resamples=20), random_state=0
    )
    expected = model.fit(frame, y).confidence_interval(frame[:5])
    table = polars.from_pandas(frame)
    found = model.fit(table, y.to_numpy()).confidence_interval(table[:5])
    assert_array_equal(found.low, expected.low)
    with pytest.raises(ValueError, match="same order"):
        model.predict(table.select("colour", "x"))
