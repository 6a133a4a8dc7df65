"""Products with the count matrix W, which is drawn again tile by tile and never held whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._core.typing import FloatArray
from ..resampling import ResamplingPlan
from ..resampling.tiles import SPARSE_SHARE


def count_products(plan: ResamplingPlan, right: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Yield every block of observations with its rows of W^T right.

    Parameters
    ----------
    plan : ResamplingPlan
        B subsets; W[b, i] is how often observation i is in subset b.
    right : ndarray of shape (B, m)

    Yields
    ------
    rows : slice
        At most 16384 observations.
    product : ndarray of shape (len(rows), m)

    Notes
    -----
    Costs O(B n m), or O(B k m) for subsets below 1/32 of the data, and one redraw of the plan.
    """
    sparse = plan.subsample_size <= SPARSE_SHARE * plan.n_observations
    for block, rows in enumerate(plan.row_blocks):
        product = np.zeros((rows.stop - rows.start, right.shape[1]))
        for tile, subsets in plan.tiles():
            draw = plan.draw(tile, block)
            counts = draw.sparse_counts() if sparse else draw.counts()
            # With few columns the BLAS is ten times faster on right^T W than on W^T right.
            product += (right[subsets].T @ counts).T
        yield rows, product
