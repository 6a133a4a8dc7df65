"""Numbers without each group of units, and what a mean of few or rare outcomes can have missed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from .._core.thresholds import MIN_EFFECTIVE, SKEWED
from .._core.typing import FloatArray, IntArray
from ..inference.pivot import Pivot
from ..inference.producers import mean_pivot
from .problem import Problem

# Cost: draws of the weights of all values, and how many weights are held at a time.
_DRAWS, _AT_ONCE = 4000, 20_000_000


class Bounds(NamedTuple):
    """The two ends of an interval of one number."""

    low: float
    high: float


def pivot_of(
    estimate: float,
    error: float,
    degrees: float,
    within: tuple[float, float],
    *,
    bias_bound: float = 0.0,
    units: float = 0.0,
) -> Pivot:
    """Return the record of one number; without degrees of freedom only the range `within` is known."""
    low, high = within
    return Pivot(
        estimate=np.array([estimate]),
        standard_error=np.array([error]),
        degrees=np.array([degrees]),
        bias_bound=np.array([bias_bound]),
        units=np.array([float(units)]),
        low=np.array([low]),
        high=np.array([high]),
    )


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

    def pivot(self, problem: Problem, *, bias_bound: float = 0.0) -> Pivot:
        """Return the record of the estimate; groups of unequal size count by their share of the episodes."""
        most = max(problem.effective_groups - 1.0, 1.0)
        known = bool(np.isfinite(self.value) and np.isfinite(self.replicates).all())
        error, degrees = (self.standard_error, self.degrees_of_freedom) if known else (0.0, 0.0)
        within, units = (problem.low, problem.high), problem.n_units
        return pivot_of(self.value, error, min(degrees, most), within, bias_bound=bias_bound, units=units)

    @property
    def shifts(self) -> FloatArray:
        """Return the number without each group, minus the number, shape (G,)."""
        return self.replicates - self.value

    def __add__(self, other: GroupJackknife) -> GroupJackknife:
        """Return the sum; both leave out the same groups, so that errors are paired."""
        return GroupJackknife(self.value + other.value, self.replicates + other.replicates)

    def __sub__(self, other: GroupJackknife) -> GroupJackknife:
        return GroupJackknife(self.value - other.value, self.replicates - other.replicates)

    def __rmul__(self, factor: float) -> GroupJackknife:
        return GroupJackknife(factor * self.value, factor * self.replicates)

    @property
    def beyond_noise(self) -> float:
        """Size of the number without its noise: the root of its square minus its variance, or 0.

        On average the square of an estimate exceeds the square of what it estimates by its variance.
        """
        return float(np.sqrt(max(0.0, self.value**2 - self.standard_error**2)))

    def p_value(self, negligible: float = 0.0) -> float:
        """p-value of the hypothesis that the number is 0. Differences up to `negligible` count as zero."""
        if abs(self.value) <= negligible:
            return 1.0
        if self.standard_error == 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        return float(2.0 * special.stdtr(self.degrees_of_freedom, -abs(self.value) / self.standard_error))


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


def tail_ends(values: FloatArray) -> tuple[float, float]:
    """Return what outcomes beyond the smallest and the largest of some values are worth on average.

    1. Of the distances from the median to one side, the m largest say how fast the tail falls: Hill's
       estimate x is the mean logarithm of the others' ratios to the smallest of them [1]_. Of m = 2 to
       `MIN_EFFECTIVE` the least x counts: a few equal outcomes far away are no long tail.
    2. What lies beyond the largest is worth 1 / (1 - x) times it, if the tail is Pareto's; x counts as .9 at
       most, since from 1 on there is no mean.

    References
    ----------
    .. [1] B. M. Hill (1975), A simple general approach to inference about the tail of a distribution, Annals
       of Statistics 3.

    Examples
    --------
    >>> tail_ends(np.r_[np.zeros(90), np.ones(30)])  # two values: no tail
    (0.0, 1.0)
    >>> tail_ends(1.0 / np.linspace(0.01, 1.0, 100))[1] > 200.0  # the largest is 100
    True
    """
    middle, ends = float(np.median(values)), []
    for sign in (-1.0, 1.0):
        top = np.sort(sign * (values - middle))[::-1][: min(MIN_EFFECTIVE, len(values) // 2)]
        slow = 0.0
        if len(top) > 1 and top[-1] > 0.0:
            logs = np.log(top)
            slow = float(np.min(np.cumsum(logs)[:-1] / np.arange(1, len(top)) - logs[1:]))
        ends.append(middle + sign * float(top.max(initial=0.0)) / (1.0 - min(slow, 0.9)))
    return ends[0], ends[1]


def skewed_mean_interval(values: FloatArray, level: float, within: tuple[float, float]) -> Bounds:
    """Return an interval of a mean that does not need symmetry.

    One more value is added, as bad (or good) as is possible, and all get random weights that are uniform on
    the simplex; the bounds are quantiles of the weighted mean [1]_ [2]_. For values 0 and 1 this is the
    interval of Clopper and Pearson.

    Parameters
    ----------
    values : ndarray of shape (n,)
    level : float
    within : (float, float)
        Smallest and largest value that is possible.

    References
    ----------
    .. [1] N. Gaffke (2005), Three test statistics for a nonparametric one-sided hypothesis on the mean of a
       nonnegative variable, Mathematical Methods of Statistics 14.
    .. [2] E. Learned-Miller and P. Thomas (2019), A new confidence interval for the mean of a bounded random
       variable, arXiv:1905.06208.

    Examples
    --------
    >>> low, high = skewed_mean_interval(np.r_[np.ones(3), np.zeros(97)], 0.95, (0.0, 1.0))
    >>> round(low, 3), round(high, 2)  # Clopper-Pearson: .006, .085
    (0.006, 0.08)
    """
    rng = np.random.default_rng(0)
    worst, best = within
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
        means_low.append((total + weights[:, -1] * worst) / size)
        means_high.append((total + weights[:, -1] * best) / size)
    low, high = np.concatenate(means_low), np.concatenate(means_high)
    bounds = float(np.quantile(low, tail)), float(np.quantile(high, 1.0 - tail))
    return Bounds(*bounds)


def unit_pivot(values: FloatArray, unit: IntArray, problem: Problem) -> Pivot:
    """Return the record of the mean of values (n,) of episodes that belong to independent units.

    Units of one size: the mean of unit means, with its skewness. Others: every unit is left out in turn, and
    degrees of freedom count units by their share of the episodes.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> limits = SimpleNamespace(firm_range=(-np.inf, np.inf))
    >>> found = unit_pivot(np.array([1.0, 2.0, 3.0, 6.0]), np.array([0, 1, 2, 2]), limits)
    >>> found.estimate, found.degrees.round(2)
    (array([3.]), array([1.67]))
    """
    sizes, sums = np.bincount(unit), np.bincount(unit, weights=values)
    low, high = problem.firm_range
    if np.ptp(sizes) == 0:
        return replace(mean_pivot(sums / sizes), low=np.array([low]), high=np.array([high]))
    left = (sums.sum() - sums) / (sizes.sum() - sizes)
    found = GroupJackknife(float(values.mean()), left)
    units = float(sizes.sum()) ** 2 / float(np.sum(sizes.astype(np.float64) ** 2))
    degrees = min(found.degrees_of_freedom, max(units - 1.0, 1.0))
    return pivot_of(found.value, found.standard_error, degrees, (low, high), units=units)


def rare_outcomes(
    estimate: float, standard_error: float, n_effective: float, within: tuple[float, float], level: float
) -> tuple[float, float]:
    """Return how far both ends move outwards for outcomes that `n_effective` episodes can have missed.

    An outcome that none of n episodes showed has the probability E / n, E exponential (rule of three), and
    moves the value towards an end of the possible range by that share. The ends are quantiles of normal noise
    and this part together: nearly nothing is added where noise dominates.

    Examples
    --------
    >>> low, high = rare_outcomes(0.0, 0.0, 100.0, (0.0, 1.0), 0.95)
    >>> low, round(high, 3)  # no event in 100: at most 3.7 %
    (0.0, 0.037)
    >>> round(rare_outcomes(0.5, 0.1, 100.0, (0.0, 1.0), 0.95)[1], 3)
    0.005
    """
    q, moved = 0.5 + level / 2.0, []
    for end in within:
        mean = abs(end - estimate) / max(n_effective, 1.0)
        if not np.isfinite(mean):
            moved.append(float("inf"))
        elif standard_error <= 1e-6 * mean or mean == 0.0:
            moved.append(float(-mean * np.log1p(-q)))
        elif mean <= 1e-3 * standard_error:
            moved.append(0.0)
        else:
            from scipy.stats import exponnorm  # half a second, for those who need it

            noise = special.ndtri(q) * standard_error
            moved.append(float(exponnorm.ppf(q, mean / standard_error, scale=standard_error) - noise))
    return moved[0], moved[1]


def mean_of_groups(values: FloatArray, group: IntArray, n_groups: int) -> GroupJackknife:
    """Return the mean of values (n,), and it without every group; values of group -1 always stay."""
    own = group >= 0
    sums = np.bincount(group[own], weights=values[own], minlength=n_groups)
    counts = np.bincount(group[own], minlength=n_groups)
    left = (values.sum() - sums) / np.maximum(len(values) - counts, 1)
    return GroupJackknife(float(values.mean()), left)


def by_groups(values: FloatArray, problem: Problem) -> GroupJackknife:
    """Return the mean of values (n,) of episodes, and it without every group."""
    return mean_of_groups(values, problem.group[problem.data.step_offsets[:-1]], problem.n_groups)


def shares_of(worth: float, share: FloatArray | float) -> FloatArray:
    """Return the worth times shares; 0 where the share is, even if the worth is infinite."""
    return np.multiply(worth, share, out=np.zeros(np.shape(share)), where=np.asarray(share) > 0.0)
