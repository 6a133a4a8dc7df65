"""What units do to the answer of each question, alone and in pairs.

A question is a row c of X, and its answer c'theta. Leaving unit i out moves it by J_i = c'(theta -
theta_(-i)), and m_i = w'g_i v, with w'A = c', is the share of the question's matrix that the unit carries.

An answer is a sum of what single units do to it, of what pairs do beyond that, and so on; its variance is
the sum of theirs. Leaving one unit out moves an answer by the unit's own part and by all its pairs, and every
pair belongs to two units: the jackknife has the variance of single units once and that of pairs twice (Efron
and Stein 1981). For least squares with q coefficients and n rows, pairs are about q / n of the variance.

With a_j the influence of unit j on theta and d_i = g_i - mean g, a pair adds -w'(d_i a_j + d_j a_i) to
c'theta. Where residuals have mean zero given g, as in regression, the two terms are uncorrelated, and

    sum over pairs = sum over i != j of (w'd_i a_j)^2 = w' E w,

one matrix for all questions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like, to_numpy
from .._core.thresholds import MANY_UNITS
from .._core.typing import FloatArray, IntArray
from ..engine.linear import Linearisation
from ..moments import AnyMoments, FactoredMoments, HeldMoments
from ..moments.factored import sum_units
from .components import gram
from .influence import influence_of, jackknife_shifts, unit_blocks
from .noise import Noise, PowerSums


def functional_moments(
    moments: AnyMoments, linear: Linearisation, X: FloatArray, output: int = 0, *, sequential: bool = False
) -> Noise:
    """Return the noise of the plug-in's answers X theta, without refits.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
    linear : Linearisation
        Of all data.
    X : ndarray of shape (m, q)
    output : int
        Which of several outputs.
    sequential : bool
        Whether neighbouring units may be correlated; then n m numbers are held.

    Notes
    -----
    The delete-one jackknife where the solver kept every direction and no unit carries one alone; influence
    values elsewhere. O(n q^2 m) at most, a block of units at a time.
    """
    n = moments.n_observations
    dual = X @ linear.inverse  # (m, q): rows w
    first_order = _first_order(moments, linear, output)
    along = X @ first_order
    squares = (along * X).sum(axis=1)  # of what units move the answers by, to first order
    direction = _directions(X, along, squares[:, None])
    sums = PowerSums(n, np.sqrt(np.maximum(squares, 0.0)))
    in_order = np.empty((n, len(X))) if sequential else None
    for observations, shifts, part in _shifts(moments, linear, output):
        moved = shifts @ like(X.T, shifts)
        sums.add(moved, _matrix_shares(part, dual, direction))
        if in_order is not None:
            in_order[observations] = to_numpy(moved)
    noise = replace(sums.noise(with_matrix=True), n_parameters=moments.n_basis)
    if pairs_matter(moments):
        least = n / (n - 1) * squares
        twice = interactions(moments, linear, first_order, output)
        most = np.minimum(((dual @ twice) * dual).sum(axis=1), noise.variance - least)
        positive = noise.variance > 0
        share = np.maximum(most, 0.0) / np.where(positive, noise.variance, 1.0)
        noise = replace(noise, second_order=np.where(positive, share, 0.0))
    return noise if in_order is None else noise.correlated(in_order)


def functional_shifts(
    moments: AnyMoments, linear: Linearisation, X: FloatArray, output: int = 0
) -> FloatArray:
    """Return what leaving each unit out takes from every answer, shape (n, m), in the order of the units."""
    shifts = np.empty((moments.n_observations, len(X)))
    for observations, moved, _ in _shifts(moments, linear, output):
        shifts[observations] = to_numpy(moved @ like(X.T, moved))
    return shifts


def _first_order(moments: AnyMoments, linear: Linearisation, output: int) -> FloatArray:
    """Return sum L_i L_i^T over the influence values of theta, shape (q, q)."""
    covariance = np.zeros((moments.n_basis, moments.n_basis))
    for _, part in unit_blocks(moments):
        influence = influence_of(part, linear, output)
        covariance += to_numpy(influence.T @ influence)
    return covariance


def _directions(X: FloatArray, along: FloatArray, cost: FloatArray) -> FloatArray:
    """Return v for every question, (m, q): where theta goes when the answer is moved at the least cost.

    `along` (m, q) is X times the sums of squared influence, and `cost` (m, 1) its product with X.
    """
    # An answer without any noise moves along itself.
    own = X / np.maximum((X * X).sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return np.where(cost > 0, along / np.where(cost > 0, cost, 1.0), own)


def _shifts(
    moments: AnyMoments, linear: Linearisation, output: int
) -> Iterator[tuple[IntArray | slice, FloatArray, HeldMoments]]:
    """Yield what each unit of a block moves theta by, (units, q), with the block."""
    n, q = moments.n_observations, moments.n_basis
    if linear.truncated == 0:
        for observations, part, shifts in jackknife_shifts(moments, linear):
            by_output = array_namespace(shifts).reshape(shifts, (len(part), q, -1))
            yield observations, by_output[:, :, output], part
        return
    for observations, part in unit_blocks(moments):
        yield observations, influence_of(part, linear, output) * (n / (n - 1)), part


def _matrix_shares(part: HeldMoments, dual: FloatArray, direction: FloatArray) -> Any:
    """Return w'g_i v for every unit and question, shape (units, m)."""
    if isinstance(part, FactoredMoments):
        steps = (part.left @ like(dual.T, part.left)) * (part.right @ like(direction.T, part.left))
        return sum_units(steps, part.offsets)
    g = part.g
    moved = g @ like(direction.T, g)  # (units, q, m)
    return array_namespace(g).sum(moved * like(dual.T, g), axis=1)


