"""Small producers of `Pivot`: groups left out, averages of members, paired differences, and bands."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special, stats

from .._core.arrays import to_numpy
from .._core.errors import must_be
from .._core.random import as_generator
from .._core.thresholds import N_MULTIPLIERS, NOMINAL_LEVEL
from .._core.typing import FloatArray
from .components import ReplayVariance
from .degrees import monte_carlo_degrees
from .noise import noise_of
from .pivot import NO_NOISE, Interval, Pivot, interval


def group_jackknife_pivot(estimate: FloatArray, left_out: FloatArray) -> Pivot:
    """Return the record of estimates (m,) from those without each of G equal groups, (G, m).

    Examples
    --------
    >>> values = np.array([1.0, 2.0, 4.0, 9.0])
    >>> without = (values.sum() - values) / 3
    >>> group_jackknife_pivot(np.array([4.0]), without[:, None]).standard_error.round(3)  # of a mean
    array([1.78])
    """
    noise = noise_of(estimate - left_out).symmetric()
    return noise.pivot(estimate, np.abs(estimate))


def ensemble_pivot(centre: Any, parts: ReplayVariance, *, controlled: bool = False) -> Pivot:
    """Return the record of an average without known influence: as many degrees as members have.

    Parameters
    ----------
    centre : array
    parts : ReplayVariance
    controlled : bool
        Whether a control variate took the linear part off.
    """
    variance, degrees = variance_of_members(parts, controlled=controlled)
    units = np.full(variance.shape, float(parts.plan.n_observations))
    return Pivot(estimate=to_numpy(centre), standard_error=np.sqrt(variance), degrees=degrees, units=units)


def variance_of_members(parts: ReplayVariance, *, controlled: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return the variance that gives the shorter nominal interval, and its degrees of freedom.

    The infinitesimal jackknife of few members is mostly noise, which its degrees of freedom show. The spread
    of members bounds the variance from above with little noise: with few it is the better. With a control
    variate (`controlled`) it is considered only where more noise was taken off than variance is left.
    """
    variance, correction = to_numpy(parts.variance), to_numpy(parts.raw - parts.sampling)
    n, most = parts.plan.n_observations, parts.n_used - 1.0
    degrees = monte_carlo_degrees(variance, correction, n, parts.n_used, controlled=controlled)
    bound = np.maximum(to_numpy(parts.delete_d + parts.monte_carlo), 0.0)
    few, many = (
        special.stdtrit(free, 0.5 + NOMINAL_LEVEL / 2) * np.sqrt(size)
        for free, size in ((most, bound), (degrees, variance))
    )
    bounded = (few < many) & (correction > variance if controlled else True)
    return np.where(bounded, bound, variance), np.where(bounded, most, degrees)


# Questions taken together: bands over all of them at once, and differences of two estimates, paired.

# The largest studentised error over m questions has no table, but its law is that of the largest studentised
# sum of influence values with random signs: max over x of |sum_i e_i L_i(x)| / s(x), e_i standard normal. Its
# quantile C is what the normal quantile is for one question, and the band is every row's own interval at the
# level P(|N| <= C): few units, unseen states and weak identification stay those of the row.

# Format: seed of the multipliers, so that a band is the same every time.
_SEED = 0


def simultaneous_level(shifts: FloatArray, confidence_level: float, *, random_state: object = _SEED) -> float:
    """Return the level of the single intervals whose band has `confidence_level`.

    Parameters
    ----------
    shifts : ndarray of shape (n, m)
        What each unit moves every answer by.
    confidence_level : float in (0, 1)
    random_state : seed or Generator
        Of the multipliers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> one = rng.normal(size=(500, 1))
    >>> round(simultaneous_level(one, 0.95), 2)  # one question
    0.95
    >>> round(simultaneous_level(np.repeat(one, 9, axis=1), 0.95), 2)  # nine times the same question
    0.95
    >>> round(simultaneous_level(rng.normal(size=(500, 10)), 0.95), 3)  # ten unrelated ones: .95^(1/10)
    0.994
    """
    centred = shifts - shifts.mean(axis=0)
    error = np.sqrt(np.square(centred).sum(axis=0))
    moving = error > 0
    if not moving.any():
        return confidence_level
    multipliers = as_generator(random_state).normal(size=(N_MULTIPLIERS, len(shifts)))  # type: ignore[arg-type]
    largest = np.abs(multipliers @ (centred[:, moving] / error[moving])).max(axis=1)
    critical = float(np.quantile(largest, confidence_level))
    return max(confidence_level, float(2 * stats.norm.cdf(critical) - 1))


