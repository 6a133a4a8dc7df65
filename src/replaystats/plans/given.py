"""Plans that list their subsets: given by the user, complete enumerations, random partitions."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from .._core.errors import must_be
from .._core.random import stream
from .._core.typing import FloatArray, IntArray
from .design import Design
from .plan import ResamplingPlan
from .tiles import TileDraw

# More subsets than this cannot be what a user wants to enumerate.
MAX_COMPLETE = 2_000_000


@dataclass(frozen=True, kw_only=True, repr=False)
class ListedPlan(ResamplingPlan):
    """A plan that knows the indices of a range of subsets directly."""

    @abstractmethod
    def indices(self, start: int = 0, stop: int | None = None) -> IntArray:
        """See the base class."""

    def draw(self, tile: int, block: int) -> TileDraw:
        """See the base class."""
        subsets, rows = self.tile_subsets(tile), self.row_blocks[block]
        drawn = self.indices(subsets.start, subsets.stop)
        inside = (drawn >= rows.start) & (drawn < rows.stop)
        starts = np.concatenate([[0], np.cumsum(np.count_nonzero(inside, axis=1))])
        return TileDraw(rows.stop - rows.start, rows=drawn[inside] - rows.start, starts=starts)


@dataclass(frozen=True, kw_only=True, repr=False)
class TileListedPlan(ListedPlan):
    """A plan that lists the 256 subsets of a tile at once."""

    @abstractmethod
    def _tile_indices(self, tile: int) -> IntArray:
        """Return the observations of all subsets of the tile, shape (256, k)."""

    def indices(self, start: int = 0, stop: int | None = None) -> IntArray:
        """See the base class."""
        return ResamplingPlan.indices(self, start, stop)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class GivenPlan(ListedPlan):
    """Subsets held in memory; `weights` are their weights in an average, `origin` the plan they come from."""

    subsets: IntArray  # (B, k)
    repeats: bool
    weights: FloatArray | None = field(default=None)
    origin: ResamplingPlan | None = field(default=None)

    @property
    def with_replacement(self) -> bool:
        """See the base class."""
        return self.repeats

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

    def indices(self, start: int = 0, stop: int | None = None) -> IntArray:
        """See the base class."""
        return self.subsets[start:stop]


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

    def indices(self, start: int = 0, stop: int | None = None) -> IntArray:
        """See the base class."""
        stop = self.n_resamples if stop is None else min(stop, self.n_resamples)
        per = self.subsets_per_partition
        partitions = range(start // per, -(-stop // per))
        if not partitions:
            return np.empty((0, self.subsample_size), dtype=np.intp)
        drawn = np.concatenate([self._partition(number) for number in partitions])
        return drawn[start - partitions.start * per : stop - partitions.start * per]

    def _partition(self, number: int) -> IntArray:
        order = stream(self.seed, number).permutation(self.n_observations)
        used = self.subsets_per_partition * self.subsample_size
        return order[:used].reshape(self.subsets_per_partition, self.subsample_size)


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
            subsets=subsets, repeats=False,
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
            subsets=subsets, repeats=True, weights=weights / weights.sum(),
        )  # fmt: skip


def _check_size(n_subsets: int, n: int, k: int) -> int:
    if n_subsets > MAX_COMPLETE:
        raise ValueError(
            must_be(
                "subsample_size",
                f"small enough that at most {MAX_COMPLETE} subsets exist for a complete plan",
                f"{n_subsets:.3g} subsets of k={k} of n={n}",
                'Draw some of them with statistic="U" or "V".',
            )
        )
    return n_subsets
