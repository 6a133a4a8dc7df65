"""On how many units an answer depends, and the quantiles that follow from it.

A standard error is itself an estimate. With L_i the influence of unit i on an answer, sum L^2 varies by
sum L^4 - (sum L^2)^2 / n, of which the part that goes with sum L itself is (sum L^3)^2 / sum L^2. What is
left, matched to a chi-square, gives the degrees of freedom

    2 / (1 / n_eff - 1 / n - skewness^2),
    n_eff = (sum L^2)^2 / sum L^4,    skewness = sum L^3 / (sum L^2)^1.5,

which are n for normal influence. Skewed influence makes the studentised answer skewed the other way; Hall's
cubic transformation takes that out without a bootstrap, as far as it can bear: what is left goes with the
degrees of freedom. Where influence has two values only (a rare reward, or none) the variance is known to go
with the mean, and a quadratic does the same without Hall's excess.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import special

from .._core.arrays import to_numpy
from .._core.thresholds import TAKEN_OUT
from .._core.typing import ArrayLike, FloatArray

# Rounding: of the bias-aware quantile: seven steps are enough for one degree of freedom, four for many.
_NEWTON_STEPS = 30
# Rounding: a step of Newton's method below this changes nothing.
_CONVERGED = 1e-12
# Rounding: degrees of freedom from which on Student's law is the normal one, to eight digits.
_NORMAL = 1e8
# Rounding: a unit with a larger share of an answer has all of it: others leave nothing to be seen.
_NEARLY_ALL = 1.0 - 1e-4


def effective_sample(second: FloatArray, fourth: FloatArray) -> FloatArray:
    """Return (sum L^2)^2 / sum L^4, between 1 and n; 0 where there is no influence at all.

    Parameters
    ----------
    second, fourth : ndarray
        Sums of second and fourth powers of the influence values of each answer.

    Examples
    --------
    >>> effective_sample(np.array([10.0, 1.0]), np.array([10.0, 1.0]))  # ten equal units, and a single one
    array([10.,  1.])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(fourth > 0, second**2 / fourth, 0.0)


def degrees_of_freedom(effective: FloatArray, n_units: int, skewness: ArrayLike = 0.0) -> FloatArray:
    """Return the degrees of freedom of a variance made from `n_units` influence values.

    Parameters
    ----------
    effective : ndarray
        From `effective_sample`.
    n_units : int
    skewness : array-like
        Of the answer (that of the influence over sqrt(n)), where `skewed` takes it out.

    Examples
    --------
    >>> degrees_of_freedom(np.array([100 / 3, 2.0]), 100).round(1)  # normal influence; two units have it all
    array([99. ,  4.1])
    """
    with np.errstate(divide="ignore"):
        spread = 1.0 / np.asarray(effective, dtype=float) - 1.0 / n_units - np.square(skewness)
        spread = np.maximum(spread, 0.0)
        return np.clip(2.0 / spread, 1.0, max(n_units - 1.0, 1.0))


