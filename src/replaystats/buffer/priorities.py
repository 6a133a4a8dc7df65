"""Prioritised sampling: a tree of sums, proportional and rank-based priorities."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .._core.errors import must_be
from .._core.typing import FloatArray, IntArray
from .._core.validation import check_array, check_length

BRANCHES = 16  # Batch: few NumPy calls per draw, and blocks of two cache lines
# Cumulated sums of short rows: the product is several times faster than cumsum. All columns add their terms
# in the same order, with zeros in place of what they leave out, so that the sums never decrease.
CUMULATE = np.triu(np.ones((BRANCHES, BRANCHES)))


class SumTree:
    """A tree whose nodes hold the sum of their 16 children; leaves start at 0.

    Drawing and changing a leaf cost O(log n).

    Parameters
    ----------
    n_leaves : int

    Examples
    --------
    >>> tree = SumTree(3)
    >>> tree.assign(np.array([0, 1, 2]), np.array([1.0, 0.0, 3.0]))
    >>> tree.find(np.array([0.5, 1.0, 3.9])), tree.total
    (array([0, 2, 2]), 4.0)
    """

    def __init__(self, n_leaves: int) -> None:
        self._levels: list[FloatArray] = []  # leaves first; each of shape (blocks, 16)
        while not self._levels or n_leaves > 1:
            n_leaves = -(-n_leaves // BRANCHES)
            self._levels.append(np.zeros((n_leaves, BRANCHES)))

    @property
    def total(self) -> float:
        """Sum of the leaves."""
        return float(self._levels[-1].sum())

    def leaves(self, leaf: IntArray) -> FloatArray:
        """Return the priorities of the leaves `leaf` (m,)."""
        return self._levels[0].take(leaf)

    def assign(self, leaf: IntArray, priority: FloatArray) -> None:
        """Set the leaves `leaf` (m,) and the sums above them; a leaf named twice takes the later."""
        node, value = leaf, priority
        for blocks in self._levels:
            blocks.reshape(-1)[node] = value
            # Sums are taken afresh: adding differences would drift, and count a repeated leaf twice.
            node = node // BRANCHES
            value = np.einsum("ij->i", blocks.take(node, axis=0))

    def find(self, mass: FloatArray) -> IntArray:
        """Return the leaf in which the cumulated priority passes `mass`, both of shape (m,).

        `mass` lies between 0 and `total`; no leaf of priority 0 is ever found.
        """
        node = np.zeros(mass.size, dtype=np.intp)
        row = np.arange(mass.size) * (BRANCHES + 1)
        sums = np.zeros((mass.size, BRANCHES + 1))  # a leading 0: what lies before the first branch
        for blocks in reversed(self._levels):
            np.matmul(blocks.take(node, axis=0), CUMULATE, out=sums[:, 1:])
            # Rounding may carry the mass past the block, onto empty leaves.
            mass = np.minimum(mass, np.nextafter(sums[:, -1], 0.0))
            branch = (sums[:, 1:] <= mass[:, None]).argmin(axis=1)
            mass = mass - sums.take(row + branch)
            node = node * BRANCHES + branch
        return node


class Proportional:
    """Draws in proportion to priority ** exponent; a new row has the largest priority so far.

    Parameters
    ----------
    capacity : int
        Number of slots.
    exponent : float
        0 is uniform, 1 proportional to the priority itself.

    References
    ----------
    .. [1] T. Schaul, J. Quan, I. Antonoglou and D. Silver (2016), Prioritized experience replay, ICLR.

    Examples
    --------
    >>> rule = Proportional(4, 1.0)
    >>> rule.add(np.arange(4))
    >>> rule.update(np.array([0, 1]), np.array([3.0, 5.0]))
    >>> slots, probability = rule.draw(np.array([0.1, 0.4, 0.9]))
    >>> slots, probability
    (array([0, 1, 3]), array([0.3, 0.5, 0.1]))
    """

    def __init__(self, capacity: int, exponent: float) -> None:
        self._tree = SumTree(capacity)
        self._exponent = exponent
        self._largest = 1.0

    def add(self, slots: IntArray) -> None:
        """Give new rows the largest priority so far."""
        self._assign(slots, np.full(slots.size, self._largest))

    def update(self, slots: IntArray, priorities: FloatArray) -> None:
        """Change the priorities of the rows at `slots`; of a slot named twice the later counts."""
        self._largest = max(self._largest, float(priorities.max()))
        self._assign(slots, priorities)

    def _assign(self, slots: IntArray, priorities: FloatArray) -> None:
        self._tree.assign(slots, priorities**self._exponent)

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray]:
        """Turn uniforms (m,) into slots and the probabilities with which they are drawn."""
        total = self._tree.total
        slots = self._tree.find(uniforms * total)
        return slots, self._tree.leaves(slots) / total

    def arrays(self, slots: IntArray) -> dict[str, np.ndarray]:
        """Return what `restore` takes: the leaves of the slots in use, and the largest priority."""
        return {"leaves": self._tree.leaves(slots), "largest": np.array(self._largest)}

    def restore(self, arrays: Mapping[str, np.ndarray], slots: IntArray) -> None:
        """Go on from `arrays`."""
        self._largest = float(arrays["largest"])
        leaves = check_array(arrays["leaves"], "leaves", ndim=1, allow_empty=True)
        check_length(len(leaves), len(slots), "leaves", "slots")
        if not self._largest > 0.0 or (leaves.size and leaves.min() <= 0.0):
            raise ValueError(must_be("leaves", "positive", leaves.min(initial=self._largest)))
        self._tree.assign(slots, leaves)


class RankBased(Proportional):
    """Draws in proportion to 1 / rank ** exponent, where the largest priority has rank 1.

    The rank of a priority is its place among the priorities as they were when they were last sorted. They are
    sorted again after as many changes as there are rows, so that a change costs O(log n) on average.
    Probabilities and importance weights are those of the ranks in use, hence exact.

    Parameters
    ----------
    capacity : int
    exponent : float

    References
    ----------
    .. [1] T. Schaul, J. Quan, I. Antonoglou and D. Silver (2016), Prioritized experience replay, ICLR.

    Examples
    --------
    >>> rule = RankBased(3, 1.0)
    >>> rule.add(np.arange(3))
    >>> rule.update(np.arange(3), np.array([9.0, 100.0, 1.0]))
    >>> (rule.draw(np.array([0.1, 0.5, 0.99]))[1] * 11).round(9)  # 1/2, 1 and 1/3 over their sum
    array([3., 6., 2.])
    """

    def __init__(self, capacity: int, exponent: float) -> None:
        super().__init__(capacity, exponent)
        self._priority: FloatArray = np.zeros(capacity)
        self._sorted: FloatArray = np.empty(0)  # priorities when they were last sorted, ascending
        self._changes = 0

    def _assign(self, slots: IntArray, priorities: FloatArray) -> None:
        self._priority[slots] = priorities
        self._changes += slots.size
        if self._changes >= self._sorted.size:
            held = np.flatnonzero(self._priority)  # priorities of rows are positive
            self._sorted, self._changes = np.sort(self._priority[held]), 0
            slots, priorities = held, self._priority[held]
        # Rank 1 has no larger priority; equal ones share the best rank among them.
        larger = self._sorted.size - np.searchsorted(self._sorted, priorities, side="right")
        super()._assign(slots, np.asarray(1.0 / (1.0 + larger), dtype=np.float64))

    def arrays(self, slots: IntArray) -> dict[str, np.ndarray]:
        """Return what `restore` takes."""
        changes = np.array(self._changes)
        return super().arrays(slots) | {
            "priority": self._priority[slots],
            "sorted": self._sorted,
            "changes": changes,
        }

    def restore(self, arrays: Mapping[str, np.ndarray], slots: IntArray) -> None:
        """Go on from `arrays`."""
        super().restore(arrays, slots)
        self._priority[slots] = arrays["priority"]
        self._sorted, self._changes = np.array(arrays["sorted"]), int(arrays["changes"])
