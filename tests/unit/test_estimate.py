"""The record of an answer: methods, errors, intervals, and when they are withheld."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import replaystats as rs
from oracles import settings
from replaystats.inference import jackknife_covariance, replay_variance, sandwich_covariance


@pytest.fixture
def moments(rng):
    g = np.eye(3) + 0.3 * rng.normal(size=(120, 3, 3))
    return rs.Moments(g, rng.normal(size=(120, 3)))


@pytest.fixture
def replicates(moments):
    return rs.replicate(moments, rs.make_plan(120, subsample_size=0.5, n_resamples=300, random_state=1))


METHODS = ("mean", "controlled", "median")


def test_every_method_is_close_to_the_plug_in(moments, replicates):
    plain = rs.plug_in(moments)
    for method in METHODS:
        estimate = rs.average(replicates, method)
        assert estimate.method == method
        assert (np.abs(estimate.theta - plain.theta) < 0.5 * plain.standard_error).all()
        ratio = estimate.standard_error / plain.standard_error
        assert ((ratio > 0.8) & (ratio < 1.3)).all()


def test_controlled_is_the_mean_of_what_is_left(moments, replicates):
    """mean(theta_b - W_b H / k), with influences and counts written out."""
    H = rs.inference.influence_values(moments)
    linear = replicates.plan.counts() @ H / 60
    np.testing.assert_allclose(
        rs.average(replicates, "controlled").theta, (replicates.theta - linear).mean(axis=0), rtol=1e-10
    )


def test_control_leaves_the_complete_statistic_alone(rng):
    moments = rs.Moments(rng.uniform(1, 2, 7), rng.normal(size=7))
    for statistic in ("complete", "complete_v"):
        everything = rs.replicate(moments, rs.make_plan(7, statistic=statistic, subsample_size=3))
        plain, controlled = rs.average(everything), rs.average(everything, "controlled")
        np.testing.assert_allclose(controlled.theta, plain.theta, rtol=1e-12)
        np.testing.assert_allclose(controlled.covariance, plain.covariance, rtol=1e-9)


def test_auto_says_what_it_chose(replicates):
    chosen = rs.average(replicates, "auto")
    assert (chosen.method, chosen.requested) == ("controlled", "auto")
    states = settings.ou_paths(np.random.default_rng(0), 300, start=0.5)
    unstable = rs.Moments(*settings.trajectory_moments(settings.lstd_pair, states))
    plan = rs.make_plan(300, subsample_size=0.3, n_resamples=100, random_state=0)
    assert rs.average(rs.replicate(unstable, plan), "auto").method == "median"
    lepski = rs.replicate(unstable, plan, solver=rs.solvers.Lepski())
    assert (
        rs.average(lepski, "auto").method == "mean"
    )  # answers stay small where a solver chooses its own penalty


def test_intervals_with_plenty_of_data_are_nearly_normal_and_need_no_refit(rng, replicates):
    estimate = rs.average(replicates, "controlled")
    X = rng.normal(size=(5, 3))
    error = np.sqrt(np.einsum("mi,ij,mj->m", X, estimate.covariance, X))
    for level in (0.5, 0.95):
        z = stats.norm.ppf((1 + level) / 2)
        interval = estimate.confidence_interval(X, level)
        low, high = interval
        np.testing.assert_allclose(high - low, 2 * z * error, rtol=0.06)
        np.testing.assert_allclose(low / 2 + high / 2, X @ estimate.theta, atol=0.15 * error.max())
        np.testing.assert_allclose(interval.pivot.standard_error, error)
        assert set(interval.pivot.how) == {"noise"}
        assert len(interval.sentences) == 5


def test_the_plug_in_has_its_jackknife(moments):
    np.testing.assert_allclose(rs.plug_in(moments).covariance, jackknife_covariance(moments), rtol=1e-12)
    assert rs.plug_in(moments).replay_covariance is None


def test_monte_carlo_noise_is_part_of_the_error(replicates):
    mean = rs.average(replicates)
    parts = mean.replay_covariance
    np.testing.assert_allclose(mean.covariance, parts.sampling + parts.monte_carlo)
    np.testing.assert_allclose(
        np.diag(parts.monte_carlo), replicates.theta.var(axis=0, ddof=1) / 300, rtol=1e-10
    )
    # The sampling variance is the same estimate for both; only what B subsets add differs.
    controlled = rs.average(replicates, "controlled").replay_covariance
    np.testing.assert_allclose(controlled.sampling, parts.sampling, rtol=1e-8)
    assert (np.diag(controlled.monte_carlo) < 0.3 * np.diag(parts.monte_carlo)).all()


@pytest.mark.parametrize("method", METHODS)
def test_leverage_is_added_with_replacement(moments, method):
    plan = rs.make_plan(120, statistic="V", subsample_size=0.5, n_resamples=300, random_state=1)
    replicates = rs.replicate(moments, plan)
    estimate = rs.average(replicates, method)
    missing = jackknife_covariance(moments) - sandwich_covariance(moments)
    alone = replay_variance(replicates.theta, plan, linear=replicates.linear(), covariance=True).sampling
    if method in ("mean", "controlled"):
        np.testing.assert_allclose(estimate.replay_covariance.sampling, alone + missing, rtol=1e-8)
    ratio = estimate.standard_error / rs.plug_in(moments).standard_error
    assert ((ratio > 0.8) & (ratio < 1.3)).all()


@pytest.mark.parametrize("method", METHODS)
def test_extend_continues(moments, replicates, method):
    more = rs.average(replicates, method).extend(200)
    longer = rs.make_plan(120, subsample_size=0.5, n_resamples=500, random_state=1)
    np.testing.assert_allclose(
        more.theta, rs.average(rs.replicate(moments, longer), method).theta, rtol=1e-12
    )
    assert len(more.replicates) == 500


def test_extend_keeps_the_request(replicates):
    assert rs.average(replicates, "auto").extend(10).requested == "auto"


def test_the_plug_in_cannot_be_extended(moments):
    with pytest.raises(ValueError, match="`estimate` must be an average of replicates"):
        rs.plug_in(moments).extend(10)


def test_several_outputs(rng, moments):
    f = rng.normal(size=(120, 3, 2))
    both = rs.Moments(moments.g, f)
    plan = rs.make_plan(120, subsample_size=0.5, n_resamples=300, random_state=1)
    X = rng.normal(size=(4, 3))
    for method in METHODS:
        together = rs.average(rs.replicate(both, plan), method)
        low, high = together.confidence_interval(X)
        assert low.shape == high.shape == (4, 2)
        assert together.standard_error.shape == (3, 2)
        for output in range(2):
            alone = rs.average(rs.replicate(rs.Moments(moments.g, f[:, :, output]), plan), method)
            np.testing.assert_allclose(low[:, output], alone.confidence_interval(X).low, rtol=1e-8)
            np.testing.assert_allclose(together.standard_error[:, output], alone.standard_error, rtol=1e-8)
    np.testing.assert_allclose(
        rs.plug_in(both).standard_error[:, 1],
        rs.plug_in(rs.Moments(moments.g, f[:, :, 1])).standard_error,
        rtol=1e-8,
    )


def test_factored_moments(rng):
    X = rng.normal(size=(150, 40))
    moments = rs.moments.ridge_moments(X, X[:, 0] + rng.normal(size=150))
    assert isinstance(moments, rs.moments.FactoredMoments)
    dense = moments.multiply_out()
    plan = rs.make_plan(150, subsample_size=0.8, n_resamples=60, random_state=0)
    estimates = [rs.average(rs.replicate(m, plan), "controlled") for m in (moments, dense)]
    np.testing.assert_allclose(estimates[0].covariance, estimates[1].covariance, rtol=1e-6, atol=1e-12)


# Where averages have no variance of their own


@pytest.fixture(scope="module")
def crossing():
    """LSTD from a narrow start: many subsets cross."""
    states = settings.ou_paths(np.random.default_rng(0), 300, start=0.5)
    moments = rs.Moments(*settings.trajectory_moments(settings.lstd_pair, states))
    return rs.replicate(moments, rs.make_plan(300, subsample_size=0.3, n_resamples=1000, random_state=0))


@pytest.mark.parametrize("method", METHODS)
def test_averages_over_a_pole_have_the_interval_of_the_plug_in(crossing, method):
    average, plain = rs.average(crossing, method), rs.plug_in(crossing.moments)
    for end, expected in zip(average.confidence_interval(), plain.confidence_interval(), strict=True):
        np.testing.assert_allclose(end, expected)


def test_rows_that_a_truncated_matrix_does_not_determine_are_withheld_and_no_others(rng):
    g = np.zeros((30, 3, 3))
    g[:, :2, :2] = np.eye(2)
    moments = rs.Moments(g, np.concatenate([rng.normal(size=(30, 2)), np.zeros((30, 1))], axis=1))
    interval = rs.plug_in(moments, rs.solvers.PseudoInverse()).confidence_interval()
    np.testing.assert_array_equal(interval.withheld, [False, False, True])
    assert "do not determine this answer" in interval.sentences[2]
    plain = rs.plug_in(rs.Moments(g[:, :2, :2], moments.f[:, :2])).confidence_interval()
    np.testing.assert_allclose(interval.low[:2], plain.low, rtol=1e-9)


def test_failed_replicates_leave_the_interval_of_the_plug_in(rng):
    y = rng.normal(size=40)
    g = np.concatenate([np.ones(38), [0.0, 0.0]])
    plan = rs.plan_from_indices(np.concatenate([rng.integers(0, 38, (60, 2)), [[38, 39]]]), 40)
    replicates = rs.replicate(rs.Moments(g, y), plan, on_failure="drop", solver=rs.solvers.LU())
    low, high = rs.average(replicates).confidence_interval()
    plain_low, plain_high = rs.plug_in(rs.Moments(g, y)).confidence_interval()
    np.testing.assert_allclose((low, high), (plain_low, plain_high))


def test_a_negative_variance_falls_back_to_the_plug_in(rng):
    """So few subsets cannot tell sampling variance from their noise without the control variate."""
    moments = rs.Moments(np.ones((400, 1, 1)), rng.normal(size=(400, 1, 30)))
    plan = rs.make_plan(400, subsample_size=200, n_resamples=30, random_state=0)
    replicates = rs.replicate(moments, plan)
    marked = replace(replicates, failed=np.arange(30) == 29)
    low, high = rs.average(marked).confidence_interval()
    assert (low < high).all()


def test_features_must_fit(moments):
    with pytest.raises(ValueError, match=r"`X` must be of shape \(m, q\) with q=3"):
        rs.plug_in(moments).confidence_interval(np.ones((2, 4)))
    with pytest.raises(ValueError, match="`confidence_level` must be"):
        rs.plug_in(moments).confidence_interval(confidence_level=1.0)


def test_the_median_of_few_members_after_a_crossing_knows_how_little_they_say():
    """An infinitesimal jackknife of 20 members is noise: it was a sixth of the standard error at places."""
    crossings = 0
    for seed in range(120):
        z, v, u = np.random.default_rng(seed).normal(size=(3, 100))
        x = 0.3 * z + v
        moments = rs.Moments(z * x, z * (x + u))
        plan = rs.make_plan(100, subsample_size=0.5, n_resamples=20, random_state=seed)
        median = rs.average(rs.replicate(moments, plan), "median")
        if not 0 < median.stability.sign_changed.sum() <= 1:
            continue
        crossings += 1
        parts = median.confidence_interval().pivot
        assert parts.degrees[0] <= 19
        t = stats.t.ppf(0.975, parts.degrees[0])
        assert t * parts.standard_error[0] > rs.plug_in(moments).standard_error[0]
    assert crossings > 1


def half_samples(moments, n_resamples=200):
    plan = rs.make_plan(len(moments), subsample_size=0.5, n_resamples=n_resamples, random_state=0)
    return rs.replicate(moments, plan, on_failure="drop")


@pytest.mark.parametrize("concentration", [4, 16])
def test_auto_is_not_huge_where_the_mean_does(concentration):
    """Weak instruments, 40 data sets: no worse than the plug-in by a tenth, and better than the mean."""
    errors = {"plug-in": [], "mean": [], "auto": []}
    for seed in range(40):
        moments = rs.Moments(*settings.iv_moments(np.random.default_rng(seed), 100, concentration))
        members = half_samples(moments)
        errors["plug-in"].append(rs.plug_in(moments).theta - 1.0)
        for method in ("mean", "auto"):
            errors[method].append(rs.average(members, method).theta - 1.0)
    rms = {method: np.sqrt(np.mean(np.square(error))) for method, error in errors.items()}
    assert rms["auto"] < 1.1 * rms["plug-in"]
    assert rms["auto"] < rms["mean"]


def test_the_value_of_a_policy_says_whose_it_is_and_is_that_of_the_fit():
    data = rs.simulate.ornstein_uhlenbeck(200, start="uniform", random_state=0)
    options = {"discount": np.exp(-0.1), "resampling": rs.Resampling(n_resamples=50), "random_state": 0}
    model = rs.LSTD(rs.basis.Fourier(2), **options).fit(data)
    value = model.policy_value([[0.0]])
    assert value.method == model.estimate_.method == "controlled"
    assert "no subset crosses singularity" in value.why
    assert value.method in repr(value)
    assert value.value == model.predict([[0.0]])[0]
    for one, other in zip(value.confidence_interval(), model.confidence_interval([[0.0]]), strict=True):
        assert one == other[0]
