"""Learnt widths: the likelihood is SciPy's, its gradient that of differences, its optimum scikit-learn's."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

from oracles.new_observation import leave_one_out
from replaystats._core.thresholds import EVIDENCE, SMALL
from replaystats.kernel import widths
from replaystats.kernel.likelihood import objective
from replaystats.kernel.widths import _ACCELERATED, _Blocks, learn_bandwidths
from replaystats.simulate import two_bumps


@pytest.fixture
def data(rng):
    X = rng.uniform(-2, 2, size=(80, 3))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=80)


def test_likelihood_is_that_of_the_best_scaled_normal(data):
    X, y = data
    gamma, alpha = np.array([0.5, 0.1, 0.02]), 0.3
    C = rbf_kernel(X * np.sqrt(gamma), gamma=1.0) + alpha * np.eye(80)

    def constant(y):  # what profiling the scale leaves beside the log likelihood
        scale = y @ np.linalg.solve(C, y) / 80
        full = -multivariate_normal(np.zeros(80), scale * C).logpdf(y)
        return full - objective(X, y[:, None], likelihood=True)(np.log([*gamma, alpha]))[0]

    assert_allclose(constant(y), constant(y**2), rtol=1e-10)


@pytest.mark.parametrize("likelihood", [True, False])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_gradient_is_that_of_differences(data, n_outputs, likelihood):
    X, y = data
    Y = np.column_stack([y, y**2])[:, :n_outputs]
    at = np.log([0.3, 0.1, 0.7, 0.2])
    value = objective(X, Y, likelihood=likelihood)
    expected = approx_fprime(at, lambda p: value(p)[0], 1e-6)
    assert_allclose(value(at)[1], expected, rtol=1e-4, atol=1e-4)


def test_error_is_that_of_refits(data):
    X, y = data
    gamma, alpha = np.array([0.5, 0.1, 0.02]), 0.3

    def kernel_ridge(X, y, X_new):
        return KernelRidge(alpha=alpha, kernel="rbf", gamma=1.0).fit(X, y).predict(X_new)

    residuals = y - leave_one_out(kernel_ridge, X * np.sqrt(gamma), y)
    value, _ = objective(X, y[:, None], likelihood=False)(np.log([*gamma, alpha]))
    assert_allclose(value, 40 * np.log((residuals**2).sum()), rtol=1e-9)


def test_optimum_is_that_of_a_gaussian_process(data):
    X, y = data
    y = y - y.mean()
    kernel = ConstantKernel() * (RBF(np.ones(3), (1e-3, 1e3)) + WhiteKernel())
    theirs = GaussianProcessRegressor(kernel).fit(X, y).kernel_.k2
    ours = learn_bandwidths(X, y)
    widths = np.append(0.5 / theirs.k1.length_scale**2, theirs.k2.noise_level)
    likelihood = objective(X, y[:, None], likelihood=True)
    best, _ = likelihood(np.log(widths))
    found, _ = likelihood(np.log([*ours.gamma, ours.alpha]))
    assert found - best < 2 * SMALL * EVIDENCE  # the search stops where a step gains less than that
    assert_allclose(ours.gamma[0], widths[0], rtol=0.2)
    assert_allclose(ours.alpha, widths[3], rtol=0.2)
    assert ours.gamma[2] < 1e-2 * ours.gamma[0]


def test_units_of_the_target_do_not_matter(data):
    X, y = data
    assert_allclose(learn_bandwidths(X, 1e6 * y).gamma[:2], learn_bandwidths(X, y).gamma[:2], rtol=1e-3)


def test_many_rows_are_learnt_from_in_blocks(rng):
    X = rng.uniform(-2, 2, size=(3000, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=3000)
    learnt = learn_bandwidths(X, y - y.mean(), random_state=0)
    assert learnt.n_rows == 3000  # sixty steps of some hundred rows go through all of them
    assert learnt.gamma[0] > 10 * learnt.gamma[1] > 10 * learnt.gamma[2]


@pytest.mark.slow
def test_the_draw_of_the_blocks_hardly_matters(rng):
    X = rng.uniform(-2, 2, size=(3000, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=3000)
    widths = np.log([learn_bandwidths(X, y - y.mean(), random_state=seed).gamma[0] for seed in range(3)])
    assert np.ptp(widths) < 0.4  # that of the linear column is not determined: any wide one will do


def test_blocks_come_once_before_they_come_again(rng):
    X = rng.normal(size=(3000, 2))
    blocks = _Blocks(X, rng)
    drawn = [blocks.draw(np.zeros(3)) for _ in range(4)]
    random = np.concatenate([one[0] for one in drawn])
    assert len(np.unique(random)) == len(random) == 800
    leaves = np.concatenate([leaf for one in drawn[:2] for leaf in one[1:]])
    assert len(np.unique(leaves)) == len(leaves)


def test_blocks_without_leaves_are_as_long_as_the_rows_at_most(rng):
    X = rng.normal(size=(1300, 2))
    blocks = _Blocks(X, rng, _ACCELERATED._replace(block=800))
    assert [[len(rows) for rows in blocks.draw(np.zeros(3))] for _ in range(2)] == [[800], [800]]
    assert [len(rows) for rows in _Blocks(X, rng, _ACCELERATED).draw(np.zeros(3))] == [1300]


def test_an_accelerator_learns_on_larger_systems_what_the_host_learns(rng, monkeypatch):
    X = rng.uniform(-2, 2, size=(1500, 3))
    y = np.abs(X[:, 0]) + 0.3 * X[:, 1] + 0.05 * rng.normal(size=1500)
    few = _ACCELERATED._replace(search=300, compared=100, judged=600, block=400)
    monkeypatch.setattr("replaystats.kernel.widths._ACCELERATED", few)
    kernels = ("rbf", "matern12", "matern32")
    learnt = learn_bandwidths(X, y - y.mean(), kernel=kernels, random_state=0, device=np.zeros(1))
    assert learnt.kernel == "matern32"  # the kink
    assert learnt.gamma[0] > 5 * learnt.gamma[1:].max()
    assert learnt.n_rows == 1500


def test_a_start_with_little_noise_is_not_the_only_one():
    """Two bumps under three times as much noise: from alpha = .1 the search ends at gamma = (1097, 0)."""
    X, y = two_bumps(250, random_state=2)
    points = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    gamma = learn_bandwidths(points, y - y.mean(), random_state=2).gamma
    assert gamma.max() < 10
    assert gamma.min() > 0.01


def test_a_constant_target_leaves_the_default():
    learnt = learn_bandwidths(np.arange(10.0).reshape(5, 2), np.zeros(5))
    assert_allclose(learnt.gamma, [0.5, 0.5])
    assert learnt.n_rows == 0


def test_rows_must_match(data):
    X, y = data
    with pytest.raises(ValueError, match="`y` must be as long as `points`"):
        learn_bandwidths(X, y[:-1])


def test_one_step_without_gain_does_not_end_a_search(monkeypatch):
    """It may be the last before a steep slope."""
    seen = []

    def steps(value, start, *, callback, **_):
        for fun in (10.0, 5.0, 4.99, 1.0, 0.95, 0.94, 0.93):
            seen.append(fun)
            try:
                callback(intermediate_result=SimpleNamespace(fun=fun, x=start))
            except StopIteration:
                break
        return SimpleNamespace(x=start, fun=fun)

    monkeypatch.setattr(widths, "minimize", steps)
    X = np.arange(6.0).reshape(3, 2)
    widths._most_likely(widths._start(2, 0.1), X, X[:, :1], widths._Where(None, "rbf"))
    assert seen[-1] == 0.94


def test_many_columns_that_matter_alike_keep_nearly_one_width(rng):
    """Of the likelihood of 500 rows, 100 widths fit the noise."""
    X = rng.normal(size=(1200, 100))
    y = X.sum(axis=1) / 10 + 0.3 * rng.normal(size=1200)
    learnt = learn_bandwidths(X, y - y.mean(), random_state=0)
    assert np.std(np.log(learnt.gamma)) < 0.4
