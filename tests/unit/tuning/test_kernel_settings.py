"""What is chosen before a kernel ridge regression is fitted: one record with nothing left open."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from numpy.testing import assert_allclose

import replaystats as rs
from replaystats.kernel.features import FeatureRidge
from replaystats.kernel.fits import KernelRidgeReplicates
from replaystats.kernel.local import LocalKernelRidge
from replaystats.kernel.problem import KernelProblem
from replaystats.tuning.kernel import resolve_kernel_ridge


@pytest.fixture
def data(rng):
    X = rng.uniform(size=(120, 2))
    return X, np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=120)


def set_fitted(data, **parameters):
    rng = np.random.default_rng(0)
    return resolve_kernel_ridge(rs.ReplayKernelRidge(**parameters)._parameters, *data, rng=rng)


FOUR = rs.Resampling(n_resamples=4)
METHODS = {
    "subsets": (KernelRidgeReplicates, {"resampling": rs.Resampling(size=30, n_resamples=20)}),
    "features": (FeatureRidge, {"resampling": rs.Resampling(n_resamples=20)}),
    "local": (LocalKernelRidge, {"resampling": rs.Resampling(size=40, n_resamples=2)}),
}


@pytest.mark.parametrize("method", METHODS)
def test_members_follow_from_the_record_alone(data, method):
    """Fitted twice, or by the estimator, they are the same: nothing is drawn any more."""
    kind, sizes = METHODS[method]
    chosen = set_fitted(data, method=method, **sizes)
    assert isinstance(chosen.fit(), kind)
    assert (chosen.method, chosen.grow) == (method, False)
    with pytest.raises(FrozenInstanceError):
        chosen.problem.alpha = 2
    model = rs.ReplayKernelRidge(method=method, random_state=0, **sizes).fit(*data)
    assert (model.alpha_, model.gamma_, model.choices_) == (
        chosen.problem.alpha,
        chosen.problem.kernel.gamma,
        chosen.choices,
    )
    points = data[0][:9]
    for _ in range(2):
        found = chosen.fit().values(points)[:, :, 0]
        assert_allclose(found, model.predict_members(points), rtol=1e-12)


def test_growth_is_for_subsets_whose_number_is_free(data):
    assert set_fitted(data, method="subsets", resampling=rs.Resampling(size=30)).grow
    assert not set_fitted(data).grow
    plan = rs.make_plan(120, subsample_size=30, n_resamples=5, random_state=0)
    given = rs.ReplayKernelRidge()._parameters
    fixed = resolve_kernel_ridge(given, *data, plan=plan, rng=np.random.default_rng(0))
    assert not fixed.grow
    assert fixed.plan is plan


@pytest.mark.parametrize("standardize", [None, "global", "arcsinh", "subset"])
def test_units_are_those_of_a_problem_checked_from_the_beginning(data, standardize):
    chosen = set_fitted(
        data, method="subsets", standardize=standardize, alpha=0.2, gamma=0.5, resampling=FOUR
    )
    wanted = KernelProblem.checked(*data, 0.2, chosen.problem.kernel, standardize, None)
    found = chosen.fit().problem
    assert_allclose(found.points, wanted.points, rtol=1e-14)
    assert_allclose(found.y, wanted.y, rtol=1e-14)
    assert_allclose(found.shared_intercept, wanted.shared_intercept, rtol=1e-14)
    assert (found.per_subset, found.alpha) == (wanted.per_subset, wanted.alpha)


@pytest.mark.parametrize("method", ["subsets", "local"])
def test_all_rows_at_once(data, method):
    model = rs.ReplayKernelRidge(method=method, alpha=0.2, gamma=0.5, **METHODS[method][1]).fit(*data)
    whole, problem = model.plug_in_, model.estimate_.members.problem
    K = problem.kernel(problem.points, problem.points)
    wanted = K @ np.linalg.solve(K + 0.2 * np.eye(120), problem.y) + problem.shared_intercept
    assert_allclose(whole.mean(data[0]), wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "local", "standardize": "subset"}, '`standardize` must be other than "subset"'),
        ({"method": "features", "standardize": "subset"}, '`standardize` must be other than "subset"'),
        ({"method": rs.basis.Nystroem(5), "standardize": "subset"}, "`standardize` must be other than"),
        ({"method": rs.basis.Nystroem(5, gamma=1.0), "gamma": 2.0}, "`gamma` must be None when"),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_work(data, parameters, message, monkeypatch):
    def work(*_, **__):
        raise AssertionError("work was done")

    monkeypatch.setattr("replaystats.tuning.kernel.resolve_whole_fit", work)
    with pytest.raises(ValueError, match=message):
        set_fitted(data, **parameters)


def test_a_plan_for_leaves_or_other_rows_is_refused_before_any_work(data, monkeypatch):
    def work(*_, **__):
        raise AssertionError("work was done")

    plan = rs.make_plan(100, subsample_size=30, n_resamples=5, random_state=0)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match='`plan` must be None when method="local"'):
        resolve_kernel_ridge(rs.ReplayKernelRidge(method="local")._parameters, *data, plan=plan, rng=rng)
    monkeypatch.setattr("replaystats.tuning.ensembles.choose_subsets", work)
    with pytest.raises(ValueError, match="`plan` must be made for the 120 rows"):
        resolve_kernel_ridge(rs.ReplayKernelRidge(method="subsets")._parameters, *data, plan=plan, rng=rng)
