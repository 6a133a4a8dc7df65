"""What a known range of values does to intervals: it bounds what the data leave open, and cuts the rest.

Three things in turn. States that were visited once or never are given the least or the largest value. A row
whose usual interval is missing or long may be answered better by a shorter one that leaves more to the range
(`bias_aware_rows`). And an interval without any noise allows for events that so many units could have missed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._core.typing import FloatArray
from ..moments import HeldMoments
from .bias_aware import bias_aware_rows, coefficients_of, inner, thinned
from .degrees import bias_aware_quantile, skewed
from .intervals import Rows
from .partial_identification import ValueRange, unvisited_ends

# A usual interval shorter than this share of the value range cannot gain from the range.
_SHORT = 0.25
# The noise of each fold is learnt from the others, which must be at least two.
_FEWEST_TRADED = 3
# Another interval takes the place of the usual one only if it is shorter by this factor.
_MUCH_SHORTER = 0.9
# Errors below this share of the values are rounding.
_NO_NOISE = 1e-10
# A question within this of one, where all values are one, is a value or a mean of values.
_LIKE_A_VALUE = 0.1


def unvisited_rows(
    moments: HeldMoments, X: FloatArray, limits: ValueRange, level: float, *, sequential: bool
) -> Rows:
    """Return the intervals of one-hot questions of which some states were visited once or never."""
    ends = unvisited_ends(moments, X, limits, sequential=sequential)
    error_low, error_high = np.sqrt(ends.noise_low.variance), np.sqrt(ends.noise_high.variance)
    error = np.maximum(error_low, error_high)
    noise_low, noise_high = ends.noise_low.at_level(level), ends.noise_high.at_level(level)
    degrees = np.minimum(noise_low.degrees, noise_high.degrees)
    bias = (ends.high - ends.low) / 2
    ratio = np.where(error > 0, bias / np.where(error > 0, error, 1.0), 0.0)
    # Of two ends far apart only one can be wrong (Imbens and Manski 2004).
    critical = bias_aware_quantile(ratio, degrees, level) - ratio
    below = skewed(critical, noise_low.skewness, noise_low.excess)
    above = skewed(-critical, noise_high.skewness, noise_high.excess)
    rows = Rows(
        low=ends.low - below * error_low,
        high=ends.high - above * error_high,
        centre=(ends.low + ends.high) / 2,
        error=error,
        degrees=degrees,
        bias=bias,
        share=ends.undetermined,
        effective=np.minimum(ends.noise_low.effective, ends.noise_high.effective),
        how=np.where(ends.undetermined > 0, "unseen", "noise").astype("<U12"),
    )
    allow_for_unseen_events(rows, moments.n_observations, limits, X, level)
    return rows


def bias_aware_intervals(
    rows: Rows, moments: HeldMoments, X: FloatArray, limits: ValueRange, level: float, *, sequential: bool
) -> None:
    """Put bounded intervals where the usual ones are missing, or long compared to the range of values."""
    length = rows.high - rows.low
    hard = ~(length < _SHORT * limits.width) & (rows.how != "slow")
    if not hard.any() or not limits.width**2 > 0 or moments.n_observations < _FEWEST_TRADED:
        return
    chosen = np.flatnonzero(hard)
    ones = _ones(limits)
    asked = X[np.abs(X @ ones - 1.0) < _LIKE_A_VALUE]  # values that are asked for lie in the range, too
    assert limits.points is not None
    everywhere = replace(limits, points=np.concatenate([inner(thinned(limits.points)), thinned(asked)]))
    longest = _MUCH_SHORTER * length[chosen]
    traded = bias_aware_rows(
        moments,
        X[chosen],
        everywhere,
        level,
        longest=longest,
        cut=np.isfinite(_bounds(limits, X[chosen])[0]),
        sequential=sequential,
    )
    traded_length = traded.high - traded.low
    shorter = np.isfinite(traded_length) & ~(traded_length > longest)
    for name, values in vars(traded).items():
        getattr(rows, name)[chosen[shorter]] = values[shorter]


def allow_for_unseen_events(rows: Rows, n: int, limits: ValueRange, X: FloatArray, level: float) -> None:
    """Widen intervals without any noise by what n units could have missed.

    An event of probability p stays unseen in n units with the probability (1 - p)^n, and moves the answer by
    no more than the range of values (the rule of three: p is about 3 / n at 95 %).
    """
    scale = np.maximum(np.abs(rows.centre), max(abs(limits.low), abs(limits.high)))
    silent = np.isfinite(rows.low) & (rows.error <= _NO_NOISE * np.maximum(scale, np.finfo(float).tiny))
    if not silent.any():
        return
    if limits.width == 0:  # one reward only was ever seen: the range that follows from it bounds nothing
        rows.put(silent & (limits.source != "given"), Rows.withheld(len(X)))
        return
    missed = 1.0 - (1.0 - level) ** (1.0 / n)
    lowest, highest = _bounds(limits, X)
    # Only there: elsewhere ends may be infinite, and so without differences.
    rows.low[silent] += missed * (np.broadcast_to(lowest, silent.shape)[silent] - rows.low[silent])
    rows.high[silent] += missed * (np.broadcast_to(highest, silent.shape)[silent] - rows.high[silent])
    rows.how[silent & (rows.how == "noise")] = "unseen event"


def cut_at_range(rows: Rows, limits: ValueRange, X: FloatArray) -> Rows:
    """Cut intervals at the range of values; where that is all there is, say so."""
    lowest, highest = _bounds(limits, X)
    bounded = np.isfinite(lowest) & np.isfinite(highest) & (limits.width > 0)
    nothing = bounded & ~np.isfinite(rows.low)
    low = np.where(bounded, np.clip(np.where(nothing, lowest, rows.low), lowest, highest), rows.low)
    high = np.where(bounded, np.clip(np.where(nothing, highest, rows.high), lowest, highest), rows.high)
    whole = bounded & (low <= lowest) & (high >= highest)
    rows.how[whole & (rows.how != "slow")] = "range"
    rows.bias = np.where(nothing, limits.width / 2, rows.bias)
    rows.low, rows.high = low, high
    return rows


def _bounds(limits: ValueRange, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest answer that the range of values allows.

    One-hot questions are sums of values. Others are values, or means of them, if they are one where all
    values are one; nothing is said about the rest (differences, coefficients).
    """
    if limits.points is None:
        return limits.extremes(X)
    is_value = np.abs(X @ _ones(limits) - 1.0) < _LIKE_A_VALUE
    return np.where(is_value, limits.low, -np.inf), np.where(is_value, limits.high, np.inf)


def _ones(limits: ValueRange) -> FloatArray:
    """Return the coefficients whose values are nearest to one at every point."""
    assert limits.points is not None
    return coefficients_of(limits.points, 1.0)
