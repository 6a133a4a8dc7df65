"""Matern kernels: values of scikit-learn, slopes, widths, the device and the choice of the kernel."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import Matern

import replaystats as rs
from replaystats.kernel.kernels import LEARNT_KERNELS, MATERN, Kernel
from replaystats.kernel.likelihood import objective
from replaystats.kernel.widths import learn_bandwidths

NU = dict(zip(MATERN, (0.5, 1.5, 2.5), strict=True))


@pytest.mark.parametrize("name", MATERN)
def test_values_of_scikit_learn(rng, name):
    X, Z, gamma = rng.normal(size=(7, 3)), rng.normal(size=(5, 3)), np.array([0.5, 2.0, 0.1])
    expected = Matern(length_scale=1 / np.sqrt(2 * gamma), nu=NU[name])(X, Z)
    assert_allclose(Kernel(name, tuple(gamma))(X, Z), expected, rtol=1e-7)
    stack = Kernel(name, tuple(gamma))(np.stack([X, X]), np.stack([Z, Z]))
    assert_allclose(stack[1], expected, rtol=1e-7)


@pytest.mark.parametrize("likelihood", [True, False])
@pytest.mark.parametrize("name", LEARNT_KERNELS)
def test_slopes_are_differences(rng, likelihood, name):
    X, y, at = rng.normal(size=(30, 2)), rng.normal(size=(30, 1)), np.array([-1.0, -0.5, -1.0])
    value = objective(X, y, likelihood=likelihood, kernel=name)
    _, slope = value(at)
    found = [(value(at + e)[0] - value(at - e)[0]) / 2e-4 for e in 1e-4 * np.eye(3)]
    # rounding of squared distances at equal points moves the square root in "matern12"
    assert_allclose(slope, found, rtol=1e-3, atol=1e-3)


def test_a_column_that_does_not_matter_is_wide(rng):
    X = rng.uniform(-2, 2, size=(200, 2))
    learnt = learn_bandwidths(X, np.abs(X[:, 0]), kernel="matern32", random_state=0)
    assert learnt.gamma[0] > 50 * learnt.gamma[1]


def test_a_rough_function_is_fitted_by_a_matern_kernel():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(150, 1))
    y = np.abs(4 * X[:, 0]) + np.sign(X[:, 0]) + 0.02 * rng.normal(size=150)
    model = rs.ReplayKernelRidge(kernel="auto", random_state=0).fit(X, y)
    assert model.choices_["kernel"].value in MATERN
    low, high = model.confidence_interval(X[:5])
    assert (low < high).all()


@pytest.mark.parametrize("method", ["local", "subsets"])
def test_fits_of_torch_are_those_of_numpy(rng, method):
    torch = pytest.importorskip("torch")
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    drawn = rs.Resampling(size=20, n_resamples=5) if method == "subsets" else rs.Resampling()
    options = {"alpha": 0.1, "kernel": "matern32", "gamma": [0.5, 1.0], "method": method, "random_state": 0}
    options["resampling"] = drawn
    host = rs.ReplayKernelRidge(**options).fit(X, y).predict(X[:5])
    there = (
        rs.ReplayKernelRidge(**options).fit(torch.asarray(X), torch.asarray(y)).predict(torch.asarray(X[:5]))
    )
    assert_allclose(there.numpy(), host, rtol=1e-8)


def test_auto_compares_kernels_where_landmarks_suffice_for_the_gaussian_one():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(200, 2))
    y = np.where(X[:, 0] > 0.3, 1.0, 0.0) + 0.3 * X[:, 1] + 0.3 * rng.normal(size=200)
    assert rs.ReplayKernelRidge(kernel="rbf", random_state=0).fit(X, y).method_ == "features"
    model = rs.ReplayKernelRidge(kernel="auto", random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
