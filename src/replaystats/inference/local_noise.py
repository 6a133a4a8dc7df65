"""How large the noise is from place to place: a kernel regression of the logarithm of residuals.

Noise may change along columns that do not move the mean, so its widths are learnt from the residuals
themselves. Every row is judged by a fit on the other folds (Lei and others 2018, locally weighted conformal
inference).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.config import memory_budget
from .._core.random import stream
from .._core.thresholds import FOLDS
from .._core.typing import FloatArray, IntArray
from ..kernel.kernels import Kernel
from ..kernel.widths import learn_bandwidths

# Rows of a fit at most: noise is smooth, and a factorisation of so many takes a twentieth of a second.
NOISE_ROWS = 1000
# No place is taken to be quieter than this share of the typical noise: a residual may be 0 by accident.
SMALLEST_SHARE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class _LogFit:
    """A kernel expansion of log |residual|."""

    points: FloatArray
    dual: FloatArray  # (r, n_outputs)
    mean: FloatArray  # (n_outputs,)
    kernel: Kernel

    @classmethod
    def of(cls, points: FloatArray, logs: FloatArray, rng: np.random.Generator) -> _LogFit:
        mean = logs.mean(axis=0)
        learnt = learn_bandwidths(points, logs - mean, random_state=rng)
        rows = rng.permutation(len(points))[:NOISE_ROWS]
        kernel = Kernel("rbf", tuple(learnt.gamma.tolist()))
        C = kernel(points[rows], points[rows])
        C[np.diag_indices(len(rows))] += learnt.alpha
        return cls(points[rows], np.linalg.solve(C, logs[rows] - mean), mean, kernel)

    def __call__(self, points: FloatArray) -> FloatArray:
        step = max(1, memory_budget() // (32 * len(self.points)))
        parts = [
            self.kernel(points[first : first + step], self.points) @ self.dual
            for first in range(0, len(points), step)
        ]
        return np.concatenate(parts) + self.mean


@dataclass(frozen=True, slots=True, eq=False)
class LocalNoise:
    """Typical |residual| at rows of the data and at new points.

    Attributes
    ----------
    scale : ndarray of shape (n, n_outputs)
        At the rows, from fits on other folds, so that a row's residual is judged without itself.
    """

    scale: FloatArray
    _fits: list[_LogFit]

    @classmethod
    def of(cls, points: FloatArray, residuals: FloatArray, groups: IntArray | None = None) -> LocalNoise:
        """Learn the noise.

        1. Take logarithms of |residual|, none below a tenth of the mean.
        2. Deal rows, or groups, into five folds; learn widths and penalty of a kernel regression of the
           logarithms on the rows outside each fold.
        3. Keep it only where its squared errors on the folds are smaller than those of the mean by more than
           a standard error; otherwise the noise counts as equal everywhere.

        Parameters
        ----------
        points : ndarray of shape (n, p)
            With columns of unit scale.
        residuals : ndarray of shape (n, n_outputs)
            Of rows that their predictions did not use; NaN takes no part.
        groups : ndarray of int, shape (n,), optional

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-1.7, 1.7, size=(600, 1))
        >>> noise = LocalNoise.of(x, (2 + x) * rng.normal(size=(600, 1)))
        >>> low, high = noise(np.array([[-1.0], [1.0]]))[:, 0]
        >>> bool(2 < high / low < 4)
        True
        """
        known = np.isfinite(residuals).all(axis=1)
        sizes = np.abs(residuals[known])
        tiny = float(np.finfo(np.float64).tiny)
        logs = np.log(np.maximum(sizes, np.maximum(SMALLEST_SHARE * sizes.mean(axis=0), tiny)))
        rows, rng = points[known], stream(0, 3)
        units = np.arange(len(rows)) if groups is None else groups[known]
        fold = rng.permutation(int(units.max(initial=0)) + 1)[units] % FOLDS
        predicted, fits, plain = np.empty_like(logs), [], np.empty_like(logs)
        for number in np.unique(fold):
            held = fold == number
            others = ~held if not held.all() else held
            fits.append(_LogFit.of(rows[others], logs[others], rng))
            predicted[held], plain[held] = fits[-1](rows[held]), logs[others].mean(axis=0)
        gain = ((logs - plain) ** 2 - (logs - predicted) ** 2).mean(axis=1)
        scale = np.full(residuals.shape, np.nan)
        if gain.mean() > gain.std() / np.sqrt(max(len(gain), 1)):
            scale[known] = np.exp(predicted - logs.mean(axis=0))
            return cls(scale, fits)
        scale[known] = 1.0
        return cls(scale, [])

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return the typical size of the noise at new points (m, p), shape (m, n_outputs)."""
        if not self._fits:
            return np.ones((len(points), self.scale.shape[1]))
        logs = np.mean([fit(points) - fit.mean for fit in self._fits], axis=0)
        return np.asarray(np.exp(logs))
