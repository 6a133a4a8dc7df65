"""One record for every inference, the one function that makes an interval of it, and that interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from .._core.arrays import to_numpy
from .._core.errors import require_extra
from .._core.shown import Shown
from .._core.typing import ArrayLike, BoolArray, FloatArray
from .._core.validation import check_real
from .degrees import (
    bias_aware_quantile,
    bounded_skewness,
    skewed,
)

# The record of an interval: its ends, the `Pivot` they were made from, and a sentence for every row.

ESTIMATORS_TARGET = "the estimator's own target"
THE_FUNCTION = "the function itself, on average over points"
THE_EXPECTED_PREDICTION = "the expected prediction; smoothing bias is not in it"
# What limits the knowledge of a row, by code (`Pivot.how`).
SENTENCES = {
    "noise": "standard error {error:.3g}, t with {degrees:.0f} degrees of freedom",
    "smoothing": "standard error {error:.3g}, smoothing bias included",
    "inverted": "weakly identified, so the studentised test is inverted; standard error {error:.3g}",
    "unseen": "{share:.1%} of the policy's future is unseen, with values in {range}; "
    "standard error {error:.3g}",
    "alone": "one unit alone determines this answer, and no other one shows its error",
    "open": "the data do not determine this answer; pass value_range=(low, high)",
    "apart": "the data leave one of the two answers open or weakly identified: bounds of both add up",
}
_NO_EVENT = "no unit shows any noise; the interval allows for what so many units may miss, in {range}"
_NO_EVENT_UNBOUNDED = "no unit shows any noise, and nothing bounds events that so many units may miss"
_RANGE = "the data do not narrow the range of values {range}"


@dataclass(frozen=True, eq=False)
class Interval(Shown):
    """Lower and upper ends, arrays of one shape; unpacks as ``low, high``.

    Attributes
    ----------
    low, high : ndarray
        Infinite where nothing bounds the answer.
    pivot : Pivot or None
        What the ends were made from; None for intervals of new observations.

    Examples
    --------
    >>> low, high = Interval(np.zeros(1), np.ones(1))
    >>> high
    array([1.])
    """

    low: Any
    high: Any
    pivot: Pivot | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.low, self.high))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, item: int) -> Any:
        return (self.low, self.high)[item]

    def map(self, function: Callable[[Any], Any]) -> Interval:
        """Return the interval with a function applied to both ends, for example another kind of array."""
        return replace(self, low=function(self.low), high=function(self.high))

    def to_frame(self) -> Any:
        """Return a pandas data frame, one row per answer: estimate, where it is known, low and high."""
        pandas = require_extra("pandas", extra="io", purpose="A data frame")
        parts = {} if self.pivot is None else {"estimate": self.pivot.estimate}
        parts |= {"low": self.low, "high": self.high}
        return pandas.DataFrame({name: np.ravel(to_numpy(np.asarray(x))) for name, x in parts.items()})

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the table, which may be long."""
        return str(self.to_frame()._repr_html_())

    @property
    def withheld(self) -> BoolArray:
        """Which rows have no finite interval."""
        low, high = to_numpy(np.asarray(self.low)), to_numpy(np.asarray(self.high))
        return np.asarray(~(np.isfinite(low) & np.isfinite(high)))

    @property
    def undecided(self) -> BoolArray:
        """Which rows the data do not narrow: without a finite interval, or with the whole range of values."""
        if self.pivot is None:
            return self.withheld
        low, high = (to_numpy(np.asarray(end)) for end in (self.low, self.high))
        wide = (self.pivot.high > self.pivot.low) & (low <= self.pivot.low) & (high >= self.pivot.high)
        return np.asarray(self.withheld | wide)

    @property
    def sentences(self) -> list[str]:
        """One sentence for every row: the interval, what limits it and what it covers."""
        ends = [np.ravel(to_numpy(np.asarray(end))) for end in (self.low, self.high)]
        written = [f"{a:.4g} to {b:.4g}" for a, b in zip(*ends, strict=True)]
        p = self.pivot
        if p is None:
            return written
        parts = (p.how, p.standard_error, p.degrees, p.undetermined_share, self.undecided)
        rows = map(np.ravel, parts)
        sentences = []
        for text, how, error, degrees, share, wide in zip(written, *rows, strict=True):
            sentence = SENTENCES[str(how)]
            if wide and p.value_range and how != "alone":
                sentence = _RANGE
            elif how == "noise" and error == 0 and degrees > 0:
                sentence = _NO_EVENT if p.value_range else _NO_EVENT_UNBOUNDED
            why = sentence.format(error=error, degrees=degrees, share=share, range=p.value_range)
            sentences.append(f"{text}: {why}; covers {p.covers}.")
        return sentences

    def __repr__(self) -> str:
        return f"Interval(low={self.low!r}, high={self.high!r})"


# Rounding: standard errors below this share of the numbers that an answer is made of are rounding.
NO_NOISE = 1e-10


def _zero() -> FloatArray:
    return np.zeros(())


