"""One table of what the library promises under load: peaks, times, ratios, attacks and kills.

    python benchmarks/trust.py                  # everything, into results/trust.json and on the screen
    python benchmarks/trust.py times attacks    # some of it, beside what was measured before

Every row names the command that measures it again. Times are processor seconds of one thread.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "trust.json"
TARGETS = {"peaks": "256 MiB beside the data", "ratios": "5 times", "times": "1 s", "attacks": "30,000"}
TARGETS["kills"] = "150"
SIZES = (10, 30, 60, 120, 240, 500)
# What is measured in a process of its own: code before the clock starts, and the timed code.
TIMED = {
    "first rs.evaluate after import, on policy": (
        "import numpy as np, replaystats as rs\n"
        "d = rs.simulate.ornstein_uhlenbeck(60, n_steps=5, random_state=0)",
        "rs.evaluate(d, discount=0.9)",
    ),
    "first rs.evaluate after import, off policy": (
        "import numpy as np, replaystats as rs\n"
        "r = np.random.default_rng(0); a = r.integers(0, 2, (60, 4))\n"
        "d = rs.Trajectories(r.normal(size=(60, 5, 1)), 1.0 * a, a, terminated=True)",
        "rs.evaluate(d, lambda s: np.full((len(s), 2), 0.5), discount=0.9)",
    ),
    "rs.evaluate, 2,000 columns, 60 rows": (
        "import numpy as np, replaystats as rs\nr = np.random.default_rng(0)\n"
        "d = rs.Trajectories(r.normal(size=(30, 3, 2000)), r.normal(size=(30, 2)), terminated=True)",
        "rs.evaluate(d, discount=0.9)",
    ),
    "rs.ReplayKernelRidge, 2,000 columns, 60 rows": (
        "import numpy as np, replaystats as rs\nr = np.random.default_rng(0); X = r.normal(size=(60, 2000))",
        "rs.ReplayKernelRidge(random_state=0).fit(X, X[:, 0])",
    ),
}


def run(*command: str) -> str:
    """Return what a command prints."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def times() -> Iterator[tuple[str, str, str]]:
    """Yield first calls in fresh processes, the median of three."""
    for name, (before, call) in TIMED.items():
        clock = f"import time; t = time.process_time(); {call}; print(time.process_time() - t)"
        found = sorted(float(run(sys.executable, "-c", f"{before}\n{clock}")) for _ in range(3))
        yield name, f"{found[1]:.2f} s", "benchmarks/trust.py times"


def peaks() -> Iterator[tuple[str, str, str]]:
    """Yield the peak memory of every call at 5,000,000 rows."""
    command = [sys.executable, str(HERE / "peaks.py")]
    listed = json.loads(run(*command, "--list"))
    for name in listed:
        began = time.perf_counter()
        try:
            ran = subprocess.run([*command, name], stdout=subprocess.PIPE, text=True, timeout=900)
            found = json.loads(ran.stdout.splitlines()[-1].replace("'", '"'))
            value = f"{found['beside_MiB']} MiB ({found['seconds']} s)"
        except (subprocess.TimeoutExpired, IndexError):
            value = f"not measured: no end in {time.perf_counter() - began:.0f} s"
        yield f"{name}, 5,000,000 rows", value, f"benchmarks/peaks.py {name}"


def ratios() -> Iterator[tuple[str, str, str]]:
    """Yield a fit of LSTD with an interval at 50 states over the plug-in by NumPy, on given features."""
    one_thread = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    for kind, near, q in itertools.product(("normal", "bumps"), ("", "nearly singular"), SIZES):
        name = " ".join(filter(None, [kind, near]))
        command = [sys.executable, "-W", "ignore", __file__, "ratio", kind, near, str(q)]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=one_thread)
        yield f"LSTD with interval, {name}, q = {q}", ran.stdout.strip(), "benchmarks/trust.py ratios"


def one_ratio(kind: str, near: str, q: int) -> str:
    """Measure one ratio in this process: the median of five, of processor seconds."""
    import numpy as np

    import replaystats as rs

    rng, n = np.random.default_rng(0), 200 if q > 240 else 100
    states = rng.normal(size=(n, 101, q))
    if kind == "bumps":
        distance = rng.uniform(size=(n, 101, 1)) - np.linspace(0.0, 1.0, q)
        states = np.exp(-0.5 * (distance * q / (5.0 if near else 1.0)) ** 2)
    elif near:
        states[:, :, -1] = states[:, :, 0] + 1e-7 * states[:, :, -1]
    rewards = rng.normal(size=(n, 100))
    data = rs.Trajectories(states, rewards, terminated=False)
    here, ahead = states[:, :-1].reshape(-1, q), states[:, 1:].reshape(-1, q)
    basis = rs.basis.FunctionBasis(lambda s: s, q)

    def plug_in() -> None:
        np.linalg.solve(here.T @ (here - 0.9 * ahead), here.T @ rewards.ravel())

    def fit() -> None:
        rs.LSTD(basis, discount=0.9, random_state=0).fit(data).confidence_interval(here[:50])

    seconds = []
    for work in (plug_in, fit):
        work()
        clocked = []
        for _ in range(5):
            began = time.process_time()
            work()
            clocked.append(time.process_time() - began)
        seconds.append(sorted(clocked)[2])
    return f"{seconds[1] / seconds[0]:.1f} times ({1e3 * seconds[0]:.1f} ms)"


def attacks() -> Iterator[tuple[str, str, str]]:
    """Yield how many attacks the tests generate, by kind."""
    tests = HERE.parent / "tests"
    program = "from attack.test_every_position import counts; import json; print(json.dumps(counts()))"
    environment = dict(os.environ, PYTHONPATH=f"{tests}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        stdout=subprocess.PIPE, text=True, check=True, env=environment,
    )  # fmt: skip
    found = json.loads(ran.stdout.splitlines()[-1])
    for name, count in {**found, "together": sum(found.values())}.items():
        yield f"attacks, {name}", f"{count:,}", "benchmarks/trust.py attacks"


def kills() -> Iterator[tuple[str, str, str]]:
    """Yield how many processes were killed, each of which came back bit for bit, or the tests fail."""
    test = "tests/integration/test_kills.py"
    ran = run(sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:benchmark", str(HERE.parent / test))
    found = re.search(r"(\{.*\}) (\d+)", ran)
    assert found is not None, ran[-2000:]
    for name, count in json.loads(found[1].replace("'", '"')).items():
        yield f"kills, {name}", str(count), f"pytest -s {test}"
    yield "kills, together", found[2], f"pytest -s {test}"


PARTS: dict[str, Callable[[], Iterator[tuple[str, str, str]]]] = {
    "peaks": peaks, "times": times, "ratios": ratios, "attacks": attacks, "kills": kills,
}  # fmt: skip


def table(rows: list[dict[str, str]]) -> str:
    """Return the table in Markdown."""
    lines = ["| what | asked | measured | command |", "|---|---|---|---|"]
    lines += ["| {what} | {asked} | {measured} | `{command}` |".format(**row) for row in rows]
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:2] == ["ratio"]:
        print(one_ratio(sys.argv[2], sys.argv[3], int(sys.argv[4])))
        return
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for part in sys.argv[1:] or PARTS:
        kept[part] = [
            {"what": what, "asked": TARGETS[part], "measured": measured, "command": command}
            for what, measured, command in PARTS[part]()
        ]
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(table([row for part in PARTS for row in kept.get(part, [])]))


if __name__ == "__main__":
    main()
