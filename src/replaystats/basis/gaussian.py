"""Gaussian bumps around points: `RBF`, and `Nystroem`, whose bumps are turned into features of a kernel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist, pdist

from .._core.arrays import as_array, frozen, is_foreign, like
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_bool, check_int, check_real
from .base import Basis, check_n_functions, frozen_points, set_fitted


def draw_distinct(x: FloatArray, n_points: int, rng: np.random.Generator) -> FloatArray:
    """Return up to `n_points` different rows of `x`, drawn at random.

    The rows are sorted before the draw, so that the order of the data does not matter.
    """
    rows = np.unique(x, axis=0)
    if len(rows) <= n_points:
        return rows
    return rows[np.sort(rng.choice(len(rows), size=n_points, replace=False))]


def require_distinct(x: FloatArray, n_points: int, name: str, rng: np.random.Generator) -> FloatArray:
    """Return exactly `n_points` different rows of `x`, drawn at random, or say that there are too few."""
    points = draw_distinct(x, n_points, rng)
    if len(points) < n_points:
        rule = f"at most the number of distinct states ({len(points)})"
        raise ValueError(must_be(name, rule, n_points, "Ask for fewer or give more states."))
    return points


def neighbor_widths(points: FloatArray, name: str) -> FloatArray:
    """Return a width per point (m,), from its neighbours; `name` is the parameter that it replaces.

    On a grid in d dimensions a point has 2d neighbours: the width is the distance to the 2d-th nearest, or
    the median of these distances where it is larger. Such bumps overlap enough to be smooth together, reach
    data where points are rare, and differ from each other. The median of *all* distances, which grows with
    the extent of the data and not with the distance of the points, makes most bumps combinations of a few.
    """
    k = min(2 * points.shape[1], len(points) - 1)
    distance: FloatArray = np.zeros(1)
    if k:
        distance = np.asarray(cKDTree(points).query(points, [k + 1])[0], dtype=np.float64)[:, 0]
    typical = float(np.median(distance))
    if typical == 0.0:
        hint = "Its default needs points that are mostly different."
        raise ValueError(must_be(name, "given", "None", hint))
    return np.maximum(distance, typical)


def median_gamma(points: FloatArray, name: str) -> float:
    """Return gamma = 1 / (2 h^2), in place of the parameter `name`, with h the points' median distance."""
    distance = float(np.median(pdist(points))) if len(points) > 1 else 0.0
    if distance == 0.0:
        hint = "The median heuristic needs points that are mostly different."
        raise ValueError(must_be(name, "given", "None", hint))
    return 0.5 / distance**2


class GaussianBumps(Basis):
    """Fixed linear combinations of exp(-gamma |x - c|^2) over m points c.

    With u = x - c and k the kernel, the gradient of k is -2 gamma u k and its Hessian
    (4 gamma^2 u u' - 2 gamma I) k.
    """

    __slots__ = ()

    anywhere: ClassVar[bool] = True

    @property
    @abstractmethod
    def _bumps(self) -> tuple[FloatArray, float | FloatArray]:
        """Points (m, d) and gamma, one for all or one each (m,)."""

    @abstractmethod
    def _combine(self, bumps: FloatArray) -> FloatArray:
        """Turn (N, m, ...), one column per point, into (N, q, ...)."""

    def _bumps_at(self, x: FloatArray) -> tuple[Any, Any]:
        """Return points and gamma where the states are."""
        points, gamma = self._bumps
        return like(points, x), like(gamma, x) if isinstance(gamma, np.ndarray) else gamma

    def _value(self, x: FloatArray) -> FloatArray:
        return self._combine(self._kernel(x))

    def _directional(self, x: FloatArray, direction: FloatArray) -> FloatArray:
        points, gamma = self._bumps_at(x)
        slope = (x * direction).sum(axis=1)[:, None] - direction @ points.T  # u.v, (N, m)
        return self._combine(-2.0 * gamma * slope * self._kernel(x))

    def _second_order(self, x: FloatArray, matrix: FloatArray) -> FloatArray:
        points, gamma = self._bumps_at(x)
        xp, (m, d) = array_namespace(x), points.shape
        # u'Mu is expanded so that only matrix products over points remain; measuring from the middle of
        # the points first keeps the terms, hence the rounding error of their sum, small.
        middle = points.mean(axis=0)
        z, c = x - middle, points - middle
        turned = ((matrix + xp.matrix_transpose(matrix)) @ z[:, :, None])[:, :, 0]  # (N, d)
        own = 0.5 * (z * turned).sum(axis=1)
        outer = xp.reshape(c[:, :, None] * c[:, None, :], (m, d * d))
        form = own[:, None] - turned @ c.T + xp.reshape(matrix, (-1, d * d)) @ outer.T  # u'Mu, (N, m)
        trace = xp.sum(xp.stack([matrix[:, a, a] for a in range(d)]), axis=0)
        curvature = 4.0 * gamma**2 * form - 2.0 * gamma * trace[:, None]
        return self._combine(curvature * self._kernel(x))

    def _kernel(self, x: FloatArray) -> FloatArray:
        points, gamma = self._bumps_at(x)
        kernel: FloatArray = array_namespace(x).exp(-gamma * _squared_distances(x, points))
        return kernel


