"""Coverage, reliability, false alarms and width of `rs.evaluate` in three modules of worlds.

They were made one after another, `worlds`, `odd_worlds`, `fresh_worlds`, each after rules had been fixed, and
`late_worlds`, in `odd_worlds.py`, last.
One process. Logs and the table of rows are in `results/ope_worlds.json`, written after every world, so that a
run that was stopped goes on where it was. Run:

    python benchmarks/ope_worlds.py [--logs 40] [--seconds 60] [--only TEXT] [--seed 2026]

`--seconds` is the time for one world: dear ones get fewer logs, which their row says.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fresh_worlds import fresh_worlds
from logged_environments import gymnasium_worlds
from odd_worlds import late_worlds, odd_worlds
from worlds import World, worlds

import replaystats as rs

RESULTS = Path(__file__).parent / "results" / "ope_worlds.json"


def one_log(world: World, seed: int, name: str, number: int) -> list[Any]:
    """Return low, high, value, reliable, informative, method and failed checks of one log."""
    # The name, not the place in the list, so that a new world changes no other.
    data, policy, settings = world.draw(np.random.default_rng([seed, *name.encode(), number]))
    found = rs.evaluate(data, policy, **settings)
    failed = [c.assumption.code for c in found.checks if not c.passed and c.assumption in found.assumptions]
    numbers = [float(f"{x:.6g}") for x in (*found.interval, found.value, found.informative)]
    return [*numbers, bool(found.reliable), found.method, failed]


def row_of(name: str, world: World, logs: list[list[Any]]) -> dict[str, Any]:
    """Return the row of the table; errors are standard errors of the shares."""
    low, high, value, left = (np.array([log[i] for log in logs]) for i in range(4))
    reliable = np.array([log[4] for log in logs])
    hit = (low <= world.value) & (world.value <= high)
    n_reliable = int(reliable.sum())
    covers = float(hit[reliable].mean()) if n_reliable else None
    methods = [log[5] for log in logs]
    failed = [code for log in logs for code in log[6]]
    return {
        "world": name,
        "assumptions_true": world.valid,
        "logs": len(logs),
        "truth": float(f"{world.value:.6g}"),
        "covers": float(hit.mean()),
        "reliable": float(reliable.mean()),
        "covers_where_reliable": covers,
        "error": None if covers is None else _error(covers, n_reliable),
        "false_alarms": float(1.0 - reliable.mean()) if world.valid else None,
        "median_width": float(np.median(high - low)),
        "width_over_on_policy": _ratio(float(np.median(high - low)), world.on_policy_width),
        "root_mean_squared_error": float(np.sqrt(np.mean((value - world.value) ** 2))),
        "informative": float(np.mean(left < 0.5)),
        "methods": {m: methods.count(m) for m in dict.fromkeys(methods)},
        "failed": {code: failed.count(code) for code in dict.fromkeys(failed)},
    }


def _ratio(width: float, other: float | None) -> float | None:
    return None if not other else float(f"{width / other:.3g}")


def _error(share: float, n: int) -> float:
    """Return the standard error of a share, at least that of .95."""
    return float(np.sqrt(max(0.95 * 0.05, share * (1.0 - share)) / n))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    kept: dict[str, Any] = json.loads(asked.out.read_text("utf-8")) if asked.out.exists() else {}
    if kept.get("seed") != asked.seed or kept.get("version") != 2:
        kept = {"version": 2, "seed": asked.seed, "rows": [], "logs": {}}
    every = (worlds, odd_worlds, fresh_worlds, late_worlds, gymnasium_worlds)
    for name, world in dict(pair for some in every for pair in some().items()).items():
        if asked.only not in name:
            continue
        logs, began = kept["logs"].setdefault(name, []), time.process_time()
        while len(logs) < asked.logs and (time.process_time() - began < asked.seconds or len(logs) < 3):
            logs.append(one_log(world, asked.seed, name, len(logs)))
        row = row_of(name, world, logs)
        kept["rows"] = [*(r for r in kept["rows"] if r["world"] != name), row]
        print(
            f"{time.process_time() - began:6.1f} s", {k: v for k, v in row.items() if k != "logs"}, flush=True
        )
        asked.out.write_text(_as_json(kept), encoding="utf-8")


def _as_json(kept: dict[str, Any]) -> str:
    """Return one line for every row and for the logs of every world."""
    rows = ",\n".join(json.dumps(row) for row in kept["rows"])
    logs = ",\n".join(f"{json.dumps(name)}: {json.dumps(logs)}" for name, logs in kept["logs"].items())
    head = f'"version": {kept["version"]}, "seed": {kept["seed"]}'
    return f'{{{head},\n"rows": [\n{rows}\n],\n"logs": {{\n{logs}\n}}}}\n'


if __name__ == "__main__":
    main()
