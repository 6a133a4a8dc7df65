"""Plans that prefer some observations: importance sampling, with and without replacement.

Subsets drawn with unequal probabilities do not aim at theta unless the preference is undone. Two ways:

- ``weighting="observations"``: every draw of observation i counts 1 / (n p_i) (with replacement) or
  k / (n pi_i) (without) inside the sums. The target is the plug-in's, and the weights stay bounded.
- ``weighting="subsets"``: sums are left alone and the answer of subset b is weighted by how much likelier
  b is under uniform draws. Exact, but these weights are products of k factors and degenerate as k grows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from .._core.errors import must_be, renamed
from .._core.random import draw_seed, stream
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import check_array, check_int, check_length, check_memory, check_real
from .plan import Design, ResamplingPlan, share_of_block
from .tiles import TILE_SUBSETS, TileDraw

WEIGHTINGS = ("observations", "subsets")
# Batch: the table of inclusion has n (k + 1) numbers; this many are half a gigabyte.
MAX_TABLE = 2**26


def check_probabilities(probabilities: ArrayLike, n_observations: int) -> FloatArray:
    """Return relative probabilities or priorities as probabilities that sum to one, shape (n,)."""
    p = check_array(probabilities, "probabilities", ndim=1)
    check_length(len(p), n_observations, "probabilities", "n_observations")
    if p.min() <= 0.0:
        hint = "An observation that is never drawn cannot be weighted back: mix with uniform draws."
        raise ValueError(must_be("probabilities", "positive", f"{p.min():g} at index {p.argmin()}", hint))
    return np.asarray(p / p.sum())


def effective_size(weights: FloatArray) -> float:
    """Return Kish's effective number of equally weighted items, (sum w)^2 / sum w^2.

    Examples
    --------
    >>> effective_size(np.array([1.0, 1.0, 1.0, 0.0]))
    3.0
    """
    return float(weights.sum() ** 2 / (weights**2).sum())


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WeightedPlan(ResamplingPlan):
    """Independent subsets drawn with unequal probabilities.

    Attributes
    ----------
    probabilities : ndarray of shape (n,)
        Sum to one. Without replacement they are the odds of the draw, not its inclusion probabilities.
    weighting : {"observations", "subsets"}
        Where the preference is undone: inside the sums, or by weights of whole subsets.
    """

    seed: int
    probabilities: FloatArray
    weighting: str = "observations"

    @property
    @abstractmethod
    def expected_counts(self) -> FloatArray:
        """Expected number of times each observation is in a subset, shape (n,); sums to k."""

    @abstractmethod
    def _log_ratio(self) -> FloatArray:
        """Log of (uniform probability / probability here) of every subset, shape (B,)."""

    def _mask_of_tile(self, tile: int) -> np.ndarray:
        """Return which observations are in the 256 subsets of the tile, shape (256, n)."""
        raise NotImplementedError(f"{type(self).__name__} draws with replacement.")

    def draw(self, tile: int, block: int) -> TileDraw:
        """See the base class."""
        rows = self.row_blocks[block]
        mask = _tile_mask(self, tile)[: self._tile_size(tile), rows]
        return TileDraw(rows.stop - rows.start, mask=mask)

    @cached_property
    def observation_weights(self) -> FloatArray | None:
        """See the base class: Horvitz-Thompson weights (k / n) / expected count."""
        if self.weighting == "subsets":
            return None
        return np.asarray(self.subsample_size / self.n_observations / self.expected_counts)

    @cached_property
    def importance_weights(self) -> FloatArray | None:
        """Uniform over present probability of every subset, shape (B,), expectation one; None if unused."""
        return np.exp(self._log_ratio()) if self.weighting == "subsets" else None

    @cached_property
    def subset_weights(self) -> FloatArray | None:
        """See the base class: the importance weights, self-normalised."""
        if self.weighting == "observations":
            return None
        log_ratio = self._log_ratio()
        weights = np.exp(log_ratio - log_ratio.max())
        return np.asarray(weights / weights.sum())

    @property
    def design(self) -> Design:
        """See the base class: to first order the average has the plug-in's variance; no more is derived."""
        doubt = "no variance beyond first order is derived for unequal probabilities without replacement"
        if self.weighting == "subsets":
            doubt = (
                f"whole subsets are weighted (worth {self.effective_resamples:.1f} of {self.n_resamples} "
                "equal ones), for which no variance is derived"
            )
        return Design.of(self, "first_order", doubt=doubt)

    @property
    def effective_resamples(self) -> float:
        """Number of equally weighted subsets that the B weighted ones are worth."""
        if self.subset_weights is None:
            return float(self.n_resamples)
        return effective_size(self.subset_weights)

    @property
    def effective_subsample_size(self) -> float:
        """Number of uniform draws that the k weighted ones of a subset are worth.

        k / E[w^2] with w the weight of a draw: the O(1/k) terms of an answer grow as if k were this.
        """
        weights = self.observation_weights
        if weights is None:
            return float(self.subsample_size)
        return float(self.subsample_size**2 / (self.expected_counts @ weights**2))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ImportancePlan(WeightedPlan):
    """With replacement: the counts of a subset are multinomial(k, p)."""

    statistic: str = "V"
    with_replacement: bool = True

    @property
    def expected_counts(self) -> FloatArray:
        """See the base class."""
        return self.subsample_size * self.probabilities

    @property
    def design(self) -> Design:
        """See the base class: with weights inside the sums, that of uniform draws (see `design`)."""
        if self.weighting == "subsets":
            return super().design
        squares = float((self.probabilities**2).sum())
        return Design.of(self, count_variance=self.subsample_size * (1 - squares))

    def draw(self, tile: int, block: int) -> TileDraw:
        """See the base class."""
        rows = self.row_blocks[block]
        sizes = share_of_block(self, tile, block)[: self._tile_size(tile)]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        cumulated = np.cumsum(self.probabilities[rows])
        uniform = stream(self.seed, tile, block).random(starts[-1])
        drawn = np.searchsorted(cumulated, uniform * cumulated[-1], side="right")
        # u * total can round up to the total itself, which belongs to the last row.
        last = rows.stop - rows.start - 1
        return TileDraw(last + 1, rows=np.minimum(drawn, last).astype(np.uint16), starts=starts)

    @cached_property
    def block_shares(self) -> FloatArray:
        """See the base class."""
        shares = np.array([self.probabilities[rows].sum() for rows in self.row_blocks])
        return np.asarray(shares / shares.sum())

    def _log_ratio(self) -> FloatArray:
        log_factor = -np.log(self.n_observations * self.probabilities)
        return sum_over_subsets(self, log_factor)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ConditionalPoissonPlan(WeightedPlan):
    """Without replacement: P(S) is proportional to the product of the odds p_i over S.

    Independent coins with odds p_i, given that exactly k of them fall on heads. Inclusion probabilities are
    exact, by elementary symmetric polynomials: O(n k) once per plan.
    """

    statistic: str = "U"

    @cached_property
    def expected_counts(self) -> FloatArray:
        """See the base class: the inclusion probabilities."""
        return remaining_inclusion(self._table)

    @cached_property
    def _table(self) -> FloatArray:
        return inclusion_table(np.log(self.probabilities), self.subsample_size)

    def _mask_of_tile(self, tile: int) -> np.ndarray:
        """Go through the observations once, deciding each for all 256 subsets."""
        rng, table = stream(self.seed, tile), self._table
        remaining = np.full(TILE_SUBSETS, self.subsample_size)
        mask = np.empty((self.n_observations, TILE_SUBSETS), dtype=np.bool_)
        for row, taken in zip(table, mask, strict=True):
            np.less(rng.random(TILE_SUBSETS), row[remaining], out=taken)
            remaining -= taken
        return mask.T

    def _log_ratio(self) -> FloatArray:
        n, k = self.n_observations, self.subsample_size
        log_odds = np.log(self.probabilities)
        log_uniform = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        normaliser = log_symmetric_polynomial(log_odds, k)
        return normaliser - log_uniform - sum_over_subsets(self, log_odds)


