"""Bands that cover all questions at once, without a refit.

The largest studentised error over m questions has no table, but its law is that of the largest studentised
sum of influence values with random signs: max over x of |sum_i e_i L_i(x)| / s(x), e_i standard normal. Its
quantile C is what the normal quantile is for one question, and the band is every row's own interval at the
level P(|N| <= C): what a row does about few units, unseen states or weak identification stays its own.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from .._core.random import as_generator
from .._core.typing import FloatArray

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
