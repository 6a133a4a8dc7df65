"""Less noise for a bounded bias, where a question cannot be answered from the data alone.

For features that are not one-hot the vector w of `partial_identification` is a choice. With Omega the
covariance of the residuals of one unit and G = sum p phi phi' over points where values are known to be
bounded, the path

    w_mu = argmin  w'Omega w / n + (c - A'w)' G^-1 (c - A'w) / mu

goes from the unbiased answer (mu = 0, all noise) to none at all (w = 0, the whole range). It costs one
singular value decomposition of Omega^-1/2 A G^-1/2 for all questions, and does not depend on the units of
anything. Every w gives a valid interval; the shortest at the nominal level is taken. The bound on
(c - A'w)'theta is a linear programme.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import linalg, optimize

from .._core.arrays import like, take_rows, to_numpy
from .._core.config import memory_budget
from .._core.thresholds import (
    DESIGN_ROUNDS,
    EXACT_BOUNDS,
    EXACT_BOUNDS_WORK,
    FOLDS,
    MOST_BOUNDED,
    NOMINAL_LEVEL,
    OUTER_SHARE,
    REWEIGHTINGS,
    SHARED_WEIGHTS_WORK,
)
from .._core.typing import BoolArray, FloatArray, IntArray
from ..moments import FactoredMoments, HeldMoments
from .degrees import bias_aware_quantile
from .influence import unit_blocks
from .noise import Noise, noise_of
from .partial_identification import ValueRange, sum_of
from .pivot import Pivot

# How far d'theta can go where values are known to lie in a range at some points.
#
# max d'theta subject to low <= phi'theta <= high at every point is a linear programme in q unknowns; its dual
# is  min sum up high - sum down low  over  u = up - down  with points'u = d.  Every such u, the best or not,
# bounds d'theta. `support_interval` finds the best for all questions at once, by the simplex method on q x q
# bases; `cheap_bounds` stops at a good one, for questions by the hundred.

# Cost: pivots of the simplex method for every unknown: it takes two to five, and a programme that goes in
# circles is left to a solver that does not.
_PIVOTS = 15
# Rounding: reduced costs and pivots below this are 0.
_TOLERANCE = 1e-9
# Rounding: both sides of a programme agree at its solution, up to this.
_AGREE = 1e-7
# Rounding: singular values and eigenvalues below this share of the largest are 0.
_FLOOR = 1e-12
# Rounding: what is left of a question outside a span, as a share of it, that counts as nothing.
_SPANNED = 1e-6


def support_interval(
    d: FloatArray, points: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest d'theta over {low <= points theta <= high}, shapes (m,).

    Infinite where the points do not bound a direction of d.

    Examples
    --------
    >>> square = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> support_interval(np.array([[1.0, -2.0]]), square, np.zeros(2), np.ones(2))
    (array([-2.]), array([1.]))
    """
    ends = np.full((2, len(d)), np.inf)
    d, points, spanned = _whitened(d, points)
    if bool((np.abs(low + high) <= _TOLERANCE * np.abs(high).max(initial=0.0)).all()):
        ends[:, spanned] = _largest(d[spanned], points, low, high)  # the range is symmetric: so are the ends
    else:
        both = np.concatenate([-d[spanned], d[spanned]])
        ends[:, spanned] = _largest(both, points, low, high).reshape(2, -1)
    return -ends[0], ends[1]


