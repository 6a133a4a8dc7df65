"""Less noise for a bounded bias, where a question cannot be answered from the data alone.

For features that are not one-hot the vector w of `partial_identification` is a choice. With Omega the
covariance of the residuals of one unit and G = sum p phi phi' over points where values are known to be
bounded, the path

    w_mu = argmin  w'Omega w / n + (c - A'w)' G^-1 (c - A'w) / mu

goes from the unbiased answer (mu = 0, all noise) to none at all (w = 0, the whole range). It costs one
singular value decomposition of Omega^-1/2 A G^-1/2 for all questions, and does not depend on the units of
anything. Every w gives a valid interval; the shortest at the nominal level is taken.

What is left, d'theta with d = c - A'w, is bounded by the values at the points: every u with sum u_j phi_j = d
bounds it by sum |u_j| times half the range. The best u is a linear programme; least squares with weights |u|,
again and again, comes within one or two per cent of it for all questions at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like, take_rows, to_numpy
from .._core.config import memory_budget
from .._core.thresholds import (
    CHECK_LEVEL,
    DESIGN_ROUNDS,
    FOLDS,
    MOST_BOUNDED,
    MOST_WORK,
    REWEIGHTINGS,
    SMALL_SHARE,
)
from .._core.typing import BoolArray, FloatArray
from ..moments import FactoredMoments, HeldMoments
from .degrees import bias_aware_quantile
from .influence import unit_blocks
from .noise import Noise, noise_of
from .partial_identification import ValueRange, sum_of
from .pivot import Pivot

# Rounding: singular values and eigenvalues below this share of the largest are 0.
_FLOOR = 1e-12
# Rounding: what is left of a question outside a span, as a share of it, that counts as nothing.
_SPANNED = 1e-6


def support_interval(
    d: FloatArray, points: FloatArray, low: FloatArray, high: FloatArray, weights: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return bounds of d'theta over {low <= points theta <= high}, shapes (m,).

    Infinite where the points do not span d.

    Parameters
    ----------
    d : ndarray of shape (m, q)
    points : ndarray of shape (P, q)
    low, high : ndarray of shape (P,)
    weights : ndarray of shape (P,), optional
        Of a design that spreads over the points, for questions that are too many for weights of their own.

    Examples
    --------
    >>> square = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> support_interval(np.array([[1.0, -2.0]]), square, np.zeros(2), np.ones(2))
    (array([-2.]), array([1.]))
    """
    d, points, spanned = _whitened(d, points)
    if weights is None or _few(d, points):
        u = _reweighted(d, points)
    else:
        root = inverse_root((points.T * weights) @ points)
        u = weights * (d @ root.T @ root @ points.T)
    missed = np.abs(u @ points - d).max(axis=1, initial=0.0)
    spanned &= missed <= _SPANNED * np.abs(d).max(axis=1, initial=0.0)
    up, down = np.maximum(u, 0.0), np.maximum(-u, 0.0)
    least, largest = up @ low - down @ high, up @ high - down @ low
    return np.where(spanned, least, -np.inf), np.where(spanned, largest, np.inf)


def _few(d: FloatArray, points: FloatArray) -> bool:
    """Whether every question may have weights of its own."""
    return bool(float(len(d)) * points.size * points.shape[1] * REWEIGHTINGS <= MOST_WORK)


