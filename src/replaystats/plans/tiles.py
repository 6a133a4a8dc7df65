"""Drawing inside one tile: 256 subsets by at most 16384 rows, from one random stream.

Tiles make a plan a value. The stream of tile t splits k over the row blocks (multivariate hypergeometric
without replacement, multinomial with), the stream of (t, block) draws inside the block; so anybody who knows
(seed, n, k) can draw any tile without the others, and more subsets never change the first ones.

Both draws without replacement are justified by one argument: a procedure that treats the row labels alike and
returns a set of the right size returns a uniformly distributed set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray, IntArray

# Format: subsets of a tile, which has a random stream of its own: drawn plans depend on it.
TILE_SUBSETS = 256
# Format: rows of a tile.
TILE_ROWS = 16384
# Cost: below this share of rows, listing the drawn rows is cheaper than marking every row.
SPARSE_SHARE = 1 / 16


@dataclass(frozen=True, slots=True)
class TileDraw:
    """The part of up to 256 subsets that falls into one block of rows.

    Exactly one form is filled: `mask` (without replacement, many rows), or `rows` with `starts`
    (row numbers inside the block; subset j owns ``rows[starts[j]:starts[j + 1]]``).
    """

    n_rows: int
    mask: BoolArray | None = None  # (n_subsets, n_rows)
    rows: IntArray | None = None  # (total,)
    starts: IntArray | None = None  # (n_subsets + 1,)

    def row_lists(self) -> tuple[IntArray, IntArray]:
        """Return `(rows, starts)` whichever form is held."""
        if self.mask is not None:
            starts = np.concatenate([[0], np.cumsum(np.count_nonzero(self.mask, axis=1))])
            return np.nonzero(self.mask)[1], starts
        assert self.rows is not None
        assert self.starts is not None
        return self.rows, self.starts

    def first(self, n_subsets: int) -> TileDraw:
        """Return the draw of the first `n_subsets` subsets alone."""
        if self.mask is not None:
            return TileDraw(self.n_rows, mask=self.mask[:n_subsets])
        rows, starts = self.row_lists()
        return TileDraw(self.n_rows, rows=rows[: starts[n_subsets]], starts=starts[: n_subsets + 1])

    def counts(self, part: slice | None = None) -> FloatArray:
        """Return how often each row (or each row of `part`) was drawn, shape (n_subsets, n_rows)."""
        return self.small_counts(part).astype(np.float64)

    def small_counts(self, part: slice | None = None) -> np.ndarray:
        """Return the same as truth values or small integers, which take an eighth of the memory."""
        if self.mask is not None:
            return self.mask if part is None else self.mask[:, part]
        counted = self._sparse(np.int16 if self._largest_subset() < 2**15 else np.int32)
        found: np.ndarray = (counted if part is None else counted[:, part]).toarray()
        return found

    def sparse_counts(self) -> sparse.csr_array:
        """Return `counts()` as a sparse array; a row drawn twice appears twice, which products respect."""
        return self._sparse(np.float64)

    def _sparse(self, dtype: DTypeLike) -> sparse.csr_array:
        rows, starts = self.row_lists()
        index = rows.astype(np.int32), starts.astype(np.int32)
        return sparse.csr_array((np.ones(rows.size, dtype), *index), shape=(starts.size - 1, self.n_rows))

    def _largest_subset(self) -> int:
        return int(np.diff(self.row_lists()[1]).max(initial=0))


def draw_with_replacement(rng: np.random.Generator, n_rows: int, sizes: IntArray) -> TileDraw:
    """Draw ``sizes[j]`` rows of a block for every subset j, with replacement."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    # 16-bit draws cost half of 64-bit ones; a tile has at most 16384 rows.
    return TileDraw(n_rows, rows=rng.integers(0, n_rows, starts[-1], dtype=np.uint16), starts=starts)


