"""The covariance of replayed averages against enumeration, explicit sums and exact identities."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import replaystats as rs
from oracles import inference as oracle
from replaystats.inference import jackknife_covariance, replay_variance


def random_moments(rng, n=12, q=2, n_outputs=None):
    g = np.eye(q) + 0.2 * rng.normal(size=(n, q, q))
    f = rng.normal(size=(n, q) if n_outputs is None else (n, q, n_outputs))
    return rs.Moments(g, f)


def hoeffding_variance(zeta, n):
    """Var(U_nk) from all its components, sum_c C(k,c) C(n-k,k-c) / C(n,k) zeta_c."""
    k = len(zeta)
    return sum(
        math.comb(k, c) * math.comb(n - k, k - c) / math.comb(n, k) * z for c, z in enumerate(zeta, start=1)
    )


def complete(moments, k, statistic="complete"):
    n = moments.n_observations
    return rs.replicate(moments, rs.make_plan(n, statistic=statistic, subsample_size=k))


def drawn(moments, statistic, k, n_resamples=300, seed=3):
    plan = rs.make_plan(
        moments.n_observations,
        statistic=statistic,
        subsample_size=k,
        n_resamples=n_resamples,
        random_state=seed,
    )
    return rs.replicate(moments, plan)


def replay_covariance(replicates, *, controlled=False):
    return replay_variance(
        replicates.theta,
        replicates.plan,
        failed=replicates.failed,
        linear=replicates.linear() if controlled else None,
        plug_in=lambda: jackknife_covariance(replicates.moments, replicates.solver),
        covariance=True,
    )


# Exact identities


@pytest.mark.parametrize("k", [2, 3, 5])
def test_complete_u_has_the_jackknife_of_the_complete_statistic(rng, k):
    moments = random_moments(rng, n=7)
    everyone = np.arange(7)
    left_out = np.array(
        [oracle.complete_u(moments.g[everyone != i], moments.f[everyone != i], k) for i in everyone]
    )
    result = replay_covariance(complete(moments, k))
    np.testing.assert_allclose(result.sampling, oracle.jackknife(left_out), rtol=1e-9)
    assert not result.monte_carlo.any()


def test_leaving_one_out_is_the_jackknife_of_the_plug_in(rng):
    moments = random_moments(rng, n=9)
    np.testing.assert_allclose(
        replay_covariance(complete(moments, 8)).sampling, jackknife_covariance(moments), rtol=1e-9
    )


def test_complete_v_is_the_derivative_of_the_v_functional(rng):
    moments = random_moments(rng, n=5, q=1)
    n, k, eps = 5, 3, 1e-5
    slopes = []
    for i in range(n):
        point = np.eye(n)[i]
        uniform = np.full(n, 1 / n)
        ahead = oracle.v_functional(moments.g, moments.f, k, (1 - eps) * uniform + eps * point)
        behind = oracle.v_functional(moments.g, moments.f, k, (1 + eps) * uniform - eps * point)
        slopes.append((ahead - behind).item() / (2 * eps))
    expected = sum(slope**2 for slope in slopes) / (n * (n - 1))
    assert replay_covariance(complete(moments, k, "complete_v")).sampling.item() == pytest.approx(
        expected, rel=1e-7
    )


@pytest.mark.parametrize("statistic", ["complete", "complete_v"])
def test_a_mean_has_its_textbook_variance(statistic):
    y = np.array([1.0, 2.0, 4.0, 8.0, 9.0, 3.0])
    replicates = complete(rs.Moments(np.ones(6), y), 3, statistic)
    assert replay_covariance(replicates).sampling.item() == pytest.approx(y.var(ddof=1) / 6, rel=1e-12)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_a_mean_has_its_textbook_variance_from_any_draws(statistic, rng):
    """Under the control variate a linear problem has no Monte-Carlo noise at all."""
    y = rng.normal(size=40)
    replicates = drawn(rs.Moments(np.ones(40), y), statistic, 10, n_resamples=5)
    result = replay_covariance(replicates, controlled=True)
    assert result.sampling.item() == pytest.approx(y.var(ddof=1) / 40, rel=1e-12)


def test_taking_everything_is_the_plug_in(rng):
    moments = random_moments(rng)
    replicates = drawn(moments, "U", 12, n_resamples=20)
    np.testing.assert_allclose(replicates.theta, rs.plug_in(moments).theta[None].repeat(20, 0), rtol=1e-12)
    result = replay_covariance(replicates)
    np.testing.assert_allclose(result.total, jackknife_covariance(moments), rtol=1e-12)
    np.testing.assert_allclose(result.replicate, 0, atol=1e-24)


@pytest.mark.parametrize("statistic", ["complete", "complete_v"])
def test_control_changes_nothing_when_there_is_no_noise(rng, statistic):
    replicates = complete(random_moments(rng, n=7), 4, statistic)
    plain = replay_covariance(replicates)
    controlled = replay_covariance(replicates, controlled=True)
    np.testing.assert_allclose(controlled.sampling, plain.sampling, rtol=1e-9)


def test_linear_share_of_the_delete_d_variance(rng):
    """sampling = R^2 delete_d, with R^2 from regressing replicates on counts."""
    moments = random_moments(rng, n=7, q=1)
    replicates = complete(moments, 3)
    parts = replay_covariance(replicates).components()
    counts = replicates.plan.counts()
    fitted = counts @ np.linalg.lstsq(counts, replicates.theta, rcond=None)[0]
    explained = fitted.var() / replicates.theta.var()
    np.testing.assert_allclose(parts.linear_share, explained, rtol=1e-9)
    assert (parts.delete_d >= parts.sampling).all()


# The three-atom population: exact expectations over every sample


@pytest.fixture(scope="module")
def population():
    """Mean and variance of the complete U-statistic, and the means of its estimated components."""
    n, k = 5, 3
    plan = rs.make_plan(n, statistic="complete", subsample_size=k)
    rows = []
    for sample, p in oracle.samples(n):
        replicates = rs.replicate(rs.Moments(sample[:, 0], sample[:, 1]), plan)
        parts = replay_covariance(replicates).components()
        rows.append((p, replicates.theta.mean(), parts.sampling.item(), parts.replicate.item()))
    p, centre, sampling, replicate = np.array(rows).T
    mean = p @ centre
    return {"variance": p @ (centre - mean) ** 2, "sampling": p @ sampling, "replicate": p @ replicate}


def test_three_atoms_variance_by_hoeffding(population):
    by_components = hoeffding_variance([oracle.zeta(c, 3) for c in (1, 2, 3)], 5)
    assert population["variance"] == pytest.approx(0.0334256705, abs=1e-9)
    assert by_components == pytest.approx(population["variance"], abs=1e-9)


def test_three_atoms_jackknife_is_conservative(population):
    assert population["sampling"] == pytest.approx(0.034904, abs=1e-6)
    assert population["sampling"] >= population["variance"]


def test_three_atoms_blom(population):
    """Blom's identity is total variance: given the data, B subsets add v / B."""
    zeta_kk = oracle.zeta(3, 3)
    assert population["replicate"] + population["variance"] == pytest.approx(zeta_kk, abs=1e-9)
    with_seven = (1 - 1 / 7) * population["variance"] + zeta_kk / 7
    assert with_seven == pytest.approx(0.0368259248, abs=1e-9)
    assert with_seven == pytest.approx(population["variance"] + population["replicate"] / 7, abs=1e-9)


