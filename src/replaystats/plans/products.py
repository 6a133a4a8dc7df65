"""Products with the count matrix W, which is drawn again tile by tile and never held whole."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._core.arrays import is_foreign, like
from .._core.typing import FloatArray
from .._core.validation import check_instance
from .plan import ResamplingPlan
from .tiles import TileDraw

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
    product = next(parts)
    for part in parts:
        product = product + part
    return product


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
