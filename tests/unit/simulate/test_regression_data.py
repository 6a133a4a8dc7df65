"""The regression data of the paper: two bumps (simulated) and Boston (read from a package)."""

from __future__ import annotations

import math
import sys
from types import ModuleType

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from replaystats._core.errors import MissingExtraError
from replaystats.simulate import two_bumps, two_bumps_function
from replaystats_paper.sources import load_boston


def test_two_bumps_function_at_points_worked_by_hand():
    # |(0, 0) - 1/4|^2 = 1/8 and |(0, 0) - 7/10|^2 = 49/50; at (1, 0.5) they are 5/8 and 13/100
    expected = [math.exp(-1.25) + 0.5 * math.exp(-13.72), math.exp(-6.25) + 0.5 * math.exp(-1.82)]
    assert_allclose(two_bumps_function([[0.0, 0.0], [1.0, 0.5]]), expected, rtol=1e-13)


def test_two_bumps_law():
    X, y = two_bumps(4000, random_state=0)
    noise = y - two_bumps_function(X)
    assert stats.kstest(noise, stats.norm(0.0, 0.5).cdf).pvalue > 1e-3
    for column in X.T:
        assert stats.kstest(column, stats.uniform(0.0, 1.0).cdf).pvalue > 1e-3
    # correlations of independent columns are within 4.5 / sqrt(n)
    assert np.abs(np.corrcoef(np.column_stack([X, noise]).T) - np.eye(3)).max() < 4.5 / math.sqrt(4000)


def test_two_bumps_without_noise_is_the_function_at_the_same_points():
    X, y = two_bumps(10, noise=0.0, random_state=5)
    assert_array_equal(y, two_bumps_function(X))
    assert_array_equal(X, two_bumps(10, random_state=5)[0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: two_bumps(0), "`n` must be an int >= 1"),
        (lambda: two_bumps(5, noise=-1.0), "`noise` must be a finite number"),
        (lambda: two_bumps_function(np.zeros((4, 3))), r"`X` must be of shape \(m, 2\); got shape \(4, 3\)"),
    ],
)
def test_two_bumps_rejects(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_boston_is_the_data_of_the_paper():
    pytest.importorskip("mlxtend")
    X, y = load_boston()
    assert X.shape == (506, 13)
    assert X.dtype == y.dtype == np.float64
    assert y.mean() == pytest.approx(22.532806, abs=1e-6)
    assert set(np.unique(X[:, 3])) == {0.0, 1.0}  # chas, the column that a subset can hold constant


def test_boston_without_its_extra_says_which(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(
        MissingExtraError, match=r"The Boston data needs .*`mlxtend`.*replaystats\[experiments\]"
    ):
        load_boston()


def test_boston_notices_other_data(monkeypatch):
    impostor = ModuleType("mlxtend.data")
    impostor.boston_housing_data = lambda: (np.zeros((506, 12)), np.zeros(506))
    monkeypatch.setitem(sys.modules, "mlxtend.data", impostor)
    with pytest.raises(
        RuntimeError, match=r"must be \(506, 13\) with mean 22\.532806; got shape \(506, 12\)"
    ):
        load_boston()
