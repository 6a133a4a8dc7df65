"""Names for the kinds of array that travel between the stages."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ArrayLike", "BoolArray", "FloatArray", "IntArray", "RandomLike"]

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.integer[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
RandomLike: TypeAlias = "int | np.random.Generator | np.random.RandomState | np.random.SeedSequence | None"
