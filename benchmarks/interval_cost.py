"""What the intervals of a fit cost beside the fit, in processor seconds of one thread.

    OMP_NUM_THREADS=1 python benchmarks/interval_cost.py

Default settings of the estimators; the median of three data sets each, written to results/interval_cost.json.
"Hard" rows are those that the data leave open, which the range of values bounds.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import numpy as np
import policy_intervals as public

import replaystats as rs

RESULTS = Path(__file__).parent / "results" / "interval_cost.json"


def easy(seed):
    data = rs.simulate.ornstein_uhlenbeck(1000, start="uniform", random_state=seed)
    model = rs.LSTD(rs.basis.Fourier(4), discount=np.exp(-0.1), random_state=0)
    return model, data, np.linspace(-3, 3, 50)[:, None], {}


def hard(seed):
    data = rs.simulate.ornstein_uhlenbeck(500, start=0.1, random_state=seed)
    model = rs.LSTD(rs.basis.Fourier(4), discount=np.exp(-0.1), random_state=0)
    return model, data, np.linspace(-3, 3, 13)[:, None], {"value_range": (-1.5, 1.5)}


def table(seed):
    grid = public.Grid()
    data = grid.episodes(np.random.default_rng(seed), 200, grid.behaviour)
    policy = lambda s: grid.target[s[:, 0].astype(int)]  # noqa: E731
    model = rs.LSTDQ(rs.basis.OneHot(25), policy, discount=grid.gamma, random_state=0)
    return model, data, np.arange(25.0)[:, None], {"value_range": (-1.0, 1.0)}


def many(seed):
    axis = np.linspace(-1, 1, 30)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    logit = lambda s: 0.1 + 0.8 * public.sigmoid(s.sum(axis=1))  # noqa: E731
    uniform = lambda rng, n: rng.uniform(-2, 2, size=(n, 2))  # noqa: E731
    data = public.save_data(np.random.default_rng(seed), 30, 50, 2.0, logit, uniform)
    model = rs.LSTDQ(public.splines(7), public.both_positive, discount=0.5, n_actions=2, random_state=0)
    return model, data, points, {}


CASES = {
    "50 states, 9 functions, 1000 trajectories": easy,
    "13 hard states, 9 functions, 500 trajectories": hard,
    "25 states of a table, 200 episodes": table,
    "900 states, 98 functions, 30 trajectories of 50 steps": many,
}


def main():
    found = {}
    for name, case in CASES.items():
        fits, intervals = [], []
        for seed in range(3):
            model, data, points, options = case(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                began = time.process_time()
                model.fit(data)
                fitted = time.process_time()
                model.confidence_interval(points, **options)
                done = time.process_time()
            fits.append(fitted - began)
            intervals.append(done - fitted)
        fit, interval = float(np.median(fits)), float(np.median(intervals))
        found[name] = {
            "fit": round(fit, 3),
            "interval": round(interval, 3),
            "ratio": round(interval / fit, 2),
        }
        print(name, found[name], flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
