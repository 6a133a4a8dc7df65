"""What replay and its interval cost beside the plug-in, for 60 to 500 features.

python benchmarks/bench_groups.py --widths 0.7 1.0 --out benchmarks/results/groups.json

One thread. Data: a random walk on the unit square in episodes of five steps, Gaussian bumps on a grid, as
wide as 0.7 of its spacing (well conditioned), 1.0 (a condition number of 10^6 to 10^8), or 2.0 (singular to
rounding: subsets are then solved by singular values, and combined by their median, which takes 175 of them).
The plug-in is features, moments and one solve in NumPy; the fit is `LSTD.fit` with its defaults, then
`confidence_interval` at 50 states. Times are the smallest of some rounds, measured in turns in one process;
peak memory is what `tracemalloc` sees during one more fit.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

import replaystats as rs

DISCOUNT = 0.9


def log(n_transitions: int, seed: int = 0, n_steps: int = 5) -> rs.Trajectories:
    """Return independent episodes of a random walk on the unit square whose sides are glued together."""
    rng = np.random.default_rng(seed)
    n = n_transitions // n_steps
    steps = np.concatenate([rng.random(size=(n, 1, 2)), 0.1 * rng.normal(size=(n, n_steps, 2))], axis=1)
    states = np.cumsum(steps, axis=1) % 1.0
    rewards = np.sin(2 * np.pi * states[:, :-1, 0]) + 0.1 * rng.normal(size=(n, n_steps))
    return rs.Trajectories(states, rewards, truncated=np.ones(n, dtype=bool))


def bumps(q: int, width: float = 0.7) -> rs.basis.Basis:
    """Return q Gaussian bumps on a grid, as wide as `width` of its spacing."""
    across = max(m for m in range(1, int(np.sqrt(q)) + 1) if q % m == 0)
    x, y = ((np.arange(m) + 0.5) / m for m in (q // across, across))
    centers = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return rs.basis.RBF(centers, bandwidth=width / np.sqrt(q))


def plug_in(data: rs.Trajectories, basis: rs.basis.Basis) -> np.ndarray:
    """The plug-in as a user would write it."""
    features = basis(data.states)
    last = data.offsets[1:] - 1
    start = np.setdiff1d(np.arange(len(features)), last)
    here, there = features[start], features[start + 1]
    return np.linalg.solve(here.T @ (here - DISCOUNT * there), here.T @ data.rewards)


def bounds(model: rs.LSTD, points: np.ndarray) -> bool:
    """Ask for the interval, and say whether every point has a bounded one."""
    low, high = model.confidence_interval(points)
    return bool(np.isfinite(high - low).all())


def measure(q: int, n_transitions: int, rounds: int, width: float = 0.7) -> dict[str, float]:
    """Return seconds, their ratio and peak memory at q features."""
    data = log(n_transitions)
    basis = bumps(q, width)
    points = np.random.default_rng(1).random(size=(50, 2))
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
        "width": width,
        "condition": float(f"{np.linalg.cond(model.estimate_.moments.total()[0]):.2g}"),
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
    parser.add_argument("--widths", type=float, nargs="*", default=[0.7])
    parser.add_argument("--largest", type=int, default=500, help="largest number of features")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found = []
    warnings.simplefilter("ignore", rs.ReplayWarning)
    sizes = ((60, 10_000), (120, 10_000), (240, 10_000), (500, 20_000))
    for width, (q, n) in itertools.product(arguments.widths, sizes):
        if q <= arguments.largest:
            found.append(measure(q, n, arguments.rounds, width))
            print({k: round(v, 4) for k, v in found[-1].items()}, flush=True)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