# Draws


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_drawn_subsets_against_explicit_sums(rng, statistic):
    moments = random_moments(rng, n=40)
    replicates = drawn(moments, statistic, 15)
    X = rng.normal(size=(3, 2))
    parts = replay_covariance(replicates).components(X)
    counts = replicates.plan.counts()
    for row, x in enumerate(X):
        raw, corrected = oracle.infinitesimal_jackknife(
            replicates.theta @ x, counts, replacement=statistic == "V"
        )
        assert parts.raw[row] == pytest.approx(raw, rel=1e-9)
        assert parts.sampling[row] == pytest.approx(corrected, rel=1e-9)
        v = np.var(replicates.theta @ x, ddof=1)
        assert parts.replicate[row] == pytest.approx(v, rel=1e-9)
        assert parts.monte_carlo[row] == pytest.approx(v / 300, rel=1e-9)
        assert parts.total[row] == pytest.approx(corrected + v / 300, rel=1e-9)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_theta_space_agrees_with_the_jackknife_of_predictions(rng, statistic):
    replicates = drawn(random_moments(rng, n=40), statistic, 15)
    X = rng.normal(size=(3, 2))
    by_members = replay_variance(replicates.theta @ X.T, replicates.plan)
    parts = replay_covariance(replicates).components(X)
    np.testing.assert_allclose(parts.sampling, by_members.sampling, rtol=1e-9)
    np.testing.assert_allclose(parts.delete_d, by_members.delete_d, rtol=1e-9)


@pytest.mark.parametrize("statistic", ["U", "V"])
def test_components_of_u_statistics(rng, statistic):
    replicates = drawn(random_moments(rng, n=40), statistic, 15)
    parts = replay_covariance(replicates).components()
    np.testing.assert_allclose(15**2 * parts.zeta_1k / 40, parts.sampling)
    if statistic == "U":
        np.testing.assert_allclose(parts.zeta_kk, parts.replicate + parts.sampling)
        blom = (1 - 1 / 300) * parts.sampling + parts.zeta_kk / 300
        np.testing.assert_allclose(parts.total, blom, rtol=1e-12)
    else:
        np.testing.assert_allclose(parts.zeta_kk, parts.replicate)


