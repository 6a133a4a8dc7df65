"""The default: plain solves, and an SVD only where the condition asks for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.typing import FloatArray
from .._core.validation import check_real
from .base import Solution, Solver
from .direct import LU
from .truncated import DEFAULT_RCOND, PseudoInverse


@dataclass(frozen=True, slots=True)
class Auto(Solver):
    """LU where the condition number is below 1 / rcond, the pseudo-inverse elsewhere.

    Equal to ``PseudoInverse(rcond)`` up to rounding (a matrix that well conditioned loses no direction),
    at a fraction of its cost when few subsets are ill-conditioned.

    Parameters
    ----------
    rcond : float
        Relative threshold for singular values.
    """

    rcond: float = DEFAULT_RCOND

    def __post_init__(self) -> None:
        check_real(self.rcond, "rcond", low=0.0, high=1.0, closed="neither")

    def solve(self, A: FloatArray, b: FloatArray, *, symmetric: bool = False) -> Solution:
        """See the base class."""
        plain = LU().solve(A, b, symmetric=symmetric)
        # The 2-norm condition is at most q times the 1-norm one, so nothing that needs an SVD escapes.
        ill = plain.condition * A.shape[-1] >= 1 / self.rcond
        if not ill.any():
            return plain
        careful = PseudoInverse(self.rcond).solve(A[ill], b[ill], symmetric=symmetric)
        merged = [np.array(getattr(plain, name)) for name in ("theta", "failed", "condition", "truncated")]
        for whole, name in zip(merged, ("theta", "failed", "condition", "truncated"), strict=True):
            whole[ill] = getattr(careful, name)
        theta, failed, condition, truncated = merged
        return Solution(theta=theta, failed=failed, condition=condition, truncated=truncated)
