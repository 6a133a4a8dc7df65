"""Lahiri-Midzuno plans: subsets with probability proportional to the sum of a size over their observations.

Draw one observation with probability proportional to a_i > 0 and the other k - 1 uniformly from the rest.
Then P(S) is exactly proportional to the sum of a over S (Lahiri 1951; Midzuno 1952), and the importance
weight of a subset is mean(a) / mean_S(a): a ratio of means, not a product of k factors, bounded for any k.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from .._core.errors import renamed
from .._core.random import draw_seed, stream
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import check_array, check_int, check_memory
from .tiles import TILE_SUBSETS, TileDraw
from .weighted import WeightedPlan, check_probabilities, sum_over_subsets


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

    def draw(self, tile: int, block: int) -> TileDraw:
        """See the base class."""
        rows = self.row_blocks[block]
        n_subsets = self._tile_size(tile)
        return TileDraw(rows.stop - rows.start, mask=_draw_tile(self, tile)[:n_subsets, rows])

    def _log_ratio(self) -> FloatArray:
        share = self.subsample_size / self.n_observations
        return np.asarray(np.log(share) - np.log(sum_over_subsets(self, self.probabilities)))


@lru_cache(maxsize=2)
def _draw_tile(plan: MidzunoPlan, tile: int) -> np.ndarray:
    """Return which observations are in the 256 subsets of the tile, shape (256, n)."""
    rng, n, k = stream(plan.seed, tile), plan.n_observations, plan.subsample_size
    cumulated = np.cumsum(plan.probabilities)
    first = np.searchsorted(cumulated, rng.random(TILE_SUBSETS) * cumulated[-1], side="right")
    keys = rng.random((TILE_SUBSETS, n))
    np.put_along_axis(keys, np.minimum(first, n - 1)[:, None], -1.0, axis=1)  # the first is always among them
    chosen = np.argpartition(keys, k - 1, axis=1)[:, :k]
    mask = np.zeros((TILE_SUBSETS, n), dtype=np.bool_)
    np.put_along_axis(mask, chosen, True, axis=1)
    return mask


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
