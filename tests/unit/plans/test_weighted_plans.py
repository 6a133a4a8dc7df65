"""Unequal probabilities: exact laws by enumeration, and plans that stay values."""

import hashlib
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from replaystats import Moments, make_plan, replicate
from replaystats.engine import subset_sums
from replaystats.plans import proportional_probabilities, rank_probabilities
from replaystats.plans.weighted import (
    effective_size,
    inclusion_table,
    log_symmetric_polynomial,
    remaining_inclusion,
)

P = np.array([0.05, 0.1, 0.15, 0.2, 0.5])


def weighted_plan(n, k, statistic, *, n_resamples=300, rng=0, **options):
    p = 1.0 + np.arange(n) % 7
    return make_plan(
        n,
        statistic=statistic,
        subsample_size=k,
        n_resamples=n_resamples,
        probabilities=p,
        random_state=rng,
        **options,
    )


def p_value(observed, probabilities):
    return stats.chisquare(observed, probabilities * observed.sum()).pvalue


def conditional_poisson_law(omega, k):
    subsets = list(itertools.combinations(range(len(omega)), k))
    products = np.array([math.prod(omega[list(s)]) for s in subsets])
    return subsets, products / products.sum(), products.sum()


@pytest.mark.parametrize("rows_per_block", [2, 16384], ids=["three blocks", "one block"])
def test_multisets_have_their_multinomial_probability(monkeypatch, rows_per_block):
    """All 35 multisets of 3 of 5, by chi-square; a right sampler fails one seed in ten thousand."""
    monkeypatch.setattr("replaystats.plans.plan.TILE_ROWS", rows_per_block)
    plan = make_plan(5, statistic="V", subsample_size=3, n_resamples=30_000, probabilities=P, random_state=1)
    seen = Counter(map(tuple, plan.counts().astype(int).tolist()))
    law = stats.multinomial(3, P)
    cells = [c for c in itertools.product(range(4), repeat=5) if sum(c) == 3]
    probability = np.array([law.pmf(c) for c in cells])
    often = probability > 2e-4  # chi-square needs a few expected draws per cell
    observed = np.array([seen[c] for c in cells])
    pooled = np.append(observed[often], observed[~often].sum())
    assert p_value(pooled, np.append(probability[often], probability[~often].sum())) > 1e-4


@pytest.mark.parametrize("rows_per_block", [2, 16384], ids=["three blocks", "one block"])
def test_subsets_have_their_conditional_poisson_probability(monkeypatch, rows_per_block):
    monkeypatch.setattr("replaystats.plans.plan.TILE_ROWS", rows_per_block)
    plan = make_plan(5, statistic="U", subsample_size=3, n_resamples=30_000, probabilities=P, random_state=2)
    subsets, law, _ = conditional_poisson_law(P, 3)
    seen = Counter(map(tuple, plan.indices().tolist()))
    assert p_value(np.array([seen[s] for s in subsets]), law) > 1e-4


@pytest.mark.parametrize("k", [1, 2, 4, 5])
def test_inclusion_probabilities_are_exact(k):
    subsets, law, normaliser = conditional_poisson_law(P, k)
    inclusion = np.array([sum(q for s, q in zip(subsets, law, strict=True) if i in s) for i in range(5)])
    table = inclusion_table(np.log(P), k)
    np.testing.assert_allclose(remaining_inclusion(table), inclusion, rtol=1e-13)
    assert log_symmetric_polynomial(np.log(P), k) == pytest.approx(math.log(normaliser), rel=1e-13)


@pytest.mark.parametrize(("n", "k"), [(50, 20), (400, 399), (1500, 400)])
def test_inclusion_probabilities_sum_to_k_over_twenty_decades(rng, n, k):
    log_odds = rng.uniform(-23, 23, n)
    inclusion = remaining_inclusion(inclusion_table(log_odds, k))
    assert inclusion.sum() == pytest.approx(k, rel=1e-12)
    assert inclusion.min() >= 0
    assert inclusion.max() <= 1 + 1e-12
    # larger odds, larger inclusion
    assert (np.diff(inclusion[np.argsort(log_odds)]) > -1e-12).all()


def test_equal_probabilities_are_uniform_draws_with_weight_one():
    for statistic in "UV":
        plan = make_plan(
            30, statistic=statistic, subsample_size=12, probabilities=np.full(30, 4.0), random_state=0
        )
        np.testing.assert_allclose(plan.observation_weights, 1.0, rtol=1e-12)
        np.testing.assert_allclose(plan.expected_counts, 0.4, rtol=1e-12)
        assert plan.effective_subsample_size == pytest.approx(12)
        outside = make_plan(
            30,
            statistic=statistic,
            subsample_size=12,
            probabilities=np.ones(30),
            weighting="subsets",
            random_state=0,
        )
        np.testing.assert_allclose(outside.importance_weights, 1.0, rtol=1e-12)
        assert outside.effective_resamples == pytest.approx(500)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_weighted_sums_are_unbiased_for_the_uniform_ones(statistic):
    """E of sum_b w g is k/n of the total: within 4.5 Monte-Carlo standard errors."""
    rng = np.random.default_rng(3)
    g, f = rng.normal(2.0, 1.0, 40), rng.normal(size=40)
    plan = weighted_plan(40, 15, statistic, n_resamples=20_000)
    sums = subset_sums(Moments(g, f), plan)
    for drawn, total in ((sums.A.ravel(), g.sum()), (sums.b.ravel(), f.sum())):
        error = drawn.std() / math.sqrt(drawn.size)
        assert abs(drawn.mean() - 15 / 40 * total) < 4.5 * error


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_subset_weights_are_likelihood_ratios(statistic):
    plan = make_plan(
        5,
        statistic=statistic,
        subsample_size=3,
        probabilities=P,
        weighting="subsets",
        n_resamples=50,
        random_state=4,
    )
    assert plan.observation_weights is None
    if statistic == "V":
        # the multinomial coefficient is the same under both laws
        expected = [math.prod(0.2 / P[i] for i in row) for row in plan.indices()]
    else:
        subsets, law, _ = conditional_poisson_law(P, 3)
        ratio = {s: (1 / math.comb(5, 3)) / q for s, q in zip(subsets, law, strict=True)}
        expected = [ratio[tuple(row)] for row in plan.indices()]
    np.testing.assert_allclose(plan.importance_weights, expected, rtol=1e-12)
    weights = np.array(expected)
    np.testing.assert_allclose(plan.subset_weights, weights / weights.sum(), rtol=1e-12)
    assert plan.effective_resamples == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


