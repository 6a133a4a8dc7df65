"""Multi-indices: which one-dimensional functions are multiplied to make each function of d variables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import numpy as np

from .._core.typing import IntArray


def total_degree_indices(dimension: int, degree: int) -> IntArray:
    """Return all non-negative multi-indices with sum <= `degree`, by increasing sum.

    Examples
    --------
    >>> total_degree_indices(2, 2).tolist()
    [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    """
    # A monomial of degree s is a multiset of s variables; counting each variable gives its exponents.
    multisets = (
        chosen
        for total in range(degree + 1)
        for chosen in combinations_with_replacement(range(dimension), total)
    )
    return np.array([np.bincount(np.array(m, dtype=int), minlength=dimension) for m in multisets])


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
