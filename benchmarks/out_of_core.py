"""Time and memory of a run over data that are never held, and how it scales over worker processes.

    python benchmarks/out_of_core.py --observations 100000000 --resamples 256
    python benchmarks/out_of_core.py --observations 100000000 --resamples 64 --rows-per-unit 64
    python benchmarks/out_of_core.py --observations 2000000 --resamples 256 --workers 1 2
    python benchmarks/out_of_core.py --observations 100000000 --resamples 64 --rows-per-unit 64 --workers 2 \\
        --parquet rows --kill 30
    python benchmarks/out_of_core.py --observations 10000000 --task evaluate
    python benchmarks/out_of_core.py --observations 10000000 --task regress --workers 2

The first form measures one process that draws rows, the second one that draws units of 64 consecutive rows,
the third a cluster of processes on Dask (`--backend ray`: on joblib's Ray backend), what its workers send,
and what it costs that one of them is killed. The fourth does so with rows that lie in a folder of Parquet
files, which are written if they are not there (2.4 GB for 10^8 rows). The fifth evaluates logged steps in
Parquet that Polars filtered and pruned, the sixth fits a regression by features to Parquet. Beside the times
stands that of the two matrix products of the rows' exact sums alone. All add to results/out_of_core.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import replaystats as rs
from replaystats.data import RowBlocks
from replaystats.moments import transition_moments

RESULTS = Path(__file__).parent / "results" / "out_of_core.json"
BLOCK_ROWS = 2**18
PART_ROWS = 2_000_000  # of a file
ALONE = 10**8  # up to so many rows, one process says whether the bits are the same
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


def in_parquet(n, folder):
    """Return the same transitions as blocks of Parquet files, eight blocks a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    made, files = RandomWalk(n), []
    for first in range(0, len(made.lengths), 8):
        files.append(Path(folder) / f"rows-{first:06}.parquet")
        if files[-1].exists():
            continue
        files[-1].parent.mkdir(exist_ok=True)
        kind = pa.schema([(name, pa.float64()) for name in made.load(0)])
        with pq.ParquetWriter(files[-1], kind, compression="none", use_dictionary=False) as writer:
            for block in range(first, min(first + 8, len(made.lengths))):
                columns = {name: array.ravel() for name, array in made.load(block).items()}
                writer.write_table(pa.table(columns, schema=kind))
    return rs.data.ParquetBlocks(files, columns={name: name for name in made.load(0)})


def streamed(n, checkpoint=None, rows_per_unit=1, parquet=None):
    options = {"basis": BASIS, "discount": DISCOUNT, "rows_per_unit": rows_per_unit}
    source = RandomWalk(n) if parquet is None else in_parquet(n, parquet)
    return rs.moments.StreamedMoments(source, transition_moments, checkpoint=checkpoint, **options)


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


@contextmanager
def cluster_of(count, backend):
    """Start so many single-threaded processes, and run joblib's tasks there; a client, or None for Ray."""
    import joblib

    if backend == "ray":
        import ray
        from ray.util.joblib import register_ray

        ray.init(num_cpus=count, include_dashboard=False, log_to_driver=False)
        register_ray()
        with joblib.parallel_config("ray", n_jobs=count):
            yield None
        ray.shutdown()
        return
    from distributed import Client, LocalCluster

    options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with LocalCluster(**options) as cluster, Client(cluster) as client, joblib.parallel_config("dask"):
        client.run(__import__, "replaystats")  # workers import the library once; that is not the run
        yield client


def in_all(client, function):
    """Return the sum over the workers of Dask of what a function returns; 0 where they cannot be asked."""
    return 0.0 if client is None else sum(client.run(function).values())


def sent(dask_worker):
    """Return the bytes that a worker has sent."""
    return dask_worker.transfer_outgoing_bytes_total


def run_on_workers(n, n_resamples, share, memory_budget, workers, rows_per_unit, backend, kill, parquet):
    """Return the wall time of the same run on clusters of that many single-threaded processes."""
    times, cpu_times, bytes_sent, theta = {}, {}, {}, []
    moments = streamed(n, None, rows_per_unit, parquet)
    plan = rs.make_plan(len(moments), subsample_size=share, n_resamples=n_resamples, random_state=0)
    for count in workers:
        with cluster_of(count, backend) as client:
            before, start = in_all(client, time.process_time), time.perf_counter()
            if kill:
                victim = next(iter(client.run(os.getpid).values()))
                threading.Timer(kill, os.kill, (victim, signal.SIGKILL)).start()
            with rs.config_context(memory_budget=memory_budget):
                theta.append(rs.replicate(moments, plan).theta)
            times[count] = round(time.perf_counter() - start, 2)
            cpu_times[count] = round(in_all(client, time.process_time) - before, 2)
            bytes_sent[count] = in_all(client, sent)
    first = workers[0]
    alone = time.process_time()
    theta.append(theta[0] if n > ALONE else rs.replicate(moments, plan).theta)
    alone = time.process_time() - alone
    return {
        "backend": backend,
        "rows_per_unit": rows_per_unit,
        "killed_after_s": kill,
        "bytes_sent_by_workers": bytes_sent,
        "observations": n,
        "resamples": n_resamples,
        "share": share,
        "wall_s_by_workers": times,
        "cpu_s_of_all_workers": cpu_times,
        "cpu_s_of_one_process": None if n > ALONE else round(alone, 2),
        "bytes_of_files": sum(file.stat().st_size for file in Path(parquet).iterdir()) if parquet else None,
        "efficiency_of_wall_time": {w: round(times[first] * first / (times[w] * w), 2) for w in workers},
        "same_bits_as_one_process": all(np.array_equal(theta[0], other) for other in theta),
    }


