"""Noise that depends on a column which does not move the mean."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import replaystats as rs
from replaystats.kernel.predictive import LocalNoise


def table(rng, n):
    """Return rows whose noise depends on the third column alone."""
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, np.sin(3 * X[:, 0]) + np.exp(1.2 * X[:, 2]) * 0.3 * rng.normal(size=n)


@pytest.mark.slow
def test_every_fifth_of_the_rows_is_covered():
    """400 rows, 90 % intervals, 5 data sets of 1000 rows: every fifth within .84 to .96; +- .02 each."""
    covered = np.zeros((5, 5))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        (X, y), (Z, z) = table(rng, 400), table(rng, 1000)
        model = make_pipeline(StandardScaler(), rs.ReplayKernelRidge(random_state=0)).fit(X, y)
        _, low, high = model.predict(Z, return_interval=True, confidence_level=0.9, scale="local")
        fifth = np.argsort(np.argsort(Z[:, 2])) // 200
        covered[seed] = [np.mean(((low <= z) & (z <= high))[fifth == part]) for part in range(5)]
    assert (np.abs(covered.mean(axis=0) - 0.9) < 0.06).all()


def test_equal_noise_stays_equal(rng):
    noise = LocalNoise.of(rng.normal(size=(200, 5)), rng.normal(size=(200, 1)))
    assert (noise.scale == 1).all()
    assert (noise(rng.normal(size=(3, 5))) == 1).all()


@pytest.mark.parametrize("n", [1, 4, 12])
def test_few_rows(rng, n):
    noise = LocalNoise.of(rng.normal(size=(n, 2)), rng.normal(size=(n, 1)))
    assert np.isfinite(noise.scale).all()


def test_a_row_without_a_residual_takes_no_part(rng):
    residuals = rng.normal(size=(40, 1))
    residuals[3] = np.nan
    noise = LocalNoise.of(rng.normal(size=(40, 2)), residuals)
    assert np.isnan(noise.scale[3]).all()
    assert np.isfinite(np.delete(noise.scale, 3)).all()
