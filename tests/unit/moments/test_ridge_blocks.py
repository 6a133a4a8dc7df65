"""Moments of blocks of rows are sums of those of rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import replaystats as rs
from replaystats.moments import ridge_block_moments
from replaystats.moments.linear import random_blocks


@pytest.fixture
def data(rng):
    return rng.normal(size=(50, 2)), rng.normal(size=50), rng.uniform(size=50)


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_a_block_is_the_sum_of_its_rows(data, n_outputs):
    X, y, weight = data
    y = y if n_outputs is None else np.column_stack([y, y**2])
    basis = rs.basis.Fourier(2)
    groups = list(random_blocks(50, 7, random_state=0))
    blocks = ridge_block_moments(((X[:, :1][r], y[r], weight[r]) for r in groups), basis)
    rows = rs.moments.ridge_moments(X[:, :1], y, basis, sample_weight=weight)
    assert blocks.n_observations == 7
    assert blocks.symmetric
    assert blocks.n_outputs == n_outputs
    for number, group in enumerate(groups):
        assert_allclose(blocks.g[number], rows.g[group].sum(axis=0), rtol=1e-10, atol=1e-12)
        assert_allclose(blocks.f[number], rows.f[group].sum(axis=0), rtol=1e-10, atol=1e-12)


def test_blocks_of_one_row_are_the_rows(data):
    X, y, _ = data
    blocks = ridge_block_moments((X[[i]], y[[i]]) for i in range(50))
    assert_allclose(blocks.rows, rs.moments.ridge_moments(X, y).rows, rtol=1e-12)


def test_random_blocks_share_no_row_and_hold_them_all():
    groups = list(random_blocks(103, 10, random_state=3))
    assert_array_equal(np.sort(np.concatenate(groups)), np.arange(103))
    assert {len(group) for group in groups} == {10, 11}


def test_bad_blocks():
    with pytest.raises(ValueError, match="`blocks` must be at least one block of rows; got none"):
        ridge_block_moments([])
    with pytest.raises(ValueError, match=r"`n_blocks` must be an int in \[1, 5\]; got 6"):
        random_blocks(5, 6)
