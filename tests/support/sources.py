"""Row sources that misbehave on purpose; importable by worker processes too."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

import replaystats as rs
from replaystats.data.blocks import RowBlocks


def transitions(n, seed=0):
    """Rows (s, r, s', terminal) of a random walk on the circle, deterministic in the seed."""
    rng = np.random.default_rng(seed)
    states = rng.uniform(-np.pi, np.pi, size=(n, 1))
    return {
        "states": states,
        "rewards": np.cos(states[:, 0]) + rng.normal(size=n),
        "next_states": states + rng.normal(size=(n, 1)),
        "terminal": rng.random(n) < 0.05,
    }


class Wrapped(RowBlocks):
    """Another source, with something happening before a chosen block is loaded."""

    def __init__(self, source, block):
        self.source, self.block = source, block

    @property
    def lengths(self):
        return self.source.lengths

    def label(self, block):
        return self.source.label(block)

    def identity(self):
        return self.source.identity()

    def load(self, block):
        if block == self.block:
            self.happen()
        return self.source.load(block)

    def happen(self):
        raise NotImplementedError


class Killing(Wrapped):
    """Kills the process that loads the block: the first `times` times, counted by files in a folder."""

    def __init__(self, source, block, folder, times):
        super().__init__(source, block)
        self.folder, self.times, self.owner = Path(folder), times, os.getpid()

    def happen(self):
        deaths = len(list(self.folder.iterdir()))
        if deaths < self.times and os.getpid() != self.owner:
            (self.folder / str(deaths)).touch()
            os.kill(os.getpid(), signal.SIGKILL)


class Interrupting(Wrapped):
    """Stops the run at the block while a file exists, as Ctrl-C would."""

    def __init__(self, source, block, file):
        super().__init__(source, block)
        self.file = Path(file)

    def happen(self):
        if self.file.exists():
            raise KeyboardInterrupt


class Slow(Wrapped):
    """Takes long over one block."""

    def happen(self):
        time.sleep(1.0)


class EachSlow(Wrapped):
    """Takes a moment over every block."""

    def __init__(self, source):
        super().__init__(source, None)

    def load(self, block):
        time.sleep(0.05)
        return self.source.load(block)


class Greedy(Wrapped):
    """Wants more memory for one block than its worker has, unless it is the process that made it."""

    def __init__(self, source, block, n_bytes):
        super().__init__(source, block)
        self.n_bytes, self.owner = n_bytes, os.getpid()

    def happen(self):
        if os.getpid() != self.owner:
            held = []
            while sum(len(chunk) for chunk in held) < self.n_bytes:
                held.append(b"x" * 2**24)
                time.sleep(0.01)
            time.sleep(5.0)


class Counting(Wrapped):
    """Counts loads of all blocks, to see what a resumed run does again."""

    def __init__(self, source):
        super().__init__(source, None)
        self.loaded = []

    def load(self, block):
        self.loaded.append(block)
        return self.source.load(block)


class Generated(RowBlocks):
    """Wide rows made on the spot: more in total than a worker may hold, little at a time."""

    def __init__(self, n_blocks, rows=2048, columns=2000):
        self.n_blocks, self.rows, self.columns = n_blocks, rows, columns

    @property
    def lengths(self):
        return [self.rows] * self.n_blocks

    def load(self, block):
        rows = np.ones((self.rows, self.columns))
        rows[:, :2] = np.random.default_rng(block).normal(size=(self.rows, 2))
        return rows


def first_two_columns(block):
    """Least squares of the second column on the first."""
    return rs.Moments(block[:, 0] ** 2, block[:, 0] * block[:, 1], symmetric=True)
