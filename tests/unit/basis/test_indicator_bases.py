"""One-hot and tile coding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_array_equal

from oracles.feature_maps import tile_coding
from replaystats.basis import OneHot, TileCoding


def test_one_hot_against_a_loop():
    states = [3, 0, 4, 3]
    expected = [[float(state == j) for j in range(5)] for state in states]
    assert_array_equal(OneHot(5)(states), expected)
    assert_array_equal(OneHot(5)(np.array(states, dtype=float)[:, None]), expected)


@pytest.mark.parametrize(
    ("n_tilings", "tiles", "low", "high"),
    [
        (1, (4,), (0.0,), (1.0,)),
        (8, (5,), (-2.0,), (3.0,)),
        (4, (3, 2), (-1.0, 0.0), (1.0, 5.0)),
        (5, (2, 3, 2), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    ],
)
def test_tile_coding_against_a_loop(n_tilings, tiles, low, high):
    rng = np.random.default_rng(0)
    states = rng.uniform(np.array(low) - 1, np.array(high) + 1, size=(200, len(low)))  # also outside the box
    expected = [tile_coding(n_tilings, tiles, low, high, state) for state in states]
    assert_array_equal(TileCoding(n_tilings, tiles, low, high)(states), expected)


def test_tile_coding_takes_numbers_for_all_axes():
    assert TileCoding(3, 2, low=0.0, high=[1.0, 2.0]) == TileCoding(3, [2, 2], [0.0, 0.0], [1.0, 2.0])
    assert TileCoding(3, (2, 2), low=0.0, high=1.0).dimension == 2


def test_one_tiling_is_the_plain_grid():
    states = np.linspace(0.0, 0.999, 50)
    assert_array_equal(TileCoding(1, 10, 0.0, 1.0)(states).argmax(axis=1), (10 * states).astype(int))


@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.lists(st.floats(-100, 100), min_size=1, max_size=3),
)
def test_every_state_has_one_tile_per_tiling(n_tilings, n_tiles, state):
    d = len(state)
    basis = TileCoding(n_tilings, n_tiles, low=[-1.0] * d, high=[1.0] * d)
    phi = basis([state]).reshape(n_tilings, n_tiles**d)
    assert_array_equal(phi.sum(axis=1), 1.0)


def test_every_tile_is_reachable():
    basis = TileCoding(4, 3, low=[0.0, 0.0], high=[1.0, 1.0])
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 61)] * 2), axis=-1).reshape(-1, 2)
    assert basis(grid).any(axis=0).all()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: OneHot(0), r"`n_states` must be an int >= 1; got 0\."),
        (lambda: OneHot(3)([0, 3]), r"`states` must be whole numbers in \[0, 2\]; got 3 at index 1\. Number"),
        (lambda: OneHot(3)([-1]), r"`states` must be whole numbers in \[0, 2\]; got -1 at index 0\."),
        (lambda: OneHot(3)([0.5]), r"`states` must be whole numbers in \[0, 2\]; got 0\.5 at index 0\."),
        (lambda: TileCoding(0, 2, 0.0, 1.0), r"`n_tilings` must be an int >= 1; got 0\."),
        (lambda: TileCoding(1, 0, 0.0, 1.0), r"`tiles_per_dim` must be an int >= 1; got 0\."),
        (lambda: TileCoding(1, 2.5, 0.0, 1.0), r"`tiles_per_dim` must be an int >= 1; got 2\.5\."),
        (lambda: TileCoding(1, (2, 2), [0.0] * 3, 1.0), r"`tiles_per_dim` must be an int, or 3 ints"),
        (lambda: TileCoding(1, 2, 1.0, 1.0), r"`high` must be above `low` = 1\.0 on every axis; got 1\.0\."),
        (lambda: TileCoding(1, 2, [0.0] * 3, [1.0] * 2), r"`high` must be one number, or 3 \(one per dim"),
        (lambda: TileCoding(1, 2, np.nan, 1.0), r"`low` must be a finite number in \(-inf, inf\); got nan\."),
        (lambda: TileCoding(1, 200, [0.0] * 4, 1.0), r"`tiles_per_dim` must be such that there are at most"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        make()


@pytest.mark.parametrize("basis", [OneHot(3), TileCoding(2, 2, 0.0, 2.0)], ids=repr)
@pytest.mark.parametrize("method", ["gradient", "hessian"])
def test_indicators_have_no_derivatives(basis, method):
    assert basis.derivative_order == 0
    with pytest.raises(
        TypeError, match=r"`basis` must be (twice )?differentiable; got .* have no derivatives"
    ):
        getattr(basis, method)([0, 1])
    with pytest.raises(TypeError, match=r"`basis` must be differentiable"):
        basis.directional([0, 1], [1.0, 1.0])
