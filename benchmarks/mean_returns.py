"""On policy, where no episode is cut off, the headline is a mean of returns: does its interval cover?

``python benchmarks/mean_returns.py``: 20,000 whole episodes of every environment are the population; 2000
data sets of 20, 100 and 500 are drawn from it. Cheap enough to tell .93 from .95 (standard error .005), which
a hundred data sets are not. Ten made-up populations, even, skewed and of two kinds, are drawn from in data
sets of 10, 20 and 40, where the shape matters.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from logged_environments import draw, environments
from scipy import stats

from replaystats.ope.intervals import OutOfBag, may_be_skewed, mean_interval
from replaystats.ope.problem import MAX_GROUPS

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


def made_up(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return ten populations by name."""
    n = POPULATION
    even = rng.standard_normal(n)
    return {
        "normal": even,
        "t with 4 degrees": rng.standard_t(4, n),
        "exponential": rng.exponential(size=n),
        "lognormal, .5": rng.lognormal(0.0, 0.5, n),
        "lognormal, 1": rng.lognormal(0.0, 1.0, n),
        "1 in 2 succeed": np.float64(rng.random(n) < 0.5),
        "1 in 5 succeed": np.float64(rng.random(n) < 0.2),
        "1 in 20 succeed": np.float64(rng.random(n) < 0.05),
        "1 in 5 far off": even + 6.0 * (rng.random(n) < 0.2),
        "1 in 10 far off": even + 6.0 * (rng.random(n) < 0.1),
    }


def judge(values: np.ndarray, truth: float) -> tuple[bool, bool, float]:
    """Return whether the interval covers, whether shape is said to matter, and its width beside that of t."""
    group = np.arange(len(values)) % MAX_GROUPS
    sums, counts = np.bincount(group, weights=values), np.bincount(group)
    left = (values.sum() - sums) / (len(values) - counts)
    low, high = mean_interval(values, OutOfBag(float(values.mean()), left), 0.95)
    usual = 2.0 * stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return bool(low <= truth <= high), may_be_skewed(values), (high - low) / usual


def measure(name: str, population: np.ndarray, n: int, rng: np.random.Generator) -> dict:
    """Return one cell, and print it."""
    judged = []
    for _ in range(DATA_SETS):
        values = rng.choice(population, n)
        if np.ptp(values) > 0.0:  # else that is said
            judged.append(judge(values, float(population.mean())))
    covers, skewed, width = np.array(judged, dtype=float).T
    held = len(judged) / DATA_SETS
    print(
        f"{name:17} {n:4} holds {held:.3f} covers {covers.mean():.3f} "
        f"shape matters {skewed.mean():.2f} width of t x {np.median(width):.2f}",
        flush=True,
    )
    return {
        "population": name, "episodes": n, "data_sets": DATA_SETS, "said_to_hold": held,
        "coverage_where_said_to_hold": float(covers.mean()), "shape_matters": float(skewed.mean()),
        "width_beside_t": float(np.median(width)),
    }  # fmt: skip


def main() -> None:
    rows = []
    for number, (name, env) in enumerate(environments().items()):
        rng = np.random.default_rng([20261116, number])
        population = returns_of(env, rng)
        rows += [measure(name, population, n, rng) for n in (20, 100, 500)]
    rng = np.random.default_rng(20261117)
    for name, population in made_up(rng).items():
        rows += [measure(name, population, n, rng) for n in (10, 20, 40)]
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