def _infinite() -> FloatArray:
    return np.full((), np.inf)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pivot:
    """What is known about m estimates before a level is chosen; arrays are (m,) or (m, n_outputs).

    What is given as one number holds for all rows.

    Attributes
    ----------
    estimate : ndarray
    standard_error : ndarray
        Of sampling and Monte-Carlo error together; 0 where the data show no noise at all.
    degrees : ndarray
        Effective degrees of freedom of the standard error; 0 where no finite interval exists.
    skewness, excess : ndarray
        Of the estimate (see `degrees.skewed`); 0 and infinite where the law is taken to be symmetric.
    bias_bound : ndarray
        Largest possible |E estimate - target|: unvisited states, unlogged actions, truncation, model error.
    covariance, matrix_variance : ndarray
        Of the estimate with its denominator (relative to its size), and of that denominator: what the
        inversion of the test needs; 0 where the denominator cannot vanish.
    low, high : ndarray
        Range of possible values, applied last; infinite where nothing bounds the target.
    units : ndarray
        Number of independent units. Where the standard error is 0, it says how rare an event can be that
        none of them shows; with 0 units nothing but the range is known.
    how : ndarray of str
        What limits the knowledge of each row; the codes are those of `SENTENCES`.
    value_range, covers : str
        The range of values in words, and what the interval covers.
    reasons : tuple of str
        Codes of what entered the record as a whole, for sentences.
    """

    estimate: FloatArray
    standard_error: FloatArray
    degrees: FloatArray
    skewness: FloatArray = field(default_factory=_zero)
    excess: FloatArray = field(default_factory=_infinite)
    bias_bound: FloatArray = field(default_factory=_zero)
    covariance: FloatArray = field(default_factory=_zero)
    matrix_variance: FloatArray = field(default_factory=_zero)
    low: FloatArray = field(default_factory=lambda: -_infinite())
    high: FloatArray = field(default_factory=_infinite)
    units: FloatArray = field(default_factory=_zero)
    how: np.ndarray = field(default_factory=lambda: np.array("noise", dtype="<U12"))
    value_range: str = ""
    covers: str = ESTIMATORS_TARGET
    reasons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = np.broadcast_shapes(*(np.shape(getattr(self, name)) for name in _ROWS))
        for name in _ROWS:
            if np.shape(getattr(self, name)) != shape:
                object.__setattr__(self, name, np.broadcast_to(getattr(self, name), shape))

    def with_bias(self, bound: ArrayLike, *reasons: str) -> Pivot:
        """Return the record with a further source of bias: worst cases add up."""
        total = self.bias_bound + np.abs(np.asarray(bound, dtype=np.float64))
        return replace(self, bias_bound=total, reasons=(*self.reasons, *reasons))

    def without_interval(self, where: BoolArray, how: str) -> Pivot:
        """Return the record with rows of which nothing but the range of possible values is known."""
        degrees = np.where(where, 0.0, self.degrees)
        return replace(self, degrees=degrees, how=np.where(where, how, self.how).astype("<U12"))

    def take(self, rows: BoolArray) -> Pivot:
        """Return the record of some of the rows."""
        arrays: dict[str, Any] = {name: getattr(self, name)[rows] for name in _ROWS}
        return replace(self, **arrays)

    @staticmethod
    def stack(records: list[Pivot]) -> Pivot:
        """Return the records of several outputs as one, arrays of shape (m, n_outputs)."""
        joined: dict[str, Any] = {
            name: np.stack([getattr(record, name) for record in records], axis=1) for name in _ROWS
        }
        return replace(records[0], **joined)

    @property
    def undetermined_share(self) -> FloatArray:
        """Of the range of possible values, what the data leave open whatever the noise; 0 without a range."""
        width = self.high - self.low
        known = np.isfinite(width) & (width > 0)
        share = np.where(known, 2.0 * self.bias_bound / np.where(known, width, 1.0), 0.0)
        return np.where(self.degrees > 0, np.minimum(share, 1.0), 1.0)


_ROWS = tuple(f.name for f in fields(Pivot) if f.name not in ("value_range", "covers", "reasons"))


