"""How one observation moves the plug-in: influence values, sandwich covariance, delete-one jackknife.

Every solver that is linear in b once A is known has an R with theta = R b. Moving the weight of
observation i by a little moves theta by R (f_i - g_i theta), which gives the sandwich; taking the observation
out moves it by (I - R g_i)^-1 R (f_i - g_i theta), which gives the jackknife without refits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like, to_numpy
from .._core.errors import SingularReplicateError, must_be
from .._core.linalg import solve_stack
from .._core.typing import FloatArray, IntArray
from ..moments import AnyMoments, FactoredMoments, HeldMoments, Moments, StreamedMoments
from ..plans.tiles import TILE_ROWS
from ..solvers import Auto, Solver
from .covariance import gram

# Rows of small systems solved at a time: 8192 matrices of 9 x 9 are 5 MB.
_BLOCK_NUMBERS = 2**20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linearisation:
    """The solution of the moment equation on a share of the data's sums, and its linear map.

    Attributes
    ----------
    theta : ndarray of shape (q,) or (q, n_outputs)
        R b. Independent of the share unless the solver adds a penalty, which weighs more on less data.
    inverse : ndarray of shape (q, q)
        R: the solver's inverse of ``share * sum_i g_i``, penalty included.
    share : float
        1 for all data, k / n for what subsets of k observations see on average.
    truncated : int
        Directions a truncating solver left out. Then R says how theta moves inside the kept directions
        only: that these turn with the data is not seen, and a variance built on R is too small.
    set_aside : int
        Directions that no data of this kind contain (states never visited, features that depend on others);
        R is zero along them.
    condition : float
        Condition number of what was inverted, as the solver judges it.
    """

    theta: FloatArray
    inverse: FloatArray
    share: float
    truncated: int
    set_aside: int = 0
    condition: float = 1.0

    @property
    def condition_number(self) -> float:
        """Condition number of what was inverted, infinite where directions were left out."""
        return self.condition if self.truncated == 0 else float("inf")

    def influence(self, moments: AnyMoments) -> FloatArray:
        """Return H_i = n share R (f_i - g_i theta), centred, shape (n, q) or (n, q, n_outputs)."""
        residuals = moments.residuals(self.theta)
        xp = array_namespace(residuals)
        flat = xp.moveaxis(residuals, 1, -1)  # (n, q) or (n, n_outputs, q): one product for all
        values = xp.moveaxis(flat @ like(self.inverse.T, flat), -1, 1) * (self.share * residuals.shape[0])
        # Without a penalty the residuals sum to zero already, up to rounding.
        centred: FloatArray = values - xp.mean(values, axis=0)
        return centred

    def influence_by_block(self, moments: AnyMoments, row_blocks: list[slice]) -> Iterator[FloatArray]:
        """Yield the same values for one block of rows after the other.

        Of streamed moments, whose plans all have blocks of 16384 rows, only one block is ever held.
        """
        n = moments.n_observations
        if not isinstance(moments, StreamedMoments):
            values = self.influence(moments)
            yield from (values[rows, ...] for rows in row_blocks)
            return
        A, b = moments.total()
        centre = (b - A @ self.theta) / n
        for _, rows in moments.pieces(range(moments.n_blocks), TILE_ROWS):
            residuals = moments.example.wrap(rows).residuals(self.theta) - centre
            yield np.moveaxis(np.moveaxis(residuals, 1, -1) @ self.inverse.T, -1, 1) * (self.share * n)

    def linear_part(self, A: FloatArray, b: FloatArray, moments: AnyMoments) -> FloatArray:
        """Return the linear part of subset answers, mean zero, from their sums A (B, q, q) and b (B, q).

        It equals W_b H / k, but needs no pass over the data: the sums hold it already.
        """
        A_all, b_all = moments.total()
        expected = self.share * (b_all - A_all @ self.theta)
        residuals = b - A @ self.theta - expected
        product: FloatArray = np.moveaxis(np.moveaxis(residuals, 1, -1) @ self.inverse.T, -1, 1)
        return product


def is_linear(solver: Solver) -> bool:
    """Whether the solver's answer is linear in b given A: it does not look at single observations."""
    return type(solver).solve_subsets is Solver.solve_subsets and type(solver).solve_full is Solver.solve_full


