"""Federated subsets have exactly the law of pooled ones; privacy by its formula."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import replaystats as rs
from examples_folder import load_example
from oracles.small_parts import count_moments

federated = load_example("federated")
SIZES = (3, 2, 2)


def federated_counts(statistic, k, n_resamples, sizes=SIZES, rng=0):
    rng = np.random.default_rng(rng)
    shares = federated.split_over_clients(sizes, k, n_resamples, statistic=statistic, rng=rng)
    parts = [
        federated.draw_inside(n, share, statistic=statistic, rng=rng)
        for n, share in zip(sizes, shares.T, strict=True)
    ]
    return np.hstack(parts)


def test_every_subset_is_as_likely_as_when_pooled():
    """All 35 subsets of 3 of 7 observations of three clients, by chi-square."""
    counts = federated_counts("U", 3, 10_000)
    seen = Counter(tuple(np.flatnonzero(row)) for row in counts)
    assert set(seen) == set(itertools.combinations(range(7), 3))
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4


def test_every_multiset_has_its_multinomial_probability():
    counts = federated_counts("V", 2, 10_000)
    cells = [c for c in itertools.product(range(3), repeat=7) if sum(c) == 2]
    seen = Counter(map(tuple, counts.astype(int).tolist()))
    expected = 10_000 * np.array([stats.multinomial(2, [1 / 7] * 7).pmf(c) for c in cells])
    assert stats.chisquare([seen[c] for c in cells], expected).pvalue > 1e-4


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_counts_have_the_exact_pooled_moments(statistic):
    """Mean k/n, and covariances within and between clients, each within 4.5 standard errors."""
    sizes, k, n_resamples = (5, 9, 6), 8, 8000
    n = sum(sizes)
    counts = federated_counts(statistic, k, n_resamples, sizes)
    variance, covariance = count_moments(n, k, replacement=statistic == "V")
    assert np.abs(counts.mean(axis=0) - k / n).max() < 4.5 * math.sqrt(variance / n_resamples)
    off = np.cov(counts, rowvar=False)[~np.eye(n, dtype=bool)]
    assert np.abs(off - covariance).max() < 4.8 * variance / math.sqrt(n_resamples)


def test_messages_add_up_to_the_pooled_sums():
    rng = np.random.default_rng(1)
    clients = [rs.Moments(rng.normal(size=(n, 2, 2)), rng.normal(size=(n, 2))) for n in SIZES]
    counts = federated_counts("U", 3, 20)
    split = np.split(counts, np.cumsum(SIZES)[:-1], axis=1)
    messages = [federated.client_message(m, c) for m, c in zip(clients, split, strict=True)]
    pooled = rs.Moments.from_rows(np.concatenate([m.rows for m in clients]), 2, None, symmetric=False)
    plan = rs.plan_from_indices(np.array([np.flatnonzero(row) for row in counts]), 7)
    sums = rs.engine.subset_sums(pooled, plan)
    np.testing.assert_allclose(sum(A for A, _ in messages), sums.A, rtol=1e-12)
    np.testing.assert_allclose(sum(b for _, b in messages), sums.b, rtol=1e-12)


def test_federated_and_pooled_estimates_agree():
    clients = federated.simulated_clients((100, 200, 300))
    pooled = rs.Moments.from_rows(np.concatenate([m.rows for m in clients]), 5, None, symmetric=False)
    theta, error = federated.federated_estimate(clients, subsample_size=300, n_resamples=400, rng=2)
    central = rs.average(rs.replicate(pooled, rs.make_plan(600, n_resamples=400, random_state=2)))
    noise = np.sqrt(np.diag(central.replay_covariance.monte_carlo))
    assert (np.abs(theta - central.theta) < 4.5 * np.sqrt(2) * noise).all()
    np.testing.assert_allclose(error, central.standard_error, rtol=0.4)


def test_clipping_bounds_every_observation_and_leaves_small_ones():
    moments = federated.simulated_clients((50,))[0]
    clipped = federated.clip_moments(moments, 0.2)
    norm = np.sqrt((moments.g**2).sum(axis=(1, 2)) + (moments.f**2).sum(axis=1))
    after = np.sqrt((clipped.g**2).sum(axis=(1, 2)) + (clipped.f**2).sum(axis=1))
    np.testing.assert_allclose(after, np.minimum(norm, 0.2), rtol=1e-12)


def test_noise_has_the_scale_of_the_largest_change_of_the_message():
    """Removing any one observation moves the message by no more than one unit of noise."""
    rng = np.random.default_rng(3)
    moments = rs.Moments(rng.normal(size=(20, 2, 2)), rng.normal(size=(20, 2)))
    counts = federated.draw_inside(20, np.full(200, 10), rng=4)
    A, b = federated.client_message(moments, counts, clip_norm=1.0)
    scale = math.sqrt((counts**2).sum(axis=0).max())
    for i in range(20):
        without = counts.copy()
        without[:, i] = 0
        A_i, b_i = federated.client_message(moments, without, clip_norm=1.0)
        moved = math.sqrt(((A - A_i) ** 2).sum() + ((b - b_i) ** 2).sum())
        assert moved <= scale * (1 + 1e-12)
    noisy_A, noisy_b = federated.client_message(moments, counts, clip_norm=1.0, noise_multiplier=2.0, rng=5)
    noise = np.concatenate([(noisy_A - A).ravel(), (noisy_b - b).ravel()])
    assert noise.std() == pytest.approx(2.0 * scale, rel=5 / math.sqrt(2 * noise.size))


def test_privacy_is_the_conversion_of_concentrated_privacy():
    rho = 1 / (2 * 3.0**2)
    assert federated.privacy_spent(3.0, 1e-6) == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e6)))
    with pytest.raises(ValueError, match="`clip_norm` must be given"):
        federated.client_message(federated.simulated_clients((5,))[0], np.ones((2, 5)), noise_multiplier=1.0)
