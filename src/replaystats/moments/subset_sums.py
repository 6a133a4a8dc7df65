"""The moments of B subsets, summed: what a solver is given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.typing import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class SubsetSums:
    """Sums over every subset: A (B, q, q) of g and b (B, q) or (B, q, n_outputs) of f."""

    A: FloatArray
    b: FloatArray
    symmetric: bool

    def join(self, more: SubsetSums) -> SubsetSums:
        """Return these sums followed by `more`."""
        return SubsetSums(np.concatenate([self.A, more.A]), np.concatenate([self.b, more.b]), self.symmetric)

    def __len__(self) -> int:
        return len(self.A)

    def __repr__(self) -> str:
        return f"SubsetSums({len(self)} subsets, q={self.A.shape[1]})"