def linearise(moments: AnyMoments, solver: Solver | None = None, *, share: float = 1.0) -> Linearisation:
    """Solve the moment equation on a share of the sums, keeping the inverse.

    Raises
    ------
    ValueError
        For a solver that chooses its penalty from single observations: its answer is not linear in b.
    SingularReplicateError
        When the matrix is numerically singular.
    """
    solver = Auto() if solver is None else solver
    if not is_linear(solver):
        rule = "a solver whose penalty does not depend on the data"
        raise ValueError(must_be("solver", rule, repr(solver), "Use the replicates' own variance."))
    A, b = moments.total()
    q = moments.n_basis
    right = np.concatenate([b.reshape(q, -1), np.eye(q) / share], axis=1)
    solution = solver.solve(share * A[None], share * right[None], symmetric=moments.symmetric)
    if solution.failed[0]:
        raise SingularReplicateError(
            "The moment matrix of all observations is numerically singular, so it has no influence values: "
            "use fewer basis functions, more data, or solver=Ridge(alpha)."
        )
    theta, inverse = solution.theta[0][:, :-q], solution.theta[0][:, -q:]
    return Linearisation(
        theta=theta.reshape(b.shape),
        inverse=inverse,
        share=share,
        truncated=int(solution.truncated[0]),
        set_aside=solution.structure.n_directions,
        condition=float(solution.condition[0]),
    )


def influence_values(moments: AnyMoments, solver: Solver | None = None) -> FloatArray:
    """Return H_i = A^-1 (f_i - g_i theta), A = mean g: how the plug-in reacts to each observation.

    Parameters
    ----------
    moments : Moments or FactoredMoments
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

    Returns
    -------
    ndarray of shape (q, q) or (n_outputs, q, q)
    """
    n, linear = moments.n_observations, linearise(moments, solver)
    blocks = [slice(first, min(first + TILE_ROWS, n)) for first in range(0, n, TILE_ROWS)]
    total = sum((gram(values) for values in linear.influence_by_block(moments, blocks)), start=np.zeros(()))
    return np.asarray(total / (n * (n - 1)))


def delete_one(moments: AnyMoments, solver: Solver | None = None) -> FloatArray:
    """Return the plug-ins without each observation in turn, exactly and without refits.

        theta_(-i) = theta - (I - R g_i)^-1 R (f_i - g_i theta),   R = A^-1 on the scale of sums.

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
        left_out[observations] = linear.theta - shifts
    return left_out


def jackknife_covariance(moments: AnyMoments, solver: Solver | None = None) -> FloatArray:
    """Return the delete-one jackknife covariance of the plug-in, shape (q, q) or (n_outputs, q, q)."""
    n, linear = moments.n_observations, linearise(moments, solver)
    total = np.zeros_like(linear.theta)
    square = gram(total[None])
    for _, _, shifts in delete_one_shifts(moments, linear):
        total, square = total + shifts.sum(axis=0), square + gram(shifts)
    return np.asarray(square - gram(total[None]) / n) * ((n - 1) / n)


def leverage_covariance(moments: AnyMoments, solver: Solver | None = None) -> FloatArray:
    """Return jackknife minus sandwich: what the pull of single observations adds to the first order.

    The infinitesimal jackknife of subsets drawn with replacement tends to the sandwich as k grows, and is too
    small by the same amount (coverage .935 with n=200, q=9, and .948 with this added); without replacement
    it tends to the jackknife, and nothing is missing.
    """
    return jackknife_covariance(moments, solver) - sandwich_covariance(moments, solver)


def jackknife_bias(moments: AnyMoments, solver: Solver | None = None) -> FloatArray:
    """Return the jackknife estimate of the plug-in's bias, shape of theta."""
    n, linear = moments.n_observations, linearise(moments, solver)
    total = sum(shifts.sum(axis=0) for _, _, shifts in delete_one_shifts(moments, linear))
    return np.asarray(-(n - 1) / n * total)


