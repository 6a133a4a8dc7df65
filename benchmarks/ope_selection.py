"""The reported value beside SLOPE's and OPERA's choice among the same estimates.

In each log, `rs.evaluate` computes several estimates and reports one. On the same estimates:

- SLOPE (Su, Srinath, Krishnamurthy 2020): estimates in the order of their widths, smallest variance last; the
  last whose interval (two half-widths) meets all intervals of those with larger variance.
- OPERA (Nie et al. 2024): weights that sum to one and minimise the estimated squared error of the sum; the
  matrix of squared errors is that of bootstrap estimates around the estimate from all episodes.

Run: `python benchmarks/ope_selection.py [--logs 30] [--resamples 12]`; see `results/ope_selection.json`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from worlds import worlds

import replaystats as rs

RESULTS = Path(__file__).parent / "results" / "ope_selection.json"
NAMES = (
    "bandit, 5 actions, 500",
    "line of 5, 10 steps, discount .95, 100",
    "inventory, 30 steps, 100",
    "10 random states, random ends, 200",
    "FrozenLake, 200",
    "clock turns actions round, 8 steps, 200",
    "Tiger, last sound only, 500",
)


def slope(values: np.ndarray, half: np.ndarray) -> float:
    order = np.argsort(-half, kind="stable")
    low, high, chosen = -np.inf, np.inf, order[0]
    for i in order:
        low, high = max(low, values[i] - 2.0 * half[i]), min(high, values[i] + 2.0 * half[i])
        if low > high:
            break
        chosen = i
    return float(values[chosen])


def opera(values: np.ndarray, boot: np.ndarray) -> float:
    errors = boot - values
    square = errors.T @ errors / len(boot)
    square += 1e-6 * np.trace(square) / len(values) * np.eye(len(values))
    weights = np.linalg.solve(square, np.ones(len(values)))
    return float(weights @ values / weights.sum())


def estimates(
    data: Any, policy: Any, settings: dict[str, Any]
) -> tuple[float, dict[str, tuple[float, float]]]:
    found = rs.evaluate(data, policy, **settings)
    rows = {r.name: (r.value, 0.5 * (r.interval.high - r.interval.low)) for r in found.estimates}
    return found.value, {
        name: row for name, row in rows.items() if np.isfinite(row).all() and name != "bounds"
    }


def one_log(world: Any, rng: np.random.Generator, n_resamples: int) -> dict[str, float]:
    data, policy, settings = world.draw(rng)
    reported, own = estimates(data, policy, settings)
    boots = [
        estimates(data[rng.integers(len(data), size=len(data))], policy, settings)[1]
        for _ in range(n_resamples)
    ]
    names = [name for name in own if all(name in b for b in boots)]
    values, half = np.array([own[name] for name in names]).T
    boot = np.array([[b[name][0] for name in names] for b in boots])
    return {"reported": reported, "SLOPE": slope(values, half), "OPERA": opera(values, boot)} | {
        name: row[0] for name, row in own.items()
    }


def row_of(name: str, truth: float, logs: list[dict[str, float]]) -> dict[str, Any]:
    common = [key for key in logs[0] if all(key in log for log in logs)]
    rmse = {key: float(np.sqrt(np.mean([(log[key] - truth) ** 2 for log in logs]))) for key in common}
    best = min(
        (key for key in common if key not in ("reported", "SLOPE", "OPERA")), key=lambda key: rmse[key]
    )
    rmse["best single"] = rmse[best]
    return {
        "world": name,
        "logs": len(logs),
        "best": best,
        "rmse": {k: float(f"{v:.4g}") for k, v in rmse.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=30)
    parser.add_argument("--resamples", type=int, default=12)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    known, rows = worlds(), []
    for name in NAMES:
        logs = [
            one_log(known[name], np.random.default_rng([2027, *name.encode(), i]), asked.resamples)
            for i in range(asked.logs)
        ]
        rows.append(row_of(name, known[name].value, logs))
        print(rows[-1], flush=True)
        lines = ",\n".join(json.dumps(row) for row in rows)
        head = f'"seed": 2027, "resamples": {asked.resamples}'
        RESULTS.write_text(f'{{{head},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