def draw_without_replacement(
    rng: np.random.Generator, n_rows: int, sizes: IntArray, *, dense: bool
) -> TileDraw:
    """Draw ``sizes[j]`` distinct rows of a block for every subset j.

    Parameters
    ----------
    rng : Generator
        The stream of this tile and block.
    n_rows : int
        Rows in the block, at most 16384.
    sizes : ndarray of shape (n_subsets,)
        How many rows each subset takes here.
    dense : bool
        Mark every row (good for many rows) or list the drawn ones (good for few). Part of the plan's
        identity: the two forms consume the stream differently.
    """
    if dense:
        return TileDraw(n_rows, mask=mark_rows(rng, n_rows, sizes))
    rows = _list_rows(rng, n_rows, sizes)
    return TileDraw(n_rows, rows=rows, starts=np.concatenate([[0], np.cumsum(sizes)]))


def mark_rows(rng: np.random.Generator, n_rows: int, sizes: IntArray) -> BoolArray:
    """Mark each row by one random byte, then flip random rows until every count is exact.

    About sqrt(n) rows per subset need the second step, so the cost is close to one byte per row.
    """
    n_subsets = sizes.size
    share = min(max(sizes.mean() / n_rows, 1 / 256), 255 / 256)
    words = rng.bit_generator.random_raw(-(-n_subsets * n_rows // 8)).astype("<u8", copy=False)
    uniform_bytes = words.view(np.uint8)[: n_subsets * n_rows].reshape(n_subsets, n_rows)
    mask: BoolArray = uniform_bytes < round(256 * share)
    flat = mask.reshape(-1)
    surplus = np.array([np.count_nonzero(subset) for subset in mask]) - sizes  # four times as fast as by axis
    while (open_subsets := np.flatnonzero(surplus)).size:
        missing = np.abs(surplus[open_subsets])
        flip_from = surplus[open_subsets] > 0  # marked rows leave, or unmarked rows enter
        hit_rate = np.where(flip_from, share, 1 - share)
        n_candidates = int((missing / hit_rate).max() * 1.2) + 8
        candidates = rng.integers(0, n_rows, (open_subsets.size, n_candidates), dtype=np.uint16)
        places = open_subsets[:, None] * n_rows + candidates
        usable = flat.take(places) == flip_from[:, None]
        usable &= np.cumsum(usable, axis=1, dtype=np.int32) <= missing[:, None]
        # A candidate may come twice: it flips once, and the next round makes up for it.
        cells = _distinct(places[usable])
        flat[cells] ^= True
        surplus -= np.sign(surplus) * np.bincount(cells // n_rows, minlength=n_subsets)
    return mask


def _distinct(values: IntArray) -> IntArray:
    """Return the distinct values in order; several times faster here than the hash table of np.unique."""
    values.sort()
    first = np.ones(values.size, dtype=np.bool_)  # stays right when there are no values at all
    first[1:] = values[1:] != values[:-1]
    return values[first]


def _list_rows(rng: np.random.Generator, n_rows: int, sizes: IntArray) -> IntArray:
    """Draw rows with replacement and redraw repeated ones until none is left; sorted within a subset.

    Every subset has a line of its own, filled up with a number above any row: lines of 16-bit numbers sort
    ten times faster than one list of everything.
    """
    taken = np.arange(sizes.max()) < sizes[:, None]
    rows = np.full(taken.shape, np.iinfo(np.uint16).max, dtype=np.uint16)
    rows[taken] = rng.integers(0, n_rows, int(sizes.sum()), dtype=np.uint16)
    while True:
        rows.sort(axis=1)
        line, column = np.nonzero((rows[:, 1:] == rows[:, :-1]) & taken[:, 1:])
        if line.size == 0:
            return rows[taken]
        rows[line, column] = rng.integers(0, n_rows, line.size, dtype=np.uint16)


# Laws of sampling without replacement that NumPy lacks: huge hypergeometric, and conditional Poisson.


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
