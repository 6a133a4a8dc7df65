"""The moment equation near its solution, theta = R b.

Every solver that is linear in b once A is known has an R with theta = R b. Moving the weight of observation i
by a little moves theta by R (f_i - g_i theta), and the linear part of a subset's answer is the mean of these
over the subset: it follows from the sums of the subset without a pass over the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like
from .._core.errors import SingularReplicateError, must_be
from .._core.linalg import inverted_condition
from .._core.typing import FloatArray
from .._core.validation import check_real
from ..moments import StreamedMoments
from ..moments.streamed import AnyMoments, check_moments
from ..solvers import Solution, Solver
from ..solvers.auto import DEFAULT_SOLVER
from ..solvers.base import check_solver

# Cost: solvers estimate condition numbers in norms that grow with q, up to q times the ratio of singular
# values. From here on, where something may be decided by them, the ratio itself is looked up.
_CLOSER_LOOK = 1e6


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
    sums : (ndarray of shape (q, q), ndarray of shape (q,) or (q, n_outputs))
        A and b, summed over all observations: a pass over the data that nobody need repeat.
    truncated : int
        Directions a truncating solver left out. Then R says how theta moves inside the kept directions
        only: that these turn with the data is not seen, and a variance built on R is too small.
    set_aside : int
        Directions that no data of this kind contain (states never visited, features that depend on others);
        R is zero along them.
    condition_number : float
        Of what was inverted: a bound below 1e6, the ratio of singular values above; infinite where directions
        were left out.
    completed : ndarray of shape (q, q), or None
        ``share * sum_i g_i``, with one along what is set aside, where R is its inverse on what the data
        contain: without a penalty, and with nothing else left out.
    """

    theta: FloatArray
    inverse: FloatArray
    share: float
    sums: tuple[FloatArray, FloatArray]
    truncated: int
    set_aside: int = 0
    condition_number: float = 1.0
    completed: FloatArray | None = None

    def influence(self, moments: AnyMoments) -> FloatArray:
        """Return H_i = n share R (f_i - g_i theta), centred, shape (n, q) or (n, q, n_outputs)."""
        values = functionals(self.inverse, moments.residuals(self.theta)) * (
            self.share * moments.n_observations
        )
        # Without a penalty the residuals sum to zero already, up to rounding.
        centred: FloatArray = values - array_namespace(values).mean(values, axis=0)
        return centred

    def influence_by_block(self, moments: AnyMoments, row_blocks: list[slice]) -> Iterable[FloatArray]:
        """Return the same values for one block of rows after the other.

        Of streamed moments only one block is ever held.
        """
        if isinstance(moments, StreamedMoments):
            return self._streamed_influence(moments, row_blocks[0].stop)
        values = self.influence(moments)
        return [values[rows, ...] for rows in row_blocks]

    def _streamed_influence(self, moments: StreamedMoments, step: int) -> Iterator[FloatArray]:
        n, (A, b) = moments.n_observations, self.sums
        centre = (b - A @ self.theta) / n
        for _, rows in moments.pieces(range(moments.n_blocks), step):
            residuals = moments.example.wrap(rows).residuals(self.theta) - centre
            yield functionals(self.inverse, residuals) * (self.share * n)

    def linear_part(self, A: FloatArray, b: FloatArray) -> FloatArray:
        """Return the linear part of subset answers, mean zero, from their sums A (B, q, q) and b (B, q).

        It equals W_b H / k, but needs no pass over the data: the sums hold it already.
        """
        A_all, b_all = self.sums
        expected = self.share * (b_all - A_all @ self.theta)
        part: FloatArray = functionals(self.inverse, b - A @ self.theta - expected)
        return part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearPart:
    """The part of every member's answers that is linear in the counts of its subset; its mean is zero.

    Attributes
    ----------
    values : ndarray of shape (B, m) or (B, m, n_outputs)
    solution : Linearisation or SparseSystem
        About which the subsets scatter.
    moments : Moments, FactoredMoments, StreamedMoments or SparseMoments
    X : ndarray of shape (m, q), or None
        Functionals that the answers are; None for theta itself.
    """

    values: FloatArray
    solution: Any  # dense or sparse, with `influence_by_block`
    moments: Any
    X: FloatArray | None = None

    def influence(self, row_blocks: list[slice]) -> Iterable[Any]:
        """Return how the observations of every block move the answers, shape (rows, m[, n_outputs])."""
        moves, X = self.solution.influence_by_block(self.moments, row_blocks), self.X
        return moves if X is None else (functionals(X, block) for block in moves)

    def at(self, X: FloatArray) -> LinearPart:
        """Return the linear part of X theta, from that of theta."""
        return replace(self, values=functionals(X, self.values), X=X)


