"""The infinitesimal jackknife of members, against closed forms, enumeration and the delete-one jackknife."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from replaystats import make_plan, plan_from_indices
from replaystats.inference import ReplayVariance, replay_variance


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
    result = replay_variance(member_means(y, plan), plan)
    assert_allclose(result.variance, y.var(axis=0, ddof=1) / 6, rtol=1e-12)
    assert_allclose(result.monte_carlo, 0.0)
    assert_allclose(result.delete_d, result.sampling if statistic == "complete" else result.sampling * 5 / 6)


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
    result = replay_variance(ratio(Z[plan.indices()])[:, None], plan)
    assert_allclose(result.variance, expected, rtol=1e-10)
    assert result.delete_d >= result.sampling  # R^2 <= 1


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_equals_its_formula_in_plain_numpy(rng, statistic):
    n, k, n_subsets = 30, 12, 300
    plan = make_plan(n, statistic=statistic, subsample_size=k, n_resamples=n_subsets, random_state=1)
    Z = rng.uniform(1, 2, size=(n, 2))
    P = np.column_stack([ratio(Z[plan.indices()]), rng.normal(size=n_subsets)])
    failed = np.arange(n_subsets) % 7 == 0
    W, D = plan.counts()[~failed], P[~failed] - P[~failed].mean(axis=0)
    kept = len(D)
    C, v = (W - k / n).T @ D / (kept - 1), (D**2).sum(axis=0) / (kept - 1)
    raw = (n * (n - 1) / (n - k) ** 2 if statistic == "U" else n / (n - 1)) * (C**2).sum(axis=0)
    noise = k * (n - 1) / (n - k) if statistic == "U" else k
    result = replay_variance(P, plan, failed=failed)
    assert_allclose(result.raw, raw, rtol=1e-10)
    assert_allclose(result.sampling, raw - noise * v / (kept - 1), rtol=1e-8, atol=1e-14)
    assert_allclose(result.monte_carlo, v / kept, rtol=1e-10)
    assert_allclose(result.total, result.sampling + v / kept, rtol=1e-10)
    assert_allclose(result.delete_d, v * (k / (n - k) if statistic == "U" else k / n), rtol=1e-10)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_correction_is_unbiased_over_draws(rng, statistic):
    """Relative Monte-Carlo sd of one corrected value is sqrt(8/B + 2n/B^2) = .4; of the mean of 300, .023."""
    n, k, n_subsets = 50, 15, 60
    y = rng.normal(size=n)
    found = []
    for seed in range(300):
        plan = make_plan(n, statistic=statistic, subsample_size=k, n_resamples=n_subsets, random_state=seed)
        result = replay_variance(member_means(y, plan)[:, None], plan)
        found.append((result.sampling[0], result.raw[0]))
    corrected, raw = np.mean(found, axis=0) / (y.var(ddof=1) / n)
    assert abs(corrected - 1) < 4 * 0.025
    assert raw > 1.5  # what the correction is for


def test_a_negative_estimate_gives_way_to_its_upper_bound(rng):
    plan = make_plan(200, subsample_size=50, n_resamples=10, random_state=0)
    result = replay_variance(rng.normal(size=(10, 50)), plan)  # members unrelated to the counts
    negative = result.sampling < 0
    assert negative.any()
    assert not negative.all()
    assert_allclose(result.variance[negative], (result.delete_d + result.monte_carlo)[negative])
    assert_allclose(result.variance[~negative], result.total[~negative])


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_overlaps_of_subsets_give_the_same_elsewhere(rng, statistic):
    torch = pytest.importorskip("torch")
    plan = make_plan(30, statistic=statistic, subsample_size=12, n_resamples=40, random_state=1)
    failed = np.arange(40) % 9 == 0
    P = np.where(failed[:, None, None], np.nan, 100.0 + rng.normal(size=(40, 3, 2)))
    values = torch.asarray(np.where(failed[:, None, None], 0.0, P))
    found = replay_variance(values, plan, failed=failed)
    expected = replay_variance(P, plan, failed=failed)
    for part in ("sampling", "raw", "replicate", "monte_carlo", "delete_d"):
        assert_allclose(np.asarray(getattr(found, part)), getattr(expected, part), rtol=1e-10)


def test_variances_are_the_diagonal_of_covariances(rng):
    for statistic in ("U", "V", "balanced", "partition", "complete"):
        count = {} if statistic == "complete" else {"n_resamples": 24}
        plan = make_plan(8, statistic=statistic, subsample_size=3, random_state=0, **count)
        P = rng.normal(size=(plan.n_resamples, 4, 2))
        for method in ("mean", "median"):
            single = replay_variance(P, plan, method=method)
            joint = replay_variance(P, plan, method=method, covariance=True).components()
            for part in ("sampling", "raw", "replicate", "monte_carlo", "delete_d"):
                assert_allclose(getattr(single, part), getattr(joint, part), rtol=1e-9, atol=1e-13)


class TestPartitions:
    """Disjoint subsets are independent, so their own spread is enough."""

    def test_one_partition_is_the_variance_of_independent_members(self, rng):
        plan = make_plan(40, statistic="partition", subsample_size=5, random_state=0)
        P = rng.normal(size=(8, 3))
        result = replay_variance(P, plan)
        assert_allclose(result.variance, P.var(axis=0, ddof=1) / 8, rtol=1e-12)

    def test_many_partitions_recover_the_variance_of_a_mean(self, rng):
        """Over all partitions the variance within averages to k-fold s^2/k, so raw is s^2/n exactly; with
        2000 partitions of 5 the relative sd is about sqrt(2 / (4 * 2000)) = .016."""
        y = rng.normal(size=20)
        plan = make_plan(20, statistic="partition", subsample_size=4, n_resamples=10_000, random_state=0)
        result = replay_variance(member_means(y, plan)[:, None], plan)
        assert_allclose(result.variance, y.var(ddof=1) / 20, rtol=4 * 0.016)
        assert_allclose(result.monte_carlo, 0.0, atol=1e-20)  # whole partitions have one mean

    def test_overlapping_subsets_of_one_permutation_say_nothing(self):
        plan = make_plan(10, statistic="balanced", subsample_size=8, n_resamples=2, random_state=0)
        with pytest.raises(
            ValueError,
            match="`n_resamples` must be such that two subsets share nothing",
        ):
            replay_variance(np.ones((2, 1)), plan)


@pytest.mark.parametrize(
    ("plan", "B", "failed", "message"),
    [
        (
            make_plan(5, subsample_size=5, n_resamples=3, random_state=0),
            3,
            None,
            "`subsample_size` must be below n = 5",
        ),
        (
            make_plan(5, subsample_size=2, n_resamples=3, random_state=0),
            4,
            None,
            r"`values` must be as long as `plan` \(3\); got 4",
        ),
        (
            make_plan(5, subsample_size=2, n_resamples=1, random_state=0),
            1,
            None,
            "`n_resamples` must be at least 2",
        ),
        (
            make_plan(5, subsample_size=2, n_resamples=3, random_state=0),
            3,
            [True] * 3,
            "`failed` must be False for at least",
        ),
        (plan_from_indices([[0, 0], [0, 0]], 1), 2, None, "`n_observations` must be at least 2"),
    ],
)
def test_bad_input(plan, B, failed, message):
    with pytest.raises(ValueError, match=message):
        replay_variance(np.ones((B, 1)), plan, failed=None if failed is None else np.array(failed))


def parts_with(sampling, monte_carlo, n_used=50):
    plan = make_plan(20, n_resamples=n_used, random_state=0)
    zeros = np.zeros_like(sampling)
    return ReplayVariance(
        sampling=sampling,
        monte_carlo=monte_carlo,
        raw=zeros,
        replicate=zeros,
        delete_d=zeros,
        plan=plan,
        n_used=n_used,
    )


def test_members_needed_for_a_share_of_noise():
    v, sampling, share = np.array([2.0, 1.0]), np.array([0.05, 0.01]), 0.02
    needed = parts_with(sampling, v / 50).n_resamples_for(share)

    def noise(b):
        return parts_with(sampling, v / b, b).monte_carlo_share

    assert noise(needed) <= share < noise(needed - 1)


def test_share_of_noise_without_noise_or_signal():
    assert parts_with(np.ones(2), np.zeros(2)).monte_carlo_share == 0.0
    assert parts_with(np.ones(2), np.zeros(2)).n_resamples_for(0.01) == 50
    hidden = parts_with(np.array([1.0, -2.0]), np.ones(2))
    assert hidden.monte_carlo_share == 1.0
    assert hidden.n_resamples_for(0.01) == 100
