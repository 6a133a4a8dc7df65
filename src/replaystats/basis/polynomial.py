"""Polynomials in one or more variables: monomials and three orthogonal families."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import combinations_with_replacement, product
from operator import add
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_choice, check_int, check_memory
from .base import Basis, check_n_functions, check_per_dimension, set_fitted, with_columns_of


def total_degree_indices(dimension: int, degree: int) -> IntArray:
    """Return all non-negative multi-indices with sum <= `degree`, by increasing sum.

    Examples
    --------
    >>> total_degree_indices(2, 2).tolist()
    [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    """
    if dimension == 1:
        return np.arange(degree + 1)[:, None]
    # A monomial of degree s is a multiset of s variables; counting each variable gives its exponents.
    multisets = (
        chosen
        for total in range(degree + 1)
        for chosen in combinations_with_replacement(range(dimension), total)
    )
    return np.array([np.bincount(np.array(m, dtype=int), minlength=dimension) for m in multisets])


@lru_cache(maxsize=16)
def _columns_of_variables(dimension: int, degree: int) -> IntArray:
    """Return the places (degree, q) of every function's factors among the powers m d + a; 0 is a factor 1."""
    exponents = total_degree_indices(dimension, degree)
    function, variable = np.nonzero(exponents)
    number = np.arange(len(function)) - np.searchsorted(function, function)  # of the variable in its function
    columns = np.zeros((degree, len(exponents)), dtype=np.intp)
    columns[number, function] = exponents[function, variable] * dimension + variable
    return columns


def tensor_indices(dimension: int, degree: int) -> IntArray:
    """Return all non-negative multi-indices with every entry <= `degree`, by increasing sum.

    Examples
    --------
    >>> tensor_indices(2, 1).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    indices = np.array([index[::-1] for index in product(range(degree + 1), repeat=dimension)])
    return indices[np.argsort(indices.sum(axis=1), kind="stable")]


def half_lattice(indices: IntArray) -> IntArray:
    """Return the signed versions of non-negative `indices`, one of each pair {k, -k}, without 0.

    cos(k.x) and sin(k.x) are, up to sign, those of -k: one of the two is enough. The one kept has its
    first non-zero entry positive.

    Examples
    --------
    >>> half_lattice(tensor_indices(2, 1)).tolist()
    [[1, 0], [0, 1], [1, 1], [1, -1]]
    """
    signed = [k for index in indices for k in _signed(index)]
    return np.array(signed, dtype=int).reshape(-1, indices.shape[1])


def _signed(index: IntArray) -> Iterator[IntArray]:
    nonzero = np.flatnonzero(index)
    if len(nonzero) == 0:
        return
    for signs in product((1, -1), repeat=len(nonzero) - 1):
        k = index.copy()
        k[nonzero[1:]] *= np.array(signs, dtype=int)
        yield k


# p_{n+1}(z) = a_n z p_n(z) - c_n p_{n-1}(z), with p_0 = 1: n -> (a_n, c_n).
_RECURRENCES: dict[str, Callable[[int], tuple[float, float]]] = {
    "monomial": lambda n: (1.0, 0.0),
    "hermite": lambda n: (1.0, float(n)),
    "legendre": lambda n: ((2.0 * n + 1.0) / (n + 1.0), n / (n + 1.0)),
    "chebyshev": lambda n: (1.0, 0.0) if n == 0 else (2.0, 1.0),
}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Polynomial(Basis):
    """Products of one-dimensional polynomials with total degree at most `degree`.

    The variables are standardised first, z = (x - center) / scale. The functions come by increasing
    total degree: in two dimensions 1, z1, z2, z1^2, z1 z2, z2^2, ... for monomials.

    Parameters
    ----------
    degree : int >= 0
        Highest total degree; there are C(degree + d, d) functions.
    dimension : int >= 1
        Dimension d of the states. With the default, 1, `fit` takes that of the data, so that estimators
        need no number.
    family : "monomial", "hermite", "legendre" or "chebyshev"
        One-dimensional polynomials. "hermite" are the probabilists' He_n, orthogonal under N(0, 1);
        "legendre" and "chebyshev" (first kind) are orthogonal on [-1, 1]. None is normalised.
    center, scale : float or sequence of d floats
        Origin and unit of each variable.

    Examples
    --------
    >>> Polynomial(3, family="hermite")([2.0])
    array([[1., 2., 3., 2.]])
    >>> Polynomial(2).fit([[2.0, 3.0]])([[2.0, 3.0]])
    array([[1., 2., 3., 4., 6., 9.]])
    """

    anywhere: ClassVar[bool] = True

    degree: int
    dimension: int = 1
    family: str = "monomial"
    center: float | Sequence[float] = 0.0
    scale: float | Sequence[float] = 1.0
    exponents: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        degree = check_int(self.degree, "degree", low=0)
        dimension = check_int(self.dimension, "dimension", hint="It is the number of state variables.")
        family = check_choice(self.family, "family", tuple(_RECURRENCES))
        center = check_per_dimension(self.center, "center", dimension)
        scale = check_per_dimension(self.scale, "scale", dimension, positive=True)
        n_functions = math.comb(degree + dimension, dimension)
        check_n_functions(n_functions, "degree", "Lower it.")
        check_memory(float(n_functions) * dimension, "dimension", dimension, "Lower the degree.")
        exponents = total_degree_indices(dimension, degree)
        exponents.setflags(write=False)
        set_fitted(self, degree=degree, dimension=dimension, family=family)
        set_fitted(self, center=center, scale=scale, exponents=exponents)

    @property
    def n_basis(self) -> int:
        """Number of functions q, the constant included."""
        return len(self.exponents)

    def _suited(self, states: Any) -> Polynomial:
        return with_columns_of(self, states)  # type: ignore[no-any-return]

    def _value(self, x: FloatArray) -> FloatArray:
        return self._product(self._tables(x, 0), ())

    def _directional(self, x: FloatArray, direction: FloatArray) -> FloatArray:
        tables = self._tables(x, 1)
        return _added(direction[:, a, None] * self._product(tables, (a,)) for a in range(self.dimension))

    def _second_order(self, x: FloatArray, matrix: FloatArray) -> FloatArray:
        tables = self._tables(x, 2)
        weights = [matrix[:, a, a] if a == b else matrix[:, a, b] + matrix[:, b, a] for a, b in self._pairs()]
        terms = zip(weights, self._pairs(), strict=True)
        return _added(weight[:, None] * self._product(tables, axes) for weight, axes in terms)

    def _pairs(self) -> list[tuple[int, int]]:
        return [(a, b) for a in range(self.dimension) for b in range(a, self.dimension)]

    def _tables(self, x: FloatArray, order: int) -> list[list[FloatArray]]:
        """Return all one-dimensional derivatives, indexed [order of derivative][degree], each (N, d).

        The r-th derivative of the recurrence is
        p_{n+1}^(r) = a_n (z p_n^(r) + r p_n^(r-1)) - c_n p_{n-1}^(r).
        """
        xp, shape = array_namespace(x), (self.dimension,)
        scale = like(np.broadcast_to(np.asarray(self.scale, dtype=np.float64), shape).copy(), x)
        z = (x - like(np.broadcast_to(np.asarray(self.center, dtype=np.float64), shape).copy(), x)) / scale
        tables = [[xp.ones_like(z) if r == 0 else xp.zeros_like(z)] for r in range(order + 1)]
        for n in range(self.degree):
            a, c = _RECURRENCES[self.family](n)
            following = []
            for r in range(order + 1):
                value = a * z * tables[r][n]
                if r > 0:
                    value = value + a * r * tables[r - 1][n]
                following.append(value - c * tables[r][n - 1] if n > 0 and c else value)
            for table, value in zip(tables, following, strict=True):
                table.append(value)
        for r in range(1, order + 1):  # chain rule, dz/dx = 1 / scale
            tables[r] = [table / scale**r for table in tables[r]]
        return tables

    def _product(self, tables: list[list[FloatArray]], axes: tuple[int, ...]) -> FloatArray:
        """Multiply the factors of every function, differentiated once for each appearance in `axes`."""
        xp = array_namespace(tables[0][0])
        out: Any = None
        if not axes and self.dimension > self.degree > 0:  # a function has at most `degree` variables
            flat = xp.concat(tables[0], axis=1)  # degree m of variable a is column m d + a
            for columns in _columns_of_variables(self.dimension, self.degree):
                factors = xp.take(flat, like(columns, flat), axis=1)
                out = factors if out is None else out * factors
            return out  # type: ignore[no-any-return]
        for axis in range(self.dimension):
            table = xp.stack([degree[:, axis] for degree in tables[axes.count(axis)]], axis=1)
            factors = xp.take(table, like(self.exponents[:, axis], table), axis=1)  # (N, q)
            out = factors if out is None else out * factors
        return out  # type: ignore[no-any-return]


def _added(terms: Iterable[FloatArray]) -> FloatArray:
    """Return the sum of arrays of any library."""
    return reduce(add, terms)
