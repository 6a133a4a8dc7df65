"""Checks at the door: what passes, what is refused, and the sentence that names parameter and value."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from replaystats._core.validation import (
    check_array,
    check_bool,
    check_choice,
    check_instance,
    check_int,
    check_length,
    check_real,
    check_text,
    resolve_subsample_size,
)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_integers_of_any_kind_become_int(value):
    assert type(check_int(value, "n")) is int
    assert check_int(value, "n") == 3


@pytest.mark.parametrize("value", [3.0, "3", True, np.True_, None, Fraction(3)])
def test_what_is_not_an_integer_is_a_type_error(value):
    with pytest.raises(TypeError, match="`n` must be an int >= 1; got "):
        check_int(value, "n")


@pytest.mark.parametrize("value", [0, -1, 11])
def test_integers_outside_the_range(value):
    with pytest.raises(ValueError, match=rf"`n` must be an int in \[1, 10\]; got {value}\. Use five\."):
        check_int(value, "n", high=10, hint="Use five.")


def test_both_ends_of_an_integer_range_belong_to_it():
    assert [check_int(v, "n", low=-2, high=2) for v in (-2, 2)] == [-2, 2]


@pytest.mark.parametrize(
    ("closed", "allowed"),
    [("both", (True, True)), ("left", (True, False)), ("right", (False, True)), ("neither", (False, False))],
)
def test_ends_of_a_real_interval(closed, allowed):
    for value, passes in zip((0.0, 1.0), allowed, strict=True):
        if passes:
            assert check_real(value, "x", low=0, high=1, closed=closed) == value
        else:
            with pytest.raises(ValueError, match="`x` must be a finite number in "):
                check_real(value, "x", low=0, high=1, closed=closed)
    assert check_real(0.5, "x", low=0, high=1, closed=closed) == 0.5


def test_the_rule_shows_which_ends_belong():
    with pytest.raises(ValueError, match=r"in \(0, 1\]; got 2"):
        check_real(2, "x", low=0, high=1, closed="right")
    with pytest.raises(ValueError, match=r"in \[0, inf\); got -1"):
        check_real(-1, "x", low=0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_are_finite(value):
    with pytest.raises(ValueError, match=r"a finite number in \(-inf, inf\)"):
        check_real(value, "x")


@pytest.mark.parametrize("value", ["1", True, None, 1j, np.array([1.0])])
def test_what_is_not_a_number_is_a_type_error(value):
    with pytest.raises(TypeError, match="`x` must be a finite number"):
        check_real(value, "x")


@pytest.mark.parametrize("value", [2, np.float32(2), Fraction(2)])
def test_numbers_of_any_kind_become_float(value):
    assert type(check_real(value, "x")) is float


def test_choices():
    assert check_choice("mean", "combine", ["mean", "median"]) == "mean"
    with pytest.raises(
        ValueError, match=r'`combine` must be one of "mean", "median"; got \'medain\'\. Did you'
    ):
        check_choice("medain", "combine", ["mean", "median"])
    with pytest.raises(ValueError, match=r"got 3\.$"):
        check_choice(3, "combine", ["mean", "median"])


@pytest.mark.parametrize("value", [[1, 2], (1, 2), np.array([1, 2], dtype=np.int8), np.array([1.0, 2.0])])
def test_arrays_become_float64(value):
    array = check_array(value, "X", ndim=1)
    assert array.dtype == np.float64
    assert array.tolist() == [1.0, 2.0]


def test_arrays_are_not_copied_without_need():
    array = np.ones(3)
    assert check_array(array, "X", ndim=1) is array


@pytest.mark.parametrize("value", [["a", "b"], [[1], [1, 2]], object()])
def test_what_is_not_numeric_is_a_type_error(value):
    with pytest.raises(TypeError, match="`X` must be a numeric 1-D or 2-D array; got "):
        check_array(value, "X", ndim=(1, 2))


def test_dimensions_are_named():
    with pytest.raises(ValueError, match=r"`X` must be a 1-D or 2-D array; got shape \(1, 1, 1\)"):
        check_array(np.ones((1, 1, 1)), "X", ndim=(1, 2))


def test_empty_arrays_pass_only_where_allowed():
    with pytest.raises(ValueError, match=r"`X` must be non-empty; got shape \(0,\)"):
        check_array([], "X", ndim=1)
    assert check_array([], "X", ndim=1, allow_empty=True).size == 0


def test_the_first_bad_entry_is_pointed_at():
    X = np.zeros((3, 2))
    X[1, 1], X[2, 0] = np.nan, np.inf
    with pytest.raises(
        ValueError, match=r"2 NaN or infinite value\(s\), the first at index \(1, 1\)\. Remove"
    ):
        check_array(X, "X", ndim=2)


def test_lengths():
    check_length(3, 3, "y", "X")
    with pytest.raises(ValueError, match=r"`y` must be as long as `X` \(3\); got 2\."):
        check_length(2, 3, "y", "X")


@pytest.mark.parametrize(
    ("value", "size"), [(1, 1), (10, 10), (1.0, 10), (0.5, 5), (1e-9, 1), (0.26, 3), (np.float32(0.5), 5)]
)
def test_sizes_of_subsets(value, size):
    assert resolve_subsample_size(value, 10) == size


@pytest.mark.parametrize("value", [0, 11, -1, 0.0, 1.1, np.nan])
def test_sizes_out_of_range(value):
    with pytest.raises(
        ValueError, match=r"`subsample_size` must be an int in \[1, 10\] or a float in \(0, 1\]"
    ):
        resolve_subsample_size(value, 10)


@pytest.mark.parametrize("value", ["half", True, None])
def test_sizes_that_are_no_numbers(value):
    with pytest.raises(TypeError, match="`subsample_size` must be"):
        resolve_subsample_size(value, 10)


def test_flags_and_text():
    assert check_bool(np.bool_(False), "flag") is False
    for value in (0, 1, "no", None):
        with pytest.raises(TypeError, match="`flag` must be True or False; got "):
            check_bool(value, "flag")
    assert check_text("a", "name") == "a"
    with pytest.raises(TypeError, match=r"`name` must be text; got 3\."):
        check_text(3, "name")


def test_instances_and_the_class_in_their_place():
    assert check_instance(3, "n", (int, str)) == 3
    with pytest.raises(TypeError, match=r"`n` must be a int or str; got float\. Round it\."):
        check_instance(3.0, "n", (int, str), "Round it.")
    with pytest.raises(TypeError, match="must be an ArithmeticError; got the class ZeroDivisionError"):
        check_instance(ZeroDivisionError, "error", ArithmeticError)
