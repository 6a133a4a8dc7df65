"""ReplayKernelRidge on features, among neighbours, and with everything left to "auto"."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

import replaystats as rs
from replaystats.tuning.ensembles import candidate_sizes
from replaystats.tuning.penalties import kernel_penalties

WEIGHTS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "weights do not change the drawn subsets"
    for kind in ("dense", "sparse")
}


@pytest.mark.slow
@parametrize_with_checks(
    [
        rs.ReplayKernelRidge(method="features", gamma=0.01, resampling=rs.Resampling(n_resamples=4)),
        rs.ReplayKernelRidge(method="local", resampling=rs.Resampling(n_resamples=2)),
        rs.ReplayKernelRidge(
            "auto", gamma="auto", method="auto", resampling=rs.Resampling(size="auto", n_resamples=4)
        ),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def data(rng):
    X = rng.uniform(size=(300, 2))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=300)
    return X, y, rng.uniform(size=(15, 2))


def standardised(X, points):
    return (points - X.mean(axis=0)) / X.std(axis=0, ddof=1)


def test_landmarks_that_are_enough_give_the_fit_on_all_rows(data):
    X, y, X_new = data
    model = rs.ReplayKernelRidge(0.5, gamma=0.3, method="features", random_state=0).fit(X, y)
    exact = KernelRidge(alpha=0.5, kernel="rbf", gamma=0.3).fit(standardised(X, X), y - y.mean())
    expected = exact.predict(standardised(X, X_new)) + y.mean()
    assert model.choices_["features"].value < 100
    assert_allclose(model.plug_in_predict(X_new), expected, atol=2e-3)
    # Half-samples with half the penalty have the same target; the control variate leaves little noise.
    assert_allclose(model.predict(X_new), expected, atol=1e-2)


def test_given_landmarks_are_ridge_regression_of_scikit_learn(data):
    X, y, X_new = data
    landmarks = standardised(X, X)[:40]
    basis = rs.basis.Nystroem(40, gamma=0.7, landmarks=landmarks)
    model = rs.ReplayKernelRidge(0.2, method=basis, random_state=0).fit(X, y)
    phi = basis(standardised(X, X))
    ridge = Ridge(0.2, fit_intercept=False).fit(phi, y - y.mean())
    expected = ridge.predict(basis(standardised(X, X_new))) + y.mean()
    assert_allclose(model.plug_in_predict(X_new), expected, rtol=1e-6)


def test_features_are_replayed_by_the_moment_engine(data):
    """Up to 100 rows a block is a row: the same as ridge moments, replicate and average by hand."""
    X, y, X_new = (part[:90] for part in data)
    basis = rs.basis.RandomFourier(20, gamma=0.5).fit(standardised(X, X), random_state=0)
    model = rs.ReplayKernelRidge(
        0.3, method=basis, resampling=rs.Resampling(size=0.4, n_resamples=60), random_state=1
    ).fit(X, y)
    order = np.random.default_rng(1).permutation(90)  # how the rows were dealt into blocks
    moments = rs.moments.ridge_moments(basis(standardised(X, X))[order], y[order] - y.mean())
    replicates = rs.replicate(moments, model.plan_, solver=rs.solvers.Ridge(0.3 * 0.4))
    by_hand = rs.average(replicates, "controlled")
    phi = basis(standardised(X, X_new))
    assert_allclose(model.predict(X_new), by_hand.predict(phi) + y.mean(), rtol=1e-8)
    error = np.sqrt(np.einsum("mq,qr,mr->m", phi, by_hand.covariance, phi))
    assert_allclose(model.predict(X_new, return_std=True)[1], error, rtol=1e-6)
    members = model.predict_members(X_new)
    assert_allclose(members, replicates.theta @ phi.T + y.mean(), rtol=1e-8)


def test_all_blocks_at_once_are_the_plug_in(data):
    X, y, X_new = data
    model = rs.ReplayKernelRidge(
        0.2, gamma=0.5, method="features", resampling=rs.Resampling(size=1.0, n_resamples=2), random_state=0
    ).fit(X, y)
    assert_allclose(model.predict(X_new), model.plug_in_predict(X_new), rtol=1e-8)


def test_a_basis_without_a_width_takes_that_of_the_estimator(data):
    X, y, X_new = data
    options = {"resampling": rs.Resampling(n_resamples=5), "random_state": 0}
    own = rs.ReplayKernelRidge(0.2, method=rs.basis.Nystroem(30, gamma=0.8), **options)
    taken = rs.ReplayKernelRidge(0.2, gamma=0.8, method=rs.basis.Nystroem(30), **options)
    assert_allclose(taken.fit(X, y).predict(X_new), own.fit(X, y).predict(X_new), rtol=1e-6)
    both = rs.ReplayKernelRidge(0.2, gamma=0.8, method=rs.basis.Nystroem(30, gamma=0.8), **options)
    with pytest.raises(ValueError, match="`gamma` must be None when the basis has one"):
        both.fit(X, y)


def test_weights_of_features(data):
    X, y, X_new = data
    model = rs.ReplayKernelRidge(
        0.2,
        method=rs.basis.Nystroem(30),
        standardize=None,
        resampling=rs.Resampling(n_resamples=5),
        random_state=0,
    )
    heavy = model.fit(X, y, sample_weight=3.0).plug_in_predict(X_new)
    light = model.set_params(alpha=0.2 / 3).fit(X, y).plug_in_predict(X_new)
    assert_allclose(heavy, light, rtol=1e-6)


def test_several_outputs_side_by_side(data):
    X, y, X_new = data
    Y = np.column_stack([y, X[:, 1] ** 2])
    for method in ("features", "local"):
        model = rs.ReplayKernelRidge(
            0.1, gamma=0.5, method=method, resampling=rs.Resampling(n_resamples=10), random_state=0
        )
        both = model.fit(X, Y).predict(X_new)
        alone = [model.fit(X, Y[:, j]).predict(X_new) for j in range(2)]
        assert_allclose(both, np.column_stack(alone), rtol=1e-6)


def test_leaves_as_large_as_the_data_are_the_plug_in(data):
    X, y, X_new = data
    model = rs.ReplayKernelRidge(
        0.1, method="local", resampling=rs.Resampling(size=300, n_resamples=1), random_state=0
    )
    model.fit(X, y)
    assert_allclose(model.predict(X_new), model.plug_in_predict(X_new), rtol=1e-8)
    assert model.plan_ is None


def test_leaves_have_exact_jackknife_and_leave_one_out(data):
    """One leaf of all rows is kernel ridge regression, which scikit-learn refits without every row."""
    X, y, X_new = (part[:60] for part in data)
    model = rs.ReplayKernelRidge(
        0.1,
        gamma=2.0,
        method="local",
        resampling=rs.Resampling(size=60, n_resamples=1),
        standardize=None,
        oob_score=True,
    ).fit(X, y)
    without = [
        KernelRidge(alpha=0.1, kernel="rbf", gamma=2.0).fit(np.delete(X, i, 0), np.delete(y, i))
        for i in range(60)
    ]
    expected = [fit.predict(X[i : i + 1])[0] for i, fit in enumerate(without)]
    assert_allclose(model.oob_prediction_, expected, rtol=1e-8)
    mean, error = model.predict(X_new, return_std=True)
    changes = np.array([mean - fit.predict(X_new) for fit in without])
    assert_allclose(error, np.sqrt(59 / 60 * (changes**2).sum(axis=0)), rtol=1e-6)
    assert_allclose(model.oob_curve().score, [model.oob_score_])
    with pytest.raises(ValueError, match="`members` must be made on random subsets for the parts"):
        model.estimate_.variance(X_new)


@pytest.mark.parametrize("method", ["subsets", "features", "local"])
def test_every_method_has_a_score_an_error_and_an_interval(data, method):
    X, y, X_new = data
    model = rs.ReplayKernelRidge(0.1, gamma=0.5, method=method, oob_score=True, random_state=0).fit(X, y)
    assert 0.9 < model.oob_score_ < 1
    mean, error, low, high = model.predict(X_new, return_std=True, return_interval=True)
    assert (error > 0).all()
    assert ((low < mean) & (mean < high)).all()
    assert_allclose(np.stack([low, high]), model.predict_interval(X_new))
    covered = model.interval_coverage(0.9)
    assert abs(covered.share - 0.9) < 0.05
    assert covered.n_rows == 300


def test_leave_one_out_of_features_is_that_of_refits(data):
    X, y, _ = (part[:50] for part in data)
    basis = rs.basis.Nystroem(20, gamma=0.7, landmarks=standardised(X, X)[:20])
    model = rs.ReplayKernelRidge(0.2, method=basis, oob_score=True, random_state=0)
    model.fit(X, y)
    phi, centred = basis(standardised(X, X)), y - y.mean()
    for i in range(0, 50, 7):
        own = Ridge(0.2, fit_intercept=False).fit(np.delete(phi, i, 0), np.delete(centred, i))
        assert_allclose(model.oob_prediction_[i], own.predict(phi[i : i + 1])[0] + y.mean(), rtol=1e-6)


def test_auto_takes_features_for_a_smooth_function():
    X, y = rs.simulate.two_bumps(2000, random_state=0)
    model = rs.ReplayKernelRidge("auto", gamma="auto", method="auto", random_state=0).fit(X, y)
    assert model.method_ == "features"
    assert "landmarks describe the kernel" in model.choices_["method"].reason
    grid = np.random.default_rng(1).uniform(size=(500, 2))
    truth = rs.simulate.two_bumps_function(grid)
    error = np.sqrt(np.mean((model.predict(grid) - truth) ** 2))
    assert error < 0.06  # full kernel ridge with its best parameters: 0.043 on average
    low, high = model.confidence_interval(grid)
    assert np.mean((low < truth) & (truth < high)) > 0.8  # one data set: points are dependent


def rough(n, seed=0):
    X = np.random.default_rng(seed).uniform(size=(n, 4))
    return X, np.sign(np.sin(9 * X[:, 0]) * np.sin(9 * X[:, 1])) + X[:, 2]


@pytest.mark.parametrize("n", [1000, pytest.param(3000, marks=pytest.mark.slow)])
def test_auto_keeps_the_exact_kernel_for_a_rough_function(n):
    X, y = rough(n)
    model = rs.ReplayKernelRidge(random_state=0).fit(X, y)
    assert model.method_ == "local"
    assert "landmarks" in model.choices_["method"].reason
    assert set(model.choices_) == {"kernel", "gamma", "alpha", "method", "subsample_size", "n_resamples"}
    leaf, trees = (model.choices_[name].value for name in ("subsample_size", "n_resamples"))
    assert (leaf, trees) == (1000, 1) if n == 1000 else (leaf, trees) in ((200, 8), (1000, 4))
    assert (model.replicates_.leaf_size, len(model.replicates_)) == (leaf, trees)


def test_large_leaves_for_a_smooth_function_and_small_ones_where_its_character_changes(rng, monkeypatch):
    """Of many rows, errors 3 % smaller are not worth the work."""
    monkeypatch.setattr("replaystats.tuning.kernel_methods.SAMPLED_ROWS", 3999)
    X = rng.uniform(-1, 1, size=(4000, 6))
    smooth = np.sin(2 * X).sum(axis=1) + 0.01 * rng.normal(size=4000)
    rough_in_part = np.where(X[:, 0] > 0, np.sign(np.sin(20 * X[:, 0])), 0.1 * X[:, 0])
    for y, leaf in ((smooth, 1000), (rough_in_part + 0.1 * rng.normal(size=4000), 400)):
        model = rs.ReplayKernelRidge(1e-2, gamma=None, method="local", random_state=0).fit(X, y)
        assert model.choices_["subsample_size"].value == leaf


def test_auto_respects_what_was_given(data):
    X, y, _ = data
    plan = rs.make_plan(300, n_resamples=5, random_state=0)
    model = rs.ReplayKernelRidge(method="auto", resampling=rs.Resampling(n_resamples=5), random_state=0)
    assert model.fit(X, y, plan=plan).method_ == "subsets"
    assert model.set_params(method=rs.basis.Nystroem(20)).fit(X, y).method_ == "features"
    own_units = rs.ReplayKernelRidge(
        method="auto", standardize="subset", resampling=rs.Resampling(n_resamples=5), random_state=0
    )
    assert own_units.fit(X, y).choices_["method"].value == "subsets"
    gram = KernelRidge(kernel="rbf")._get_kernel(X)
    precomputed = rs.ReplayKernelRidge(
        "auto", kernel="precomputed", method="auto", resampling=rs.Resampling(n_resamples=5)
    )
    assert precomputed.fit(gram, y).method_ == "subsets"


def test_every_choice_has_a_value_and_a_reason():
    X, y = rs.simulate.two_bumps(300, random_state=0)
    model = rs.ReplayKernelRidge(method="subsets", random_state=0).fit(X, y)
    assert set(model.choices_) == {"gamma", "alpha", "subsample_size", "n_resamples"}
    assert model.choices_["alpha"].value == model.alpha_
    assert model.choices_["gamma"].value == model.gamma_
    assert model.choices_["subsample_size"].value == model.plan_.subsample_size
    assert model.choices_["n_resamples"].value == model.plan_.n_resamples == len(model.replicates_)
    assert "marginal likelihood on 300 rows" in model.choices_["gamma"].reason
    assert "same penalty per row" in model.choices_["alpha"].reason
    assert "Monte-Carlo noise" in model.choices_["n_resamples"].reason


def test_what_is_given_is_not_chosen(data):
    X, y, _ = data
    model = rs.ReplayKernelRidge(
        0.1, gamma=0.4, method="subsets", resampling=rs.Resampling(size=0.5, n_resamples=5), random_state=0
    ).fit(X, y)
    assert model.choices_ == {}
    assert (model.alpha_, model.gamma_, model.method_) == (0.1, 0.4, "subsets")


@pytest.mark.parametrize("kernel", ["laplacian", "polynomial"])
def test_other_kernels_choose_one_width(data, kernel):
    X, y, X_new = data
    model = rs.ReplayKernelRidge(
        "auto", kernel=kernel, gamma="auto", resampling=rs.Resampling(size=60, n_resamples=20), random_state=0
    ).fit(X, y)
    assert isinstance(model.gamma_, float)
    assert np.abs(model.predict(X_new) - np.sin(5 * X_new[:, 0])).max() < 0.5


def test_search_for_the_penalty_goes_in_half_decades_from_k_over_n_of_leave_one_out(data):
    X, y, _ = data
    model = rs.ReplayKernelRidge(
        "auto", gamma=1.0, resampling=rs.Resampling(size=60, n_resamples=50), random_state=0
    )
    alone = kernel_penalties(rbf_kernel(standardised(X, X), gamma=1.0), y - y.mean()).best
    steps = 2 * np.log10(model.fit(X, y).alpha_ / (alone * 60 / 300))
    assert_allclose(steps, np.round(steps), atol=1e-6)
    assert 0 <= round(steps) <= 2


def test_widths_of_features_equal_scaled_columns(data):
    X, y, X_new = data
    widths = np.array([2.0, 0.1])
    options = {"resampling": rs.Resampling(size=50, n_resamples=5), "standardize": None, "random_state": 0}
    wide = rs.ReplayKernelRidge(0.1, gamma=widths, **options).fit(X, y).predict(X_new)
    scaled = rs.ReplayKernelRidge(0.1, gamma=1.0, **options).fit(X * np.sqrt(widths), y)
    assert_allclose(wide, scaled.predict(X_new * np.sqrt(widths)), rtol=1e-8)
    laplacian = rs.ReplayKernelRidge(0.1, kernel="laplacian", gamma=widths, **options).fit(X, y)
    stretched = rs.ReplayKernelRidge(0.1, kernel="laplacian", gamma=1.0, **options).fit(X * widths, y)
    assert_allclose(laplacian.predict(X_new), stretched.predict(X_new * widths), rtol=1e-8)


def test_candidate_sizes_halve_from_the_largest():
    assert candidate_sizes(300) == [18, 37, 75, 150]
    assert candidate_sizes(10**6) == [62, 125, 250, 500]
    assert candidate_sizes(3) == [1]


def test_same_seed_same_answer_and_pickle(data):
    X, y, X_new = data
    for method in ("features", "local"):
        model = rs.ReplayKernelRidge("auto", gamma="auto", method=method, random_state=5).fit(X, y)
        again = rs.ReplayKernelRidge("auto", gamma="auto", method=method, random_state=5).fit(X, y)
        assert_array_equal(model.predict(X_new), again.predict(X_new))
        assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X_new), model.predict(X_new))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "forest"}, '`method` must be one of "subsets", "features", "local", "auto"'),
        ({"method": 5}, '`method` must be one of "subsets", "features", "local", "auto"'),
        ({"method": "features", "kernel": "laplacian"}, '`kernel` must be "rbf" for features by default'),
        ({"method": "local", "standardize": "subset"}, '`standardize` must be other than "subset"'),
        ({"gamma": [1.0, 2.0, 3.0]}, "`gamma` must be one number or 2 non-negative ones"),
        ({"kernel": "polynomial", "gamma": [1.0, 2.0]}, "`gamma` must be one number for kernel='polynomial'"),
        ({"alpha": "best"}, "`alpha` must be a finite number"),
    ],
)
def test_bad_parameters(data, options, message):
    X, y, _ = data
    with pytest.raises((ValueError, TypeError), match=message):
        rs.ReplayKernelRidge(**options).fit(X, y)


def test_a_budget_too_small_for_the_blocks_is_refused(data):
    X, y, _ = data
    model = rs.ReplayKernelRidge(method=rs.basis.Nystroem(200))
    with rs.config_context(memory_budget=2**20), pytest.raises(ValueError, match="`memory_budget`"):
        model.fit(X, y)


def test_plans_and_bases_that_do_not_fit(data):
    X, y, _ = data
    plan = rs.make_plan(300, n_resamples=5, random_state=0)
    with pytest.raises(ValueError, match='`plan` must be None when method="local"'):
        rs.ReplayKernelRidge(method="local").fit(X, y, plan=plan)
    with pytest.raises(ValueError, match="`plan` must be made for the 100 blocks of rows"):
        rs.ReplayKernelRidge(method="features").fit(X, y, plan=plan)


@pytest.mark.parametrize("method", ["features", "local", "subsets"])
def test_rows_of_weight_zero_and_sparse_rows(data, method):
    """A row of weight zero is no row to a fit on all of them, and sparse rows are the same rows."""
    X, y, X_new = data
    options = {"method": method, "gamma": 0.5, "standardize": None, "random_state": 0}
    weight = (np.arange(300) < 100).astype(float)
    model = rs.ReplayKernelRidge(
        0.1, resampling=rs.Resampling(size=150 if method == "subsets" else 0.5), **options
    )
    weighted = model.fit(X, y, sample_weight=weight)
    if method == "features":
        exact = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.5).fit(X[:100], y[:100])
        assert_allclose(weighted.plug_in_predict(X_new), exact.predict(X_new), atol=0.02)
    assert np.isfinite(weighted.predict(X_new)).all()
    dense = model.fit(X, y).predict(X_new)
    assert_allclose(model.fit(sparse.csr_array(X), y).predict(sparse.csr_array(X_new)), dense)


@pytest.mark.parametrize("n_values", [None, 4])
def test_copies_of_rows_are_named_and_tables_of_few_values_are_not(rng, n_values):
    X = rng.normal(size=(40, 2)) if n_values is None else rng.integers(n_values, size=(160, 2)).astype(float)
    y = X[:, 0] + 0.3 * rng.normal(size=len(X)) if n_values is None else X.sum(axis=1)
    X, y = (np.repeat(values, 4, axis=0) if n_values is None else values for values in (X, y))
    model = rs.ReplayKernelRidge(0.1, gamma=0.5, method="local", random_state=0)
    if n_values is not None:
        assert len(model.fit(X, y).X_fit_) == 160
        return
    with pytest.warns(rs.ReplayWarning, match="120 of 160 rows are copies of others, target and all"):
        model.fit(X, y)
    assert len(model.X_fit_) == 40


def test_too_few_rows_for_the_level_are_reported(data):
    X, y = data[0][:18], data[1][:18]
    model = rs.ReplayKernelRidge(0.1, gamma=0.5, random_state=0).fit(X, y)
    with pytest.warns(rs.ReplayWarning, match=r"A 0.95 interval .* takes 19 rows; with 18 it is infinite"):
        low, high = model.predict_interval(X[:2])
    assert np.isinf(low).all()
    assert np.isinf(high).all()
    assert np.isfinite(model.predict_interval(X[:2], 0.9)).all()


def test_no_rows_of_a_frame_are_no_rows(data):
    X, y = data[0], data[1]
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    model = rs.ReplayKernelRidge(0.1, gamma=0.5, random_state=0).fit(frame, y)
    mean, error, low, high = model.predict(frame[:0], return_std=True, return_interval=True)
    assert mean.shape == error.shape == low.shape == high.shape == (0,)
    assert model.confidence_interval(frame[:0]).low.shape == (0,)
