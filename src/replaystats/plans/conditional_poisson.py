"""Conditional Poisson sampling: P(S) = prod_S omega_i / e_k(omega), over all subsets S of size k.

e_r(i) below is the elementary symmetric polynomial of degree r in the odds of the observations i, ..., n - 1.
It obeys e_r(i) = e_r(i + 1) + omega_i e_{r-1}(i + 1), where all terms are positive: in logarithms nothing can
overflow or cancel.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._core.errors import must_be
from .._core.typing import FloatArray

# The table below has n (k + 1) numbers; this many are half a gigabyte.
MAX_TABLE = 2**26


def log_symmetric_polynomial(log_odds: FloatArray, size: int) -> float:
    """Return log e_k of the odds.

    Examples
    --------
    >>> float(np.exp(log_symmetric_polynomial(np.log([1.0, 2.0, 3.0]), 2)).round(9))  # 1*2 + 1*3 + 2*3
    11.0
    """
    *_, (_, polynomial) = _polynomials(log_odds, size)
    return float(polynomial[size])


def inclusion_table(log_odds: FloatArray, size: int) -> FloatArray:
    """Return P(observation i is taken | r are still to be taken from i, ..., n - 1), shape (n, k + 1).

    The chance is omega_i e_{r-1}(i + 1) / e_r(i). Going through the observations in order and
    tossing these coins draws a subset.
    """
    n = len(log_odds)
    if n * (size + 1) > MAX_TABLE:
        rule = f"such that n (k + 1) <= {MAX_TABLE} without replacement and with probabilities"
        hint = 'Use a smaller one, or statistic="V".'
        raise ValueError(must_be("subsample_size", rule, f"k={size} of n={n}", hint))
    table = np.zeros((n, size + 1))
    following = _empty_polynomial(size)
    for i, polynomial in _polynomials(log_odds, size):
        possible = np.isfinite(polynomial[1:])  # r of the n - i observations left: impossible for r > n - i
        chance = log_odds[i] + following[:-1][possible] - polynomial[1:][possible]
        table[i, 1:][possible] = np.exp(chance)
        following = polynomial
    return table


def remaining_inclusion(table: FloatArray) -> FloatArray:
    """Return the inclusion probabilities that the table of `inclusion_table` leads to, shape (n,).

    The number still to be taken is a Markov chain along the observations; its law is carried forward.
    """
    n, size = table.shape[0], table.shape[1] - 1
    law = np.zeros(size + 1)
    law[size] = 1.0
    inclusion = np.empty(n)
    for i in range(n):
        taken = law * table[i]
        inclusion[i] = taken.sum()
        law -= taken
        law[:-1] += taken[1:]
    return inclusion


def _empty_polynomial(size: int) -> FloatArray:
    return np.concatenate([[0.0], np.full(size, -np.inf)])  # log e_r of no observations: only e_0 = 1


def _polynomials(log_odds: FloatArray, size: int) -> Iterator[tuple[int, FloatArray]]:
    """Yield i and log e_r(i), shape (k + 1,), from the last observation to the first."""
    polynomial = _empty_polynomial(size)
    for i in range(len(log_odds) - 1, -1, -1):
        following = polynomial
        polynomial = following.copy()
        polynomial[1:] = np.logaddexp(following[1:], log_odds[i] + following[:-1])
        yield i, polynomial
