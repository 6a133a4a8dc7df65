"""What intervals and a diagnosis cost beside the fit: less than half of it for the interval."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs

N, B, POINTS = 5000, 1000, 50


@pytest.fixture(scope="module")
def problem():
    data = rs.simulate.ornstein_uhlenbeck(N, start="uniform", random_state=0)
    basis = rs.basis.Fourier(4)
    return data, basis, basis(np.linspace(-np.pi, np.pi, POINTS))


def fit(data, basis, statistic):
    """Moments, draws, sums and solves: everything up to the replicates."""
    moments = rs.moments.lstd_moments(data, basis, discount=np.exp(-0.1))
    plan = rs.make_plan(N, statistic=statistic, subsample_size=0.3, n_resamples=B, random_state=0)
    return rs.replicate(moments, plan)


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.benchmark(group="inference: n=5000, B=1000, 50 points")
def test_fit(measure, problem, statistic):
    data, basis, _ = problem
    measure(lambda: fit(data, basis, statistic), baseline=statistic == "U")


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.benchmark(group="inference: n=5000, B=1000, 50 points")
def test_controlled_interval(measure, problem, statistic):
    data, basis, X = problem
    replicates = fit(data, basis, statistic)
    low, high = measure(lambda: rs.average(replicates, "auto").confidence_interval(X))
    assert (low < high).all()


@pytest.mark.benchmark(group="inference: n=5000, B=1000, 50 points")
def test_plug_in_interval(measure, problem):
    data, basis, X = problem
    moments = rs.moments.lstd_moments(data, basis, discount=np.exp(-0.1))
    low, high = measure(lambda: rs.plug_in(moments).confidence_interval(X))
    assert (low < high).all()


@pytest.mark.parametrize("statistic", ["U", "V"])
@pytest.mark.benchmark(group="inference: n=5000, B=1000, 50 points")
def test_diagnosis(measure, problem, statistic):
    data, basis, X = problem
    replicates = fit(data, basis, statistic)
    diagnosis = measure(lambda: rs.average(replicates, "auto").diagnose(X))
    assert diagnosis.interval_valid
