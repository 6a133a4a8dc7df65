"""Where the interval of the mean is wider than that of a new observation: which of them is right?

    python benchmarks/two_intervals.py --data FOLDER [--sets kin40k,pol] [--rows 4000] [--splits 5]
                                       [--out FILE]

Tables and splits of defaults.py, of nearly no noise, so that a new target is nearly the function itself. The
share of rows where the interval of the mean is the wider one, and what both hold there and of all rows.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from defaults import load

from replaystats import ReplayKernelRidge

LEVEL = 0.9


def main():
    arguments = parse()
    found = {"level": LEVEL, "rows": arguments.rows, "splits": arguments.splits, "sets": {}}
    for name in arguments.sets.split(","):
        splits = [one(load(arguments.data, name, arguments.rows, s), s) for s in range(arguments.splits)]
        found["sets"][name] = {
            key: {
                "mean": float(np.mean([split[key] for split in splits])),
                "standard_error": float(
                    np.std([split[key] for split in splits], ddof=1) / len(splits) ** 0.5
                ),
            }
            for key in splits[0]
        }
        print(name, json.dumps(found["sets"][name], indent=1), flush=True)
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def one(task, seed):
    X, y, X_new, y_new = task
    model = ReplayKernelRidge(random_state=seed).fit(X, y)
    intervals = {
        "mean": model.confidence_interval(X_new, LEVEL),
        "new": model.predict_interval(X_new, LEVEL),
        "new_local": model.predict_interval(X_new, LEVEL, scale="local"),
    }
    width = {name: interval.high - interval.low for name, interval in intervals.items()}
    inside = {name: (i.low <= y_new) & (y_new <= i.high) for name, i in intervals.items()}
    wider = width["mean"] > width["new"]
    found = {"share_wider": float(wider.mean())}
    for name, held in inside.items():
        found[f"held_by_{name}"] = float(held.mean())
        found[f"held_by_{name}_where_wider"] = float(held[wider].mean())
        found[f"held_by_{name}_elsewhere"] = float(held[~wider].mean())
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="kin40k,pol")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/two_intervals.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
