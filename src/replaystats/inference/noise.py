"""The noise of answers, from what each unit moves them by: variance, skewness, effective number of units.

Leaving unit i out moves an answer by J_i; the squares of J are the delete-one jackknife, its third and fourth
powers say how far from normal it is, and m_i says how much of the question's matrix the unit carries
(`invert_studentised`). Power sums of both are all that an interval needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like, to_numpy
from .._core.thresholds import LARGEST_CORRELATION
from .._core.typing import ArrayLike, BoolArray, FloatArray
from .degrees import WeightSums, degrees_of_freedom, effective_sample, shrunken_skewness
from .pivot import NO_NOISE, Pivot

# Powers of what a unit moves an answer by that are summed.
_POWERS = 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Noise:
    """Sampling noise of m answers, every array of shape (m,).

    Attributes
    ----------
    variance : ndarray
        s_LL: of the answer.
    covariance, matrix_variance : ndarray
        s_Lm and s_mm: of the answer with its own matrix, and of that matrix relative to its size.
    skewness : ndarray
        Of the answer, that of the influence values over sqrt(n).
    excess : ndarray
        Kurtosis of the influence values beyond what their skewness implies; zero where they are two.
    effective : ndarray
        Effective number of units.
    degrees : ndarray
        Degrees of freedom of the variance.
    n_units, n_parameters : int
    growth : ndarray or float
        What correlation of neighbouring units multiplied the variance by.
    one_sign : ndarray of bool or bool
        Whether every unit adds to the question's matrix, which then cannot vanish.
    second_order : ndarray or float
        Share of the variance that the jackknife counts twice, where that is known (see `functional_moments`).
    """

    variance: FloatArray
    covariance: FloatArray
    matrix_variance: FloatArray
    skewness: FloatArray
    excess: FloatArray
    effective: FloatArray
    degrees: FloatArray
    n_units: int
    n_parameters: int = 1
    growth: FloatArray | float = 1.0
    one_sign: BoolArray | bool = False
    second_order: FloatArray | float = 0.0

    def symmetric(self) -> Noise:
        """Return the noise for intervals that take no skewness out: it stays in the degrees of freedom."""
        least = np.minimum(self.degrees, 1.0)
        degrees = np.maximum(2.0 / (2.0 / self.degrees + np.square(self.skewness)), least)
        return replace(self, degrees=degrees, skewness=np.zeros_like(self.skewness))

    def pivot(self, estimate: FloatArray, scale: ArrayLike = 0.0) -> Pivot:
        """Return the record of answers with this noise; errors below rounding of `scale` are none."""
        error = np.sqrt(self.variance)
        error = np.where(error <= NO_NOISE * np.asarray(scale), 0.0, error)
        return Pivot(
            estimate=estimate,
            standard_error=error,
            degrees=self.degrees if self.n_units > 1 else np.zeros_like(error),
            skewness=self.skewness,
            excess=self.excess,
            units=np.full(error.shape, float(self.n_units)),
            how=np.full(error.shape, "noise", dtype="<U12"),
        )

    def with_variance(self, variance: FloatArray) -> Noise:
        """Return the noise of an average whose variance, for independent units, was found elsewhere."""
        variance = variance * self.growth
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.variance > 0, np.sqrt(variance / self.variance), 1.0)
        return replace(self, variance=variance, covariance=self.covariance * ratio)

    def second_order_corrected(self) -> Noise:
        """Return the noise less what the jackknife counts twice, as every average of subsets does, too."""
        share = 1.0 - self.second_order
        return replace(self, variance=self.variance * share, second_order=0.0)

    def correlated(self, shifts: FloatArray) -> Noise:
        """Return the noise of units that are consecutive pieces of a series.

        What neighbours have in common is taken for a first-order autoregression, its coefficient corrected
        for its own downward bias (Kendall 1954): (1 + rho) / (1 - rho) times the variance, on as many fewer
        units.
        """
        n, centred = len(shifts), shifts - shifts.mean(axis=0)
        square = np.square(centred).sum(axis=0)
        rho = (centred[1:] * centred[:-1]).sum(axis=0) / np.where(square > 0, square, 1.0)
        rho = np.where(square > 0, np.clip(rho + (1 + 3 * rho) / n, 0.0, LARGEST_CORRELATION), 0.0)
        growth = (1 + rho) / (1 - rho)
        return replace(
            self,
            variance=self.variance * growth,
            covariance=self.covariance * growth,
            matrix_variance=self.matrix_variance * growth,
            effective=self.effective / growth,
            degrees=np.minimum(self.degrees, np.maximum(n / growth - 1, 1.0)),
            growth=growth,
        )


def noise_of(shifts: FloatArray, matrix: FloatArray | None = None, *, sequential: bool = False) -> Noise:
    """Return the noise of answers from what each unit moves them by.

    Parameters
    ----------
    shifts : ndarray of shape (n, m)
        c'(theta - theta_(-i)).
    matrix : ndarray of shape (n, m), optional
        m_i, with sum one over the units.
    sequential : bool
        Whether neighbouring units may be correlated.

    Examples
    --------
    >>> values = np.array([1.0, 2.0, 4.0, 9.0])
    >>> shifts = (values - values.mean()) / 3  # leaving a value out of a mean of four
    >>> noise_of(shifts[:, None]).variance, values.var(ddof=1) / 4
    (array([3.16666667]), np.float64(3.1666666666666665))
    """
    xp = array_namespace(shifts)
    sums = PowerSums(len(shifts), to_numpy(xp.max(xp.abs(shifts), axis=0)))
    sums.add(shifts, shifts * 0 if matrix is None else matrix)
    noise = sums.noise(with_matrix=matrix is not None)
    return noise.correlated(to_numpy(shifts)) if sequential else noise


class PowerSums:
    """Power sums of shifts and of matrix shares, a block of units at a time.

    Shifts are divided by a power of two near their `size`: their sixth powers would overflow from 10^51 on,
    and no digit is lost.
    """

    def __init__(self, n: int, size: FloatArray) -> None:
        m = len(size)
        self.n = n
        usable = np.isfinite(size) & (size > 0)
        self.unit = np.exp2(np.round(np.log2(size, where=usable, out=np.zeros(m))))
        self.powers = np.zeros((_POWERS + 1, m))
        self.powers[0] = n
        self.matrix, self.product, self.matrix_square = np.zeros((3, m))
        self.smallest = np.full(m, np.inf)
        self.weights = WeightSums(m)

    def add(self, shifts: Any, matrix: Any) -> None:
        """Add a block of units: what each moves the answers by, and its matrix shares, (units, m) both."""
        xp = array_namespace(shifts, matrix)
        shifts = shifts / like(self.unit, shifts)
        power = xp.ones_like(shifts)
        for k in range(1, _POWERS + 1):
            power = power * shifts
            self.powers[k] += to_numpy(xp.sum(power, axis=0))
        self.matrix += to_numpy(xp.sum(matrix, axis=0))
        self.product += to_numpy(xp.sum(shifts * matrix, axis=0))
        self.matrix_square += to_numpy(xp.sum(matrix * matrix, axis=0))
        self.smallest = np.minimum(self.smallest, to_numpy(xp.min(matrix, axis=0)))
        self.weights.add(matrix)

    def _central(self, k: int, mean: FloatArray) -> FloatArray:
        """Return the sum of k-th powers about the mean; rounding makes no even one negative."""
        terms = [math.comb(k, j) * (-mean) ** (k - j) * self.powers[j] for j in range(k + 1)]
        total = np.sum(terms, axis=0)
        return np.asarray(total if k % 2 else np.maximum(total, 0.0))

    def noise(self, *, with_matrix: bool) -> Noise:
        """Return the noise of all units that were added."""
        n, mean = self.n, self.powers[1] / self.n
        square, cube, fourth, sixth = (self._central(k, mean) for k in (2, 3, 4, 6))
        effective = effective_sample(square, fourth)
        skewness, excess = shrunken_skewness(square, cube, fourth, sixth, n)
        with np.errstate(divide="ignore", invalid="ignore"):
            # m sums to one: its deviations are relative to the question's matrix.
            total = self.matrix if with_matrix else np.ones_like(mean)
            covariance = (self.product - mean * self.matrix) / total
            relative = (self.matrix_square - self.matrix**2 / n) / total**2
        degrees = degrees_of_freedom(effective, n, skewness)
        if with_matrix:
            degrees = np.minimum(degrees, self.weights.degrees())
        return Noise(
            variance=(n - 1) / n * square * self.unit**2,
            covariance=covariance * self.unit,
            matrix_variance=n / (n - 1) * np.maximum(relative, 0.0),
            skewness=skewness,
            excess=excess,
            effective=effective,
            degrees=degrees,
            n_units=n,
            one_sign=self.smallest >= 0,
        )
