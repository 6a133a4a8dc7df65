"""How one observation moves the plug-in: influence values, sandwich covariance, delete-one jackknife.

Moving the weight of observation i by a little moves theta = R b by R (f_i - g_i theta), which gives the
sandwich; taking the observation out moves it by (I - R g_i)^-1 R (f_i - g_i theta), which gives the jackknife
without refits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from scipy.linalg import lapack

from .._core.arrays import is_foreign, like, to_numpy
from .._core.errors import must_be
from .._core.linalg import LARGE, solve_stack
from .._core.typing import ArrayLike, FloatArray, IntArray
from .._core.validation import check_array
from ..engine.linear import Linearisation, functionals, linearise
from ..moments import FactoredMoments, Moments, StreamedMoments
from ..moments.factored import HeldMoments
from ..moments.streamed import AnyMoments
from ..plans import proportional_probabilities
from ..plans.tiles import TILE_ROWS
from ..solvers import Solver
from .components import gram

# Batch: rows of small systems solved at a time: 8192 matrices of 9 x 9 are 5 MB.
_BLOCK_NUMBERS = 2**20
# Batch: on a device a block is a few calls whatever its size: 800,000 matrices of 9 x 9 are 530 MB.
_DEVICE_NUMBERS = 2**26


def influence_values(moments: AnyMoments, solver: Solver | None = None) -> FloatArray:
    """Return H_i = A^-1 (f_i - g_i theta), A = mean g: how the plug-in reacts to each observation.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    solver : Solver, optional
        As for the plug-in; a penalty enters A.

    Returns
    -------
    ndarray of shape (n, q) or (n, q, n_outputs)
        Mean zero.

    Examples
    --------
    >>> influence_values(Moments([1.0, 1.0, 2.0], [1.0, 3.0, 4.0])).ravel()
    array([-0.75,  0.75,  0.  ])
    """
    return linearise(moments, solver).influence(moments)


def sandwich_covariance(moments: AnyMoments, solver: Solver | None = None) -> FloatArray:
    """Return the plug-in's covariance to first order, sum_i H_i H_i^T / (n (n - 1)).

    Equal to the paper's Lemma 1, G Sigma_0 G^T / n with Sigma_0 the sample covariance of (vec g, f).

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    solver : Solver, optional
        That of the plug-in; default `Auto`.

    Returns
    -------
    ndarray of shape (q, q) or (n_outputs, q, q)

    See Also
    --------
    jackknife_covariance : The same from exact refits without each observation.

    Examples
    --------
    >>> y = np.array([1.0, 3.0, 4.0, 8.0])
    >>> bool(np.isclose(sandwich_covariance(Moments(np.ones(4), y)).item(), y.var(ddof=1) / 4))  # of a mean
    True
    """
    linear = linearise(moments, solver)
    n = moments.n_observations
    step = n if is_foreign(moments.held) else TILE_ROWS
    blocks = [slice(first, min(first + step, n)) for first in range(0, n, step)]
    total = sum((gram(values) for values in linear.influence_by_block(moments, blocks)), start=np.zeros(()))
    return np.asarray(total / (n * (n - 1)))


def delete_one(moments: AnyMoments, solver: Solver | None = None) -> FloatArray:
    """Return the plug-ins without each observation in turn, exactly and without refits.

        theta_(-i) = theta - (I - R g_i)^-1 R (f_i - g_i theta),   R = A^-1 on the scale of sums.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    solver : Solver, optional
        That of the plug-in; default `Auto`.

    Returns
    -------
    ndarray of shape (n, q) or (n, q, n_outputs)
        NaN where the rest of the data has a singular matrix.

    Notes
    -----
    O(n q^3), or O(n T^3) for factored moments of T < q steps each: the leave-one-out residuals of least
    squares, for any g.

    Examples
    --------
    >>> delete_one(Moments([1.0, 1.0, 2.0], [1.0, 3.0, 4.0])).ravel()
    array([2.33333333, 1.66666667, 2.        ])
    """
    linear = linearise(moments, solver)
    left_out = np.empty((moments.n_observations, *linear.theta.shape))
    for observations, _, shifts in delete_one_shifts(moments, linear):
        left_out[observations] = linear.theta - to_numpy(shifts)
    return left_out


def jackknife_covariance(moments: AnyMoments, solver: Solver | None = None) -> FloatArray:
    """Return the delete-one jackknife covariance of the plug-in, shape (q, q) or (n_outputs, q, q).

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    solver : Solver, optional
        That of the plug-in; default `Auto`.

    Returns
    -------
    ndarray of shape (q, q) or (n_outputs, q, q)

    See Also
    --------
    sandwich_covariance : To first order, without refits.

    Examples
    --------
    >>> y = np.array([1.0, 3.0, 4.0, 8.0])
    >>> bool(np.isclose(jackknife_covariance(Moments(np.ones(4), y)).item(), y.var(ddof=1) / 4))  # of a mean
    True
    """
    linear = linearise(moments, solver)
    n = moments.n_observations
    total = np.zeros_like(linear.theta)
    square = gram(total[None])
    for _, _, shifts in jackknife_shifts(moments, linear):
        total, square = total + _summed(shifts), square + gram(shifts)
    return np.asarray(square - gram(total[None]) / n) * ((n - 1) / n)


def leverage_covariance(moments: AnyMoments, solver: Solver | None = None) -> FloatArray:
    """Return jackknife minus sandwich: what the pull of single observations adds to the first order.

    The infinitesimal jackknife of subsets drawn with replacement tends to the sandwich as k grows, and is too
    small by the same amount (coverage .935 with n=200, q=9, and .948 with this added); without replacement
    it tends to the jackknife, and nothing is missing.
    """
    return jackknife_covariance(moments, solver) - sandwich_covariance(moments, solver)


def jackknife_bias(moments: AnyMoments, solver: Solver | None = None) -> FloatArray:
    """Return the jackknife estimate of the plug-in's bias, shape of theta.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    solver : Solver, optional
        That of the plug-in; default `Auto`.

    Returns
    -------
    ndarray of shape (q,) or (q, n_outputs)

    Examples
    --------
    >>> jackknife_bias(Moments(np.ones(3), [1.0, 3.0, 5.0])).round(12) + 0.0  # a mean has none
    array([0.])
    """
    linear = linearise(moments, solver)
    n = moments.n_observations
    total = sum(_summed(shifts) for _, _, shifts in jackknife_shifts(moments, linear))
    return np.asarray(-(n - 1) / n * total)


def _summed(shifts: Any) -> FloatArray:
    """Return the sum over observations, on the host."""
    return to_numpy(array_namespace(shifts).sum(shifts, axis=0))


def jackknife_shifts(
    moments: AnyMoments, linear: Linearisation
) -> Iterator[tuple[IntArray | slice, HeldMoments, FloatArray]]:
    """Yield what `delete_one_shifts` does, with influence for units without which something is left open.

    There is no leave-one-out of those. `one_unit_determines` names the answers that need one of them.
    """
    for observations, part, shifts in delete_one_shifts(moments, linear):
        xp, shape = array_namespace(shifts), (len(part), -1)
        known = xp.all(xp.isfinite(xp.reshape(shifts, shape)), axis=1)
        if not bool(xp.all(known)):
            known = xp.reshape(known, (-1,) + (1,) * (shifts.ndim - 1))
            shifts = xp.where(known, shifts, influence_of(part, linear))
        yield observations, part, shifts


def delete_one_shifts(
    moments: AnyMoments, linear: Linearisation
) -> Iterator[tuple[IntArray | slice, HeldMoments, FloatArray]]:
    """Yield blocks of observations, their moments, and how far the plug-in moves when each is taken out."""
    if linear.truncated:
        rule = "one that keeps every direction (what is left out changes with each observation)"
        raise ValueError(must_be("solver", rule, f"{linear.truncated} left out", "Use Ridge(alpha)."))
    # What R inverts, on the host, where it is the plain sum of g. Also where it is ill-conditioned: products
    # with an R that has lost digits lose more of them.
    plain = not (isinstance(moments, FactoredMoments) or is_foreign(moments.held))
    matrix = linear.completed if plain else None
    for observations, part in unit_blocks(moments):
        if isinstance(part, FactoredMoments) and len(part.left) <= part.n_basis * len(part):
            yield observations, part, _factored_shifts(part, linear)
        else:  # more steps than basis functions: the written-out matrix is the smaller one
            dense = part.multiply_out() if isinstance(part, FactoredMoments) else part
            yield observations, part, _dense_shifts(dense, linear, matrix)


def unit_blocks(moments: AnyMoments) -> Iterator[tuple[IntArray | slice, HeldMoments]]:
    """Yield blocks of observations with their moments; factored ones have equally many steps each.

    Moments of a device stay there.
    """
    numbers = _DEVICE_NUMBERS if is_foreign(moments.held) else _BLOCK_NUMBERS
    size = max(1, numbers // moments.n_basis**2)
    if isinstance(moments, FactoredMoments):
        yield from _units_by_length(moments, numbers)
    elif isinstance(moments, StreamedMoments):
        for first, rows in moments.pieces(range(moments.n_blocks), size):
            yield slice(first, first + len(rows)), moments.example.wrap(rows)
    else:
        for first in range(0, moments.n_observations, size):
            block = slice(first, min(first + size, moments.n_observations))
            yield block, moments.wrap(moments.rows[block, ...])


def unit_matrices(moments: AnyMoments) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Yield some units after the other: their numbers, g (units, q, q) and f (units, q, n_outputs)."""
    index = np.arange(moments.n_observations)
    for where, part in unit_blocks(moments):
        dense = part.multiply_out() if isinstance(part, FactoredMoments) else part
        g, f = (to_numpy(values) for values in dense.unstack(dense.rows))
        yield index[where], g, f.reshape(*f.shape[:2], -1)


