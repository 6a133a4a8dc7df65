"""Plans: the record that says which observations enter which subset, and how subsets came about.

Every scheme differs by one method, `draw(tile, block)`, and by its `Design`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from operator import add
from typing import Any, Self

import numpy as np
from scipy import sparse

from .._core.arrays import is_foreign, like
from .._core.errors import must_be
from .._core.random import stream
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_instance, check_int, check_length, check_memory, check_work
from .tiles import (
    SPARSE_SHARE,
    TILE_ROWS,
    TILE_SUBSETS,
    TileDraw,
    draw_with_replacement,
    draw_without_replacement,
    mark_rows,
)

# What a variance has to know of a plan: how counts vary, and which subsets depend on each other.
#
# With W the counts and D the deviations of the answers, C = mean of W^T D says how an observation's count
# moves the answer. `factor` turns C into a variance (infinitesimal jackknife), `count_variance` is what noise
# adds to it, and `slope` is what C is, exactly, for an answer that is linear in the data:
#
#     U   factor = n (n - 1) / (n - k)^2     count_variance = k (1 - k/n)     slope = (n - k) / (n (n - 1))
#     V   factor = n / (n - 1)               count_variance = k (1 - 1/n)     slope = 1 / n
#
# Unequal probabilities with replacement need no formula of their own. If observation i is drawn in proportion
# to r(Z_i) and counts 1 / r(Z_i), giving it the weight 1 + e in the data only changes how likely it is drawn,
# and the derivative of the average in e is Cov(count_i, h): that of uniform draws as it stands, with
# sum_i Var(count_i) = k (1 - sum p_i^2).


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Design:
    """How the subsets of a plan came about.

    Attributes
    ----------
    kind : {"independent", "groups", "runs", "first_order", "whole"}
        Independent draws; groups of subsets that depend on each other; runs of a dependent series, whose
        counts say nothing about single observations; a design of which only the first order is known; the
        whole data in every subset, which leaves nothing but the plug-in.
    factor, slope, count_variance : float
        See above.
    rescaling : float
        From the variance of one answer given the data to that of a nearly linear one over data sets:
        k / (n - k) (delete-d jackknife) or k / n (rescaled bootstrap).
    bias_share : float
        Bias of the plug-in as a share of replay's: k / n (U) or k / (n + k) (V).
    exact : bool
        Every possible subset is there: no Monte-Carlo noise.
    groups : ndarray of int, shape (B,), or None
        Group of every subset, from 0 up; subsets of different groups are independent given the data.
    disjoint : ndarray of bool, shape (B,), or None
        Subsets that share no observation with another such subset of their group.
    doubt : str
        Why intervals are unproven; empty where they are not.
    """

    kind: str
    factor: float
    slope: float
    count_variance: float
    rescaling: float
    bias_share: float
    exact: bool = False
    groups: IntArray | None = None
    disjoint: BoolArray | None = None
    doubt: str = ""

    @classmethod
    def of(cls, plan: ResamplingPlan, kind: str = "independent", **changes: Any) -> Design:
        """Return the design of a plan that differs from independent, equal draws by what is given."""
        n, k = plan.n_observations, plan.subsample_size
        if plan.with_replacement:
            usual = cls(
                kind=kind, factor=_over(n, n - 1), slope=1 / n, count_variance=k * (1 - 1 / n),
                rescaling=k / n, bias_share=k / (n + k),
            )  # fmt: skip
        else:
            # Answers that are all the plug-in say nothing about a bias: 0 leaves their difference, 0, alone.
            usual = cls(
                kind=kind if k < n else "whole", factor=_over(n * (n - 1), (n - k) ** 2),
                slope=_over(n - k, n * (n - 1)), count_variance=k * (1 - k / n),
                rescaling=_over(k, n - k), bias_share=k / n if k < n else 0.0,
            )  # fmt: skip
        return replace(usual, **changes)


def _over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else math.inf


# Plans: the record that says which observations enter which subset.
#
# Every scheme differs by one method, `draw(tile, block)`.


# Format: tiles use spawn keys (tile, block); this key, far above any tile number, derives other plans.
_ALTERNATIVE_KEY = 2**40
# Cost: seconds to draw a subset and to fit something to it, at least, and for each of its observations.
SUBSET_SECONDS, _DRAWN = 1e-4, 1e-8
# Format: from so many observations on a tile is drawn in quarters, as far as there are subsets.
QUARTERED_FROM = 2**21


@dataclass(frozen=True, kw_only=True)
class ResamplingPlan(ABC):
    """B subsets of k out of n observations, drawn a tile at a time.

    Attributes
    ----------
    n_observations, subsample_size, n_resamples : int
        n, k and B of the paper.
    statistic : str
        Name of the scheme.
    seed : int or None
        What the subsets are derived from; None when they were given.
    with_replacement : bool
        Whether an observation can enter a subset more than once.
    """

    n_observations: int
    subsample_size: int
    n_resamples: int
    statistic: str
    seed: int | None = None
    with_replacement: bool = False

    @abstractmethod
    def draw(self, tile: int, block: int) -> TileDraw:
        """Return the part of the subsets of `tile` that falls into row block `block`."""

    def counts_like(self, tile: int, block: int, reference: Any) -> Any:
        """Return the count matrix of `tile` and `block` in the kind and on the device of `reference`.

        Drawn on the host and sent there; plans that can be drawn on a device override this.
        """
        return like(self.draw(tile, block).counts(), reference)

    @property
    def subset_weights(self) -> FloatArray | None:
        """Weights (summing to one) of the subsets in an average, shape (B,); None means equal ones."""
        return None

    @property
    def observation_weights(self) -> FloatArray | None:
        """Weight of every draw of an observation inside the sums, shape (n,); None means one.

        Their expected sum over a subset is k, and the expected sum of weight times anything is k / n of
        the total: unequal drawing probabilities are undone here.
        """
        return None

    @property
    def subset_groups(self) -> IntArray | None:
        """Group of every subset, shape (B,), from 0 up: subsets of one group depend on each other.

        None means that all subsets are independent of each other given the data.
        """
        return None

    @property
    def design(self) -> Design:
        """How the subsets depend on each other and how counts vary: what a variance asks of a plan."""
        return Design.of(self)

    def member_weights(self, failed: BoolArray | None = None) -> FloatArray:
        """Return the weights of the answers in an average, zero for failed ones and summing to one, (B,).

        Examples
        --------
        >>> from replaystats.plans import make_plan
        >>> make_plan(8, n_resamples=4, random_state=0).member_weights(np.array([False, True, False, True]))
        array([0.5, 0. , 0.5, 0. ])
        """
        weights = np.ones(self.n_resamples) if self.subset_weights is None else self.subset_weights
        if failed is not None:
            check_length(len(failed), self.n_resamples, "failed", "plan")
            weights = np.where(failed, 0.0, weights)
        if not weights.any():
            raise ValueError(must_be("failed", "False for at least one member", "no member left"))
        return np.asarray(weights / weights.sum())

    @property
    def n_tiles(self) -> int:
        """Number of groups of 256 subsets."""
        return -(-self.n_resamples // TILE_SUBSETS)

    @cached_property
    def block_shares(self) -> FloatArray:
        """Share of a subset's draws that falls into each row block on average, shape (n_blocks,)."""
        return np.array([rows.stop - rows.start for rows in self.row_blocks]) / self.n_observations

    @cached_property
    def row_blocks(self) -> list[slice]:
        """The blocks of at most 16384 observations, as slices."""
        n = self.n_observations
        return [slice(start, min(start + TILE_ROWS, n)) for start in range(0, n, TILE_ROWS)]

    def tile_subsets(self, tile: int) -> slice:
        """Return the numbers of the subsets in `tile`, as a slice."""
        return slice(tile * TILE_SUBSETS, min((tile + 1) * TILE_SUBSETS, self.n_resamples))

    def _tile_size(self, tile: int) -> int:
        """Return how many subsets there are in `tile`: 256, or fewer in the last one."""
        return min(TILE_SUBSETS, self.n_resamples - tile * TILE_SUBSETS)

    def tiles(self) -> Iterator[tuple[int, slice]]:
        """Yield every tile with the slice of its subsets."""
        for tile in range(self.n_tiles):
            yield tile, self.tile_subsets(tile)

    def indices(self, start: int = 0, stop: int | None = None) -> IntArray:
        """Return the observations of subsets `start` to `stop`, shape (stop - start, k).

        Examples
        --------
        >>> from replaystats.plans import make_plan
        >>> make_plan(10, statistic="U", subsample_size=10, n_resamples=2, random_state=0).indices()
        array([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
               [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]])
        """
        start = check_int(start, "start", low=0)
        stop = self.n_resamples if stop is None else min(check_int(stop, "stop", low=0), self.n_resamples)
        if stop <= start:
            return np.empty((0, self.subsample_size), dtype=np.intp)
        count, hint = stop - start, "Use fewer subsets; `extend` adds some where needed."
        check_memory(2.0 * count * self.subsample_size, "n_resamples", count, hint)
        check_work(count * (SUBSET_SECONDS + _DRAWN * self.subsample_size), "n_resamples", count, hint)
        tiles = range(start // TILE_SUBSETS, -(-stop // TILE_SUBSETS))
        drawn = np.concatenate([self._tile_indices(tile) for tile in tiles])
        first = tiles.start * TILE_SUBSETS
        return drawn[start - first : stop - first]

    def counts(self, start: int = 0, stop: int | None = None) -> FloatArray:
        """Return how often each observation is in each subset: rows of W, shape (stop - start, n)."""
        drawn = self.indices(start, stop)
        cell = np.arange(drawn.shape[0])[:, None] * self.n_observations + drawn
        flat = np.bincount(cell.ravel(), minlength=drawn.shape[0] * self.n_observations)
        return flat.reshape(drawn.shape[0], self.n_observations).astype(np.float64)

    def extend(self, n_more: int) -> Self:
        """Return the plan with `n_more` further subsets; the first ones stay as they are."""
        if self.seed is None:
            raise ValueError("`extend` must be called on a drawn plan; got one with given subsets.")
        n_more = check_int(n_more, "n_more")
        check_memory(float(n_more), "n_more", n_more, "A few hundred subsets are usual.")
        return replace(self, n_resamples=self.n_resamples + n_more)

    def alternative(self, attempt: int) -> Self:
        """Return an independent plan of the same shape: where subset b has to be drawn again."""
        if self.seed is None:
            raise ValueError("`alternative` must be called on a drawn plan; got one with given subsets.")
        seed = int(stream(self.seed, _ALTERNATIVE_KEY, attempt).integers(0, 2**63 - 1))
        return replace(self, seed=seed)

    def _tile_indices(self, tile: int) -> IntArray:
        subsets = self.tile_subsets(tile)
        n_subsets = subsets.stop - subsets.start
        pieces: list[IntArray] = []
        owners: list[IntArray] = []
        for block, rows in enumerate(self.row_blocks):
            drawn, starts = self.draw(tile, block).row_lists()
            pieces.append(drawn.astype(np.intp) + rows.start)
            owners.append(np.repeat(np.arange(n_subsets), np.diff(starts)))
        if len(pieces) == 1:
            return pieces[0].reshape(n_subsets, self.subsample_size)
        order = np.argsort(np.concatenate(owners), kind="stable")
        return np.concatenate(pieces)[order].reshape(n_subsets, self.subsample_size)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_resamples} subsets of k={self.subsample_size} "
            f"of n={self.n_observations}, {self.statistic}, seed={self.seed})"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class SubsetPlan(ResamplingPlan):
    """Independent subsets without replacement: U-statistics."""

    seed: int
    statistic: str = "U"

    def draw(self, tile: int, block: int) -> TileDraw:
        """See the base class."""
        # Listing pays for small shares, and for small n as long as a subset repeats about one row (k^2 / 2n).
        few = max(SPARSE_SHARE * self.n_observations, math.sqrt(2 * self.n_observations))
        dense = self.subsample_size > few
        n_subsets = self._tile_size(tile)
        if len(self.row_blocks) == 1:
            whole = _drawn_once(self.seed, self.n_observations, self.subsample_size, tile, dense)
            return whole.first(n_subsets)
        rows = self.row_blocks[block]
        n_rows, sizes = rows.stop - rows.start, share_of_block(self, tile, block)
        # Subsets share one stream in rounds, so a short last tile is drawn whole and cut: only then do more
        # subsets leave the first ones as they were. Of many rows a quarter of the tile is whole enough.
        if not dense or self.n_observations <= QUARTERED_FROM:
            drawn = draw_without_replacement(stream(self.seed, tile, block), n_rows, sizes, dense=dense)
            return drawn.first(n_subsets)
        size = TILE_SUBSETS // 4
        masks = [
            mark_rows(stream(self.seed, tile, block, first), n_rows, sizes[first : first + size])
            for first in range(0, n_subsets, size)
        ]
        mask = masks[0] if len(masks) == 1 else np.concatenate(masks)
        return TileDraw(n_rows, mask=mask[:n_subsets])


