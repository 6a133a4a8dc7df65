"""Least squares and instrumental variables beside statsmodels and linearmodels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import replaystats as rs
from replaystats.inference.model_checks import overidentification_test


@pytest.fixture
def data(rng):
    n = 120
    z, w = rng.normal(size=(n, 3)), rng.normal(size=(n, 1))
    u = rng.normal(size=n) * (1 + np.abs(w[:, 0]))  # unequal variances
    x = (z @ [1.0, 0.5, 0.2] + u + rng.normal(size=n))[:, None]
    y = 1 + 2 * x[:, 0] - w[:, 0] + u
    return x, w, z, y, np.arange(n) // 5


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC3"])
def test_least_squares_equals_statsmodels(data, kind):
    sm = pytest.importorskip("statsmodels.api")
    x, w, _, y, _ = data
    X = np.hstack([x, w])
    theirs = sm.OLS(y, sm.add_constant(X)).fit(cov_type=kind, use_t=True)
    ours = rs.summary(rs.plug_in(rs.moments.ols_moments(X, y)), covariance=kind)
    assert_allclose(ours.estimate, theirs.params, rtol=1e-8)
    assert_allclose(ours.standard_error, theirs.bse, rtol=1e-8)
    assert_allclose(ours.t, theirs.tvalues, rtol=1e-8)
    assert_allclose(ours.p_value, theirs.pvalues, rtol=1e-6, atol=1e-30)
    assert_allclose(np.column_stack([ours.low, ours.high]), theirs.conf_int(), rtol=1e-8)


def test_clusters_equal_statsmodels(data):
    sm = pytest.importorskip("statsmodels.api")
    x, _, _, y, clusters = data
    shuffled = np.random.default_rng(0).permutation(len(y))  # clusters need not be in order
    fit = sm.OLS(y, sm.add_constant(x)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False}
    )
    moments = rs.moments.ols_moments(x[shuffled], y[shuffled], clusters=clusters[shuffled])
    assert moments.n_observations == 24
    ours = rs.summary(rs.plug_in(moments), covariance="HC0")
    assert_allclose(ours.estimate, fit.params, rtol=1e-8)
    assert_allclose(ours.standard_error, fit.bse, rtol=1e-8)


@pytest.mark.parametrize("n_instruments", [1, 3])
def test_two_stages_equal_linearmodels(data, n_instruments):
    iv = pytest.importorskip("linearmodels.iv")
    x, w, z, y, clusters = data
    z = z[:, :n_instruments]
    own = np.hstack([np.ones((len(y), 1)), w])
    theirs = iv.IV2SLS(y, own, x, z).fit(cov_type="robust", debiased=False)
    fit = rs.plug_in(rs.moments.iv_moments(x, y, z, exogenous=w))
    ours = rs.summary(fit, ["constant", "w", "x"], covariance="HC0")
    assert_allclose(ours.estimate, theirs.params, rtol=1e-8)
    assert_allclose(ours.standard_error, theirs.std_errors, rtol=1e-8)
    grouped = iv.IV2SLS(y, own, x, z).fit(cov_type="clustered", clusters=clusters, debiased=False)
    ours = rs.summary(
        rs.plug_in(rs.moments.iv_moments(x, y, z, exogenous=w, clusters=clusters)), covariance="HC0"
    )
    assert_allclose(ours.standard_error, grouped.std_errors, rtol=1e-8)
    if n_instruments == 3:
        found = overidentification_test(x, y, z, exogenous=w)
        assert_allclose(found.statistic, theirs.sargan.stat, rtol=1e-8)
        assert_allclose(found.p_value, theirs.sargan.pval, rtol=1e-8)
        assert found.degrees_of_freedom == 2


def test_leave_one_out_changes_are_those_of_refits(data):
    x, w, z, y, _ = data
    moments = rs.moments.iv_moments(x, y, z[:, :1], exogenous=w)
    ours = rs.summary(rs.plug_in(moments), covariance="HC3")
    theta = rs.plug_in(moments).theta
    design = np.hstack([np.ones((len(y), 1)), w, x])
    instruments = np.hstack([np.ones((len(y), 1)), w, z[:, :1]])
    square = np.zeros(3)
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        own = np.linalg.solve(instruments[rest].T @ design[rest], instruments[rest].T @ y[rest])
        square += (own - theta) ** 2
    assert_allclose(ours.standard_error, np.sqrt(square), rtol=1e-8)


def test_a_replayed_fit_has_a_summary_by_name(data):
    x, w, _, y, _ = data
    moments = rs.moments.ols_moments(np.hstack([x, w]), y)
    replayed = rs.average(
        rs.replicate(moments, rs.make_plan(120, n_resamples=200, random_state=0)), "controlled"
    )
    found = rs.summary(replayed, ["constant", "x", "w"])
    assert_allclose(found.standard_error, replayed.pivot().standard_error)
    assert str(found).splitlines()[2].startswith("x ")
    frame = found.to_frame()
    assert list(frame.index) == ["constant", "x", "w"]
    assert_allclose(frame["p_value"], found.p_value)


def test_what_cannot_be_used(data):
    x, w, z, y, clusters = data
    with pytest.raises(ValueError, match="`instruments` must be at least as many columns as `X` \\(2\\)"):
        rs.moments.iv_moments(np.hstack([x, w]), y, z[:, :1])
    with pytest.raises(ValueError, match="`clusters` must be as long as `X`"):
        rs.moments.ols_moments(x, y, clusters=clusters[:-1])
    with pytest.raises(ValueError, match="They cannot disagree"):
        overidentification_test(x, y, z[:, :1])
    with pytest.raises(ValueError, match="`names` must be as long as `theta`"):
        rs.summary(rs.plug_in(rs.moments.ols_moments(x, y)), ["x"])
    with pytest.raises(TypeError, match="`fitted` must be an Estimate"):
        rs.summary(np.ones(3))


def test_a_second_intercept_is_refused(rng):
    """Two constants would share one intercept, half of it each, without a word."""
    X, y = np.column_stack([np.ones(20), rng.normal(size=20)]), rng.normal(size=20)
    with pytest.raises(ValueError, match="`intercept` must be False where `X` has a constant; got True"):
        rs.moments.ols_moments(X, y)
    assert_allclose(
        rs.plug_in(rs.moments.ols_moments(X, y, intercept=False)).theta, np.linalg.lstsq(X, y, rcond=None)[0]
    )
    with pytest.raises(ValueError, match="where `exogenous` has a constant"):
        rs.moments.iv_moments(X[:, 1:], y, rng.normal(size=(20, 1)), exogenous=X[:, :1])


def test_hc3_is_that_of_the_plug_in_whatever_was_averaged(rng):
    """Changes were counted from the average, so that its distance from the plug-in was taken for noise."""
    X = rng.normal(size=(30, 2))
    moments = rs.moments.ols_moments(X, X @ [1.0, 2.0] + rng.normal(size=30))
    mean = rs.average(rs.replicate(moments, rs.make_plan(30, n_resamples=50, random_state=0)), "mean")
    for covariance in ("HC0", "HC1", "HC3"):
        own, whole = (rs.summary(fit, covariance=covariance) for fit in (mean, rs.plug_in(moments)))
        assert_allclose(own.standard_error, whole.standard_error)


def test_as_many_coefficients_as_observations_leave_no_errors(rng):
    """Standard errors of an exact fit were rounding over rounding."""
    X = rng.normal(size=(3, 2))
    with pytest.raises(ValueError, match=r"more observations .* than coefficients; got 3 and 3"):
        rs.summary(rs.plug_in(rs.moments.ols_moments(X, rng.normal(size=3))))


def test_coefficients_of_columns_that_depend_on_each_other_have_no_errors(rng):
    """Two copies of a column shared its effect, each with a p-value of 1e-10."""
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=60)
    fit = rs.plug_in(rs.moments.ols_moments(np.column_stack([X, X[:, 0]]), y))
    with pytest.warns(rs.ReplayWarning, match="do not tell the coefficients a, repeated apart"):
        found = rs.summary(fit, ["constant", "a", "b", "repeated"])
    whole = rs.summary(rs.plug_in(rs.moments.ols_moments(X, y)))
    assert np.isnan(found.standard_error[[1, 3]]).all()
    assert np.isnan(found.p_value[[1, 3]]).all()
    assert_allclose(found.standard_error[[0, 2]], whole.standard_error[[0, 2]])


@pytest.mark.parametrize("kind", ["own", "HC0", "HC3"])
def test_the_effect_of_an_indicator_of_one_row_has_no_standard_error(kind):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), np.arange(60) == 7])
    fit = rs.plug_in(rs.moments.ols_moments(X, 1.0 + X @ [2.0, 3.0] + rng.normal(size=60)))
    with pytest.warns(rs.ReplayWarning, match=r"One observation .* alone determines the coefficients only: "):
        found = rs.summary(fit, ["constant", "x", "only"], covariance=kind)
    assert np.isfinite(found.standard_error).tolist() == [True, True, False]