def _dense_shifts(moments: Moments, linear: Linearisation, matrix: FloatArray | None) -> Any:
    """Return (I - R g_i)^-1 R (f_i - g_i theta) from written-out g, shape (n, q[, n_outputs]), where g is.

    With the matrix A that R inverts it is (A - g_i)^-1 (f_i - g_i theta), without a product for every unit.
    """
    g, f = moments.unstack(moments.rows)
    xp, q = array_namespace(g), moments.n_basis
    inverse, theta = like(linear.inverse, g), like(linear.theta, g)
    residuals = f - g @ theta
    columns = xp.reshape(residuals, (residuals.shape[0], q, -1))  # (n, q, n_outputs)
    if matrix is not None:
        return _solved_without(matrix, g, columns).reshape(residuals.shape)
    # One product for [g | residuals] saves a call per observation; on a device, one for all observations.
    both = xp.concat([g, columns], axis=2)
    if is_foreign(g):
        moved = xp.matrix_transpose(xp.matmul(xp.matrix_transpose(both), xp.matrix_transpose(inverse)))
    else:
        moved = xp.matmul(inverse, both)
    matrix = xp.eye(q, dtype=g.dtype, device=device(g)) - moved[:, :, :q]
    shifts, _ = solve_stack(matrix, moved[:, :, q:])
    return xp.reshape(shifts, residuals.shape)


