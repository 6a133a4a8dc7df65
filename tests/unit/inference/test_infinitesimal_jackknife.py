"""The infinitesimal jackknife of members, against closed forms, enumeration and the delete-one jackknife."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from replaystats import make_plan, plan_from_indices
from replaystats.inference.jackknife import infinitesimal_jackknife


def member_means(y, plan):
    return y[plan.indices()].mean(axis=1)


def ratio(rows):
    """A statistic that is not linear: ratio of the column sums of (m, k, 2)."""
    return rows[..., 1].sum(axis=-1) / rows[..., 0].sum(axis=-1)


@pytest.mark.parametrize("statistic", ["complete", "complete_v"])
@pytest.mark.parametrize("k", [2, 4])
def test_of_a_mean_is_the_variance_of_the_mean(rng, statistic, k):
    y = rng.normal(size=(6, 3))
    plan = make_plan(6, statistic=statistic, subsample_size=k)
    result = infinitesimal_jackknife(member_means(y, plan), plan)
    assert_allclose(result.variance, y.var(axis=0, ddof=1) / 6, rtol=1e-12)
    assert_allclose(result.monte_carlo_variance, 0.0)
    assert_allclose(
        result.delete_d, result.corrected if statistic == "complete" else result.corrected * 5 / 6
    )


@pytest.mark.parametrize("k", [2, 3, 5])
def test_of_the_complete_statistic_is_its_delete_one_jackknife(rng, k):
    n = 6
    Z = rng.uniform(1, 2, size=(n, 2))

    def complete(rows):
        return np.mean([ratio(Z[list(subset)]) for subset in itertools.combinations(rows, k)])

    plan = make_plan(n, statistic="complete", subsample_size=k)
    without = np.array([complete([j for j in range(n) if j != i]) for i in range(n)])
    # Scaled to U-statistics: the jackknife's n - 1 over n, with k < n so that every deletion leaves a subset.
    expected = (n - 1) / n * ((without - without.mean()) ** 2).sum()
    result = infinitesimal_jackknife(ratio(Z[plan.indices()])[:, None], plan)
    assert_allclose(result.variance, expected, rtol=1e-10)
    assert result.delete_d >= result.corrected  # R^2 <= 1


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_equals_its_formula_in_plain_numpy(rng, statistic):
    n, k, n_subsets = 30, 12, 300
    plan = make_plan(n, statistic=statistic, subsample_size=k, n_resamples=n_subsets, rng=1)
    Z = rng.uniform(1, 2, size=(n, 2))
    P = np.column_stack([ratio(Z[plan.indices()]), rng.normal(size=n_subsets)])
    failed = np.arange(n_subsets) % 7 == 0
    W, D = plan.counts()[~failed], P[~failed] - P[~failed].mean(axis=0)
    kept = len(D)
    C, v = (W - k / n).T @ D / (kept - 1), (D**2).sum(axis=0) / (kept - 1)
    raw = (n * (n - 1) / (n - k) ** 2 if statistic == "U" else n / (n - 1)) * (C**2).sum(axis=0)
    noise = k * (n - 1) / (n - k) if statistic == "U" else k
    result = infinitesimal_jackknife(P, plan, failed=failed)
    assert_allclose(result.raw, raw, rtol=1e-10)
    assert_allclose(result.corrected, raw - noise * v / (kept - 1), rtol=1e-8, atol=1e-14)
    assert_allclose(result.monte_carlo_variance, v / kept, rtol=1e-10)
    assert_allclose(result.variance, np.maximum(result.corrected, 0) + v / kept, rtol=1e-10)
    assert_allclose(result.delete_d, v * (k / (n - k) if statistic == "U" else k / n), rtol=1e-10)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_correction_is_unbiased_over_draws(rng, statistic):
    """Relative Monte-Carlo sd of one corrected value is sqrt(8/B + 2n/B^2) = .4; of the mean of 300, .023."""
    n, k, n_subsets = 50, 15, 60
    y = rng.normal(size=n)
    found = []
    for seed in range(300):
        plan = make_plan(n, statistic=statistic, subsample_size=k, n_resamples=n_subsets, rng=seed)
        result = infinitesimal_jackknife(member_means(y, plan)[:, None], plan)
        found.append((result.corrected[0], result.raw[0]))
    corrected, raw = np.mean(found, axis=0) / (y.var(ddof=1) / n)
    assert abs(corrected - 1) < 4 * 0.025
    assert raw > 1.5  # what the correction is for


def test_negative_values_are_set_to_zero(rng):
    plan = make_plan(200, subsample_size=50, n_resamples=10, rng=0)
    result = infinitesimal_jackknife(rng.normal(size=(10, 50)), plan)  # members unrelated to the counts
    assert (result.corrected < 0).any()
    assert (result.variance >= result.monte_carlo_variance).all()


class TestPartitions:
    """Disjoint subsets are independent, so their own spread is enough."""

    def test_one_partition_is_the_variance_of_independent_members(self, rng):
        plan = make_plan(40, statistic="partition", subsample_size=5, rng=0)
        P = rng.normal(size=(8, 3))
        result = infinitesimal_jackknife(P, plan)
        assert_allclose(result.variance, P.var(axis=0, ddof=1) / 8, rtol=1e-12)

    def test_many_partitions_recover_the_variance_of_a_mean(self, rng):
        """Over all partitions the variance within averages to k-fold s^2/k, so raw is s^2/n exactly; with
        2000 partitions of 5 the relative sd is about sqrt(2 / (4 * 2000)) = .016."""
        y = rng.normal(size=20)
        plan = make_plan(20, statistic="partition", subsample_size=4, n_resamples=10_000, rng=0)
        result = infinitesimal_jackknife(member_means(y, plan)[:, None], plan)
        assert_allclose(result.variance, y.var(ddof=1) / 20, rtol=4 * 0.016)
        assert_allclose(result.monte_carlo_variance, 0.0, atol=1e-20)  # whole partitions have one mean

    def test_one_subset_per_partition_says_nothing(self):
        plan = make_plan(10, statistic="partition", subsample_size=8, n_resamples=3, rng=0)
        with pytest.raises(ValueError, match="`subsample_size` must be at most half of n"):
            infinitesimal_jackknife(np.ones((3, 1)), plan)


@pytest.mark.parametrize(
    ("plan", "B", "failed", "message"),
    [
        (
            make_plan(5, subsample_size=5, n_resamples=3, rng=0),
            3,
            None,
            "`subsample_size` must be below n = 5",
        ),
        (
            make_plan(5, subsample_size=2, n_resamples=3, rng=0),
            4,
            None,
            r"must be as long as `plan` \(3\); got 4",
        ),
        (make_plan(5, subsample_size=2, n_resamples=1, rng=0), 1, None, "`n_resamples` must be at least 2"),
        (
            make_plan(5, subsample_size=2, n_resamples=3, rng=0),
            3,
            [True] * 3,
            "`failed` must be False for at least",
        ),
        (plan_from_indices([[0, 0], [0, 0]], 1), 2, None, "`n_observations` must be at least 2"),
    ],
)
def test_bad_input(plan, B, failed, message):
    with pytest.raises(ValueError, match=message):
        infinitesimal_jackknife(np.ones((B, 1)), plan, failed=None if failed is None else np.array(failed))
