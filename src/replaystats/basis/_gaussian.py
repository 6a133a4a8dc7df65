"""Gaussian bumps around points: what `RBF` and `Nystroem` have in common."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy.spatial.distance import cdist, pdist

from .._core.errors import must_be
from .._core.typing import FloatArray
from .base import Basis


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


def median_distance(points: FloatArray, name: str) -> float:
    """Return the median distance between two of the points; `name` is the parameter that it replaces."""
    distance = float(np.median(pdist(points))) if len(points) > 1 else 0.0
    if distance == 0.0:
        hint = "The median heuristic needs points that are mostly different."
        raise ValueError(must_be(name, "given", "None", hint))
    return distance


def median_gamma(points: FloatArray, name: str) -> float:
    """Return gamma = 1 / (2 h^2) with h the median distance between two of the points."""
    return 0.5 / median_distance(points, name) ** 2


class GaussianBumps(Basis):
    """Fixed linear combinations of exp(-gamma |x - c|^2) over m points c.

    With u = x - c and k the kernel, the gradient of k is -2 gamma u k and its Hessian
    (4 gamma^2 u u' - 2 gamma I) k.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def _bumps(self) -> tuple[FloatArray, float]:
        """Points (m, d) and gamma."""

    @abstractmethod
    def _combine(self, bumps: FloatArray) -> FloatArray:
        """Turn (N, m, ...), one column per point, into (N, q, ...)."""

    def _value(self, x: FloatArray) -> FloatArray:
        return self._combine(self._kernel(x))

    def _gradient(self, x: FloatArray) -> FloatArray:
        points, gamma = self._bumps
        u = x[:, None, :] - points  # (N, m, d)
        return self._combine(-2.0 * gamma * u * self._kernel(x)[..., None])

    def _hessian(self, x: FloatArray) -> FloatArray:
        points, gamma = self._bumps
        u = x[:, None, :] - points
        curvature = 4.0 * gamma**2 * u[..., :, None] * u[..., None, :]  # (N, m, d, d)
        curvature -= 2.0 * gamma * np.eye(x.shape[1])
        return self._combine(curvature * self._kernel(x)[..., None, None])

    def _laplacian(self, x: FloatArray) -> FloatArray:
        points, gamma = self._bumps
        squares = cdist(x, points, "sqeuclidean")
        curvature = 4.0 * gamma**2 * squares - 2.0 * gamma * x.shape[1]
        return self._combine(curvature * np.exp(-gamma * squares))

    def _directional(self, x: FloatArray, direction: FloatArray) -> FloatArray:
        points, gamma = self._bumps
        slope = np.sum(x * direction, axis=1)[:, None] - direction @ points.T  # u.v, (N, m)
        return self._combine(-2.0 * gamma * slope * self._kernel(x))

    def _second_order(self, x: FloatArray, matrix: FloatArray) -> FloatArray:
        points, gamma = self._bumps
        m, d = points.shape
        # u'Mu is expanded so that only matrix products over points remain; measuring from the middle of
        # the points first keeps the terms, hence the rounding error of their sum, small.
        middle = points.mean(axis=0)
        z, c = x - middle, points - middle
        symmetric = matrix + matrix.swapaxes(1, 2)
        own = 0.5 * np.einsum("na,nab,nb->n", z, symmetric, z)
        mixed = np.einsum("nab,nb->na", symmetric, z) @ c.T
        outer = (c[:, :, None] * c[:, None, :]).reshape(m, d * d)
        form = own[:, None] - mixed + matrix.reshape(-1, d * d) @ outer.T  # u'Mu, (N, m)
        trace = np.trace(matrix, axis1=1, axis2=2)
        curvature = 4.0 * gamma**2 * form - 2.0 * gamma * trace[:, None]
        return self._combine(curvature * self._kernel(x))

    def _kernel(self, x: FloatArray) -> FloatArray:
        points, gamma = self._bumps
        # Distances from differences, not from |x|^2 + |c|^2 - 2 x.c: no cancellation, exactly 1 at a point.
        return np.exp(-gamma * cdist(x, points, "sqeuclidean"))
