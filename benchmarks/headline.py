"""Errors of the plug-in, of three averages over half-samples, and of the one that predicts the smallest.

    OMP_NUM_THREADS=1 python benchmarks/headline.py --repetitions 100 [--seed 7] [--only chain]

Settings with a known truth: those of benchmarks/regularisation.py, ratios, chains with few and many
trajectories. Written to benchmarks/results/headline.json after every setting: root mean squared errors over
all questions and data sets as a ratio to the plug-in's, the standard error of the ratio of "best" by
resampling data sets, and how often "best" is which.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from pathlib import Path

import battery
import numpy as np
import regularisation

import replaystats as rs

RESULTS = Path(__file__).parent / "results" / "headline.json"
METHODS = ("auto", "mean", "median", "debiased", "best")
N_RESAMPLES = 100


def ratio(n):
    """E x^2 / E x of exponential x: skewed, with a bias of order 1 / n."""
    return lambda rng: (rs.Moments(*battery.exponential_ratio(rng, n)), np.eye(1), np.array([2.0]))


def inverse_mean(n):
    """1 / E x of log-normal x, whose plug-in is biased upwards."""

    def draw(rng):
        x = rng.lognormal(size=n)
        return rs.Moments(x[:, None, None], np.ones((n, 1))), np.eye(1), np.exp([-0.5])

    return draw


def chain(n, gamma, one_hot):
    """Six states, trajectories of twenty steps, one-hot or with three features."""
    P, r = battery.random_chain(6, 1)
    rows = np.eye(6) if one_hot else battery.ring_features(6)
    target = rows @ battery.population(P, r, gamma, rows, 20)
    basis = rs.basis.FunctionBasis(lambda s: rows[s[:, 0].astype(int)], rows.shape[1])

    def draw(rng):
        states = battery.walk(rng, P, rng.integers(6, size=n), 20)
        rewards = r[states[:, :-1]] + rng.normal(size=(n, 20))
        moments = rs.lstd_moments(rs.Trajectories(states, rewards=rewards), basis, discount=gamma)
        return moments, rows, target

    return draw


def settings():
    cells = dict(regularisation.settings())
    cells |= {f"ratio {n}": ratio(n) for n in (20, 50, 200)}
    cells |= {f"inverse mean {n}": inverse_mean(n) for n in (20, 50, 200)}
    for n in (10, 30, 100):
        for gamma in (0.9, 0.99):
            for kind in ("one-hot", "features"):
                cells[f"chain {kind} {gamma} {n}"] = chain(n, gamma, kind == "one-hot")
    return cells


def answers(moments, X, seed):
    """Return the answers of every method at X, and the name of the best."""
    plan = rs.make_plan(len(moments), subsample_size=0.5, n_resamples=N_RESAMPLES, random_state=seed)
    members = rs.replicate(moments, plan, on_failure="drop")
    estimates = {
        "plug-in": rs.plug_in(moments),
        "auto": rs.average(members, "auto"),
        "mean": rs.average(members),
        "median": rs.average(members, "median"),
        "debiased": rs.average(members, "debiased"),
        "best": rs.average(members, "best", X=X),
    }
    return {name: one.predict(X) for name, one in estimates.items()}, estimates["best"].method


def measure(name, draw, repetitions, seed):
    squares, chosen = {method: [] for method in ("plug-in", *METHODS)}, Counter()
    for number in range(repetitions):
        moments, X, truth = draw(np.random.default_rng([seed, number]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, best = answers(moments, X, number)
        chosen[best] += 1
        for method, values in found.items():
            squares[method].append(np.mean((values - truth) ** 2))
    squares = {method: np.array(values) for method, values in squares.items()}
    plain = squares["plug-in"]
    ratios = {method: float(np.sqrt(squares[method].mean() / plain.mean())) for method in METHODS}
    rows = np.random.default_rng(0).integers(repetitions, size=(400, repetitions))
    again = np.sqrt(squares["best"][rows].mean(axis=1) / plain[rows].mean(axis=1))
    return {
        "rms of the plug-in": float(np.sqrt(plain.mean())),
        "rms ratio": ratios,
        "se of best": float(again.std()),
        "median ratio of best": float(np.median(np.sqrt(squares["best"])) / np.median(np.sqrt(plain))),
        "chosen": {method: count / repetitions for method, count in chosen.items()},
        "repetitions": repetitions,
        "seed": seed,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    done = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    for name, draw in settings().items():
        known = done.get(name, {})
        enough = known.get("seed") == arguments.seed and known["repetitions"] >= arguments.repetitions
        if arguments.only not in name or enough:
            continue
        done[name] = measure(name, draw, arguments.repetitions, arguments.seed)
        print(name, done[name], flush=True)
        arguments.out.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
