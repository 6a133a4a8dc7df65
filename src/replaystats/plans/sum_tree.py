"""A binary tree of sums: draw in proportion to priorities, and change one, in O(log n)."""

from __future__ import annotations

import numpy as np

from .._core.typing import FloatArray, IntArray


class SumTree:
    """Non-negative priorities at the leaves of a complete binary tree; every other node is the sum of two.

    Stored as one array: node i has the children 2i and 2i + 1, the root is node 1. Sums are recomputed from
    the children, never corrected by differences, so rounding errors do not pile up.

    Parameters
    ----------
    capacity : int
        Number of priorities, all zero at first.

    Examples
    --------
    >>> tree = SumTree(3)
    >>> tree.update(np.arange(3), np.array([1.0, 0.0, 3.0]))
    >>> tree.total
    4.0
    >>> tree.find(np.array([0.5, 1.0, 3.9]))
    array([0, 2, 2])
    """

    __slots__ = ("_first_leaf", "_nodes", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._first_leaf = 1 << max(0, capacity - 1).bit_length()
        self._nodes: FloatArray = np.zeros(2 * self._first_leaf)

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return float(self._nodes[1])

    @property
    def priorities(self) -> FloatArray:
        """The priorities, shape (capacity,), read only."""
        leaves = self._nodes[self._first_leaf : self._first_leaf + self.capacity]
        leaves.flags.writeable = False
        return leaves

    def set(self, index: int, priority: float) -> None:
        """Set one priority: the fast way for a single one."""
        nodes = self._nodes
        node = self._first_leaf + index
        nodes[node] = priority
        while node > 1:
            node >>= 1
            nodes[node] = nodes[2 * node] + nodes[2 * node + 1]

    def update(self, indices: IntArray, priorities: FloatArray) -> None:
        """Set many priorities; of an index named twice the later one counts."""
        node = self._first_leaf + np.asarray(indices)
        self._nodes[node] = priorities
        while node.size and node[0] > 1:  # all nodes of a level at a time
            node = np.unique(node >> 1)
            self._nodes[node] = self._nodes[2 * node] + self._nodes[2 * node + 1]

    def find(self, values: FloatArray) -> IntArray:
        """Return the leaves at which the running sum of the priorities first exceeds `values`."""
        remaining = np.array(values, dtype=np.float64)
        node = np.ones(remaining.shape, dtype=np.intp)
        for _ in range(self._first_leaf.bit_length() - 1):
            node *= 2
            left = self._nodes[node]
            # Rounding may leave a value at the end of a subtree whose rest is empty: stay on the weight.
            right = (remaining >= left) & (self._nodes[node + 1] > 0.0)
            remaining -= np.where(right, left, 0.0)
            node += right
        return node - self._first_leaf

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw `size` leaves with replacement, each in proportion to its priority."""
        return self.find(rng.random(size) * self.total)
