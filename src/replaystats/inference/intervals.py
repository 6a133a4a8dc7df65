"""The record of an interval: its ends, what they are made of, and a sentence for every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from .._core.arrays import like, to_numpy
from .._core.typing import BoolArray, FloatArray
from .._core.validation import check_real
from .components import ReplayVariance
from .degrees import monte_carlo_degrees

ESTIMATORS_TARGET = "the estimator's own target"
THE_FUNCTION = "the function itself, on average over points"
THE_EXPECTED_PREDICTION = "the expected prediction; smoothing bias is not in it"
_EXPLANATIONS = {
    "noise": "noise of about {units:.0f} effective units (t with {degrees:.0f} degrees of freedom)",
    "inverted": "weakly identified, so the studentised test is inverted; about {units:.0f} effective units",
    "unseen": "{share:.1%} of the policy's future is unseen, with values in {range}; the rest is noise",
    "traded": "{share:.1%} of the range is left open by the data, if the basis keeps values in {range} "
    "at all logged states but the outermost; the rest is noise",
    "unseen event": "the data show no noise at all; what happens to fewer than 3 units in n is allowed for, "
    "with values in {range}",
    "range": "the data do not narrow the range of values {range}",
    "slow": "the series is short for its memory: its variance still grows with the length of blocks, and "
    "about {units:.1f} effective units carry this answer",
    "alone": "one unit alone determines this answer, and nothing tells how far another one would move it",
    "apart": "the data leave one of the two answers open or weakly identified, so that the difference lies "
    "between the ends of both intervals, each with half of the error allowed",
    "withheld": "nothing bounds this answer: {reason}",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """What an interval is made of; arrays have the shape of its ends.

    Attributes
    ----------
    centre : ndarray
        Middle of what the data leave open, noise aside.
    standard_error, degrees_of_freedom : ndarray
        Of the noise around it.
    bias : ndarray
        Half the width of what the data do not determine.
    undetermined_share : ndarray
        The same as a share of the value range: of the policy's future, what lies beyond unseen points.
    effective_units : ndarray
        On how many units the answer rests.
    how : ndarray of str
        "noise" (the usual interval), "inverted" (weakly identified), "unseen" (noise and unvisited states),
        "traded" (noise against what the basis leaves open), "unseen event" (no noise was seen), "range" (only
        the value range bounds it), "slow" (so it is, as a series hardly changed), "alone" (so it is, as one
        unit alone tells), "apart" (a difference, from the intervals of both answers), or "withheld".
    value_range : str
        The range of values that was used, in words; empty without one.
    covers : str
        What is covered.
    """

    centre: FloatArray
    standard_error: FloatArray
    degrees_of_freedom: FloatArray
    bias: FloatArray
    undetermined_share: FloatArray
    effective_units: FloatArray
    how: np.ndarray
    value_range: str
    covers: str

    def sentence(self, row: int, low: float, high: float) -> str:
        """Say what an interval rests on and what it covers."""
        reason = (
            "pass value_range=(low, high)"
            if np.isnan(low)
            else "the data do not tell its matrix from a singular one; pass value_range=(low, high)"
        )
        why = _EXPLANATIONS[str(np.ravel(self.how)[row])].format(
            units=np.ravel(self.effective_units)[row],
            degrees=np.ravel(self.degrees_of_freedom)[row],
            share=np.ravel(self.undetermined_share)[row],
            range=self.value_range,
            reason=reason,
        )
        return f"{low:.4g} to {high:.4g}: {why}; covers {self.covers}."


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionParts:
    """What an interval for a regression function is made of; arrays have the shape of its ends.

    Attributes
    ----------
    noise, bias : ndarray
        Half widths of the intervals that noise and smoothing bias would have alone: their squares add up.
    monte_carlo : ndarray
        Standard error because members are finitely many, a part of the noise.
    covers : str
        What is covered.
    """

    noise: FloatArray
    bias: FloatArray
    monte_carlo: FloatArray
    covers: str

    def sentence(self, row: int, low: float, high: float) -> str:
        """Say what an interval rests on and what it covers."""
        noise, bias, drawn = (
            float(np.ravel(part)[row]) for part in (self.noise, self.bias, self.monte_carlo)
        )
        why = f"noise +-{noise:.3g} (standard error by Monte Carlo {drawn:.2g}), smoothing bias +-{bias:.3g}"
        return f"{low:.4g} to {high:.4g}: {why}; covers {self.covers}."


@dataclass(frozen=True, eq=False)
class Interval:
    """Lower and upper ends, arrays of one shape; unpacks as ``low, high``.

    Attributes
    ----------
    low, high : ndarray
        NaN where nothing bounds the answer; infinite where only the data could, and do not.
    parts : Parts, FunctionParts or None
        What the ends are made of, where they were made row by row.

    Examples
    --------
    >>> low, high = Interval(np.zeros(1), np.ones(1))
    >>> high
    array([1.])
    """

    low: Any
    high: Any
    parts: Parts | FunctionParts | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.low, self.high))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, item: int) -> Any:
        return (self.low, self.high)[item]

    def map(self, function: Callable[[Any], Any]) -> Interval:
        """Return the interval with a function applied to both ends, for example another kind of array."""
        return replace(self, low=function(self.low), high=function(self.high))

    @property
    def withheld(self) -> BoolArray:
        """Which rows have no finite interval."""
        low, high = to_numpy(np.asarray(self.low)), to_numpy(np.asarray(self.high))
        return np.asarray(~(np.isfinite(low) & np.isfinite(high)))

    @property
    def undecided(self) -> BoolArray:
        """Which rows the data say nothing about: without a finite interval, or with the whole value range."""
        if not isinstance(self.parts, Parts):
            return self.withheld
        return np.asarray(self.withheld | np.isin(self.parts.how, ("range", "slow")))

    @property
    def sentences(self) -> list[str]:
        """One sentence for every row: the interval, what it rests on and what it covers."""
        if self.parts is None:
            return [
                f"{a:.4g} to {b:.4g}" for a, b in zip(np.ravel(self.low), np.ravel(self.high), strict=True)
            ]
        low, high = np.ravel(to_numpy(self.low)), np.ravel(to_numpy(self.high))
        return [self.parts.sentence(row, low[row], high[row]) for row in range(low.size)]

    def __repr__(self) -> str:
        return f"Interval(low={self.low!r}, high={self.high!r})"


def student_interval(
    centre: Any, standard_error: Any, confidence_level: float, degrees: FloatArray | float = np.inf
) -> Interval:
    """Return centre -/+ t standard_error, with t the quantile of Student's law; normal without `degrees`.

    Parameters
    ----------
    centre, standard_error : array
    confidence_level : float in (0, 1)
    degrees : ndarray or float
        Degrees of freedom of the standard error.

    Returns
    -------
    Interval

    Examples
    --------
    >>> import numpy as np
    >>> student_interval(np.zeros(1), np.ones(1), 0.95).high.round(2)
    array([1.96])
    >>> student_interval(np.zeros(1), np.ones(1), 0.95, 5.0).high.round(2)
    array([2.57])
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    half = like(stats.t.ppf(0.5 + level / 2, degrees), standard_error) * standard_error
    return Interval(centre - half, centre + half)


