"""What `check_array` and its companions refuse: everything that float64 would change silently."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import replaystats as rs
from replaystats._core.validation import check_array, check_bool, check_integers, check_known

REFUSED = {
    "masked": (np.ma.array([1.0, 2.0], mask=[False, True]), "1 masked entries"),
    "complex": (np.array([1.0 + 0.0j]), "complex numbers"),
    "dates": (np.array(["2026-01-01"], dtype="M8[s]"), "dates"),
    "durations": (np.array([5], dtype="m8[s]"), "durations"),
    "records": (np.array([(1, 2.0)], dtype="i4,f8"), "records"),
    "text": (np.array(["1", "2"]), "text"),
    "text in objects": (np.array(["1", 2.0], dtype=object), "'1' among its entries"),
    "None": ([None, 1.0], "None among its entries"),
    "pandas dates": (pd.Series(pd.to_datetime(["2026-01-01"])), "dates"),
    "sets": ([{1}, {2}], "set among its entries"),
}


@pytest.mark.parametrize(("value", "got"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_real_number_is_refused(value, got):
    with pytest.raises(TypeError, match=f"`x` must be a numeric 1-D array; got {got}"):
        check_array(value, "x", ndim=1)


@pytest.mark.parametrize(
    "value", [[2**53 + 1], np.array([-(2**53) - 1]), np.array([2**63 + 1], dtype=np.uint64), [2**70 + 1]]
)
def test_integers_that_floats_would_round_are_refused(value):
    with pytest.raises(ValueError, match=r"`x` must be .* that float64 holds exactly"):
        check_array(value, "x", ndim=1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.ma.array([1.0, 2.0], mask=False), [1.0, 2.0]),
        ([2**53, -(2**53)], [2.0**53, -(2.0**53)]),
        ([2**60], [2.0**60]),
        ([Decimal("0.5"), Fraction(1, 4)], [0.5, 0.25]),
        ([True, False], [1.0, 0.0]),
        (pd.Series([1, 2], dtype="Int64"), [1.0, 2.0]),
    ],
)
def test_what_floats_hold_is_taken(value, expected):
    assert check_array(value, "x", ndim=1).tolist() == expected


@pytest.mark.parametrize("value", [0, 1, "no", None, 2, 1.0, [True], np.array([True])])
def test_only_booleans_are_flags(value):
    with pytest.raises(TypeError, match="`flag` must be True or False"):
        check_bool(value, "flag")


def test_unsigned_integers_do_not_wrap_around():
    bounds = check_integers(np.array([0, 5, 3], dtype=np.uint32), "offsets")
    assert np.diff(bounds).tolist() == [5, -2]
    with pytest.raises(ValueError, match=r"below 2\^63"):
        check_integers(np.array([2**63], dtype=np.uint64), "offsets")
    with pytest.raises(ValueError, match="a 1-D array of integers"):
        check_integers([0.0, 1.0], "offsets")


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1.0, np.nan]),
        np.array(["a", None], dtype=object),
        np.array(["a", np.nan], dtype=object),
        np.array(["2026-01-01", "NaT"], dtype="M8[s]"),
    ],
)
def test_a_missing_label_is_refused(labels):
    with pytest.raises(ValueError, match="known in every row; got a missing value in row 1"):
        check_known(labels, "episode")


@pytest.mark.parametrize("number", [1e150, -1e80, 1e-200])
def test_numbers_without_fourth_powers_are_refused(number):
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    for regressor in (rs.ReplayRegressor(LinearRegression()), rs.ReplayKernelRidge()):
        with pytest.raises(ValueError, match="`X` must be of a magnitude"):
            regressor.fit(np.full((6, 2), number), y)
        with pytest.raises(ValueError, match="`y` must be of a magnitude"):
            regressor.fit(X, np.full(6, number))
    with pytest.raises(ValueError, match="`rewards` must be of a magnitude"):
        rs.Trajectories(states=np.ones((2, 3)), rewards=np.full((2, 2), number))


def test_regressors_do_not_round_integers_or_drop_imaginary_parts():
    X, y = np.arange(12).reshape(6, 2), np.arange(6.0)
    for regressor in (rs.ReplayRegressor(LinearRegression()), rs.ReplayKernelRidge()):
        with pytest.raises(ValueError, match="`X` must be integers that float64 holds exactly"):
            regressor.fit(X + 2**60 + 1, y)
        with pytest.raises(ValueError, match="`y` must be real numbers; got complex"):
            regressor.fit(X, y + 1j)
