"""Columns with long tails: which they are, and that compressing them depends on no unit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kurtosis

import replaystats as rs
from replaystats.kernel.scaling import Compression, Scaling, long_tailed
from support.cases import slow_except


def skewed(rng, n, p=3):
    return np.exp(2 * rng.normal(size=(n, p)))


def test_long_tails_are_those_of_large_kurtosis(rng):
    n = 2000
    normal, uniform, exponential = rng.normal(size=n), rng.uniform(size=n), rng.exponential(size=n)
    wild, rare = np.exp(2 * rng.normal(size=n)), (rng.random(n) < 0.004).astype(float)
    counts = np.where(rng.random(n) < 0.98, 0.0, rng.integers(1, 50, n))
    points = np.column_stack([normal, uniform, exponential, wild, rare, counts, np.full(n, 0.1)])
    assert long_tailed(points).tolist() == [False, False, False, True, False, True, False]
    assert kurtosis(wild) > 20 > kurtosis(exponential)


@pytest.mark.parametrize("unit", [-1e-6, 1.0, 1e9])
def test_compression_does_not_depend_on_units(rng, unit):
    X = skewed(rng, 300)
    plain, other = Scaling.compressed(X), Scaling.compressed(unit * X + 3 * unit)
    assert len(plain.tails.columns) == 3
    assert_allclose(np.sign(unit) * other(unit * X + 3 * unit), plain(X), rtol=1e-6, atol=1e-9)


def test_the_scale_is_that_of_rows_off_the_median():
    x = np.r_[np.zeros(900), [2.0] * 60, [1e4] * 4, [-2.0] * 36]
    found = Compression.of(x[:, None])
    assert found.centre == 0
    assert found.scale == 2
    assert_allclose(found(np.array([[2e4]])), np.arcsinh(1e4))


@pytest.mark.parametrize("n", slow_except([400], [400, 1500]))
def test_predictions_do_not_depend_on_units_of_columns_with_long_tails(rng, n):
    X = skewed(rng, n)
    y = np.log(X[:, 0]) + np.tanh(X[:, 1]) + 0.1 * rng.normal(size=n)
    units = np.array([1e-3, 1.0, 1e6])
    plain = rs.ReplayKernelRidge(random_state=0).fit(X, y)
    other = rs.ReplayKernelRidge(random_state=0).fit(X * units - 5, y)
    assert plain.choices_["standardize"].value == "arcsinh"
    # widths are found by an iteration that rounding may lead elsewhere
    assert_allclose(other.predict(X[:50] * units - 5), plain.predict(X[:50]), atol=0.02)


@pytest.mark.parametrize("n", slow_except([400], [400, 1500]))
def test_long_tails_are_compressed_where_that_predicts_better_and_only_there(rng, n):
    X, new = skewed(rng, n), skewed(rng, 1000)
    for function, units in (
        (lambda X: np.log(X[:, 0]) + np.log(X[:, 1]), "arcsinh"),
        (lambda X: X[:, 0] + X[:, 1], "global"),
    ):
        y = function(X) + 0.1 * rng.normal(size=n)
        model = rs.ReplayKernelRidge(kernel="rbf", random_state=0).fit(X, y)
        assert model.choices_["standardize"].value == units, model.choices_["standardize"]
        other = "global" if units == "arcsinh" else "arcsinh"
        worse = rs.ReplayKernelRidge(kernel="rbf", standardize=other, random_state=0).fit(X, y)
        missed = [np.median(np.abs(one.predict(new) - function(new))) for one in (model, worse)]
        assert missed[0] < missed[1]


def test_columns_without_long_tails_leave_nothing_to_choose(rng):
    X = rng.normal(size=(200, 2))
    y = np.sin(X[:, 0])
    plain = rs.ReplayKernelRidge(random_state=0).fit(X, y)
    assert "standardize" not in plain.choices_
    given = rs.ReplayKernelRidge(standardize="arcsinh", random_state=0).fit(X, y)
    assert_allclose(given.predict(X), plain.predict(X))


@pytest.mark.parametrize("method", slow_except(["subsets"], ["subsets", "features", "local"]))
def test_every_method_predicts_in_the_chosen_units(rng, method):
    X = skewed(rng, 300)
    y = np.log1p(X[:, 0]) + 0.1 * rng.normal(size=300)
    model = rs.ReplayKernelRidge(method=method, random_state=0).fit(X, y)
    assert model.choices_["standardize"].value == "arcsinh"
    new = skewed(rng, 200)
    truth = np.log1p(new[:, 0])
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.25
    low, high = model.confidence_interval(new)
    assert np.mean((low <= truth) & (truth <= high)) > 0.8
    low, high = model.predict_interval(new, 0.9)
    seen = truth + 0.1 * rng.normal(size=200)
    assert np.mean((low <= seen) & (seen <= high)) > 0.8