def pairs_matter(moments: AnyMoments) -> bool:
    """Return whether pairs are worth counting: a Gram matrix of several functions, not plenty of units."""
    n, q = moments.n_observations, moments.n_basis
    return bool(moments.symmetric) and q > 1 and n < MANY_UNITS * q


def interactions(
    moments: AnyMoments, linear: Linearisation, first_order: FloatArray, output: int = 0
) -> FloatArray:
    """Return E, with which w' E w is the variance of c'theta that pairs of units make, c = A'w.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
        Of a regression.
    linear : Linearisation
        Of all data.
    first_order : ndarray of shape (q, q)
        sum a_j a_j^T of the influence values of theta.
    output : int
        Which of several outputs.

    Returns
    -------
    ndarray of shape (q, q)

    Notes
    -----
    O(n q^3), or O(n q^2) for factored moments of one step each; one pass over the data.

    Examples
    --------
    A mean has no pairs: its matrix is the same whatever the data.

    >>> from replaystats.engine.linear import linearise
    >>> from replaystats.moments import Moments
    >>> mean = Moments(np.ones(4), [1.0, 3.0, 4.0, 8.0])
    >>> interactions(mean, linearise(mean), np.ones((1, 1)))
    array([[0.]])
    """
    n, centre = moments.n_observations, moments.total()[0] / moments.n_observations
    total = -n * centre @ first_order @ centre.T
    for _, part in unit_blocks(moments):
        own = influence_of(part, linear, output)
        spread, moved = _spread_and_moved(part, like(first_order, own), own)
        total += spread - gram(moved - own @ like(centre.T, own))
    return np.asarray(total)


def _spread_and_moved(part: HeldMoments, first_order: Any, own: Any) -> tuple[FloatArray, Any]:
    """Return sum g_i S g_i^T, (q, q) on the host, and every g_i a_i, (units, q)."""
    if isinstance(part, FactoredMoments) and part.one_step_each:
        phi = part.left
        xp = array_namespace(phi)
        length = xp.sum((phi @ first_order) * phi, axis=1)
        moved = phi * xp.sum(phi * own, axis=1)[:, None]
        return to_numpy((phi * length[:, None]).T @ phi), moved
    dense = part.multiply_out() if isinstance(part, FactoredMoments) else part
    g, q = dense.g, part.n_basis
    xp = array_namespace(g)
    rows = xp.reshape(xp.permute_dims(g, (1, 0, 2)), (q, -1))  # (q, units q): g_i side by side
    mixed = xp.reshape(xp.permute_dims(g @ first_order, (1, 0, 2)), (q, -1))
    return to_numpy(mixed @ rows.T), (g @ own[:, :, None])[:, :, 0]
