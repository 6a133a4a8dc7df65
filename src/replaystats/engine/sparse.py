"""The main algorithm for systems that are mostly zero: tables of thousands of states, tilings.

Every subset is solved by sparse LU on the features that it has seen; a feature that it lacks keeps the
plug-in's value there. The rest is as for dense moments: members with a known linear part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, onenormest, splu

from .._core.errors import SingularReplicateError
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_choice
from ..moments.sparse import SparseMoments
from ..plans import ResamplingPlan
from ..plans.make import ON_FAILURE
from ..plans.plan import SubsetPlan
from .linear import LinearPart
from .replicate import Coefficients, report_failures

# Rounding: pivots below this share of their column mean that features depend on each other, as those of
# several tilings do (each sums to one). This much of the diagonal then takes the place of what no data
# contain: predictions at what data contain do not change, and one step of refinement takes its trace off.
_DEPENDENT = 1e-11
# Rounding: A system whose equations are not solved to this share of their right side contradicts itself.
_SOLVED = 1e-6


@dataclass(frozen=True, eq=False)
class SparseSystem:
    """The system of all units on the features that were seen.

    Attributes
    ----------
    seen, unseen : ndarray of int
        Features that some unit has, or has not, visited.
    matrix : sparse array of shape (q seen, q seen)
        The equations in what was seen.
    to_unseen : sparse array of shape (q seen, q unseen)
        How they refer to what was never seen.
    dependent : bool
        Whether features that were seen depend on each other.
    solvable : sparse array of shape (q seen, q seen)
        The matrix, filled up where features depend on each other.
    theta : ndarray of shape (q,)
        The solution, 0 for features that were never seen.
    """

    seen: IntArray
    unseen: IntArray
    matrix: Any
    to_unseen: Any
    dependent: bool
    solvable: Any
    theta: FloatArray

    @classmethod
    def of(cls, moments: SparseMoments) -> SparseSystem:
        """Solve the moment equation once, on all units.

        Raises
        ------
        SingularReplicateError
            When the equations of the visited features contradict each other.
        """
        A, b = moments.total()
        visits = moments.visits.sum(axis=0)
        seen, unseen = np.flatnonzero(visits > 0), np.flatnonzero(visits == 0)
        matrix, to_unseen = A[seen][:, seen].tocsc(), A[seen][:, unseen].tocsc()
        lu = _factor(matrix)
        dependent = lu is None or _smallest_pivot(matrix, lu) < _DEPENDENT
        solvable = _filled(matrix, visits[seen]) if dependent else matrix
        lu = _factor(solvable) if dependent else lu
        found = None if lu is None else _solved(lu, matrix, b[seen])
        if found is None:
            raise SingularReplicateError(
                "The sparse moment matrix of the visited features is singular: use a discount below 1, more "
                "data, or solver=solvers.Ridge(alpha)."
            )
        theta = np.zeros(moments.n_basis)
        theta[seen] = found
        return cls(seen, unseen, matrix, to_unseen, dependent, solvable, theta)

    @cached_property
    def _lu(self) -> Any:
        return splu(self.solvable)

    @cached_property
    def condition_number(self) -> float:
        """Condition number of the solved matrix in the 1-norm, estimated (Higham and Tisseur 2000)."""
        q = len(self.seen)
        inverse = LinearOperator(
            (q, q),
            matvec=lambda right: self._lu.solve(np.ravel(right)),
            rmatvec=lambda right: self._lu.solve(np.ravel(right), trans="T"),
            dtype=np.float64,
        )
        return float(onenormest(self.solvable) * onenormest(inverse))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lu"}  # it cannot be pickled

    def solve(self, right: FloatArray) -> FloatArray:
        """Return A^-1 right for columns over the features that were seen."""
        return np.asarray(self._lu.solve(np.ascontiguousarray(right)))

    def duals(self, X: FloatArray) -> FloatArray:
        """Return what every equation contributes to the answers X theta, shape (q seen, m)."""
        return np.asarray(self._lu.solve(np.ascontiguousarray(X[:, self.seen].T), trans="T"))

    def undetermined(self, X: FloatArray, dual: FloatArray) -> BoolArray:
        """Return which questions lie outside of what the equations say about seen features, shape (m,)."""
        if not self.dependent:
            return np.zeros(len(X), dtype=bool)
        asked = X[:, self.seen]
        rest = np.abs(asked - (self.matrix.T @ dual).T).max(axis=1, initial=0.0)
        return np.asarray(rest > _SOLVED * np.abs(asked).max(axis=1, initial=0.0))

    def influence_by_block(self, moments: SparseMoments, row_blocks: list[slice]) -> Iterator[FloatArray]:
        """Yield n A^-1 (f_i - g_i theta) for one block of units after the other, shape (units, q, 1)."""
        residuals = moments.residuals(self.theta)
        for rows in row_blocks:
            moves = np.zeros((len(residuals[rows]), moments.n_basis))
            moves[:, self.seen] = self.solve(residuals[rows][:, self.seen].T).T * len(moments)
            yield moves[:, :, None]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SparseReplicates(Coefficients):
    """B answers of a sparse ratio of moments, and what produced them.

    Attributes
    ----------
    theta : ndarray of shape (B, q)
        One answer per subset; NaN where `failed`.
    failed : ndarray of bool, shape (B,)
    moments : SparseMoments
    plan : ResamplingPlan
        Of the units; for the plug-in, the one subset of everything.
    system : SparseSystem
        Of all units.
    on_failure : {"warn", "raise", "drop"}
        What is done about singular subsets, those of `extend` among them.
    """

    theta: FloatArray
    failed: BoolArray
    moments: SparseMoments
    plan: ResamplingPlan
    system: SparseSystem
    on_failure: str = "warn"

    def linear(self, X: FloatArray | None = None) -> LinearPart:
        """Return the linear part of the answers."""
        return self._linear if X is None else self._linear.at(X)

    @cached_property
    def _linear(self) -> LinearPart:
        system, residuals = self.system, self.moments.residuals(self.system.theta)
        sums = self.plan.counts(0, self.plan.n_resamples) @ residuals[:, system.seen]
        values = np.zeros_like(self.theta)
        share = self.plan.subsample_size / self.plan.n_observations
        values[:, system.seen] = system.solve(sums.T).T / share
        return LinearPart(values=values[:, :, None], solution=system, moments=self.moments)

    def extend(self, n_more: int) -> SparseReplicates:
        """Return the replicates with `n_more` further subsets; the first ones are not computed again."""
        return self._solved(self.plan.extend(n_more), self.theta)

    def _solved(self, plan: ResamplingPlan, known: FloatArray) -> SparseReplicates:
        """Return the answers of all subsets of a plan, of which the first are `known`."""
        theta = _solve_from(len(known), self.moments, plan, self.system)
        failed = np.isnan(theta[:, 0])
        report_failures(failed, self.on_failure, _explain_failures)
        theta = np.concatenate([known, theta])
        return replace(self, theta=theta, failed=np.isnan(theta[:, 0]), plan=plan)


def sparse_whole(moments: SparseMoments) -> SparseReplicates:
    """Return the one answer of all units: what the plug-in is made of.

    Raises
    ------
    SingularReplicateError
        When the equations of the visited features contradict each other.
    """
    system, n = SparseSystem.of(moments), len(moments)
    plan = SubsetPlan(n_observations=n, subsample_size=n, n_resamples=1, seed=0)
    failed = np.zeros(1, dtype=bool)
    return SparseReplicates(
        theta=system.theta[None], failed=failed, moments=moments, plan=plan, system=system
    )


def sparse_replicate(
    whole: SparseReplicates, plan: ResamplingPlan, *, on_failure: str = "warn"
) -> SparseReplicates:
    """Solve the moment equation on every subset of the plan.

    Parameters
    ----------
    whole : SparseReplicates
        From `sparse_whole`.
    plan : ResamplingPlan
        Of the units.
    on_failure : {"warn", "raise", "drop"}
        What to do about singular subsets. They are always recorded and never averaged.
    """
    check_choice(on_failure, "on_failure", ON_FAILURE)
    return replace(whole, on_failure=on_failure)._solved(plan, whole.theta[:0])


def _solve_from(start: int, moments: SparseMoments, plan: ResamplingPlan, system: SparseSystem) -> FloatArray:
    """Return theta of the subsets from number `start` on, shape (m, q); NaN for a singular one."""
    counts = plan.counts(start, plan.n_resamples)
    sums, visits = counts @ moments.rows, counts @ moments.visits
    theta = np.repeat(system.theta[None], len(sums), axis=0)
    for b, row in enumerate(sums):
        A, right = moments.unstack(row)
        present = np.flatnonzero(visits[b] > 0)
        # Around the plug-in, so that what a subset lacks enters its equations at the plug-in's value.
        error, matrix = (right - A @ system.theta)[present], A[present][:, present].tocsc()
        lu = _factor(_filled(matrix, visits[b, present]) if system.dependent else matrix)
        moved = None if lu is None else _solved(lu, matrix, error)
        if moved is None:
            theta[b] = np.nan
        else:
            theta[b, present] += moved
    return theta


def _factor(matrix: Any) -> Any:
    """Return the LU decomposition, or None where a pivot is exactly zero."""
    try:
        return splu(matrix)
    except RuntimeError:
        return None


def _smallest_pivot(matrix: Any, lu: Any) -> float:
    """Return the smallest pivot, relative to the largest entry of its column."""
    largest = np.empty(matrix.shape[1])
    largest[lu.perm_c] = abs(matrix).max(axis=0).toarray().ravel()
    return float((np.abs(lu.U.diagonal()) / largest).min(initial=np.inf))


def _filled(matrix: Any, visits: FloatArray) -> Any:
    """Return the matrix with a rounding-level share of the visits on its diagonal."""
    return (matrix + sparse.diags_array(_DEPENDENT * visits)).tocsc()


def _solved(lu: Any, matrix: Any, right: FloatArray) -> FloatArray | None:
    """Return the refined solution, or None where the equations contradict each other."""
    x: FloatArray = lu.solve(right)
    x = x + lu.solve(right - matrix @ x)
    error = np.abs(right - matrix @ x).max(initial=0.0)
    return x if error <= _SOLVED * np.abs(right).max(initial=0.0) else None


def _explain_failures(n_failed: int, n_members: int) -> str:
    return (
        f"{n_failed} of {n_members} replicates have a singular sparse moment matrix: use a discount below 1, "
        "more data, or solver=solvers.Ridge(alpha)."
    )