def difference(
    first: Pivot,
    second: Pivot,
    shifts: FloatArray,
    other_shifts: FloatArray,
    *,
    monte_carlo: FloatArray | float = 0.0,
    sequential: bool = False,
) -> Pivot:
    """Return the record of first minus second, whose estimates come from the same units.

    1. The noise is that of the paired changes, with the Monte-Carlo variance of the difference added.
    2. Bounds of biases add up, and so do the ranges of possible values.
    3. A row without degrees of freedom in either record has none.
    4. Where the paired changes are all zero and those of the two are not, the difference does not depend on
       the data: it is known exactly.

    Parameters
    ----------
    first, second : Pivot
    shifts, other_shifts : ndarray of shape (n, m) or (n, m, n_outputs)
        What unit i moves each of the two answers by.
    monte_carlo : ndarray or float
        Variance of the difference because averages have finitely many members.
    sequential : bool
        Whether neighbouring units may be correlated.

    Examples
    --------
    Means of paired measurements: the interval is that of the mean of the differences.

    >>> from replaystats.inference.pivot import mean_pivot
    >>> before, after = np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.5, 2.4, 3.7, 5.4])
    >>> moves = [(x - x.mean())[:, None] / 3 for x in (before, after)]
    >>> interval(difference(mean_pivot(before), mean_pivot(after), *moves)).high < 0
    array([ True])
    """
    if len(shifts) != len(other_shifts):
        hint = "Fit both on the same data with the same `unit`."
        rule = f"fitted on the same {len(shifts)} units"
        raise ValueError(must_be("other", rule, f"{len(other_shifts)} units", hint))
    estimate = first.estimate - second.estimate
    shape = estimate.shape
    noise = noise_of((shifts - other_shifts).reshape(len(shifts), -1), sequential=sequential)
    if not (np.asarray(first.skewness).any() or np.asarray(second.skewness).any()):
        noise = noise.symmetric()
    scale = first.standard_error + second.standard_error
    error = np.sqrt(noise.variance.reshape(shape) + monte_carlo)
    error = np.where(error <= NO_NOISE * scale, 0.0, error)
    bias = first.bias_bound + second.bias_bound
    exact = (error == 0) & (scale > 0) & (bias == 0)
    degrees = np.minimum(np.minimum(first.degrees, second.degrees), noise.degrees.reshape(shape))
    weak = np.maximum(first.matrix_variance, second.matrix_variance)
    noisy = [np.broadcast_to(record.how, shape) == "noise" for record in (first, second)]
    return Pivot(
        estimate=estimate,
        standard_error=error,
        degrees=degrees,
        skewness=noise.skewness.reshape(shape),
        excess=noise.excess.reshape(shape),
        bias_bound=bias,
        matrix_variance=np.where(exact, 0.0, weak),
        low=np.where(exact, estimate, first.low - second.high),
        high=np.where(exact, estimate, first.high - second.low),
        units=np.minimum(first.units, second.units),
        how=np.where(noisy[0] & noisy[1], "noise", "apart").astype("<U12"),
        covers="the difference of the estimators' own targets",
    )


def band(pivot: Pivot, shifts: FloatArray, confidence_level: float = 0.95) -> Interval:
    """Return intervals that cover all rows at once: every row's own, at the level of `simultaneous_level`.

    Parameters
    ----------
    pivot : Pivot
    shifts : ndarray of shape (n, m)
        What each unit moves every answer by.
    confidence_level : float in (0, 1)
        Of all rows together.
    """
    return interval(pivot, simultaneous_level(shifts, confidence_level))
