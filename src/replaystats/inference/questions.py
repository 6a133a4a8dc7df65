"""An interval for every question, decided row by row.

Noise comes from leaving one unit out, with Student's quantile for the effective number of units and the
skewness of what they do. A question that is weakly identified has the studentised test inverted. A question
that the data leave open (an unvisited state, a direction of the basis without data) is bounded by the range
of values, and the range itself is the last resort. No row decides for another, and no test selects data sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._core.errors import SingularReplicateError, must_be
from .._core.typing import BoolArray, FloatArray
from .._core.validation import check_real
from ..engine.linear import Linearisation, linearise
from ..moments import AnyMoments, HeldMoments, StreamedMoments
from ..solvers import Auto, Solver
from .degrees import bias_aware_quantile, skewed
from .intervals import ESTIMATORS_TARGET, Interval, Parts, invert_studentised
from .noise import Noise, question_noise
from .trade import coefficients_of, inner, thinned, trade_off
from .undetermined import ValueRange, unvisited_ends, visit_counts

# A usual interval shorter than this share of the value range cannot gain from the range.
_SHORT = 0.25
# The noise of each fold is learnt from the others, which must be at least two.
_FEWEST_TRADED = 3
# Another interval takes the place of the usual one only if it is shorter by this factor.
_MUCH_SHORTER = 0.9
# Shares of the variance of the answer that goes with its matrix: inversion counts from the first, fully from
# the second. Without such correlation the usual interval covers however weak the matrix is.
_INVERT_FROM, _INVERT_FULLY = 0.2, 0.6
# What is left of a question outside the equations, relative to the question: above this it is undetermined.
_ESTIMABLE = 1e-6
# A series that leaves fewer units than this, and whose neighbours are correlated beyond so many standard
# errors of no correlation, changed about once while it was watched.
_FEWEST_UNITS, _CORRELATED = 2.0, 2.0
_NO_NOISE = 1e-10
_LIKE_A_VALUE = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """What is known about the questions besides the moments.

    Attributes
    ----------
    value_range : ValueRange or None
        Where values lie.
    sequential : bool
        Whether units are consecutive pieces of a series: neighbours may be correlated.
    covers : str
        What the estimate converges to.
    """

    value_range: ValueRange | None = None
    sequential: bool = False
    covers: str = ESTIMATORS_TARGET

    def with_range(self, value_range: tuple[float, float] | None) -> Setting:
        """Return the setting with the bounds that a user gave."""
        if value_range is None:
            return self
        rule = "a pair (low, high) of numbers, low below high"
        ordered = isinstance(value_range, (Sequence, np.ndarray)) and not isinstance(
            value_range, (str, bytes)
        )
        if not ordered or len(value_range) != 2:
            raise TypeError(must_be("value_range", rule, repr(value_range)))
        low, high = (check_real(bound, "value_range") for bound in value_range)
        if not low <= high:
            raise ValueError(must_be("value_range", rule, repr(value_range)))
        if self.value_range is None:
            hint = "Bounds of values need features whose values they bound: use LSTD, LSTDQ or PhiBE."
            raise ValueError(must_be("value_range", "None here", repr(value_range), hint))
        return replace(self, value_range=replace(self.value_range, low=low, high=high, source="given"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Centre:
    """An average in the place of the plug-in, arrays of shape (m,) or (m, n_outputs).

    Attributes
    ----------
    answers, variance : ndarray
    degrees : ndarray or None
        Degrees of freedom of the variance, where few members know it worse than the units do.
    linear : Linearisation or None
        Of all data, where the average knows it.
    """

    answers: FloatArray
    variance: FloatArray
    degrees: FloatArray | None = None
    linear: Linearisation | None = None


def answer_questions(
    moments: AnyMoments,
    X: FloatArray,
    *,
    solver: Solver | None = None,
    centre: Centre | None = None,
    setting: Setting | None = None,
    confidence_level: float = 0.95,
) -> Interval:
    """Return an interval for every row of X theta.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
    X : ndarray of shape (m, q)
        Questions: features of a state, a mean of them, or any linear functional.
    solver : Solver, optional
    centre : Centre, optional
        Of an average of replicates; default the plug-in. Rows without a usable variance fall back to it.
    setting : Setting, optional
    confidence_level : float in (0, 1)

    Returns
    -------
    Interval
        Ends of shape (m,) or (m, n_outputs), with `parts`.

    Examples
    --------
    >>> from replaystats.moments import ridge_moments
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> moments = ridge_moments(X, X @ [1.0, -1.0] + rng.normal(size=200))
    >>> interval = answer_questions(moments, np.eye(2))
    >>> print(interval.sentences[0][:44])
    0.8099 to 1.099: noise of about 34 effective
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    setting = setting or Setting()
    outputs = range(moments.n_outputs or 1)
    rows = [_answer_output(moments, X, solver, centre, setting, level, output) for output in outputs]
    if moments.n_outputs is None:
        return rows[0].interval(setting)
    return _Rows.stack(rows).interval(setting)


