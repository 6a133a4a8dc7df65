"""Long use in one process: ten million additions, a thousand fits, eight threads; memory stays flat."""

from __future__ import annotations

import gc
import os
import sys
import threading

import numpy as np
import pytest

import replaystats as rs

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc"),
]

FLAT = 48 * 2**20  # what allocators may keep besides


def resident():
    """Bytes of memory that the process holds."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_ten_million_additions():
    line = np.arange(1001.0)[:, None]
    block = (line[:-1], np.zeros(1000, dtype=int), np.ones(1000), line[1:], np.arange(1000) == 999)
    buffer = rs.ReplayBuffer(20_000, sampling="proportional", random_state=0)
    for _ in range(200):  # the buffer is full, and allocators have what they want
        buffer.add(*block)
    before = resident()
    for _ in range(10**4):
        buffer.add(*block)
    assert resident() - before < FLAT
    assert len(buffer.trajectories()) == 19  # the first may have lost its start


def test_a_thousand_fits():
    data = rs.simulate.ornstein_uhlenbeck(60, n_steps=3, start="uniform", random_state=0)
    states = np.linspace(-1, 1, 5)[:, None]

    def fit(seed):
        model = rs.LSTD(
            rs.basis.Fourier(2), discount=0.9, resampling=rs.Resampling(n_resamples=30), random_state=seed
        ).fit(data)
        return model.predict(states), model.confidence_interval(states)

    for seed in range(50):
        fit(seed)
    before = resident()
    for seed in range(1000):
        fit(seed)
    assert resident() - before < FLAT


def test_eight_threads_get_the_answers_of_one():
    data = rs.simulate.ornstein_uhlenbeck(80, n_steps=3, start="uniform", random_state=0)
    states = np.linspace(-1, 1, 5)[:, None]

    def answer(seed):
        return (
            rs.LSTD(
                rs.basis.Fourier(2), discount=0.9, resampling=rs.Resampling(n_resamples=40), random_state=seed
            )
            .fit(data)
            .predict(states)
        )

    alone = [answer(seed) for seed in range(8)]
    found = {}

    def work(seed):
        found[seed] = [answer(seed) for _ in range(10)]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, answers in found.items():
        for one in answers:
            np.testing.assert_allclose(one, alone[seed], rtol=1e-12)
