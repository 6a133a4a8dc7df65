"""Does the interval of ``rs.evaluate`` cover the policy's value? Eight environments, on and off policy.

``python benchmarks/evaluate_logs.py [data sets] [environments] [episodes] [journal]`` adds what is missing to
a journal, one line per data set, and writes the table of all cells to ``results/evaluate_logs.json``: it can
be stopped and continued. `rs.evaluate` has its defaults throughout. The truth is exact for tables and from
20,000 rollouts otherwise. No seed here was looked at while the rules of the method were made.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from logged_environments import Environment, environments, log_episodes, true_value
from scipy import stats

import replaystats as rs
from replaystats.ope.problem import MAX_GROUPS

EPISODES = (20, 100, 500)
RESULTS = Path(__file__).parent / "results" / "evaluate_logs.json"
SEED = 20261116


def run_one(
    env: Environment, n_episodes: int, on_policy: bool, number: int, truth: float, error: float
) -> dict:
    """Return what became of one data set."""
    rng = np.random.default_rng([SEED, zlib.crc32(env.name.encode()), n_episodes, number])
    data, chances = log_episodes(env, env.behavior, n_episodes, rng)
    began = time.process_time()
    if on_policy:
        found = rs.evaluate(data, discount=env.discount)
    else:
        found = rs.evaluate(data, env.target, discount=env.discount, behavior=chances)
    seconds = time.process_time() - began
    slack = 2 * error + 1e-9
    named = {w.name: w for w in found.estimates}
    weighted = named.get("importance sampling, weighted", named.get("mean logged return"))
    return {
        "environment": env.name, "on_policy": on_policy, "episodes": n_episodes, "number": number,
        "value": found.value, "low": found.interval.low, "high": found.interval.high,
        "reliable": found.reliable, "bounded": found.method == "bounds", "method": found.method,
        "seconds": seconds, "covers": _within(truth, found.interval, slack),
        **_simple(weighted, min(n_episodes, MAX_GROUPS) - 1, truth, slack),
    }  # fmt: skip


def _simple(one: Any, degrees: int, truth: float, slack: float) -> dict:
    """Return width and coverage of the weighted mean of returns; None where ratios left too few episodes."""
    if one is None:
        names = ("weighted_width", "weighted_covers", "plain_width", "plain_covers")
        return dict.fromkeys(names)
    # As it is usually done: t with all degrees of freedom, whatever episodes count.
    reach = stats.t.ppf(0.975, degrees) * one.standard_error
    plain = (one.value - reach, one.value + reach)
    return {
        "weighted_width": one.interval.high - one.interval.low,
        "weighted_covers": _within(truth, one.interval, slack),
        "plain_width": plain[1] - plain[0],
        "plain_covers": _within(truth, plain, slack),
    }


def summarize(rows: list[dict], truth: float, error: float) -> dict:
    """Return coverage, width and error of one cell."""
    held = [row for row in rows if row["reliable"]]
    column = {name: np.array([row[name] for row in rows if row[name] is not None]) for name in rows[0]}
    methods = column["method"].tolist()
    return {
        **{name: rows[0][name] for name in ("environment", "on_policy", "episodes")},
        "data_sets": len(rows), "truth": truth, "truth_error": error,
        "coverage": float(column["covers"].mean()),
        "reliable": len(held) / len(rows),
        "coverage_where_reliable": float(np.mean([row["covers"] for row in held])) if held else None,
        "bounded": float(column["bounded"].mean()),
        "width": float(np.median(column["high"] - column["low"])),
        "weighted_data_sets": len(column["weighted_width"]),
        "weighted_width": _of(np.median, column["weighted_width"]),
        "weighted_coverage": _of(np.mean, column["weighted_covers"]),
        "plain_weighted_width": _of(np.median, column["plain_width"]),
        "plain_weighted_coverage": _of(np.mean, column["plain_covers"]),
        "bias": float(column["value"].mean() - truth),
        "rmse": float(np.sqrt(np.mean((column["value"] - truth) ** 2))),
        "method": max(set(methods), key=methods.count),
        "seconds": float(np.median(column["seconds"])),
    }  # fmt: skip


def _of(number: Callable, values: np.ndarray) -> float | None:
    return float(number(values)) if len(values) else None


def _within(truth: float, interval: tuple[float, float], slack: float) -> bool:
    return bool(interval[0] - slack <= truth <= interval[1] + slack)


def tabulate(rows: list[dict], truths: dict) -> list[dict]:
    """Return all cells, and print them."""
    cells: dict[tuple, list[dict]] = {}
    for row in rows:
        cells.setdefault((row["environment"], row["on_policy"], row["episodes"]), []).append(row)
    order = list(environments())
    table = []
    for key in sorted(cells, key=lambda k: (not k[1], order.index(k[0]), k[2])):
        cell = summarize(cells[key], *truths[f"{key[0]} {'on' if key[1] else 'off'}"])
        table.append(cell)
        print({name: round(x, 4) if isinstance(x, float) else x for name, x in cell.items()})
    return table


def main() -> None:
    n_data_sets = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    wanted = sys.argv[2].split(",") if len(sys.argv) > 2 else list(environments())
    sizes = [int(n) for n in sys.argv[3].split(",")] if len(sys.argv) > 3 else list(EPISODES)
    journal = Path(sys.argv[4]) if len(sys.argv) > 4 else RESULTS.with_suffix(".jsonl")
    rows = (
        [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
        if journal.exists()
        else []
    )
    done = {(row["environment"], row["on_policy"], row["episodes"], row["number"]) for row in rows}
    truths = json.loads(RESULTS.read_text(encoding="utf-8"))["truths"] if RESULTS.exists() else {}
    for name in wanted:
        for on_policy, key in ((True, f"{name} on"), (False, f"{name} off")):
            if key not in truths:
                env = environments()[name]
                truths[key] = true_value(env, env.behavior if on_policy else env.target)
    for number in range(n_data_sets):
        for name in wanted:
            for on_policy, key in ((True, f"{name} on"), (False, f"{name} off")):
                for size in sizes:
                    if (name, on_policy, size, number) in done:
                        continue
                    row = run_one(environments()[name], size, on_policy, number, *truths[key])
                    rows.append(row)
                    with journal.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    RESULTS.write_text(
        json.dumps({"truths": truths, "cells": tabulate(rows, truths)}, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
