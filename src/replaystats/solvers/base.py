"""The solver contract: a stack of systems in; answers, failures, and what no data can determine, out."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np
from scipy.linalg import lapack

from .._core.arrays import is_foreign
from .._core.errors import ReplayWarning
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_instance
from ..moments import FactoredMoments, Moments
from ..moments.factored import HeldMoments
from ..moments.record import SubsetSums
from ..moments.streamed import AnyMoments
from ..plans import ResamplingPlan

# A state that is never visited leaves an empty row and an empty column. Features that depend on one
# another, such as cos^2, sin^2 and 1, leave a direction v with A v = 0 and v^T A = 0. Neither says anything
# about the other coefficients, and no sum over a subset changes it: such directions are set aside before a
# system is solved, and the coefficients get no part along them. A direction that only one side of A does
# not see is another matter, because the others' answers depend on it.

# Rounding: null vectors at rounding level agree to about eps times the condition of the rest; cosines to its
# square.
_SAME_DIRECTION = 1.0 - 1e-6
# Layout: a feature is named as taking part in a direction if its coefficient, in units of the features, is at
# least this share.
_TAKES_PART = 0.05
# Beyond this condition number the answer has no correct digit left.
SINGULAR_CONDITION = 1 / float(np.finfo(np.float64).eps)
# Rounding: below this condition number sums lose fewer digits than anyone looks at.
REFINE_FROM = 1e4


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """Directions of theta that the systems of a stack do not contain.

    Attributes
    ----------
    empty : ndarray of int
        Features whose row and column are empty in every system.
    dependent : ndarray of shape (d, q)
        Combinations of features that vanish on all data, in units of the features.
    size : ndarray of shape (q,)
        Of the features: those units, in which entries of the systems are about one.
    """

    empty: IntArray
    dependent: FloatArray
    size: FloatArray = field(default_factory=lambda: np.ones(1))

    @classmethod
    def none(cls) -> Self:
        """Return the structure of a solver that looks for none."""
        return cls(np.zeros(0, dtype=np.intp), np.zeros((0, 0)))

    @property
    def n_directions(self) -> int:
        """Number of directions set aside."""
        return len(self.empty) + len(self.dependent)

    def completed(self, A: FloatArray) -> FloatArray:
        """Return A (..., q, q) with one where it has nothing: the same answers, from a matrix of full rank.

        In units of the features the directions set aside are orthogonal to what A maps from and to, so that
        neither sees the other.
        """
        if self.n_directions == 0:
            return A
        aside = np.linalg.qr(self.dependent.T).Q * np.broadcast_to(self.size, A.shape[-1:])[:, None]
        whole: FloatArray = A + aside @ aside.T
        whole[..., self.empty, self.empty] += 1.0
        return whole


def takes_part(directions: FloatArray) -> np.ndarray:
    """Return which features take part in each direction (..., q), given in units of the features."""
    size = np.abs(directions)
    part: np.ndarray = size >= _TAKES_PART * size.max(axis=-1, keepdims=True)
    return part


def name_features(features: IntArray) -> str:
    """Return features as words, the first eight of them.

    Examples
    --------
    >>> name_features(np.arange(100))
    'features 0, 1, 2, 3, 4, 5, 6, 7 and 92 more'
    """
    more = f" and {len(features) - 8} more" if len(features) > 8 else ""
    return f"feature{'' if len(features) == 1 else 's'} {', '.join(map(str, features[:8]))}{more}"


def common_null_space(
    A: FloatArray, rows: FloatArray, columns: FloatArray, rcond: float
) -> tuple[FloatArray, FloatArray]:
    """Return the directions that a scaled matrix sees from neither side.

    Parameters
    ----------
    A : ndarray of shape (q, q)
        Scaled: ``rows[:, None] * original * columns``.
    rows, columns : ndarray of shape (q,)
    rcond : float
        Singular values up to this share of the largest count as zero.

    Returns
    -------
    left, right : ndarray of shape (q, d)
        Orthonormal bases in scaled coordinates, with A right = 0 and left^T A = 0; both are the same space in
        the features' own coordinates.
    """
    # A[:, order] = Q R with pivots that decrease in size: the rank at a tenth of the work of an SVD. LAPACK's
    # own functions, because checks around them take longer than small systems.
    q, (packed, order, tau, *_) = len(A), lapack.dgeqp3(A)
    pivots = np.abs(np.diagonal(packed))
    rank = int(np.count_nonzero(pivots > rcond * pivots[0]))
    if rank == q:
        return np.empty((q, 0)), np.empty((q, 0))
    null, (kept, dropped) = np.zeros((q, q - rank)), np.split(order - 1, [rank])
    null[dropped, np.arange(q - rank)] = 1.0
    if rank:
        null[kept] = -lapack.dtrtrs(packed[:rank, :rank], packed[:rank, rank:])[0]
    left, right = lapack.dorgqr(packed, tau)[0][:, rank:], np.linalg.qr(null).Q
    # Features' own coordinates, in units in which they have comparable size: rows and columns share them.
    unit = np.sqrt(rows / columns)
    from_left = np.linalg.qr(unit[:, None] * left).Q
    from_right = np.linalg.qr(right / unit[:, None]).Q
    P, cosines, Qt = np.linalg.svd(from_left.T @ from_right)
    same = cosines > _SAME_DIRECTION
    left = np.linalg.qr((from_left @ P[:, same]) / unit[:, None]).Q
    right = np.linalg.qr((from_right @ Qt.T[:, same]) * unit[:, None]).Q
    return left, right


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """What a solver made of m systems.

    Attributes
    ----------
    theta : ndarray of shape (m, q) or (m, q, n_outputs)
        NaN where `failed`.
    failed : ndarray of bool, shape (m,)
        Numerically singular systems.
    condition : ndarray of shape (m,)
        Condition number of what was inverted.
    truncated : ndarray of int, shape (m,)
        Number of directions a truncating solver left out.
    structure : Structure
        Directions that no system contains; they are set aside and not counted as truncated.
    lost : ndarray of int, shape (q,)
        In how many systems each feature takes part in a direction that was left out; empty where the solver
        does not say.
    """

    theta: FloatArray
    failed: BoolArray
    condition: FloatArray
    truncated: np.ndarray
    structure: Structure = field(default_factory=Structure.none)
    lost: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


class Solver(ABC):
    """How one subset's moment sums become its theta.

    A solver is a small frozen value; subclasses write `solve`.

    Attributes
    ----------
    plain : bool
        Whether the answer solves the equations as they are: without a penalty, and without a truncation that
        is meant as one.
    is_linear : bool
        Whether the answer is linear in b given A: it does not look at single observations.

    Examples
    --------
    >>> class Halved(Solver):
    ...     def solve(self, A, b, *, symmetric=False):
    ...         return replace(LU().solve(A, b), theta=np.linalg.solve(A, b) / 2)
    >>> from dataclasses import replace
    >>> from replaystats.solvers import LU
    >>> Halved().solve(np.array([[[2.0]]]), np.array([[[4.0]]])).theta.ravel()
    array([1.])
    """

    plain: ClassVar[bool] = False
    is_linear: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.is_linear = cls.solve_subsets is Solver.solve_subsets and cls.solve_full is Solver.solve_full

    @abstractmethod
    def solve(self, A: FloatArray, b: FloatArray, *, symmetric: bool = False) -> Solution:
        """Solve a stack of systems.

        Parameters
        ----------
        A : ndarray of shape (m, q, q)
        b : ndarray of shape (m, q) or (m, q, n_outputs)
        symmetric : bool
            Whether every A is symmetric.
        """

    def solve_subsets(
        self, sums: SubsetSums, moments: AnyMoments, plan: ResamplingPlan, start: int
    ) -> Solution:
        """Solve the systems of the subsets from number `start` on.

        Solvers that look at single observations (to choose a penalty, say) override this.
        """
        return self.solve(sums.A, sums.b, symmetric=sums.symmetric)

    def solve_full(self, moments: AnyMoments) -> Solution:
        """Solve the one system of all observations, as a stack of one."""
        A, b = moments.total()
        found = self.solve_beside(moments, A, b)
        return replace(found, theta=found.theta[:, :, : -len(b)].reshape(1, *b.shape))

    def solve_beside(self, moments: AnyMoments, A: FloatArray, b: FloatArray) -> Solution:
        """Solve the one system A, b of all observations and, in q further columns, for the inverse.

        A plain inverse of an ill-conditioned matrix is refined with the residuals of the observations, which
        are far more accurate than those of their sums (corrected seminormal equations, Bjorck 1987): least
        squares then agree with a QR decomposition of the data.
        """
        columns = np.concatenate([b.reshape(len(b), -1), np.eye(len(b))], axis=1)
        solution = self.solve(A[None], columns[None], symmetric=moments.symmetric)
        if not (self.plain and solution.condition[0] > REFINE_FROM and _rereadable(moments)):
            return solution
        answer, inverse = solution.theta[:, :, : -len(b)], solution.theta[:, :, -len(b) :]
        residual = np.asarray(moments.residuals(answer.reshape(b.shape))).sum(axis=0)
        answer += inverse @ residual.reshape(answer.shape)  # a view; a correction needs few digits
        return solution


def check_solver(solver: Any) -> Solver | None:
    """Return `solver` if it is one, or None; a name or a class is not."""
    hint = "For example solvers.Ridge(0.1); leave it out for the default."
    checked: Solver | None = None if solver is None else check_instance(solver, "solver", Solver, hint)
    return checked


def as_columns(b: FloatArray) -> FloatArray:
    """Return b with an explicit last axis of columns, as every batched solve needs."""
    return b[:, :, None] if b.ndim == 2 else b


def finish(
    x: FloatArray,
    b: FloatArray,
    failed: BoolArray,
    condition: FloatArray,
    truncated: np.ndarray | None = None,
    **reported: Any,
) -> Solution:
    """Bring answers back to the shape of `b`, blank the failed ones, and wrap them."""
    failed = failed | ~np.isfinite(x).all(axis=(1, 2))
    theta = x.reshape(b.shape)
    theta[failed] = np.nan
    if truncated is None:
        truncated = np.zeros(failed.shape, dtype=np.intp)
    return Solution(theta=theta, failed=failed, condition=condition, truncated=truncated, **reported)


def warn_left_out(solution: Any, *, stacklevel: int = 3) -> None:
    """Say which features take part in directions that were left out.

    Parameters
    ----------
    solution : Solution or MomentReplicates
        What a solver returned.
    stacklevel : int
        As in `warnings.warn`, seen from the caller.
    """
    involved = name_features(np.flatnonzero(solution.lost))
    m, n_lost = len(solution.truncated), int(np.count_nonzero(solution.truncated))
    where = "" if m == 1 else f" in {n_lost} of {m} subsets"
    warnings.warn(
        f"The data do not determine every direction of theta{where}: up to {solution.truncated.max()} "
        f"direction(s), in which {involved} take part, are at rounding level and were left out. Answers that "
        "depend on them mean nothing: use fewer basis functions, more data, or solver=Ridge(alpha).",
        ReplayWarning,
        stacklevel=stacklevel,
    )


def _rereadable(moments: AnyMoments) -> TypeGuard[HeldMoments]:
    """Whether the single observations lie in this machine's memory."""
    return isinstance(moments, FactoredMoments) or (
        isinstance(moments, Moments) and not is_foreign(moments.rows)
    )
