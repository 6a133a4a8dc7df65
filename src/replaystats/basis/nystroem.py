"""Nystroem features: a Gaussian kernel seen from a few landmarks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import eigh

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_int, check_real
from ._gaussian import GaussianBumps, median_gamma, require_distinct
from ._parameters import check_flag, frozen, frozen_points, settle


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Nystroem(GaussianBumps):
    """Features K(x, landmarks) K_mm^(-1/2) of the kernel exp(-gamma |x - y|^2).

    Inner products of features are the kernel exactly when x or y is a landmark, and its best
    approximation from the landmarks elsewhere.

    Parameters
    ----------
    n_components : int >= 1
        Number of landmarks m, and of features without the intercept.
    gamma : float > 0, optional
        Of the kernel. By default 1 / (2 h^2) with h the median distance between two landmarks.
    landmarks : array of shape (m, d), optional
        The landmarks; by default `fit` draws different states at random.
    intercept : bool
        Whether to put a constant function 1 first.

    Notes
    -----
    Gaussian kernel matrices are often singular to working precision. Directions in which the eigenvalue
    of K_mm is below m eps times the largest are left out of the inverse square root (a pseudo-inverse);
    the number of features stays m.

    Examples
    --------
    >>> states = np.linspace(0.0, 1.0, 6)
    >>> phi = Nystroem(6, gamma=20.0).fit(states)(states)
    >>> kernel = np.exp(-20.0 * (states[:, None] - states) ** 2)
    >>> bool(np.allclose(phi @ phi.T, kernel))
    True
    """

    n_components: int
    gamma: float | None = None
    landmarks: ArrayLike | None = None
    intercept: bool = False
    projection: FloatArray | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        settle(self, n_components=check_int(self.n_components, "n_components"))
        settle(self, intercept=check_flag(self.intercept, "intercept"))
        if self.gamma is not None:
            settle(self, gamma=check_real(self.gamma, "gamma", low=0.0, closed="neither"))
        if self.landmarks is None:
            return
        landmarks = frozen_points(self.landmarks, "landmarks")
        if len(landmarks) != self.n_components:
            raise ValueError(must_be("landmarks", f"n_components = {self.n_components} rows", len(landmarks)))
        settle(self, landmarks=landmarks)
        if self.gamma is None:
            settle(self, gamma=median_gamma(landmarks, "gamma"))
        settle(self, projection=frozen(_inverse_square_root(self._kernel(landmarks))))

    @property
    def n_basis(self) -> int:
        """Number of functions q, the intercept included."""
        return self.n_components + int(self.intercept)

    @property
    def dimension(self) -> int | None:
        """Dimension d of the states; None until the landmarks are known."""
        return self._bumps[0].shape[1] if self.fitted else None

    @property
    def fitted(self) -> bool:
        """Whether the landmarks are known."""
        return self.landmarks is not None

    @property
    def _constant(self) -> float | None:
        return 1.0 if self.intercept else None

    @property
    def _bumps(self) -> tuple[FloatArray, float]:
        assert self.gamma is not None  # settled together with the landmarks
        return np.asarray(self.landmarks, dtype=np.float64), self.gamma

    def _combine(self, bumps: FloatArray) -> FloatArray:
        assert self.projection is not None  # settled together with the landmarks
        combined = np.tensordot(bumps, self.projection, axes=(1, 0))  # (N, ..., q)
        out: FloatArray = np.moveaxis(combined, -1, 1)
        return out

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> Nystroem:
        return replace(self, landmarks=require_distinct(x, self.n_components, "n_components", rng))


def _inverse_square_root(kernel: FloatArray) -> FloatArray:
    """Return the symmetric pseudo-inverse square root of a positive semi-definite matrix."""
    # eigh and not Cholesky: the latter stops on the nearly singular matrices that are normal here.
    values, vectors = eigh(kernel)
    kept = values > len(kernel) * np.finfo(np.float64).eps * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    out: FloatArray = root @ vectors[:, kept].T
    return out
