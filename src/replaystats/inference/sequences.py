"""Anytime-valid intervals: confidence sequences, which hold at all looks together."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import lambertw

from .._core.entries import check_known
from .._core.errors import must_be
from .._core.thresholds import BETTING_CAP, DRAWS, MIN_EFFECTIVE, TIGHTEST_AT
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_instance, check_length, check_range, check_real
from .degrees import effective_sample, skewed
from .pivot import Interval, Pivot, interval
from .producers import mean_pivot


def anytime_critical(
    n: ArrayLike, confidence_level: float = 0.95, tightest_at: float = TIGHTEST_AT
) -> FloatArray:
    """Return the critical value of a studentised mean of n values that is valid at all n together.

    1. The effect (mean - m) / sd has the prior N(0, g). With the invariant prior of the scale, the Bayes
       factor against m is a martingale if values are normal with mean m [1]_ [2]_.
    2. By Ville's inequality it ever exceeds 1 / alpha with probability at most alpha. With G = 1 + n g and
       t the studentised distance of m, it stays below as long as
       (1 + t^2 / (n-1)) / (1 + t^2 / (G (n-1))) < k = (G / alpha^2)^(1/n), which is solved for t.
    3. g is such that the value is smallest at n = `tightest_at`.

    For many values it becomes sqrt(2 (n g + 1) / (n g) log(sqrt(n g + 1) / alpha)), the asymptotic confidence
    sequence [3]_, which holds for values of any law with a variance.

    Parameters
    ----------
    n : array-like
        Number of values; effective degrees of freedom plus one.
    confidence_level : float in (0, 1)
        The probability that the interval covers at every look.
    tightest_at : float
        Number of units at which the interval is shortest in comparison with that for one look.

    Returns
    -------
    ndarray
        Infinite for few values.

    References
    ----------
    .. [1] T. L. Lai (1976), On confidence sequences, Annals of Statistics 4.
    .. [2] H. Wang and A. Ramdas (2023), Anytime-valid t-tests and confidence sequences for Gaussian means
       with unknown variance, arXiv:2310.03722.
    .. [3] I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy and A. Ramdas (2024), Time-uniform central
       limit theory and asymptotic confidence sequences, Annals of Statistics 52.

    Examples
    --------
    >>> anytime_critical([10, 20, 200, 2000]).round(2)  # 1.96 for one look at many values
    array([ inf, 5.6 , 3.07, 3.25])
    """
    count = np.asarray(n, dtype=np.float64)
    alpha = 1.0 - confidence_level
    g = (-float(lambertw(-(alpha**2) / math.e, -1).real) - 1.0) / tightest_at
    grown = 1.0 + np.maximum(count, 1.0) * g
    k = np.exp((np.log(grown) - 2.0 * np.log(alpha)) / np.maximum(count, 1.0))
    finite = (k < grown) & (count > 1.0)
    squared = np.where(finite, (k - 1.0) / np.where(finite, 1.0 - k / grown, 1.0), np.inf)
    return np.asarray(np.sqrt(squared * np.where(finite, count - 1.0, 1.0)))


def anytime_interval(
    pivot: Pivot, confidence_level: float = 0.95, *, tightest_at: float = TIGHTEST_AT
) -> Interval:
    """Return intervals that may be looked at whenever data have been added.

    `interval` is for one look: over many looks at growing data it misses at some look far more often than
    stated. The procedure, row by row:

    1. The critical value is that of `anytime_critical` for degrees + 1 values.
    2. Skewness is taken out as in `interval`.
    3. The bias bound is added to both sides, and the ends are cut at the range of possible values.

    Parameters
    ----------
    pivot : Pivot
        Of the mean of units, or of an estimate that behaves like one (influence values of units).
    confidence_level : float in (0, 1)
        The probability that the interval covers at every look.
    tightest_at : float
        Number of units at which the interval is shortest in comparison with that for one look: 1.57 times;
        at a quarter, and at fifty times as many units 1.77 times.

    Returns
    -------
    Interval
        Infinite where there are too few units, or where all values are equal.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(size=100)
    >>> now, once = anytime_interval(mean_pivot(values)), interval(mean_pivot(values))
    >>> ((now.high - now.low) / (once.high - once.low)).round(2)
    array([1.59])
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    check_instance(pivot, "pivot", Pivot)
    scale = check_real(tightest_at, "tightest_at", low=1.0, high=1e12)
    critical = anytime_critical(np.asarray(pivot.degrees) + 1.0, level, scale)
    known = np.isfinite(critical) & (np.asarray(pivot.degrees) > 0.0) & (pivot.standard_error > 0.0)
    value = np.where(known, critical, 1.0)
    below = skewed(value, pivot.skewness, pivot.excess) * pivot.standard_error + pivot.bias_bound
    above = -skewed(-value, pivot.skewness, pivot.excess) * pivot.standard_error + pivot.bias_bound
    low = np.where(known, pivot.estimate - below, -np.inf)
    high = np.where(known, pivot.estimate + above, np.inf)
    return Interval(np.clip(low, pivot.low, pivot.high), np.clip(high, pivot.low, pivot.high))


