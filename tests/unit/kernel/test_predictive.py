"""Spread of a new observation against the formula of a Gaussian process, and rows outside the data."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from oracles.cv_plus import predictive_variance
from replaystats._core.thresholds import SMALL
from replaystats.kernel.kernels import Kernel
from replaystats.kernel.predictive import Spread, beyond_numbers
from replaystats.kernel.problem import KernelProblem


def test_spread_is_that_of_the_process(rng):
    X, alpha, kernel = rng.normal(size=(40, 2)), 0.2, Kernel("rbf", 0.7)
    spread = Spread.of(KernelProblem.checked(X, X[:, 0], alpha, kernel, None, None))
    K = kernel(X, X)
    own = []
    for i in range(40):
        rest = np.delete(np.arange(40), i)
        own.append(np.sqrt(predictive_variance(K[np.ix_(rest, rest)], K[rest, i], alpha)))
    typical = np.quantile(own, 1.0 - SMALL)
    assert_allclose(spread.of_rows(np.arange(40)), np.maximum(np.array(own) / typical, 1), rtol=1e-6)
    far = np.array([[0.0, 0.0], [9.0, 0.0]])
    expected = [np.sqrt(predictive_variance(K, kernel(X, x[None])[:, 0], alpha)) for x in far]
    assert_allclose(spread(far), np.maximum(np.array(expected) / typical, 1), rtol=1e-6)


def test_rows_like_the_training_rows_are_rarely_outside():
    rng = np.random.default_rng(0)
    shares = [
        beyond_numbers(rng.normal(size=(200, 5)), rng.normal(size=(200, 5)), 0.005).mean() for _ in range(50)
    ]
    assert np.mean(shares) < 0.01  # at most 1 / 201 expected; 10,000 rows


def test_few_rows_of_many_columns_are_rarely_beyond_the_range():
    """30 tables of 40 rows and 100 columns: a new row is beyond with probability 1 / 41 at most, +- .009."""
    shares = []
    for seed in range(30):
        own = np.random.default_rng(seed)
        shares.append(beyond_numbers(own.normal(size=(40, 100)), own.normal(size=(200, 100)), 0.005).mean())
    assert np.mean(shares) < 0.04