@dataclass(frozen=True, kw_only=True, repr=False)
class BootstrapPlan(ResamplingPlan):
    """Independent subsets with replacement: V-statistics."""

    seed: int
    statistic: str = "V"
    with_replacement: bool = True

    def draw(self, tile: int, block: int) -> TileDraw:
        """See the base class."""
        rows = self.row_blocks[block]
        sizes = share_of_block(self, tile, block)[: self._tile_size(tile)]
        return draw_with_replacement(stream(self.seed, tile, block), rows.stop - rows.start, sizes)


def check_made_for(plan: ResamplingPlan, n: int, units: str) -> None:
    """Raise unless the plan draws from so many `units`, such as "rows of `X`"."""
    if plan.n_observations != n:
        rule = f"made for the {n} {units}"
        raise ValueError(must_be("plan", rule, f"n_observations={plan.n_observations}"))


def check_draws_rows(plan: ResamplingPlan, n: int) -> None:
    """Raise unless the plan draws n rows with equal probabilities, as fits on rows need."""
    check_made_for(plan, n, "rows of `X`")
    if plan.observation_weights is not None:
        hint = "Models that are fitted on rows cannot weigh them back; ratios of moments can."
        raise ValueError(must_be("plan", "drawn with equal probabilities", repr(plan), hint))


