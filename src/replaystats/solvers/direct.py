"""Solvers that invert the matrix as it is (LU, Cholesky) or with a penalty (Ridge)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._core.errors import must_be
from .._core.linalg import cholesky_stack, condition_stack, solve_stack
from .._core.typing import FloatArray
from .._core.validation import check_real
from .base import SINGULAR_CONDITION, Solution, Solver, as_columns, finish


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
class Cholesky(Solver):
    """For symmetric positive definite matrices; anything else counts as failed.

    Examples
    --------
    >>> A, b = np.array([[[2.0]], [[-2.0]]]), np.ones((2, 1, 1))
    >>> Cholesky().solve(A, b, symmetric=True).failed
    array([False,  True])
    """

    plain: ClassVar[bool] = True

    def solve(self, A: FloatArray, b: FloatArray, *, symmetric: bool = False) -> Solution:
        """See the base class."""
        if not symmetric:
            hint = "Use LU(), or pass symmetric=True to Moments if they are."
            raise ValueError(must_be("solver", "LU() where moments are not symmetric", "Cholesky()", hint))
        lower, failed = cholesky_stack(A)
        good = ~failed
        x = np.full(as_columns(b).shape, np.nan)
        half = np.linalg.solve(lower[good], as_columns(b)[good])
        x[good] = np.linalg.solve(lower[good].swapaxes(1, 2), half)
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
