"""Lahiri-Midzuno plans and given probabilities, against enumeration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import replaystats as rs
from replaystats.inference import midzuno_sizes, reweighted_average


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_subsets_have_probability_in_proportion_to_their_sum():
    """20,000 subsets of 3 of 5: frequencies within 4.5 standard errors of P(S)."""
    a = np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    plan = rs.plans.midzuno_plan(a, subsample_size=3, n_resamples=20_000, random_state=0)
    drawn, counts = np.unique(np.sort(plan.indices(), axis=1), axis=0, return_counts=True)
    every = np.array(list(combinations(range(5), 3)))
    np.testing.assert_array_equal(drawn, every)
    P = a[every].sum(axis=1) / a[every].sum()
    assert np.abs((counts / 20_000 - P) / np.sqrt(P * (1 - P) / 20_000)).max() < 4.5
    inclusion = [P[(every == i).any(axis=1)].sum() for i in range(5)]
    np.testing.assert_allclose(plan.expected_counts, inclusion)
    w = dict(zip(map(tuple, every), 1 / (len(every) * P), strict=True))
    found = [w[tuple(sorted(subset))] for subset in plan.indices(0, 20)]
    np.testing.assert_allclose(plan.importance_weights[:20], found)


@pytest.mark.parametrize("form", ["horvitz_thompson", "difference"])
def test_given_probabilities_average_to_the_complete_statistic(rng, form):
    """Each subset weighted by its own probability: the expectation of the average, exactly."""
    g, f = rng.gamma(4.0, 0.25, 6), rng.normal(1.0, 1.0, 6)
    moments = rs.Moments(g, f)
    every = np.array(list(combinations(range(6), 3)))
    h = f[every].sum(axis=1) / g[every].sum(axis=1)
    P = rng.dirichlet(np.ones(len(every)))
    plan = rs.plan_from_indices(every, 6, probabilities=P)
    np.testing.assert_allclose(plan.importance_weights, 1 / (len(every) * P))
    plain = 0.0 if form == "horvitz_thompson" else f.sum() / g.sum()
    terms = (h - plain) / (len(every) * P)
    assert P @ terms + plain == pytest.approx(h.mean())
    found = reweighted_average(rs.replicate(moments, plan), form)
    assert found.theta.item() == pytest.approx(plain + terms.mean())


@pytest.mark.parametrize(("options", "message"), [
    ({"probabilities": [0.5, 0.0]}, "`probabilities` must be in"),
    ({"probabilities": [0.5]}, "`probabilities` must be as long as `indices`"),
    ({"probabilities": [0.5, 0.5], "weights": [1.0, 1.0]}, "`weights` must be None beside"),
])  # fmt: skip
def test_given_probabilities_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        rs.plan_from_indices([[0, 1], [1, 2]], 3, **options)


def test_the_design_removes_the_linear_monte_carlo_noise(rng):
    """n = 300, k = 100, B = 50, 60 redraws: at most a hundredth of the variance of uniform subsets."""
    g = rng.gamma(4.0, 0.25, 300)
    moments = rs.Moments(g, 1.0 + g + rng.normal(size=300))
    sizes, origin = midzuno_sizes(moments)
    designed, uniform = [], []
    for seed in range(60):
        plan = rs.plans.midzuno_plan(sizes, subsample_size=100, n_resamples=50, random_state=seed)
        found = reweighted_average(rs.replicate(moments, plan), "horvitz_thompson", origin=origin)
        designed.append(found.theta.item())
        plan = rs.make_plan(300, subsample_size=100, n_resamples=50, random_state=seed)
        uniform.append(rs.average(rs.replicate(moments, plan), "mean").theta.item())
    assert np.var(designed) < np.var(uniform) / 100
    assert np.mean(designed) == pytest.approx(np.mean(uniform), abs=4 * np.std(uniform) / 60**0.5)


def test_one_functional_of_several_coefficients(rng):
    X = rng.normal(size=(80, 3))
    moments = rs.moments.ridge_moments(X, X.sum(axis=1) + rng.normal(size=80))
    with pytest.raises(ValueError, match="`x` must be given"):
        midzuno_sizes(moments)
    x = np.array([1.0, 0.0, -1.0])
    sizes, origin = midzuno_sizes(moments, x)
    plan = rs.plans.midzuno_plan(sizes, subsample_size=40, n_resamples=200, random_state=0)
    found = reweighted_average(rs.replicate(moments, plan), "horvitz_thompson", X=x[None], origin=origin)
    plain = rs.average(
        rs.replicate(moments, rs.make_plan(80, subsample_size=40, n_resamples=200, random_state=0))
    )
    assert found.theta.item() == pytest.approx(x @ plain.theta, abs=0.02)
