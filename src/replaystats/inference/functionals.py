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
from ..moments import AnyMoments, StreamedMoments
from ..solvers import Auto, Solver
from .bounded import allow_for_unseen_events, bias_aware_intervals, cut_at_range, unvisited_rows
from .functional_moments import functional_moments
from .intervals import ESTIMATORS_TARGET, Interval, Rows, invert_studentised
from .noise import Noise
from .partial_identification import ValueRange, determined, rest_on_one_unit, visit_counts

# Shares of the variance of the answer that goes with its matrix: inversion counts from the first, fully from
# the second. Without such correlation the usual interval covers however weak the matrix is.
_INVERT_FROM, _INVERT_FULLY = 0.2, 0.6
# A series that leaves fewer units than this, and whose neighbours are correlated beyond so many standard
# errors of no correlation, changed about once while it was watched.
_FEWEST_UNITS, _CORRELATED = 2.0, 2.0


@dataclass(frozen=True, kw_only=True, eq=False)
class InferenceContext:
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

    def with_range(self, value_range: tuple[float, float] | None) -> InferenceContext:
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
class PointEstimate:
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


def functional_intervals(
    moments: AnyMoments,
    X: FloatArray,
    *,
    solver: Solver | None = None,
    centre: PointEstimate | None = None,
    setting: InferenceContext | None = None,
    confidence_level: float = 0.95,
) -> Interval:
    """Return an interval for every row of X theta.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
    X : ndarray of shape (m, q)
        Questions: features of a state, a mean of them, or any linear functional.
    solver : Solver, optional
    centre : PointEstimate, optional
        Of an average of replicates; default the plug-in. Rows without a usable variance fall back to it.
    setting : InferenceContext, optional
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
    >>> interval = functional_intervals(moments, np.eye(2))
    >>> print(interval.sentences[0][:44])
    0.8099 to 1.099: noise of about 34 effective
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    setting = setting or InferenceContext()
    outputs = range(moments.n_outputs or 1)
    rows = [_answer_output(moments, X, solver, centre, setting, level, output) for output in outputs]
    answered = rows[0] if moments.n_outputs is None else Rows.stack(rows)
    limits = setting.value_range
    return answered.interval("" if limits is None else str(limits), setting.covers)


def _answer_output(
    moments: AnyMoments,
    X: FloatArray,
    solver: Solver | None,
    centre: PointEstimate | None,
    setting: InferenceContext,
    level: float,
    output: int,
) -> Rows:
    limits = setting.value_range
    boundable = limits is not None and moments.n_outputs is None and not isinstance(moments, StreamedMoments)
    if boundable and limits is not None and limits.points is None:
        assert not isinstance(moments, StreamedMoments)
        if (visit_counts(moments) < 2).any():
            rows = unvisited_rows(moments, X, limits, level, sequential=setting.sequential)
            return cut_at_range(rows, limits, X)
    rows = _usual(moments, X, solver, centre, setting, level, output)
    if limits is None:
        return rows
    if boundable and limits.points is not None:
        bias_aware_intervals(rows, moments, X, limits, level, sequential=setting.sequential)  # type: ignore[arg-type]
    allow_for_unseen_events(rows, moments.n_observations, limits, X, level)
    return cut_at_range(rows, limits, X)


def _usual(
    moments: AnyMoments,
    X: FloatArray,
    solver: Solver | None,
    centre: PointEstimate | None,
    setting: InferenceContext,
    level: float,
    output: int,
) -> Rows:
    """Return the intervals from noise alone; rows that the equations do not determine stay withheld."""
    rows = Rows.withheld(len(X))
    known = None if centre is None else centre.linear
    linear = _linearise(moments, solver) if known is None else known
    if linear is None or moments.n_observations < 2:
        return rows
    theta = linear.theta.reshape(moments.n_basis, -1)[:, output]
    answers = X @ theta
    noise = functional_moments(moments, linear, X, output, sequential=setting.sequential)
    if centre is not None:
        answers, noise = _recentred(centre, answers, noise, output)
    noise = noise.second_order_corrected().at_level(level)
    below, above, inverted = _offsets(noise, level, symmetric=moments.symmetric)
    found = Rows(
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
    alone = rest_on_one_unit(moments, X, solver or Auto())
    found.low[alone], found.high[alone], found.how[alone] = -np.inf, np.inf, "alone"
    rows.put(estimable(linear, X), found)
    return rows


def _recentred(
    centre: PointEstimate, answers: FloatArray, noise: Noise, output: int
) -> tuple[FloatArray, Noise]:
    """Return answers and noise of an average, where it has a variance, in place of the plug-in's."""
    m = len(answers)
    variance = centre.variance.reshape(m, -1)[:, output]
    usable = np.isfinite(variance) & (variance > 0)
    answers = np.where(usable, centre.answers.reshape(m, -1)[:, output], answers)
    noise = noise.with_variance(np.where(usable, variance, noise.variance))
    if centre.degrees is None:
        return answers, noise
    degrees = np.where(usable, centre.degrees.reshape(m, -1)[:, output], np.inf)
    return answers, replace(noise, degrees=np.minimum(noise.degrees, degrees))


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


def estimable(linear: Linearisation, X: FloatArray) -> BoolArray:
    """Return which questions the equations determine."""
    if linear.truncated == 0 and linear.set_aside == 0:
        return np.ones(len(X), dtype=bool)
    return determined(X, linear.sums[0], linear.inverse)


def _linearise(moments: AnyMoments, solver: Solver | None) -> Linearisation | None:
    # A solver that balances a penalty has no influence values; the question is answered without it.
    plain = solver if solver is not None and solver.is_linear else Auto()
    try:
        return linearise(moments, plain)
    except SingularReplicateError:
        return None
