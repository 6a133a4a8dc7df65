"""Questions taken together: bands over all of them at once, and differences of two estimates, paired."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import stats

from .._core.errors import must_be
from .._core.random import as_generator
from .._core.typing import FloatArray
from .intervals import Interval, Parts
from .noise import noise_of

# The largest studentised error over m questions has no table, but its law is that of the largest studentised
# sum of influence values with random signs: max over x of |sum_i e_i L_i(x)| / s(x), e_i standard normal. Its
# quantile C is what the normal quantile is for one question, and the band is every row's own interval at the
# level P(|N| <= C): what a row does about few units, unseen states or weak identification stays its own.

N_MULTIPLIERS = 2000
_SEED = 0


def simultaneous_level(shifts: FloatArray, confidence_level: float, *, rng: object = _SEED) -> float:
    """Return the level of the single intervals whose band has `confidence_level`.

    Parameters
    ----------
    shifts : ndarray of shape (n, m)
        What each unit moves every answer by.
    confidence_level : float in (0, 1)
    rng : seed or Generator
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
    multipliers = as_generator(rng).normal(size=(N_MULTIPLIERS, len(shifts)))  # type: ignore[arg-type]
    largest = np.abs(multipliers @ (centred[:, moving] / error[moving])).max(axis=1)
    critical = float(np.quantile(largest, confidence_level))
    return max(confidence_level, float(2 * stats.norm.cdf(critical) - 1))


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
    difference : ndarray of shape (m,) or (m, n_outputs)
        First answers minus second.
    shifts, other_shifts : ndarray of shape (n, m) or (n, m, n_outputs)
        What unit i moves each of the two answers by.
    confidence_level : float in (0, 1)
    monte_carlo : ndarray of the shape of `difference`, or float
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
    noise = noise_of((shifts - other_shifts).reshape(len(shifts), -1), sequential=sequential)
    shape = difference.shape
    low, high = (value.reshape(shape) for value in noise.critical_values(confidence_level))
    error = np.sqrt(noise.variance.reshape(shape) + monte_carlo)
    parts = Parts(
        centre=difference,
        standard_error=error,
        degrees_of_freedom=noise.degrees.reshape(shape),
        bias=np.zeros_like(error),
        undetermined_share=np.zeros_like(error),
        effective_units=noise.effective.reshape(shape),
        how=np.full(error.shape, "noise"),
        value_range="",
        covers="the difference of the estimators' own targets",
    )
    return Interval(difference - high * error, difference - low * error, parts)


def apart_where_open(paired: Interval, own: Interval, others: Interval) -> Interval:
    """Return differences with rows that are more than noise taken from both intervals, not from the pairs.

    What units move an answer by says nothing of states that no unit visited, and little of a matrix near a
    singular one. There the difference lies between the ends of both intervals, each with half of the error.

    Parameters
    ----------
    paired : Interval
        Of m differences, from `paired_difference`.
    own, others : Interval
        Of the two answers in every row, at the level whose errors are half of those allowed.

    Examples
    --------
    >>> from replaystats import LSTD, Trajectories
    >>> from replaystats.basis import OneHot
    >>> paths, rewards = [[0, 1, 0, 1, 0]] * 9, [[1.0, 0, 1, 0]] * 9
    >>> data = Trajectories([*paths, [0, 0, 1, 1, 0]], [*rewards, [1.0, 1, 0, 0]])
    >>> far, near = (LSTD(OneHot(3), discount=discount).fit(data) for discount in (0.9, 0.5))
    >>> low, high = far.compare(near, [[2]])  # a state that was never visited
    >>> bool(low[0] < -1 and high[0] > 1)
    True
    """
    is_noise = (_parts(own).how == "noise") & (_parts(others).how == "noise")
    low = np.where(is_noise, paired.low, own.low - others.high)
    high = np.where(is_noise, paired.high, own.high - others.low)
    how = np.where(is_noise, "noise", np.where(np.isnan(low) | np.isnan(high), "withheld", "apart"))
    return Interval(low, high, replace(_parts(paired), how=how))


def _parts(interval: Interval) -> Parts:
    """Return what an interval is made of, which those of ratios of moments always say."""
    assert isinstance(interval.parts, Parts)
    return interval.parts
