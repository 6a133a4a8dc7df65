"""Smoothing bias of known processes: closed forms, SciPy's normal density, and what intervals say of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import replaystats as rs
from replaystats.kernel import function_error
from replaystats.kernel.function_error import Roughness, roughness, smoothing_bias
from replaystats.kernel.kernels import Kernel
from replaystats.kernel.problem import KernelProblem

GAMMA, ALPHA = 0.7, 2.0
ONE_PROCESS = Roughness(
    kernels=np.array(["rbf"]),
    gammas=np.full((1, 2), GAMMA),
    scales=np.ones((1, 1)),
    weights=np.ones(1),
    dimension=1.0,
    mean_error=np.zeros(1),
)


@pytest.fixture
def data(rng):
    X = rng.uniform(-3, 3, size=(80, 2))
    return X, np.sin(X[:, 0]) + rng.normal(size=80), rng.uniform(-3, 3, size=(50, 2))


def kernel(a, b):
    return np.exp(-GAMMA * ((a[:, None] - b[None]) ** 2).sum(axis=2))


def closed_form(X, points):
    """k(x, x) - 2 l^T k(x) + l^T K l with l = (K + alpha I)^-1 k(x)."""
    K, k = kernel(X, X), kernel(X, points)
    weights = np.linalg.solve(K + ALPHA * np.eye(len(X)), k)
    return 1 - 2 * (weights * k).sum(axis=0) + np.einsum("im,ij,jm->m", weights, K, weights)


METHODS = {
    "local": {"method": "local", "resampling": rs.Resampling(size=1.0, n_resamples=1)},
    "subsets": {"method": "subsets", "resampling": rs.Resampling(size=1.0, n_resamples=1)},
    "features": {"method": "features"},
}


@pytest.mark.parametrize("method", METHODS)
def test_bias_of_one_process_is_that_of_the_closed_form(data, method, monkeypatch):
    """2000 functions of 500 cosines: a relative error of sqrt(2 / 2000) = 3 % from the first, 4 % in all."""
    monkeypatch.setattr(function_error, "MANY", 2000)
    X, y, points = data
    model = rs.ReplayKernelRidge(ALPHA, gamma=GAMMA, standardize=None, random_state=0, **METHODS[method])
    model.fit(X, y)
    problem = KernelProblem.checked(X, y, ALPHA, Kernel("rbf", GAMMA), None, None)
    found = smoothing_bias(model.estimate_.members, problem, points, ONE_PROCESS)[:, 0]
    expected = closed_form(X, points)
    assert_allclose(found.mean(), expected.mean(), rtol=0.1)
    assert_allclose(found, expected, rtol=0.35)


@pytest.mark.parametrize("method", METHODS)
def test_bias_does_not_depend_on_the_mean_of_the_targets(data, method):
    """A mean of exactly zero is an intercept like any other: functions are fitted with one."""
    X, _, points = data
    y = np.tile([1.0, -1.0], 40)  # two classes, as often as each other
    fits = [
        rs.ReplayKernelRidge(ALPHA, gamma=GAMMA, random_state=0, **METHODS[method]).fit(X, y + mean)
        for mean in (0.0, 8.0)
    ]
    zero, other = (
        smoothing_bias(
            model.estimate_.members,
            KernelProblem.checked(X, model.y_fit_, 1.0, Kernel("rbf", GAMMA), "global", None),
            points,
            ONE_PROCESS,
        )
        for model in fits
    )
    assert_allclose(zero, other, rtol=1e-7)


def smoothing_variance(model, points):
    """What smoothing bias adds to the variance of the expected prediction."""
    whole, expected = model.confidence_interval(points).pivot, model.estimate_.pivot(points)
    return whole.standard_error**2 - expected.standard_error**2


def test_features_of_compressed_columns_have_the_bias_of_the_exact_fit(rng):
    """Landmarks that lose nothing: both are the same fit, in units that are not linear in the columns."""
    X = np.exp(2.0 * rng.normal(size=(150, 2)))
    y, points = np.sin(np.log(X[:, 0])) + 0.1 * rng.normal(size=150), X[:20]
    common = {"gamma": GAMMA, "standardize": "arcsinh", "random_state": 0}
    found, wanted = (
        rs.ReplayKernelRidge(ALPHA, method=method, **common).fit(X, y) for method in ("features", "local")
    )
    assert_allclose(smoothing_variance(found, points), smoothing_variance(wanted, points), rtol=0.04)


def test_processes_are_weighed_by_their_likelihood(data):
    """The scale of every process is its most likely one; SciPy has the density."""
    X, y, _ = data
    problem = KernelProblem.checked(X, y, 1.0, Kernel("rbf", GAMMA), None, None)
    found = roughness(problem)
    cells = [len(function_error._RATIOS) * 2 + 24, len(function_error._RATIOS) * 3 + 26]
    logs = []
    for cell in cells:
        K = np.exp(-found.gammas[cell, 0] * ((X[:, None] - X[None]) ** 2).sum(axis=2))
        ratio = function_error._RATIOS[cell % len(function_error._RATIOS)]  # of the mean eigenvalue, one
        covariance = found.scales[cell, 0] * (K + ratio * np.eye(len(X)))
        logs.append(stats.multivariate_normal(cov=covariance).logpdf(y))
    assert_allclose(np.diff(np.log(found.weights[cells])), np.diff(logs), rtol=1e-6)
    assert_allclose(found.weights.sum(), 1.0)


def test_rows_of_weight_zero_say_nothing_about_the_function(data):
    X, y, _ = data
    weight = np.r_[np.ones(40), np.zeros(40)]
    settings = (1.0, Kernel("rbf", GAMMA), None)
    half = roughness(KernelProblem.checked(X[:40], y[:40], *settings, None))
    both = roughness(KernelProblem.checked(X, y, *settings, weight))
    assert_allclose(both.weights @ both.scales, half.weights @ half.scales, rtol=1e-9)


def test_draws_follow_the_weights():
    weights, scales = np.array([0.25, 0.75]), np.array([[1.0], [4.0]])
    rough = Roughness(
        kernels=np.array(["rbf", "matern32"]),
        gammas=np.array([[1.0, 5.0], [2.0, 6.0]]),
        scales=scales,
        weights=weights,
        dimension=3.0,
        mean_error=np.zeros(1),
    )
    kernels, gammas, scales = rough.draw(8)
    assert kernels.tolist() == ["rbf"] * 2 + ["matern32"] * 6
    assert rough.probability_of_kinks("rbf") == 0.75
    assert gammas.tolist() == [[1.0, 5.0]] * 2 + [[2.0, 6.0]] * 6
    assert scales[:, 0].tolist() == [1.0] * 2 + [4.0] * 6


def test_the_interval_has_its_parts(data):
    X, y, points = data
    model = rs.ReplayKernelRidge(random_state=0).fit(X, y)
    interval = model.confidence_interval(points)
    assert (smoothing_variance(model, points) > 0).all()
    t = stats.t.ppf(0.975, interval.pivot.degrees)
    assert_allclose(interval.high - interval.low, 2 * t * interval.pivot.standard_error)
    assert "covers the function itself" in interval.sentences[0]
    assert "smoothing bias included" in interval.sentences[0]


def test_processes_of_equal_widths_join_those_chosen(data):
    """That a feature plays no role may be luck."""
    X, y, _ = data
    chosen = Kernel("rbf", (1.0, 1e-6))
    found = roughness(KernelProblem.checked(X, y, 1.0, chosen, None, None))
    equal = 0.25 / X.var(axis=0)
    assert np.isclose(found.gammas, equal).all(axis=1).any()
    assert (found.gammas == [1.0, 1e-6]).all(axis=1).any()


@pytest.mark.parametrize("method", ["features", "subsets", "local"])
def test_a_fit_with_an_intercept_has_the_noise_of_a_mean_at_least(rng, method):
    """Features that never vary leave the mean of the targets; its interval was a tenth of Student's."""
    y = rng.normal(size=50)
    model = rs.ReplayKernelRidge(method=method, random_state=0).fit(np.ones((50, 2)), y)
    low, high = model.confidence_interval(np.ones((1, 2)))
    expected = stats.t.interval(0.95, 49, y.mean(), y.std(ddof=1) / np.sqrt(50))
    assert_allclose((low[0], high[0]), expected, atol=0.03)


