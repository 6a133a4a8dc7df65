"""What replay and its intervals cost beside the plug-in on given features, for 10 to 500 of them.

    OMP_NUM_THREADS=1 python benchmarks/bench_groups.py --out benchmarks/results/groups.json

One thread, 10,000 transitions (20,000 for 500 features) in episodes of five steps. The states *are* the
features, so that neither side computes any:

- normal: an autoregression of q independent normal columns, with one lag coefficient .5;
- normal, singular: the same, every tenth column the sum of two others up to 1e-9;
- bumps: Gaussian bumps on a grid over a random walk on the unit square, as wide as .7 of its spacing;
- bumps, singular: 2.0 of its spacing, where the matrix is singular to rounding.

The plug-in is moments and one solve in NumPy; the fit is `LSTD.fit` with its defaults, then
`confidence_interval` at 50 states. Every row is a process of its own, because what one needs of memory
changes what the next pays for it. Times are the smallest processor times of some rounds, in turns, after a
first one that is not counted; peak memory is what `tracemalloc` sees during one more fit.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

import replaystats as rs

DISCOUNT = 0.9
STEPS = 5
SIZES = {10: 10_000, 30: 10_000, 60: 10_000, 120: 10_000, 240: 10_000, 500: 20_000}


def identity(states: np.ndarray) -> np.ndarray:
    """The features are given."""
    return states


def normal(q: int, n: int, singular: bool) -> np.ndarray:
    """Return features (n, STEPS + 1, q) of n episodes: independent autoregressions."""
    rng = np.random.default_rng(0)
    x = np.empty((n, STEPS + 1, q))
    x[:, 0] = rng.normal(size=(n, q))
    for t in range(STEPS):
        x[:, t + 1] = 0.5 * x[:, t] + np.sqrt(0.75) * rng.normal(size=(n, q))
    if singular:
        last = np.arange(9, q, 10)
        x[:, :, last] = (
            x[:, :, last - 1] + x[:, :, last - 2] + 1e-9 * rng.normal(size=(n, STEPS + 1, last.size))
        )
    return x


def bumps(q: int, n: int, singular: bool) -> np.ndarray:
    """Return features (n, STEPS + 1, q) of n episodes: bumps on the places of a walk on the unit square."""
    rng = np.random.default_rng(0)
    moves = np.concatenate([rng.random(size=(n, 1, 2)), 0.1 * rng.normal(size=(n, STEPS, 2))], axis=1)
    places = np.cumsum(moves, axis=1) % 1.0
    across = max(m for m in range(1, int(np.sqrt(q)) + 1) if q % m == 0)
    x, y = ((np.arange(m) + 0.5) / m for m in (q // across, across))
    centers = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    bandwidth = (2.0 if singular else 0.7) / np.sqrt(q)
    return rs.basis.RBF(centers, bandwidth=bandwidth)(places.reshape(-1, 2)).reshape(n, STEPS + 1, q)


KINDS = {"normal": normal, "bumps": bumps}


def log(features: np.ndarray) -> rs.Trajectories:
    """Return episodes with these features as states; rewards depend on the first ones."""
    noise = np.random.default_rng(1).normal(size=features.shape[:2])[:, 1:]
    rewards = np.sin(3.0 * features[:, :-1, 0]) + features[:, :-1, 1] + 0.1 * noise
    return rs.Trajectories(features, rewards, truncated=np.ones(len(features), dtype=bool))


def plug_in(features: np.ndarray, start: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """The plug-in as a user would write it."""
    here, there = features[start], features[start + 1]
    A, b = here.T @ (here - DISCOUNT * there), here.T @ rewards
    try:
        return np.linalg.solve(A, b)
    except np.linalg.LinAlgError:  # exactly singular
        return np.linalg.lstsq(A, b)[0]


def measure(kind: str, singular: bool, q: int, rounds: int) -> dict[str, object]:
    """Return seconds, their ratio and peak memory at q features."""
    data = log(KINDS[kind](q, SIZES[q] // STEPS, singular))
    start = np.setdiff1d(np.arange(len(data.states)), data.offsets[1:] - 1)
    points = data.states[:: len(data.states) // 50][:50]
    model = rs.LSTD(rs.basis.FunctionBasis(identity, q), discount=DISCOUNT, random_state=0)
    calls = {
        "plug_in_s": lambda: plug_in(data.states, start, data.rewards),
        "fit_s": lambda: model.fit(data),
        "interval_s": lambda: model.confidence_interval(points),
    }
    seconds = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, function in calls.items():
            begin = time.process_time()
            function()
            seconds[name].append(time.process_time() - begin)
    found = {name: round(min(each[1:]), 6) for name, each in seconds.items()}
    tracemalloc.start()
    model.fit(data)
    interval = model.confidence_interval(points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "features": kind + (", singular" if singular else ""),
        "q": q,
        "condition": float(f"{np.linalg.cond(model.estimate_.moments.total()[0]):.2g}"),
        "transitions": SIZES[q],
        "n_resamples": len(model.estimate_.replicates),
        "units": model.estimate_.moments.n_observations,
        **found,
        "ratio": round((found["fit_s"] + found["interval_s"]) / found["plug_in_s"], 2),
        "peak_MiB": round(peak / 2**20, 1),
        "bounded": int(np.isfinite(interval.high - interval.low).sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--row", help=argparse.SUPPRESS)  # of a process that measures
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", rs.ReplayWarning)
    if arguments.row is not None:
        kind, singular, q = arguments.row.split(":")
        print(json.dumps(measure(kind, singular == "True", int(q), arguments.rounds)))
        return
    found = []
    for kind, singular, q in itertools.product(KINDS, (False, True), arguments.sizes):
        command = [
            sys.executable,
            __file__,
            "--rounds",
            str(arguments.rounds),
            "--row",
            f"{kind}:{singular}:{q}",
        ]
        ran = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found.append(json.loads(ran.stdout))
        print(found[-1], flush=True)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