def interval_of_members(centre: Any, parts: ReplayVariance, level: float) -> Interval:
    """Return the interval of an average without known influence: Student's, as far as members carry.

    Parameters
    ----------
    centre : array
    parts : ReplayVariance
    level : float in (0, 1)
    """
    variance, degrees = variance_of_members(parts, level)
    half = like(student_interval(np.zeros_like(variance), np.sqrt(variance), level, degrees).high, centre)
    return Interval(centre - half, centre + half)


def variance_of_members(
    parts: ReplayVariance, level: float, *, controlled: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Return the variance that gives the shorter interval, and its degrees of freedom.

    The infinitesimal jackknife of few members is mostly noise, which its degrees of freedom know. The spread
    of members bounds the variance from above with little noise: with few it is the better. With a control
    variate (`controlled`) it is looked at only where more noise was taken off than variance is left.
    """
    variance, correction = to_numpy(parts.variance), to_numpy(parts.raw - parts.sampling)
    n, most = parts.plan.n_observations, parts.n_used - 1.0
    degrees = monte_carlo_degrees(variance, correction, n, parts.n_used, controlled=controlled)
    bound = np.maximum(to_numpy(parts.delete_d + parts.monte_carlo), 0.0)
    zero = np.zeros_like(bound)
    few = student_interval(zero, np.sqrt(bound), level, most).high
    many = student_interval(zero, np.sqrt(variance), level, degrees).high
    bounded = (few < many) & (correction > variance if controlled else True)
    return np.where(bounded, bound, variance), np.where(bounded, most, degrees)


# An interval that knows how well its question is identified: the studentised moment test, inverted.
#
# With w = A^-T c the answer is w'b, and the data speak about a value t of c'theta through the residual
# sum_i w'(f_i - g_i theta(t)). Along the direction in which the answer moves most easily, theta(t) = theta +
# delta v with delta = t - c'theta and c'v = 1, this residual is -delta, and its standard error depends on
# delta:
#
#     s(delta)^2 = s_LL - 2 delta s_Lm + delta^2 s_mm,    L_i = w'(f_i - g_i theta),  m_i = w'g_i v.
#
# {delta : low <= -delta / s(delta) <= high} is Fieller's interval, for one unknown Anderson and Rubin's:
# close to the usual one when the question is well identified (s_mm small), longer on the side where the
# matrix might be nearly singular, and unbounded when it cannot be told from a singular one.


def invert_studentised(
    s_LL: FloatArray, s_Lm: FloatArray, s_mm: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest delta that the studentised residual does not reject.

    Parameters
    ----------
    s_LL, s_Lm, s_mm : ndarray of shape (m,)
        Variance of the answer, covariance of the answer and its matrix, variance of the matrix.
    low, high : ndarray of shape (m,)
        Critical values, of which `low` is negative.

    Returns
    -------
    below, above : ndarray of shape (m,)
        Offsets from the estimate; infinite where nothing bounds the answer.

    Examples
    --------
    >>> z = np.array([1.96])
    >>> below, above = invert_studentised(np.ones(1), np.zeros(1), np.zeros(1), -z, z)
    >>> above
    array([1.96])
    >>> invert_studentised(np.ones(1), np.zeros(1), np.array([0.3]), -z, z)[1]
    array([inf])
    """
    above, bounded_above = _root(s_LL, s_Lm, s_mm, low)
    below, bounded_below = _root(s_LL, -s_Lm, s_mm, high)
    bounded = bounded_above & bounded_below  # the rejected region in the middle: its hull is the line
    return np.where(bounded, -below, -np.inf), np.where(bounded, above, np.inf)


def _root(
    s_LL: FloatArray, s_Lm: FloatArray, s_mm: FloatArray, critical: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return the positive root of delta^2 = critical^2 s(delta)^2, and whether it bounds delta."""
    square = critical**2
    lead = 1.0 - square * s_mm
    bounded = lead > 0
    slope = square * s_Lm
    with np.errstate(invalid="ignore", divide="ignore"):
        root = (np.sqrt(np.maximum(slope**2 + lead * square * s_LL, 0.0)) - slope) / lead
    return root, bounded


@dataclass(kw_only=True, eq=False)
class Rows:
    """Intervals in the making: ends and parts, arrays of shape (m,) that may be overwritten."""

    low: FloatArray
    high: FloatArray
    centre: FloatArray
    error: FloatArray
    degrees: FloatArray
    bias: FloatArray
    share: FloatArray
    effective: FloatArray
    how: np.ndarray

    @classmethod
    def withheld(cls, m: int) -> Rows:
        """Return m rows without an interval."""
        nothing = {name: np.full(m, np.nan) for name in ("low", "high", "centre", "error", "degrees", "bias")}
        how = np.full(m, "withheld", dtype="<U12")
        return cls(**nothing, share=np.ones(m), effective=np.zeros(m), how=how)

    @classmethod
    def stack(cls, rows: list[Rows]) -> Rows:
        """Return the rows of several outputs as one record, arrays of shape (m, n_outputs)."""
        return cls(**{name: np.stack([vars(row)[name] for row in rows], axis=1) for name in vars(rows[0])})

    def put(self, where: BoolArray, other: Rows) -> None:
        """Take some rows from another record."""
        for name, values in vars(self).items():
            values[where] = vars(other)[name][where]

    def interval(self, value_range: str, covers: str) -> Interval:
        """Return the record of the finished answers; the arguments are those of `Parts`."""
        parts = Parts(
            centre=self.centre,
            standard_error=self.error,
            degrees_of_freedom=self.degrees,
            bias=self.bias,
            undetermined_share=self.share,
            effective_units=self.effective,
            how=self.how,
            value_range=value_range,
            covers=covers,
        )
        return Interval(self.low, self.high, parts)
