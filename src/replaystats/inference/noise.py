"""The noise of answers, from what each unit moves them by: variance, skewness, effective number of units.

Leaving unit i out moves an answer by J_i; the squares of J are the delete-one jackknife, its third and fourth
powers say how far from normal it is, and m_i says how much of the question's matrix the unit carries
(`invert_studentised`). Power sums of both are all that an interval needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import is_foreign, like, take_rows, to_numpy
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from ..engine.linear import Linearisation
from ..moments import FactoredMoments, Moments, StreamedMoments
from ..moments.factored import HeldMoments
from ..moments.record import sum_units
from ..moments.streamed import AnyMoments
from .degrees import WeightSums, degrees_of_freedom, effective_sample, shrunken_skewness
from .influence import influence_of, jackknife_shifts, of_output, unit_blocks
from .pivot import NO_NOISE, Pivot

# Format: powers of what a unit moves an answer by that are summed.
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
    degrees : ndarray
        Degrees of freedom of the variance.
    n_units : int
    growth : ndarray or float
        What correlation of neighbouring units multiplied the variance by.
    one_sign : ndarray of bool or bool
        Whether every unit adds to the question's matrix, which then cannot vanish.
    surplus : ndarray or float
        Share of the variance that leverage makes of equal noise, where it is known (`functional_moments`).
    """

    variance: FloatArray
    covariance: FloatArray
    matrix_variance: FloatArray
    skewness: FloatArray
    excess: FloatArray
    degrees: FloatArray
    n_units: int
    growth: FloatArray | float = 1.0
    one_sign: BoolArray | bool = False
    surplus: FloatArray | float = 0.0

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
        )

    def with_variance(self, variance: FloatArray) -> Noise:
        """Return the noise of an average whose variance, for independent units, was found elsewhere."""
        variance = variance * self.growth
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.variance > 0, np.sqrt(variance / self.variance), 1.0)
        return replace(self, variance=variance, covariance=self.covariance * ratio)

    def without_surplus(self) -> Noise:
        """Return the noise less what leverage makes of it, in the jackknife and in averages of subsets."""
        return replace(self, variance=self.variance * (1.0 - self.surplus), surplus=0.0)

    def correlated(self, shifts: FloatArray) -> Noise:
        """Return the noise of units that are consecutive pieces of a series.

        What neighbours have in common is taken for a first-order autoregression, its coefficient corrected
        for its own downward bias (Kendall 1954): (1 + rho) / (1 - rho) times the variance, on as many fewer
        units, of which one is left at least.
        """
        n, centred = len(shifts), shifts - shifts.mean(axis=0)
        square = np.square(centred).sum(axis=0)
        rho = (centred[1:] * centred[:-1]).sum(axis=0) / np.where(square > 0, square, 1.0)
        rho = np.where(square > 0, np.clip(rho + (1 + 3 * rho) / n, 0.0, (n - 1) / (n + 1)), 0.0)
        growth = (1 + rho) / (1 - rho)
        return replace(
            self,
            variance=self.variance * growth,
            covariance=self.covariance * growth,
            matrix_variance=self.matrix_variance * growth,
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

    def __init__(self, n: int, size: FloatArray, *, leverage: int = 2) -> None:
        m = len(size)
        self.n = n
        usable = np.isfinite(size) & (size > 0)
        self.unit = np.exp2(np.round(np.log2(size, where=usable, out=np.zeros(m))))
        self.powers = np.zeros((_POWERS + 1, m))
        self.powers[0] = n
        self.matrix, self.product, self.matrix_square = np.zeros((3, m))
        self.smallest = np.full(m, np.inf)
        self.weights = WeightSums(m, leverage=leverage)

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
            matrix_variance=n / max(n - 1, 1) * np.maximum(relative, 0.0),
            skewness=skewness,
            excess=excess,
            degrees=degrees,
            n_units=n,
            one_sign=self.smallest >= 0,
        )


