"""Subsets that use every observation equally often: consecutive pieces of a stream of permutations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .._core.random import stream
from .._core.typing import IntArray
from .design import Design
from .given import TileListedPlan
from .tiles import TILE_SUBSETS


@dataclass(frozen=True, kw_only=True, repr=False)
class BalancedPlan(TileListedPlan):
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
        return _draw_tile(self, tile)


@lru_cache(maxsize=2)
def _draw_tile(plan: BalancedPlan, tile: int) -> IntArray:
    """Return 256 consecutive pieces of the tile's stream of permutations, shape (256, k)."""
    n, k = plan.n_observations, plan.subsample_size
    rng = stream(plan.seed, tile)
    laid = np.empty(TILE_SUBSETS * k, dtype=np.intp)
    for first in range(0, laid.size, n):
        begun = first % k  # observations of an unfinished piece at the end of the stream so far
        order = _avoid(rng.permutation(n), laid[first - begun : first], k - begun if begun else 0)
        laid[first : first + n] = order[: laid.size - first]
    return laid.reshape(TILE_SUBSETS, k)


def _avoid(order: IntArray, used: IntArray, n_head: int) -> IntArray:
    """Reorder a random permutation so that its first `n_head` entries are not among `used`.

    The unused observations keep their random order; the first of them make the head, all others the rest.
    """
    if used.size == 0:
        return order
    head = order[~np.isin(order, used)][:n_head]
    return np.concatenate([head, order[~np.isin(order, head)]])
