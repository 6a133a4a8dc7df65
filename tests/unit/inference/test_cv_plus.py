"""CV+ against a reference implementation that goes row by row."""

from __future__ import annotations

import pytest
from numpy.testing import assert_allclose

from oracles import cv_plus as reference
from replaystats.inference.new_observation import RowsOfFolds, cv_plus


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_interval_row_by_row(rng, grouped, level):
    fold = rng.integers(4, size=30)
    groups = rng.integers(9, size=30) if grouped else None
    sizes, means, spreads = rng.exponential(size=30), rng.normal(size=(4, 3, 1)), rng.uniform(1, 2, (4, 3, 1))
    found = cv_plus(
        RowsOfFolds(fold, sizes[:, None], groups), lambda part: (means[:, part], spreads[:, part]), 3, level
    )
    for point in range(3):
        expected = reference.interval(means[:, point, 0], spreads[:, point, 0], fold, sizes, level, groups)
        assert_allclose((found.low[point, 0], found.high[point, 0]), expected)
