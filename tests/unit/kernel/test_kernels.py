"""Kernels on stacks of subsets equal scikit-learn's on each subset."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import pairwise_kernels

from replaystats.kernel.kernels import make_kernel


def dot_cubed(x, y, power=3):
    return (x @ y) ** power


@pytest.mark.parametrize(
    "name", ["rbf", "laplacian", "polynomial", "poly", "linear", "sigmoid", "cosine", "chi2"]
)
@pytest.mark.parametrize("gamma", [None, 0.7])
def test_stacks_equal_scikit_learn(name, gamma, rng):
    left, right = rng.uniform(size=(3, 5, 4)), rng.uniform(size=(3, 6, 4))
    kernel = make_kernel(name, n_features=4, gamma=gamma, kernel_params={"degree": 2, "coef0": 0.5})
    arguments = {"gamma": gamma, "degree": 2, "coef0": 0.5}
    if name == "chi2" and gamma is None:
        del arguments["gamma"]  # scikit-learn's own default there is 1
    for values, a, b in zip(kernel(left, right), left, right, strict=True):
        expected = pairwise_kernels(a, b, metric=name, filter_params=True, **arguments)
        assert_allclose(values, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("k", [1, 64, 65, 150])
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_the_upper_triangle_of_a_symmetric_matrix(name, k, rng):
    """Evaluated in panels from the diagonal on; what is below is never read, so it may be anything finite."""
    points = rng.normal(size=(2, k, 3))
    kernel = make_kernel(name, n_features=3, gamma=[0.2, 0.5, 1.1])
    found, expected = kernel.upper(points), kernel(points, points)
    assert_allclose(np.triu(found), np.triu(expected), rtol=1e-12)
    assert np.isfinite(found).all()


def test_a_function_of_two_rows_with_parameters(rng):
    X = rng.normal(size=(2, 4, 3))
    kernel = make_kernel(dot_cubed, n_features=3, kernel_params={"power": 2})
    assert_allclose(kernel(X, X), (X @ X.swapaxes(1, 2)) ** 2, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": "rfb"}, r'`kernel` must be one of .*; got \'rfb\'\. Did you mean "rbf"\?'),
        ({"gamma": -1.0}, r"`gamma` must be a finite number in \(0, inf\); got -1.0"),
        ({"kernel_params": {"degree": float("nan")}}, r"`degree` must be a finite number"),
        (
            {"kernel_params": {"power": 2}},
            r"`kernel_params` must be of `degree` and `coef0` for a kernel with a name",
        ),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_kernel(**{"kernel": "rbf", "n_features": 2} | arguments)