@lru_cache(maxsize=2)  # sums and their variance ask for the same tile
def _drawn_once(seed: int, n: int, k: int, tile: int, dense: bool) -> TileDraw:
    """Return the 256 subsets of a tile, where one block has all observations."""
    drawn = draw_without_replacement(stream(seed, tile, 0), n, np.full(TILE_SUBSETS, k), dense=dense)
    for array in (drawn.mask, drawn.rows, drawn.starts):
        if array is not None:
            array.setflags(write=False)
    return drawn


def share_of_block(plan: ResamplingPlan, tile: int, block: int) -> IntArray:
    """Return how many rows of the block each of the tile's 256 subsets takes, shape (256,)."""
    if len(plan.row_blocks) == 1:
        return np.full(TILE_SUBSETS, plan.subsample_size)
    return _split(plan, tile)[:, block]


@lru_cache(maxsize=64)  # block after block is drawn for all tiles: 16384 subsets without a second split
def _split(plan: ResamplingPlan, tile: int) -> IntArray:
    """Split k over the row blocks for every subset of the tile, shape (256, n_blocks)."""
    assert plan.seed is not None  # of drawn plans
    rng = stream(plan.seed, tile)
    if plan.with_replacement:
        return rng.multinomial(plan.subsample_size, plan.block_shares, TILE_SUBSETS)
    sizes = [rows.stop - rows.start for rows in plan.row_blocks]
    return rng.multivariate_hypergeometric(sizes, plan.subsample_size, TILE_SUBSETS)


