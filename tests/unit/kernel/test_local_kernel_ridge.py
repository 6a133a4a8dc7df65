"""Trees that cut evenly, and kernel ridge on their leaves as scikit-learn fits it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge

import replaystats as rs
from replaystats.estimators import _kernel_answers
from replaystats.kernel import local, local_influence
from replaystats.kernel.kernels import make_kernel
from replaystats.kernel.local import PartitionTree, fit_local
from replaystats.kernel.local_influence import jackknife_variance, leave_one_out
from replaystats.kernel.problem import KernelProblem
from support.cases import slow_except


@given(st.integers(1, 200), st.integers(1, 60), st.integers(0, 5))
def test_leaves_hold_every_row_once_and_are_nearly_full(n, leaf_size, seed):
    rng = np.random.default_rng(seed)
    tree = PartitionTree.grow(rng.normal(size=(n, 3)), leaf_size, rng)
    assert_array_equal(np.sort(np.concatenate(tree.leaves)), np.arange(n))
    sizes = [len(rows) for rows in tree.leaves]
    assert max(sizes) <= leaf_size
    assert len(sizes) == -(-n // leaf_size)


def test_training_points_are_routed_to_their_own_leaf(rng):
    points = rng.normal(size=(100, 2))
    tree = PartitionTree.grow(points, 13, rng)
    for own, arrived in zip(tree.leaves, tree.route(points), strict=True):
        assert_array_equal(np.sort(own), arrived)


def test_equal_points_are_cut_all_the_same(rng):
    tree = PartitionTree.grow(np.ones((50, 2)), 10, rng)
    assert [len(rows) for rows in tree.leaves] == [10] * 5
    assert sum(len(rows) for rows in tree.route(np.ones((7, 2)))) == 7


@pytest.fixture
def data(rng):
    X = rng.uniform(size=(90, 2))
    return X, np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=90), rng.uniform(size=(20, 2))


def fit(X, y, *, gamma=2.0, alpha=0.1, leaf_size=25, n_trees=3, standardize=None, n_jobs=None, seed=0):
    kernel = make_kernel("rbf", n_features=X.shape[1], gamma=gamma)
    problem = KernelProblem.checked(X, y, alpha, kernel, standardize, None)
    options = {"leaf_size": leaf_size, "n_trees": n_trees, "seed": seed}
    return fit_local(problem, n_jobs=n_jobs, **options)


def test_every_leaf_is_a_kernel_ridge_regression(data):
    X, y, X_new = data
    model = fit(X, y)
    members = model.values(X_new)[..., 0]
    units = np.sqrt(2.0)
    for tree, prediction in zip(model.trees, members, strict=True):
        centred = units * (X_new - X.mean(axis=0))
        for rows, arrived in zip(tree.leaves, tree.route(centred), strict=True):
            if len(arrived):
                own = KernelRidge(alpha=0.1, kernel="rbf", gamma=2.0).fit(X[rows], y[rows])
                assert_allclose(prediction[arrived], own.predict(X_new[arrived]), rtol=1e-8)
    mean = model.mean(X_new)[:, 0]
    assert_allclose(mean, members.mean(axis=0), rtol=1e-12)


def test_one_leaf_is_the_fit_on_all_rows(data):
    X, y, X_new = data
    model = fit(X, y, leaf_size=90, n_trees=1)
    expected = KernelRidge(alpha=0.1, kernel="rbf", gamma=2.0).fit(X, y).predict(X_new)
    mean = model.mean(X_new)[:, 0]
    assert_allclose(mean, expected, rtol=1e-8)


def test_neither_threads_nor_budget_nor_more_trees_change_a_tree(data):
    X, y, X_new = data
    few = fit(X, y).values(X_new)
    many = fit(X, y, n_trees=5, n_jobs=2)
    tiled = np.tile(X_new, (1000, 1))  # more rows in a leaf than a task may take of the smallest budget
    with rs.config_context(memory_budget=2**20):
        again = many.values(tiled)
    assert_allclose(again[:3, -len(X_new) :], few, rtol=1e-12)


def test_cuts_ignore_a_feature_without_width(data):
    X, y, _ = data
    model = fit(X, y, gamma=[3.0, 0.0], n_trees=1, leaf_size=30)
    order = [np.sort(X[rows, 0])[[0, -1]] for rows in model.trees[0].leaves]
    bounds = np.array(sorted(order, key=lambda pair: pair[0]))
    assert (bounds[1:, 0] > bounds[:-1, 1]).all()  # leaves are intervals of the one feature that counts


def test_a_kernel_matrix_has_no_points_to_cut(data):
    X, y, _ = data
    kernel = make_kernel("precomputed", n_features=90)
    problem = KernelProblem.checked(X @ X.T, y, 1.0, kernel, None, None)
    with pytest.raises(ValueError, match='`kernel` must be one of points when method="local"'):
        fit_local(problem, leaf_size=25, n_trees=1, seed=0)


def refit_without(X, y, i, model, weight):
    """The mean prediction at all rows when row i is taken out of every leaf it is in."""
    keep = np.arange(len(y)) != i
    members = []
    for tree in model.trees:
        prediction = np.empty(len(y))
        for rows in tree.leaves:
            kept = rows[keep[rows]]
            own = KernelRidge(alpha=0.1, kernel="rbf", gamma=2.0).fit(X[kept], y[kept], weight[kept])
            prediction[rows] = own.predict(X[rows])
        members.append(prediction)
    return np.mean(members, axis=0)


@pytest.mark.parametrize("weighted", slow_except([True], [False, True]))
def test_leave_one_out_and_jackknife_are_those_of_refits(data, weighted):
    X, y, _ = data
    weight = np.where(np.arange(90) % 3 == 0, 2.5, 0.7) if weighted else np.ones(90)
    weight[4] = 0.0 if weighted else 1.0
    kernel = make_kernel("rbf", n_features=2, gamma=2.0)
    problem = KernelProblem.checked(X, y, 0.1, kernel, None, weight)
    model = fit_local(problem, leaf_size=25, n_trees=3, seed=0)
    without = np.array([refit_without(X, y, i, model, weight) for i in range(90)])  # (i, x)
    found = leave_one_out(model)[:, 0]
    assert_allclose(found, np.diag(without), rtol=1e-7)
    whole = model.mean(X)[:, 0]
    expected = 89 / 90 * ((whole - without) ** 2).sum(axis=0)
    for budget in (2**20, 2**30):
        with rs.config_context(memory_budget=budget):
            variance = jackknife_variance(model, X)[:, 0]
        assert_allclose(variance, expected, rtol=1e-6)
    assert jackknife_variance(model, X[:0]).shape == (0, 1)


def test_leaves_are_inverted_once_however_many_intervals_are_asked_for(data, monkeypatch):
    X, y, X_new = data
    inverted = []
    plain = local_influence._residuals
    monkeypatch.setattr(local_influence, "_residuals", lambda *given: inverted.append(given) or plain(*given))
    model = rs.ReplayKernelRidge(
        0.1, gamma=2.0, method="local", resampling=rs.Resampling(size=25), random_state=0
    ).fit(X, y)
    first = model.predict_interval(X_new)
    n_leaves = sum(len(tree.leaves) for tree in model.estimate_.members.trees)
    again = pickle.loads(pickle.dumps(model))
    for fitted in (model, again):
        fitted.predict_interval(X_new, 0.8)
        fitted.predict(X_new, return_std=True)
        assert_array_equal(fitted.predict_interval(X_new), first)
    assert len(inverted) == n_leaves


def test_kept_residuals_do_not_outlive_the_targets(data):
    X, y, _ = data
    model = fit(X, y)
    before = leave_one_out(model)
    assert_allclose(leave_one_out(model.refit(3 * y[:, None])), 3 * before, rtol=1e-10)
    assert not np.allclose(leave_one_out(model.extend(2)), before)


@pytest.mark.parametrize("weighted", [False, True])
def test_sampled_residuals_are_those_of_all_rows(data, monkeypatch, weighted):
    X, y, _ = data
    weight = np.where(np.arange(90) % 3 == 0, 2.5, 0.0) if weighted else None
    kernel = make_kernel("rbf", n_features=2, gamma=2.0)
    problem = KernelProblem.checked(X, y, 0.1, kernel, None, weight)
    every = leave_one_out(fit_local(problem, leaf_size=25, n_trees=3, seed=0))
    monkeypatch.setattr(local, "SAMPLED_ROWS", 30)
    model = fit_local(problem, leaf_size=25, n_trees=3, seed=0)
    found = leave_one_out(model)
    known = np.isfinite(found[:, 0])
    assert known.sum() == 30
    assert_allclose(found[known], every[known], rtol=1e-8)
    assert_allclose(leave_one_out(model.refit(3 * y[:, None]))[known], 3 * every[known], rtol=1e-8)


def test_a_higher_level_holds_the_interval_of_jackknife_plus(data, monkeypatch):
    X, y, X_new = data
    monkeypatch.setattr(local, "SAMPLED_ROWS", 60)
    model = rs.ReplayKernelRidge(
        0.1, gamma=2.0, method="local", resampling=rs.Resampling(size=3, n_resamples=2), random_state=0
    ).fit(X, y)
    narrow = model.predict_interval(X_new, 0.8)
    monkeypatch.setattr(_kernel_answers, "NEGLIGIBLE", 1.0)
    model._calibrated = None
    wide = model.predict_interval(X_new, 0.8)
    assert (wide.low - narrow.low).mean() < 0 < (wide.high - narrow.high).mean()
    assert_allclose(wide.low + wide.high, 2 * model.predict(X_new))
