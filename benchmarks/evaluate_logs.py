"""Does the interval of ``rs.evaluate`` cover the policy's value? Eight environments, on and off policy.

``python benchmarks/evaluate_logs.py [data sets per cell] [out.json] [environments] [episodes]`` with the
defaults of `rs.evaluate` throughout. The truth is exact for tables and from 20,000 rollouts otherwise.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from logged_environments import environments, log_episodes, true_value

import replaystats as rs

EPISODES = (20, 100, 500)
RESULTS = Path(__file__).parent / "results" / "evaluate_logs.json"


def run_cell(env, n_episodes: int, on_policy: bool, n_data_sets: int, truth: float, error: float) -> dict:
    """Return coverage, width and error of one cell."""
    rows = []
    for seed in range(n_data_sets):
        data, chances = log_episodes(env, env.behavior, n_episodes, np.random.default_rng([7, seed]))
        began = time.perf_counter()
        if on_policy:
            found = rs.evaluate(data, discount=env.discount)
        else:
            found = rs.evaluate(data, env.target, discount=env.discount, behavior=chances)
        seconds = time.perf_counter() - began
        low, high = found.interval
        slack = 2 * error + 1e-9
        named = {w.name: w for w in found.witnesses}
        weighted = named.get("importance sampling, weighted", named.get("mean logged return"))
        rows.append(
            {
                "value": found.value, "width": high - low, "holds": found.holds, "method": found.method,
                "covers": _within(truth, found.interval, slack), "seconds": seconds,
                "weighted_width": weighted.interval.high - weighted.interval.low,
                "weighted_covers": _within(truth, weighted.interval, slack),
            }
        )  # fmt: skip
    held = [row for row in rows if row["holds"]]
    return {
        "environment": env.name, "on_policy": on_policy, "episodes": n_episodes, "data_sets": n_data_sets,
        "truth": truth, "truth_error": error,
        "coverage": float(np.mean([row["covers"] for row in rows])),
        "said_to_hold": len(held) / len(rows),
        "coverage_where_said_to_hold": float(np.mean([row["covers"] for row in held])) if held else None,
        "width": float(np.median([row["width"] for row in rows])),
        "weighted_width": float(np.median([row["weighted_width"] for row in rows])),
        "weighted_coverage": float(np.mean([row["weighted_covers"] for row in rows])),
        "bias": float(np.mean([row["value"] for row in rows]) - truth),
        "rmse": float(np.sqrt(np.mean([(row["value"] - truth) ** 2 for row in rows]))),
        "method": max({row["method"] for row in rows}, key=[row["method"] for row in rows].count),
        "seconds": float(np.median([row["seconds"] for row in rows])),
    }  # fmt: skip


def _within(truth: float, interval, slack: float) -> bool:
    return bool(interval.low - slack <= truth <= interval.high + slack)


def main() -> None:
    n_data_sets = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else RESULTS
    wanted = sys.argv[3].split(",") if len(sys.argv) > 3 else list(environments())
    sizes = [int(n) for n in sys.argv[4].split(",")] if len(sys.argv) > 4 else list(EPISODES)
    done = json.loads(out.read_text()) if out.exists() else {"truths": {}, "cells": []}
    for name in wanted:
        env = environments()[name]
        for on_policy in (True, False):
            policy, key = (env.behavior, f"{name} on") if on_policy else (env.target, f"{name} off")
            if key not in done["truths"]:
                done["truths"][key] = true_value(env, policy)
            for n in sizes:
                cell = run_cell(env, n, on_policy, n_data_sets, *done["truths"][key])
                done["cells"] = [
                    c for c in done["cells"]
                    if (c["environment"], c["on_policy"], c["episodes"]) != (name, on_policy, n)
                ] + [cell]  # fmt: skip
                out.write_text(json.dumps(done, indent=1) + "\n")
                held = cell["coverage_where_said_to_hold"]
                print(
                    f"{name:13}{'on ' if on_policy else 'off'} {n:4}  truth {cell['truth']:8.3f} "
                    f"bias {cell['bias']:8.3f} rmse {cell['rmse']:7.3f} cover {cell['coverage']:.2f} "
                    f"holds {cell['said_to_hold']:.2f} "
                    f"({'-' if held is None else format(held, '.2f')}) "
                    f"width {cell['width']:7.3f} (weighted {cell['weighted_width']:7.3f}, covers "
                    f"{cell['weighted_coverage']:.2f}) {cell['seconds']:.2f} s  {cell['method']}",
                    flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
