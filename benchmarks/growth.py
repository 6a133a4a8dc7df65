"""How time and memory grow with n, k, B and q: ``python benchmarks/growth.py TABLE.md``.

Each size is varied over two decades with the others held, and a power law is fitted to processor time (which
other programs cannot stretch) and to peak memory. The lines are appended to the table of ``make bench``.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np

import replaystats as rs

BASE = {"n": 8000, "k": 2000, "B": 512, "q": 9}
GRIDS = {
    "n": (2000, 6500, 20000, 65000, 200000),
    "k": (60, 200, 600, 2000, 6000),
    "B": (64, 200, 640, 2000, 6400),
}
KERNEL_BASE = {"n": 4000, "k": 100, "B": 64}
KERNEL_GRIDS = {"n": (1000, 10000, 100000), "k": (10, 100, 1000), "B": (32, 320, 3200)}
# Whole estimators as they come, groups included: what users wait for.
LSTD_BASE = {"n": 10000, "q": 31}
LSTD_GRIDS = {"n": (2000, 20000, 200000), "q": (5, 15, 51, 151, 501)}


def moment_ratio(n, k, B, q):
    """Return the work of one replay of LSTD-shaped moments, drawing and solving included."""
    rng = np.random.default_rng(0)
    left = rng.normal(size=(n, q))
    right = left + 0.1 * rng.normal(size=(n, q))
    moments = rs.moments.FactoredMoments(left, right, rng.normal(size=n), np.arange(n + 1)).multiply_out()
    plan = rs.make_plan(n, subsample_size=k, n_resamples=B, random_state=0)
    return lambda: rs.replicate(moments, plan)


def kernel_ridge(n, k, B):
    """Return the work of fitting kernel ridge on subsets and predicting at 200 points."""
    X, y = rs.simulate.two_bumps(n, random_state=0)
    points = rs.simulate.two_bumps(200, random_state=1)[0]

    def run():
        model = rs.ReplayKernelRidge(0.1, gamma=None, resampling=rs.Resampling("U", k, B), random_state=0)
        return model.fit(X, y).predict(points)

    return run


def lstd(n, q):
    """Return the work of LSTD with defaults on n single transitions, its interval at 50 states included."""
    rng = np.random.default_rng(0)
    states = rng.uniform(-np.pi, np.pi, size=(n, 2, 1))
    states[:, 1] = states[:, 0] + 0.5 * rng.normal(size=(n, 1))
    data = rs.Trajectories(states, rewards=np.cos(states[:, 0, :]))
    grid = np.linspace(-3, 3, 50)[:, None]

    def run():
        model = rs.LSTD(rs.basis.Fourier((q - 1) // 2), discount=0.9, random_state=0)
        return model.fit(data).confidence_interval(grid)

    return run


def cost(work, rounds=2):
    """Return the least processor time of a few calls, and the peak of what one call allocates."""
    work()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return min(times), peak


def exponent(sizes, costs):
    """Return the slope of log cost on log size."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def rows(name, make, base, grids):
    """Yield one line of the table for every size that is varied."""
    for letter, sizes in grids.items():
        costs = [cost(make(**(base | {letter: size}))) for size in sizes]
        times, peaks = zip(*costs, strict=True)
        held = ", ".join(f"{other}={value}" for other, value in base.items() if other != letter)
        yield (
            f"| {name} | {letter} from {sizes[0]} to {sizes[-1]} ({held}) | {exponent(sizes, times):.2f} "
            f"| {exponent(sizes, peaks):.2f} | {times[-1] * 1e3:.0f} ms |"
        )


def main():
    lines = [
        "### growth: exponents of processor time and peak memory",
        "",
        "| what | varied | time | memory | time at the largest |",
        "|---|---|---:|---:|---:|",
        *rows("moment ratio, U", moment_ratio, BASE, GRIDS),
        *rows("kernel ridge, U", kernel_ridge, KERNEL_BASE, KERNEL_GRIDS),
        *rows("LSTD as it comes, with intervals", lstd, LSTD_BASE, LSTD_GRIDS),
    ]
    text = "\n".join(lines) + "\n"
    with Path(sys.argv[1]).open("a", encoding="utf-8") as table:
        table.write("\n" + text)
    print(text)


if __name__ == "__main__":
    main()