class WeightSums:
    """The degrees of freedom that the weights of units leave to a jackknife variance, from power sums.

    Satterthwaite's: with unit i carrying the share p_i of an answer and noise of a variance proportional to
    it, the changes J_i have the covariances p_i / (1 - p_i) and -p_i p_j / ((1 - p_i) (1 - p_j)), and
    2 (E sum J^2)^2 / Var sum J^2 is (tr C)^2 / tr C^2. That is n - 1 for n equal units, and one or less
    where a single one carries nearly everything. In general C has the diagonal p_i / (1 - p_i)^(d - 1) and
    the squares p_i^2 / (1 - p_i)^d times the same of j beside it. Units come a block at a time.

    Parameters
    ----------
    m : int
        Number of answers.
    leverage : int
        d: 2 for the jackknife, 1 for the product of jackknife and influence of `noise.functional_moments`.

    References
    ----------
    R. M. Bell and D. F. McCaffrey (2002), Survey Methodology 28; A. V. Carter, K. T. Schnepel and
    D. G. Steigerwald (2017), Review of Economics and Statistics 99.

    Examples
    --------
    >>> sizes = np.array([[1.0], [5.0], [20.0], [100.0], [1000.0]])
    >>> sums = WeightSums(2)
    >>> sums.add(np.hstack([np.full((5, 1), 0.2), sizes / sizes.sum()]))
    >>> sums.degrees().round(2)
    array([4.  , 1.01])
    """

    def __init__(self, m: int, *, leverage: int = 2) -> None:
        self.leverage = leverage
        self.shares = np.zeros((3, m))
        self.diagonal, self.apart = np.zeros((2, 2, m))

    def add(self, shares: Any) -> None:
        """Add the shares of a block of units, shape (units, m), which sum to one over all units."""
        xp = array_namespace(shares)
        size = xp.abs(shares)
        rest = 1.0 - xp.clip(size, max=_NEARLY_ALL)
        diagonal, apart = size / rest ** (self.leverage - 1), size * size / rest**self.leverage
        for k in range(3):
            self.shares[k] += to_numpy(xp.sum(size ** (k + 1), axis=0))
        for sums, parts in ((self.diagonal, diagonal), (self.apart, apart)):
            sums[0] += to_numpy(xp.sum(parts, axis=0))
            sums[1] += to_numpy(xp.sum(parts * parts, axis=0))

    def degrees(self) -> FloatArray:
        """Return (tr C)^2 / tr C^2; infinite where no unit has a share.

        Shares of both signs, whose sizes add up to more than one, are divided by that sum, and the changes
        taken to first order, p_i - p_i^2 and -p_i p_j: with p near one the others say nothing.
        """
        first, second, third = self.shares
        one_sign = first <= 1.0 + 1e-6
        total = np.where(first > 0, first, 1.0)
        second, third = second / total**2, third / total**3
        trace = np.where(one_sign, self.diagonal[0], 1.0 - second)
        squares = self.diagonal[1] + self.apart[0] ** 2 - self.apart[1]
        spread = np.where(one_sign, squares, second - 2.0 * third + second**2)
        return np.where(spread > 0, trace**2 / np.where(spread > 0, spread, 1.0), np.inf)


