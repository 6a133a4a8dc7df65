"""Do intervals of averaged trees cover the expected prediction? Friedman's first function, unpruned trees.

    python benchmarks/tree_errors.py [--members auto,200,60] [--data-sets 60] [--rows 300] [--out FILE]

The expected prediction at 60 uniform points is the mean over the other data sets; the right width is what
covers if it has 1.96 of the standard deviation over data sets on either side. A number of members that is in
FILE with as many data sets is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import NormalDist

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.tree import DecisionTreeRegressor

from replaystats import ReplayRegressor, Resampling

POINTS = np.random.default_rng(0).uniform(size=(60, 10))


def main():
    arguments = parse()
    found = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    for members in arguments.members.split(","):
        if found.get(members, {}).get("data_sets", 0) < arguments.data_sets:
            found[members] = measure(members, arguments)
            print(members, json.dumps(found[members]), flush=True)
            arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measure(members, arguments):
    start, runs = time.process_time(), range(arguments.data_sets)
    fits = [one(members, arguments.rows, 1000 + number) for number in runs]
    values, low, high, count = (np.array([fit[part] for fit in fits]) for part in range(4))
    others = (values.sum(axis=0) - values) / (len(values) - 1)
    held = ((low <= others) & (others <= high)).mean(axis=1)
    right = 2 * 1.96 * values.std(axis=0, ddof=1)
    return {
        "data_sets": len(values),
        "rows": arguments.rows,
        "coverage": float(held.mean()),
        # the mean of the other data sets is off the expectation itself
        "a_right_interval_covers": 2 * NormalDist().cdf(1.96 / np.sqrt(1 + 1 / (len(values) - 1))) - 1,
        "standard_error": float(held.std(ddof=1) / np.sqrt(len(held))),
        "width_over_the_right_one": float(((high - low).mean(axis=0) / right).mean()),
        "members": [int(count.min()), float(count.mean()), int(count.max())],
        "seconds": (time.process_time() - start) / len(values),
    }


def one(members, n, seed):
    X, y = make_friedman1(n, noise=1.0, random_state=seed)
    count = members if members == "auto" else int(members)
    model = ReplayRegressor(
        DecisionTreeRegressor(), resampling=Resampling(n_resamples=count), random_state=seed
    ).fit(X, y)
    return model.predict(POINTS), *model.confidence_interval(POINTS), len(model.estimate_.members)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--members", default="auto,200,60")
    parser.add_argument("--data-sets", type=int, default=60)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tree_errors.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
