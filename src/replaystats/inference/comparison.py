"""Differences of two estimates from the same units, paired: what both have in common cancels."""

from __future__ import annotations

import numpy as np

from .._core.errors import must_be
from .._core.typing import FloatArray
from .intervals import Interval, Parts
from .noise import noise_of


def paired_difference(
    difference: FloatArray,
    shifts: FloatArray,
    other_shifts: FloatArray,
    confidence_level: float,
    *,
    monte_carlo: FloatArray | float = 0.0,
    sequential: bool = False,
) -> Interval:
    """Return the interval of the differences of m answers.

    Parameters
    ----------
    difference : ndarray of shape (m,)
        First answers minus second.
    shifts, other_shifts : ndarray of shape (n, m)
        What unit i moves each of the two answers by.
    confidence_level : float in (0, 1)
    monte_carlo : ndarray of shape (m,) or float
        Variance because averages have finitely many members.
    sequential : bool
        Whether neighbouring units may be correlated.

    Examples
    --------
    Means of paired measurements: the interval is that of the mean of the differences.

    >>> before, after = np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.5, 2.4, 3.7, 5.4])
    >>> moves = [(x - x.mean())[:, None] / 3 for x in (before, after)]
    >>> low, high = paired_difference(np.array([before.mean() - after.mean()]), *moves, 0.95)
    >>> bool(high[0] < 0)
    True
    """
    if len(shifts) != len(other_shifts):
        hint = "Fit both on the same data with the same `unit`."
        rule = f"fitted on the same {len(shifts)} units"
        raise ValueError(must_be("other", rule, f"{len(other_shifts)} units", hint))
    noise = noise_of(shifts - other_shifts, sequential=sequential)
    low, high = noise.critical_values(confidence_level)
    error = np.sqrt(noise.variance + monte_carlo)
    parts = Parts(
        centre=difference,
        standard_error=error,
        degrees_of_freedom=noise.degrees,
        bias=np.zeros_like(error),
        undetermined_share=np.zeros_like(error),
        effective_units=noise.effective,
        how=np.full(error.shape, "noise"),
        value_range="",
        covers="the difference of the estimators' own targets",
    )
    return Interval(difference - high * error, difference - low * error, parts)
