"""A fit walks through the house: how often it goes from one folder to another is kept small.

Every call into `src/replaystats` is written down, `_core` apart, and changes of folder are counted. A folder
that asks another one row, block or subset at a time makes hundreds of them.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import replaystats as rs
from replaystats.simulate import ornstein_uhlenbeck

SOURCE = Path(rs.__file__).parent
# Some 60: estimators ask one stage after the other, and a stage asks those before it for what it needs.
MOST = 70


def folder_changes(act):
    """Return how often two calls that follow each other are in different folders."""
    folders = []

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            folder = path.relative_to(SOURCE).parts[0]
            if folder not in ("_core", "__init__.py"):
                folders.append(folder)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return sum(here != there for here, there in pairwise(folders))


@pytest.mark.parametrize("n", [60, 200])
def test_lstd(n):
    data = ornstein_uhlenbeck(n, 40, rng=0)
    model = rs.LSTD(rs.basis.Fourier(3), discount=0.9, random_state=0)
    assert 20 < folder_changes(lambda: model.fit(data)) < MOST


@pytest.mark.parametrize("n", [400, 3000])  # with more rows, widths are searched in steps on new blocks
def test_kernel_ridge_with_everything_chosen(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 3))
    y = np.sin(4 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)
    model = rs.ReplayKernelRidge(random_state=0)
    assert 20 < folder_changes(lambda: model.fit(X, y)) < MOST
