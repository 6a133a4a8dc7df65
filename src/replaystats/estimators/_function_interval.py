"""From the interval of an expected prediction to that of the function: add what the smoother misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._core.arrays import to_numpy
from .._core.typing import FloatArray
from ..estimate import Estimate
from ..inference.intervals import THE_EXPECTED_PREDICTION, THE_FUNCTION, FunctionParts, Interval


def with_bias(estimate: Estimate, points: Any, expected: Interval, bias: FloatArray) -> Interval:
    """Widen an interval by the half width that smoothing bias alone would have; their squares add up.

    Parameters
    ----------
    estimate : Estimate
    points : array
        Where it was asked.
    expected : Interval
        Of the expected prediction, on the host or a device.
    bias : ndarray
        Of the shape of its ends.
    """
    low, high = (to_numpy(end) for end in expected)
    centre, noise = (low + high) / 2, (high - low) / 2
    half = np.hypot(noise, bias)
    drawn = _monte_carlo(estimate, points, noise)
    parts = FunctionParts(noise=noise, bias=bias, monte_carlo=drawn, covers=THE_FUNCTION)
    return Interval(centre - half, centre + half, parts)


def without_bias(estimate: Estimate, points: Any, expected: Interval) -> Interval:
    """Return the interval with its parts and what it covers."""
    low, high = (to_numpy(end) for end in expected)
    noise = (high - low) / 2
    drawn, bias = _monte_carlo(estimate, points, noise), np.zeros_like(noise)
    parts = FunctionParts(noise=noise, bias=bias, monte_carlo=drawn, covers=THE_EXPECTED_PREDICTION)
    return replace(expected, parts=parts)


def _monte_carlo(estimate: Estimate, points: Any, noise: FloatArray) -> FloatArray:
    """Return the standard error because members are finitely many; 0 where they are not drawn."""
    if estimate.members.plan is None:
        return np.zeros_like(noise)
    return np.asarray(np.sqrt(np.maximum(to_numpy(estimate.variance(points).monte_carlo), 0.0)))
