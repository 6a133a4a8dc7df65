"""Laws of sampling without replacement that NumPy lacks: huge hypergeometric, and conditional Poisson."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .._core.errors import must_be
from .._core.typing import FloatArray, IntArray

# Ratio of uniforms (Stadlober 1990), with the log-probability in the saddle-point form of Loader (2000):
# every term is of the order of the answer, so that populations of 10^15 lose no digit, where differences of
# log-factorials would lose all of them.

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_TABLE = np.array(
    [0.0, *(math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - _HALF_LOG_2PI for n in range(1, 16))]
)
# Format: of NumPy's multivariate hypergeometric distribution.
LARGEST_POPULATION = 10**9
# Batch: the table below has n (k + 1) numbers; this many are half a gigabyte.
MAX_TABLE = 2**26


def split_without_replacement(rng: np.random.Generator, sizes: IntArray, draws: IntArray) -> IntArray:
    """Split draws without replacement over blocks of any number of rows.

    Parameters
    ----------
    rng : Generator
    sizes : ndarray of int, shape (n_blocks,)
        Rows of every block, each below 10^9.
    draws : ndarray of int, shape (m,)
        Rows drawn by every subset.

    Returns
    -------
    ndarray of int, shape (m, n_blocks)

    Notes
    -----
    Runs of blocks with fewer than 10^9 rows are split off one after the other; each run is NumPy's.

    Examples
    --------
    >>> shares = split_without_replacement(
    ...     np.random.default_rng(0), np.full(4, 6 * 10**8), np.full(2, 10**6)
    ... )
    >>> shares.sum(axis=1)
    array([1000000, 1000000])
    """
    left, total = np.array(draws, dtype=np.int64), int(sizes.sum())
    parts, first = [], 0
    while first < len(sizes):
        last = first + max(1, int(np.searchsorted(np.cumsum(sizes[first:]), LARGEST_POPULATION)))
        rows = int(sizes[first:last].sum())
        taken = left if last == len(sizes) else hypergeometric(rng, rows, total - rows, left)
        parts.append(np.stack([rng.multivariate_hypergeometric(sizes[first:last], k) for k in taken]))
        left, total, first = left - taken, total - rows, last
    return np.concatenate(parts, axis=1)


def hypergeometric(rng: np.random.Generator, good: int, bad: int, draws: IntArray) -> IntArray:
    """Return how many of `draws` balls, drawn without replacement, are good.

    Parameters
    ----------
    rng : Generator
    good, bad : int
        Balls of each kind, up to 2^52.
    draws : ndarray of int
        Balls drawn, each at most good + bad.

    Returns
    -------
    ndarray of int, the shape of `draws`

    Examples
    --------
    >>> found = hypergeometric(np.random.default_rng(0), 3 * 10**9, 10**9, np.full(1000, 10**6))
    >>> bool(abs(found.mean() - 750_000) < 100)
    True
    """
    total = good + bad
    k = np.asarray(draws, dtype=np.int64).ravel()
    # With k draws or the rest, with good or bad balls: the smallest of the four problems.
    few = np.minimum(k, total - k)
    less = min(good, bad)
    found = np.empty(k.size, dtype=np.int64)
    waiting = np.arange(k.size)
    mode = ((few + 1) * ((less + 1) / (total + 2))).astype(np.int64)
    top = _log_probability(mode, few, less, total)
    mean = few * (less / total)
    variance = mean * (1 - less / total) * ((total - few) / max(total - 1, 1))
    width = 1.7155277699214135 * np.sqrt(variance + 0.5) + 0.8989161620588988
    while waiting.size:
        u, v = rng.random((2, waiting.size))
        at, w, m = few[waiting], width[waiting], mean[waiting]
        with np.errstate(over="ignore", divide="ignore"):
            x = np.floor(m + 0.5 + w * (v - 0.5) / np.maximum(u, 1e-300))
        inside = (x >= np.maximum(0, at - (total - less))) & (x <= np.minimum(at, less))
        x = np.where(inside, x, mode[waiting]).astype(np.int64)
        accepted = inside & (2 * np.log(u) <= _log_probability(x, at, less, total) - top[waiting])
        found[waiting[accepted]] = x[accepted]
        waiting = waiting[~accepted]
    found = np.where(k > total - k, less - found, found)  # the rest was drawn
    found = found if good <= bad else k - found  # bad ones were counted
    return found.reshape(np.shape(draws))


def _log_probability(x: IntArray, draws: IntArray, good: int, total: int) -> FloatArray:
    """Return the log-probability of x good ones, as three binomial ones (as R's dhyper)."""
    p = draws / total
    return np.asarray(
        _log_binomial(x, np.full(x.shape, good), p)
        + _log_binomial(draws - x, np.full(x.shape, total - good), p)
        - _log_binomial(draws, np.full(x.shape, total), p)
    )


def _log_binomial(successes: IntArray, trials: IntArray, p: FloatArray) -> FloatArray:
    """Return the log-probability of so many successes, in saddle-point form."""
    x, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    rest = n - x
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (
            _stirling_error(n)
            - _stirling_error(x)
            - _stirling_error(rest)
            - _deviance(x, n * p)
            - _deviance(rest, n * (1 - p))
            - _HALF_LOG_2PI
            + 0.5 * (np.log(n) - np.log(x) - np.log(rest))
        )
        none, every = n * np.log1p(-p), n * np.log(p)
    return np.where(x == 0, np.where(n == 0, 0.0, none), np.where(rest == 0, every, value))


def _stirling_error(n: FloatArray) -> FloatArray:
    """Return log n! less Stirling's formula; the series is exact to rounding from 16 on."""
    small = _TABLE[np.minimum(n, 15).astype(np.intp)]
    m = np.maximum(n, 16.0)
    square = m * m
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / m
    return np.where(n < 16, small, series)


def _deviance(x: FloatArray, expected: FloatArray) -> FloatArray:
    """Return x log(x / expected) + expected - x without cancellation where both are close."""
    difference = x - expected
    ratio = difference / np.where(x + expected > 0, x + expected, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = x * np.log(x / expected) - difference
    # With v = (x - e) / (x + e): (x - e) v + 2 x (v^3 / 3 + v^5 / 5 + ...).
    near, power = difference * ratio, 2 * x * ratio
    for j in range(1, 12):
        power = power * ratio * ratio
        near = near + power / (2 * j + 1)
    return np.where(np.abs(ratio) < 0.1, near, far)


# e_r(i) below is the elementary symmetric polynomial of degree r in the odds of the observations i, ..., n
# - 1. It obeys e_r(i) = e_r(i + 1) + omega_i e_{r-1}(i + 1), where all terms are positive: in logarithms
# nothing can overflow or cancel.


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
