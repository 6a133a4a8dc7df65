"""Influence, sandwich and delete-one jackknife against refits, finite differences and textbook formulas."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs
from oracles import inference as oracle
from replaystats._core.errors import SingularReplicateError
from replaystats.inference import (
    delete_one,
    influence as module,
    influence_values,
    jackknife_bias,
    jackknife_covariance,
    linearise,
    sandwich_covariance,
)
from replaystats.moments import FactoredMoments


def random_moments(rng, n=30, q=4, n_outputs=None):
    g = np.eye(q) + 0.3 * rng.normal(size=(n, q, q))
    f = rng.normal(size=(n, q) if n_outputs is None else (n, q, n_outputs))
    return g, f


def random_factors(rng, lengths, q, n_outputs=None, symmetric=False):
    """Ragged factored moments, well conditioned, and the same written out."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    left = rng.normal(size=(offsets[-1], q))
    right = left if symmetric else left + 0.3 * rng.normal(size=left.shape)
    response = rng.normal(size=offsets[-1] if n_outputs is None else (offsets[-1], n_outputs))
    factored = FactoredMoments(left, right, response, offsets)
    return factored, factored.multiply_out()


def test_influence_is_the_derivative(rng):
    g, f = random_moments(rng)
    np.testing.assert_allclose(
        influence_values(rs.Moments(g, f)), oracle.influence_by_difference(g, f), atol=1e-7
    )


def test_influence_under_a_penalty_is_the_derivative(rng):
    g, f = random_moments(rng)
    values = influence_values(rs.Moments(g, f), rs.solvers.Ridge(5.0))
    np.testing.assert_allclose(values, oracle.influence_by_difference(g, f, alpha=5.0), atol=1e-7)


def test_sandwich_is_lemma_1(rng):
    g, f = random_moments(rng)
    np.testing.assert_allclose(sandwich_covariance(rs.Moments(g, f)), oracle.lemma_1(g, f), rtol=1e-10)


def test_sandwich_of_a_scalar_ratio(rng):
    g, f = rng.uniform(1, 2, 40), rng.normal(size=40)
    theta = f.sum() / g.sum()
    expected = np.var(f - theta * g, ddof=1) / g.mean() ** 2 / 40
    assert sandwich_covariance(rs.Moments(g, f)).item() == pytest.approx(expected, rel=1e-12)


def test_least_squares_agrees_with_statsmodels(rng):
    sm = pytest.importorskip("statsmodels.api")
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 3.0] + np.abs(X[:, 0]) * rng.normal(size=60)
    moments = rs.moments.ridge_moments(X, y)
    fit = sm.OLS(y, X).fit()
    # HC0 is sum of squared scores; the sandwich here has n - 1 in place of n.
    np.testing.assert_allclose(sandwich_covariance(moments) * 59 / 60, fit.cov_HC0, rtol=1e-10)
    left_out = fit.params - fit.get_influence().dfbeta
    np.testing.assert_allclose(delete_one(moments), left_out, rtol=1e-10)


@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_delete_one_is_a_refit(rng, n_outputs, alpha):
    g, f = random_moments(rng, n_outputs=n_outputs)
    fitted = delete_one(rs.Moments(g, f), rs.solvers.Ridge(alpha))
    np.testing.assert_allclose(fitted, oracle.delete_one(g, f, alpha), rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 3.0])
@pytest.mark.parametrize("unit", [1.0, 1e5])  # beside a condition number that is trusted, one that is not
def test_delete_one_of_many_functions_is_a_refit(rng, alpha, unit):
    n, q = 6, 40
    g = np.eye(q) + 0.05 * rng.normal(size=(n, q, q))
    g[:, :, 0] = g[:, :, 1] + g[:, :, 0] / unit
    f = rng.normal(size=(n, q))
    fitted = delete_one(rs.Moments(g, f), rs.solvers.Ridge(alpha) if alpha else None)
    np.testing.assert_allclose(fitted, oracle.delete_one(g, f, alpha), rtol=1e-9 * unit, atol=1e-9)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("n_outputs", [None, 2])
