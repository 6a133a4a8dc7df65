"""Jackknife+-after-bootstrap at n = m = 100,000 with 200 members, exactly, within 1 GiB.

    python benchmarks/new_observation_scale.py [--rows 100000] [--points 100000] [--jobs 2]

Ensemble are linear functions, so that all time is that of the intervals. Writes time and peak memory of the
process to results/new_observation_scale.json, and checks some points against sorting all rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

import replaystats as rs
from replaystats.inference.new_observation import jackknife_plus, leave_out, rank_of

RESULTS = Path(__file__).parent / "results" / "new_observation_scale.json"
N_MEMBERS, LEVEL, CHECKED = 200, 0.9, 20


def problem(n, m, rng):
    """Return training rows, targets, new rows, and members that are ridge-like fits of different quality."""
    X, new = rng.normal(size=(n, 5)), rng.normal(size=(m, 5))
    theta = np.eye(5)[0] + 0.3 * rng.normal(size=(N_MEMBERS, 5))
    return X, X[:, 0] + rng.normal(size=n), new, theta


def by_sorting(left_out, members, rank):
    """Return the ends at points where members (B, t) are given: every row, sorted."""
    used = np.unpackbits(left_out.bits, axis=1, count=len(left_out.weights)) * left_out.weights
    means = used @ members / used.sum(axis=1, keepdims=True)  # (n, t)
    sizes = np.abs(left_out.residuals)
    return -np.sort(sizes - means, axis=0)[rank - 1], np.sort(sizes + means, axis=0)[rank - 1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    X, y, new, theta = problem(asked.rows, asked.points, rng)
    plan = rs.make_plan(
        asked.rows, statistic="V", subsample_size=asked.rows, n_resamples=N_MEMBERS, random_state=rng
    )
    wall, cpu = time.perf_counter(), time.process_time()
    with rs.config_context(memory_budget=2**28, n_jobs=asked.jobs):
        left_out = leave_out(lambda part: (theta @ X[part].T)[:, :, None], plan, y[:, None])
        found = jackknife_plus(left_out, lambda part: (theta @ new[part].T)[:, :, None], len(new), LEVEL)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    expected = by_sorting(left_out, theta @ new[:CHECKED].T, rank_of(asked.rows, LEVEL))
    report = {
        "rows": asked.rows,
        "points": asked.points,
        "members": N_MEMBERS,
        "jobs": asked.jobs,
        "wall_s": round(wall, 1),
        "cpu_s": round(cpu, 1),
        "peak_rss_mib": round(peak),
        "largest_difference_from_sorting": float(
            max(
                np.abs(found.low[:CHECKED, 0] - expected[0]).max(),
                np.abs(found.high[:CHECKED, 0] - expected[1]).max(),
            )
        ),
        "mean_width": float((found.high - found.low).mean()),
    }
    print(json.dumps(report, indent=1))
    if asked.rows == asked.points == 100_000:
        RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
