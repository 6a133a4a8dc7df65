"""Peak resident memory of calls on long logs, beyond what was there before and beside the data.

    python benchmarks/peaks.py                      # all calls at 5,000,000 rows
    python benchmarks/peaks.py csv parquet --rows 1000000

Every call runs in a process of its own, after the same call on few rows, so that modules that it loads do
not count. The peak is what Linux reports (VmHWM) after its counter was set back. "Data" are the arrays of the
log.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import replaystats as rs

STEPS = 100  # rows of an episode
COLUMNS = {"states": "s", "actions": "action", "step": "step", "final_states": "repeat", "time_limit": None}


def columns(rows: int) -> dict[str, np.ndarray]:
    """Return the columns of a log, one row per state."""
    rng, n = np.random.default_rng(0), rows // STEPS
    return {
        "episode": np.repeat(np.arange(n), STEPS),
        "step": np.tile(np.arange(STEPS), n),
        "s": rng.normal(size=n * STEPS),
        "action": rng.integers(0, 2, n * STEPS),
        "reward": rng.normal(size=n * STEPS),
        "terminated": np.tile(np.arange(STEPS) == STEPS - 1, n),
    }


def log(rows: int) -> rs.Trajectories:
    """Return the log in memory."""
    table = columns(rows)
    return rs.Trajectories(
        table["s"].reshape(-1, STEPS),
        table["reward"].reshape(-1, STEPS)[:, 1:],
        table["action"].reshape(-1, STEPS)[:, 1:],
        terminated=False,
    )


def write(rows: int, kind: str, path: Path) -> None:
    """Write the log as a file."""
    if kind == "npz":
        data = log(rows)
        shape = (len(data), STEPS - 1)
        arrays = {"rewards": data.rewards.reshape(shape), "actions": data.actions.reshape(shape)}
        np.savez(path, states=data.states.reshape(-1, STEPS, 1), terminated=data.terminated, **arrays)
        return
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    table = pyarrow.table(columns(rows))
    writer = pyarrow.csv.write_csv if kind == "csv" else pyarrow.parquet.write_table
    writer(table, str(path))


def uniform(states: np.ndarray) -> np.ndarray:
    """Return a policy with two equally likely actions."""
    return np.full((len(states), 2), 0.5)


def read(path: Path) -> rs.Trajectories:
    """Read a file of the log."""
    if path.suffix == ".npz":
        return rs.readers.read_npz(path, actions="actions", time_limit=None)
    return rs.readers.from_table(path, **COLUMNS)


def regress(data: rs.Trajectories) -> None:
    """Fit the rewards by the states, with intervals at 1,000 of them."""
    steps = data.transitions()
    model = rs.ReplayKernelRidge(random_state=0).fit(steps.states, steps.rewards)
    model.confidence_interval(steps.states[:1000])


def values(data: rs.Trajectories, order: int) -> None:
    """Fit values of states in 2 order + 1 functions, with intervals at 100 states."""
    model = rs.LSTD(rs.basis.Fourier(order), discount=0.9, random_state=0).fit(data)
    model.confidence_interval(data.states[:100])


def action_values(data: rs.Trajectories) -> None:
    """Fit values of two actions in 9 functions each, with intervals at 100 states."""
    model = rs.LSTDQ(rs.basis.Fourier(4), uniform, discount=0.9, random_state=0).fit(data)
    model.confidence_interval(data.states[:100])


CALLS = {
    "evaluate": lambda data: rs.evaluate(data, discount=0.9),
    "compare": lambda data: rs.compare(data, {"logged": None, "uniform": uniform}, discount=0.9),
    "lstd": lambda data: values(data, 4),
    "lstd_wide": lambda data: values(data, 12),
    "lstd_q": action_values,
    "regress": regress,
}
FILES = ("csv", "parquet", "npz")


def status(name: str) -> int:
    """Return a number of bytes from the kernel's account of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def measure(name: str, rows: int, folder: Path) -> dict[str, object]:
    """Run one call in this process."""
    if name in FILES:
        path, small = folder / f"log.{name}", folder / f"small.{name}"
        write(300, name, small)
        call, inputs = read, (small, path)
    else:
        call, inputs = CALLS[name], (log(1000), log(rows))
    call(inputs[0])
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before, began = status("VmRSS"), time.process_time()
    found = call(inputs[1])
    seconds, peak = time.process_time() - began, status("VmHWM") - before
    data = found if name in FILES else inputs[1]
    size = sum(getattr(data, field).nbytes for field in ("states", "rewards", "actions"))
    # What a reader returns is data; what other calls were given was there before.
    return {
        "call": name,
        "rows": rows,
        "data_MiB": size >> 20,
        "beside_MiB": (peak - (size if name in FILES else 0)) >> 20,
        "seconds": round(seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("calls", nargs="*", default=[*FILES, *CALLS])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--list", action="store_true", help="print the names of the calls")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)  # of a process that measures
    arguments = parser.parse_args()
    if arguments.folder is not None:
        print(json.dumps(measure(arguments.calls[0], arguments.rows, arguments.folder)))
        return
    if arguments.list:
        print(json.dumps([*FILES, *CALLS]))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.calls:
            if name in FILES:
                write(arguments.rows, name, Path(folder) / f"log.{name}")
            command = [sys.executable, __file__, name, "--rows", str(arguments.rows), "--folder", folder]
            ran = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            print(json.loads(ran.stdout.splitlines()[-1]), flush=True)


if __name__ == "__main__":
    main()