def _solved_without(matrix: FloatArray, g: FloatArray, right: FloatArray) -> FloatArray:
    """Return (A - g_i)^-1 right_i, NaN where there is none; large ones one after the other, in one place."""
    if len(matrix) < LARGE:
        return np.asarray(solve_stack(matrix - g, right)[0])
    found, rest = np.full(right.shape, np.nan), np.empty(matrix.shape)
    for i, unit in enumerate(g):
        np.subtract(matrix, unit, out=rest)
        # The transpose is what LAPACK takes without a copy.
        factors, pivots, singular = lapack.dgetrf(rest.T, overwrite_a=True)
        if not singular:
            found[i] = lapack.dgetrs(factors, pivots, right[i], trans=1)[0]
    return found


def _units_by_length(moments: FactoredMoments, numbers: int) -> Iterator[tuple[IntArray, FactoredMoments]]:
    lengths = np.diff(moments.offsets)
    for length in np.unique(lengths):
        alike = np.flatnonzero(lengths == length)
        size = max(1, numbers // int(length * (length + moments.n_basis)))
        for first in range(0, alike.size, size):
            observations = alike[first : first + size]
            steps = (moments.offsets[observations][:, None] + np.arange(length)).ravel()
            yield observations, moments.with_steps(steps, np.arange(observations.size + 1) * int(length))


def _factored_shifts(moments: FactoredMoments, linear: Linearisation) -> FloatArray:
    """Return the same from the factors of observations with T steps each.

    With g_i = L^T P and f_i - g_i theta = L^T r, the identity (I - R L^T P)^-1 R L^T = R L^T (I - P R L^T)^-1
    leaves a T x T system: P R L^T is the leverage and (I - P R L^T)^-1 r the leave-one-out residual.
    """
    n, q, xp = len(moments), moments.n_basis, array_namespace(moments.left)
    left, right = xp.reshape(moments.left, (n, -1, q)), xp.reshape(moments.right, (n, -1, q))  # (n, T, q)
    errors = moments.response - moments.right @ like(linear.theta, moments.right)
    columns = xp.reshape(errors, (n, left.shape[1], -1))  # (n, T, n_outputs)
    moved = left @ like(linear.inverse.T, left)  # (n, T, q): rows of L R^T
    leverage = right @ xp.matrix_transpose(moved)
    unit = xp.eye(left.shape[1], dtype=left.dtype, device=device(left))
    outside, _ = solve_stack(unit - leverage, columns)
    shifts = xp.matrix_transpose(moved) @ outside  # (n, q, n_outputs)
    reshaped: FloatArray = xp.reshape(shifts, (n, *linear.theta.shape))
    return reshaped


def influence_of(part: HeldMoments, linear: Linearisation) -> Any:
    """Return what every unit of a block adds to theta to first order, shape (units, q[, n_outputs])."""
    return functionals(linear.inverse, part.residuals(linear.theta))


def of_output(values: Any, output: int) -> Any:
    """Return one of the outputs of values (units, q) or (units, q, n_outputs), shape (units, q)."""
    return values if values.ndim == 2 else values[:, :, output]


# Plans that follow influence: which observations to prefer.


def midzuno_sizes(
    moments: AnyMoments, x: ArrayLike | None = None, *, solver: Solver | None = None
) -> tuple[FloatArray, float]:
    """Return sizes a_i = x'theta + x'H_i - o and the origin o for a Lahiri-Midzuno plan.

    With them the weight of a subset is mean(a) / mean_S(a), and w (h - o) is constant up to second order: the
    Horvitz-Thompson average has no linear Monte-Carlo noise. o lies two of the largest influence values below
    x'theta, so that sizes are positive and weights between 2/3 and 2.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    x : array-like of shape (q,), optional
        The functional; needed if theta has several coefficients.
    solver : Solver, optional
        That of the plug-in whose influence is meant.

    Returns
    -------
    sizes : ndarray of shape (n,)
        Positive.
    origin : float
        For `reweighted_average`.

    Examples
    --------
    >>> import replaystats as rs
    >>> moments = rs.Moments([1.0, 1.0, 2.0], [1.0, 3.0, 4.0])
    >>> midzuno_sizes(moments)
    (array([0.75, 2.25, 1.5 ]), 0.5)
    """
    influence = influence_values(moments, solver)
    if influence.ndim != 2 or (x is None and influence.shape[1] > 1):
        hint = "A plan has sizes for one number only: pass x of shape (q,)."
        raise ValueError(must_be("x", "given where theta has several coefficients", x, hint))
    functional = np.ones(1) if x is None else check_array(x, "x", ndim=1)
    values = influence @ functional
    centre = float(functional @ linearise(moments, solver).theta)
    distance = 2.0 * float(np.abs(values).max()) or 1.0
    return np.asarray(values + distance), centre - distance


def influence_probabilities(
    moments: AnyMoments,
    X: ArrayLike | None = None,
    *,
    solver: Solver | None = None,
    uniform_share: float = 0.1,
) -> FloatArray:
    """Return drawing probabilities that make replicates vary least: in proportion to their influence.

    With weights inside the sums, the linear part of X theta_b has the variance
    ``sum_i |X H_i|^2 / (n^2 k p_i)``, summed over the functionals; it is smallest for p_i
    proportional to ``|X H_i|``.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    X : array-like of shape (m, q), optional
        Functionals that matter; default the coefficients.
    solver : Solver, optional
        That of the plug-in whose influence is meant.
    uniform_share : float in [0, 1]
        Share of uniform draws, which bounds the weights by 1 / uniform_share.

    Returns
    -------
    ndarray of shape (n,)

    Notes
    -----
    This reduces Monte-Carlo noise only, as the control variate does at less cost: it pays where the average
    cannot be controlled, or where a buffer is prioritised anyway.

    Examples
    --------
    >>> import replaystats as rs
    >>> moments = rs.Moments([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 4.0])
    >>> influence_probabilities(moments, uniform_share=0.0).round(3)  # the last one moves the mean most
    array([0.167, 0.167, 0.167, 0.5  ])
    """
    influence = influence_values(moments, solver)
    if X is not None:
        influence = functionals(check_array(X, "X", ndim=2), influence)
    size = np.sqrt((influence.reshape(len(influence), -1) ** 2).sum(axis=1))
    return proportional_probabilities(size, uniform_share=uniform_share)