@dataclass(kw_only=True, eq=False)
class _Rows:
    """Answers in the making, arrays of shape (m,)."""

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
    def withheld(cls, m: int) -> _Rows:
        nothing = {name: np.full(m, np.nan) for name in ("low", "high", "centre", "error", "degrees", "bias")}
        how = np.full(m, "withheld", dtype="<U12")
        return cls(**nothing, share=np.ones(m), effective=np.zeros(m), how=how)

    @classmethod
    def stack(cls, rows: list[_Rows]) -> _Rows:
        return cls(**{name: np.stack([vars(row)[name] for row in rows], axis=1) for name in vars(rows[0])})

    def put(self, where: BoolArray, other: _Rows) -> None:
        for name, values in vars(self).items():
            values[where] = vars(other)[name][where]

    def interval(self, setting: Setting) -> Interval:
        parts = Parts(
            centre=self.centre,
            standard_error=self.error,
            degrees_of_freedom=self.degrees,
            bias=self.bias,
            undetermined_share=self.share,
            effective_units=self.effective,
            how=self.how,
            value_range="" if setting.value_range is None else str(setting.value_range),
            covers=setting.covers,
        )
        return Interval(self.low, self.high, parts)


def _answer_output(
    moments: AnyMoments,
    X: FloatArray,
    solver: Solver | None,
    centre: Centre | None,
    setting: Setting,
    level: float,
    output: int,
) -> _Rows:
    limits = setting.value_range
    boundable = limits is not None and moments.n_outputs is None and not isinstance(moments, StreamedMoments)
    if boundable and limits is not None and limits.points is None:
        assert not isinstance(moments, StreamedMoments)
        if (visit_counts(moments) < 2).any():
            rows = _unseen(moments, X, limits, setting, level)
            return _inside(rows, limits, X)
    rows = _usual(moments, X, solver, centre, setting, level, output)
    if limits is None:
        return rows
    if boundable and limits.points is not None:
        _trade(rows, moments, X, limits, setting, level)  # type: ignore[arg-type]
    _allow_for_unseen_events(rows, moments.n_observations, limits, X, level)
    return _inside(rows, limits, X)


def _usual(
    moments: AnyMoments,
    X: FloatArray,
    solver: Solver | None,
    centre: Centre | None,
    setting: Setting,
    level: float,
    output: int,
) -> _Rows:
    """Return the intervals from noise alone; rows that the equations do not determine stay withheld."""
    rows = _Rows.withheld(len(X))
    known = None if centre is None else centre.linear
    linear = _linearise(moments, solver) if known is None else known
    if linear is None or moments.n_observations < 2:
        return rows
    theta = linear.theta.reshape(moments.n_basis, -1)[:, output]
    answers = X @ theta
    noise = question_noise(moments, linear, X, output, sequential=setting.sequential)
    if centre is not None:
        variance = centre.variance.reshape(len(X), -1)[:, output]
        usable = np.isfinite(variance) & (variance > 0)
        answers = np.where(usable, centre.answers.reshape(len(X), -1)[:, output], answers)
        noise = noise.with_variance(np.where(usable, variance, noise.variance))
        if centre.degrees is not None:
            degrees = np.where(usable, centre.degrees.reshape(len(X), -1)[:, output], np.inf)
            noise = replace(noise, degrees=np.minimum(noise.degrees, degrees))
    noise = noise.counted_once().at_level(level)
    below, above, inverted = _offsets(noise, level, symmetric=moments.symmetric)
    found = _Rows(
        low=answers + below,
        high=answers + above,
        centre=answers,
        error=np.sqrt(noise.variance),
        degrees=noise.degrees,
        bias=np.zeros(len(X)),
        share=np.zeros(len(X)),
        effective=noise.effective,
        how=np.where(inverted, "inverted", "noise").astype("<U12"),
    )
    found.how[~np.isfinite(found.low)] = "withheld"
    slow = _still_grows(noise) & (noise.effective < _FEWEST_UNITS)
    found.low[slow], found.high[slow], found.how[slow] = -np.inf, np.inf, "slow"
    rows.put(_estimable(linear, X), found)
    return rows


def _still_grows(noise: Noise) -> BoolArray:
    """Return whether the variance grows with the length of blocks: neighbours are clearly correlated."""
    chance = min(_CORRELATED / np.sqrt(noise.n_units), 0.5)
    return np.asarray(noise.growth > (1 + chance) / (1 - chance))