def test_far_from_the_data_the_interval_is_as_wide_as_the_function_may_vary(data):
    X, y, _ = data
    model = rs.ReplayKernelRidge(random_state=0).fit(X, y)
    near, far = (np.ptp(model.confidence_interval(x), axis=0)[0] for x in (X[:1], X[:1] + 50))
    assert far > 2 * near


def test_outputs_have_their_own_scales(data):
    X, y, points = data
    both = rs.ReplayKernelRidge(0.5, gamma=0.5, random_state=0).fit(X, np.column_stack([y, 10 * y]))
    low, high = both.confidence_interval(points)
    assert_allclose((high - low)[:, 1], 10 * (high - low)[:, 0], rtol=1e-6)


def test_a_kernel_that_cannot_be_drawn_from_says_so(data):
    X, y, points = data
    model = rs.ReplayKernelRidge(0.5, kernel="laplacian", random_state=0).fit(X, y)
    with pytest.warns(rs.ReplayWarning, match="smoothing bias is not in it"):
        interval = model.confidence_interval(points)
    assert "covers the expected prediction" in interval.sentences[0]


def test_sentences_say_that_jumps_are_not_covered_where_the_function_has_one():
    rng = np.random.default_rng(11)
    X = rng.uniform(-1, 1, size=(200, 2))
    noise = 0.3 * rng.normal(size=200)
    said = []
    for f in (np.where(X[:, 0] > 0.3, 1.0, 0.0), np.sin(3 * X[:, 0])):
        model = rs.ReplayKernelRidge(kernel="rbf", random_state=0).fit(X, f + noise)
        said.append("except near jumps and kinks" in str(model.confidence_interval(X[:2]).sentences))
    assert said == [True, False]
