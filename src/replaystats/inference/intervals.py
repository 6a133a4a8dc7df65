"""Confidence intervals from a centre and its standard error."""

from __future__ import annotations

from typing import NamedTuple

from scipy import stats

from .._core.typing import FloatArray
from .._core.validation import check_real


class Interval(NamedTuple):
    """Lower and upper ends, arrays of one shape.

    Parameters
    ----------
    low, high : ndarray
        The ends; a tuple of the two, so that ``low, high = interval`` works.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = Interval(np.array([0.0]), np.array([1.0]))
    >>> high - low
    array([1.])
    """

    low: FloatArray
    high: FloatArray


def normal_interval(centre: FloatArray, standard_error: FloatArray, confidence_level: float) -> Interval:
    """Return centre -/+ z standard_error, with z the normal quantile of the level.

    Examples
    --------
    >>> import numpy as np
    >>> normal_interval(np.zeros(1), np.ones(1), 0.95).high.round(2)
    array([1.96])
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    half = stats.norm.ppf(0.5 + level / 2) * standard_error
    return Interval(centre - half, centre + half)