def interval(pivot: Pivot, confidence_level: float = 0.95) -> Interval:
    """Return the confidence interval of every estimate, for one look at data of a size fixed in advance.

    `anytime_interval` is for many looks at data that grow. The procedure, row by row:

    1. Without degrees of freedom nothing is known but the range of possible values: that is the interval.
    2. The critical value is C with P(|T + bias_bound / standard_error| <= C) = confidence_level, T of
       Student's t with `degrees`: its quantile without bias, and bias plus one-sided quantile where
       bias dominates [1]_ [2]_.
    3. Skewness of the estimate is taken out of both critical values by Hall's transformation [3]_.
    4. Where the denominator of the estimate may be near zero, the studentised test is inverted, as by
       Fieller [4]_: the interval grows towards the side of a vanishing denominator, and is infinite where
       the test does not tell it from zero.
    5. Without any noise in the data, an event of probability 1 - (1 - confidence_level)^(1 / units) may have
       been missed (3 / units at 95 %, the rule of three [5]_), and moves the value by at most its range: the
       ends move towards those of the range by this share.
    6. The ends are cut at the range of possible values.

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
       Econometrica 86; for two ends far apart G. Imbens and C. Manski (2004), Econometrica 72.
    .. [3] P. Hall (1992), On the removal of skewness by transformation, JRSS B 54.
    .. [4] E. C. Fieller (1954), Some problems in interval estimation, JRSS B 16; for instruments
       T. W. Anderson and H. Rubin (1949), Annals of Mathematical Statistics 20.
    .. [5] J. A. Hanley and A. Lippman-Hand (1983), If nothing goes wrong, is everything all right?, JAMA 249.

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

    None of 100 units had an event whose size is at most one:

    >>> none = Pivot(estimate=0 * one, standard_error=0 * one, degrees=99 * one, low=0 * one, high=one,
    ...              units=100 * one)
    >>> interval(none).high.round(3)
    array([0.03])
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    low, high = _ends(pivot, np.asarray(1.0 - level))
    return Interval(low, high, pivot)


def p_value(pivot: Pivot, value: float = 0.0) -> FloatArray:
    """Return the smallest error 1 - level whose interval does not contain `value`; NaN without an interval.

    Parameters
    ----------
    pivot : Pivot
    value : float

    Examples
    --------
    >>> one = np.ones(1)
    >>> p_value(Pivot(estimate=2.228 * one, standard_error=one, degrees=10 * one)).round(3)  # t(.975, 10)
    array([0.05])
    """
    # Halving the logarithm of the error; 60 halvings of [-700, 0] leave a relative error of 1e-15.
    small, large = np.full(pivot.estimate.shape, -700.0), np.zeros(pivot.estimate.shape)
    for _ in range(60):
        middle = (small + large) / 2
        low, high = _ends(pivot, np.exp(middle))
        inside = (low <= value) & (value <= high)
        small, large = np.where(inside, middle, small), np.where(inside, large, middle)
    return np.where(pivot.degrees > 0, np.exp(large), np.nan)


def _ends(pivot: Pivot, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both ends of the intervals that miss with the probability `error`, one for all or one a row."""
    known = np.asarray(pivot.degrees) > 0.0
    degrees = np.where(known, pivot.degrees, 1.0)
    degrees, skewness = bounded_skewness(error, degrees, pivot.skewness, pivot.excess)
    noisy = np.asarray(pivot.standard_error) > NO_NOISE * np.abs(pivot.estimate)
    scale = np.where(noisy, pivot.standard_error, 1.0)
    bias = np.where(noisy, pivot.bias_bound, 0.0) / scale
    critical = bias_aware_quantile(bias, degrees, error) - bias  # of the noise alone
    ends = skewed(-critical, skewness, pivot.excess), skewed(critical, skewness, pivot.excess)
    weak = np.asarray(pivot.matrix_variance) > 0.0
    below, above = -ends[1], -ends[0]
    if weak.any():
        inverted = invert_studentised(
            np.ones_like(scale), pivot.covariance / scale, np.asarray(pivot.matrix_variance), *ends
        )
        below, above = np.where(weak, inverted[0], below), np.where(weak, inverted[1], above)
    low = pivot.estimate - pivot.bias_bound + np.where(noisy, below * scale, 0.0)
    high = pivot.estimate + pivot.bias_bound + np.where(noisy, above * scale, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = np.where(noisy, 0.0, 1.0 - error ** (1.0 / np.asarray(pivot.units)))
        low = np.where(missed > 0, low + missed * (np.minimum(pivot.low, low) - low), low)
        high = np.where(missed > 0, high + missed * (np.maximum(pivot.high, high) - high), high)
    low, high = np.where(known, low, -np.inf), np.where(known, high, np.inf)
    return np.clip(low, pivot.low, pivot.high), np.clip(high, pivot.low, pivot.high)


def invert_studentised(
    s_LL: FloatArray, s_Lm: FloatArray, s_mm: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest delta that the studentised residual does not reject.

    With w = A^-T c the answer is w'b, and a value t of c'theta has the residual sum_i w'(f_i - g_i theta(t)).
    Along the direction in which the answer moves most easily, theta(t) = theta + delta v with delta = t -
    c'theta and c'v = 1, this residual is -delta, and its standard error depends on delta:

        s(delta)^2 = s_LL - 2 delta s_Lm + delta^2 s_mm,    L_i = w'(f_i - g_i theta),  m_i = w'g_i v.

    {delta : low <= -delta / s(delta) <= high} is Fieller's interval, for one unknown Anderson and Rubin's.

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
    square = np.square(critical)
    lead = 1.0 - square * s_mm
    slope = square * s_Lm
    with np.errstate(invalid="ignore", divide="ignore"):
        root = (np.sqrt(np.maximum(slope**2 + lead * square * s_LL, 0.0)) - slope) / lead
    return root, np.asarray(lead > 0)
