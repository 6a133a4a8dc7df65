"""Plans for one long dependent series: subsets made of runs of consecutive observations.

Disjoint blocks need no plan of their own: they are sums of moments (`unit_moments`), drawn like trajectories.
Overlapping ones are drawn here, observation by observation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from .._core.random import stream
from .._core.typing import FloatArray, IntArray
from .design import Design
from .given import TileListedPlan
from .tiles import TILE_SUBSETS

BLOCK_SCHEMES = ("moving", "circular", "stationary")


@dataclass(frozen=True, kw_only=True, repr=False)
class BlockPlan(TileListedPlan):
    """Subsets of k observations in runs of about `block_length`, drawn with replacement.

    moving      runs of exactly that length that start anywhere they fit
    circular    the same on the series closed to a ring, so that every observation is equally likely
    stationary  on the ring, with lengths geometric of that mean

    The last run of a subset is cut so that it has k observations.
    """

    seed: int
    block_length: int

    @property
    def with_replacement(self) -> bool:
        """See the base class."""
        return True

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
        return _draw_tile(self, tile)


@lru_cache(maxsize=2)
def _draw_tile(plan: BlockPlan, tile: int) -> IntArray:
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
