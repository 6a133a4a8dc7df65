"""Means of skewed values: does their interval cover, and what would an allowance for unseen ones cost?

    OMP_NUM_THREADS=1 python benchmarks/mean_returns.py --data-sets 2000

Every law in data sets of 20 to 500 values. `interval` is that of every mean of the library, `rs.evaluate`
on policy included. `pareto_tail` is the longer of it and of Gaffke's bound with one more value that lies as
far beyond the largest as a Pareto tail would have it (Hill's estimate), where values may be skewed.
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path

import numpy as np

from replaystats.inference.pivot import interval
from replaystats.inference.producers import mean_pivot
from replaystats.ope.intervals import may_be_skewed, skewed_mean_interval, tail_ends

RESULTS = Path(__file__).parent / "results" / "mean_returns.json"
LAWS = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "uniform": (lambda rng, n: rng.uniform(size=n), 0.5),
    "t, 3 degrees": (lambda rng, n: rng.standard_t(3, size=n), 0.0),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
    "lognormal": (lambda rng, n: rng.lognormal(size=n), np.exp(0.5)),
    "Pareto 2.5": (lambda rng, n: rng.pareto(2.5, size=n), 1 / 1.5),
    "jackpots, 1 %": (lambda rng, n: 10.0 * (rng.uniform(size=n) < 0.01), 0.1),
    "jackpots, 1 %, and noise": (
        lambda rng, n: 10.0 * (rng.uniform(size=n) < 0.01) + rng.normal(size=n),
        0.1,
    ),
    "lognormal costs, 5 %": (
        lambda rng, n: (rng.uniform(size=n) < 0.05) * rng.lognormal(size=n),
        0.05 * np.exp(0.5),
    ),
    "events, 5 %": (lambda rng, n: 1.0 * (rng.uniform(size=n) < 0.05), 0.05),
}


def both(values):
    """Return the ends of the interval, and with the allowance."""
    low, high = (float(end[0]) for end in interval(mean_pivot(values)))
    if not may_be_skewed(values):
        return low, high, low, high
    safe = skewed_mean_interval(values, 0.95, tail_ends(values))
    return low, high, min(low, safe.low), max(high, safe.high)


def cell(law, n, data_sets, seed):
    draw, mean = LAWS[law]
    rng = np.random.default_rng([seed, zlib.crc32(law.encode()), n])
    samples = [draw(rng, n) for _ in range(data_sets)]
    ends = np.array([both(values) for values in samples])
    oracle = np.subtract(*np.percentile([values.mean() for values in samples], [97.5, 2.5]))
    found = {"oracle": float(oracle)}
    for name, (low, high) in (("interval", ends[:, :2].T), ("pareto_tail", ends[:, 2:].T)):
        covered = (low <= mean) & (mean <= high)
        found[name] = {
            "coverage": float(covered.mean()),
            "too_low": float((high < mean).mean()),
            "infinite": float((~np.isfinite(high - low)).mean()),
            "width_over_oracle": float(np.median(high - low) / oracle),
        }
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    results = {"data_sets": arguments.data_sets, "seed": arguments.seed, "laws": {}}
    for law in LAWS:
        for n in (20, 50, 100, 200, 500):
            found = cell(law, n, arguments.data_sets, arguments.seed)
            results["laws"][f"{law}, n={n}"] = found
            print(f"{law}, n={n}", json.dumps(found), flush=True)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
