"""On policy, where no episode is cut off, the headline is a mean of returns: does its interval cover?

``python benchmarks/mean_returns.py``: 20,000 whole episodes of every environment are the population; 2000
data sets of 20, 100 and 500 are drawn from it. Cheap enough to tell .93 from .95 (standard error .005), which
a hundred data sets are not.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from logged_environments import draw, environments

from replaystats.evaluation.intervals import SKEWED, LeftOut, mean_interval, relative_skewness
from replaystats.evaluation.problem import MAX_GROUPS

RESULTS = Path(__file__).parent / "results" / "mean_returns.json"
POPULATION, DATA_SETS = 20_000, 2000


def returns_of(env, rng: np.random.Generator) -> np.ndarray:
    """Return discounted sums of whole episodes, shape (POPULATION,)."""
    hidden, going = env.reset(POPULATION, rng), np.arange(POPULATION)
    total, weight = np.zeros(POPULATION), 1.0
    while len(going) and weight > 1e-4 * (1 - env.discount):
        hidden, reward, ended = env.step(hidden, draw(env.behavior(env.observe(hidden)), rng), rng)
        total[going] += weight * reward
        hidden, going = hidden[~ended], going[~ended]
        weight *= env.discount
    return total


def covers(values: np.ndarray, truth: float) -> tuple[bool, bool]:
    """Return whether the interval covers, and whether it was that for few episodes that decide."""
    group = np.arange(len(values)) % MAX_GROUPS
    sums, counts = np.bincount(group, weights=values), np.bincount(group)
    left = (values.sum() - sums) / (len(values) - counts)
    low, high = mean_interval(values, LeftOut(float(values.mean()), left), 0.95)
    skewed = abs(relative_skewness(values)) > SKEWED
    return bool(low <= truth <= high), skewed


def main() -> None:
    rows = []
    for name, env in environments().items():
        rng = np.random.default_rng([20261116, len(rows)])
        population = returns_of(env, rng)
        for n in (20, 100, 500):
            told, seen = [], 0
            for _ in range(DATA_SETS):
                values = rng.choice(population, n)
                if np.ptp(values) == 0.0:  # that is said
                    continue
                seen += 1
                told.append(covers(values, float(population.mean())))
            share, skewed = np.mean(told, axis=0)
            rows.append(
                {
                    "environment": name, "episodes": n, "data_sets": DATA_SETS,
                    "said_to_hold": seen / DATA_SETS,
                    "coverage_where_said_to_hold": float(share), "skewed": float(skewed),
                }
            )  # fmt: skip
            held = seen / DATA_SETS
            print(f"{name:13} {n:4} holds {held:.3f} covers {share:.3f} skewed {skewed:.2f}", flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
