"""ReplayKernelRidge: R's published numbers, scikit-learn's manners, standard errors, out-of-bag."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import replaystats as rs
from oracles.r_cases import KERNEL_CASES, load_kernel_case

# Weights multiply squared errors of drawn rows and leave the draws alone, so a row of weight 2 is not a row
# given twice. scikit-learn exempts its own bagging and forests from this check for the same reason.
WEIGHTS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "weights do not change the drawn subsets"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [rs.ReplayKernelRidge(0.1, gamma=0.1, resampling=rs.Resampling(n_resamples=20))],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        rs.ReplayKernelRidge(resampling=rs.Resampling(n_resamples=20)),
        rs.ReplayKernelRidge(
            resampling=rs.Resampling("V", n_resamples=20), standardize="subset", oob_score=True
        ),
        rs.ReplayKernelRidge(resampling=rs.Resampling(n_resamples=20), standardize=None, kernel="linear"),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
def test_scikit_learn_checks_of_other_settings(estimator, check):
    check(estimator)


@pytest.fixture
def data(rng):
    X = rng.uniform(size=(80, 2))
    return X, np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=80), rng.uniform(size=(9, 2))


@pytest.mark.parametrize("name", KERNEL_CASES)
def test_equals_r_on_its_own_subsets(name):
    case = load_kernel_case(name)
    n = len(case.y)
    model = rs.ReplayKernelRidge(alpha=n ** (-2 / 3), gamma=None, standardize="subset")
    for statistic, subsets in case.subsets.items():
        model.fit(case.X, case.y, plan=rs.plan_from_indices(subsets, n))
        assert_allclose(model.predict(case.X_test), case.predictions[statistic], rtol=0, atol=1e-10)
        assert model.n_redrawn_ == 0
    assert_allclose(model.plug_in_predict(case.X_test), case.predictions["plain"], rtol=0, atol=1e-10)


def test_call_of_the_readme(data):
    X, y, X_test = data
    mean, standard_error = (
        rs.ReplayKernelRidge(
            alpha=1e-2,
            kernel="rbf",
            gamma=None,
            standardize="subset",
            resampling=rs.Resampling("V", 20, 50),
            random_state=0,
        )
        .fit(X, y)
        .predict(X_test, return_std=True)
    )
    assert mean.shape == standard_error.shape == (9,)
    assert (standard_error > 0).all()


def test_without_units_equals_scikit_learn(data):
    X, y, X_test = data
    model = rs.ReplayKernelRidge(
        0.1, gamma=3.0, standardize=None, resampling=rs.Resampling(size=30, n_resamples=7), random_state=0
    )
    model.fit(X, y)
    fits = [
        KernelRidge(alpha=0.1, kernel="rbf", gamma=3.0).fit(X[rows], y[rows])
        for rows in model.plan_.indices()
    ]
    members = [fit.predict(X_test) for fit in fits]
    assert_allclose(model.predict_members(X_test), members, rtol=1e-9)
    assert_allclose(model.predict(X_test), np.mean(members, axis=0), rtol=1e-9)
    plain = KernelRidge(alpha=0.1, kernel="rbf", gamma=3.0).fit(X, y)
    assert_allclose(model.plug_in_predict(X_test), plain.predict(X_test), rtol=1e-9)


def test_default_units_suit_the_kernel(data):
    X, y, X_test = data
    options = {"resampling": rs.Resampling(size=0.5, n_resamples=10), "random_state": 0}
    default = rs.ReplayKernelRidge(**options).fit(X, y)
    shared = rs.ReplayKernelRidge(**options, standardize="global").fit(X, y)
    assert_array_equal(default.predict(X_test), shared.predict(X_test))
    assert default.plan_.subsample_size == 40
    gram = KernelRidge(kernel="rbf")._get_kernel(X)
    assert (
        rs.ReplayKernelRidge(kernel="precomputed", resampling=rs.Resampling(n_resamples=3), random_state=0)
        .fit(gram, y)
        .n_features_in_
        == 80
    )


def test_default_subsets_stay_small(rng):
    X, y = rng.normal(size=(1300, 1)), rng.normal(size=1300)
    model = rs.ReplayKernelRidge(1.0, gamma=None, resampling=rs.Resampling(n_resamples=1), random_state=0)
    assert model.fit(X, y).plan_.subsample_size <= 500


def test_several_outputs_are_fitted_side_by_side(data):
    X, y, X_test = data
    Y = np.column_stack([y, X[:, 1] ** 2])
    model = rs.ReplayKernelRidge(
        0.1, gamma=None, resampling=rs.Resampling(size=30, n_resamples=30), random_state=0, oob_score=True
    )
    both = clone(model).fit(X, Y)
    mean, error = both.predict(X_test, return_std=True)
    for j in range(2):
        alone = clone(model).fit(X, Y[:, j])
        expected = alone.predict(X_test, return_std=True)
        assert_allclose((mean[:, j], error[:, j]), expected, rtol=1e-8)
        assert_allclose(both.oob_prediction_[:, j], alone.oob_prediction_, rtol=1e-8)
        assert_allclose(both.predict_members(X_test)[..., j], alone.predict_members(X_test), rtol=1e-8)
    assert_allclose(both.oob_score_, r2_score(Y, both.oob_prediction_), rtol=1e-10)


def test_one_weight_for_all_changes_the_penalty_only(data):
    X, y, X_test = data
    model = rs.ReplayKernelRidge(0.2, resampling=rs.Resampling(n_resamples=10), random_state=0)
    heavy = clone(model).fit(X, y, sample_weight=2.0).predict(X_test)
    assert_allclose(heavy, clone(model).set_params(alpha=0.1).fit(X, y).predict(X_test), rtol=1e-8)


def test_standard_error_does_not_depend_on_blocks(data):
    X, y, X_test = data
    model = rs.ReplayKernelRidge(0.1, resampling=rs.Resampling(size=30, n_resamples=200), random_state=0).fit(
        X, y
    )
    points = np.repeat(X_test, 100, axis=0)
    mean, error = model.predict(points, return_std=True)
    with rs.config_context(memory_budget=2**20, n_jobs=2):
        again, error_again = model.predict(points, return_std=True)
    assert_allclose(again, mean, rtol=1e-9)
    assert_allclose(error_again, error, rtol=1e-6)
    assert_allclose(error, np.sqrt(model.estimate_.variance(points).variance), rtol=1e-6)


def test_interval_is_centred_and_grows_with_the_level(data):
    X, y, X_test = data
    model = rs.ReplayKernelRidge(0.1, resampling=rs.Resampling(n_resamples=100), random_state=0).fit(X, y)
    mean, error = model.predict(X_test, return_std=True)
    low, high = model.confidence_interval(X_test)
    assert_allclose((low + high) / 2, mean, rtol=1e-10)
    # Student's quantile for what a hundred members know of the variance: above the normal one, not by much.
    noise = model.estimate_.confidence_interval(X_test)
    assert ((noise.high - noise.low) / (2 * error) > 1.959964).all()
    assert ((noise.high - noise.low) / (2 * error) < 2.2).all()
    assert (high - low > noise.high - noise.low).all()  # smoothing bias
    wider = model.confidence_interval(X_test, confidence_level=0.99)
    assert (wider.low < low).all()
    with pytest.raises(ValueError, match=r"`confidence_level` must be a finite number in \(0, 1\); got 1.5"):
        model.confidence_interval(X_test, confidence_level=1.5)


def test_interval_needs_subsets_that_differ(data):
    X, y, X_test = data
    model = rs.ReplayKernelRidge(resampling=rs.Resampling(size=1.0, n_resamples=3), random_state=0).fit(X, y)
    assert_allclose(model.predict(X_test), model.plug_in_predict(X_test), rtol=1e-9)
    with pytest.raises(ValueError, match="`subsample_size` must be below n = 80 for a variance; got 80"):
        model.predict(X_test, return_std=True)
    with pytest.raises(ValueError, match="`subsample_size` must be below n = 80 for out-of-bag predictions"):
        model.oob_curve()


def test_out_of_bag_without_rows_left_out_is_refused_before_work(data, monkeypatch):
    X, y, _ = data

    def work(*_, **__):
        raise AssertionError("work was done")

    monkeypatch.setattr("replaystats.estimators.kernel_ridge.resolve_kernel_ridge", work)
    monkeypatch.setattr("replaystats.estimators.regressor.replicate_learner", work)
    given = {"oob_score": True, "random_state": 0}
    whole = rs.make_plan(n_observations=80, subsample_size=80, n_resamples=3)
    for size, plan in ((1.0, None), (80, None), (10, whole)):
        for model in (
            rs.ReplayKernelRidge(
                method="subsets", resampling=rs.Resampling(size=size, n_resamples=3), **given
            ),
            rs.ReplayRegressor(
                LinearRegression(), resampling=rs.Resampling(size=size, n_resamples=3), **given
            ),
        ):
            with pytest.raises(ValueError, match="`subsample_size` must be below n = 80 for out-of-bag"):
                model.fit(X, y, plan=plan)


@pytest.mark.parametrize("statistic", ["U", "V", "partition"])
def test_out_of_bag_error_is_that_of_new_data(statistic):
    """Squared errors have mean .09 and sd sqrt(2) .09, so the mean of 600 has an sd of .0052."""
    rng = np.random.default_rng(1)
    X, X_new = rng.uniform(size=(600, 2)), rng.uniform(size=(10_000, 2))
    y, y_new = (np.sin(5 * Z[:, 0]) + 0.3 * rng.normal(size=len(Z)) for Z in (X, X_new))
    model = rs.ReplayKernelRidge(
        0.1, resampling=rs.Resampling(statistic, 100, 60), oob_score=True, random_state=0
    ).fit(X, y)
    out_of_bag, new = np.mean((y - model.oob_prediction_) ** 2), np.mean((y_new - model.predict(X_new)) ** 2)
    assert abs(out_of_bag - new) < 4 * 0.0052
    assert_allclose(model.oob_score_, r2_score(y, model.oob_prediction_), rtol=1e-10)
    curve = model.oob_curve()
    assert curve.n_resamples[-1] == 60
    assert_allclose(curve.score[-1], model.oob_score_, rtol=1e-12)


def test_out_of_bag_says_what_it_could_not_predict(data):
    X, y, _ = data
    model = rs.ReplayKernelRidge(
        0.1, gamma=1.0, resampling=rs.Resampling(size=0.9, n_resamples=3), oob_score=True, random_state=0
    )
    with pytest.warns(rs.ReplayWarning, match="observations are in every subset"):
        model.fit(X, y)
    assert np.isnan(model.oob_prediction_).any()
    assert np.isfinite(model.oob_score_)


def test_precomputed_kernel_in_cross_validation(data):
    X, y, X_test = data
    kernel = KernelRidge(kernel="rbf", gamma=2.0)
    model = rs.ReplayKernelRidge(
        0.1, kernel="precomputed", resampling=rs.Resampling(size=20, n_resamples=30), random_state=0
    )
    search = GridSearchCV(model, {"alpha": [0.1, 10.0]}, cv=3).fit(kernel._get_kernel(X), y)
    assert search.best_params_ == {"alpha": 0.1}
    direct = rs.ReplayKernelRidge(
        0.1, gamma=2.0, standardize=None, resampling=rs.Resampling(size=20, n_resamples=30), random_state=0
    ).fit(X, y)
    assert_allclose(search.predict(kernel._get_kernel(X_test, X)), direct.predict(X_test), rtol=1e-9)


def test_pipeline_grid_search_clone_and_pickle(data):
    X, y, X_test = data
    pipeline = make_pipeline(
        StandardScaler(), rs.ReplayKernelRidge(resampling=rs.Resampling(n_resamples=20), random_state=0)
    )
    search = GridSearchCV(pipeline, {"replaykernelridge__alpha": [1e-2, 100.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"replaykernelridge__alpha": 1e-2}
    model = search.best_estimator_
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X_test), model.predict(X_test))
    assert_array_equal(clone(model).fit(X, y).predict(X_test), model.predict(X_test))


def test_more_subsets_leave_the_first_ones(data):
    X, y, X_test = data
    few = rs.ReplayKernelRidge(resampling=rs.Resampling(n_resamples=10), random_state=3).fit(X, y)
    many = rs.ReplayKernelRidge(resampling=rs.Resampling(n_resamples=300), random_state=3).fit(X, y)
    assert_allclose(many.predict_members(X_test)[:10], few.predict_members(X_test), rtol=1e-10)


def test_refit_forgets_the_plug_in(data):
    X, y, X_test = data
    model = rs.ReplayKernelRidge(resampling=rs.Resampling(n_resamples=2), random_state=0).fit(X, y)
    before = model.plug_in_predict(X_test)
    assert_allclose(model.fit(X, -y).plug_in_predict(X_test), -before, rtol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"resampling": rs.Resampling(size=81)},
            r"`subsample_size` must be an int in \[1, 80\] or a float in \(0, 1\]; got 81",
        ),
        ({"kernel": "gaussian"}, "`kernel` must be one of"),
        ({"alpha": -1}, "`alpha` must be a finite number"),
        ({"standardize": "local"}, "`standardize` must be one of"),
    ],
)
def test_bad_parameters(data, options, message):
    X, y, _ = data
    with pytest.raises(ValueError, match=message):
        rs.ReplayKernelRidge(**options).fit(X, y)


def test_plan_for_other_data_is_refused(data):
    X, y, _ = data
    plan = rs.make_plan(81, n_resamples=2, random_state=0)
    with pytest.raises(ValueError, match="`plan` must be made for the 80 rows of `X`; got n_observations=81"):
        rs.ReplayKernelRidge().fit(X, y, plan=plan)
