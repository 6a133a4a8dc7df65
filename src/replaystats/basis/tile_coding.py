"""Tile coding: indicators of the cells of several shifted grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._core.errors import must_be
from .._core.typing import FloatArray
from .._core.validation import check_int
from ._parameters import check_n_functions, check_per_dimension, settle
from .base import Basis


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class TileCoding(Basis):
    """Indicators of the tiles of `n_tilings` grids over the box [low, high], shifted against each other.

    On axis a, counted from 0, tiling t is shifted by (t (2 a + 1) mod T + 1/2) / T - 1/2 tiles, where
    T = n_tilings; odd steps that differ between axes keep the tilings from lining up on the diagonal.
    The outermost tiles take what the shift leaves over, and every state outside the box. So every state
    has exactly one active tile per tiling.

    Parameters
    ----------
    n_tilings : int >= 1
        Number of grids T.
    tiles_per_dim : int, or sequence of d ints
        Number of tiles along each axis.
    low, high : float, or sequence of d floats
        Corners of the box. The longest of the three gives the dimension d; a number holds for all axes.

    Examples
    --------
    >>> TileCoding(2, 2, low=0.0, high=1.0)([0.1, 0.5, 0.9])
    array([[1., 0., 1., 0.],
           [1., 0., 0., 1.],
           [0., 1., 0., 1.]])
    """

    derivative_hint: ClassVar[str] = (
        "Tiles have no derivatives; use a smooth basis such as Fourier, Polynomial or RBF."
    )

    n_tilings: int
    tiles_per_dim: int | Sequence[int]
    low: float | Sequence[float]
    high: float | Sequence[float]

    def __post_init__(self) -> None:
        dimension = max(np.size(self.low), np.size(self.high), np.size(self.tiles_per_dim))
        low = _spread(check_per_dimension(self.low, "low", dimension), dimension)
        high = _spread(check_per_dimension(self.high, "high", dimension), dimension)
        if not np.less(low, high).all():
            raise ValueError(must_be("high", f"above `low` = {self.low} on every axis", self.high))
        tiles = np.atleast_1d(np.asarray(self.tiles_per_dim, dtype=object))
        counts = tuple(check_int(count, "tiles_per_dim") for count in tiles)
        if len(counts) not in (1, dimension):
            rule = f"an int, or {dimension} ints (one per dimension)"
            raise ValueError(must_be("tiles_per_dim", rule, self.tiles_per_dim))
        settle(self, n_tilings=check_int(self.n_tilings, "n_tilings"), low=low, high=high)
        settle(self, tiles_per_dim=counts if len(counts) == dimension else counts * dimension)
        check_n_functions(self.n_basis, "tiles_per_dim", "Take fewer tiles.")

    @property
    def n_basis(self) -> int:
        """Number of functions q: tilings times tiles of one grid."""
        return self.n_tilings * math.prod(self._counts)

    @property
    def dimension(self) -> int:
        """Dimension d of the states."""
        return len(self._counts)

    @property
    def derivative_order(self) -> int:
        """Indicators have no derivatives."""
        return 0

    @property
    def _counts(self) -> tuple[int, ...]:
        counts = self.tiles_per_dim
        return (counts,) if isinstance(counts, int) else tuple(counts)

    @property
    def _shifts(self) -> FloatArray:
        """Shift of every tiling on every axis, in tiles, of shape (T, d)."""
        steps = np.arange(self.n_tilings)[:, None] * (2 * np.arange(self.dimension) + 1)
        return (steps % self.n_tilings + 0.5) / self.n_tilings - 0.5

    def _value(self, x: FloatArray) -> FloatArray:
        counts = np.array(self._counts)
        low, high = np.asarray(self.low), np.asarray(self.high)
        position = (x - low) / (high - low) * counts  # in tiles, (N, d)
        cell = np.floor(position[:, None, :] + self._shifts)  # (N, T, d)
        cell = np.clip(cell, 0, counts - 1).astype(int)
        tile = np.ravel_multi_index(tuple(np.moveaxis(cell, -1, 0)), self._counts)  # (N, T)
        column = tile + np.arange(self.n_tilings) * math.prod(self._counts)
        out = np.zeros((len(x), self.n_basis))
        np.put_along_axis(out, column, 1.0, axis=1)
        return out


def _spread(value: float | tuple[float, ...], dimension: int) -> tuple[float, ...]:
    """Return one number per axis."""
    return value if isinstance(value, tuple) else (value,) * dimension
