"""The counters of `counter` as three kernels of Triton: the same integers without passes over memory.

A count matrix is written once, where a dozen elementwise operations would read and write arrays of its size.
Imported only where PyTorch has a CUDA device and Triton is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]

from .._core.typing import IntArray

# Batch: rows of a program of the device.
_BLOCK = 4096


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _mixed(counter, first, second, FIRST: tl.constexpr, SECOND: tl.constexpr):  # type: ignore[no-untyped-def, unused-ignore]
    x = counter ^ first
    x = x ^ ((x >> 16) & 0xFFFF)
    x = x * FIRST
    x = x ^ ((x >> 15) & 0x1FFFF) ^ second
    x = x * SECOND
    return x ^ ((x >> 16) & 0xFFFF)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _near(  # type: ignore[no-untyped-def, unused-ignore]
    keys,
    below,
    near,
    found,
    n,
    low,
    high,
    capacity,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Count the numbers below the window, and list those inside, in any order."""
    row = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number = _mixed(column, tl.load(keys + row * 4), tl.load(keys + row * 4 + 1), FIRST, SECOND)
    inside = column < n
    tl.atomic_add(below + row, tl.sum((inside & (number < low)).to(tl.int32)))
    hit = inside & (number >= low) & (number <= high)
    count = hit.to(tl.int32)
    place = tl.atomic_add(near + row, tl.sum(count)) + tl.cumsum(count) - 1
    tl.store(found + row * capacity + place, number, mask=hit & (place < capacity))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _mark(  # type: ignore[no-untyped-def, unused-ignore]
    keys, threshold, out, n, FIRST: tl.constexpr, SECOND: tl.constexpr, BLOCK: tl.constexpr
):
    """Write 1 where a number is at most the threshold of its subset, else 0."""
    row = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number = _mixed(column, tl.load(keys + row * 4), tl.load(keys + row * 4 + 1), FIRST, SECOND)
    drawn = (number <= tl.load(threshold + row)).to(out.dtype.element_ty)
    tl.store(out + row.to(tl.int64) * n + column, drawn, mask=column < n)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _count(  # type: ignore[no-untyped-def, unused-ignore]
    keys, out, again, n, k, limit, FIRST: tl.constexpr, SECOND: tl.constexpr, BLOCK: tl.constexpr
):
    """Add 1 to the count of every drawn row; say where a number would have to be drawn again."""
    row = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    words = keys + row * 4
    upper = _mixed(column, tl.load(words), tl.load(words + 1), FIRST, SECOND).to(tl.int64) & 0x3FFFFFFF
    lower = _mixed(column, tl.load(words + 2), tl.load(words + 3), FIRST, SECOND).to(tl.int64) & 0xFFFFFFFF
    number = (upper << 32) + lower
    used = column < k
    tl.atomic_add(again, tl.sum((used & (number >= limit)).to(tl.int32)))
    place = out + row.to(tl.int64) * n + number % n
    tl.atomic_add(place, tl.full([BLOCK], 1, out.dtype.element_ty), mask=used, sem="relaxed")


def marked(
    keys: IntArray, n: int, k: int, window: tuple[int, int], mixer: tuple[int, int], reference: Any
) -> Any:
    """Return the count matrix of subsets without replacement, (b, n); None where the window missed."""
    words, b = torch.as_tensor(np.ascontiguousarray(keys), device=reference.device), len(keys)
    low, high = window
    expected = n * (high - low + 1) / 2**32
    capacity = int(expected + 12 * expected**0.5) + 64
    below, near = torch.zeros((2, b), dtype=torch.int32, device=reference.device)
    largest = torch.iinfo(torch.int32).max
    found = torch.full((b, capacity), largest, dtype=torch.int32, device=reference.device)
    grid = (triton.cdiv(n, _BLOCK), b)
    with torch.cuda.device(reference.device):
        _near[grid](words, below, near, found, n, low, high, capacity, *mixer, _BLOCK)
        rank = k - below
        if not bool(((rank >= 1) & (rank <= near) & (near <= capacity)).all()):
            return None
        threshold = found.sort(dim=1).values.gather(1, (rank - 1)[:, None].long())[:, 0].contiguous()
        out = torch.empty((b, n), dtype=reference.dtype, device=reference.device)
        _mark[grid](words, threshold, out, n, *mixer, _BLOCK)
    return out


def counted(keys: IntArray, n: int, k: int, limit: int, mixer: tuple[int, int], reference: Any) -> Any:
    """Return the count matrix of subsets with replacement, (b, n); None where a number is drawn again."""
    words, b = torch.as_tensor(np.ascontiguousarray(keys), device=reference.device), len(keys)
    out = torch.zeros((b, n), dtype=reference.dtype, device=reference.device)
    again = torch.zeros(1, dtype=torch.int32, device=reference.device)
    with torch.cuda.device(reference.device):
        _count[(triton.cdiv(k, _BLOCK), b)](words, out, again, n, k, limit, *mixer, _BLOCK)
    return None if bool(again) else out
