"""The second-order constant against its definition, the components against enumeration and known truths."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles import second_order as oracle

import replaystats as rs


@pytest.fixture
def rng():
    return np.random.default_rng(31)


def replayed(moments, k, statistic="U", B=50):
    n = moments.n_observations
    plan = rs.make_plan(n, statistic=statistic, subsample_size=k, n_resamples=B, random_state=0)
    return rs.average(rs.replicate(moments, plan))


def matrices(rng, n, q=2):
    g = rng.normal(size=(n, q, q)) * 0.3 + np.eye(q) * rng.gamma(3.0, 0.5, size=(n, 1, 1))
    return g, rng.normal(size=(n, q))


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_the_constant_is_that_of_the_definition(rng, statistic):
    g, f = matrices(rng, 60)
    found = rs.inference.theorem(replayed(rs.Moments(g, f), 30, statistic)).second_order
    c, error = oracle.jackknifed_constant(g, f, 20)
    assert (found.c, found.standard_error) == (pytest.approx(c), pytest.approx(error))
    size = 1 / 30 - (1 / 60 if statistic == "U" else 0)
    assert found.variance_ratio == pytest.approx(1 + 2 * c * size)
    assert found.ratio_standard_error == pytest.approx(2 * error * size)


def test_pairs_are_those_of_the_definition(rng):
    g, f = matrices(rng, 40)
    found = rs.inference.theorem(replayed(rs.Moments(g, f), 20)).second_order
    group = np.arange(40) % 20
    left = [oracle.pair_variance(g[group != j], f[group != j]) for j in range(20)]
    expected = 20 * oracle.pair_variance(g, f) - 19 * np.mean(left, axis=0)
    np.testing.assert_allclose(found.pair_variance, np.maximum(expected, 0))
    np.testing.assert_allclose(found.zeta(3), 3 * found.zeta_1k + 3 * found.pair_variance / 20**4)


def test_units_of_several_steps_give_what_their_matrices_give(rng):
    data = rs.simulate.ornstein_uhlenbeck(150, start="uniform", random_state=1)
    basis = rs.basis.Fourier(1)
    moments = rs.moments.lstd_moments(data, basis, discount=0.8)
    dense = moments.multiply_out() if hasattr(moments, "multiply_out") else moments
    points = basis(np.linspace(-1, 1, 4)[:, None])
    one, two = (rs.inference.theorem(replayed(m, 60), points).second_order for m in (moments, dense))
    assert one.c == pytest.approx(two.c)
    np.testing.assert_allclose(one.zeta_1k, two.zeta_1k)


def test_equal_noise_is_a_tie_and_noise_that_grows_with_leverage_pays(rng):
    """Gauss-Markov: c = 0; c = -2.04 and 1.48 by 200,000 units for noisy and quiet leverage."""
    x = rng.normal(size=(1600, 3))
    leverage, e = (x**2).mean(axis=1), rng.normal(size=1600)
    effects = []
    for noise, truth in ((e, 0.0), (np.sqrt(leverage) * e, -2.04), (e / np.sqrt(0.3 + leverage), 1.48)):
        found = rs.inference.theorem(
            replayed(rs.moments.ridge_moments(x, x.sum(axis=1) + noise), 200)
        ).second_order
        assert abs(found.c - truth) < 3.5 * found.standard_error
        effects.append(found.effect)
    assert effects == [
        "no significant difference",
        "replay lowers the variance",
        "replay raises the variance",
    ]


def test_a_constant_or_other_units_change_nothing(rng):
    x, e = rng.normal(size=(200, 2)), rng.normal(size=200)
    X = np.column_stack([np.ones(200), x])
    point = np.array([[0.0, 1.0, 0.0]])
    found = []
    for scale, constant in ((1.0, 0.0), (1e4, 0.0), (1.0, 50.0)):
        units = X * [1.0, scale, 1.0]
        y = X.sum(axis=1) + (1 + x[:, 0] ** 2) * e + constant
        found.append(
            rs.inference.theorem(replayed(rs.moments.ridge_moments(units, y), 100), point).second_order.c
        )
    np.testing.assert_allclose(found, found[0], rtol=1e-6)


def test_nothing_is_predicted_where_a_group_determines_a_direction():
    x = np.zeros((60, 2))
    x[:, 0], x[7, 1] = 1.0, 1.0
    moments = rs.moments.ridge_moments(x, np.arange(60.0))
    plan = rs.make_plan(60, subsample_size=40, n_resamples=50, random_state=0)
    estimate = rs.average(rs.replicate(moments, plan, on_failure="drop"))
    assert rs.inference.theorem(estimate).second_order is None


def test_the_components_of_a_degenerate_direction(rng):
    """(E x, -(E x)^2) at mean 0: -(mean)^2 has k^4 zeta_1k = Var(x^2) = 2 and zeta_kk = 2 / k^2.

    n = 400, k = 100, 30 data sets. The first order is 0, and a test of size .05 finds that in most data sets.
    """
    zeta, condition, variance = [], [], []
    for _ in range(30):
        x = rng.normal(size=400)
        g = np.zeros((400, 2, 2))
        g[:, 0, 0] = g[:, 1, 1] = 1.0
        g[:, 1, 0] = x
        f = np.column_stack([x, np.zeros(400)])
        found = rs.inference.theorem(replayed(rs.Moments(g, f), 100, B=200), np.array([[0.0, 1.0]]))
        zeta.append(100**4 * found.zeta_1k.item())
        condition.append(found.zeta_ratio)
        variance.append(found.complete_variance.item())
    assert np.median(zeta) == pytest.approx(2.0, rel=0.1)
    assert np.median(condition) == pytest.approx(100**2 / 400, rel=0.2)
    assert np.mean(np.abs(np.array(zeta) / 2.0 - 1) < 0.2) > 0.5
    assert np.median(variance) == pytest.approx(2 / 400**2, rel=0.2)


def comparable(rng, size, n=12):
    """Draw g and f of `size` data sets of n rows, of which a subset has half."""
    x = rng.gamma(6.0, 1 / 6, size=(size, n))
    return x, x + rng.normal(size=(size, n))


def complete_variance(g, f):
    plan = rs.make_plan(len(g), statistic="complete", subsample_size=len(g) // 2)
    return rs.inference.theorem(rs.average(rs.replicate(rs.Moments(g, f), plan))).complete_variance.item()


def test_the_variance_of_u_is_that_of_wang_and_lindsay(rng):
    g, f = comparable(rng, 10, n=10)
    unbiased = [
        oracle.unbiased_variance(lambda rows, a=a, b=b: b[rows].sum() / a[rows].sum(), 10, 5)
        for a, b in zip(g, f, strict=True)
    ]
    assert np.mean([complete_variance(*one) for one in zip(g, f, strict=True)]) == pytest.approx(
        np.mean(unbiased), rel=0.01
    )


@pytest.mark.slow
def test_the_variance_of_u_is_unbiased_where_k_is_comparable_with_n(rng):
    """Mean over 400 data sets of n = 12, k = 6 against Var(U) from 4000."""
    g, f = comparable(rng, 4000)
    subsets = np.array([s for s in oracle.combinations(range(12), 6)])
    truth = (f[:, subsets].sum(axis=2) / g[:, subsets].sum(axis=2)).mean(axis=1).var(ddof=1)
    found = [complete_variance(*one) for one in zip(g[:400], f[:400], strict=True)]
    assert abs(np.mean(found) - truth) < 3 * np.std(found) / 20