# What units do to the answer of each question.
#
# A question is a row c of X, and its answer c'theta. Leaving unit i out moves it by J_i = c'(theta -
# theta_(-i)), and m_i = w'g_i v, with w'A = c', is the share of the question's matrix that the unit carries.
#
# Units of high leverage make the jackknife too large. In a regression with noise of one size, J_i is
# c'(A - g_i)^-1 e_i, with residuals e_i = f_i - g_i theta whose covariance is sigma^2 (g_i - g_i A^-1 g_i),
# and L_i = w'e_i is the influence of the unit. Then
#
#     E J_i L_i = sigma^2 w'g_i w,    sum_i E J_i L_i = sigma^2 w'A w,
#
# which is the variance of the answer, whatever the units: rows (MacKinnon and White's HC2) or clusters. Noise
# of any other size is estimated to first order, as by the jackknife. The share p_i = w'g_i w / w'A w of a
# unit gives the degrees of freedom (Bell and McCaffrey 2002).


def functional_moments(
    moments: AnyMoments, linear: Linearisation, X: FloatArray, output: int = 0, *, sequential: bool = False
) -> Noise:
    """Return the noise of the plug-in's answers X theta, without refits.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
    linear : Linearisation
        Of all data.
    X : ndarray of shape (m, q)
    output : int
        Which of several outputs.
    sequential : bool
        Whether neighbouring units may be correlated; then n m numbers are held.

    Notes
    -----
    The delete-one jackknife where the solver kept every direction and no unit carries one alone; influence
    values elsewhere. Of Gram matrices, `surplus` is what sum J_i L_i does not have of sum J_i^2. O(n q^2 m)
    at most, a block of units at a time.

    References
    ----------
    J. G. MacKinnon and H. White (1985), Journal of Econometrics 29; R. M. Bell and D. F. McCaffrey (2002),
    Survey Methodology 28.
    """
    n = moments.n_observations
    dual = X @ linear.inverse  # (m, q): rows w
    along = X @ _first_order(moments, linear, output)
    squares = (along * X).sum(axis=1)  # of what units move the answers by, to first order
    regression = bool(moments.symmetric) and moments.n_basis > 1
    direction = _directions(X, dual if regression else along)
    sums = PowerSums(n, np.sqrt(np.maximum(squares, 0.0)), leverage=1 if regression else 2)
    in_order = np.empty((n, len(X))) if sequential else None
    products = np.zeros(len(X))
    for observations, shifts, part in _shifts(moments, linear, output):
        moved = shifts @ like(X.T, shifts)
        sums.add(moved, _matrix_shares(part, dual, direction))
        if regression:
            first_order = of_output(influence_of(part, linear), output) @ like(X.T, shifts)
            products += to_numpy(array_namespace(moved).sum(moved * first_order, axis=0))
        if in_order is not None:
            in_order[observations] = to_numpy(moved)
    noise = sums.noise(with_matrix=True)
    if regression:
        kept = np.maximum(products, n / (n - 1) * squares)
        positive = noise.variance > 0
        share = 1.0 - kept / np.where(positive, noise.variance, 1.0)
        noise = replace(noise, surplus=np.where(positive, np.maximum(share, 0.0), 0.0))
    return noise if in_order is None else noise.correlated(in_order)


def functional_shifts(
    moments: AnyMoments, linear: Linearisation, X: FloatArray, output: int = 0
) -> FloatArray:
    """Return what leaving each unit out takes from every answer, shape (n, m), in the order of the units."""
    shifts = np.empty((moments.n_observations, len(X)))
    for observations, moved, _ in _shifts(moments, linear, output):
        shifts[observations] = to_numpy(moved @ like(X.T, moved))
    return shifts


def _first_order(moments: AnyMoments, linear: Linearisation, output: int) -> FloatArray:
    """Return sum L_i L_i^T over the influence values of theta, shape (q, q)."""
    covariance = np.zeros((moments.n_basis, moments.n_basis))
    for _, part in unit_blocks(moments):
        influence = of_output(influence_of(part, linear), output)
        covariance += to_numpy(influence.T @ influence)
    return covariance


