"""How far d'theta can go where values are known to lie in a range at some points.

max d'theta subject to low <= phi'theta <= high at every point is a linear programme in q unknowns; its dual
is  min sum up high - sum down low  over  u = up - down  with points'u = d.  Every such u, the best or not,
bounds d'theta. `support_interval` finds the best for all questions at once, by the simplex method on q x q
bases; `cheap_bounds` stops at a good one, for questions by the hundred.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, optimize

from .._core.config import memory_budget
from .._core.typing import BoolArray, FloatArray, IntArray

# Pivots of the simplex method for every unknown: it takes two to five, and a programme that goes in circles
# is left to a solver that does not.
_PIVOTS = 15
_TOLERANCE = 1e-9
# Both sides of a programme agree at its solution, up to this.
_AGREE = 1e-7
# Beyond so many multiplications the cheap bounds have the same weights for all questions.
_SUPPORT_WORK = 2e10
# Rounds of the cheap bounds: half of them tell which of several bounds is the smallest.
_REWEIGHTINGS = 6
_ROUGHLY = 3
_FLOOR = 1e-12
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
    if float(len(d)) * len(points) * q**2 * _REWEIGHTINGS <= _SUPPORT_WORK:
        u = _reweighted(d, points, _REWEIGHTINGS)
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
    u = _reweighted(d, points, _ROUGHLY)
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
