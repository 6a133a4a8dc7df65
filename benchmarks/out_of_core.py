"""Time and memory of a run over data that are never held, and how it scales over worker processes.

    python benchmarks/out_of_core.py --observations 100000000 --resamples 256
    python benchmarks/out_of_core.py --observations 100000000 --resamples 64 --rows-per-unit 64
    python benchmarks/out_of_core.py --observations 2000000 --resamples 256 --workers 1 2

The first form measures one process that draws rows, the second one that draws units of 64 consecutive rows,
the third a cluster of processes. Beside the times stands that of the two matrix products of the rows' exact
sums alone. All add to results/out_of_core.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from pathlib import Path

import numpy as np

import replaystats as rs
from replaystats.data import RowBlocks
from replaystats.moments import transition_moments

RESULTS = Path(__file__).parent / "results" / "out_of_core.json"
BLOCK_ROWS = 2**18
DISCOUNT, NOISE = 0.9, 0.5
BASIS = rs.basis.Fourier(4)  # q = 9


class RandomWalk(RowBlocks):
    """Transitions of a random walk on the circle, made when they are asked for; the value is cos(s)."""

    def __init__(self, n):
        self.n = n

    @property
    def lengths(self):
        return [min(BLOCK_ROWS, self.n - start) for start in range(0, self.n, BLOCK_ROWS)]

    def load(self, block):
        n_rows = self.lengths[block]
        rng = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(0, spawn_key=(block,))))
        states = rng.uniform(-np.pi, np.pi, (n_rows, 1))
        rewards = np.cos(states[:, 0]) * (1 - DISCOUNT * np.exp(-(NOISE**2) / 2))
        return {
            "states": states,
            "rewards": rewards + rng.standard_normal(n_rows),
            "next_states": states + NOISE * rng.standard_normal((n_rows, 1)),
        }


def streamed(n, checkpoint=None, rows_per_unit=1):
    options = {"basis": BASIS, "discount": DISCOUNT, "rows_per_unit": rows_per_unit}
    return rs.moments.StreamedMoments(RandomWalk(n), transition_moments, checkpoint=checkpoint, **options)


def products_alone(n_resamples, repetitions=400):
    """Return processor seconds of counts times both slices per 10^8 rows, from the cache."""
    rng = np.random.default_rng(0)
    rows, counts = rng.random((512, BASIS.n_basis * (BASIS.n_basis + 1))), rng.random((n_resamples, 512))
    start = time.process_time()
    for _ in range(2 * repetitions):
        rows.T @ counts.T
    return (time.process_time() - start) / (512 * repetitions) * 1e8


def run(n, n_resamples, share, memory_budget, checkpoint=None, rows_per_unit=1):
    """Return times, peak memory and how far the answer is from the known value."""
    moments = streamed(n, checkpoint, rows_per_unit)
    plan = rs.make_plan(len(moments), subsample_size=share, n_resamples=n_resamples, random_state=0)
    alone = products_alone(n_resamples)
    wall, cpu = time.perf_counter(), time.process_time()
    with rs.config_context(memory_budget=memory_budget):
        replicates = rs.replicate(moments, plan)
    estimate = rs.average(replicates, "controlled")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    grid = np.linspace(-np.pi, np.pi, 50)[:, None]
    error = np.abs(BASIS(grid) @ estimate.theta - np.cos(grid[:, 0])).max()
    return {
        "rows": n,
        "rows_per_unit": rows_per_unit,
        "q": BASIS.n_basis,
        "resamples": n_resamples,
        "share": share,
        "memory_budget_mib": memory_budget / 2**20,
        "wall_s": round(wall, 1),
        "cpu_s": round(cpu, 1),
        "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "cpu_s_per_1e8_rows": round(cpu / n * 1e8),
        "cpu_s_of_products_alone_per_1e8_rows": [round(alone), round(products_alone(n_resamples))],
        "largest_error_of_value": float(f"{error:.2g}"),
    }


def run_on_workers(n, n_resamples, share, memory_budget, workers):
    """Return the wall time of the same run on clusters of that many single-threaded processes."""
    import joblib
    from distributed import Client, LocalCluster

    times, cpu_times, theta = {}, {}, []
    plan = rs.make_plan(n, subsample_size=share, n_resamples=n_resamples, random_state=0)
    for count in workers:
        options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
        with LocalCluster(**options) as cluster, Client(cluster) as client, joblib.parallel_config("dask"):
            client.run(__import__, "replaystats")  # workers import the library once; that is not the run
            start, cpu_start = time.perf_counter(), sum(client.run(time.process_time).values())
            with rs.config_context(memory_budget=memory_budget):
                theta.append(rs.replicate(streamed(n), plan).theta)
            times[count] = round(time.perf_counter() - start, 2)
            cpu_times[count] = round(sum(client.run(time.process_time).values()) - cpu_start, 2)
    first = workers[0]
    return {
        "observations": n,
        "resamples": n_resamples,
        "share": share,
        "wall_s_by_workers": times,
        "cpu_s_of_all_workers": cpu_times,
        "efficiency_of_wall_time": {w: round(times[first] * first / (times[w] * w), 2) for w in workers},
        # What the cores would give if nothing else ran on them: the work that more workers add.
        "efficiency_of_cpu_time": {w: round(cpu_times[first] / cpu_times[w], 2) for w in workers},
        "same_bits": all(np.array_equal(theta[0], other) for other in theta),
    }


def machine():
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--observations", type=int, default=10**8)
    parser.add_argument("--resamples", type=int, default=256)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--memory-budget", type=int, default=2**28, help="bytes")
    parser.add_argument("--rows-per-unit", type=int, default=1)
    parser.add_argument("--workers", type=int, nargs="*", help="numbers of worker processes")
    parser.add_argument("--checkpoint", help="directory of partial sums, to go on after an interruption")
    given = parser.parse_args()
    shape = (given.observations, given.resamples, given.share, given.memory_budget)
    if given.workers:
        name, result = "workers", run_on_workers(*shape, given.workers)
    else:
        name = "one_process" if given.rows_per_unit == 1 else "one_process_units"
        result = run(*shape, given.checkpoint, given.rows_per_unit)
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    kept[name] = {**result, "machine": machine()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(kept[name], indent=2))


if __name__ == "__main__":
    main()
