"""Plans that list their subsets: given, enumerated, partitions, balanced, and runs of a dependent series."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Self

import numpy as np

from .._core.random import stream
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_memory, check_work
from .plan import SUBSET_SECONDS, Design, ResamplingPlan
from .tiles import TILE_SUBSETS, TileDraw


@dataclass(frozen=True, kw_only=True, repr=False)
class ListedPlan(ResamplingPlan):
    """A plan that lists the subsets of a tile at once."""

    @abstractmethod
    def _tile_indices(self, tile: int) -> IntArray:
        """Return the observations of the subsets of the tile, shape (m, k); the last tile may list more."""

    def draw(self, tile: int, block: int) -> TileDraw:
        """See the base class."""
        drawn, rows = self._tile_indices(tile)[: self._tile_size(tile)], self.row_blocks[block]
        inside = (drawn >= rows.start) & (drawn < rows.stop)
        starts = np.concatenate([[0], np.cumsum(np.count_nonzero(inside, axis=1))])
        return TileDraw(rows.stop - rows.start, rows=drawn[inside] - rows.start, starts=starts)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class GivenPlan(ListedPlan):
    """Subsets held in memory; `weights` are their weights in an average, `origin` the plan they come from.

    `importance_weights`, where the probability P(S) of every draw is known, are 1 / (N P(S)), N the number of
    subsets there are: the average of w h has the complete statistic as its expectation.
    """

    subsets: IntArray  # (B, k)
    weights: FloatArray | None = field(default=None)
    importance_weights: FloatArray | None = field(default=None)
    origin: ResamplingPlan | None = field(default=None)

    @property
    def subset_weights(self) -> FloatArray | None:
        """See the base class."""
        return self.weights

    @property
    def design(self) -> Design:
        """See the base class: of subsets with weights of their own, no more than the first order is known."""
        if self.origin is not None:
            return self.origin.design
        if self.weights is None:
            return Design.of(self)
        return Design.of(self, "first_order", doubt="no variance is derived for weighted subsets")

    def _tile_indices(self, tile: int) -> IntArray:
        return self.subsets[self.tile_subsets(tile)]


@dataclass(frozen=True, kw_only=True, repr=False)
class PartitionPlan(ListedPlan):
    """Repeated random partitions into n // k disjoint subsets; the first n // k are divide and conquer.

    When k does not divide n, each partition leaves out n mod k observations, other ones each time.
    """

    seed: int
    statistic: str = "partition"

    @property
    def subsets_per_partition(self) -> int:
        """Number of disjoint subsets in one partition."""
        return self.n_observations // self.subsample_size

    @property
    def subset_groups(self) -> IntArray:
        """See the base class: the partition each subset belongs to."""
        return np.arange(self.n_resamples) // self.subsets_per_partition

    @property
    def design(self) -> Design:
        """See the base class: subsets of one partition share nothing."""
        everywhere = np.ones(self.n_resamples, dtype=bool)
        return Design.of(self, "groups", groups=self.subset_groups, disjoint=everywhere)

    def _tile_indices(self, tile: int) -> IntArray:
        subsets, per = self.tile_subsets(tile), self.subsets_per_partition
        partitions = range(subsets.start // per, -(-subsets.stop // per))
        drawn = np.concatenate([_draw_partition(self, number) for number in partitions])
        return drawn[subsets.start - partitions.start * per : subsets.stop - partitions.start * per]


@lru_cache(maxsize=2)  # one may have more subsets than a tile
def _draw_partition(plan: PartitionPlan, number: int) -> IntArray:
    """Return the disjoint subsets of one partition, shape (n // k, k)."""
    assert plan.seed is not None
    order = stream(plan.seed, number).permutation(plan.n_observations)
    used = plan.subsets_per_partition * plan.subsample_size
    return order[:used].reshape(-1, plan.subsample_size)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CompletePlan(GivenPlan):
    """Every subset once: the complete U- or V-statistic."""

    @property
    def design(self) -> Design:
        """See the base class."""
        return Design.of(self, exact=True)

    @classmethod
    def without_replacement(cls, n: int, k: int) -> Self:
        """Return all k-subsets of n observations."""
        n_subsets = _check_size(math.comb(n, k), n, k)
        subsets = np.fromiter(itertools.combinations(range(n), k), dtype=(np.intp, k), count=n_subsets)
        return cls(
            n_observations=n, subsample_size=k, n_resamples=n_subsets, statistic="complete",
            subsets=subsets, with_replacement=False,
        )  # fmt: skip

    @classmethod
    def with_repeats(cls, n: int, k: int) -> Self:
        """Return all k-multisets of n observations, weighted by their multinomial probabilities."""
        n_subsets = _check_size(math.comb(n + k - 1, k), n, k)
        choices = itertools.combinations_with_replacement(range(n), k)
        subsets = np.fromiter(choices, dtype=(np.intp, k), count=n_subsets)
        counts = (subsets[:, :, None] == np.arange(n)).sum(axis=1)
        log_factorial = np.array([math.lgamma(c + 1) for c in range(k + 1)])
        weights = np.exp(log_factorial[k] - log_factorial[counts].sum(axis=1) - k * math.log(n))
        return cls(
            n_observations=n, subsample_size=k, n_resamples=n_subsets, statistic="complete_v",
            subsets=subsets, with_replacement=True, weights=weights / weights.sum(),
        )  # fmt: skip


def _check_size(n_subsets: int, n: int, k: int) -> int:
    """Refuse more subsets than memory or a day allows, before they are listed."""
    number = float(min(n_subsets, 10**18))  # the whole number may be no double
    more = "more than " if n_subsets > number else ""
    got, hint = (
        f"{more}{number:.3g} subsets of k={k} of n={n}",
        'Draw some of them with statistic="U" or "V".',
    )
    check_memory(number * k, "subsample_size", got, hint)
    check_work(number * SUBSET_SECONDS, "subsample_size", got, hint)
    return n_subsets


@dataclass(frozen=True, kw_only=True, repr=False)
class BalancedPlan(ListedPlan):
    """Subset b is the b-th piece of k out of random permutations of all observations, laid end to end.

    Within a tile of 256 subsets, the counts of two observations never differ by more than one; the next tile
    starts afresh, so that it can be drawn without the ones before. A piece that reaches into the next
    permutation could repeat an observation: that permutation is drawn so that it does not. Every single
    subset is uniform over all subsets of k, because the procedure treats observations alike.
    """

    seed: int
    statistic: str = "balanced"

    @property
    def subset_groups(self) -> IntArray:
        """See the base class: the permutation in which each subset starts."""
        number = np.arange(self.n_resamples)
        tile, inside = number // TILE_SUBSETS, number % TILE_SUBSETS
        passes_per_tile = -(-TILE_SUBSETS * self.subsample_size // self.n_observations)
        return tile * passes_per_tile + inside * self.subsample_size // self.n_observations

    @property
    def design(self) -> Design:
        """See the base class: pieces that end in the permutation in which they start share nothing."""
        inside = np.arange(self.n_resamples) % TILE_SUBSETS
        room = self.n_observations - inside * self.subsample_size % self.n_observations
        return Design.of(self, "groups", groups=self.subset_groups, disjoint=room >= self.subsample_size)

    def _tile_indices(self, tile: int) -> IntArray:
        return _draw_balanced(self, tile)


@lru_cache(maxsize=2)
def _draw_balanced(plan: BalancedPlan, tile: int) -> IntArray:
    """Return 256 consecutive pieces of the tile's stream of permutations, shape (256, k)."""
    n, k = plan.n_observations, plan.subsample_size
    rng = stream(plan.seed, tile)
    laid = np.empty(TILE_SUBSETS * k, dtype=np.intp)
    for first in range(0, laid.size, n):
        begun = first % k  # observations of an unfinished piece at the end of the stream so far
        order = rng.permutation(n)
        if begun:  # the first that are not in the piece yet complete it; all keep their random order
            head = order[~np.isin(order, laid[first - begun : first])][: k - begun]
            order = np.concatenate([head, order[~np.isin(order, head)]])
        laid[first : first + n] = order[: laid.size - first]
    return laid.reshape(TILE_SUBSETS, k)


# Disjoint blocks need no plan of their own: they are sums of moments (`unit_moments`), drawn like
# trajectories. Overlapping ones are drawn here, observation by observation.


@dataclass(frozen=True, kw_only=True, repr=False)
class BlockPlan(ListedPlan):
    """Subsets of k observations in runs of about `block_length`, drawn with replacement.

    moving      runs of exactly that length that start anywhere they fit
    circular    the same on the series closed to a ring, so that every observation is equally likely
    stationary  on the ring, with lengths geometric of that mean

    The last run of a subset is cut so that it has k observations.
    """

    seed: int
    block_length: int
    with_replacement: bool = True

    @property
    def design(self) -> Design:
        """See the base class."""
        return Design.of(self, "runs")

    @cached_property
    def observation_weights(self) -> FloatArray | None:
        """See the base class: moving runs reach the two ends less often, which the weights make good."""
        if self.statistic != "moving":
            return None
        n, k, length = self.n_observations, self.subsample_size, self.block_length
        expected = np.zeros(n)
        n_starts = n - length + 1
        for size, n_runs in ((length, k // length), (k % length, 1)):
            # A run that starts at s covers s, ..., s + size - 1: add one there for every s, by differences.
            edges = np.zeros(n + 1)
            edges[:n_starts] += n_runs / n_starts
            edges[size : size + n_starts] -= n_runs / n_starts
            expected += np.cumsum(edges)[:n]
        return np.divide(k / n, expected, where=expected > 0, out=np.ones(n))

    def _tile_indices(self, tile: int) -> IntArray:
        return _draw_runs(self, tile)


@lru_cache(maxsize=2)
def _draw_runs(plan: BlockPlan, tile: int) -> IntArray:
    """Return the observations of all 256 subsets of the tile, shape (256, k)."""
    n, k, length = plan.n_observations, plan.subsample_size, plan.block_length
    rng = stream(plan.seed, tile)
    position = np.arange(k)
    if plan.statistic == "stationary":
        begins = rng.random((TILE_SUBSETS, k)) * length < 1.0
        begins[:, 0] = True
        run_start = np.maximum.accumulate(np.where(begins, position, 0), axis=1)
        origin = np.take_along_axis(rng.integers(0, n, (TILE_SUBSETS, k)), run_start, axis=1)
        return (origin + position - run_start) % n
    n_starts = n if plan.statistic == "circular" else n - length + 1
    starts = rng.integers(0, n_starts, (TILE_SUBSETS, -(-k // length)))
    return (starts[:, position // length] + position % length) % n
