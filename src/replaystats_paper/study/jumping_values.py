"""Values and bounds whose choices jump: LSTD that chooses a penalty or its functions, and a largest mean.

As in `jumping`: each choice once, replayed inside every subset, and a smooth method beside it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from replaystats import LSTD, average, lstd_moments, make_plan, plug_in, replicate
from replaystats.basis import Fourier
from replaystats.solvers import Lepski
from replaystats.toolkit import FloatArray

from ..policy import RelativeRidge
from .jumping import SHARE
from .sources import Source


def single_lepski(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """LSTD with the penalty that Lepski's rule chooses."""
    moments, features = _lstd(data, points)
    return np.asarray(plug_in(moments, Lepski(targets=features)).predict(features))


def replayed_lepski(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Apply the rule on 50 subsets of 0.3 n; take the median of their answers."""
    moments, features = _lstd(data, points)
    plan = make_plan(moments.n_observations, subsample_size=0.3, n_resamples=50, rng=rng)
    replicates = replicate(moments, plan, solver=Lepski(targets=features))
    return np.asarray(average(replicates, "median").predict(features))


def fixed_ridge(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """LSTD with a penalty that nothing chooses: a hundredth of the size of the matrix."""
    moments, features = _lstd(data, points)
    return np.asarray(plug_in(moments, RelativeRidge(0.01)).predict(features))


def _lstd(data: Any, points: FloatArray) -> tuple[Any, FloatArray]:
    basis = Fourier(4)
    return lstd_moments(data, basis, discount=math.exp(-0.1)), basis(points)


def bounds(rng: np.random.Generator, gap: float = 0.0) -> Source:
    """Three lower bounds for one number, each the mean of a column; the end point is the largest of them.

    `gap` is how far the third lies below the other two, which are equal: the rule jumps between them.
    """
    means = np.array([0.0, 0.0, -gap])

    def draw(n: int, rng: np.random.Generator) -> tuple[FloatArray]:
        return (means + rng.normal(size=(n, 3)),)

    return Source(draw, np.zeros((1, 1)), np.zeros(1))


def single_bound(rows: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the largest of the means."""
    return np.array([rows.mean(axis=0).max()])


def replayed_bound(rows: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the largest of the means in every subset, averaged."""
    return np.array([_subset_maxima(rows, rng).mean()])


def smooth_bound(rows: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Weigh the means by how likely each is the largest, given its standard error, in place of choosing."""
    means, error = rows.mean(axis=0), rows.std(axis=0, ddof=1).mean() / math.sqrt(len(rows))
    weights = np.exp((means - means.max()) / error)
    return np.array([means @ weights / weights.sum()])


def _subset_maxima(rows: FloatArray, rng: np.random.Generator) -> FloatArray:
    plan = make_plan(len(rows), subsample_size=SHARE, n_resamples=100, rng=rng)
    return np.asarray(rows[plan.indices()].mean(axis=1).max(axis=1))


def single_basis(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """LSTD on the functions that the rule of ``basis="auto"`` takes, once."""
    return np.asarray(_automatic(data, rng, n_resamples=2).plug_in_predict(points[:, None]))


def replayed_basis(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """``LSTD(basis="auto")``: the functions are chosen anew in every subset."""
    return np.asarray(_automatic(data, rng).predict(points[:, None]))


def penalised_basis(data: Any, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """LSTD on all the candidates with a penalty that Lepski's rule chooses."""
    basis = _automatic(data, rng, n_resamples=2).basis_
    moments = lstd_moments(data, basis, discount=math.exp(-0.1))
    return np.asarray(plug_in(moments, Lepski(0.5, path=(0.0, *Lepski().path))).predict(basis(points)))


def _automatic(data: Any, rng: np.random.Generator, n_resamples: int = 100) -> LSTD:
    model = LSTD(
        "auto", discount=math.exp(-0.1), subsample_size=SHARE, n_resamples=n_resamples, average="mean",
        random_state=int(rng.integers(2**31)),
    )  # fmt: skip
    return model.fit(data)