@pytest.mark.parametrize(("k", "tolerance"), [(3, 0.02), (10, 0.1)])
def test_effective_subsets_decay_exponentially_in_k(k, tolerance):
    """With replacement ESS / B tends to (1 / sum 1/(n^2 p))^k: E[w^2] is a product over the draws.

    For half |influence|, half uniform probabilities that is about 0.9^k: 0.7 at k = 3, 0.3 at k = 10.
    """
    rng = np.random.default_rng(12)
    g = rng.gamma(4.0, 0.25, 60)
    f = 2.0 * g + rng.normal(size=60)
    influence = np.abs(f - f.sum() / g.sum() * g)
    p = proportional_probabilities(influence, uniform_share=0.5)
    plan = make_plan(
        60,
        statistic="V",
        subsample_size=k,
        n_resamples=20_000,
        probabilities=p,
        weighting="subsets",
        random_state=1,
    )
    exact = (1 / (1 / (60**2 * p)).sum()) ** k
    assert plan.effective_resamples / 20_000 == pytest.approx(exact, rel=tolerance)
    inside = make_plan(60, statistic="V", subsample_size=k, probabilities=p, random_state=1)
    assert inside.effective_subsample_size == pytest.approx(k * exact ** (1 / k))


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.parametrize(("n", "k"), [(20, 6), (7, 7), (20_000, 50)])
def test_more_subsets_leave_the_first_ones(statistic, n, k):
    few = weighted_plan(n, k, statistic, n_resamples=10)
    many = weighted_plan(n, k, statistic, n_resamples=300)
    np.testing.assert_array_equal(few.indices(), many.indices(0, 10))
    np.testing.assert_array_equal(few.extend(290).indices(250, 300), many.indices(250, 300))
    assert (many.counts(250, 260).sum(axis=1) == k).all()


@pytest.mark.parametrize(("statistic", "digest"), [("U", "3b471cd609bc1aa1"), ("V", "b6137ea76a801126")])
def test_golden_digest(statistic, digest):
    """The subsets of a seed are a promise."""
    counts = weighted_plan(500, 150, statistic, n_resamples=40, rng=2026).counts().astype(np.uint8)
    assert hashlib.sha256(counts.tobytes()).hexdigest()[:16] == digest


def test_extended_replicates_are_those_of_the_longer_plan():
    rng = np.random.default_rng(5)
    moments = Moments(rng.normal(3.0, 1.0, 50), rng.normal(size=50))
    for statistic in "UV":
        plan = weighted_plan(50, 20, statistic, n_resamples=30)
        longer = replicate(moments, plan.extend(20))
        np.testing.assert_allclose(replicate(moments, plan).extend(20).theta, longer.theta, rtol=1e-12)


def test_priorities():
    np.testing.assert_allclose(
        proportional_probabilities([1, 4], exponent=0.5, uniform_share=0), [1 / 3, 2 / 3]
    )
    np.testing.assert_allclose(proportional_probabilities([0, 0, 5], uniform_share=0.3), [0.1, 0.1, 0.8])
    np.testing.assert_allclose(rank_probabilities([7, 7], uniform_share=0), 0.5)
    np.testing.assert_allclose(
        rank_probabilities([1, 9, 5], exponent=2, uniform_share=0), np.array([1 / 9, 1, 1 / 4]) / (49 / 36)
    )
    assert effective_size(np.array([2.0, 2.0])) == 2.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: make_plan(3, probabilities=[1, 0, 1]),
            "`probabilities` must be positive; got 0 at index 1. An",
        ),
        (
            lambda: make_plan(3, probabilities=[1, 1]),
            r"`probabilities` must be as long as `n_observations` \(3\)",
        ),
        (lambda: make_plan(3, probabilities=[1, np.nan, 1]), "`probabilities` must be finite"),
        (
            lambda: make_plan(3, statistic="partition", probabilities=[1, 1, 1]),
            '`probabilities` must be None with statistic="partition"',
        ),
        (lambda: make_plan(3, weighting="subsets"), "`weighting` must be left alone without `probabilities`"),
        (lambda: make_plan(3, weighting="subset", probabilities=[1, 1, 1]), 'Did you mean "subsets"'),
        (
            lambda: (
                make_plan(
                    10**6, subsample_size=500, probabilities=np.ones(10**6), random_state=0
                ).expected_counts
            ),
            r"`subsample_size` must be such that n \(k \+ 1\) <= .*; got k=500 of n=1000000. Use a smaller",
        ),
        (lambda: proportional_probabilities([-1.0]), "`priorities` must be non-negative; got -1 at index 0"),
        (lambda: proportional_probabilities([0.0, 0.0]), "`priorities` must be positive somewhere"),
        (lambda: rank_probabilities([1.0], uniform_share=2), "`uniform_share` must be a finite number in"),
    ],
)
def test_bad_input_has_its_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