def shrunken_skewness(
    second: FloatArray, third: FloatArray, fourth: FloatArray, sixth: FloatArray, n_units: int
) -> tuple[FloatArray, FloatArray]:
    """Return the skewness of answers, less what symmetric influence may show by chance, and its excess.

    Parameters
    ----------
    second, third, fourth, sixth : ndarray
        Sums of powers of the influence values of each answer, about their mean.
    n_units : int

    Returns
    -------
    skewness, excess : ndarray
        As for `skewed`.

    Notes
    -----
    With signs by chance alone, sum L^3 has the variance sum L^6: much for long tails, where one unit makes
    most of the skewness, and 15 / n^2 of (sum L^2)^3 for normal values, whose skewness varies by 6 / n^2
    as the mean is taken off. What is measured is multiplied by its square over that of it and this noise.
    Two values are as skewed as they are rare, and no chance is in that beyond the normal one.

    Examples
    --------
    >>> values = np.array([-1.0, -0.5, 0.0, 0.1, 0.2, 6.2]) - 5 / 6
    >>> skewness, _ = shrunken_skewness(*((values**k).sum() for k in (2, 3, 4, 6)), 6)
    >>> skewness.round(2), ((values**3).sum() / (values**2).sum() ** 1.5).round(2)
    (np.float64(0.5), np.float64(0.68))
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = np.where(second > 0, third / second**1.5, 0.0)
        excess = np.where(second > 0, n_units * (fourth / second**2 - raw**2) - 1.0, 0.0)
        # Of the sixth moment of normal values, 15, the variance of their skewness times n is 6: the mean is
        # estimated as well.
        long_tailed = np.where(second > 0, 6.0 / 15.0 * sixth / second**3, 0.0)
    excess = np.maximum(excess, 0.0)
    share = np.minimum(excess, 1.0)
    noise = share * long_tailed + (1.0 - share) * 6.0 / n_units**2
    square = raw**2
    return raw * (square / np.where(square > 0, square + noise, 1.0)), excess


def bounded_skewness(
    error: ArrayLike, degrees: FloatArray, skewness: FloatArray, excess: ArrayLike = np.inf
) -> tuple[FloatArray, FloatArray]:
    """Return the skewness that is taken out at a level, and the degrees of freedom that allow for the rest.

    Hall's transformation is a cube root, whose slope is infinite where 1 + s (t - s / 6) = 0. Near that
    skewness and beyond it the end of an interval depends on nothing as much as on the largest unit. Skewness
    is taken out up to 0.8 of it; what the square of the rest would have taken off the variance of the
    variance stays there. Two values have a quadratic in its place, which has no such point.

    Parameters
    ----------
    error : array-like
        One minus the level.
    degrees : ndarray
        Degrees of freedom with all of the skewness taken out.
    skewness, excess : array-like
        As for `skewed`.

    Returns
    -------
    degrees, skewness : ndarray

    Examples
    --------
    >>> degrees, skewness = bounded_skewness(0.05, np.array([50.0, 50.0]), np.array([0.2, 0.7]))
    >>> skewness.round(2), degrees.round(1)
    (array([0.2 , 0.39]), array([50. ,  5.3]))
    """
    z = -special.ndtri(np.asarray(error) / 2)
    largest = TAKEN_OUT * 2.0 / (np.sqrt(z**2 + 2.0 / 3.0) + z)
    size, share = np.abs(skewness), np.clip(excess, 0.0, 1.0)
    kept = share * np.minimum(size, largest) + (1.0 - share) * size
    left = np.square(size) - np.square(kept)
    degrees = np.asarray(degrees, dtype=float)
    with np.errstate(divide="ignore"):  # degrees without end, and nothing left
        fewer = np.minimum(degrees, np.maximum(2.0 / (2.0 / degrees + left), 1.0))
    return fewer, np.copysign(kept, skewness)


def skewed(t: FloatArray, skewness: ArrayLike, excess: ArrayLike = np.inf) -> FloatArray:
    """Return the quantile of a studentised mean of skewed values that belongs to the quantile t of Student's.

    Parameters
    ----------
    t : ndarray
    skewness : array-like
        Third central moment of the influence over its standard deviation cubed, divided by sqrt(n).
    excess : array-like
        Kurtosis of the influence minus its squared skewness minus one: never negative, and zero where it has
        two values only (Pearson 1916).

    Notes
    -----
    Hall's cubic transformation. It goes far beyond its own expansion t - (2 t^2 + 1) skewness / 6 where
    skewness is large, which long tails need, whose skewness a sample does not show. Two values
    have no tail: there the same expansion is the linear term of the quadratic that the inversion of a score
    test solves, the variance growing with the mean, and gives the mid-P interval of a count to within a
    twentieth. Between the excess of zero and that of one, the two are mixed.

    References
    ----------
    P. Hall (1992), On the removal of skewness by transformation, JRSS B 54.

    Examples
    --------
    >>> x = 3.0  # of very many units earned something: the ends of the interval for their expected number
    >>> [float(round(x - skewed(t, 1 / np.sqrt(x), 0.0) * np.sqrt(x), 2)) for t in (1.96, -1.96)]
    [0.76, 8.14]
    >>> [float(round(x - skewed(t, 1 / np.sqrt(x)) * np.sqrt(x), 2)) for t in (1.96, -1.96)]  # Hall's
    [0.52, 17.15]
    """
    skewness = np.asarray(skewness, dtype=np.float64)
    flat = np.abs(skewness) < 1e-6
    safe = np.where(flat, 1.0, skewness)
    cubic = 3.0 / safe * (np.cbrt(1.0 + safe * (t - safe / 6.0)) - 1.0)
    linear = (2.0 * np.square(t) + 1.0) / 6.0 * skewness
    quadratic = np.copysign(np.sqrt(np.square(t) + np.square(linear)), t) - linear
    share = np.clip(excess, 0.0, 1.0)
    return np.where(flat, t, share * cubic + (1.0 - share) * quadratic)


def bias_aware_quantile(ratio: ArrayLike, degrees: FloatArray, error: ArrayLike) -> FloatArray:
    """Return C with P(-C <= T + ratio <= C) = 1 - error, T of Student's law.

    The half width, in standard errors, of an interval whose centre may be off by `ratio` standard errors in
    either direction: t without bias, and ratio + the one-sided quantile when bias dominates.

    Examples
    --------
    >>> bias_aware_quantile(np.array([0.0, 1.0, 5.0]), np.array(1e6), 0.05).round(2)
    array([1.96, 2.65, 6.64])
    """
    degrees = np.minimum(degrees, _NORMAL)
    ratio, degrees, error = np.broadcast_arrays(np.abs(ratio), degrees, error)
    known = np.isfinite(ratio)  # where bias is all there is, no number of standard errors is enough
    ratio = np.where(known, ratio, 0.0)
    # One tail alone is never enough, and without bias both are equal.
    found = np.where(ratio > 0, ratio - special.stdtrit(degrees, error), -special.stdtrit(degrees, error / 2))
    found = np.where(found > 0, found, -special.stdtrit(degrees, error / 2))
    peak = special.gammaln((degrees + 1) / 2) - special.gammaln(degrees / 2) - np.log(degrees * np.pi) / 2

    def density(x: FloatArray) -> FloatArray:
        return np.exp(peak - (degrees + 1) / 2 * np.log1p(np.square(x) / degrees))

    # The probability is concave beyond the ratio: Newton's steps come from below and never go too far.
    for _ in range(_NEWTON_STEPS):
        tails = special.stdtr(degrees, ratio - found) + special.stdtr(degrees, -found - ratio)
        slope = density(found - ratio) + density(found + ratio)
        step = np.where(ratio > 0, (tails - error) / np.where(slope > 0, slope, np.inf), 0.0)
        found = found + step
        if not (np.abs(step) > _CONVERGED * found).any():
            break
    return np.where(known, found, np.inf)


def monte_carlo_degrees(
    variance: Any, correction: Any, n_units: int, n_members: int, *, controlled: bool = False
) -> FloatArray:
    """Return the degrees of freedom of a corrected infinitesimal jackknife variance from B members.

    Its Monte-Carlo variance is about 8 / B of its square, and 2 / n of the square of the correction that was
    taken off: few members leave few degrees of freedom, most of all where the correction was nearly
    everything. With a control variate slopes are known but for those of the rest: each has the noise
    correction / n, and the sum of their squares 4 variance correction / n in place of the first part.

    Parameters
    ----------
    variance : array
        The variance that is used.
    correction : array
        What was taken off for Monte-Carlo noise.
    n_units, n_members : int
        n and B.
    controlled : bool
        Whether the linear part of the members is known.

    Examples
    --------
    >>> monte_carlo_degrees(1.0, 1.0, 200, 50).round(1)
    np.float64(11.8)
    >>> monte_carlo_degrees(1.0, 1.0, 200, 50, controlled=True).round(1)
    np.float64(66.7)
    """
    used, noise = np.asarray(variance, dtype=np.float64), np.abs(np.asarray(correction, dtype=np.float64))
    size = np.square(used)
    slopes = 4.0 / n_units * used * noise if controlled else 8.0 / n_members * size
    wobble = slopes + 2.0 / n_units * np.square(noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        degrees = np.where(wobble > 0, 2.0 * size / wobble, np.inf)
    return np.asarray(np.clip(degrees, 1.0, max(n_units - 1.0, 1.0)))[()]