class Betting:
    """The confidence sequence of the mean of values in [0, 1] by betting; it holds for any number of values.

    1. Against a candidate mean m one gambler bets on larger and one on smaller values [1]_:
       K(m) = (prod(1 + l_i (x_i - m)) + prod(1 - l_i (x_i - m))) / 2. If m is right, K(m) is a martingale
       that starts at 1, so K(m) >= 1 / alpha ever with probability at most alpha.
    2. Stakes l_i follow the variance of the values before; 1 / (2 m) and 1 / (2 (1 - m)) are the largest.
    3. The first product falls with m and the second grows. So K(m) in a cell [a, b] of a grid is at least the
       first product at b and the second at a, over 2; where that has reached 1 / alpha, the whole cell is
       rejected. What is left, from the first cell to the last, is the interval.

    References
    ----------
    .. [1] I. Waudby-Smith and A. Ramdas (2024), Estimating means of bounded random variables by betting,
       JRSS B 86.

    Examples
    --------
    >>> found = Betting(0.05)
    >>> found.update(np.random.default_rng(0).random(300))
    >>> [round(end, 2) for end in found.ends()]
    [0.48, 0.59]
    """

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._grid = np.linspace(0.0, 1.0, DRAWS + 1)
        self._up: FloatArray = np.zeros(DRAWS + 1)  # logarithms of the two capitals
        self._down: FloatArray = np.zeros(DRAWS + 1)
        self._alive = np.ones(DRAWS, dtype=bool)  # cells
        self._count, self._sum, self._squares = 0, 0.0, 0.25  # a first guess of mean 1/2, variance 1/4

    def update(self, values: FloatArray) -> None:
        """Add values in [0, 1], in order."""
        with np.errstate(divide="ignore"):
            cap_up, cap_down = BETTING_CAP / self._grid, BETTING_CAP / (1.0 - self._grid)
        for x in values:
            t = self._count + 1
            variance = self._squares / t
            stake = np.sqrt(2.0 * np.log(2.0 / self._alpha) / (variance * t * np.log(t + 1.0)))
            self._up += np.log1p(np.minimum(stake, cap_up) * (x - self._grid))
            self._down += np.log1p(-np.minimum(stake, cap_down) * (x - self._grid))
            self._alive &= np.logaddexp(self._up[1:], self._down[:-1]) < np.log(2.0 / self._alpha)
            self._count, self._sum = t, self._sum + x
            self._squares += (x - (0.5 + self._sum) / (t + 1.0)) ** 2

    def ends(self) -> tuple[float, float]:
        """Return the ends of the interval."""
        alive = np.flatnonzero(self._alive)
        if not alive.size:  # the values contradict every mean: they are not draws with one mean
            return 0.0, 1.0
        return float(self._grid[alive[0]]), float(self._grid[alive[-1] + 1])


