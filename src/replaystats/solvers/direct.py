"""Solvers of one rule: LU, a penalty (Ridge), and the pseudo-inverse that cuts small directions."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg

from .._core.errors import ReplayWarning
from .._core.linalg import condition_stack, solve_stack
from .._core.typing import BoolArray, FloatArray
from .._core.validation import check_real
from .base import SINGULAR_CONDITION, Solution, Solver, as_columns, finish

DEFAULT_RCOND = float(np.sqrt(np.finfo(np.float64).eps))


@dataclass(frozen=True, slots=True)
class PseudoInverse(Solver):
    """Moore-Penrose inverse: singular values up to rcond times the largest count as zero.

    The default sqrt(eps) = 1.49e-8 is that of R's ``MASS::ginv``, which the published numbers used. On
    ill-conditioned problems the truncation is a regulariser, and a strong one: it decides what replay does.

    Parameters
    ----------
    rcond : float
        Relative threshold.

    Examples
    --------
    >>> import numpy as np
    >>> solution = PseudoInverse().solve(np.diag([2.0, 1e-12])[None], np.array([[4.0, 1.0]]))
    >>> solution.theta, solution.truncated
    (array([[2., 0.]]), array([1]))
    """

    rcond: float = DEFAULT_RCOND

    def __post_init__(self) -> None:
        check_real(self.rcond, "rcond", low=0.0, high=1.0, closed="left")

    def solve(self, A: FloatArray, b: FloatArray, *, symmetric: bool = False) -> Solution:
        """See the base class."""
        x = np.full(as_columns(b).shape, np.nan)
        condition = np.full(len(A), np.inf)
        truncated = np.full(len(A), A.shape[-1])
        good = np.isfinite(A).all(axis=(1, 2))
        x[good], condition[good], kept, _ = truncated_solve(A[good], as_columns(b)[good], self.rcond)
        truncated[good] = np.count_nonzero(~kept, axis=1)
        return finish(x, b, truncated == A.shape[-1], condition, truncated)


def truncated_solve(
    A: FloatArray, b: FloatArray, rcond: float
) -> tuple[FloatArray, FloatArray, BoolArray, FloatArray]:
    """Solve a stack of systems by the pseudo-inverse.

    Parameters
    ----------
    A : ndarray of shape (m, q, q)
        Finite.
    b : ndarray of shape (m, q, r)
    rcond : float

    Returns
    -------
    x : ndarray of shape (m, q, r)
    condition : ndarray of shape (m,)
    kept : ndarray of bool, shape (m, q)
        Which singular values count.
    Vt : ndarray of shape (m, q, q)
        Their directions.
    """
    U, s, Vt = robust_svd(A)
    kept = s > rcond * s[:, :1]
    scale = np.where(kept, 1.0 / np.where(kept, s, 1.0), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        condition = np.where(s[:, -1] > 0, s[:, 0] / s[:, -1], np.inf)
    # Project before dividing: forming the inverse first would cost q times more.
    x = Vt.swapaxes(1, 2) @ (scale[:, :, None] * (U.swapaxes(1, 2) @ b))
    return x, condition, kept, Vt


def robust_svd(A: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return U, s and V^T of a stack, by a slower algorithm where LAPACK's fast one does not converge.

    What neither of them can do is NaN, and a warning says how many of these there were.
    """
    with contextlib.suppress(np.linalg.LinAlgError):
        return tuple(np.linalg.svd(A))  # type: ignore[return-value]
    U, s, Vt = np.full_like(A, np.nan), np.full(A.shape[:2], np.nan), np.full_like(A, np.nan)
    for i, matrix in enumerate(A):
        with contextlib.suppress(np.linalg.LinAlgError):
            U[i], s[i], Vt[i] = scipy.linalg.svd(matrix, lapack_driver="gesvd")
    warnings.warn(
        f"The SVD of {len(A)} systems together did not converge; one by one and by a slower algorithm, "
        f"{np.isnan(s).any(axis=1).sum()} of them count as failed.",
        ReplayWarning,
        stacklevel=4,
    )
    return U, s, Vt


