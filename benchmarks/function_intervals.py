"""Intervals for the regression function itself, with ReplayKernelRidge() as it comes.

    python benchmarks/function_intervals.py [--repetitions 100,40,12] [--seed 0] [--out FILE]

Two functions that are known: Friedman's first (five of ten uniform inputs matter, noise of variance 1) and
the two bumps of the paper (noise of standard deviation .5), with 250, 1000 and 4000 rows; 200 points for
every data set. The coverage is a mean over points, its standard error is taken over data sets. Beside
it: the width, that of the interval that leaves smoothing bias out, and that of an oracle, 3.92 times the
root mean squared error that a data set turned out to have.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1

import replaystats as rs

SIZES = (250, 1000, 4000)
N_POINTS = 200


def main():
    arguments = parse()
    found = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}, one thread",
        "level": 0.95,
        "seed": arguments.seed,
        "cells": [],
    }
    for n, repetitions in zip(SIZES, map(int, arguments.repetitions.split(",")), strict=True):
        for name, draw in {"Friedman 1": friedman, "two bumps": bumps}.items():
            seeds = range(arguments.seed, arguments.seed + repetitions)
            rows = np.array([one(draw, n, seed) for seed in seeds])
            found["cells"].append({"function": name, "n": n, **summary(rows)})
            print(json.dumps(found["cells"][-1]), flush=True)
            arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def friedman(n, seed):
    X, y = make_friedman1(n, noise=1.0, random_state=seed)
    points, truth = make_friedman1(N_POINTS, noise=0.0, random_state=seed + 10**6)
    return X, y, points, truth


def bumps(n, seed):
    X, y = rs.simulate.two_bumps(n, random_state=seed)
    points = np.random.default_rng(seed + 10**6).uniform(size=(N_POINTS, 2))
    return X, y, points, rs.simulate.two_bumps_function(points)


def one(draw, n, seed):
    X, y, points, truth = draw(n, seed)
    start = time.process_time()
    model = rs.ReplayKernelRidge(random_state=seed).fit(X, y)
    fitted = time.process_time()
    low, high = model.confidence_interval(points)
    done = time.process_time()
    short_low, short_high = model.estimate_.confidence_interval(points)
    error = float(np.sqrt(np.mean((model.predict(points) - truth) ** 2)))
    return (
        np.mean((low <= truth) & (truth <= high)),
        np.mean(high - low),
        np.mean((short_low <= truth) & (truth <= short_high)),
        np.mean(short_high - short_low),
        3.92 * error,
        fitted - start,
        done - fitted,
    )


def summary(rows):
    names = ("coverage", "width", "without_bias", "width_without_bias", "width_of_oracle")
    names += ("fit_seconds", "interval_seconds")
    error = float(rows[:, 0].std(ddof=1) / np.sqrt(len(rows))) if len(rows) > 1 else None
    means = {name: float(value) for name, value in zip(names, rows.mean(axis=0), strict=True)}
    return {"repetitions": len(rows), "coverage_standard_error": error, **means}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", default="100,40,12", help="of 250, 1000 and 4000 rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/function_intervals.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