def _in_one_unit(d: FloatArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bring every feature to a largest value of one: tolerances and floors are absolute."""
    scale = np.maximum(np.abs(points).max(axis=0), np.finfo(float).tiny)
    return d / scale, points / scale


def _whitened(d: FloatArray, points: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return both in coordinates in which the points have orthonormal columns, and which d the points span.

    A programme is the same in any coordinates, but in those of functions that overlap, all its bases are
    nearly singular. Directions at rounding level are none.
    """
    d, points = _in_one_unit(d, points)
    orthonormal, size, axes = np.linalg.svd(points, full_matrices=False)
    kept = size > _FLOOR * size[0]
    known: BoolArray = np.asarray(np.isfinite(d).all(axis=1))
    d = np.where(known[:, None], d, 0.0)
    along = d @ axes[kept].T
    outside = np.abs(d - along @ axes[kept]).max(axis=1)
    return along / size[kept], orthonormal[:, kept], known & (outside <= _SPANNED * np.abs(d).max(axis=1))


def _largest(d: FloatArray, points: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    ends, solved = _simplex(d, points, low, high)
    rows, price = np.concatenate([points.T, -points.T], axis=1), np.concatenate([high, -low])
    for row in np.flatnonzero(~solved):
        # The dual has q equations in place of P inequalities, and needs no feasible start.
        found = optimize.linprog(price, A_eq=rows, b_eq=d[row], bounds=(0, None), method="highs")
        ends[row] = found.fun if found.status == 0 else np.inf
    return ends


def _simplex(
    d: FloatArray, points: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return the largest d'theta of every question and whether it was found, shapes (m,).

    The points have orthonormal columns. A basis is q of them; theta has the values there that the signs of u
    ask for, and is the answer if it keeps to the range at all others. Any basis is feasible, since u may have
    either sign.
    """
    m, q = d.shape
    if d.size == 0:  # no questions, or points that are all zero, and so are questions that they span
        return np.zeros(m), np.ones(m, dtype=bool)
    ends, solved = np.full(m, np.inf), np.zeros(m, dtype=bool)
    order = linalg.qr(points.T, mode="r", pivoting=True)[1]
    bases = np.tile(order[:q], (m, 1))
    # Of the questions that are not yet answered: which they are, d, the basis, its inverse and signs of u.
    rows, left, basis = np.arange(m), d, bases.copy()
    inverse = np.tile(np.linalg.inv(points[order[:q]]), (m, 1, 1))
    sign = np.where(_times(left, inverse) < 0, -1.0, 1.0)
    tolerance = _TOLERANCE * max(np.abs(low).max(), np.abs(high).max())
    for _ in range(_PIVOTS * q):
        values = np.where(sign > 0, high[basis], low[basis])
        theta = (inverse @ values[:, :, None])[:, :, 0]
        at = theta @ points.T
        above, below = at - high, low - at
        beyond = np.maximum(above, below)
        worst = beyond.argmax(axis=1)
        here = np.arange(len(rows))
        found = beyond[here, worst] <= tolerance
        ends[rows[found]], solved[rows[found]] = (left[found] * theta[found]).sum(axis=1), True
        bases[rows[found]] = basis[found]
        enters = np.where(above[here, worst] > below[here, worst], 1.0, -1.0)
        u = _times(left, inverse) * sign  # not negative, up to rounding
        share = _times(points[worst], inverse)
        moved = share * sign * enters[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where(moved > _TOLERANCE, np.maximum(u, 0.0) / moved, np.inf)
        leaves = step.argmin(axis=1)
        going = ~found & np.isfinite(step[here, leaves])
        if not going.all():
            if not going.any():
                break
            rows, left, basis, inverse, sign = (part[going] for part in (rows, left, basis, inverse, sign))
            worst, enters, leaves, share = (part[going] for part in (worst, enters, leaves, share))
        here = np.arange(len(rows))
        pivot = share[here, leaves]
        share[here, leaves] -= 1.0
        column = inverse[here, :, leaves]
        inverse -= column[:, :, None] * (share / pivot[:, None])[:, None, :]
        basis[here, leaves], sign[here, leaves] = worst, enters
    bound = _bound_of(bases[solved], d[solved], points, low, high)
    solved[solved] = np.abs(bound - ends[solved]) <= _AGREE * np.maximum(np.abs(bound), tolerance)
    return ends, solved


def _times(rows: FloatArray, matrices: FloatArray) -> FloatArray:
    """Return every row times its own matrix, shape (m, q)."""
    return np.asarray((rows[:, None, :] @ matrices)[:, 0, :])


def _bound_of(
    basis: IntArray, d: FloatArray, points: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return what the u of a basis bounds d'theta by, without the rounding of the pivots before."""
    try:
        u = np.linalg.solve(points[basis].transpose(0, 2, 1), d[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        return np.full(len(d), np.nan)
    return np.asarray((u * np.where(u > 0, high[basis], low[basis])).sum(axis=1))


def cheap_bounds(
    d: FloatArray, points: FloatArray, low: FloatArray, high: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return bounds of what `support_interval` returns, without a linear programme.

    Parameters
    ----------
    d : ndarray of shape (m, q)
    points : ndarray of shape (P, q)
    low, high : ndarray of shape (P,)
    weights : ndarray of shape (P,)
        Of a design that spreads over the points, for questions that are too many for weights of their own.
    """
    d, points, spanned = _whitened(d, points)
    q = points.shape[1]
    if float(len(d)) * len(points) * q**2 * REWEIGHTINGS <= SHARED_WEIGHTS_WORK:
        u = _reweighted(d, points, REWEIGHTINGS)
    else:
        root = inverse_root((points.T * weights) @ points)
        u = weights * (d @ root.T @ root @ points.T)
    up, down = np.maximum(u, 0.0), np.maximum(-u, 0.0)
    bounds = up @ low - down @ high, up @ high - down @ low
    # What the points do not span they do not bound.
    spanned &= _solves(u, points, d)
    return np.where(spanned, bounds[0], -np.inf), np.where(spanned, bounds[1], np.inf)


def rough_support(d: FloatArray, points: FloatArray) -> FloatArray:
    """Return a small sum |u| with points'u = d, shape (m,): which of several bounds is the smallest.

    Infinite where the points do not span d, or where u misses it.
    """
    d, points, spanned = _whitened(d, points)
    u = _reweighted(d, points, REWEIGHTINGS // 2)
    return np.where(spanned & _solves(u, points, d), np.abs(u).sum(axis=1), np.inf)


def _solves(u: FloatArray, points: FloatArray, d: FloatArray) -> BoolArray:
    missed = np.abs(u @ points - d).max(axis=1, initial=0.0)
    return np.asarray(missed <= _SPANNED * np.abs(d).max(axis=1, initial=0.0))


def _reweighted(d: FloatArray, points: FloatArray, rounds: int) -> FloatArray:
    """Return u with points'u = d and a small sum |u|, (m, P): an upper bound of the linear programme.

    Least squares with weights |u|, again and again; every round is feasible. The first has equal weights, and
    orthonormal points one solution for all questions.
    """
    q = points.shape[1]
    u = d @ points.T
    step = max(1, memory_budget() // (32 * max(q, 1) * (len(points) + q)))
    for rows in (slice(first, first + step) for first in range(0, len(d), step)):
        for _ in range(rounds - 1):
            largest = np.abs(u[rows]).max(axis=1, keepdims=True)
            weights = np.abs(u[rows]) + 1e-6 * np.maximum(largest, np.finfo(float).tiny)
            weights /= weights.max(axis=1, keepdims=True)
            gram = _lifted((points.T * weights[:, None, :]) @ points)  # (rows, q, q)
            u[rows] = weights * (np.linalg.solve(gram, d[rows, :, None])[:, :, 0] @ points.T)
    return u


def _lifted(gram: FloatArray) -> FloatArray:
    """Return matrices (rows, q, q) with a floor under their eigenvalues, at rounding level."""
    q = gram.shape[1]
    scale = np.trace(gram, axis1=1, axis2=2) / q
    return np.asarray(gram + _FLOOR * scale[:, None, None] * np.eye(q))


def inverse_root(gram: FloatArray) -> FloatArray:
    """Return R with R gram R' = I, up to a floor at rounding level; I for a gram matrix of zeros."""
    if not np.diag(gram).any():
        return np.eye(len(gram))
    scale = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(gram / np.outer(scale, scale))
    root = np.sqrt(np.maximum(values, _FLOOR * values[-1]))
    inverse: FloatArray = (vectors / root) @ vectors.T / scale
    return inverse


# Penalties of the path, in units of 1 / (n h^2) with h half the value range: there both parts are equal.
_PATH = 10.0 ** np.arange(-4.0, 3.5, 0.5)
# Factors of a penalty that are looked at near the one that an ellipsoid finds best. Its bound is too large,
# so that the best is rarely more than a few steps of the path away, mostly to larger penalties.
_NEARBY = 10.0 ** np.arange(-1.0, 2.5, 0.5)


def bias_aware_pivot(
    moments: HeldMoments, X: FloatArray, value_range: ValueRange, *, sequential: bool = False
) -> Pivot:
    """Return the record with the shortest nominal interval of every question: less noise for a bounded bias.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        One output.
    X : ndarray of shape (m, q)
    value_range : ValueRange
        With points.
    sequential : bool
        Whether neighbouring units may be correlated.

    Returns
    -------
    Pivot
    """
    assert value_range.points is not None
    points = value_range.points
    half = max(value_range.width / 2, float(np.finfo(float).tiny))
    middle = coefficients_of(points, (value_range.low + value_range.high) / 2)
    # Values are measured from the middle of the range, which is exact where constants are in the span.
    limits = (value_range.low - points @ middle, value_range.high - points @ middle)
    problem = replace(_Problem.of(moments, points, middle, half), sequential=sequential)
    exact = len(X) <= EXACT_BOUNDS and float(len(X)) * points.size * points.shape[1] <= EXACT_BOUNDS_WORK
    penalty = _shortest_by_ellipsoid(problem, X, half)
    if exact:
        penalty = _refined(problem, X, points, half, penalty)
    centre, d, noise = problem.answer(X, penalty)
    if exact:
        lowest, highest = support_interval(d, points, *limits)
    else:
        lowest, highest = cheap_bounds(d, points, *limits, problem.weights)
    bias = (highest - lowest) / 2
    bounded = np.isfinite(bias)  # what nothing bounds has no middle
    offset = np.add(lowest, highest, out=np.zeros_like(lowest), where=bounded) / 2
    found = noise.pivot(centre + X @ middle + offset)
    found = replace(found, bias_bound=np.where(bounded, bias, 0.0), how=np.full(len(X), "bias-aware", "<U12"))
    return found.without_interval(~bounded, "open")


def _shortest_by_ellipsoid(problem: _Problem, X: FloatArray, half: float) -> FloatArray:
    """Return the penalty with the shortest interval for every question.

    Values within h of the middle at all points have theta'G theta <= h^2, so |d'theta| <= h sqrt(d'G^-1 d).
    """
    best, shortest = np.empty(len(X)), np.full(len(X), np.inf)
    for candidates, _, d, noise in problem.along(X, np.tile(_PATH[:, None], len(X))):
        bias = half * np.sqrt(np.square(d @ problem.value_root.T).sum(axis=1))
        _keep_shortest(best, shortest, candidates, _reach(bias, noise))
    return best


def _refined(
    problem: _Problem, X: FloatArray, points: FloatArray, half: float, penalty: FloatArray
) -> FloatArray:
    """Return the best penalty near the ellipsoid's, whose bound is too wide by up to sqrt(q)."""
    near, shortest = penalty.copy(), np.full(len(X), np.inf)
    nearby = np.clip(penalty * _NEARBY[:, None], _PATH[0], _PATH[-1])
    for candidates, _, d, noise in problem.along(X, nearby):
        bias = half * rough_support(d, points)
        _keep_shortest(near, shortest, candidates, _reach(bias, noise))
    return near


def _keep_shortest(best: FloatArray, shortest: FloatArray, candidates: FloatArray, reach: FloatArray) -> None:
    """Put the candidate (K, m) with the shortest reach where it is shorter than what was found before."""
    reach = reach.reshape(candidates.shape)
    first = reach.argmin(axis=0)[None]
    least = np.take_along_axis(reach, first, axis=0)[0]
    shorter = least < shortest
    best[shorter] = np.take_along_axis(candidates, first, axis=0)[0][shorter]
    shortest[shorter] = least[shorter]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fold:
    """The equations of a fold in the basis that the other folds make its w from.

    With U s V' = Omega^-1/2 A G^-1/2 of the others, w = Omega^-1/2 U z, z = s / (s^2 + penalty) V'G^-1/2 c.
    """

    s: FloatArray
    questions: FloatArray  # (q, q): from c to V'G^-1/2 c
    A: FloatArray  # (q, q): from z to A'w, A the fold's part of the mean over all units
    b: FloatArray  # (q,): w'b = b'z
    shifts: Any  # (units of the fold, q): what each unit moves the answer by, from z; where the moments are


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Problem:
    """The moment equation in the metrics of its noise (rows) and of its values (columns), in folds.

    A fold's w comes from the other folds, so that its noise has mean zero whatever w is: in one's own data
    the weakest directions look better determined than they are.
    """

    folds: list[_Fold]
    n: int
    value_root: FloatArray  # G^-1/2
    weights: FloatArray  # (P,): p of the points in G
    unit: float  # 1 / (n h^2)
    sequential: bool = False

    @classmethod
    def of(cls, moments: HeldMoments, points: FloatArray, middle: FloatArray, half: float) -> _Problem:
        n = moments.n_observations
        unit, weights_of_points = 1.0 / (n * half**2), _design(points)
        value_root = inverse_root((points.T * weights_of_points) @ points)
        labels = np.arange(n) * min(n, FOLDS) // n
        sums = [sum_of(moments, labels == fold) for fold in range(labels[-1] + 1)]
        parts = [(A / n, (b - A @ middle) / n) for A, b in sums]
        theta = np.zeros(moments.n_basis)
        for _ in range(2):  # the noise depends on theta, and theta a little on the noise
            residuals = _all_residuals(moments, middle + theta)
            A, b = np.sum([part[0] for part in parts], axis=0), np.sum([part[1] for part in parts], axis=0)
            root = inverse_root(_covariance(residuals))
            U, s, Vt = np.linalg.svd(root @ A @ value_root.T)
            theta = value_root.T @ (Vt.T @ (s / (s**2 + unit) * (U.T @ (root @ b))))
        folds = []
        for number, (own_A, own_b) in enumerate(parts):
            others, members = np.flatnonzero(labels != number), np.flatnonzero(labels == number)
            root = inverse_root(_covariance(take_rows(residuals, others)))
            U, s, Vt = np.linalg.svd(root @ (A - own_A) @ value_root.T * (n / len(others)))
            weights = root.T @ U  # from z to w
            fold = _Fold(
                s=s,
                questions=Vt @ value_root,
                A=own_A.T @ weights,
                b=weights.T @ own_b,
                shifts=take_rows(residuals, members) @ like(weights / (n - 1), residuals),
            )
            folds.append(fold)
        return cls(folds=folds, n=n, value_root=value_root, weights=weights_of_points, unit=unit)

    def answer(self, X: FloatArray, penalty: FloatArray) -> tuple[FloatArray, FloatArray, Noise]:
        """Return sum w'b, d = c - sum A'w and the noise of every question with its own penalty."""
        centre, d, shifts = np.zeros(len(X)), X.copy(), []
        for fold in self.folds:
            z = fold.s[:, None] / (fold.s[:, None] ** 2 + penalty * self.unit) * (fold.questions @ X.T)
            centre, d = centre + fold.b @ z, d - (fold.A @ z).T
            shifts.append(fold.shifts @ like(z, fold.shifts))  # folds follow each other, as their units do
        joined = array_namespace(shifts[0]).concat(shifts)
        # The centre may be off to either side: intervals are symmetric.
        return centre, d, noise_of(joined, sequential=self.sequential).symmetric()

    def along(
        self, X: FloatArray, penalties: FloatArray
    ) -> Iterator[tuple[FloatArray, FloatArray, FloatArray, Noise]]:
        """Yield blocks of the penalties (K, m), with what `answer` says of the questions at each."""
        step = max(1, memory_budget() // (64 * self.n * max(1, len(X))))
        for first in range(0, len(penalties), step):
            block = penalties[first : first + step]
            yield block, *self.answer(np.tile(X, (len(block), 1)), block.ravel())


def _design(points: FloatArray) -> FloatArray:
    """Return weights p of G = sum p_j phi_j phi_j' that spread over the points: nearly a D-optimal design.

    Then phi'G^-1 phi is at most about q at every point, so that the ellipsoid of G and the range of values at
    the points are within a factor sqrt(q) of each other, however the points are crowded.
    """
    weights = np.full(len(points), 1.0 / len(points))
    for _ in range(DESIGN_ROUNDS):
        root = inverse_root((points.T * weights) @ points)
        leverage = np.square(points @ root.T).sum(axis=1)
        weights *= leverage
        weights /= weights.sum()
    return weights


def _all_residuals(moments: HeldMoments, theta: FloatArray) -> Any:
    """Return f_i - g_i theta of all units, (n, q), where the moments are."""
    if isinstance(moments, FactoredMoments):
        return moments.residuals(theta)
    parts = [part.residuals(theta) for _, part in unit_blocks(moments)]  # which follow each other
    return array_namespace(parts[0]).concat(parts)


def _covariance(residuals: Any) -> FloatArray:
    """Return the sample covariance (q, q) of residuals (n, q), on the host."""
    centred = residuals - residuals.mean(axis=0)
    return to_numpy(centred.T @ centred) / (len(residuals) - 1)


def coefficients_of(points: FloatArray, value: float) -> FloatArray:
    """Return the coefficients whose values at the points are nearest to one number, shape (q,).

    Features that sum to one at every point (splines, one-hot) do so elsewhere, too.
    """
    if np.allclose(points.sum(axis=1), 1.0, rtol=0.0, atol=1e-9):
        return np.full(points.shape[1], value)
    scale = np.maximum(np.abs(points).max(axis=0), np.finfo(float).tiny)
    return np.asarray(np.linalg.lstsq(points / scale, np.full(len(points), value))[0] / scale)


def thinned(points: FloatArray) -> FloatArray:
    """Return at most `MOST_BOUNDED` of the points, evenly spread over their order."""
    return points[:: max(1, -(-len(points) // MOST_BOUNDED))]


def inner(points: FloatArray) -> FloatArray:
    """Return the points without those that lie farthest out, the `OUTER_SHARE` of largest leverage.

    Values keep to their range, but a basis is fitted where the data are, and what it tends to may leave the
    range at the few states beyond (a parabola through a bounded value does).
    """
    root = inverse_root(points.T @ points)
    leverage = np.square(points @ root.T).sum(axis=1)
    kept = points[leverage <= np.quantile(leverage, 1.0 - OUTER_SHARE)]
    # A rare state that alone has some direction stays.
    return kept if np.linalg.matrix_rank(kept @ root.T) == np.linalg.matrix_rank(points @ root.T) else points


def _reach(bias: FloatArray, noise: Noise) -> FloatArray:
    """Return the half width of nominal intervals whose centre is off by at most `bias`."""
    error = np.sqrt(noise.variance)
    safe = np.where(error > 0, error, 1.0)
    quantile = bias_aware_quantile(bias / safe, noise.degrees, 1 - NOMINAL_LEVEL)
    return np.where(error > 0, quantile * error, bias)
