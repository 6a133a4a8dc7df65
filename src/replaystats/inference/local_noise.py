"""How noisy the targets are around a point: the mean size of the residuals of its neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from .._core.typing import FloatArray

# Mean sizes of 30 residuals vary by about 14 %; more neighbours see less of where the noise changes.
FEWEST_NEIGHBOURS = 30
# No place is taken to be quieter than this share of the typical noise: neighbours may agree by accident.
SMALLEST_SHARE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class LocalNoise:
    """Mean |residual| of the nearest rows, for rows of the data and for new points.

    Attributes
    ----------
    scale : ndarray of shape (n, n_outputs)
        At the rows themselves, from other rows only, so that a row's residual is judged without itself.
    """

    scale: FloatArray
    _search: Any
    _sizes: FloatArray
    _n_neighbours: int

    @classmethod
    def of(cls, points: FloatArray, residuals: FloatArray) -> LocalNoise:
        """Measure the noise around every row.

        Parameters
        ----------
        points : ndarray of shape (n, p)
            In units in which distances mean something.
        residuals : ndarray of shape (n, n_outputs)
            Of rows that their predictions did not use; NaN takes no part.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(size=(1000, 1))
        >>> noise = LocalNoise.of(x, x * rng.normal(size=(1000, 1)))
        >>> low, high = noise(np.array([[0.2], [0.8]]))[:, 0]
        >>> bool(3 < high / low < 5)
        True
        """
        known = np.isfinite(residuals).all(axis=1)
        sizes = np.abs(residuals[known])
        n_neighbours = min(len(sizes) - 1, max(FEWEST_NEIGHBOURS, math.isqrt(len(sizes))))
        search = NearestNeighbors(n_neighbors=n_neighbours).fit(points[known])
        floor = SMALLEST_SHARE * sizes.mean(axis=0)
        tiny = float(np.finfo(np.float64).tiny)
        scale = np.full(residuals.shape, np.nan)
        nearest = search.kneighbors(return_distance=False)  # of each row, without itself
        scale[known] = np.maximum(sizes[nearest].mean(axis=1), np.maximum(floor, tiny))
        return cls(scale, search, sizes, n_neighbours)

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return the typical size of the noise at new points (m, p), shape (m, n_outputs)."""
        nearest = self._search.kneighbors(points, return_distance=False)
        floor = np.maximum(SMALLEST_SHARE * self._sizes.mean(axis=0), np.finfo(np.float64).tiny)
        return np.asarray(np.maximum(self._sizes[nearest].mean(axis=1), floor))
