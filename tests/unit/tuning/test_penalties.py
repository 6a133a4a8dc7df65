"""Penalties of regression against refits, scikit-learn and known optima."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from oracles.penalties import (
    kernel_leave_one_out,
    kernel_leave_one_out_error,
    ridge_leave_one_out,
)
from replaystats.kernel.kernels import make_kernel
from replaystats.tuning.penalties import choose_width, kernel_penalties

ALPHAS = [1e-3, 0.1, 3.0, 50.0]


def left_out_squared(K, y, alpha):
    """Squared errors of one refit per observation."""
    return np.array([kernel_leave_one_out_error(K, y, alpha, i) for i in range(len(K))])


@pytest.fixture
def regression(rng):
    X = rng.normal(size=(25, 6))
    return X, X[:, :2] + 0.5 * rng.normal(size=(25, 2))  # two outputs


@pytest.mark.parametrize("shape", [(25, 6), (10, 30)])
def test_leave_one_out_of_a_linear_kernel_equals_ridge_refits(rng, shape):
    X = rng.normal(size=shape)
    y = rng.normal(size=(shape[0], 2))
    expected = [ridge_leave_one_out(X, y, alpha) for alpha in ALPHAS]
    np.testing.assert_allclose(kernel_penalties(X @ X.T, y, ALPHAS).errors, expected, rtol=1e-8)


def test_kernel_leave_one_out_equals_refits(regression):
    X, y = regression
    K = make_kernel("rbf", n_features=6)(X, X)
    expected = [kernel_leave_one_out(K, y, alpha) for alpha in ALPHAS]
    np.testing.assert_allclose(kernel_penalties(K, y, ALPHAS).errors, expected, rtol=1e-8)


def test_kernel_leave_one_out_equals_scikit_learn(regression):
    X, y = regression
    K = make_kernel("rbf", n_features=6)(X, X)
    model = KernelRidge(alpha=0.1, kernel="rbf", gamma=1 / 6)
    predicted = cross_val_predict(model, X, y, cv=LeaveOneOut())
    np.testing.assert_allclose(kernel_penalties(K, y, [0.1]).errors, np.mean((y - predicted) ** 2), rtol=1e-8)


def test_small_penalties_of_a_nearly_singular_kernel_stay_finite(rng):
    points = rng.uniform(size=(60, 1))
    K = make_kernel("rbf", n_features=1, gamma=0.1)(points, points)  # numerical rank about 8
    errors = kernel_penalties(K, points[:, 0]).errors
    assert np.isfinite(errors).all()
    # the kernel is so flat that a line is nearly in its span: small penalties predict almost perfectly
    assert errors.min() < 1e-6


def test_the_default_path_brackets_the_optimum(rng):
    X = rng.normal(size=(100, 50))
    theta = rng.normal(size=50) / 5
    curve = kernel_penalties(X @ X.T, X @ theta + rng.normal(size=100))
    # Bayes: the best penalty is noise variance / prior variance = 25
    assert 10 < curve.best < 60
    assert "leave-one-out" in curve.choice.reason
    assert "end of the path" not in curve.choice.reason


def test_the_end_of_a_path_is_pointed_out(regression):
    X, y = regression
    assert "end of the path" in kernel_penalties(X @ X.T, y, [100.0, 200.0]).choice.reason


def test_noise_alone_gets_the_largest_penalty(rng):
    X = rng.normal(size=(40, 3))
    y = rng.normal(size=40)
    y -= X @ np.linalg.lstsq(X, y, rcond=None)[0]  # nothing to explain
    assert kernel_penalties(X @ X.T, y, ALPHAS).best == ALPHAS[-1]


def test_gamma_follows_the_roughness_of_the_target(rng):
    X = rng.uniform(size=(300, 1))
    kernel = make_kernel("rbf", n_features=1)
    noise = 0.1 * rng.normal(size=300)
    smooth = choose_width(X, np.sin(3 * X[:, 0]) + noise, kernel)
    rough = choose_width(X, np.sin(80 * X[:, 0]) + noise, kernel)
    assert rough.value >= 4 * smooth.value


def test_gamma_has_the_smallest_error_at_its_best_penalty(rng):
    X = rng.uniform(size=(50, 2))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=50)
    gammas = 4.0 ** np.arange(-3, 4) / np.median(pdist(X) ** 2)
    kernels = [make_kernel("rbf", n_features=2, gamma=g)(X, X) for g in gammas]
    errors = [left_out_squared(K, y, kernel_penalties(K, y).best).mean() for K in kernels]
    gamma = choose_width(X, y, make_kernel("rbf", n_features=2))
    assert gamma.value == pytest.approx(gammas[np.argmin(errors)])
    assert "smallest leave-one-out error" in gamma.reason


def test_equal_points_do_not_stop_the_heuristic():
    gamma = choose_width(np.ones((5, 1)), np.arange(5.0), make_kernel("rbf", n_features=1))
    assert np.isfinite(gamma.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernel_penalties([[1.0]], [1.0], [0.0]), "`alphas` must be positive; got 0"),
        (lambda: kernel_penalties([[1.0]], [1.0, 2.0]), r"`y` must be as long as `K` \(1\); got 2"),
        (lambda: kernel_penalties(np.ones((2, 3)), np.ones(2)), r"`K` must be square; got shape \(2, 3\)"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
