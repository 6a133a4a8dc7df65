"""Exact sums against math.fsum, and the same bits for every way to add them up."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import replaystats as rs
from replaystats.engine import JoblibExecutor
from replaystats.moments.streamed import ExactGrid, column_maxima


def grid_of(rows, n_terms=None):
    return ExactGrid.from_maxima(column_maxima(rows), len(rows) if n_terms is None else n_terms)


def wide_range(rng, n, c=12):
    """Columns of very different sizes, a constant, a zero and a nearly cancelling one."""
    rows = rng.normal(size=(n, c)) * 10.0 ** rng.integers(-8, 9, size=c)
    rows[:, 0] = 0.0
    rows[:, 1] = 1.0 / 3.0
    rows[: n // 2, 2], rows[n // 2 :, 2] = 1e9, -1e9 + 1e-6
    return rows


def test_slices_add_up_to_the_number(rng):
    rows = wide_range(rng, 1000)
    grid = grid_of(rows)
    np.testing.assert_array_equal(grid.join(*grid.split(rows)), rows)


def test_sums_equal_fsum(rng):
    rows = wide_range(rng, 5000)
    grid = grid_of(rows)
    sums = grid.join(*(part.sum(axis=0) for part in grid.split(rows)))
    np.testing.assert_array_equal(sums, [math.fsum(column) for column in rows.T])


def test_any_order_gives_the_same_bits_where_plain_sums_differ(rng):
    rows = wide_range(rng, 20000)
    grid = grid_of(rows)
    counts = rng.integers(0, 2, size=(1, 20000)).astype(float)
    expected = [counts @ part for part in grid.split(rows)]
    plain, differs = counts @ rows, False
    for _ in range(5):
        order = rng.permutation(20000)
        for part, total in zip(grid.split(rows[order]), expected, strict=True):
            np.testing.assert_array_equal(counts[:, order] @ part, total)
        differs = differs or bool((counts[:, order] @ rows[order] != plain).any())
    assert differs


@settings(max_examples=200)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40),
    st.sampled_from([1, 1000, 10**8, 10**9 - 1]),
)
def test_every_scale_is_split_within_its_grid(values, n_terms):
    """Also denormal and huge numbers: the dropped rest is below half a unit of the low slice."""
    rows = np.array(values)[:, None]
    grid = grid_of(rows, max(n_terms, len(values)))
    high, low = grid.split(rows)
    scale = 2.0**grid.bits
    assert scale * max(n_terms, len(values)) < 2.0**53  # integers are exact up to there
    for part, unit in ((high, scale), (low, 2 * scale**2)):
        np.testing.assert_array_equal(np.rint(part * unit), part * unit)
        assert np.abs(part * unit).max() <= scale
    rest = np.ldexp(rows, -grid.exponent) - high - low
    assert np.abs(rest).max() <= 0.25 / scale**2


def test_no_partial_sum_is_rounded_at_the_limit():
    """The worst case: as many terms as allowed, all of them as large as allowed."""
    n = 2**20 - 1
    rows = np.full((n, 1), np.nextafter(1.0, 0.0))
    high, low = grid_of(rows).split(rows)
    assert int(high.sum() * 2.0**33) == n * int(high[0, 0] * 2.0**33)
    assert math.fsum(rows[:, 0]) == grid_of(rows).join(high.sum(axis=0), low.sum(axis=0))[0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad):
    rows = np.ones((5, 3))
    rows[2, 1] = bad
    with pytest.raises(ValueError, match="`moments` must be finite; got NaN or infinity in column 1"):
        grid_of(rows)


N = 20000  # two blocks of rows


@pytest.fixture
def moments(rng):
    g = rng.normal(size=(N, 3, 3)) * [1e-3, 1.0, 1e6] + 3 * np.eye(3)
    return rs.Moments(g, rng.normal(size=(N, 3)))


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.parametrize("share", [0.3, 0.002])
class TestSubsetSums:
    """Dense products for the large share, sparse ones for the small."""

    def test_equal_fsum_over_the_subset(self, moments, statistic, share):
        plan = rs.make_plan(N, statistic=statistic, subsample_size=share, n_resamples=3, random_state=1)
        sums = rs.engine.subset_sums(moments, plan, exact=True)
        for b, drawn in enumerate(plan.indices()):
            expected = [math.fsum(column) for column in moments.rows[drawn].T]
            np.testing.assert_array_equal(np.append(sums.A[b].ravel(), sums.b[b]), expected)

    def test_budget_and_threads_leave_no_trace(self, moments, statistic, share):
        plan = rs.make_plan(N, statistic=statistic, subsample_size=share, n_resamples=100, random_state=1)
        expected = rs.engine.subset_sums(moments, plan, exact=True)
        for budget, executor in ((2**20, None), (2**22, JoblibExecutor(2)), (2**30, JoblibExecutor(4))):
            with rs.config_context(memory_budget=budget):
                sums = rs.engine.subset_sums(moments, plan, exact=True, executor=executor)
            np.testing.assert_array_equal(sums.A, expected.A)
            np.testing.assert_array_equal(sums.b, expected.b)

    def test_plain_sums_agree_to_rounding(self, moments, statistic, share):
        plan = rs.make_plan(N, statistic=statistic, subsample_size=share, n_resamples=20, random_state=1)
        exact, plain = rs.engine.subset_sums(moments, plan, exact=True), rs.engine.subset_sums(moments, plan)
        size = np.sqrt(plan.subsample_size) * np.abs(moments.g).max(axis=0)
        assert (np.abs(plain.A - exact.A) < 1e-13 * size).all()
        np.testing.assert_allclose(plain.b, exact.b, rtol=0, atol=1e-10)


def test_factored_moments_are_summed_exactly_too(rng):
    factored = rs.moments.ridge_moments(rng.normal(size=(500, 40)), rng.normal(size=500))
    assert isinstance(factored, rs.moments.FactoredMoments)
    plan = rs.make_plan(500, subsample_size=100, n_resamples=10, random_state=0)
    exact = rs.engine.subset_sums(factored, plan, exact=True)
    written_out = rs.engine.subset_sums(factored.multiply_out(), plan, exact=True)
    np.testing.assert_array_equal(exact.A, written_out.A)
    np.testing.assert_allclose(exact.A, rs.engine.subset_sums(factored, plan).A, rtol=1e-12, atol=1e-12)


def test_more_subsets_continue_exactly(moments):
    plan = rs.make_plan(N, subsample_size=0.01, n_resamples=100, random_state=3)
    extended = rs.replicate(moments, plan, exact=True).extend(200)
    at_once = rs.replicate(moments, plan.extend(200), exact=True)
    np.testing.assert_array_equal(extended.theta, at_once.theta)
    assert extended.exact
