"""Small producers of `Pivot`: groups left out, and averages of members without known influence."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from .._core.arrays import to_numpy
from .._core.thresholds import NOMINAL_LEVEL
from .._core.typing import FloatArray
from .components import ReplayVariance
from .degrees import monte_carlo_degrees
from .noise import noise_of
from .pivot import Pivot


def group_jackknife_pivot(estimate: FloatArray, left_out: FloatArray) -> Pivot:
    """Return the record of estimates (m,) from those without each of G equal groups, (G, m).

    Examples
    --------
    >>> values = np.array([1.0, 2.0, 4.0, 9.0])
    >>> without = (values.sum() - values) / 3
    >>> group_jackknife_pivot(np.array([4.0]), without[:, None]).standard_error.round(3)  # of a mean
    array([1.78])
    """
    noise = noise_of(estimate - left_out).symmetric()
    return noise.pivot(estimate, np.abs(estimate))


def ensemble_pivot(centre: Any, parts: ReplayVariance, *, controlled: bool = False) -> Pivot:
    """Return the record of an average without known influence: as many degrees as members have.

    Parameters
    ----------
    centre : array
    parts : ReplayVariance
    controlled : bool
        Whether a control variate took the linear part off.
    """
    variance, degrees = variance_of_members(parts, controlled=controlled)
    units = np.full(variance.shape, float(parts.plan.n_observations))
    return Pivot(estimate=to_numpy(centre), standard_error=np.sqrt(variance), degrees=degrees, units=units)


def variance_of_members(parts: ReplayVariance, *, controlled: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return the variance that gives the shorter nominal interval, and its degrees of freedom.

    The infinitesimal jackknife of few members is mostly noise, which its degrees of freedom show. The spread
    of members bounds the variance from above with little noise: with few it is the better. With a control
    variate (`controlled`) it is considered only where more noise was taken off than variance is left.
    """
    variance, correction = to_numpy(parts.variance), to_numpy(parts.raw - parts.sampling)
    n, most = parts.plan.n_observations, parts.n_used - 1.0
    degrees = monte_carlo_degrees(variance, correction, n, parts.n_used, controlled=controlled)
    bound = np.maximum(to_numpy(parts.delete_d + parts.monte_carlo), 0.0)
    few, many = (
        special.stdtrit(free, 0.5 + NOMINAL_LEVEL / 2) * np.sqrt(size)
        for free, size in ((most, bound), (degrees, variance))
    )
    bounded = (few < many) & (correction > variance if controlled else True)
    return np.where(bounded, bound, variance), np.where(bounded, most, degrees)