def delete_one_shifts(
    moments: AnyMoments, linear: Linearisation
) -> Iterator[tuple[IntArray | slice, HeldMoments, FloatArray]]:
    """Yield blocks of observations, their moments, and how far the plug-in moves when each is taken out."""
    if linear.truncated:
        rule = "one that keeps every direction (what is left out changes with each observation)"
        raise ValueError(must_be("solver", rule, f"{linear.truncated} left out", "Use Ridge(alpha)."))
    for observations, part in unit_blocks(moments):
        if isinstance(part, FactoredMoments) and len(part.left) <= part.n_basis * len(part):
            yield observations, part, _factored_shifts(part, linear)
        else:  # more steps than basis functions: the written-out matrix is the smaller one
            dense = part.multiply_out() if isinstance(part, FactoredMoments) else part
            yield observations, part, _dense_shifts(dense, linear)


def unit_blocks(moments: AnyMoments) -> Iterator[tuple[IntArray | slice, HeldMoments]]:
    """Yield blocks of observations with their moments; factored ones have equally many steps each."""
    size = max(1, _BLOCK_NUMBERS // moments.n_basis**2)
    if isinstance(moments, FactoredMoments):
        yield from _units_by_length(moments)
    elif isinstance(moments, StreamedMoments):
        for first, rows in moments.pieces(range(moments.n_blocks), size):
            yield slice(first, first + len(rows)), moments.example.wrap(rows)
    else:
        for first in range(0, moments.n_observations, size):
            block = slice(first, min(first + size, moments.n_observations))
            yield block, moments.wrap(to_numpy(moments.rows[block, ...]))


def _dense_shifts(moments: Moments, linear: Linearisation) -> FloatArray:
    """Return (I - R g_i)^-1 R (f_i - g_i theta) from written-out g, shape (n, q[, n_outputs])."""
    g, f = moments.unstack(moments.rows)
    residuals = f - g @ linear.theta
    columns = residuals.reshape(*residuals.shape[:2], -1)  # (n, q, n_outputs)
    # One product for [g | residuals] saves a call per observation.
    moved = np.matmul(linear.inverse, np.concatenate([g, columns], axis=2))
    matrix = np.eye(moments.n_basis) - moved[:, :, : moments.n_basis]
    shifts, _ = solve_stack(matrix, moved[:, :, moments.n_basis :])
    return shifts.reshape(residuals.shape)


def _units_by_length(moments: FactoredMoments) -> Iterator[tuple[IntArray, FactoredMoments]]:
    lengths = np.diff(moments.offsets)
    for length in np.unique(lengths):
        alike = np.flatnonzero(lengths == length)
        size = max(1, _BLOCK_NUMBERS // int(length * (length + moments.n_basis)))
        for first in range(0, alike.size, size):
            observations = alike[first : first + size]
            steps = (moments.offsets[observations][:, None] + np.arange(length)).ravel()
            left = moments.left[steps]
            right = left if moments.symmetric else moments.right[steps]
            offsets = np.arange(observations.size + 1) * int(length)
            yield observations, FactoredMoments(left, right, moments.response[steps], offsets)


def _factored_shifts(moments: FactoredMoments, linear: Linearisation) -> FloatArray:
    """Return the same from the factors of observations with T steps each.

    With g_i = L^T P and f_i - g_i theta = L^T r, the identity (I - R L^T P)^-1 R L^T = R L^T (I - P R L^T)^-1
    leaves a T x T system: P R L^T is the leverage and (I - P R L^T)^-1 r the leave-one-out residual.
    """
    n, q = len(moments), moments.n_basis
    left, right = moments.left.reshape(n, -1, q), moments.right.reshape(n, -1, q)  # (n, T, q)
    errors = moments.response - moments.right @ linear.theta
    columns = errors.reshape(n, left.shape[1], -1)  # (n, T, n_outputs)
    moved = left @ linear.inverse.T  # (n, T, q): rows of L R^T
    leverage = right @ moved.swapaxes(1, 2)
    outside, _ = solve_stack(np.eye(left.shape[1]) - leverage, columns)
    shifts = moved.swapaxes(1, 2) @ outside  # (n, q, n_outputs)
    return shifts.reshape(n, *linear.theta.shape)
