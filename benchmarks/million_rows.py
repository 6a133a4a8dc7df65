"""Processor time of ReplayKernelRidge() beside LightGBM on many rows, in one run.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/million_rows.py [--rows 1000000]

Friedman's first function of 20 columns, noise 1. Ours: fit, then predictions and 90 % intervals of a tenth as
many new rows. LightGBM: fit and predictions of the mean. Errors are those of the function.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from lightgbm import LGBMRegressor

from replaystats import ReplayKernelRidge


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**6)
    n, rng = parser.parse_args().rows, np.random.default_rng(0)
    X, X_new = rng.uniform(size=(n, 20)), rng.uniform(size=(n // 10, 20))
    y, y_new = (function(rows) + rng.normal(size=len(rows)) for rows in (X, X_new))
    ReplayKernelRidge(random_state=0).fit(X[:300, :3], y[:300])  # what is imported at first use
    model, found = ReplayKernelRidge(random_state=0), {}
    found["fit"], _ = timed(lambda: model.fit(X, y))
    found["predict"], own = timed(lambda: model.predict(X_new))
    found["predict_interval"], (low, high) = timed(lambda: model.predict_interval(X_new, 0.9))
    found["total"] = sum(found.values())
    found["lightgbm"], other = timed(lambda: LGBMRegressor(n_jobs=1, verbose=-1).fit(X, y).predict(X_new))
    found["ratio"] = found["total"] / found["lightgbm"]
    found["error"], found["lightgbm_error"] = (
        float(np.sqrt(np.mean((some - function(X_new)) ** 2))) for some in (own, other)
    )
    found["covered"] = float(np.mean((low <= y_new) & (y_new <= high)))
    print(json.dumps(found, indent=1))


def function(X):
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def timed(work):
    start = time.process_time()
    answer = work()
    return time.process_time() - start, answer


if __name__ == "__main__":
    main()
