"""First-in first-out replay memories of many runs, side by side in one array."""

from __future__ import annotations

import numpy as np

from replaystats.toolkit import BoolArray, IntArray


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