class ConfidenceSequence:
    """Intervals of a mean that hold at all looks together, and rules for stopping.

    Parameters
    ----------
    confidence_level : float in (0, 1)
        The probability that the interval covers at every look.
    bounds : (float, float), optional
        Range of possible values. With it the sequence holds for any number of values of any law (`Betting`).
        Without it is asymptotic (`anytime_interval`).
    tightest_at : float
        Number of units at which the asymptotic sequence is best.
    ignore_rarer : float in (0, 1), optional
        Outcomes with a smaller probability do not matter for the mean. No values can show that they do not:
        without bounds and without this statement the sequence is never `reliable`.

    Notes
    -----
    Units are what is independent: returns of episodes, users with their episodes, or paired differences of
    the returns of two policies. Where the mean changes with time, the interval is for the average of the
    means so far.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sequence = ConfidenceSequence(ignore_rarer=0.05)
    >>> while not sequence.stop_when(width=0.5):
    ...     sequence.update(rng.normal(1.0, 1.0, size=10))
    >>> len(sequence), sequence.stop_when(better=0.0)
    (150, True)
    >>> sequence.interval().low.round(2), sequence.interval().high.round(2)
    (array([0.82]), array([1.3]))
    """

    def __init__(
        self,
        *,
        confidence_level: float = 0.95,
        bounds: tuple[float, float] | None = None,
        tightest_at: float = TIGHTEST_AT,
        ignore_rarer: float | None = None,
    ) -> None:
        self.confidence_level = check_real(
            confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither"
        )
        self.tightest_at = check_real(tightest_at, "tightest_at", low=1.0, high=1e12)
        self.bounds = None if bounds is None else check_range(bounds, "bounds", strict=True)
        self.ignore_rarer = ignore_rarer
        if ignore_rarer is not None:
            check_real(ignore_rarer, "ignore_rarer", low=0.0, high=1.0, closed="neither")
        self._sums: list[float] = []  # of the values of each unit
        self._counts: list[int] = []
        self._place: dict[Any, int] = {}  # of labelled units
        self._betting = Betting(1.0 - self.confidence_level) if self.bounds else None

    def __len__(self) -> int:
        return sum(self._counts)

    @property
    def mean(self) -> float:
        """Mean of the values so far."""
        return float(np.sum(self._sums) / len(self)) if self._sums else float("nan")

    @property
    def rarest(self) -> float:
        """The probability below which an outcome need not have occurred: log(1 / error) / number of units.

        Of the rarer ones nothing is known; with `bounds` all are allowed for.
        """
        if self.bounds is not None:
            return 0.0
        return float(min(1.0, -math.log1p(-self.confidence_level) / max(len(self._sums), 1)))

    @property
    def reliable(self) -> bool:
        """Whether `caveat` is empty."""
        return not self.caveat

    @property
    def caveat(self) -> str:
        """Why the interval may be wrong, with what to do; empty with bounds, and where it is reliable.

        1. Outcomes that need not have occurred yet (`rarest`) are more probable than `ignore_rarer`.
        2. Fewer than 20 values decide the standard error. (sum d^2)^2 / sum d^4 is n over the kurtosis of
           deviations d: few large values, or a tail without a variance, keep it small. A standard error
           that 20 values decide is known to about 10 %.
        """
        if self.bounds is not None:
            return ""
        if self.ignore_rarer is None or self.rarest > self.ignore_rarer:
            text = f"outcomes with a probability below {self.rarest:.2g} need not have occurred yet"
            remedy = "Give `bounds`, or wait" if self.ignore_rarer else "Give `bounds` or `ignore_rarer`"
            return f"{text}. {remedy}"
        deviation = np.array(self._sums) - self.mean * np.array(self._counts)
        squares = (deviation / max(float(np.abs(deviation).max()), 1e-300)) ** 2
        deciding = effective_sample(squares.sum(keepdims=True), np.sum(squares**2, keepdims=True))[0]
        few = f"some {deciding:.0f} values decide the standard error. Give `bounds`, or wait"
        return few if deciding < 2 * MIN_EFFECTIVE else ""

    def update(self, values: ArrayLike, units: ArrayLike | None = None) -> None:
        """Add values in order.

        Parameters
        ----------
        values : array-like of shape (m,)
        units : array-like of shape (m,), optional
            Labels of what is independent, for example users; a label may come again later. By default
            every value is a unit.
        """
        new = np.atleast_1d(check_array(values, "values", ndim=(0, 1), allow_empty=True))
        labels = None if units is None else check_known(units, "units")
        if labels is not None:
            check_length(len(labels), len(new), "units", "values")
        if self.bounds is not None and self._betting is not None:
            low, high = self.bounds
            if labels is not None:
                raise ValueError(must_be("units", "None with `bounds`", "labels", "Bet on means of units."))
            if new.size and not (low <= new.min() and new.max() <= high):
                got = f"values from {new.min():g} to {new.max():g}"
                raise ValueError(must_be("values", f"within the bounds [{low:g}, {high:g}]", got))
            self._betting.update((new - low) / (high - low))
        if labels is None:
            self._sums.extend(new.tolist())
            self._counts.extend([1] * len(new))
            return
        for value, label in zip(new.tolist(), labels.tolist(), strict=True):
            place = self._place.setdefault(label, len(self._sums))
            if place == len(self._sums):
                self._sums.append(0.0)
                self._counts.append(0)
            self._sums[place] += value
            self._counts[place] += 1

    def pivot(self) -> Pivot:
        """Return the record of the mean, from which intervals are made."""
        low, high = self.bounds or (-np.inf, np.inf)
        if len(self._sums) < 2:
            nothing = np.zeros(1)
            known = Pivot(estimate=np.array([self.mean]), standard_error=nothing, degrees=nothing)
        else:
            counts = np.array(self._counts)
            known = mean_pivot(np.array(self._sums) / counts, weights=counts)
        return replace(known, low=np.array([low]), high=np.array([high]))

    def interval(self) -> Interval:
        """Return the interval now; it may be asked for at any time."""
        if self.bounds is None or self._betting is None:
            return anytime_interval(self.pivot(), self.confidence_level, tightest_at=self.tightest_at)
        low, high = self.bounds
        ends = low + (high - low) * np.array(self._betting.ends())
        return Interval(ends[:1], ends[1:])

    def one_look(self) -> Interval:
        """Return the usual interval, which is for one look at a time fixed in advance."""
        return interval(self.pivot(), self.confidence_level)

    def minus(self, other: ConfidenceSequence) -> Interval:
        """Return the interval of the difference to the mean of other, independent units.

        Paired units have a shorter one: that of a sequence of their differences. With bounds each of the two
        sequences should have half the error, ``ConfidenceSequence(confidence_level=0.975, bounds=...)``; the
        difference then holds with 0.95. It is `reliable` where both sequences are.
        """
        check_instance(other, "other", ConfidenceSequence)
        if self.bounds is not None or other.bounds is not None:
            a, b = self.interval(), other.interval()
            return Interval(a.low - b.high, a.high - b.low)
        a_pivot, b_pivot = self.pivot(), other.pivot()
        first, second = a_pivot.standard_error**2, b_pivot.standard_error**2
        both = (a_pivot.degrees > 0.0) & (b_pivot.degrees > 0.0) & (first + second > 0.0)
        total = np.where(both, first + second, 1.0)
        shares = (first / total) ** 2 / np.maximum(a_pivot.degrees, 1.0)
        shares = shares + (second / total) ** 2 / np.maximum(b_pivot.degrees, 1.0)
        cubes = a_pivot.skewness * first**1.5 - b_pivot.skewness * second**1.5
        joint = Pivot(
            estimate=a_pivot.estimate - b_pivot.estimate,
            standard_error=np.sqrt(first + second),
            degrees=np.where(both, 1.0 / np.where(both, shares, 1.0), 0.0),
            skewness=np.where(both, cubes / total**1.5, 0.0),
        )
        return anytime_interval(joint, self.confidence_level, tightest_at=self.tightest_at)

    def stop_when(
        self, *, width: float | None = None, better: float | ConfidenceSequence | None = None
    ) -> bool:
        """Say whether to stop: the interval is narrow enough, or one of two is better for certain.

        Stopping so is what the sequence is valid for; the interval for one look is not. While the interval
        is not `reliable`, the answer is no: the sequence needs `bounds` or `ignore_rarer`.

        Parameters
        ----------
        width : float, optional
            Stop when the interval is at most this wide.
        better : float or ConfidenceSequence, optional
            Stop when the mean is larger or smaller for certain: the interval does not contain this value, or
            that of the difference to this sequence (`minus`), of the returns of another policy, not 0.
        """
        if (width is None) == (better is None):
            raise ValueError(must_be("width", "given, or `better`, and not both", repr(width)))
        limit = 0.0 if width is None else check_real(width, "width", low=0.0, closed="neither")
        other = better if isinstance(better, ConfidenceSequence) else self
        value = check_real(better, "better") if better is not None and other is self else 0.0
        for sequence in (self, other):
            if sequence.bounds is None and sequence.ignore_rarer is None:
                hint = "How rare may outcomes be that change the mean? No values can show it."
                rule = "given, or `ignore_rarer`, for a rule of stopping"
                raise ValueError(must_be("bounds", rule, None, hint))
        low, high = (float(end[0]) for end in (self.interval() if other is self else self.minus(other)))
        enough = high - low <= limit if better is None else low > value or high < value
        return bool(self.reliable and other.reliable and enough)