def _whitened(d: FloatArray, points: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return both in coordinates in which the points have orthonormal columns, and which d the points span.

    Features that overlap have nearly singular products in their own coordinates. Directions at rounding level
    are none.
    """
    scale = np.maximum(np.abs(points).max(axis=0), np.finfo(float).tiny)
    d, points = d / scale, points / scale
    orthonormal, size, axes = np.linalg.svd(points, full_matrices=False)
    kept = size > _FLOOR * size[0]
    known: BoolArray = np.asarray(np.isfinite(d).all(axis=1))
    d = np.where(known[:, None], d, 0.0)
    along = d @ axes[kept].T
    outside = np.abs(d - along @ axes[kept]).max(axis=1)
    return along / size[kept], orthonormal[:, kept], known & (outside <= _SPANNED * np.abs(d).max(axis=1))


def _reweighted(d: FloatArray, points: FloatArray) -> FloatArray:
    """Return u with points'u = d and a small sum |u|, (m, P): least squares with weights |u|, repeated.

    Every round is feasible. The first has equal weights, and orthonormal points one solution for all.
    """
    q = points.shape[1]
    u = d @ points.T
    step = max(1, memory_budget() // (32 * max(q, 1) * (len(points) + q)))
    for rows in (slice(first, first + step) for first in range(0, len(d), step)):
        for _ in range(REWEIGHTINGS - 1):
            largest = np.abs(u[rows]).max(axis=1, keepdims=True)
            weights = np.abs(u[rows]) + 1e-6 * np.maximum(largest, np.finfo(float).tiny)
            weights /= weights.max(axis=1, keepdims=True)
            gram = (points.T * weights[:, None, :]) @ points  # (rows, q, q)
            scale = np.trace(gram, axis1=1, axis2=2) / max(q, 1)
            gram = gram + _FLOOR * scale[:, None, None] * np.eye(q)
            u[rows] = weights * (np.linalg.solve(gram, d[rows, :, None])[:, :, 0] @ points.T)
    return u


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

    1. Penalties: the best of a path where biases are bounded by an ellipsoid. Values within h of the middle
       at all points have theta'G theta <= h^2, so that |d'theta| <= h sqrt(d'G^-1 d).
    2. The best near it by `support_interval`, unless questions are too many for that.
    3. Centre, bias bound and noise with that penalty.

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

    def of_ellipsoid(d: FloatArray) -> FloatArray:
        return np.asarray(half * np.sqrt(np.square(d @ problem.value_root.T).sum(axis=1)))

    def of_points(d: FloatArray) -> FloatArray:
        low, high = support_interval(d, points, *limits)
        return np.where(np.isfinite(high), high - low, np.inf) / 2

    penalty = problem.shortest(X, np.tile(_PATH[:, None], len(X)), of_ellipsoid)
    if _few(X, points):
        nearby = np.clip(penalty * _NEARBY[:, None], _PATH[0], _PATH[-1])
        penalty = problem.shortest(X, nearby, of_points)
    centre, d, noise = problem.answer(X, penalty)
    lowest, highest = support_interval(d, points, *limits, problem.weights)
    bias = (highest - lowest) / 2
    bounded = np.isfinite(bias)  # what nothing bounds has no middle
    offset = np.add(lowest, highest, out=np.zeros_like(lowest), where=bounded) / 2
    found = noise.pivot(centre + X @ middle + offset)
    found = replace(found, bias_bound=np.where(bounded, bias, 0.0), how=np.full(len(X), "bias-aware", "<U12"))
    return found.without_interval(~bounded, "open")


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

    def shortest(
        self, X: FloatArray, penalties: FloatArray, bias_of: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """Return, of the penalties (K, m), the one with the shortest interval for every question."""
        reach, step = [], max(1, memory_budget() // (64 * self.n * max(1, len(X))))
        for first in range(0, len(penalties), step):
            block = penalties[first : first + step]
            _, d, noise = self.answer(np.tile(X, (len(block), 1)), block.ravel())
            reach.append(_reach(bias_of(d), noise).reshape(block.shape))
        best = np.concatenate(reach).argmin(axis=0)
        return np.asarray(np.take_along_axis(penalties, best[None], axis=0)[0])


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
    """Return the points without those that lie farthest out, the `SMALL_SHARE` of largest leverage.

    Values keep to their range, but a basis is fitted where the data are, and what it tends to may leave the
    range at the few states beyond (a parabola through a bounded value does).
    """
    root = inverse_root(points.T @ points)
    leverage = np.square(points @ root.T).sum(axis=1)
    kept = points[leverage <= np.quantile(leverage, 1.0 - SMALL_SHARE)]
    # A rare state that alone has some direction stays.
    return kept if np.linalg.matrix_rank(kept @ root.T) == np.linalg.matrix_rank(points @ root.T) else points


def _reach(bias: FloatArray, noise: Noise) -> FloatArray:
    """Return the half width of nominal intervals whose centre is off by at most `bias`."""
    error = np.sqrt(noise.variance)
    safe = np.where(error > 0, error, 1.0)
    quantile = bias_aware_quantile(bias / safe, noise.degrees, CHECK_LEVEL)
    return np.where(error > 0, quantile * error, bias)
