"""The hypergeometric distribution beyond 10^9 against SciPy, NumPy and exact binomial limits."""

import numpy as np
import pytest
from scipy import stats

import replaystats as rs
from replaystats.plans.tiles import hypergeometric, split_without_replacement

# (good, bad, draws): all four mirror images, tiny supports, certainties
MIRRORED = [(7, 5, 4), (5, 7, 4), (7, 5, 9), (5, 7, 9)]
SMALL = [*MIRRORED, (1, 30, 3), (300, 200, 250), (4, 4, 8), (4, 4, 0), (3, 0, 2)]


@pytest.mark.parametrize(("good", "bad", "draws"), SMALL)
def test_small_populations_are_those_of_scipy(good, bad, draws):
    """Pearson's statistic of 40,000 draws, at the 1e-4 level."""
    found = hypergeometric(np.random.default_rng(1), good, bad, np.full(40_000, draws))
    low, high = max(0, draws - bad), min(good, draws)
    assert found.min() >= low
    assert found.max() <= high
    expected = 40_000 * stats.hypergeom.pmf(np.arange(low, high + 1), good + bad, good, draws)
    observed = np.bincount(found - low, minlength=high - low + 1)
    common = expected > 5
    if common.sum() > 1:
        statistic = ((observed - expected)[common] ** 2 / expected[common]).sum()
        assert statistic < stats.chi2.ppf(1 - 1e-4, common.sum())


@pytest.mark.parametrize("scale", [10**9, 10**12, 10**15])
def test_few_draws_from_huge_populations_are_binomial(scale):
    found = hypergeometric(np.random.default_rng(2), 3 * scale, 7 * scale, np.full(40_000, 20))
    expected = 40_000 * stats.binom.pmf(np.arange(21), 20, 0.3)
    observed = np.bincount(found, minlength=21)
    common = expected > 5
    statistic = ((observed - expected)[common] ** 2 / expected[common]).sum()
    assert statistic < stats.chi2.ppf(1 - 1e-4, common.sum())


def test_many_draws_from_huge_populations_are_normal():
    good, bad, k = 2 * 10**9, 10**9, 10**9
    found = hypergeometric(np.random.default_rng(3), good, bad, np.full(20_000, k))
    total = good + bad
    mean, variance = k * good / total, k * good / total * bad / total * (total - k) / (total - 1)
    z = (found - mean) / np.sqrt(variance)
    assert stats.kstest(z, "norm").pvalue > 1e-4


def test_shares_add_up_and_have_the_right_moments():
    sizes = np.full(40, 10**8)
    shares = split_without_replacement(np.random.default_rng(4), sizes, np.full(2000, 10**6))
    assert shares.shape == (2000, 40)
    np.testing.assert_array_equal(shares.sum(axis=1), 10**6)
    n, k, m = 4 * 10**9, 10**6, 10**8
    error = np.sqrt(k * m / n * (1 - m / n) * (n - k) / (n - 1))
    assert np.abs(shares.mean(axis=0) - k * m / n).max() < 5 * error / np.sqrt(2000)
    np.testing.assert_allclose(shares.std(axis=0), error, rtol=0.1)
    between = np.corrcoef(shares[:, [0, 1, 20, 39]].T)  # -1 / (40 - 1), in one run and across runs
    assert np.abs(between[~np.eye(4, dtype=bool)] + 1 / 39).max() < 5 / np.sqrt(2000)


def test_plans_of_more_than_a_billion_rows():
    plan, again = (
        rs.make_plan(10**9 + 1, statistic="U", subsample_size=10**6, n_resamples=2, random_state=0)
        for _ in range(2)
    )
    for block in (7_000, len(plan.row_blocks) - 1):
        counts = plan.draw(0, block).counts()
        assert counts.max() <= 1  # without replacement
        np.testing.assert_array_equal(counts, again.draw(0, block).counts())
