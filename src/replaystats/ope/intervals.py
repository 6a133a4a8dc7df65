"""Intervals of one number: from leaving groups out, and of a mean that few episodes decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from .._core.typing import FloatArray
from ..inference.degrees import skewed

# The error of a t interval's coverage is of the order of skewness / sqrt(n); beyond this it is not used.
SKEWED = 0.25
# Draws of the weights of all values, and how many weights are held at a time.
_DRAWS, _AT_ONCE = 4000, 20_000_000


class Bounds(NamedTuple):
    """The two ends of an interval of one number."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class GroupJackknife:
    """A number and what it becomes without each of G groups of episodes.

    Examples
    --------
    >>> y = np.array([1.0, 2.0, 3.0, 6.0])
    >>> mean = GroupJackknife(y.mean(), (y.sum() - y) / 3)
    >>> round(mean.standard_error, 4), round(float(y.std(ddof=1) / 2), 4)
    (1.0801, 1.0801)
    """

    value: float
    replicates: FloatArray

    @property
    def standard_error(self) -> float:
        """Of the delete-a-group jackknife."""
        g = len(self.replicates)
        return float(np.sqrt((g - 1) / g * np.sum((self.replicates - self.replicates.mean()) ** 2)))

    @property
    def degrees_of_freedom(self) -> float:
        """G - 1 where groups count alike, fewer where one or two of them decide.

        (sum d^2)^2 / sum d^4 is G / 3 for normal d and 1 where a single group decides.
        """
        d = self.replicates - self.replicates.mean()
        fourth = float(np.sum(d**4))
        most = len(d) - 1.0
        if fourth == 0.0:
            return most
        return float(np.clip(3.0 * float(np.sum(d**2)) ** 2 / fourth - 1.0, min(2.0, most), most))

    def interval(self, level: float) -> Bounds:
        """Return the value plus and minus a quantile of t times the standard error."""
        reach = half_width(self.standard_error, self.degrees_of_freedom, level)
        return Bounds(self.value - reach, self.value + reach)

    def minus(self, other: GroupJackknife) -> GroupJackknife:
        """Return the difference; both left out the same groups, so that it is paired."""
        return GroupJackknife(self.value - other.value, self.replicates - other.replicates)

    def p_value(self, negligible: float = 0.0) -> float:
        """Of the hypothesis that the number is 0; up to `negligible` nobody minds that it is not."""
        if abs(self.value) <= negligible:
            return 1.0
        if self.standard_error == 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        return float(2.0 * stats.t.sf(abs(self.value) / self.standard_error, self.degrees_of_freedom))


def half_width(standard_error: float, degrees_of_freedom: float, level: float) -> float:
    """Return a quantile of t times a standard error."""
    return float(stats.t.ppf(0.5 + level / 2.0, degrees_of_freedom)) * standard_error


def relative_skewness(values: FloatArray) -> float:
    """Return skewness / sqrt(n): 1 / sqrt(x) where x of many episodes earned something.

    Examples
    --------
    >>> rare = np.zeros(1000); rare[:4] = 1.0
    >>> round(relative_skewness(rare), 1)
    0.5
    """
    d = values - values.mean()
    spread = float(np.mean(d**2))
    if spread == 0.0:
        return 0.0
    return float(np.mean(d**3) / spread**1.5 / np.sqrt(len(values)))


def may_be_skewed(values: FloatArray) -> bool:
    """Tell whether the relative skewness lies beyond `SKEWED`, or may: it is known to 2 sqrt(6) / n at best.

    sqrt(6 / n) is the standard error of the skewness of n normal numbers. 20 returns that look even may come
    from a lopsided distribution whose tail they did not show; of 100 that is hardly to be feared.

    Examples
    --------
    >>> even = np.linspace(-1.0, 1.0, 100)
    >>> may_be_skewed(even), may_be_skewed(even[::6])
    (False, True)
    """
    return bool(abs(relative_skewness(values)) + 2.0 * np.sqrt(6.0) / len(values) > SKEWED)


def unseen_share(n: int) -> float:
    """Return the share of all episodes that n of them miss altogether with probability .05: about 3 / n.

    Examples
    --------
    >>> round(unseen_share(20), 3), round(unseen_share(100), 3)
    (0.139, 0.03)
    """
    return float(1.0 - 0.05 ** (1.0 / n))


def mean_interval(values: FloatArray, found: GroupJackknife, level: float) -> Bounds:
    """Return an interval of the mean of `values`, whose error is that of `found`.

    t leans on symmetry: with 20 skewed returns it misses three times as often on one side as on both
    together it should. Hall's transformation of t takes the skewness off. Where that may be large, an
    estimate of it is worth little, and the interval also holds that of `skewed_mean_interval`.

    Examples
    --------
    >>> y = np.array([1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 5.0, 9.0])
    >>> found = GroupJackknife(y.mean(), (y.sum() - y) / 7)
    >>> low, high = mean_interval(y, found, 0.9)
    >>> bool(high - y.mean() > y.mean() - low)  # a long tail to the right: the mean may be far more
    True
    """
    skewness, most = relative_skewness(values), len(found.replicates) - 1.0
    freedom = most if abs(skewness) > SKEWED else found.degrees_of_freedom
    quantile = float(stats.t.ppf(0.5 + level / 2.0, freedom))
    error, middle = found.standard_error, found.value
    low, high = (middle - error * float(skewed(np.asarray(q), skewness)) for q in (quantile, -quantile))
    if may_be_skewed(values):
        safe = skewed_mean_interval(values, level)
        low, high = min(low, safe.low), max(high, safe.high)
    return Bounds(low, high)


def skewed_mean_interval(values: FloatArray, level: float) -> Bounds:
    """Return an interval of a mean that does not lean on symmetry.

    One more episode is imagined, as bad (or good) as the worst (best) one seen, and all get random weights
    that are uniform on the simplex; the bounds are quantiles of the weighted mean. For values 0 and 1 this
    is the interval of Clopper and Pearson.

    Examples
    --------
    >>> low, high = skewed_mean_interval(np.r_[np.ones(3), np.zeros(97)], 0.95)
    >>> round(low, 3), round(high, 2)  # Clopper-Pearson: .006, .085
    (0.006, 0.08)
    """
    rng = np.random.default_rng(0)
    tail = (1.0 - level) / 2.0
    shapes = np.ones(len(values) + 1)
    if _DRAWS * len(values) > _AT_ONCE:  # equal values are one, with the sum of their weights
        values, counts = np.unique(values, return_counts=True)
        shapes = np.append(counts, 1.0)
    draws = max(1, min(_DRAWS, _AT_ONCE // len(shapes)))
    means_low, means_high = [], []
    for _ in range(-(-_DRAWS // draws)):
        weights = rng.standard_gamma(shapes, (draws, len(shapes)))
        total = weights[:, :-1] @ values
        size = weights.sum(axis=1)
        means_low.append((total + weights[:, -1] * values.min()) / size)
        means_high.append((total + weights[:, -1] * values.max()) / size)
    low, high = np.concatenate(means_low), np.concatenate(means_high)
    bounds = float(np.quantile(low, tail)), float(np.quantile(high, 1.0 - tail))
    return Bounds(*bounds)
