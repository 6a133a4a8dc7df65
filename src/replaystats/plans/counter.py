"""Subsets from a counter: the same integers from NumPy and on a GPU, evaluated where the moments are.

Subset b has a key of two 32-bit words, and the number of observation i under that key is a bijective mix of
i, so no two observations of a subset ever tie. Without replacement the k observations with the smallest
numbers are taken. With replacement draw j takes a 62-bit number modulo n, which favours no row by more than a
share of n / 2^62 < 2^-31. All of it is integer arithmetic that wraps, alike in every array library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from .._core.arrays import like
from .._core.random import stream
from .._core.typing import IntArray
from .plan import ResamplingPlan
from .tiles import TILE_SUBSETS, TileDraw

# Multipliers of a 32-bit mixer with low bias, as signed integers; odd, so that each mix is a bijection.
_FIRST, _SECOND = (int(np.uint32(m).astype(np.int32)) for m in (0x7FEB352D, 0x846CA68B))
# Cost: where the k-th smallest of n uniform numbers is looked for, in standard deviations; checked, not
# trusted.
_WINDOW = 8.0
# Batch: numbers held at a time: 512 MiB of 32-bit integers.
_HELD_NUMBERS = 2**27
# Format: address of the stream that keys come from, away from those of tiles and of alternative plans.
_KEY_STREAM = 2**41
# Format: the largest 32-bit integer.
MAX_OBSERVATIONS = 2**31 - 1


@dataclass(frozen=True, kw_only=True, repr=False)
class CounterPlan(ResamplingPlan):
    """Independent subsets whose members are a hash of (seed, subset, observation).

    Slower than tiles on the host; for a GPU, where a tile is drawn without anything being sent there. A tile
    takes 256 n bytes.
    """

    seed: int

    @cached_property
    def row_blocks(self) -> list[slice]:
        """See the base class; one block, because a subset's smallest numbers can be anywhere."""
        return [slice(0, self.n_observations)]

    def draw(self, tile: int, block: int) -> TileDraw:
        """See the base class."""
        numpy = np.empty(0)
        if self.with_replacement:
            rows = _draw_rows(self._keys(tile), self.n_observations, self.subsample_size, numpy)
            starts = np.arange(len(rows) + 1) * self.subsample_size
            return TileDraw(self.n_observations, rows=rows.ravel(), starts=starts)
        mask = _draw_masks(self._keys(tile), self.n_observations, self.subsample_size, numpy)
        return TileDraw(self.n_observations, mask=mask)

    def counts_like(self, tile: int, block: int, reference: Any) -> Any:
        """See the base class; drawn where `reference` is."""
        xp = array_namespace(reference)
        n, keys = self.n_observations, self._keys(tile)
        if not self.with_replacement:
            return xp.astype(_draw_masks(keys, n, self.subsample_size, reference), reference.dtype)
        if not hasattr(
            xp, "bincount"
        ):  # not in the array API standard, though in every library but its strict one
            return like(self.draw(tile, block).counts(), reference)
        rows = _draw_rows(keys, n, self.subsample_size, reference)
        group = max(1, _HELD_NUMBERS // n)
        parts = []
        for first in range(0, len(keys), group):
            some = rows[first : first + group]
            owner = xp.arange(some.shape[0], device=device(reference))[:, None] * n
            counted = xp.bincount(xp.reshape(owner + some, (-1,)), minlength=some.shape[0] * n)
            parts.append(xp.astype(xp.reshape(counted, (some.shape[0], n)), reference.dtype))
        return xp.concat(parts, axis=0)

    def _keys(self, tile: int) -> IntArray:
        """Return four key words for every subset of the tile, shape (subsets, 4)."""
        subsets = self.tile_subsets(tile)
        words = stream(self.seed, _KEY_STREAM, tile).integers(-(2**31), 2**31, (TILE_SUBSETS, 4), np.int32)
        return words[: subsets.stop - subsets.start]


def mixed(counter: Any, keys: Any) -> Any:
    """Return the 32-bit numbers of `counter` (1, m) under every pair of keys (b, 2), shape (b, m).

    Multiply and xor-shift, with a key before each multiplication: the first moves the counters of different
    subsets apart, the second makes them different functions. Right shifts are made logical by a mask.
    """
    x = counter ^ keys[:, :1]
    x = x ^ ((x >> 16) & 0xFFFF)
    x = x * _FIRST
    x = x ^ ((x >> 15) & 0x1FFFF) ^ keys[:, 1:]
    x = x * _SECOND
    return x ^ ((x >> 16) & 0xFFFF)


def _draw_masks(keys: IntArray, n: int, k: int, reference: Any) -> Any:
    """Mark the k observations with the smallest numbers of every subset, shape (subsets, n)."""
    xp = array_namespace(reference)
    place = device(reference)
    counter = xp.arange(n, dtype=xp.int32, device=place)[None, :]
    group = max(1, _HELD_NUMBERS // n)
    masks = []
    for first in range(0, len(keys), group):
        words = xp.asarray(keys[first : first + group, :2], device=place)
        numbers = mixed(counter, words)
        masks.append(numbers <= _kth_smallest(xp, numbers, k)[:, None])
    return masks[0] if len(masks) == 1 else xp.concat(masks, axis=0)


def _kth_smallest(xp: Any, numbers: Any, k: int) -> Any:
    """Return the k-th smallest number of every row, shape (rows,).

    Only numbers near the expected place are sorted: those within 8 standard deviations, all where a row's
    k-th smallest is not among them.
    """
    n, width = numbers.shape[1], _WINDOW
    while True:
        spread = width * (math.sqrt(k / n * (1 - k / n) / n) + 1 / n)  # one row counts where all are drawn
        ends = (int((k / n + sign * spread) * 2**32) for sign in (-1, 1))
        low, high = (min(max(end, 0), 2**32 - 1) - 2**31 for end in ends)
        below = xp.count_nonzero(numbers < low, axis=1)
        window = (numbers >= low) & (numbers <= high)
        near = xp.count_nonzero(window, axis=1)
        rank = k - below  # from 1 to `near`, where the window holds the answer
        if bool(xp.all((rank >= 1) & (rank <= near))):
            break
        width *= 2
    cells = xp.astype(xp.nonzero(xp.reshape(window, (-1,)))[0], xp.int64)
    found = xp.astype(xp.take(xp.reshape(numbers, (-1,)), cells), xp.int64)
    ordered = xp.sort(cells // n * 2**32 + (found + 2**31))  # by row, then by number
    chosen = xp.take(ordered, xp.cumulative_sum(near) - (near - rank) - 1)
    return xp.astype((chosen & 0xFFFFFFFF) - 2**31, xp.int32)


def _draw_rows(keys: IntArray, n: int, k: int, reference: Any) -> Any:
    """Draw k rows of every subset with replacement, shape (subsets, k)."""
    xp = array_namespace(reference)
    words = xp.asarray(keys, device=device(reference))
    counter = xp.arange(k, dtype=xp.int32, device=device(reference))[None, :]
    upper = xp.astype(mixed(counter, words[:, :2]), xp.int64) & 0x3FFFFFFF
    lower = xp.astype(mixed(counter, words[:, 2:]), xp.int64) & 0xFFFFFFFF
    return (upper * 2**32 + lower) % n  # of 62 bits
