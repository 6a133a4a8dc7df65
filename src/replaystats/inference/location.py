"""One answer out of replicates: mean, median, trimmed mean, and what each replicate contributes to it.

A location T of the replicates' distribution moves by the average of its scores when the distribution moves a
little. So the formulas for the mean hold for the others with scores in place of theta_b - mean: bounded
ones for the median and the trimmed mean, which is why these have a variance where the mean has none.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special, stats

from .._core.typing import FloatArray

# What is robust to huge members, and what is the mean of something.
ROBUST_METHODS = ("median", "trimmed")
# What takes the linear part of every member off, whose mean is known.
CONTROLLED_METHODS = ("controlled", "debiased")
LEAST_FOR_TAILS = 100


def locate(theta: FloatArray, method: str, *, weights: FloatArray | None = None, trim: float) -> FloatArray:
    """Return the mean, median or trimmed mean of replicates (B, ...) per coefficient."""
    if method == "median":
        return np.asarray(np.median(theta, axis=0))
    if method == "trimmed":
        return np.asarray(stats.trim_mean(theta, trim, axis=0))
    return np.asarray(np.average(theta, axis=0, weights=weights))


def location_scores(
    theta: FloatArray, method: str, *, weights: FloatArray | None = None, trim: float
) -> FloatArray:
    """Return the influence of every replicate on their location, mean zero, shape of theta.

    mean      theta_b - mean
    median    sign(theta_b - median) / (2 density at the median)
    trimmed   theta_b pulled in to the trimming points, centred, / (1 - 2 trim)
    """
    if method == "median":
        scores = np.sign(theta - np.median(theta, axis=0)) * _sparsity(theta) / 2
    elif method == "trimmed":
        n_cut = int(trim * len(theta))
        ordered = np.sort(theta, axis=0)
        scores = np.clip(theta, ordered[n_cut], ordered[-1 - n_cut]) / (1 - 2 * n_cut / len(theta))
    else:
        scores = theta
    return np.asarray(scores - np.average(scores, axis=0, weights=weights))


def _sparsity(theta: FloatArray) -> FloatArray:
    """Estimate 1 / density at the median from two quantiles, 0.97 B^(-1/3) to either side of it.

    This half width is the one of Hall and Sheather (1988) for a normal law at 95 %. Their difference quotient
    is too large by what the quantile function bends: 5 % for a hundred normal replicates, and twice that in a
    variance. Divided by the quantiles of the normal law it is right for that law, and the same as B grows.
    """
    half = min(0.25, 0.97 * len(theta) ** (-1 / 3))
    low, high = np.quantile(theta, [0.5 - half, 0.5 + half], axis=0)
    return np.asarray((high - low) * math.sqrt(math.pi / 2) / special.ndtri(0.5 + half))


def tail_index(theta: FloatArray) -> float:
    """Return Hill's estimate of the tail index of the replicates: below 2 they have no variance.

    Distances from the median in units of the median absolute deviation, largest coefficient; the top tenth.
    Fewer than 100 replicates do not show their tail: NaN.

    Normal replicates have an index of about 5 and more.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> tail_index(rng.normal(size=(1000, 3))) > 4 > 2 > tail_index(rng.standard_cauchy((1000, 3)))
    True
    """
    if len(theta) < LEAST_FOR_TAILS:
        return float("nan")
    flat = theta.reshape(len(theta), -1)
    deviation = np.abs(flat - np.median(flat, axis=0))
    scale = np.median(deviation, axis=0)
    moving = scale > 0  # replicates that are all alike have no tail
    if not moving.any():
        return float("inf")
    distance = np.sort((deviation[:, moving] / scale[moving]).max(axis=1))
    n_top = len(distance) // 10
    excess = np.log(distance[-n_top:] / distance[-n_top - 1])
    return float(1 / excess.mean()) if excess.mean() > 0 else float("inf")
