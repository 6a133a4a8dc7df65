"""Random trees that cut points into leaves of neighbours, all of about the same size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.typing import FloatArray, IntArray
from .._core.validation import check_int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionTree:
    """Cuts by random hyperplanes; node j sends a point left where ``direction_j . x <= threshold_j``.

    Attributes
    ----------
    directions : ndarray of shape (n_nodes, p)
    thresholds : ndarray of shape (n_nodes,)
    children : ndarray of int, shape (n_nodes, 2)
        Left and right: a node, or ``~leaf`` for a leaf.
    leaves : list of ndarray of int
        Rows of every leaf.
    """

    directions: FloatArray
    thresholds: FloatArray
    children: IntArray
    leaves: list[IntArray]

    @classmethod
    def grow(cls, points: FloatArray, leaf_size: int, rng: np.random.Generator) -> PartitionTree:
        """Cut points (n, p) until no leaf holds more than `leaf_size` of them.

        A cut gives both sides whole numbers of leaves, so that all leaves end up nearly full. Directions are
        random, so that the edges of another tree's leaves lie elsewhere.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> tree = PartitionTree.grow(rng.normal(size=(100, 2)), 30, rng)
        >>> [len(rows) for rows in tree.leaves]
        [25, 25, 25, 25]
        """
        check_int(leaf_size, "leaf_size")
        directions: list[FloatArray] = []
        thresholds: list[float] = []
        children: list[list[int]] = []
        leaves: list[IntArray] = []

        def cut(rows: IntArray) -> int:
            n_leaves = -(-len(rows) // leaf_size)
            if n_leaves == 1:
                leaves.append(rows)
                return ~(len(leaves) - 1)
            direction: FloatArray = rng.standard_normal(points.shape[1:])
            height = points[rows] @ direction
            n_left = len(rows) * (n_leaves // 2) // n_leaves
            # Equal heights may go either way; training rows on the wrong side only make a leaf less tidy.
            order = np.argpartition(height, n_left - 1)
            node = len(children)
            directions.append(direction)
            thresholds.append(float(height[order[n_left - 1]]))
            children.append([0, 0])
            children[node] = [cut(rows[order[:n_left]]), cut(rows[order[n_left:]])]
            return node

        cut(np.arange(len(points)))
        return cls(
            directions=np.array(directions).reshape(-1, points.shape[1]),
            thresholds=np.array(thresholds),
            children=np.array(children, dtype=np.intp).reshape(-1, 2),
            leaves=leaves,
        )

    def route(self, points: FloatArray) -> list[IntArray]:
        """Return which of the points (m, p) end in each leaf."""
        arrived: list[IntArray] = [np.empty(0, dtype=np.intp)] * len(self.leaves)
        waiting = [(0 if len(self.children) else ~0, np.arange(len(points)))]
        while waiting:
            node, rows = waiting.pop()
            if node < 0:
                arrived[~node] = rows
                continue
            left = points[rows] @ self.directions[node] <= self.thresholds[node]
            waiting += [(self.children[node, 0], rows[left]), (self.children[node, 1], rows[~left])]
        return arrived

    def __repr__(self) -> str:
        return f"PartitionTree({len(self.leaves)} leaves)"