@dataclass(frozen=True, slots=True)
class LU(Solver):
    """The plain inverse of the paper's formula; fails where the condition number exceeds 1 / eps.

    Examples
    --------
    >>> import numpy as np
    >>> LU().solve(np.array([[[2.0]], [[0.0]]]), np.array([[4.0], [1.0]])).failed
    array([False,  True])
    """

    plain: ClassVar[bool] = True

    def solve(self, A: FloatArray, b: FloatArray, *, symmetric: bool = False) -> Solution:
        """See the base class."""
        x, failed = solve_stack(A, as_columns(b))
        condition = condition_stack(A, failed)
        return finish(x, b, failed | (condition > SINGULAR_CONDITION), condition)


@dataclass(frozen=True, slots=True)
class Ridge(Solver):
    """Add alpha I to every matrix of sums, once per solve.

    Parameters
    ----------
    alpha : float
        Penalty on the scale of the sums over a subset, as in ``sklearn.linear_model.Ridge``.

    Examples
    --------
    >>> Ridge(alpha=1.0).solve(np.array([[[3.0]]]), np.array([[[2.0]]])).theta.ravel()  # 2 / (3 + 1)
    array([0.5])
    """

    alpha: float

    def __post_init__(self) -> None:
        check_real(self.alpha, "alpha", low=0.0, hint="alpha=0 is LU().")

    def solve(self, A: FloatArray, b: FloatArray, *, symmetric: bool = False) -> Solution:
        """See the base class."""
        return LU().solve(A + self.alpha * np.eye(A.shape[-1]), b, symmetric=symmetric)


@dataclass(frozen=True, slots=True, eq=False)
class ScaledRidge(Solver):
    """A ridge on scaled coefficients that leaves the direction of a constant unpenalised.

    Symmetric matrices get (A + P) theta = b, others (A'S A + P) theta = A'S b; S scales rows to one size.
    P = penalty * D (I - v v') D with D the sizes of the columns and v = D u / |D u| for the direction u of a
    constant, so that P u = 0: a constant added to all responses moves the answer by that constant, and other
    units change nothing.

    Attributes
    ----------
    matrix : ndarray of shape (q, q)
        P, on the scale of the sums that are solved.
    rows : ndarray of shape (q,) or None
        The diagonal of S; None for symmetric matrices.
    penalty : float
        For the record.
    """

    matrix: FloatArray
    rows: FloatArray | None
    penalty: float

    @classmethod
    def of(
        cls, A: FloatArray, penalty: float, constant: FloatArray | None, *, symmetric: bool
    ) -> ScaledRidge:
        """Return the solver whose scales come from the sums A of all data."""
        rows = None
        if not symmetric:
            sizes = np.linalg.norm(A, axis=1)
            rows = 1.0 / np.square(np.where(sizes > 0, sizes, 1.0))
        squares = np.diagonal(A) if rows is None else (rows[:, None] * A * A).sum(axis=0)
        D = np.sqrt(np.maximum(squares, 0.0))
        D = np.where(D > 0, D, D[D > 0].mean() if D.any() else 1.0)  # never seen: the constant's value
        kept = np.eye(len(A))
        if constant is not None and np.any(D * constant):
            v = D * constant / np.linalg.norm(D * constant)
            kept -= np.outer(v, v)
        return cls(penalty * D[:, None] * kept * D, rows, penalty)

    def scaled(self, share: float) -> ScaledRidge:
        """Return the same penalty for sums over a share of the data."""
        factor = share if self.rows is None else share**2
        return ScaledRidge(factor * self.matrix, self.rows, self.penalty)

    def solve(self, A: FloatArray, b: FloatArray, *, symmetric: bool = False) -> Solution:
        """See the base class."""
        if self.rows is None:
            return LU().solve(A + self.matrix, b, symmetric=symmetric)
        left = A.swapaxes(1, 2) * self.rows
        right = left @ as_columns(b)
        return LU().solve(left @ A + self.matrix, right.reshape(b.shape), symmetric=True)

    def __repr__(self) -> str:
        return f"ScaledRidge(penalty={self.penalty:.2g})"
