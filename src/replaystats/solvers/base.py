"""The solver contract: a stack of systems in, a stack of answers with their failures out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from .._core.typing import BoolArray, FloatArray
from ..moments import AnyMoments
from ..moments.subset_sums import SubsetSums
from ..plans import ResamplingPlan

# Beyond this condition number the answer has no correct digit left.
SINGULAR_CONDITION = 1 / float(np.finfo(np.float64).eps)


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
    """

    theta: FloatArray
    failed: BoolArray
    condition: FloatArray
    truncated: np.ndarray


class Solver(ABC):
    """How one subset's moment sums become its theta.

    A solver is a small frozen value; subclasses write `solve`.
    """

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
        return self.solve(A[None], b[None], symmetric=moments.symmetric)


def as_columns(b: FloatArray) -> FloatArray:
    """Return b with an explicit last axis of columns, as every batched solve needs."""
    return b[:, :, None] if b.ndim == 2 else b


def finish(
    x: FloatArray,
    b: FloatArray,
    failed: BoolArray,
    condition: FloatArray,
    truncated: np.ndarray | None = None,
) -> Solution:
    """Bring answers back to the shape of `b`, blank the failed ones, and wrap them."""
    failed = failed | ~np.isfinite(x).all(axis=(1, 2))
    theta = x.reshape(b.shape)
    theta[failed] = np.nan
    if truncated is None:
        truncated = np.zeros(failed.shape, dtype=np.intp)
    return Solution(theta=theta, failed=failed, condition=condition, truncated=truncated)
