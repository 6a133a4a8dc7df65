"""Rows of several fields in rings, first in, first out: one ring per environment or per run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.typing import BoolArray, IntArray


class Rings:
    """One ring of rows per environment, all in the same preallocated arrays.

    Parameters
    ----------
    capacities : array of int, shape (n_rings,)
        Rows that each ring holds; a full ring overwrites its oldest row.
    fields : mapping of str to (shape, dtype)
        What a row consists of. The field "end" is 0 while an episode goes on, and other than 0 in its last
        row.

    Attributes
    ----------
    arrays : dict of str to ndarray of shape (sum of capacities, ...)
    first, capacity, stored : ndarray of int, shape (n_rings,)
        Where each ring begins, its length, and how many rows it has ever taken.

    Examples
    --------
    >>> rings = Rings([2, 3], {"x": ((), float), "end": ((), bool)})
    >>> for t in range(3):
    ...     slots = rings.append({"x": [t, 10.0 + t], "end": [False, t == 1]})
    >>> slots, rings.size, rings.arrays["x"]
    (array([0, 4]), array([2, 3]), array([ 2.,  1., 10., 11., 12.]))
    """

    def __init__(self, capacities: Any, fields: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
        self.capacity: IntArray = np.asarray(capacities, dtype=np.intp)
        self.first: IntArray = np.concatenate([[0], np.cumsum(self.capacity)[:-1]])
        self.stored: IntArray = np.zeros(self.capacity.size, dtype=np.intp)
        total = int(self.capacity.sum())
        self.arrays = {name: np.zeros((total, *shape), dtype) for name, (shape, dtype) in fields.items()}

    @property
    def size(self) -> IntArray:
        """Number of rows in each ring, of shape (n_rings,)."""
        return np.minimum(self.stored, self.capacity)

    @property
    def newest(self) -> IntArray:
        """Slot of the latest row of each ring, of shape (n_rings,)."""
        newest: IntArray = self.first + (self.stored - 1) % self.capacity
        return newest

    def append(self, rows: Mapping[str, Any], rings: Any = slice(None)) -> IntArray:
        """Store one row in each of `rings`; return the slots."""
        slots: IntArray = self.first[rings] + self.stored[rings] % self.capacity[rings]
        for name, value in rows.items():
            self.arrays[name][slots] = value
        self.stored[rings] += 1
        return slots

    def extend(self, rows: Mapping[str, np.ndarray]) -> IntArray:
        """Store arrays (T, n_rings, ...) in order of time in rings of one length; return the slots filled."""
        n_rows = len(rows["end"])
        kept = np.arange(max(0, n_rows - int(self.capacity[0])), n_rows)
        slots: IntArray = self.first + (self.stored + kept[:, None]) % self.capacity
        for name, value in rows.items():
            self.arrays[name][slots] = value[kept[0] :]
        self.stored += n_rows
        return slots

    def used(self) -> IntArray:
        """Return the slots that hold a row, one ring after the other."""
        return np.concatenate([first + np.arange(n) for first, n in zip(self.first, self.size, strict=True)])

    def in_time(self, ring: int) -> IntArray:
        """Return the slots of one ring, the oldest row first."""
        size, stored = int(self.size[ring]), int(self.stored[ring])
        slots: IntArray = self.first[ring] + (stored - size + np.arange(size)) % self.capacity[ring]
        return slots

    def follow(self, slots: IntArray, n_steps: int, ring: IntArray) -> tuple[IntArray, IntArray]:
        """Go up to `n_steps` rows along the episode, beginning with those in `slots`.

        Parameters
        ----------
        slots : ndarray of int
        n_steps : int
        ring : ndarray of int
            The ring of each slot; its shape broadcasts to that of `slots`.

        Returns
        -------
        last : ndarray of int, of the shape of `slots`
            Slot of the last row: the n-th, or an earlier one where the episode or the ring ends.
        length : ndarray of int, of the shape of `slots`
            Number of rows from the first to the last, 1 to `n_steps`.
        """
        last, length = slots, np.ones(slots.shape, dtype=np.intp)
        first, end = self.first[ring], (self.first + self.capacity)[ring]
        newest = self.newest[ring]
        ended = self.arrays["end"]
        for _ in range(n_steps - 1):
            onward = (last != newest) & (ended.take(last) == 0)
            after = last + 1
            after = np.where(after == end, first, after)
            last = np.where(onward, after, last)
            length += onward
        return last, length

    def keep(self, rings: BoolArray) -> None:
        """Forget the rings that are not marked."""
        self.capacity, self.first, self.stored = self.capacity[rings], self.first[rings], self.stored[rings]
