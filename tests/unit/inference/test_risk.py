"""Leave-units-out risks against refits, and the advice that follows from them on known problems."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles import risk as oracle

import replaystats as rs
from replaystats._core.thresholds import PENALTIES
from replaystats.inference import risk
from replaystats.inference.stability import PILOT_SEED, Stability, pilot_replicates
from replaystats.solvers import Auto


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def table(moments, X=None):
    return risk.risk_table(Stability(replicates=pilot_replicates(moments, Auto())), X)


@pytest.mark.parametrize("symmetric", [True, False])
def test_risks_of_a_ridge_are_those_of_refits(rng, symmetric):
    x = np.column_stack([np.ones(40), rng.normal(size=(40, 3))])
    z = x if symmetric else x + 0.3 * np.column_stack([np.zeros(40), rng.normal(size=(40, 3))])
    y = 3 + 0.2 * x[:, 1:].sum(axis=1) + rng.normal(size=40)
    g, f = z[:, :, None] * x[:, None, :], z * y[:, None]
    moments = rs.Moments(g, f, symmetric=symmetric)
    W = np.eye(4) if symmetric else rng.normal(size=(6, 4))
    group = np.random.default_rng(PILOT_SEED).permutation(np.arange(40) % 40)
    expected, error = oracle.ridge_risks(g, f, group, PENALTIES, W, symmetric, np.eye(4)[0])
    best = int(np.argmin(expected))
    candidates = {one.action: one for one in table(moments, W).candidates}
    found = candidates["add ridge"]
    assert found.penalty == pytest.approx(PENALTIES[best])
    assert found.risk == pytest.approx(max(0.03, expected[best]), rel=1e-6)
    assert found.standard_error == pytest.approx(error[best], rel=1e-6)


def test_the_correction_of_a_chosen_shrinkage_is_that_of_steins_identity(rng):
    """q means with errors of variance 1, shrunk by the factor of least unbiased risk."""
    q = 6
    theta = rng.normal(size=q)
    y = theta + rng.normal(size=(400_000, q))
    shrinkage = q / np.square(y).sum(axis=1)  # minimises a^2 |y|^2 - 2 a q, the excess over the plain risk
    found = q - q * shrinkage + 4 * shrinkage
    actual = np.square((1 - shrinkage)[:, None] * y - theta).sum(axis=1)
    gap = found - actual
    assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(len(gap))
    assert (4 * shrinkage).mean() > 20 * gap.std() / np.sqrt(len(gap))  # without it the risk is too small


@pytest.mark.statistical
def test_the_estimated_risk_of_a_chosen_ridge_is_its_risk(rng):
    ratios, errors = [], []
    for _ in range(60):
        x = rng.normal(size=(100, 8))
        y = 0.15 * x.sum(axis=1) + rng.normal(size=100)
        moments = rs.moments.ridge_moments(x, y)
        found = table(moments).candidates[1]
        ratios.append(found.risk)
        ridge = rs.plug_in(moments, risk.scaled_ridge(moments, found.penalty)).theta
        errors.append([np.sum((theta - 0.15) ** 2) for theta in (rs.plug_in(moments).theta, ridge)])
    plain, chosen = np.mean(errors, axis=0)
    assert np.mean(ratios) == pytest.approx(chosen / plain, abs=0.1)


def test_one_slope_gets_no_ridge():
    def make(rng):
        X = rng.normal(size=(60, 1))
        return X, 0.2 * X[:, 0] + rng.normal(size=60)

    assert not any(action.endswith("ridge") for action in actions(make))


def test_the_constant_is_found_from_rows_and_from_matrices(rng):
    x = rng.normal(size=(30, 2))
    by_row = rs.moments.ols_moments(x, x.sum(axis=1))
    np.testing.assert_allclose(risk.constant_direction(by_row), [1, 0, 0], atol=1e-8)
    clustered = rs.moments.ols_moments(x, x.sum(axis=1), clusters=np.repeat(np.arange(10), 3))
    np.testing.assert_allclose(risk.constant_direction(clustered), [1, 0, 0], atol=1e-8)
    assert risk.constant_direction(rs.moments.ridge_moments(x, x.sum(axis=1))) is None


def test_few_units_get_no_advice(rng):
    x = rng.normal(size=(9, 2))
    found = table(rs.moments.ridge_moments(x, x.sum(axis=1) + rng.normal(size=9)))
    assert [one.action for one in found.candidates] == ["keep the plug-in"]


def actions(make, data_sets=12):
    found = []
    for seed in range(data_sets):
        X, y = make(np.random.default_rng(seed))
        found.append(rs.plug_in(rs.moments.ols_moments(X, y)).diagnose().recommendation)
    return found


def test_noise_that_grows_with_leverage_gets_replay():
    def make(rng):
        X = rng.normal(size=(200, 4))
        return X, 3 * X.sum(axis=1) + (X**2).sum(axis=1) * rng.normal(size=200)

    assert sum(action.startswith("replay") for action in actions(make)) >= 9


def test_weak_signals_in_many_columns_get_a_ridge():
    def make(rng):
        X = rng.normal(size=(60, 10))
        return X, 0.1 * X.sum(axis=1) + rng.normal(size=60)

    assert sum(action.endswith("ridge") for action in actions(make)) >= 11


def test_quiet_leverage_never_gets_replay():
    """The mean squared error of replay with half the units is 1.08 times the plug-in's."""

    def make(rng):
        X = rng.normal(size=(200, 4))
        return X, 3 * X.sum(axis=1) + rng.normal(size=200) / np.sqrt(0.1 + (X**2).mean(axis=1))

    assert not any(action.startswith("replay") for action in actions(make))


