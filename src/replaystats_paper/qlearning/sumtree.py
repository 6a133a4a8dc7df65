"""Sum trees of many runs, side by side: draw a leaf with probability proportional to its priority."""

from __future__ import annotations

import numpy as np

from replaystats.toolkit import BoolArray, FloatArray, IntArray

BRANCHES = 16  # few NumPy calls per draw, and blocks of two cache lines
# Cumulated sums of short rows: the product is several times faster than cumsum. All columns add their terms
# in the same order, with zeros in place of what they leave out, so that the sums never decrease.
CUMULATE = np.triu(np.ones((BRANCHES, BRANCHES)))


class SumTrees:
    """One tree per run whose nodes hold the sum of their 16 children; leaves start at 0.

    All trees have the depth of the largest, so that one pass over the levels serves every run; the upper
    levels of a small tree are chains of single nodes. Drawing and changing a leaf cost O(log n).

    Parameters
    ----------
    n_leaves : ndarray of int, shape (n_runs,)

    Examples
    --------
    >>> trees = SumTrees(np.array([3]))
    >>> trees.assign(np.array([[0, 1, 2]]), np.array([[1.0, 0.0, 3.0]]))
    >>> trees.find(np.array([[0.5, 1.0, 3.9]])), trees.total
    (array([[0, 2, 2]]), array([4.]))
    """

    def __init__(self, n_leaves: IntArray) -> None:
        self._levels: list[FloatArray] = []  # leaves first; each of shape (blocks, 16)
        self._first_block: list[IntArray] = []
        size = np.asarray(n_leaves, dtype=np.intp)
        while True:
            blocks = -(-size // BRANCHES)
            self._levels.append(np.zeros((int(blocks.sum()), BRANCHES)))
            self._first_block.append((np.cumsum(blocks) - blocks)[:, None])
            if blocks.max() == 1:
                break
            size = blocks

    @property
    def total(self) -> FloatArray:
        """Sum of the leaves of each run, of shape (n_runs,)."""
        total: FloatArray = self._levels[-1][self._first_block[-1][:, 0]].sum(axis=1)
        return total

    def leaves(self, leaf: IntArray) -> FloatArray:
        """Return the priorities of the leaves `leaf` (n_runs, m), counted within each run."""
        return self._levels[0].take(self._first_block[0] * BRANCHES + leaf)

    def assign(self, leaf: IntArray, priority: FloatArray) -> None:
        """Set the leaves `leaf` (n_runs, m) and the sums above them; a leaf named twice takes the later."""
        node, value = leaf, priority
        for blocks, first in zip(self._levels, self._first_block, strict=True):
            parent = node // BRANCHES
            rows = parent + first
            blocks.reshape(-1)[first * BRANCHES + node] = value
            # Sums are taken afresh: adding differences would drift, and count a repeated leaf twice.
            node, value = parent, np.einsum("...j->...", blocks.take(rows, axis=0))

    def find(self, mass: FloatArray) -> IntArray:
        """Return the leaf in which the cumulated priority passes `mass`, both of shape (n_runs, m).

        `mass` lies between 0 and `total`; no leaf of priority 0 is ever found.
        """
        node = np.zeros(mass.shape, dtype=np.intp)
        row = np.arange(mass.size).reshape(mass.shape) * (BRANCHES + 1)
        sums = np.zeros((mass.size, BRANCHES + 1))  # a leading 0: what lies before the first branch
        for blocks, first in zip(reversed(self._levels), reversed(self._first_block), strict=True):
            np.matmul(blocks.take((node + first).ravel(), axis=0), CUMULATE, out=sums[:, 1:])
            # Rounding may carry the mass past the block, onto empty leaves.
            mass = np.minimum(mass, np.nextafter(sums[:, -1], 0.0).reshape(mass.shape))
            branch = (sums[:, 1:] <= mass.reshape(-1, 1)).argmin(axis=1).reshape(mass.shape)
            mass = mass - sums.take(row + branch)
            node = node * BRANCHES + branch
        return node

    def keep(self, runs: BoolArray) -> None:
        """Forget the runs that are not marked."""
        self._first_block = [first[runs] for first in self._first_block]
