"""The live buffer at q=9: observations added per second, one at a time and in batches, and reading it."""

from __future__ import annotations

import numpy as np
import pytest

import replaystats as rs

N, CAPACITY, Q = 20_000, 10_000, 9


@pytest.fixture(scope="module")
def observations():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, Q, Q)) + 3 * np.eye(Q), rng.normal(size=(N, Q))


def make_buffer(*, eviction="fifo", prioritized=False):
    return rs.ReplayBuffer(CAPACITY, eviction=eviction, prioritized=prioritized, random_state=0)


def add_one_by_one(buffer, g, f):
    for one_g, one_f in zip(g, f, strict=True):
        buffer.add(one_g, one_f)
    return buffer


def plain_loop(g, f):
    """What one writes first: a list of the latest observations, summed anew for every answer."""
    kept = []
    for one_g, one_f in zip(g, f, strict=True):
        kept.append(np.concatenate([one_g.ravel(), one_f]))
        if len(kept) > CAPACITY:
            kept.pop(0)
    return np.sum(kept, axis=0)


@pytest.mark.benchmark(group=f"buffer, {N} additions, q={Q}, capacity {CAPACITY}")
class TestAdditions:
    def test_list_without_a_running_total(self, measure, observations):
        measure(lambda: plain_loop(*observations), baseline=True)

    @pytest.mark.parametrize("eviction", ["fifo", "reservoir"])
    def test_one_at_a_time(self, measure, observations, eviction):
        buffer = measure(lambda: add_one_by_one(make_buffer(eviction=eviction), *observations))
        assert len(buffer) == CAPACITY

    def test_one_at_a_time_with_priorities(self, measure, observations):
        measure(lambda: add_one_by_one(make_buffer(prioritized=True), *observations))

    @pytest.mark.parametrize("size", [100, 1000])
    def test_batches(self, measure, observations, size):
        rows = rs.Moments(*observations).rows
        parts = [rs.Moments.from_rows(part, Q, None, symmetric=False) for part in np.split(rows, N // size)]

        def run():
            buffer = make_buffer()
            for part in parts:
                buffer.extend(part)
            return buffer

        np.testing.assert_allclose(measure(run).moments().rows.sum(axis=0), plain_loop(*observations))


@pytest.mark.benchmark(group=f"buffer of {CAPACITY}, q={Q}: reading")
class TestReading:
    @pytest.fixture
    def buffer(self, observations):
        buffer = make_buffer(prioritized=True)
        buffer.extend(rs.Moments(*observations))
        return buffer

    def test_plug_in_from_the_running_total(self, measure, buffer):
        measure(buffer.plug_in, rounds=50)

    def test_estimate_of_200_half_samples(self, measure, buffer):
        measure(lambda: buffer.estimate("mean", n_resamples=200, rng=0))

    def test_prioritized_minibatch_of_32(self, measure, buffer):
        measure(lambda: buffer.sample(32), rounds=50)