def write_steps(n, folder):
    """Write logged steps with four columns that nobody needs, and steps of another site, as Parquet."""
    import polars

    rng, steps = np.random.default_rng(0), 100
    for part, size in enumerate([min(PART_ROWS, n - start) for start in range(0, n, PART_ROWS)]):
        episode = part * PART_ROWS + np.arange(size) // steps
        columns = {"episode": episode, "step": np.arange(size) % steps, "x": rng.normal(size=size)}
        columns |= {"reward": rng.normal(size=size), "terminated": np.arange(size) % steps == steps - 1}
        columns |= {f"unused_{i}": rng.normal(size=size) for i in range(4)}
        columns["site"] = episode % 10  # site 0 is not wanted
        polars.DataFrame(columns).write_parquet(folder / f"part-{part:04}.parquet")


def evaluate_steps(n, folder):
    """Return what the value of the logged policy takes: filtered and pruned by Polars, read, evaluated."""
    import polars

    write_steps(n, folder)
    wanted = polars.scan_parquet(folder / "*.parquet").filter(polars.col("site") > 0)
    began, wall = time.process_time(), time.perf_counter()
    data = rs.readers.from_table(wanted, states="x", step="step", final_states="repeat", time_limit=None)
    read = time.process_time() - began
    found = rs.evaluate(data, discount=0.9)
    return {
        "rows_in_files": n,
        "rows_evaluated": data.n_transitions,
        "bytes_of_files": sum(file.stat().st_size for file in folder.iterdir()),
        "bytes_of_columns": 5 * 8 * data.n_transitions,
        "cpu_s_reading": round(read, 1),
        "cpu_s": round(time.process_time() - began, 1),
        "wall_s": round(time.perf_counter() - wall, 1),
        "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "value": found.value,
        "interval": [float(end) for end in found.interval],
    }


def regress_rows(n, folder, workers, backend):
    """Return what a regression by features takes on Parquet files, on as many workers."""
    import polars

    rng = np.random.default_rng(0)
    for part in range(0, n, PART_ROWS):
        X = rng.uniform(-1, 1, (min(PART_ROWS, n - part), 2))
        y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=len(X))
        frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
        frame.write_parquet(folder / f"part-{part:010}.parquet", row_group_size=BLOCK_ROWS)
    files = sorted(str(file) for file in folder.iterdir())
    source = rs.data.ParquetBlocks(files, columns={"X": ["a", "b"], "y": "y"})
    with cluster_of(workers[0], backend) as client:
        before, own, wall = in_all(client, time.process_time), time.process_time(), time.perf_counter()
        model = rs.ReplayKernelRidge(random_state=0).fit_blocks(source)
        cpu = in_all(client, time.process_time) - before + time.process_time() - own
        wall, moved = time.perf_counter() - wall, in_all(client, sent)
    points = rng.uniform(-1, 1, (1000, 2))
    error = model.predict(points) - np.sin(3 * points[:, 0]) - points[:, 1] ** 2
    return {
        "rows": n,
        "backend": backend,
        "workers": workers[0],
        "cpu_s": round(cpu, 1),
        "wall_s": round(wall, 1),
        "bytes_sent_by_workers": moved,
        "root_mean_squared_error": float(f"{np.sqrt(np.mean(error**2)):.2g}"),
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
    parser.add_argument("--backend", choices=("dask", "ray"), default="dask")
    parser.add_argument("--kill", type=float, help="seconds after which one worker of Dask is killed")
    parser.add_argument("--parquet", help="folder of files to read the rows from")
    parser.add_argument("--task", choices=("moments", "evaluate", "regress"), default="moments")
    parser.add_argument("--checkpoint", help="directory of partial sums, to go on after an interruption")
    given = parser.parse_args()
    shape = (given.observations, given.resamples, given.share, given.memory_budget)
    if given.task != "moments":
        with tempfile.TemporaryDirectory() as name:
            work = [given.observations, Path(name)]
            work += [given.workers or [1], given.backend] if given.task == "regress" else []
            name, result = (
                given.task,
                {"evaluate": evaluate_steps, "regress": regress_rows}[given.task](*work),
            )
    elif given.workers:
        more = (given.rows_per_unit, given.backend, given.kill, given.parquet)
        name = (
            f"workers_{given.backend}"
            + ("_killed" if given.kill else "")
            + ("_parquet" if given.parquet else "")
        )
        result = run_on_workers(*shape, given.workers, *more)
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
