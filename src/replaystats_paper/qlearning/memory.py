"""Replay memories of many runs, side by side, and which transitions enter a minibatch.

A memory is a ring, first in, first out. Samplers draw from it uniformly, with the latest transition among
them, or by priority, for which every run has a sum tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from replaystats.toolkit import BoolArray, FloatArray, IntArray, check_choice


class ReplayMemory:
    """One ring of transitions per run: pairs (state, action), and whether each ended an episode.

    The world is deterministic, so the pair's two bytes are all a transition needs: 30 runs of 10^6 take
    90 MB, and what has not been visited takes nothing.

    Parameters
    ----------
    capacities : ndarray of int, shape (n_runs,)

    Attributes
    ----------
    first, capacity, stored : ndarray of int, shape (n_runs,)
        Where each ring begins, its length, and how many transitions it has ever taken.
    """

    def __init__(self, capacities: IntArray) -> None:
        self.capacity = np.asarray(capacities, dtype=np.intp)
        self.first = np.concatenate([[0], np.cumsum(self.capacity)[:-1]])
        self.stored = np.zeros(self.capacity.size, dtype=np.intp)
        self._pairs = np.zeros(int(self.capacity.sum()), dtype=np.int16)
        self._ended = np.zeros(self._pairs.size, dtype=bool)

    def append(self, pairs: IntArray, ended: BoolArray) -> IntArray:
        """Store one transition per run, in place of the oldest where the ring is full; return the slots."""
        slots: IntArray = self.first + self.stored % self.capacity
        self._pairs[slots] = pairs
        self._ended[slots] = ended
        self.stored += 1
        return slots

    @property
    def size(self) -> IntArray:
        """Number of transitions in each ring, of shape (n_runs,)."""
        return np.minimum(self.stored, self.capacity)

    @property
    def newest(self) -> IntArray:
        """Slot of the latest transition of each run, of shape (n_runs,)."""
        newest: IntArray = self.first + (self.stored - 1) % self.capacity
        return newest

    def pairs(self, slots: IntArray) -> IntArray:
        """Return the pairs in `slots`, as integers wide enough to index with."""
        return self._pairs.take(slots).astype(np.intp)

    def ended(self, slots: IntArray) -> BoolArray:
        """Say which transitions in `slots` were the last of their episode."""
        return self._ended.take(slots)

    def follow(self, slots: IntArray, n_steps: int) -> tuple[IntArray, IntArray]:
        """Walk up to `n_steps` transitions along the episode, beginning with those in `slots` (n_runs, m).

        Returns
        -------
        last : ndarray of int, shape (n_runs, m)
            Slot of the last transition walked: the n-th, or earlier where the episode or the memory ends.
        length : ndarray of int, shape (n_runs, m)
            Number of transitions walked, 1 to `n_steps`.
        """
        last, length = slots, np.ones(slots.shape, dtype=np.intp)
        newest, end = self.newest[:, None], (self.first + self.capacity)[:, None]
        for _ in range(n_steps - 1):
            onward = (last != newest) & ~self.ended(last)
            after = last + 1
            after = np.where(after == end, self.first[:, None], after)
            last = np.where(onward, after, last)
            length += onward
        return last, length

    def keep(self, runs: BoolArray) -> None:
        """Forget the runs that are not marked."""
        self.capacity, self.first, self.stored = self.capacity[runs], self.first[runs], self.stored[runs]


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


SAMPLERS = ("uniform", "combined", "prioritised")


class Sampler(Protocol):
    """Chooses the slots of a memory that a minibatch replays."""

    def stored(self, slots: IntArray) -> None:
        """Take note of the transitions just stored, one slot per run."""

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Turn uniforms (n_runs, k) into slots (n_runs, k) and importance weights (None: all 1)."""

    def learnt(self, slots: IntArray, errors: FloatArray) -> None:
        """Take note of the temporal-difference errors of the transitions just replayed."""

    def keep(self, runs: BoolArray) -> None:
        """Forget the runs that are not marked."""


class Uniform:
    """Every stored transition is equally likely, with replacement."""

    def __init__(self, memory: ReplayMemory) -> None:
        self._memory = memory

    def stored(self, slots: IntArray) -> None:
        """Nothing to note."""

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Return slots without weights."""
        memory = self._memory
        slots = (uniforms * memory.size[:, None]).astype(np.intp)
        slots += memory.first[:, None]
        return slots, None

    def learnt(self, slots: IntArray, errors: FloatArray) -> None:
        """Nothing to note."""

    def keep(self, runs: BoolArray) -> None:
        """Nothing of its own to forget."""


class Combined(Uniform):
    """Combined experience replay: the last of the k transitions is always the latest one."""

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Return slots without weights."""
        slots, _ = super().draw(uniforms)
        slots[:, -1] = self._memory.newest
        return slots, None


class Prioritised:
    """Proportional prioritisation: P(i) = p_i / sum p with p = (|error| + floor)^exponent.

    A new transition enters with the largest priority seen so far in its run. The k draws are stratified:
    one from each k-th of the total. Weights are (size P(i))^-correction, divided by the largest of the
    minibatch so that they only ever shrink a step. The exponents are the usual 0.6 and 0.4, not annealed.
    """

    EXPONENT, CORRECTION, FLOOR = 0.6, 0.4, 1e-2

    def __init__(self, memory: ReplayMemory) -> None:
        self._memory = memory
        self._trees = SumTrees(memory.capacity)
        self._largest = np.ones(memory.capacity.size)

    def stored(self, slots: IntArray) -> None:
        """Give the new transitions the largest priority."""
        self._trees.assign((slots - self._memory.first)[:, None], self._largest[:, None])

    def draw(self, uniforms: FloatArray) -> tuple[IntArray, FloatArray | None]:
        """Return slots and importance weights."""
        k = uniforms.shape[1]
        total = self._trees.total[:, None]
        leaf = self._trees.find((np.arange(k) + uniforms) / k * total)
        chance = self._trees.leaves(leaf) / total * self._memory.size[:, None]
        weights = chance**-self.CORRECTION
        weights /= weights.max(axis=1, keepdims=True)
        return leaf + self._memory.first[:, None], weights

    def learnt(self, slots: IntArray, errors: FloatArray) -> None:
        """Renew the priorities of what was replayed."""
        priority = (np.abs(errors) + self.FLOOR) ** self.EXPONENT
        self._trees.assign(slots - self._memory.first[:, None], priority)
        self._largest = np.maximum(self._largest, priority.max(axis=1))

    def keep(self, runs: BoolArray) -> None:
        """Forget the runs that are not marked."""
        self._trees.keep(runs)
        self._largest = self._largest[runs]


def make_sampler(kind: str, memory: ReplayMemory) -> Sampler:
    """Return the sampler called `kind` over `memory`.

    Examples
    --------
    >>> memory = ReplayMemory(np.array([4]))
    >>> slots = memory.append(np.array([7]), np.array([False]))
    >>> make_sampler("uniform", memory).draw(np.array([[0.2, 0.9]]))
    (array([[0, 0]]), None)
    """
    check_choice(kind, "sampler", SAMPLERS)
    makers: dict[str, Callable[[ReplayMemory], Sampler]] = {
        "uniform": Uniform,
        "combined": Combined,
        "prioritised": Prioritised,
    }
    return makers[kind](memory)
