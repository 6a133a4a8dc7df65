"""The default: equilibrated plain solves, and an SVD only for the systems that need one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import lapack

from .._core.errors import must_be
from .._core.linalg import LARGE, ROUNDING, equilibrate, solve_stack
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_choice, check_real, check_text
from .base import (
    SINGULAR_CONDITION,
    Solution,
    Solver,
    Structure,
    as_columns,
    common_null_space,
    finish,
    takes_part,
)
from .direct import LU, PseudoInverse, Ridge, robust_svd, truncated_solve

# Cost: right-hand sides that measure the inverse, before all singular values are computed. The chance that
# all of them miss its largest direction by a factor of 100 is about 1e-8.
_N_PROBES, _PROBE_MARGIN = 4, 100.0
# Rounding: better conditioned systems are exact to more digits than data have without refinement.
_REFINE_FROM = 1e6
# Cost: of many systems so many are looked at first: if all of them are ill-conditioned, the rest is, too.
_FIRST_LOOK = 4
# Batch: numbers in the matrices solved at a time: 8 MB.
_BLOCK_NUMBERS = 2**20


@dataclass(frozen=True, slots=True)
class Auto(Solver):
    """Plain solves in units that suit the matrix; the pseudo-inverse at rounding level where rank is missing.

    Rows and columns are first multiplied by powers of two that bring their largest entries to 1, so neither
    the answer nor the rank depends on the units of the features. What no system of the stack contains (a
    state that is never visited, a feature that others determine) is set aside and reported as `structure`.
    All systems are then solved by LU, and their condition is estimated on the way. Where rounding could
    decide, singular values of the sum of all systems that are rounding noise are left out of each, and
    counted. What is then still singular in one system gets an SVD of its own.

    Parameters
    ----------
    rcond : float, optional
        Singular values of the equilibrated matrix up to this share of the largest are left out. Default
        8 q eps: rounding level.

    Examples
    --------
    >>> A = np.diag([2.0, 1e-12, 0.0])  # the second feature has a small unit, the third is never seen
    >>> solution = Auto().solve(A[None], np.array([[4.0, 1e-12, 0.0]]))
    >>> solution.theta, solution.truncated
    (array([[2., 1., 0.]]), array([0]))
    >>> solution.structure.empty
    array([2])
    """

    plain: ClassVar[bool] = True
    rcond: float | None = None

    def __post_init__(self) -> None:
        if self.rcond is not None:
            check_real(self.rcond, "rcond", low=0.0, high=1.0, closed="neither")

    def solve(self, A: FloatArray, b: FloatArray, *, symmetric: bool = False) -> Solution:
        """See the base class."""
        m, q = A.shape[0], A.shape[-1]
        columns = as_columns(b)
        good = np.asarray(np.isfinite(A).all(axis=(1, 2)) & np.isfinite(columns).all(axis=(1, 2)))
        x = np.full(columns.shape, np.nan)
        condition, truncated = np.full(m, np.inf), np.full(m, q)
        largest = _largest_entries(A, good)
        occurs = largest.any(axis=0) | largest.any(axis=1)
        seen, empty = np.flatnonzero(occurs), np.flatnonzero(~occurs)
        if seen.size == 0:
            return finish(x, b, np.ones(m, dtype=bool), condition, truncated)
        rows, scales = equilibrate(largest[np.ix_(seen, seen)])
        stack = _Stack(A, columns, seen, rows, scales, self.rcond or ROUNDING * len(seen))
        size = max(1, _BLOCK_NUMBERS // q**2)
        some = np.flatnonzero(good)
        ill = np.zeros(m, dtype=bool)
        begun = min(size, _FIRST_LOOK) if some.size > 4 * _FIRST_LOOK else size
        for which in np.split(some, range(begun, some.size, size)):
            answers, condition[which], ill[which] = stack.solve_plainly(which)
            x[np.ix_(which, seen)] = answers
            if ill[which].all():  # most likely the rest is, too
                ill[some] = True
                break
        truncated[good & ~ill] = 0
        structure, lost = Structure(empty, np.empty((0, q))), np.zeros(q, dtype=np.intp)
        if ill.any():
            kept, some = stack.kept_directions(good), np.flatnonzero(ill)
            for first in range(0, some.size, size):
                which = some[first : first + size]
                answers, condition[which], truncated[which], involved = stack.solve_carefully(which, kept)
                x[np.ix_(which, seen)] = answers
                lost[seen] += involved
            structure = stack.structure(empty, kept.right)
        x[np.ix_(good, empty)] = 0.0
        return finish(
            x, b, ~good | (truncated >= len(seen)), condition, truncated, structure=structure, lost=lost
        )


# What None stands for.
DEFAULT_SOLVER = Auto()


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """What all systems together determine, in scaled coordinates."""

    left: FloatArray  # (q, d), with `right` what no system sees from either side
    right: FloatArray
    onto: (
        FloatArray  # (q, r), with `basis` what the sum of all systems determines; unused if that is the rest
    )
    basis: FloatArray
    truncated: int  # directions that are neither of the two
    lost: IntArray  # (q,): 1 for features that take part in a direction left out
    limit: float  # condition number from which on a system is looked at by itself


@dataclass(frozen=True, slots=True, eq=False)
class _Stack:
    """Systems with one common scaling."""

    A: FloatArray
    b: FloatArray
    seen: IntArray
    rows: FloatArray
    columns: FloatArray
    rcond: float

    def scaled(self, which: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the matrices and right-hand sides of some systems, equilibrated."""
        A, b = self._picked(which)
        A *= self.rows[:, None] * self.columns  # a copy, and powers of two
        return A, b * self.rows[:, None]

    def _picked(self, which: IntArray) -> tuple[FloatArray, FloatArray]:
        if len(self.seen) == self.A.shape[-1]:
            return self.A[which], self.b[which]
        return self.A[np.ix_(which, self.seen, self.seen)], self.b[np.ix_(which, self.seen)]

    def solve_plainly(self, which: IntArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return answers, condition numbers, and which of them deserve a second look."""
        x, condition = refined_solve(*self.scaled(which))
        doubtful = condition * _PROBE_MARGIN >= 1 / self.rcond
        return x * self.columns[:, None], condition, doubtful

    def solve_carefully(
        self, which: IntArray, kept: _Kept
    ) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
        """Set the common null space aside, solve for what all data determine, and truncate what is left.

        Returns what `_truncated` does.
        """
        left, right = kept.left, kept.right
        if kept.truncated:  # the same in fewer coordinates, scaled on the way
            A, b = self._picked(which)
            onto, beside = kept.onto, kept.onto - left @ (left.T @ kept.onto)
            A = (onto * self.rows[:, None]).T @ A @ (kept.basis * self.columns[:, None])
            A += (onto.T @ left) @ (right.T @ kept.basis)
            b = (beside * self.rows[:, None]).T @ b
        else:
            A, b = self.scaled(which)
            A += left @ right.T
            b = b - left @ (left.T @ b)
        lost, truncated = len(which) * kept.lost, np.full(len(which), kept.truncated)
        x, condition = refined_solve(A, b)
        ill = condition >= kept.limit
        if ill.any():
            x[ill], condition[ill], gone, involved = _truncated(A[ill], b[ill], self.rcond)
            truncated[ill] += gone
            lost += 0 if kept.truncated else involved
        x = kept.basis @ x if kept.truncated else x
        x -= right @ (right.T @ x)
        return x * self.columns[:, None], condition, truncated, lost

    def structure(self, empty: IntArray, right: FloatArray) -> Structure:
        """Return what was set aside, in units of the features."""
        q = self.A.shape[-1]
        dependent, size = np.zeros((right.shape[1], q)), np.ones(q)
        dependent[:, self.seen] = (right * np.sqrt(self.columns / self.rows)[:, None]).T
        size[self.seen] = 1.0 / np.sqrt(self.rows * self.columns)
        return Structure(empty, dependent, size)

    def kept_directions(self, good: BoolArray) -> _Kept:
        """Return what no system sees from either side, and what else is at rounding level in their sum."""
        total = self.A.sum(axis=0, where=good[:, None, None])[np.ix_(self.seen, self.seen)]
        total = total * self.rows[:, None] * self.columns
        left, right = common_null_space(total, self.rows, self.columns, self.rcond)
        total += left @ right.T
        lost = np.zeros(len(total), dtype=np.intp)
        if refined_solve(total[None], total[None, :, :1])[1][0] * _PROBE_MARGIN < 1 / self.rcond:
            return _Kept(left, right, left, right, 0, lost, 1 / (_PROBE_MARGIN * self.rcond))
        rows, columns = equilibrate(total)
        U, s, Vt = (part[0] for part in robust_svd(total[None] * rows[:, None] * columns))
        rank = int(np.count_nonzero(s > self.rcond * s[0]))
        lost += takes_part(Vt[rank:]).any(axis=0)
        onto, basis = U[:, :rank] * rows[:, None], columns[:, None] * Vt[:rank].T
        # The border is not looked for again in every system: those of subsets are about as far from it.
        return _Kept(left, right, onto, basis, len(total) - rank, lost, SINGULAR_CONDITION)


def refined_solve(A: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve a stack by LU with an estimate of its condition, and refine what is not well-conditioned.

    Parameters
    ----------
    A : ndarray of shape (m, q, q)
    b : ndarray of shape (m, q, r)

    Returns
    -------
    x : ndarray of shape (m, q, r)
        NaN where A is exactly singular.
    condition : ndarray of shape (m,)
        In the Frobenius norm: that of A times the root mean square of A^-1 z over four random z, which is an
        unbiased estimate of the square (Kenney and Laub 1994).
    """
    m, q = A.shape[:2]
    probes = _probes(q)
    if q >= LARGE:  # one by one, so that a factor serves its refinement, too
        return _refined_one_by_one(A, b, probes)
    x, failed = solve_stack(A, np.concatenate([b, np.broadcast_to(probes, (m, q, _N_PROBES))], axis=2))
    answers, measured = x[:, :, : b.shape[2]], x[:, :, b.shape[2] :]
    inverse = np.sqrt(np.einsum("mqp,mqp->m", measured, measured) / _N_PROBES)
    condition = np.sqrt(np.einsum("mij,mij->m", A, A)) * inverse
    condition[failed] = np.inf
    rough = np.flatnonzero((condition > _REFINE_FROM) & ~failed)
    if rough.size:
        step, again = solve_stack(A[rough], b[rough] - A[rough] @ answers[rough])
        answers[rough[~again]] += step[~again]
    return answers, condition


@lru_cache(maxsize=16)  # a generator takes as long as a small system
def _probes(q: int) -> FloatArray:
    """Return random right-hand sides that measure an inverse, shape (q, r)."""
    return np.random.default_rng(0).normal(size=(q, _N_PROBES))


def _refined_one_by_one(A: FloatArray, b: FloatArray, probes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Do the same for large systems: each is factored once, and refined while it is in the cache."""
    x, condition = np.full(b.shape, np.nan), np.full(len(A), np.inf)
    for i, (matrix, right) in enumerate(zip(A, b, strict=True)):
        factors, pivots, singular = lapack.dgetrf(matrix)
        if singular:
            continue
        found = lapack.dgetrs(factors, pivots, np.concatenate([right, probes], axis=1))[0]
        answer, measured = found[:, : right.shape[1]], found[:, right.shape[1] :]
        condition[i] = np.linalg.norm(matrix) * np.linalg.norm(measured) / np.sqrt(_N_PROBES)
        if condition[i] > _REFINE_FROM:
            answer += lapack.dgetrs(factors, pivots, right - matrix @ answer)[0]
        x[i] = answer
    return x, condition


def _truncated(
    A: FloatArray, b: FloatArray, rcond: float
) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """Solve by the pseudo-inverse, each system in units of its own.

    Returns answers, condition numbers, how many directions each lost, and how often each feature took part.
    """
    rows, columns = equilibrate(A)
    scaled = A * rows[:, :, None] * columns[:, None, :]
    x, condition, kept, Vt = truncated_solve(scaled, b * rows[:, :, None], rcond)
    lost = (takes_part(Vt) & ~kept[:, :, None]).any(axis=1).sum(axis=0)
    return x * columns[:, :, None], condition, np.count_nonzero(~kept, axis=1), lost


def _largest_entries(A: FloatArray, good: BoolArray) -> FloatArray:
    """Return the largest absolute entries over the systems, shape (q, q)."""
    if not good.any():
        return np.zeros(A.shape[1:])
    kept = A if good.all() else A[good]
    return np.asarray(np.maximum(kept.max(axis=0), -kept.min(axis=0)))


# Solvers as words on the command line: lu, pinv, pinv:1e-6, auto, ridge:0.1.


# Name -> kind, and whether it goes with a number: never, always, or as one likes.
_SOLVERS: dict[str, tuple[Any, tuple[bool, ...]]] = {
    "pinv": (PseudoInverse, (False, True)),
    "lu": (LU, (False,)),
    "auto": (Auto, (False, True)),
    "ridge": (Ridge, (True,)),
}


def parse_solver(solver: str) -> Solver:
    """Return the solver that a word names.

    Parameters
    ----------
    solver : str
        "pinv" (threshold sqrt(eps), as published), "pinv:RCOND", "lu" (the plain inverse), "auto",
        "auto:RCOND" or "ridge:ALPHA" with ALPHA on the scale of the sums over a subset.

    Returns
    -------
    Solver

    Examples
    --------
    >>> parse_solver("pinv:1e-6")
    PseudoInverse(rcond=1e-06)
    """
    name, _, number = check_text(solver, "solver").partition(":")
    check_choice(name, "solver", list(_SOLVERS))
    kind, takes_number = _SOLVERS[name]
    if bool(number) not in takes_number:
        rule = f'"{name}" without a number' if number else f'"{name}:NUMBER"'
        raise ValueError(must_be("solver", rule, repr(solver), 'For example "lu" or "ridge:0.1".'))
    try:
        value = [float(number)] if number else []
    except ValueError as error:
        rule = f'"{name}" with a number after the colon'
        raise ValueError(must_be("solver", rule, repr(solver), 'For example "pinv:1e-6".')) from error
    found: Solver = kind(*value)
    return found