def _offsets(noise: Noise, level: float, *, symmetric: bool) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return both ends relative to the answer, and which rows were inverted.

    A matrix to which every unit adds cannot vanish, and a symmetric one is a Gram matrix: given it, the
    answer is as good as it is, however it came about.
    """
    critical = noise.critical_values(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        common = noise.covariance**2 / (noise.variance * noise.matrix_variance)
    common = np.where(np.isfinite(common), common, 0.0) - 2.0 / noise.n_units
    weight = np.clip((common - _INVERT_FROM) / (_INVERT_FULLY - _INVERT_FROM), 0.0, 1.0)
    weight = np.where(noise.one_sign | (symmetric and noise.n_parameters > 1), 0.0, weight)
    below, above = invert_studentised(
        noise.variance, weight * noise.covariance, weight * noise.matrix_variance, *critical
    )
    return below, above, weight > 0


def _unseen(moments: HeldMoments, X: FloatArray, limits: ValueRange, setting: Setting, level: float) -> _Rows:
    """Return the intervals of one-hot questions of which some states were visited once or never."""
    ends = unvisited_ends(moments, X, limits, sequential=setting.sequential)
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
    rows = _Rows(
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
    _allow_for_unseen_events(rows, moments.n_observations, limits, X, level)
    return rows


def _trade(
    rows: _Rows, moments: HeldMoments, X: FloatArray, limits: ValueRange, setting: Setting, level: float
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
    traded = trade_off(
        moments,
        X[chosen],
        everywhere,
        level,
        longest=longest,
        cut=np.isfinite(_bounds(limits, X[chosen])[0]),
        sequential=setting.sequential,
    )
    traded_length = traded.high - traded.low
    gains = np.isfinite(traded_length) & ~(traded_length > longest)
    chosen, gained = chosen[gains], gains
    for name, values in (
        ("low", traded.low),
        ("high", traded.high),
        ("centre", traded.centre),
        ("error", traded.standard_error),
        ("degrees", traded.degrees),
        ("bias", traded.bias),
        ("share", traded.undetermined),
        ("effective", traded.effective),
    ):
        getattr(rows, name)[chosen] = values[gained]
    rows.how[chosen] = "traded"


def _allow_for_unseen_events(rows: _Rows, n: int, limits: ValueRange, X: FloatArray, level: float) -> None:
    """Widen intervals without any noise by what n units could have missed.

    An event of probability p stays unseen in n units with the probability (1 - p)^n, and moves the answer by
    no more than the range of values (the rule of three: p is about 3 / n at 95 %).
    """
    scale = np.maximum(np.abs(rows.centre), max(abs(limits.low), abs(limits.high)))
    silent = np.isfinite(rows.low) & (rows.error <= _NO_NOISE * np.maximum(scale, np.finfo(float).tiny))
    if not silent.any():
        return
    if limits.width == 0:  # one reward only was ever seen: the range that follows from it bounds nothing
        rows.put(silent & (limits.source != "given"), _Rows.withheld(len(X)))
        return
    missed = 1.0 - (1.0 - level) ** (1.0 / n)
    lowest, highest = _bounds(limits, X)
    # Only there: elsewhere ends may be infinite, and so without differences.
    rows.low[silent] += missed * (np.broadcast_to(lowest, silent.shape)[silent] - rows.low[silent])
    rows.high[silent] += missed * (np.broadcast_to(highest, silent.shape)[silent] - rows.high[silent])
    rows.how[silent & (rows.how == "noise")] = "unseen event"


def _inside(rows: _Rows, limits: ValueRange, X: FloatArray) -> _Rows:
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
        up, down = np.maximum(X, 0).sum(axis=1), np.maximum(-X, 0).sum(axis=1)
        return up * limits.low - down * limits.high, up * limits.high - down * limits.low
    is_value = np.abs(X @ _ones(limits) - 1.0) < _LIKE_A_VALUE
    return np.where(is_value, limits.low, -np.inf), np.where(is_value, limits.high, np.inf)


def _ones(limits: ValueRange) -> FloatArray:
    """Return the coefficients whose values are nearest to one at every point."""
    assert limits.points is not None
    return coefficients_of(limits.points, 1.0)


def _estimable(linear: Linearisation, X: FloatArray) -> BoolArray:
    """Return which questions the equations determine: c = A'w for w = R'c."""
    if linear.truncated == 0 and linear.set_aside == 0:
        return np.ones(len(X), dtype=bool)
    A, _ = linear.sums
    left = X - X @ linear.inverse @ A
    return np.asarray(np.abs(left).max(axis=1) <= _ESTIMABLE * np.abs(X).max(axis=1))


def _linearise(moments: AnyMoments, solver: Solver | None) -> Linearisation | None:
    # A solver that balances a penalty has no influence values; the question is answered without it.
    plain = solver if solver is not None and solver.is_linear else Auto()
    try:
        return linearise(moments, plain)
    except SingularReplicateError:
        return None