def _squared_distances(x: Any, points: Any) -> Any:
    """Return |x - c|^2 from differences, not |x|^2 + |c|^2 - 2 x.c: no cancellation, exactly 0 at a point."""
    if not is_foreign(x):
        return cdist(x, points, "sqeuclidean")
    return sum((x[:, a : a + 1] - points[:, a]) ** 2 for a in range(x.shape[1]))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class RBF(GaussianBumps):
    """Gaussian bumps ``exp(-|x - c|^2 / (2 bandwidth^2))`` around centres c.

    Parameters
    ----------
    centers : int, or array of shape (m, d) or (m,)
        The centres; or how many different states `fit` draws at random for them.
    bandwidth : float > 0, or array of shape (m,), optional
        Width of all bumps, or of each. By default the distance of a centre to its 2d-th nearest, as many as a
        grid has neighbours, but not less than the median of these distances.
    intercept : bool
        Whether to put a constant function 1 first.

    Examples
    --------
    >>> RBF([-1.0, 0.0, 1.0], bandwidth=0.5)([0.0]).round(4)
    array([[0.1353, 1.    , 0.1353]])
    >>> RBF(5).fit(np.linspace(0.0, 1.0, 30), random_state=0).centers.shape
    (5, 1)
    """

    learned: ClassVar[str] = "centers"

    centers: int | FloatArray | Sequence[float] | Sequence[Sequence[float]]
    bandwidth: float | FloatArray | Sequence[float] | None = None
    intercept: bool = False

    def __post_init__(self) -> None:
        set_fitted(self, intercept=check_bool(self.intercept, "intercept"))
        if self.bandwidth is not None:
            set_fitted(self, bandwidth=_positive(self.bandwidth, "bandwidth", self.n_centers))
        if as_array(self.centers, "centers").ndim == 0:
            set_fitted(self, centers=check_int(self.centers, "centers"))
            check_n_functions(self.n_basis, "centers", "Take fewer centres.")
            return
        centers = frozen_points(self.centers, "centers")
        set_fitted(self, centers=centers)
        if self.bandwidth is None:
            set_fitted(self, bandwidth=frozen(neighbor_widths(centers, "bandwidth")))

    @property
    def n_centers(self) -> int:
        """Number of centres, known or still to be drawn."""
        return self.centers if isinstance(self.centers, int) else len(self.centers)

    @property
    def n_basis(self) -> int:
        """Number of functions q, the intercept included."""
        return self.n_centers + int(self.intercept)

    @property
    def fitted(self) -> bool:
        """Whether the centres are known."""
        return not isinstance(self.centers, int)

    @property
    def _bumps(self) -> tuple[FloatArray, float | FloatArray]:
        assert self.bandwidth is not None  # set together with the centres
        return np.asarray(self.centers, dtype=np.float64), 0.5 / np.asarray(self.bandwidth) ** 2

    def _combine(self, bumps: FloatArray) -> FloatArray:
        return bumps

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> RBF:
        return replace(self, centers=require_distinct(x, self.n_centers, "centers", rng))


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

    learned: ClassVar[str] = "landmarks"

    n_components: int
    gamma: float | None = None
    landmarks: ArrayLike | None = None
    intercept: bool = False
    projection: FloatArray | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        set_fitted(self, n_components=check_int(self.n_components, "n_components"))
        check_n_functions(self.n_components, "n_components", "Take fewer landmarks.")
        set_fitted(self, intercept=check_bool(self.intercept, "intercept"))
        if self.gamma is not None:
            set_fitted(self, gamma=check_real(self.gamma, "gamma", low=0.0, closed="neither"))
        if self.landmarks is None:
            return
        landmarks = frozen_points(self.landmarks, "landmarks")
        if len(landmarks) != self.n_components:
            raise ValueError(must_be("landmarks", f"n_components = {self.n_components} rows", len(landmarks)))
        set_fitted(self, landmarks=landmarks)
        if self.gamma is None:
            set_fitted(self, gamma=median_gamma(landmarks, "gamma"))
        set_fitted(self, projection=frozen(_inverse_root(self._kernel(landmarks))))

    @property
    def n_basis(self) -> int:
        """Number of functions q, the intercept included."""
        return self.n_components + int(self.intercept)

    @property
    def _bumps(self) -> tuple[FloatArray, float]:
        assert self.gamma is not None  # set together with the landmarks
        return np.asarray(self.landmarks, dtype=np.float64), self.gamma

    def _combine(self, bumps: FloatArray) -> FloatArray:
        assert self.projection is not None  # set together with the landmarks
        xp = array_namespace(bumps)
        combined = xp.tensordot(bumps, like(self.projection, bumps), axes=((1,), (0,)))  # (N, ..., q)
        out: FloatArray = xp.moveaxis(combined, -1, 1)
        return out

    def _fit(self, x: FloatArray, rng: np.random.Generator) -> Nystroem:
        return replace(self, landmarks=require_distinct(x, self.n_components, "n_components", rng))


def _positive(value: ArrayLike, name: str, n_points: int) -> float | FloatArray:
    """Return one positive number for all points, or one for each."""
    if as_array(value, name).ndim == 0:
        return check_real(value, name, low=0.0, closed="neither")
    widths = frozen(check_array(value, name, ndim=1))
    if len(widths) != n_points or widths.min() <= 0.0:
        rule = f"a positive number, or {n_points} of them"
        raise ValueError(must_be(name, rule, f"{len(widths)} with a minimum of {widths.min():g}"))
    return widths


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