@lru_cache(maxsize=2)  # all row blocks of a tile, one after the other
def _tile_mask(plan: WeightedPlan, tile: int) -> np.ndarray:
    return plan._mask_of_tile(tile)


def sum_over_subsets(plan: ResamplingPlan, values: FloatArray) -> FloatArray:
    """Return the sum of `values` over the observations of every subset, shape (B,)."""
    total = np.zeros(plan.n_resamples)
    for tile, subsets in plan.tiles():
        for block, rows in enumerate(plan.row_blocks):
            total[subsets] += plan.draw(tile, block).sparse_counts() @ values[rows]
    return total


def proportional_probabilities(
    priorities: ArrayLike, *, exponent: float = 1.0, uniform_share: float = 0.1
) -> FloatArray:
    """Return probabilities proportional to ``priorities ** exponent``, mixed with uniform ones.

    Parameters
    ----------
    priorities : array-like of shape (n,)
        Non-negative: absolute temporal-difference errors, lengths of influence vectors, ...
    exponent : float >= 0
        0 draws uniformly, 1 in proportion.
    uniform_share : float in [0, 1]
        Share of uniform draws. It bounds the weight of any draw by 1 / uniform_share.

    Returns
    -------
    ndarray of shape (n,)
        Sums to one.

    Examples
    --------
    >>> proportional_probabilities([1.0, 3.0], uniform_share=0.5)
    array([0.375, 0.625])
    """
    p = check_array(priorities, "priorities", ndim=1)
    exponent = check_real(exponent, "exponent", low=0.0)
    if p.min() < 0.0:
        raise ValueError(must_be("priorities", "non-negative", f"{p.min():g} at index {p.argmin()}"))
    return _mix(p**exponent, uniform_share)


