"""The record of every question to a ratio of moments, decided row by row.

For any w the answer splits into  c'theta = w'b - w'(b - A theta) + (c - A'w)'theta:  what is computed, noise
(seen by leaving units out), and d'theta with d = c - A'w, about which the data say nothing. Where values lie
in a known range, so does d'theta: half of that interval bounds the bias. A one-hot state (or state-action
pair) that fewer than two units visited has no equation whose noise can be seen: w solves the equations of the
others, and d is the policy's discounted mass on such states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from .._core.arrays import to_numpy
from .._core.errors import SingularReplicateError, must_be
from .._core.thresholds import SMALL
from .._core.typing import BoolArray, FloatArray
from .._core.validation import check_range
from ..engine.linear import Linearisation, linearise
from ..engine.sparse import SparseReplicates
from ..moments import FactoredMoments, Moments, StreamedMoments
from ..moments.factored import HeldMoments
from ..moments.streamed import AnyMoments
from ..solvers import Auto, Solver
from ..solvers.auto import DEFAULT_SOLVER
from .noise import Noise, constant_matrix, functional_moments, noise_of, sum_of, visit_counts, visits
from .pivot import ESTIMATORS_TARGET, Pivot

# Rounding: undetermined mass below this is rounding.
NEGLIGIBLE = 1e-9
# Rounding: what is left of a question outside the equations, relative to the question: above this it is
# undetermined.
_ESTIMABLE = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueRange:
    """Between which numbers values lie, and at which points.

    Attributes
    ----------
    low, high : float
        Bounds of the values.
    points : ndarray of shape (P, q) or None
        Features of the points where they hold; None where every coefficient is itself a value (one-hot).
    source : str
        Where the bounds come from: "given", or "rewards" for [r_min, r_max] / (1 - discount).
    """

    low: float
    high: float
    points: FloatArray | None = None
    source: str = "given"

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            got = f"({self.low:g}, {self.high:g})"
            raise ValueError(must_be("value_range", "(low, high) with low <= high", got))

    @property
    def width(self) -> float:
        """High - low."""
        return self.high - self.low

    def extremes(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest sum of values with these weights (m, q), shape (m,) each."""
        up, down = np.maximum(weights, 0.0).sum(axis=1), np.maximum(-weights, 0.0).sum(axis=1)
        return up * self.low - down * self.high, up * self.high - down * self.low

    @cached_property
    def decomposed(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A scale (q,), orthonormal U (P, r) and R (q, r), of full rank: ``points / scale @ R`` is U."""
        assert self.points is not None
        scale = np.maximum(np.abs(self.points).max(axis=0), np.finfo(float).tiny)
        left, sizes, right = np.linalg.svd(self.points / scale, full_matrices=False)
        known = sizes > 1e-15 * sizes[0]  # as a pseudo-inverse of NumPy
        return scale, left[:, known], right[known].T / sizes[known]

    def __str__(self) -> str:
        how = "given" if self.source == "given" else "rewards seen, over 1 - discount"
        return f"[{self.low:.4g}, {self.high:.4g}] ({how})"


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
        """Return the same with the bounds that a user gave."""
        if value_range is None:
            return self
        low, high = check_range(value_range, "value_range")
        if self.value_range is None:
            hint = "Bounds of values need features whose values they bound: use LSTD, LSTDQ or PhiBE."
            raise ValueError(must_be("value_range", "None here", repr(value_range), hint))
        return replace(self, value_range=replace(self.value_range, low=low, high=high, source="given"))


def functional_pivot(
    moments: AnyMoments,
    X: FloatArray,
    *,
    solver: Solver | None = None,
    centre: Pivot | None = None,
    setting: InferenceContext | None = None,
) -> Pivot:
    """Return the record of every row of X theta.

    1. Noise: what leaving each unit out moves the answer by (`functional_moments`).
    2. Of an average, its own value and variance take the place of the plug-in's.
    3. Skewness is taken out for one unknown and where all units have one matrix, as in a mean; elsewhere it
       costs degrees of freedom.
    4. One-hot states that fewer than two units visited have any value in the range: a bias bound.
    5. The range of values becomes the limits, at logged states; at others only if the user gave it.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
    X : ndarray of shape (m, q)
        Questions: features of a state, a mean of them, or any linear functional.
    solver : Solver, optional
    centre : Pivot, optional
        What members say about their average (`ensemble_pivot`); default the plug-in. Rows without a usable
        variance fall back to it.
    setting : InferenceContext, optional

    Returns
    -------
    Pivot
        Arrays of shape (m,) or (m, n_outputs).

    Examples
    --------
    >>> from replaystats.moments import ridge_moments
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> moments = ridge_moments(X, X @ [1.0, -1.0] + rng.normal(size=200))
    >>> from replaystats.inference.pivot import interval
    >>> interval(functional_pivot(moments, np.eye(2))).low.round(2)
    array([ 0.81, -1.02])
    """
    setting = setting or InferenceContext()
    outputs = range(moments.n_outputs or 1)
    records = [_of_output(moments, X, solver, centre, setting, output) for output in outputs]
    found = records[0] if moments.n_outputs is None else Pivot.stack(records)
    limits = setting.value_range
    return replace(found, value_range="" if limits is None else str(limits), covers=setting.covers)


def _of_output(
    moments: AnyMoments,
    X: FloatArray,
    solver: Solver | None,
    centre: Pivot | None,
    setting: InferenceContext,
    output: int,
) -> Pivot:
    limits, usual = setting.value_range, partial(_usual, sequential=setting.sequential)
    if limits is None or moments.n_outputs is not None or isinstance(moments, StreamedMoments):
        found, logged = usual(moments, X, solver, centre, output), np.ones(len(X), dtype=bool)
    elif limits.points is not None:
        found = usual(moments, X, solver, centre)
        logged = _is_logged(X, limits, found.how == "open")
    else:
        counts = visit_counts(moments)
        logged = np.asarray(~X[:, counts == 0].any(axis=1)) | (limits.source == "given")
        if (counts < 2).any():
            found = _with_unseen(moments, X, limits, counts < 2, usual).without_interval(~logged, "open")
        else:
            found = usual(moments, X, solver, centre)
    return found if limits is None else _limited(found, X, limits, logged)


def _with_unseen(
    moments: HeldMoments, X: FloatArray, limits: ValueRange, unseen: BoolArray, usual: Callable[..., Pivot]
) -> Pivot:
    """Return the record of one-hot answers, where the values of `unseen` may be anything in their range."""
    seen, middle = ~unseen, (limits.low + limits.high) / 2
    if not seen.any():
        nothing = np.zeros(len(X))
        return Pivot(estimate=nothing + middle, standard_error=nothing, degrees=nothing)
    rest = with_values(moments, seen, np.full(np.count_nonzero(unseen), middle))
    found = usual(rest, X[:, seen])
    A = moments.total()[0]
    dual = np.linalg.lstsq(A[np.ix_(seen, seen)].T, X[:, seen].T)[0].T
    missing = X[:, unseen] - dual @ A[np.ix_(seen, unseen)]
    missing[np.abs(missing) < NEGLIGIBLE] = 0.0
    bias = limits.width / 2 * np.abs(missing).sum(axis=1)
    estimate = found.estimate + middle * X[:, unseen].sum(axis=1)
    how = np.where((bias > 0) & (found.degrees > 0), "unseen", found.how).astype("<U12")
    return replace(found, estimate=estimate, bias_bound=bias, how=how)


def _usual(
    moments: AnyMoments,
    X: FloatArray,
    solver: Solver | None = None,
    centre: Pivot | None = None,
    output: int = 0,
    *,
    sequential: bool,
) -> Pivot:
    """Return the record from noise alone; rows that the equations do not determine have no interval."""
    linear = _linearise(moments, solver)
    if linear is None or moments.n_observations < 2:
        nothing, how = np.full(len(X), np.nan), np.array("open", dtype="<U12")
        return Pivot(estimate=nothing, standard_error=nothing, degrees=np.zeros(()), how=how)
    theta = linear.theta.reshape(moments.n_basis, -1)[:, output]
    answers, noise = X @ theta, functional_moments(moments, linear, X, output, sequential=sequential)
    if centre is not None:
        answers, noise = _recentred(centre, answers, noise, output)
    noise = noise.without_surplus()
    if not (moments.n_basis == 1 or constant_matrix(moments)):
        noise = noise.symmetric()
    # A symmetric matrix is a Gram matrix: given it, the answer is as good as it is, however it came about.
    weight = 0.0 * answers if moments.symmetric and moments.n_basis > 1 else _weight_of_inversion(noise)
    found = replace(
        noise.pivot(answers, np.abs(X) @ np.abs(theta)),
        covariance=weight * noise.covariance,
        matrix_variance=weight * noise.matrix_variance,
        how=np.where(weight > 0.5, "inverted", "noise").astype("<U12"),
    )
    found = found.without_interval(one_unit_determines(moments, X, solver or Auto()), "alone")
    if linear.truncated == 0 and linear.set_aside == 0:
        return found
    return found.without_interval(~determined(X, linear.sums[0], linear.inverse), "open")


def _recentred(centre: Pivot, answers: FloatArray, noise: Noise, output: int) -> tuple[FloatArray, Noise]:
    """Return answers and noise of an average, where it has a variance, in place of the plug-in's."""
    m = len(answers)
    variance = np.square(centre.standard_error.reshape(m, -1)[:, output])
    usable = np.isfinite(variance) & (variance > 0)
    answers = np.where(usable, centre.estimate.reshape(m, -1)[:, output], answers)
    noise = noise.with_variance(np.where(usable, variance, noise.variance))
    degrees = np.where(usable, centre.degrees.reshape(m, -1)[:, output], np.inf)
    return answers, replace(noise, degrees=np.minimum(noise.degrees, degrees))


def _weight_of_inversion(noise: Noise) -> FloatArray:
    """Return how much the inverted test counts: the squared correlation of answers with their denominators.

    Without it the usual interval covers however weak the denominator is. It is 0 where nothing can vanish.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        common = noise.covariance**2 / (noise.variance * noise.matrix_variance)
    return np.where(np.isfinite(common) & ~np.asarray(noise.one_sign), np.minimum(common, 1.0), 0.0)


def _linearise(moments: AnyMoments, solver: Solver | None) -> Linearisation | None:
    # A solver that balances a penalty has no influence values; the question is answered without it.
    plain = solver if solver is not None and solver.is_linear else Auto()
    try:
        return linearise(moments, plain)
    except SingularReplicateError:
        return None


def _is_logged(X: FloatArray, limits: ValueRange, undetermined: BoolArray) -> BoolArray:
    """Return of which questions the range holds: all if the user gave it, else those within the log.

    These are determined by the equations, and have no larger leverage than the logged states.
    """
    if limits.source == "given":
        return np.ones(len(X), dtype=bool)
    scale, left, root = limits.decomposed
    largest, own = (np.square(rows).sum(axis=1) for rows in (left, X / scale @ root))  # leverages
    return np.asarray(~undetermined & (own <= largest.max() * (1 + NEGLIGIBLE)))


def _limited(found: Pivot, X: FloatArray, limits: ValueRange, logged: BoolArray) -> Pivot:
    """Return the record with the least and the largest answer that the range of values allows.

    One-hot questions are sums of values. Others are values, or means of them, if they are one where all
    values are one; nothing is said about the rest, nor, from rewards that were seen, about other states.
    """
    if limits.source != "given" and limits.width == 0:  # one reward only was ever seen
        return found
    if limits.points is None:
        low, high = limits.extremes(X)
    else:
        is_value = np.abs(X @ _ones(limits) - 1.0) < SMALL
        low, high = np.where(is_value, limits.low, -np.inf), np.where(is_value, limits.high, np.inf)
    return replace(found, low=np.where(logged, low, -np.inf), high=np.where(logged, high, np.inf))


def _ones(limits: ValueRange) -> FloatArray:
    """Return the coefficients whose values are nearest to one at every point, shape (q,).

    Features that sum to one at every point (splines, one-hot) do so elsewhere, too.
    """
    points = limits.points
    assert points is not None
    if np.allclose(points.sum(axis=1), 1.0, rtol=0.0, atol=1e-9):
        return np.ones(points.shape[1])
    scale, left, root = limits.decomposed
    return np.asarray(root @ left.sum(axis=0) / scale)


def with_values(moments: HeldMoments, visited: BoolArray, values: FloatArray) -> HeldMoments:
    """Return the equations of the visited features, with the values of the others put in."""
    if isinstance(moments, FactoredMoments):
        left, right = to_numpy(moments.left), to_numpy(moments.right)
        response = to_numpy(moments.response) - right[:, ~visited] @ values
        return FactoredMoments(left[:, visited], right[:, visited], response, moments.offsets)
    g, f = to_numpy(moments.g), to_numpy(moments.f)
    reduced = g[:, visited][:, :, visited]
    return Moments(reduced, f[:, visited] - g[:, visited][:, :, ~visited] @ values, symmetric=False)


def determined(X: FloatArray, A: FloatArray, inverse: FloatArray) -> BoolArray:
    """Return which questions c (rows of X) equations A determine: c = A'w for w = R'c, R their inverse."""
    left = X - X @ inverse @ A
    return np.asarray(np.abs(left).max(axis=1) <= _ESTIMABLE * np.abs(X).max(axis=1))


def one_unit_determines(moments: AnyMoments, X: FloatArray, solver: Solver = DEFAULT_SOLVER) -> BoolArray:
    """Return which answers X theta one unit alone determines: without it the equations leave them open.

    The coefficient of an indicator that is on in one row only, for example. That row is fitted exactly, so
    that it leaves no residual to tell an error from: influence values and residuals show no noise. A penalty
    leaves nothing open, and streams are not looked through for it.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    >>> one_unit_determines(Moments(x[:, :, None] * x[:, None, :], x), np.array([[1.0, 0.0], [1.0, 1.0]]))
    array([False,  True])
    """
    found = np.zeros(len(X), dtype=np.bool_)
    if isinstance(moments, StreamedMoments) or not solver.plain:
        return found
    lone = visit_counts(moments) == 1
    if not lone.any():
        return found
    seen, A, unit = visits(moments), moments.total()[0], np.eye(moments.n_basis)[None]
    for i in np.flatnonzero(seen[:, lone].any(axis=1)):
        rest, gone = A - sum_of(moments, np.arange(len(seen)) == i)[0], lone & seen[i]
        rest[gone] = 0.0  # exactly, not up to rounding
        if moments.symmetric:
            rest[:, gone] = 0.0
        inverse = DEFAULT_SOLVER.solve(rest[None], unit, symmetric=moments.symmetric).theta[0]
        found |= ~determined(X, rest, inverse)
    return found


# Sparse systems: noise from influence values of units with leave-one-out residuals of every feature. Nothing
# of size q x q is ever formed.


def sparse_shifts(members: SparseReplicates, X: FloatArray) -> FloatArray:
    """Return what leaving each unit out takes from every answer X theta, shape (n, m)."""
    return _shifts(members, members.system.duals(X))


def _shifts(members: SparseReplicates, dual: FloatArray) -> FloatArray:
    moments, system, n = members.moments, members.system, len(members.moments)
    # A unit that alone visited a feature fits it: leave-one-out residuals, feature by feature.
    total = moments.visits.sum(axis=0)
    rest = np.maximum(total - moments.visits, 1.0)
    residuals = moments.residuals(system.theta) * (np.where(total > 0, total, 1.0) / rest)
    return np.asarray(residuals[:, system.seen] @ dual) * (n / (n - 1))


def sparse_functional_pivot(
    members: SparseReplicates,
    X: FloatArray,
    centre: FloatArray,
    *,
    monte_carlo: FloatArray | float = 0.0,
    setting: InferenceContext,
) -> Pivot:
    """Return the record of every row of X theta.

    Parameters
    ----------
    members : SparseReplicates
    X : ndarray of shape (m, q)
        Questions.
    centre : ndarray of shape (m,)
        The estimate's answers.
    monte_carlo : ndarray of shape (m,) or float
        Their variance because members are finitely many.
    setting : InferenceContext
        What is known besides the moments.

    Returns
    -------
    Pivot
        Without an interval where a question reaches what was never seen and nothing bounds it.
    """
    system, limits = members.system, setting.value_range
    dual = system.duals(X)
    noise = noise_of(_shifts(members, dual), sequential=setting.sequential).symmetric()
    noise = noise.with_variance(noise.variance + monte_carlo)
    found = replace(noise.pivot(centre, np.abs(X) @ np.abs(system.theta)), covers=setting.covers)
    missing = X[:, system.unseen] - (system.to_unseen.T @ dual).T
    missing[np.abs(missing) < NEGLIGIBLE] = 0.0
    undetermined = system.undetermined(X, dual)
    open_ended = missing.any(axis=1) | undetermined
    if limits is None or (limits.source != "given" and limits.width == 0):
        return found.without_interval(open_ended, "open")
    known = limits.source == "given" or ~X[:, system.unseen].any(axis=1)
    low, high = (limits.low, limits.high) if limits.points is not None else limits.extremes(X)
    low, high = np.where(known, low, -np.inf), np.where(known, high, np.inf)
    found = replace(found, low=low, high=high, value_range=str(limits))
    if limits.points is not None or undetermined.any():  # coefficients are no values: cut at the range
        return found.without_interval(open_ended, "open")
    low, high = limits.extremes(missing)
    how = np.where(open_ended, "unseen", "noise").astype("<U12")
    found = replace(found, estimate=centre + (low + high) / 2, bias_bound=(high - low) / 2, how=how)
    return found.without_interval(~np.asarray(known) & open_ended, "open")
