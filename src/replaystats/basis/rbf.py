"""Radial basis functions: one Gaussian bump per centre."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._core.typing import FloatArray
from .._core.validation import check_int, check_real
from ._gaussian import GaussianBumps, median_distance, require_distinct
from ._parameters import check_flag, frozen_points, settle


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class RBF(GaussianBumps):
    """Gaussian bumps ``exp(-|x - c|^2 / (2 bandwidth^2))`` around centres c.

    Parameters
    ----------
    centers : int, or array of shape (m, d) or (m,)
        The centres; or how many different states `fit` draws at random for them.
    bandwidth : float > 0, optional
        Width of a bump. By default the median distance between two centres.
    intercept : bool
        Whether to put a constant function 1 first.

    Examples
    --------
    >>> RBF([-1.0, 0.0, 1.0], bandwidth=0.5)([0.0]).round(4)
    array([[0.1353, 1.    , 0.1353]])
    >>> RBF(5).fit(np.linspace(0.0, 1.0, 30), rng=0).centers.shape
    (5, 1)
    """

    centers: int | FloatArray | Sequence[float] | Sequence[Sequence[float]]
    bandwidth: float | None = None
    intercept: bool = False

    def __post_init__(self) -> None:
        settle(self, intercept=check_flag(self.intercept, "intercept"))
        if self.bandwidth is not None:
            settle(self, bandwidth=check_real(self.bandwidth, "bandwidth", low=0.0, closed="neither"))
        if np.ndim(self.centers) == 0:
            settle(self, centers=check_int(self.centers, "centers"))
            return
        centers = frozen_points(self.centers, "centers")
        settle(self, centers=centers)
        if self.bandwidth is None:
            settle(self, bandwidth=median_distance(centers, "bandwidth"))

    @property
    def n_centers(self) -> int:
        """Number of centres, known or still to be drawn."""
        return self.centers if isinstance(self.centers, int) else len(self.centers)

    @property
    def n_basis(self) -> int:
        """Number of functions q, the intercept included."""
        return self.n_centers + int(self.intercept)

    @property
    def dimension(self) -> int | None:
        """Dimension d of the states; None until the centres are known."""
        return np.shape(self.centers)[1] if self.fitted else None

    @property
    def fitted(self) -> bool:
        """Whether the centres are known."""
        return not isinstance(self.centers, int)

    @property
    def _constant(self) -> float | None:
        return 1.0 if self.intercept else None

    @property
    def _bumps(self) -> tuple[FloatArray, float]:
        assert self.bandwidth is not None  # settled together with the centres
        return np.asarray(self.centers, dtype=np.float64), 0.5 / self.bandwidth**2

    def _combine(self, bumps: FloatArray) -> FloatArray:
        return bumps

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> RBF:
        return replace(self, centers=require_distinct(x, self.n_centers, "centers", rng))
