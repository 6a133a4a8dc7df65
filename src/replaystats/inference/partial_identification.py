"""What the data do not determine: bounds on an answer from a range that values are known to lie in.

For any w the answer splits into  c'theta = w'b - w'(b - A theta) + (c - A'w)'theta:  what is computed, noise,
and d'theta with d = c - A'w, about which the data say nothing. Where every value lies in [low, high], d'theta
does not leave a known interval, half of which is a bound of the bias.

One-hot features: a state (or state-action pair) that fewer than two units visited has no equation whose noise
can be seen. w solves the equations of the others, and d is the policy's discounted mass on these states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import is_foreign, like, take_rows, to_numpy
from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray, IntArray
from ..moments import FactoredMoments, Moments, StreamedMoments
from ..moments.factored import HeldMoments, sum_units
from ..moments.streamed import AnyMoments
from ..solvers import Solver
from ..solvers.auto import DEFAULT_SOLVER
from .influence import unit_blocks

# Rounding: undetermined mass below this is rounding.
NEGLIGIBLE = 1e-9
# Rounding: what is left of a question outside the equations, relative to the question: above this it is
# undetermined.
_ESTIMABLE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueRange:
    """Between which numbers values lie, and at which points.

    Attributes
    ----------
    low, high : float
        Bounds of the values.
    points : ndarray of shape (P, q) or None
        Features of the points where they hold; None where every coefficient is itself a value (one-hot).
    source : str
        Where the bounds come from: "given", or "rewards" for [r_min, r_max] / (1 - discount).
    """

    low: float
    high: float
    points: FloatArray | None = None
    source: str = "given"

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            got = f"({self.low:g}, {self.high:g})"
            raise ValueError(must_be("value_range", "(low, high) with low <= high", got))

    @property
    def width(self) -> float:
        """High - low."""
        return self.high - self.low

    def extremes(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest sum of values with these weights (m, q), shape (m,) each."""
        up, down = np.maximum(weights, 0.0).sum(axis=1), np.maximum(-weights, 0.0).sum(axis=1)
        return up * self.low - down * self.high, up * self.high - down * self.low

    def __str__(self) -> str:
        how = "given" if self.source == "given" else "rewards seen, over 1 - discount"
        return f"[{self.low:.4g}, {self.high:.4g}] ({how})"


def with_values(moments: HeldMoments, visited: BoolArray, values: FloatArray) -> HeldMoments:
    """Return the equations of the visited features, with the values of the others put in."""
    if isinstance(moments, FactoredMoments):
        left, right = to_numpy(moments.left), to_numpy(moments.right)
        response = to_numpy(moments.response) - right[:, ~visited] @ values
        return FactoredMoments(left[:, visited], right[:, visited], response, moments.offsets)
    g, f = to_numpy(moments.g), to_numpy(moments.f)
    reduced = g[:, visited][:, :, visited]
    return Moments(reduced, f[:, visited] - g[:, visited][:, :, ~visited] @ values, symmetric=False)


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


def determined(X: FloatArray, A: FloatArray, inverse: FloatArray) -> BoolArray:
    """Return which questions c (rows of X) equations A determine: c = A'w for w = R'c, R their inverse."""
    left = X - X @ inverse @ A
    return np.asarray(np.abs(left).max(axis=1) <= _ESTIMABLE * np.abs(X).max(axis=1))


def one_unit_determines(moments: AnyMoments, X: FloatArray, solver: Solver = DEFAULT_SOLVER) -> BoolArray:
    """Return which answers X theta one unit alone determines: without it the equations leave them open.

    The coefficient of an indicator that is on in one row only, for example. That row is fitted exactly, so
    that it leaves no residual to tell an error from: influence values and residuals show no noise. A penalty
    leaves nothing open, and streams are not looked through for it.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    >>> one_unit_determines(Moments(x[:, :, None] * x[:, None, :], x), np.array([[1.0, 0.0], [1.0, 1.0]]))
    array([False,  True])
    """
    found = np.zeros(len(X), dtype=np.bool_)
    if isinstance(moments, StreamedMoments) or not solver.plain:
        return found
    lone = visit_counts(moments) == 1
    if not lone.any():
        return found
    seen, A, unit = visits(moments), moments.total()[0], np.eye(moments.n_basis)[None]
    for i in np.flatnonzero(seen[:, lone].any(axis=1)):
        rest, gone = A - sum_of(moments, np.arange(len(seen)) == i)[0], lone & seen[i]
        rest[gone] = 0.0  # exactly, not up to rounding
        if moments.symmetric:
            rest[:, gone] = 0.0
        inverse = DEFAULT_SOLVER.solve(rest[None], unit, symmetric=moments.symmetric).theta[0]
        found |= ~determined(X, rest, inverse)
    return found


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