@pytest.mark.parametrize("lengths", [[1] * 25, [2, 1, 3, 5, 2, 4, 7, 1, 6, 3]])
def test_factored_moments_agree_with_written_out_ones(rng, lengths, n_outputs, symmetric):
    factored, dense = random_factors(rng, lengths, 4, n_outputs, symmetric)
    for function in (influence_values, sandwich_covariance, delete_one, jackknife_covariance):
        np.testing.assert_allclose(function(factored), function(dense), rtol=1e-8, atol=1e-10)


def test_blocks_do_not_change_the_answer(rng, monkeypatch):
    g, f = random_moments(rng)
    factored, _ = random_factors(rng, [2, 1, 3, 5, 2, 4, 7, 1, 6, 3], 4)
    whole = delete_one(rs.Moments(g, f)), jackknife_covariance(factored)
    monkeypatch.setattr(module, "_BLOCK_NUMBERS", 16 * 7)
    np.testing.assert_allclose(delete_one(rs.Moments(g, f)), whole[0], rtol=1e-12)
    np.testing.assert_allclose(jackknife_covariance(factored), whole[1], rtol=1e-10)


def test_jackknife_covariance_and_bias_from_the_refits(rng):
    g, f = random_moments(rng)
    left_out = oracle.delete_one(g, f)
    moments = rs.Moments(g, f)
    np.testing.assert_allclose(jackknife_covariance(moments), oracle.jackknife(left_out), rtol=1e-9)
    bias = 29 * (left_out.mean(axis=0) - oracle.ratio(g, f))
    np.testing.assert_allclose(jackknife_bias(moments), bias, rtol=1e-7, atol=1e-10)


def test_outputs_are_separate_estimates(rng):
    g, f = random_moments(rng, n_outputs=3)
    together = rs.Moments(g, f)
    for output in range(3):
        alone = rs.Moments(g, f[:, :, output])
        for function in (sandwich_covariance, jackknife_covariance):
            np.testing.assert_allclose(function(together)[output], function(alone), rtol=1e-10)


def test_resolvent_identity(rng):
    """h_b - theta = (I + M_b)^-1 H_b, exactly, for any subset."""
    g, f = random_moments(rng)
    linear = linearise(rs.Moments(g, f))
    H = linear.influence(rs.Moments(g, f))
    M = np.linalg.inv(g.mean(axis=0)) @ (g - g.mean(axis=0))
    rows = rng.integers(0, 30, 12)
    expected = np.linalg.solve(np.eye(4) + M[rows].mean(axis=0), H[rows].mean(axis=0))
    np.testing.assert_allclose(oracle.ratio(g[rows], f[rows]) - linear.theta, expected, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 4.0])
def test_linear_part_of_a_subset_is_the_mean_of_its_influences(rng, alpha):
    g, f = random_moments(rng)
    moments = rs.Moments(g, f)
    linear = linearise(moments, rs.solvers.Ridge(alpha), share=0.4)
    rows = rng.integers(0, 30, (5, 12))
    expected = linear.influence(moments)[rows].mean(axis=1)
    part = linear.linear_part(g[rows].sum(axis=1), f[rows].sum(axis=1))
    np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-12)


def test_pseudo_inverse_of_a_good_matrix_is_the_inverse(rng):
    moments = rs.Moments(*random_moments(rng))
    np.testing.assert_allclose(
        jackknife_covariance(moments, rs.solvers.PseudoInverse()), jackknife_covariance(moments), rtol=1e-9
    )


def test_truncation_has_no_delete_one(rng):
    g, f = random_moments(rng, q=2)
    g[:, 1] = g[:, 0]
    f[:, 1] = f[:, 0]
    with pytest.raises(ValueError, match="keeps every direction"):
        delete_one(rs.Moments(g, f), rs.solvers.PseudoInverse())
    with pytest.raises(SingularReplicateError, match="no influence values"):
        sandwich_covariance(rs.Moments(g, f), rs.solvers.LU())


def test_a_solver_that_looks_at_the_data_is_not_linear(rng):
    moments = rs.Moments(*random_moments(rng))
    with pytest.raises(ValueError, match="`solver` must be a solver whose penalty does not depend"):
        linearise(moments, rs.solvers.Lepski())