def functionals(X: FloatArray, theta: Any) -> Any:
    """Return X theta_b for coefficients of shape (B, q) or (B, q, n_outputs), X of shape (m, q).

    Examples
    --------
    >>> functionals(np.array([[1.0, 1.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[3.],
           [7.]])
    """
    xp = array_namespace(theta)
    return xp.moveaxis(xp.moveaxis(theta, 1, -1) @ like(X.T, theta), -1, 1)


def linearise(moments: AnyMoments, solver: Solver | None = None, *, share: float = 1.0) -> Linearisation:
    """Solve the moment equation on a share of the sums, keeping the inverse.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
        n observations.
    solver : Solver, optional
        That of the plug-in; default `Auto`.
    share : float
        Share of the sums to solve on: 1 for the plug-in, k / n for what subsets of k observations see.

    Returns
    -------
    Linearisation

    Raises
    ------
    ValueError
        For a solver that chooses its penalty from single observations: its answer is not linear in b.
    SingularReplicateError
        When the matrix is numerically singular.

    Examples
    --------
    >>> from replaystats.moments import Moments
    >>> linearise(Moments([1.0, 1.0, 2.0], [1.0, 3.0, 4.0])).inverse  # of the sum of g
    array([[0.25]])
    """
    check_moments(moments)
    solver = check_solver(solver) or DEFAULT_SOLVER
    return solve_share(moments, solver, check_real(share, "share", low=0.0, high=1.0, closed="right"))


def solve_share(moments: AnyMoments, solver: Solver, share: float) -> Linearisation:
    """Do what `linearise` says, for arguments that are known to be right; each system is solved once."""
    asked = id(solver), share
    if asked not in moments.solved:  # the solver is kept with the answer, so that its id stays its own
        moments.solved[asked] = solver, _solve_share(moments, solver, share)
    found: Linearisation = moments.solved[asked][1]
    return found


def solve_all(
    moments: AnyMoments, solver: Solver, total: tuple[FloatArray, FloatArray]
) -> tuple[Solution, FloatArray]:
    """Solve the system A, b of all observations, once; of linear solvers also return its inverse."""
    if not solver.is_linear:
        return solver.solve_full(moments), np.empty((0, 0))
    if id(solver) not in moments.solved:
        moments.solved[id(solver)] = solver, solver.solve_beside(moments, *total)
    found: Solution = moments.solved[id(solver)][1]
    b = total[1]
    theta, inverse = found.theta[:, :, : -len(b)], found.theta[0, :, -len(b) :]
    return replace(found, theta=theta.reshape(1, *b.shape)), inverse


def _solve_share(moments: AnyMoments, solver: Solver, share: float) -> Linearisation:
    if not solver.is_linear:
        rule = "a solver whose penalty does not depend on the data"
        raise ValueError(must_be("solver", rule, repr(solver), "Use the replicates' own variance."))
    A, b = moments.total()
    if solver.plain or share == 1.0:  # in other units, the same system
        solution, inverse = solve_all(moments, solver, (A, b))
        theta, inverse = solution.theta[0], inverse / share
    else:
        right = np.concatenate([b.reshape(len(b), -1), np.eye(len(b)) / share], axis=1)
        solution = solver.solve(share * A[None], share * right[None], symmetric=moments.symmetric)
        theta, inverse = solution.theta[0, :, : -len(b)].reshape(b.shape), solution.theta[0, :, -len(b) :]
    if solution.failed[0]:
        raise SingularReplicateError(
            "The moment matrix of all observations is numerically singular, so it has no influence values: "
            "use fewer basis functions, more data, or solver=Ridge(alpha)."
        )
    condition = float(solution.condition[0])
    if condition > _CLOSER_LOOK:
        condition = min(condition, inverted_condition(share * A, inverse))
    truncated, set_aside = int(solution.truncated[0]), solution.structure.n_directions
    return Linearisation(
        theta=theta,
        inverse=inverse,
        share=share,
        sums=(A, b),
        truncated=truncated,
        set_aside=set_aside,
        condition_number=condition if truncated == 0 else float("inf"),
        completed=solution.structure.completed(share * A) if solver.plain and truncated == 0 else None,
    )
