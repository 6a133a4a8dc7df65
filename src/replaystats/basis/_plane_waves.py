"""Cosines and sines of linear forms: what `Fourier` and `RandomFourier` have in common."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from .._core.typing import FloatArray
from .base import Basis


class PlaneWaves(Basis):
    """The functions amplitude * cos(w.x), then amplitude * sin(w.x), for m frequencies w in R^d.

    Along w a derivative only turns the phase, (cos, sin)' = (-sin, cos), so both contractions are the
    waves times one number per frequency: v.w for a direction v, and -w'Mw for a matrix M.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def _waves(self) -> tuple[FloatArray, float]:
        """Frequencies (m, d) and amplitude."""

    def _value(self, x: FloatArray) -> FloatArray:
        return _flat(self._cos_sin(x))

    def _gradient(self, x: FloatArray) -> FloatArray:
        frequencies, _ = self._waves
        return _flat(_turn(self._cos_sin(x))[..., None] * frequencies)

    def _hessian(self, x: FloatArray) -> FloatArray:
        frequencies, _ = self._waves
        outer = frequencies[:, :, None] * frequencies[:, None, :]  # (m, d, d)
        return _flat(-self._cos_sin(x)[..., None, None] * outer)

    def _laplacian(self, x: FloatArray) -> FloatArray:
        frequencies, _ = self._waves
        return _flat(self._cos_sin(x) * -np.sum(frequencies**2, axis=1))

    def _directional(self, x: FloatArray, direction: FloatArray) -> FloatArray:
        frequencies, _ = self._waves
        rate = direction @ frequencies.T  # (N, m)
        return _flat(_turn(self._cos_sin(x)) * rate[:, None, :])

    def _second_order(self, x: FloatArray, matrix: FloatArray) -> FloatArray:
        frequencies, _ = self._waves
        m, d = frequencies.shape
        # w'Mw for all states and frequencies is one product of the flattened M and w w'.
        outer = (frequencies[:, :, None] * frequencies[:, None, :]).reshape(m, d * d)
        rate = matrix.reshape(-1, d * d) @ outer.T  # (N, m)
        return _flat(self._cos_sin(x) * -rate[:, None, :])

    def _cos_sin(self, x: FloatArray) -> FloatArray:
        """Return the waves as (N, 2, m): cosines, then sines."""
        frequencies, amplitude = self._waves
        phase = x @ frequencies.T  # (N, m)
        waves = np.empty((len(x), 2, len(frequencies)))
        np.cos(phase, out=waves[:, 0])
        np.sin(phase, out=waves[:, 1])
        waves *= amplitude
        return waves


def _turn(waves: FloatArray) -> FloatArray:
    """Differentiate by the phase: (cos, sin) becomes (-sin, cos)."""
    turned = np.empty_like(waves)
    np.negative(waves[:, 1], out=turned[:, 0])
    turned[:, 1] = waves[:, 0]
    return turned


def _flat(waves: FloatArray) -> FloatArray:
    """Merge (N, 2, m, ...) into (N, 2m, ...)."""
    n, _, m, *rest = waves.shape
    return waves.reshape(n, 2 * m, *rest)
