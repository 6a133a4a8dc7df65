"""Policy evaluation as estimators of a study: LSTD and PhiBE, plain or replayed, published inverse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from replaystats import average, lstd_moments, make_plan, phibe_moments, plug_in, replicate
from replaystats.basis import Fourier
from replaystats.simulate import TorusBrownian
from replaystats.solvers import PseudoInverse
from replaystats.toolkit import FloatArray

from .sources import Source


def torus(rng: np.random.Generator, dimension: int = 2, steps: int = 20, n_test: int = 200) -> Source:
    """Brownian motion on a torus, rewarded by one wave along each axis and one across the first two.

    The truth is the value in continuous time, which PhiBE aims at; LSTD's own target differs by O(dt).
    """
    axes = np.eye(dimension, dtype=int)
    waves = [*axes.tolist(), (axes[0] + axes[1]).tolist()]
    process = TorusBrownian(waves=waves, discount_rate=1.0)
    points = rng.uniform(-np.pi, np.pi, (n_test, dimension))
    return Source(lambda n, rng: (process.sample(n, steps, rng=rng),), points, process.value(points))


def lstd(
    data: Any, points: FloatArray, rng: np.random.Generator, B: int, k: int, statistic: str
) -> FloatArray:
    """Return LSTD's values at the points; statistic "plain" is the plug-in."""
    basis = _basis(points)
    return values(lstd_moments(data, basis, discount=math.exp(-0.1)), basis(points), rng, B, k, statistic)


def phibe(
    data: Any, points: FloatArray, rng: np.random.Generator, B: int, k: int, statistic: str, order: int
) -> FloatArray:
    """Return PhiBE's values at the points; statistic "plain" is the plug-in."""
    basis = _basis(points)
    moments = phibe_moments(data, basis, discount_rate=1.0, order=order)
    return values(moments, basis(points), rng, B, k, statistic)


def values(
    moments: Any, features: FloatArray, rng: np.random.Generator, B: int, k: int, statistic: str
) -> FloatArray:
    """Return the paper's estimates: the plain mean over subsets, each solved with the published threshold."""
    solver = PseudoInverse()
    if statistic == "plain":
        return np.asarray(plug_in(moments, solver).predict(features))
    plan = make_plan(moments.n_observations, statistic=statistic, subsample_size=k, n_resamples=B, rng=rng)
    return np.asarray(average(replicate(moments, plan, solver=solver), "mean").predict(features))


def _basis(points: FloatArray) -> Fourier:
    return Fourier(2, dimension=points.shape[1], kind="total")