@pytest.mark.parametrize("statistic", ["U", "V", "complete", "complete_v"])
def test_outputs_are_separate(rng, statistic):
    n, k = (7, 4) if statistic.startswith("complete") else (40, 15)
    moments = random_moments(rng, n=n, n_outputs=2)
    fit = complete(moments, k, statistic) if n == 7 else drawn(moments, statistic, k)
    together = replay_covariance(fit, controlled=True)
    for output in range(2):
        alone = rs.replicate(rs.Moments(moments.g, moments.f[:, :, output]), fit.plan)
        expected = replay_covariance(alone, controlled=True)
        for part in ("sampling", "raw", "replicate", "monte_carlo"):
            np.testing.assert_allclose(
                getattr(together, part)[output], getattr(expected, part), rtol=1e-9, atol=1e-14
            )


def test_blocks_of_observations_do_not_matter(rng, monkeypatch):
    moments = random_moments(rng, n=40)
    indices = rs.make_plan(40, statistic="V", subsample_size=15, n_resamples=600, random_state=1).indices()
    replicates = rs.replicate(moments, rs.plan_from_indices(indices, 40))
    whole = replay_covariance(replicates, controlled=True)
    monkeypatch.setattr("replaystats.plans.plan.TILE_ROWS", 17)
    other = rs.replicate(moments, rs.plan_from_indices(indices, 40))
    assert len(other.plan.row_blocks) == 3
    np.testing.assert_allclose(replay_covariance(other, controlled=True).sampling, whole.sampling, rtol=1e-12)


def test_failed_replicates_take_no_part(rng):
    moments = random_moments(rng, n=40)
    replicates = drawn(moments, "U", 15)
    broken = rs.plan_from_indices(replicates.plan.indices(0, 200), 40)
    fewer = rs.replicate(moments, broken)
    failed = np.zeros(300, dtype=bool)
    failed[200:] = True
    marked = replace(replicates, failed=failed, theta=np.where(failed[:, None], np.nan, replicates.theta))
    np.testing.assert_allclose(replay_covariance(marked).total, replay_covariance(fewer).total, rtol=1e-10)


def test_control_variate_has_mean_zero_over_all_subsets(rng):
    moments = random_moments(rng, n=7)
    for solver in (rs.solvers.LU(), rs.solvers.Ridge(3.0)):
        plan = rs.make_plan(7, statistic="complete", subsample_size=4)
        replicates = rs.replicate(moments, plan, solver=solver)
        linear = replicates.linear().values
        np.testing.assert_allclose(linear.mean(axis=0), 0, atol=1e-13)
        # ... and it is most of what moves the replicates.
        rest = replicates.theta - linear
        assert (rest.var(axis=0) < 0.2 * replicates.theta.var(axis=0)).all()


def test_counts_have_the_covariances_the_formulas_assume():
    n, k = 5, 3
    for statistic, diagonal, off in (
        ("complete", k / n * (1 - k / n), -k * (n - k) / (n**2 * (n - 1))),
        ("complete_v", k / n * (1 - 1 / n), -k / n**2),
    ):
        plan = rs.make_plan(n, statistic=statistic, subsample_size=k)
        weights = np.full(plan.n_resamples, 1 / plan.n_resamples)
        weights = weights if plan.subset_weights is None else plan.subset_weights
        counts = plan.counts()
        assert np.allclose(weights @ counts, k / n)
        covariance = (counts - k / n).T @ (weights[:, None] * (counts - k / n))
        expected = np.full((n, n), off)
        np.fill_diagonal(expected, diagonal)
        np.testing.assert_allclose(covariance, expected, atol=1e-14)


def test_one_replicate_has_no_variance(rng):
    with pytest.raises(ValueError, match="`n_resamples` must be at least 2"):
        replay_covariance(drawn(random_moments(rng), "U", 6, n_resamples=1))


def test_all_two_subsets_of_a_mean_by_hand():
    """zeta_1 = s^2 / 4, zeta_2 = s^2 / 2: Hoeffding's formula gives the variance of a mean."""
    s2 = 3.0
    for n in range(2, 7):
        assert hoeffding_variance([s2 / 4, s2 / 2], n) == pytest.approx(s2 / n)


def test_invariances_of_the_replicates(rng):
    """(g, f) -> (Q g, Q f) leaves theta alone; g -> g T^-1 gives T theta, and the covariance follows."""
    moments = random_moments(rng, n=40)
    Q, T = rng.normal(size=(2, 2, 2)) + 2 * np.eye(2)
    plan = rs.make_plan(40, subsample_size=15, n_resamples=100, random_state=0)
    base = replay_covariance(rs.replicate(moments, plan)).total
    mixed = rs.replicate(rs.Moments(Q @ moments.g, moments.f @ Q.T), plan)
    moved = rs.replicate(rs.Moments(moments.g @ np.linalg.inv(T), moments.f), plan)
    np.testing.assert_allclose(replay_covariance(mixed).total, base, rtol=1e-8)
    np.testing.assert_allclose(replay_covariance(moved).total, T @ base @ T.T, rtol=1e-8)
