"""What is drawn several times is solved once: the same function, from fewer unknowns."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import replaystats as rs
from replaystats.kernel.kernels import Kernel
from replaystats.kernel.problem import KernelProblem, _solve
from replaystats.kernel.repeats import WORTH_FINDING, Distinct


def draws(n=100, k=90, n_resamples=12):
    return rs.make_plan(n, statistic="V", subsample_size=k, n_resamples=n_resamples, random_state=0).indices()


def test_every_observation_of_a_subset_is_there_once_with_its_count():
    indices = draws()
    found = Distinct.of(indices)
    for b, drawn in enumerate(indices):
        size, counted = found.sizes[b], Counter(drawn.tolist())
        assert (
            dict(zip(found.rows[b, :size].tolist(), found.counts[b, :size].tolist(), strict=True)) == counted
        )
        assert not found.counts[b, size:].any()
        assert set(found.rows[b].tolist()) == set(counted)
        np.testing.assert_array_equal(found.rows[b, found.place[b]], drawn)


def test_blocks_hold_every_subset_once_and_no_more_values_than_asked_for():
    found = Distinct.of(draws())
    blocks = list(found.blocks(3 * 60**2))
    assert sorted(np.concatenate([some for some, _ in blocks]).tolist()) == list(range(12))
    for some, size in blocks:
        assert size == found.sizes[some].max()
        assert len(some) == 1 or len(some) * size**2 <= 3 * 60**2


def test_sums_of_equal_shares_are_what_was_shared_out(rng):
    found = Distinct.of(draws())
    values = rng.normal(size=(*found.rows.shape, 2)) * (found.counts > 0)[:, :, None]
    np.testing.assert_allclose(found.added_up(found.shared_out(values)), values, rtol=1e-15)


def test_nothing_is_looked_for_where_nothing_repeats_or_subsets_are_small():
    assert Distinct.of(rs.make_plan(200, subsample_size=90, n_resamples=3, random_state=0).indices()) is None
    assert Distinct.of(np.random.default_rng(0).permutation(100)[None]) is None
    assert Distinct.of(np.zeros((2, WORTH_FINDING - 1), dtype=int)) is None


@pytest.mark.parametrize("standardize", [None, "global", "subset"])
@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_are_those_of_the_system_with_repeats(rng, standardize, weighted):
    """The slow way: every draw has a row and a column of its own."""
    X, y = rng.normal(size=(100, 3)) * [1.0, 50.0, 0.02] + 7.0, rng.normal(size=(100, 2))
    weight = rng.uniform(0.2, 3.0, 100) if weighted else None
    plan = rs.make_plan(100, statistic="V", subsample_size=90, n_resamples=5, random_state=1)
    kernel = Kernel("rbf", gamma=(0.3, 0.3 / 2500, 0.3 * 2500) if standardize is None else 0.3)
    problem = KernelProblem.checked(X, y, 0.05, kernel, standardize, weight)
    found = problem.fit(plan.indices())
    targets, K, intercept, scaling = problem._systems(plan.indices())
    K, targets, root = problem._weighted(K, targets, plan.indices(), None)
    dual, _ = _solve(K, targets, 0.05)
    np.testing.assert_allclose(found.dual, dual if root is None else dual * root, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found.intercept, intercept, rtol=1e-12, atol=1e-14)
    if standardize == "subset":
        np.testing.assert_allclose(found.scaling.scale, scaling.scale, rtol=1e-12)
        np.testing.assert_allclose(found.scaling.centre, scaling.centre, rtol=1e-12)


def test_without_a_penalty_a_repeated_point_still_fails(rng):
    plan = rs.make_plan(100, statistic="V", subsample_size=90, n_resamples=4, random_state=0)
    X, y = rng.normal(size=(100, 2)), rng.normal(size=(100, 1))
    problem = KernelProblem.checked(X, y, 0.0, Kernel("rbf", gamma=50.0), None, None)
    assert problem.fit(plan.indices()).failed.all()
