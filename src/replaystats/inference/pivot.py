"""One record for every inference of the library, and the one function that turns it into an interval."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_real
from .degrees import (
    bias_aware_quantile,
    bounded_skewness,
    degrees_of_freedom,
    effective_sample,
    shrunken_skewness,
    skewed,
)
from .intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pivot:
    """What is known about m estimates before a level is chosen; arrays are (m,) or (m, n_outputs).

    Attributes
    ----------
    estimate : ndarray
    standard_error : ndarray
        Of sampling and Monte-Carlo error together.
    degrees : ndarray
        Effective degrees of freedom of the standard error; 0 where no finite interval exists.
    skewness, excess : ndarray
        Of the estimate (see `degrees.skewed`); 0 and infinite where the law is taken to be symmetric.
    bias_bound : ndarray
        Largest possible |E estimate - target|: unvisited states, smoothing, unlogged actions, truncation,
        model error.
    low, high : ndarray
        Range of possible values, applied last; infinite where nothing bounds the target.
    reasons : tuple of str
        Codes of what entered the record, for sentences.
    """

    estimate: FloatArray
    standard_error: FloatArray
    degrees: FloatArray
    skewness: FloatArray = field(default_factory=lambda: np.zeros(()))
    excess: FloatArray = field(default_factory=lambda: np.full((), np.inf))
    bias_bound: FloatArray = field(default_factory=lambda: np.zeros(()))
    low: FloatArray = field(default_factory=lambda: np.full((), -np.inf))
    high: FloatArray = field(default_factory=lambda: np.full((), np.inf))
    reasons: tuple[str, ...] = ()

    def with_bias(self, bound: ArrayLike, *reasons: str) -> Pivot:
        """Return the record with a further source of bias: worst cases add up."""
        total = self.bias_bound + np.abs(np.asarray(bound, dtype=np.float64))
        return replace(self, bias_bound=total, reasons=(*self.reasons, *reasons))


def interval(pivot: Pivot, confidence_level: float = 0.95) -> Interval:
    """Return the confidence interval of every estimate.

    The procedure, row by row:

    1. Without degrees of freedom nothing is known but the range of possible values: that is the interval.
    2. The critical value is C with P(|T + bias_bound / standard_error| <= C) = confidence_level, T of
       Student's t with `degrees`: its quantile without bias, and bias plus one-sided quantile where
       bias dominates [1]_ [2]_.
    3. Skewness of the estimate is taken out of both critical values by Hall's transformation [3]_.
    4. The ends are cut at the range of possible values.

    Parameters
    ----------
    pivot : Pivot
    confidence_level : float in (0, 1)

    Returns
    -------
    Interval

    References
    ----------
    .. [1] D. L. Donoho (1994), Statistical estimation and optimal recovery, Annals of Statistics 22.
    .. [2] T. B. Armstrong and M. Kolesar (2018), Optimal inference in a class of regression models,
       Econometrica 86.
    .. [3] P. Hall (1992), On the removal of skewness by transformation, JRSS B 54.

    Examples
    --------
    >>> one, two = np.ones(1), np.full(1, 2.0)
    >>> found = interval(Pivot(estimate=one, standard_error=two, degrees=np.full(1, 10.0)))
    >>> found.low.round(2), found.high.round(2)
    (array([-3.46]), array([5.46]))

    A bias of at most one standard error widens it, and a range of possible values cuts it:

    >>> biased = Pivot(estimate=one, standard_error=two, degrees=np.full(1, 10.0), bias_bound=two, low=-two)
    >>> interval(biased).low, interval(biased).high.round(2)
    (array([-2.]), array([6.67]))
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    known = np.asarray(pivot.degrees) > 0.0
    degrees = np.where(known, pivot.degrees, 1.0)
    degrees, skewness = bounded_skewness(level, degrees, pivot.skewness, pivot.excess)
    positive = pivot.standard_error > 0.0
    error = np.where(positive, pivot.standard_error, 1.0)
    ratio = np.where(positive, pivot.bias_bound / error, 0.0)
    critical = bias_aware_quantile(ratio, degrees, level)
    # Without any noise the bias alone is left.
    below = np.where(positive, skewed(critical, skewness, pivot.excess) * error, pivot.bias_bound)
    above = np.where(positive, -skewed(-critical, skewness, pivot.excess) * error, pivot.bias_bound)
    low = np.where(known, pivot.estimate - below, -np.inf)
    high = np.where(known, pivot.estimate + above, np.inf)
    return Interval(np.clip(low, pivot.low, pivot.high), np.clip(high, pivot.low, pivot.high))


def mean_pivot(values: ArrayLike, *, weights: ArrayLike | None = None) -> Pivot:
    """Return the record of the mean of independent values (n,), or of each column of (n, m).

    Parameters
    ----------
    values : array-like of shape (n,) or (n, m)
    weights : array-like of shape (n,), optional
        Of the values; their sum is the denominator of a weighted mean.

    Examples
    --------
    >>> found = interval(mean_pivot([1.0, 2.0, 4.0, 5.0, 8.0]))
    >>> found.low.round(2), found.high.round(2)
    (array([0.74]), array([7.56]))
    """
    x = np.asarray(values, dtype=np.float64)
    x = x[:, None] if x.ndim == 1 else x
    n = len(x)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    share = w / w.sum()
    mean = share @ x
    moved = share[:, None] * (x - mean)  # influence of every value on the mean
    second, third, fourth, sixth = ((moved**k).sum(axis=0) for k in (2, 3, 4, 6))
    skewness, excess = shrunken_skewness(second, third, fourth, sixth, n)
    degrees = degrees_of_freedom(np.maximum(effective_sample(second, fourth), 1.0), n, skewness)
    return Pivot(
        estimate=mean,
        standard_error=np.sqrt(second * n / max(n - 1, 1)),
        degrees=np.where(n > 1, degrees, 0.0),
        skewness=skewness,
        excess=excess,
    )