def rank_probabilities(
    priorities: ArrayLike, *, exponent: float = 1.0, uniform_share: float = 0.1
) -> FloatArray:
    """Return probabilities proportional to ``(1 / rank) ** exponent``; the largest priority has rank 1.

    Outliers cannot dominate, because only the order counts. Equal priorities share their mean rank.

    Parameters
    ----------
    priorities : array-like of shape (n,)
        Any numbers; a larger one is drawn more often.
    exponent : float
        0 makes all probabilities equal; larger values prefer the first ranks more.
    uniform_share : float
        Share of the draws that is uniform, between 0 and 1, so that nothing has probability zero.

    Returns
    -------
    ndarray of shape (n,)
        Probabilities that sum to one.

    Examples
    --------
    >>> rank_probabilities([5.0, 100.0, 1.0], uniform_share=0.0).round(3)
    array([0.273, 0.545, 0.182])
    """
    p = check_array(priorities, "priorities", ndim=1)
    exponent = check_real(exponent, "exponent", low=0.0)
    _, group, counts = np.unique(-p, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2
    return _mix(mean_rank[group] ** -exponent, uniform_share)


def _mix(p: FloatArray, uniform_share: float) -> FloatArray:
    share = check_real(uniform_share, "uniform_share", low=0.0, high=1.0)
    total = p.sum()
    if total == 0.0 and share < 1.0:
        hint = "Leave them out to draw uniformly."
        raise ValueError(must_be("priorities", "positive somewhere", "zeros only", hint))
    return np.asarray(share / p.size + (1.0 - share) * p / (total or 1.0))


# Lahiri-Midzuno plans: subsets with probability proportional to the sum of a size over their observations.
#
# Draw one observation with probability proportional to a_i > 0 and the other k - 1 uniformly from the rest.
# Then P(S) is exactly proportional to the sum of a over S (Lahiri 1951; Midzuno 1952), and the importance
# weight of a subset is mean(a) / mean_S(a): a ratio of means, not a product of k factors, bounded for any k.


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MidzunoPlan(WeightedPlan):
    """Without replacement: P(S) is proportional to the sum of the probabilities p_i over S."""

    statistic: str = "U"
    weighting: str = "subsets"

    @cached_property
    def expected_counts(self) -> FloatArray:
        """See the base class: p_i + (1 - p_i) (k - 1) / (n - 1)."""
        others = (self.subsample_size - 1) / (self.n_observations - 1)
        return np.asarray(self.probabilities + (1.0 - self.probabilities) * others)

    def _mask_of_tile(self, tile: int) -> np.ndarray:
        rng, n, k = stream(self.seed, tile), self.n_observations, self.subsample_size
        cumulated = np.cumsum(self.probabilities)
        first = np.searchsorted(cumulated, rng.random(TILE_SUBSETS) * cumulated[-1], side="right")
        keys = rng.random((TILE_SUBSETS, n))
        # the first is always among them
        np.put_along_axis(keys, np.minimum(first, n - 1)[:, None], -1.0, axis=1)
        chosen = np.argpartition(keys, k - 1, axis=1)[:, :k]
        mask = np.zeros((TILE_SUBSETS, n), dtype=np.bool_)
        np.put_along_axis(mask, chosen, True, axis=1)
        return mask

    def _log_ratio(self) -> FloatArray:
        share = self.subsample_size / self.n_observations
        return np.asarray(np.log(share) - np.log(sum_over_subsets(self, self.probabilities)))


def midzuno_plan(
    sizes: ArrayLike, *, subsample_size: int, n_resamples: int, random_state: RandomLike = None
) -> MidzunoPlan:
    """Draw subsets with probability proportional to the sum of their sizes.

    Parameters
    ----------
    sizes : array-like of shape (n,)
        Positive, one for each observation; `inference.midzuno_sizes` gives those that cancel the linear part.
    subsample_size : int
        k.
    n_resamples : int
        B.
    random_state : None, int, Generator, RandomState or SeedSequence
        Where the randomness comes from.

    Returns
    -------
    MidzunoPlan
        Its replicates are averaged by `inference.reweighted_average`.

    Examples
    --------
    >>> plan = midzuno_plan([1.0, 2.0, 3.0, 4.0], subsample_size=2, n_resamples=3, random_state=0)
    >>> plan.expected_counts.round(2)
    array([0.4 , 0.47, 0.53, 0.6 ])
    """
    checked = check_array(sizes, "sizes", ndim=1)
    n = len(checked)
    with renamed("probabilities", "sizes"):
        probabilities = check_probabilities(checked, n)
    check_memory(float(check_int(n_resamples, "n_resamples")), "n_resamples", n_resamples)
    return MidzunoPlan(
        n_observations=n,
        subsample_size=check_int(subsample_size, "subsample_size", high=n),
        n_resamples=check_int(n_resamples, "n_resamples"),
        seed=draw_seed(random_state),
        probabilities=probabilities,
    )


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
