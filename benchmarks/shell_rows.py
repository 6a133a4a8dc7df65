"""Two million rows from the shell: what ``replaystats evaluate`` takes, from the first byte to the answer.

``python benchmarks/shell_rows.py [rows]`` logs CartPole, writes the log as CSV and as Parquet, and runs the
command in a process of its own with nothing but the columns named: on policy, and off policy with the
target's probabilities in columns of the log. Wall time, processor time and the largest resident memory are
the operating system's, of that process; the load of the machine is written beside them. The policy in
columns has a row for every logged state; a function asks for less.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from logged_environments import environments, log_episodes

RESULTS = Path(__file__).parent / "results" / "shell_rows.json"
STATES = [f"s{i}" for i in range(4)]
FUNCTION = """
import numpy as np


def target(states):
    best = (states @ np.array([1.0, 1.5, 18.0, 3.0]) > 0).astype(int)
    return 0.8 * np.eye(2)[best] + 0.1
"""


def write_log(folder: Path, n_rows: int) -> int:
    """Write one row per state, and return how many there are."""
    env, rng, parts, rows = environments()["CartPole"], np.random.default_rng(0), [], 0
    while rows < n_rows:
        data, chances = log_episodes(env, env.behavior, 1000, rng)
        last = data.offsets[1:] - 1
        inside = np.ones(len(data.states), dtype=bool)
        inside[last] = False
        part = pd.DataFrame(data.states, columns=STATES)
        lengths = data.n_steps + 1
        part["episode"] = np.repeat(np.arange(len(data)) + 1000 * len(parts), lengths)
        part["step"] = np.concatenate([np.arange(length) for length in lengths])
        for name, values in (("reward", data.rewards), ("action", data.actions), ("p", chances)):
            part[name] = np.nan
            part.loc[inside, name] = np.ravel(values)
        part["action"] = part["action"].astype("Int64")
        part["terminated"] = False
        part.loc[last, "terminated"] = data.terminated
        part[["p_0", "p_1"]] = env.target(data.states)
        parts.append(part)
        rows += len(part)
    table = pd.concat(parts, ignore_index=True)
    table.to_csv(folder / "log.csv", index=False)
    table.to_parquet(folder / "log.parquet")
    (folder / "agents.py").write_text(FUNCTION, encoding="utf-8")
    return rows


def run(folder: Path, name: str, *options: str) -> dict[str, object]:
    """Return what the command took, and its answer."""
    command = [sys.executable, "-m", "replaystats", "evaluate", name, "--state", ",".join(STATES)]
    command += ["--step", "step", "--discount", "0.99", "--json", *options]
    began, load = time.perf_counter(), os.getloadavg()[0]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE)
    assert process.stdout is not None
    answer = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "log": name, "options": list(options), "exit_code": process.returncode,
        "wall_s": time.perf_counter() - began, "processor_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss * 1024 / 1e6, "load": load,
        **{key: answer[key] for key in ("value", "low", "high", "method", "episodes", "steps")},
    }  # fmt: skip


def main() -> None:
    rows, found = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = write_log(folder, rows)
        off = ("--action", "action", "--probability", "p", "--policy")
        for log in ("log.csv", "log.parquet"):
            for options in ((), (*off, "agents:target"), (*off, "p_0,p_1")):
                found.append(run(folder, log, *options))
                print(found[-1], flush=True)
    RESULTS.write_text(
        json.dumps({"rows": rows, "cores": os.cpu_count(), "runs": found}, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