def _directions(X: FloatArray, along: FloatArray) -> FloatArray:
    """Return v for every question, (m, q), along given directions: the answer moves by one, c'v = 1.

    With X times the sums of squared influence, theta goes where the answer is moved at the least cost; with
    the dual, where it is under equal noise.
    """
    moved = (along * X).sum(axis=1, keepdims=True)
    # An answer without any noise moves along itself.
    own = X / np.maximum((X * X).sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return np.where(moved > 0, along / np.where(moved > 0, moved, 1.0), own)


def _shifts(
    moments: AnyMoments, linear: Linearisation, output: int
) -> Iterator[tuple[IntArray | slice, FloatArray, HeldMoments]]:
    """Yield what each unit of a block moves theta by, (units, q), with the block."""
    if linear.truncated == 0:
        for observations, part, shifts in jackknife_shifts(moments, linear):
            yield observations, of_output(shifts, output), part
        return
    n = moments.n_observations
    for observations, part in unit_blocks(moments):
        yield observations, of_output(influence_of(part, linear), output) * (n / (n - 1)), part


def _matrix_shares(part: HeldMoments, dual: FloatArray, direction: FloatArray) -> Any:
    """Return w'g_i v for every unit and question, shape (units, m)."""
    if isinstance(part, FactoredMoments):
        steps = (part.left @ like(dual.T, part.left)) * (part.right @ like(direction.T, part.left))
        return sum_units(steps, part.offsets)
    q = part.n_basis
    if len(part) > q:  # one product with the outer products w v', which are then fewer numbers
        both = (dual[:, :, None] * direction[:, None, :]).reshape(-1, q * q)
        if part.symmetric:  # rows hold the upper triangle, every entry off the diagonal for two
            upper, lower = np.triu_indices(q)
            place, mirrored = upper * q + lower, lower * q + upper
            both = np.where(upper == lower, both[:, place], both[:, place] + both[:, mirrored])
        return part.rows[:, : part.n_matrix_columns] @ like(both.T, part.rows)
    g = part.g
    moved = g @ like(direction.T, g)  # (units, q, m)
    return array_namespace(g).sum(moved * like(dual.T, g), axis=1)


# Which units visited what.


def constant_matrix(moments: AnyMoments) -> bool:
    """Return whether all units have the same matrix, as those of a mean do; not looked for in streams."""
    if isinstance(moments, StreamedMoments):
        return False
    units = np.arange(moments.n_observations)
    first, last = (sum_of(moments, units == i)[0] for i in (0, len(units) - 1))
    if (first != last).any():
        return False  # mostly seen at once
    blocks = (part for _, part in unit_blocks(moments))
    dense = (part.multiply_out() if isinstance(part, FactoredMoments) else part for part in blocks)
    return all(bool((part.g == like(first, part.g)).all()) for part in dense)


def visits(moments: HeldMoments) -> BoolArray:
    """Return which units visited which features, shape (n, q): an equation of theirs is not empty."""
    return np.concatenate([to_numpy(seen) for seen in _visits(moments)])


def visit_counts(moments: HeldMoments) -> IntArray:
    """Return how many units visited each feature, shape (q,), counted where the moments are."""
    return np.asarray(
        sum(to_numpy(array_namespace(seen).count_nonzero(seen, axis=0)) for seen in _visits(moments))
    )


def _visits(moments: HeldMoments) -> Iterator[Any]:
    """Yield what `visits` says, a block of units after the other, where the moments are."""
    if not isinstance(moments, FactoredMoments):
        for _, part in unit_blocks(moments):
            assert isinstance(part, Moments)
            yield array_namespace(part.rows).any(part.g != 0, axis=2)
    elif is_foreign(moments.left):
        xp = array_namespace(moments.left)
        yield sum_units(xp.astype(moments.left != 0, moments.left.dtype), moments.offsets) > 0
    else:
        yield np.logical_or.reduceat(moments.left != 0, moments.offsets[:-1], axis=0)


def sum_of(moments: HeldMoments, chosen: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums A and b over the units that are `chosen`."""
    if isinstance(moments, FactoredMoments):
        return moments.sum_over(np.flatnonzero(chosen))
    return moments.wrap(take_rows(moments.rows, np.flatnonzero(chosen))).total()
