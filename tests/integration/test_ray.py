"""A Ray cluster of two local processes: the same bits, and a worker that dies costs time, not the answer."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import replaystats as rs
from replaystats.data.blocks import PartitionError
from replaystats.engine import RayExecutor
from support.sources import Killing
from support.streams import streamed

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray = pytest.importorskip("ray", reason="ray is not installed")
    with pytest.MonkeyPatch.context() as patch:  # workers import the sources of these tests
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        start(ray)
    yield
    ray.shutdown()


def start(ray):
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=10**8)


def test_the_same_bits(source, plan, expected):
    found = rs.replicate(streamed(source), plan, executor=RayExecutor())
    np.testing.assert_array_equal(found.theta, expected.theta)
    np.testing.assert_array_equal(found.sums.A, expected.sums.A)


def test_a_killed_worker_costs_time_not_the_answer(source, plan, expected, tmp_path):
    moments = streamed(Killing(source, 3, tmp_path, times=1))
    moments.maxima = streamed(source).surveyed_maxima(range(8))
    found = rs.replicate(moments, plan, executor=RayExecutor())
    assert len(list(tmp_path.iterdir())) == 1  # it did happen
    np.testing.assert_array_equal(found.theta, expected.theta)


def test_a_partition_that_keeps_killing_is_named(source, plan, tmp_path):
    moments = streamed(Killing(source, 3, tmp_path, times=99))
    moments.maxima = streamed(source).surveyed_maxima(range(8))
    with pytest.raises(PartitionError, match="could not be worked on"):
        rs.replicate(moments, plan, executor=RayExecutor(retries=1))