def test_a_ridge_is_replayed_where_replay_does_not_raise_the_risk():
    """Both help: 0.89 and 0.94 of the plug-in's root mean squared error, 0.87 together."""

    def make(rng):
        X = rng.normal(size=(60, 8))
        return X, 0.2 * X.sum(axis=1) + (X**2).mean(axis=1) * rng.normal(size=60)

    assert actions(make).count("replay with ridge") >= 8


def fitted_kernel_ridge(rng, alpha=0.3, standardize=None, **fit):
    X = rng.random((30, 2))
    y = np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=30)
    resampling = rs.Resampling("U", 12, 60)
    model = rs.ReplayKernelRidge(
        alpha,
        kernel="rbf",
        gamma=2.0,
        method="subsets",
        standardize=standardize,
        resampling=resampling,
        random_state=0,
    )
    return model.fit(X, y, **fit)


def test_replay_of_kernel_ridge_is_compared_with_one_fit_by_rows_left_out(rng):
    model = fitted_kernel_ridge(rng)
    X, y = model.X_fit_, model.y_fit_
    K = np.exp(-2.0 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    members, indices = model.predict_members(X), model.estimate_.members.indices
    replayed, alone = np.empty((2, 30))
    one_fit, replay = model.diagnose().risks.candidates
    for i in range(30):
        rest = np.delete(np.arange(30), i)
        dual = np.linalg.solve(K[np.ix_(rest, rest)] + one_fit.penalty * np.eye(29), y[rest])
        alone[i] = (y[i] - K[i, rest] @ dual) ** 2
        replayed[i] = (y[i] - members[~(indices == i).any(axis=1), i].mean()) ** 2
    gain = (alone - replayed) / alone.mean()
    assert replay.risk == pytest.approx(replayed.mean() / alone.mean(), rel=1e-6)
    assert replay.standard_error == pytest.approx(gain.std(ddof=1) / np.sqrt(30), rel=1e-6)


def test_one_fit_at_its_own_penalty_is_advised_where_replay_overfits(rng):
    found = fitted_kernel_ridge(rng, alpha=1e-5).diagnose()
    assert found.recommendation == "keep the plug-in"
    assert found.error_ratio > 1.2
    assert f"alpha={found.risks.candidates[0].penalty:.2g}" in found.why


def test_weighted_rows_are_not_compared_with_one_fit(rng):
    assert fitted_kernel_ridge(rng, sample_weight=np.arange(1.0, 31.0)).diagnose().risks is None
