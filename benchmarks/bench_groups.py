"""What replay and its interval cost beside the plug-in, for 60 to 500 features.

python benchmarks/bench_groups.py --out benchmarks/results/groups.json

One thread. Data: states of an autoregression in four dimensions, radial basis functions, episodes of five
steps. The plug-in is features, moments and one solve in NumPy; the fit is `LSTD.fit` with its defaults, then
`confidence_interval` at 50 states. Times are the smallest of some rounds, measured in turns in one process;
peak memory is what `tracemalloc` sees during one more fit.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

import replaystats as rs

DISCOUNT = 0.9


def log(n_transitions: int, seed: int = 0, n_steps: int = 5, dimension: int = 4) -> rs.Trajectories:
    """Return independent episodes of a stationary autoregression with reward sin(x_1) + noise."""
    rng = np.random.default_rng(seed)
    n = n_transitions // n_steps
    states = np.empty((n, n_steps + 1, dimension))
    states[:, 0] = rng.normal(size=(n, dimension))
    for t in range(n_steps):
        states[:, t + 1] = 0.8 * states[:, t] + 0.6 * rng.normal(size=(n, dimension))
    rewards = np.sin(states[:, :-1, 0]) + 0.1 * rng.normal(size=(n, n_steps))
    return rs.Trajectories(states, rewards, truncated=np.ones(n, dtype=bool))


def plug_in(data: rs.Trajectories, basis: rs.basis.Basis) -> np.ndarray:
    """The plug-in as a user would write it."""
    features = basis(data.states)
    last = data.offsets[1:] - 1
    start = np.setdiff1d(np.arange(len(features)), last)
    here, there = features[start], features[start + 1]
    return np.linalg.solve(here.T @ (here - DISCOUNT * there), here.T @ data.rewards)


def bounds(model: rs.LSTD, points: np.ndarray) -> bool:
    """Ask for the interval, insist where it is withheld, and say whether it was given at once."""
    try:
        model.confidence_interval(points)
    except rs.IntervalWithheldError:
        model.confidence_interval(points, insist=True)
        return False
    return True


def measure(q: int, n_transitions: int, rounds: int) -> dict[str, float]:
    """Return seconds, their ratio and peak memory at q features."""
    data = log(n_transitions)
    basis = rs.basis.RBF(q, bandwidth=0.7).fit(data.states, np.random.default_rng(0))
    points = np.random.default_rng(1).normal(size=(50, 4))
    plain, fit, interval = [], [], []
    model = rs.LSTD(basis, discount=DISCOUNT, random_state=0)
    for _ in range(rounds):
        for function, seconds in (
            (lambda: plug_in(data, basis), plain),
            (lambda: model.fit(data), fit),
            (lambda: bounds(model, points), interval),
        ):
            begin = time.process_time()
            function()
            seconds.append(time.process_time() - begin)
    tracemalloc.start()
    model.fit(data)
    bounds(model, points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "q": q,
        "transitions": n_transitions,
        "n_resamples": len(model.estimate_.replicates),
        "groups": model.estimate_.moments.n_observations,
        "plug_in_s": min(plain),
        "fit_s": min(fit),
        "interval_s": min(interval),
        "ratio": (min(fit) + min(interval)) / min(plain),
        "peak_MiB": peak / 2**20,
        "interval_given": bounds(model, points),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--largest", type=int, default=500, help="largest number of features")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found = []
    warnings.simplefilter("ignore", rs.ReplayWarning)
    for q, n in ((60, 10_000), (120, 10_000), (240, 10_000), (500, 20_000)):
        if q <= arguments.largest:
            found.append(measure(q, n, arguments.rounds))
            print({k: round(v, 4) for k, v in found[-1].items()}, flush=True)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
