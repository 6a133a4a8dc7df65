"""One way to measure: wall time by pytest-benchmark, then peak memory in an untimed call of its own."""

from __future__ import annotations

import tracemalloc

import pytest

MIB = 2**20


@pytest.fixture
def measure(benchmark):
    """Return `measure(function, *, baseline=False, rounds=5, flop=None)`, which passes on the answer.

    Within a benchmark group (`@pytest.mark.benchmark(group=...)`) the table shows every time as a speed-up
    over the one marked `baseline`. `flop`, the floating-point operations of one call, adds a rate.
    Peak memory is what Python and NumPy allocate during one call; worker processes are not seen.
    """

    def run(function, *, baseline=False, rounds=5, flop=None):
        answer = benchmark.pedantic(function, rounds=rounds, warmup_rounds=1)
        tracemalloc.start()
        try:
            function()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        benchmark.extra_info.update(peak_mib=peak / MIB, baseline=baseline, flop=flop)
        return answer

    return run