# Products with the count matrix W, which is drawn again tile by tile and never held whole.

# Batch: 256 subsets by so many rows of counts take 2 MB: they are read from cache right after they are
# written.
_CACHED_ROWS = 1024


def count_product(plan: ResamplingPlan, block: int, right: FloatArray, reference: Any = None) -> Any:
    """Return the rows of W^T right that belong to one block of observations, shape (rows, m).

    Parameters
    ----------
    plan : ResamplingPlan
        B subsets; W[b, i] is how often observation i is in subset b.
    block : int
        Number of the block in ``plan.row_blocks``, of at most 16384 observations.
    right : ndarray of shape (B, m)
    reference : array, optional
        Where to compute: the product comes in its kind and on its device. Default: NumPy.

    Notes
    -----
    All blocks cost O(B n m), or O(B k m) where the plan lists its rows, and one redraw of the plan.
    """
    if is_foreign(reference):
        return _on_device(plan, block, like(right, reference), reference)
    rows = plan.row_blocks[block]
    product = np.zeros((rows.stop - rows.start, right.shape[1]))
    for tile, subsets in plan.tiles():
        product += _tile_product(plan.draw(tile, block), right[subsets])
    return product


def _tile_product(draw: TileDraw, right: FloatArray) -> FloatArray:
    """Return counts^T right for one tile, shape (n_rows, m)."""
    # With few columns the BLAS is ten times faster on right^T W than on W^T right.
    left = right.T
    if draw.mask is None:
        product: FloatArray = (left @ draw.sparse_counts()).T
        return product
    product = np.empty((draw.n_rows, left.shape[0]))
    for first in range(0, draw.n_rows, _CACHED_ROWS):
        part = slice(first, min(first + _CACHED_ROWS, draw.n_rows))
        product[part] = (left @ draw.counts(part)).T
    return product


def _on_device(plan: ResamplingPlan, block: int, right: Any, reference: Any) -> Any:
    parts = (
        (right[subsets, ...].T @ plan.counts_like(tile, block, reference)).T for tile, subsets in plan.tiles()
    )
    return reduce(add, parts)


def subset_overlaps(plan: ResamplingPlan) -> FloatArray:
    """Return W W^T: how many observations (times their counts) every two subsets share, shape (B, B).

    Parameters
    ----------
    plan : ResamplingPlan
        B subsets.

    Returns
    -------
    ndarray of shape (B, B)

    Examples
    --------
    >>> from replaystats.plans import plan_from_indices
    >>> subset_overlaps(plan_from_indices([[0, 1], [1, 2], [2, 2]], 3))
    array([[2., 1., 0.],
           [1., 2., 2.],
           [0., 2., 4.]])
    """
    check_instance(plan, "plan", ResamplingPlan, "Use make_plan.")
    total = np.zeros((plan.n_resamples, plan.n_resamples))
    for block in range(len(plan.row_blocks)):
        counts = sparse.vstack([plan.draw(tile, block).sparse_counts() for tile in range(plan.n_tiles)])
        counts.sum_duplicates()
        total += (counts @ counts.T).toarray()
    return total
