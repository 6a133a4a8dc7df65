"""A source of blocks on disk, subsets of it, and what they give in memory: for tests of clusters."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs
from replaystats.data.blocks import ArrayBlocks
from replaystats.moments import transition_moments
from support.sources import transitions
from support.streams import BASIS, N


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("npy")
    data = transitions(N)
    for name, array in data.items():
        np.save(folder / f"{name}.npy", array)
    return ArrayBlocks({name: folder / f"{name}.npy" for name in data}, block_rows=5000)


@pytest.fixture(scope="module")
def plan():
    return rs.make_plan(N, subsample_size=0.2, n_resamples=100, random_state=0)


@pytest.fixture(scope="module")
def expected(plan):
    moments = transition_moments(transitions(N), BASIS, discount=0.9)
    return rs.replicate(moments, plan, exact=True)
