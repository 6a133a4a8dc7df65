"""Work is estimated before it starts: refused with the number, or announced."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import replaystats as rs
from replaystats._core.validation import check_work

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 2))
PATHS = rs.simulate.ornstein_uhlenbeck(60, n_steps=3, start="uniform", random_state=0)
FEW = rs.simulate.ornstein_uhlenbeck(5, n_steps=3, start="uniform", random_state=0)
PLAIN = rs.basis.Polynomial(1)
TOO_MUCH = {
    "LSTD": lambda: rs.LSTD(PLAIN, discount=0.9, resampling=rs.Resampling(n_resamples=10**9)).fit(PATHS),
    "kernel ridge": lambda: rs.ReplayKernelRidge(
        resampling=rs.Resampling(n_resamples=10**9), method="subsets"
    ).fit(X, X[:, 0]),
    "regressor": lambda: rs.ReplayRegressor(Ridge(), resampling=rs.Resampling(n_resamples=10**9)).fit(
        X, X[:, 0]
    ),
    "replicate": lambda: rs.replicate(
        rs.moments.ridge_moments(X, X[:, 0]), rs.make_plan(200, n_resamples=10**9, random_state=0)
    ),
    "indices": lambda: rs.make_plan(200, n_resamples=10**9, random_state=0).indices(),
    "many waves": lambda: rs.LSTD(rs.basis.Fourier(99_999), discount=0.9).fit(FEW),
    "many columns": lambda: rs.basis.Polynomial(1, dimension=10**5),
    "high degree": lambda: rs.basis.Polynomial(10**7),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_too_much_work_is_refused_with_the_number_and_at_once(name):
    started = time.process_time()
    with pytest.raises(ValueError, match=r"must be (such that|small enough).*\d"):
        TOO_MUCH[name]()
    assert time.process_time() - started < 10


def test_long_work_is_announced_and_usual_work_is_not():
    with pytest.warns(rs.ReplayWarning, match="`n_resamples` is 9: this takes about 10 minutes"):
        check_work(600.0, "n_resamples", 9)
    with pytest.raises(ValueError, match="about 2 days"):
        check_work(2e5, "n_resamples", 9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_work(1.0, "n_resamples", 9)
