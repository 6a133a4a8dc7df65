"""Intervals for a new observation against a loop over points and rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import replaystats as rs
from oracles.new_observation import jackknife_plus_after_bootstrap
from replaystats import make_plan, plan_from_indices
from replaystats.inference.new_observation import (
    RowsOfFolds,
    cv_plus,
    jackknife_plus,
    jackknife_plus_of_changes,
    leave_out,
)
from replaystats.kernel.features import ridge_leave_one_out
from support.cases import slow_except


def intervals(members_train, members_new, plan, y, level, *, failed=None, budget=2**20, **scales):
    with rs.config_context(memory_budget=budget):
        rows = leave_out(lambda part: members_train[:, part], plan, y, failed=failed)
        return jackknife_plus(rows, lambda part: members_new[:, part], members_new.shape[1], level, **scales)


def smooth_members(rng, plan, y, n_points, noise):
    """Ensemble that are means of their subsets, plus noise: a band that cuts, or one that cannot."""
    means = y[plan.indices()].mean(axis=1)[:, None]  # (B, 1, n_outputs)
    train = means + noise * rng.normal(size=(plan.n_resamples, len(y), y.shape[1]))
    new = means + noise * rng.normal(size=(plan.n_resamples, n_points, y.shape[1]))
    return train, new


@pytest.mark.parametrize("noise", slow_except([0.02], [0.0, 0.02, 3.0]))
@pytest.mark.parametrize("statistic", ["U", "V", "balanced"])
def test_equals_the_loop(rng, statistic, noise):
    n, m = 40, 5
    plan = make_plan(n, statistic=statistic, subsample_size=15, n_resamples=60, random_state=0)
    y = rng.normal(size=(n, 2))
    train, new = smooth_members(rng, plan, y, m, noise)
    failed = np.arange(60) % 7 == 3
    for level in (0.5, 0.9):
        found = intervals(train, new, plan, y, level, failed=failed)
        for output in (0, 1):
            expected = jackknife_plus_after_bootstrap(
                train[:, :, output], new[:, :, output], plan.indices(), y[:, output], level, ~failed
            )
            assert_allclose(np.stack(found)[:, :, output], expected, rtol=1e-9, atol=1e-12)


def test_equals_the_loop_with_a_scale(rng):
    n, m = 30, 9
    plan = make_plan(n, subsample_size=12, n_resamples=40, random_state=1)
    y = rng.normal(size=(n, 1))
    train, new = smooth_members(rng, plan, y, m, 0.1)
    at_rows, at_points = rng.uniform(0.5, 2, size=(n, 1)), rng.uniform(0.5, 2, size=(m, 1))
    found = intervals(train, new, plan, y, 0.8, scale=at_rows, scale_at_points=at_points)
    expected = jackknife_plus_after_bootstrap(
        train[:, :, 0], new[:, :, 0], plan.indices(), y[:, 0], 0.8, scale=(at_rows[:, 0], at_points[:, 0])
    )
    assert_allclose(np.stack(found)[:, :, 0], expected, rtol=1e-9)


def test_blocks_do_not_matter(rng, monkeypatch):
    from replaystats.inference import new_observation

    plan = make_plan(200, subsample_size=80, n_resamples=33, random_state=1)
    y = rng.normal(size=(200, 1))
    train, new = smooth_members(rng, plan, y, 50, 0.3)
    whole = intervals(train, new, plan, y, 0.9, budget=2**30)
    monkeypatch.setattr(new_observation, "_ROWS_AT_ONCE", 7)
    assert_allclose(np.stack(intervals(train, new, plan, y, 0.9)), np.stack(whole), rtol=1e-12)


def test_rows_in_every_subset_take_no_part(rng):
    plan = plan_from_indices([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 1]], 5)
    y = rng.normal(size=(5, 1))
    train, new = rng.normal(size=(4, 5, 1)), rng.normal(size=(4, 3, 1))
    found = intervals(train, new, plan, y, 0.6)
    expected = jackknife_plus_after_bootstrap(train[:, :, 0], new[:, :, 0], plan.indices(), y[:, 0], 0.6)
    assert_allclose(np.stack(found)[:, :, 0], expected, rtol=1e-12)


def test_too_few_rows_give_an_infinite_interval(rng):
    plan = make_plan(18, subsample_size=6, n_resamples=40, random_state=0)
    y = rng.normal(size=(18, 1))
    train, new = smooth_members(rng, plan, y, 4, 0.1)
    low, high = intervals(train, new, plan, y, 0.95)
    assert_array_equal(low, -np.inf)
    assert_array_equal(high, np.inf)
    low, high = intervals(train, new, plan, y, 0.94)
    assert np.isfinite(low).all()


def test_a_sample_of_the_rows_makes_the_interval_where_there_are_many(rng, monkeypatch):
    from replaystats.inference import new_observation

    monkeypatch.setattr(new_observation, "SAMPLED_ROWS", 50)
    plan = make_plan(200, subsample_size=80, n_resamples=33, random_state=1)
    y = rng.normal(size=(200, 1))
    train, new = smooth_members(rng, plan, y, 7, 0.3)
    rows = leave_out(lambda part: train[:, part], plan, y)
    chosen = new_observation.calibration_rows(rows.residuals)
    found = jackknife_plus(rows, lambda part: new[:, part], 7, 0.9)
    expected = jackknife_plus(rows.rows(chosen), lambda part: new[:, part], 7, 0.9)
    assert len(chosen) == 50
    assert_array_equal(np.stack(found), np.stack(expected))


@pytest.mark.parametrize(("n", "level", "rank"), [(9, 0.1, 1), (9, 0.5, 5), (9, 0.9, 9), (19, 0.95, 19)])
def test_the_rank_is_that_of_split_conformal_prediction(n, level, rank):
    rows = RowsOfFolds(np.zeros(n, dtype=int), np.arange(1.0, n + 1)[:, None])
    found = cv_plus(rows, lambda part: (np.zeros((1, 1, 1)), np.ones((1, 1, 1))), 1, level)
    assert found.high[0, 0] == rank
    with pytest.raises(ValueError, match="confidence_level"):
        cv_plus(rows, lambda part: None, 1, 1.0)


@pytest.mark.parametrize("scaled", [False, True])
def test_known_changes_equal_refits(rng, scaled):
    """Ridge regression: jackknife+ by 30 refits, for rows of one group only."""
    X, y, new = rng.normal(size=(30, 4)), rng.normal(size=(30, 1)), 3 * rng.normal(size=(8, 4))
    rows = np.flatnonzero(np.arange(30) % 3 > 0)
    scale = (rng.uniform(0.5, 2, size=(30, 1)), rng.uniform(0.5, 2, size=(8, 1))) if scaled else (None, None)
    without = ridge_leave_one_out(lambda X: X, X, y, X.T @ X, 0.4)
    mean = new @ np.linalg.solve(X.T @ X + 0.4 * np.eye(4), X.T @ y)
    found = jackknife_plus_of_changes(
        mean, without.residuals, without.at(new), rows, 0.8, scale=scale[0], scale_at_points=scale[1]
    )
    low, high = [], []
    for i in rows:
        others = np.arange(30) != i
        theta = np.linalg.solve(X[others].T @ X[others] + 0.4 * np.eye(4), X[others].T @ y[others])
        size = np.abs(y[i] - X[i] @ theta) * (scale[1] / scale[0][i] if scaled else 1.0)
        low.append(new @ theta - size)
        high.append(new @ theta + size)
    rank = int(np.ceil(0.8 * (len(rows) + 1)))
    assert_allclose(found.low, np.sort(low, axis=0)[len(rows) - rank], rtol=1e-8)
    assert_allclose(found.high, np.sort(high, axis=0)[rank - 1], rtol=1e-8)


@pytest.mark.statistical
def test_covers_a_new_observation(numbers):
    """300 data sets of n = 100 and one new point each: .90 +- .035 (two standard errors)."""
    inside = 0
    for number in numbers(300):
        own = np.random.default_rng(number)
        X, y = own.normal(size=(101, 1)), own.standard_t(3, size=(101, 1))
        plan = make_plan(100, subsample_size=50, n_resamples=60, random_state=number)
        slopes = np.array([[np.vdot(X[s], y[s]) / np.vdot(X[s], X[s])] for s in plan.indices()])[:, :, None]
        members = slopes * X[:, 0][None, :, None]
        low, high = intervals(members[:, :100], members[:, 100:], plan, y[:100], 0.9)
        inside += low[0, 0] <= y[100, 0] <= high[0, 0]
    assert abs(inside / 300 - 0.9) < 0.035
