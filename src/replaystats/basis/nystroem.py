"""Nystroem features: a Gaussian kernel seen from a few landmarks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dtrtri

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_int, check_real
from ._gaussian import GaussianBumps, median_gamma, require_distinct
from ._parameters import check_flag, frozen, frozen_points, settle


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Nystroem(GaussianBumps):
    """Features K(x, landmarks) P of the kernel ``exp(-gamma |x - y|^2)``, with P P^T = K_mm^(-1).

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
    P is the inverse of a Cholesky factor, or, where K_mm is nearly singular, an inverse square root from
    eigenvalues. Gaussian kernel matrices are often singular to working precision: directions in which the
    eigenvalue of K_mm is below m eps times the largest are left out (a pseudo-inverse); the number of
    features stays m.

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
        settle(self, projection=frozen(_inverse_root(self._kernel(landmarks))))

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


def _inverse_root(kernel: FloatArray) -> FloatArray:
    """Return P with P P^T the (pseudo-)inverse of a positive semi-definite matrix."""
    rounding = len(kernel) * float(np.finfo(np.float64).eps)
    # Ten times faster than eigenvalues. Its pivots bound the smallest eigenvalue from above only, so they
    # must be well clear of rounding.
    lower, info = dpotrf(kernel, lower=1, clean=1)
    if info == 0 and np.diag(lower).min() ** 2 > 100 * rounding * kernel.diagonal().max():
        return np.asarray(dtrtri(lower, lower=1)[0].T)
    values, vectors = eigh(kernel)
    kept = values > rounding * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    out: FloatArray = root @ vectors[:, kept].T
    return out
