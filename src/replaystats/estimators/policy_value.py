"""The value of a policy where it starts: one number with an interval, from the fitted coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_length
from ..estimate import Estimate
from ..inference import Interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PolicyValue:
    """The average value over start states: a linear functional of theta, so nothing is refitted.

    Attributes
    ----------
    features : ndarray of shape (1, q)
        The weighted mean of the start states' features.
    estimate : Estimate
        What it is a functional of.
    """

    features: FloatArray
    estimate: Estimate

    @property
    def value(self) -> float:
        """The average value."""
        return float(self.estimate.predict(self.features)[0])

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        *,
        value_range: tuple[float, float] | None = None,
        insist: bool | None = None,
    ) -> Interval:
        """Return `low` and `high`, two floats, with `parts` and a sentence; see `LSTD.confidence_interval`.

        The start states count as given: that others might have been drawn is no part of the interval.
        """
        interval = self.estimate.confidence_interval(
            self.features, confidence_level, value_range=value_range, insist=insist
        )
        return interval.map(lambda end: float(end[0]))

    def __repr__(self) -> str:
        low, high = self.confidence_interval()
        return f"PolicyValue({self.value:.4g}, 95 % interval {low:.4g} to {high:.4g})"


def mean_features(features: FloatArray, weights: ArrayLike | None) -> FloatArray:
    """Return the weighted mean of rows (m, q) as one row (1, q)."""
    if weights is not None:
        weights = check_array(weights, "weights", ndim=1)
        check_length(len(weights), len(features), "weights", "start_states")
        if weights.min() < 0.0 or not weights.any():
            got = f"a minimum of {weights.min():g} and a sum of {weights.sum():g}"
            raise ValueError(must_be("weights", "non-negative and not all zero", got))
    mean: FloatArray = np.average(features, axis=0, weights=weights)
    return mean[None]
