"""ReplayKernelRidge() as it comes, beside kernel methods that were tuned, a forest and LightGBM.

    python benchmarks/defaults.py --data FOLDER [--sets pol,kin40k] [--rows 4000] [--seeds 3] [--out FILE]

FOLDER holds NAME.data.csv.gz (the last column y) and NAME.test_mask.csv.gz (a column of 0 and 1 per split).
Training rows are the first ROWS of those that split 0 does not keep for testing, in random order; test rows
the first 2000. Root mean squared error in the units of y, processor seconds of fit and prediction (tuning
included), and for ours the share of test targets inside 90 % and 95 % intervals and the spread over seeds.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from pathlib import Path

import numpy as np
from lightgbm import LGBMRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import replaystats as rs

N_TEST = 2000
GP_ROWS = 1000


def main():
    arguments = parse()
    found = {"machine": f"{platform.machine()}, Python {platform.python_version()}, one thread", "sets": {}}
    for name in arguments.sets.split(","):
        task = load(arguments.data, name, arguments.rows)
        found["sets"][name] = compare(task, arguments.seeds)
        print(name, json.dumps(found["sets"][name]), flush=True)
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")


def load(folder, name, n_rows):
    table = np.loadtxt(folder / f"{name}.data.csv.gz", delimiter=",")
    test = np.loadtxt(folder / f"{name}.test_mask.csv.gz", delimiter=",")[:, 0] > 0
    order = np.random.default_rng(0).permutation(len(table))
    train, new = table[order[~test[order]]][:n_rows], table[order[test[order]]][:N_TEST]
    return train[:, :-1], train[:, -1], new[:, :-1], new[:, -1]


def compare(task, n_seeds):
    X, y, X_new, y_new = task
    ours = [own(task, seed) for seed in range(n_seeds)]
    errors = np.array([run["rmse"] for run in ours])
    found = {
        "rows": len(y),
        "test_rows": len(y_new),
        "replaystats": {
            "repetitions": n_seeds,
            **{name: float(np.mean([run[name] for run in ours])) for name in ours[0] if name != "method"},
            "methods": sorted({run["method"] for run in ours}),
            "spread_percent": float(100 * errors.std(ddof=1) / errors.mean()) if n_seeds > 1 else None,
        },
    }
    for name, model in peers(len(y)).items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prediction = model.fit(X, y).predict(X_new)
        seconds = time.process_time() - start
        found[name] = {"rmse": rmse(prediction, y_new), "seconds": seconds}
    return found


def own(task, seed):
    X, y, X_new, y_new = task
    start = time.process_time()
    model = rs.ReplayKernelRidge(random_state=seed).fit(X, y)
    prediction = model.predict(X_new)
    seconds = time.process_time() - start
    found = {"rmse": rmse(prediction, y_new), "seconds": seconds, "method": model.method_}
    for level in (0.9, 0.95):
        low, high = model.predict_interval(X_new, level)
        found[f"covered_{level:g}"] = float(np.mean((low <= y_new) & (y_new <= high)))
        found[f"width_{level:g}"] = float(np.mean(high - low))
    found["interval_seconds"] = time.process_time() - start - seconds
    return found


class OnSomeRows:
    """A method that cannot take all rows."""

    def __init__(self, model, n_rows):
        self.model, self.n_rows = model, n_rows

    def fit(self, X, y):
        self.model.fit(X[: self.n_rows], y[: self.n_rows])
        return self

    def predict(self, X):
        return self.model.predict(X)


class KernelRidgeGrid:
    """Kernel ridge on all rows, with the best of 20 settings on 1000 of them."""

    def fit(self, X, y):
        self.scale, self.mean = StandardScaler().fit(X), y.mean()
        Z, p = self.scale.transform(X), X.shape[1]
        grid = {"gamma": [0.05 / p, 0.2 / p, 1.0 / p, 5.0 / p], "alpha": [1e-3, 1e-2, 0.1, 1.0, 10.0]}
        search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=3, scoring="neg_mean_squared_error")
        best = search.fit(Z[:1000], y[:1000] - self.mean).best_params_
        self.model = KernelRidge(kernel="rbf", **best).fit(Z, y - self.mean)
        return self

    def predict(self, X):
        return self.model.predict(self.scale.transform(X)) + self.mean


def peers(n):
    gp = GaussianProcessRegressor(ConstantKernel() * RBF() + WhiteKernel(), normalize_y=True)
    nystroem = GridSearchCV(
        make_pipeline(
            StandardScaler(), Nystroem(n_components=500, random_state=0), RidgeCV(np.logspace(-6, 2, 9))
        ),
        {"nystroem__gamma": [0.01, 0.03, 0.1]},
        cv=3,
        scoring="neg_mean_squared_error",
    )
    return {
        "Nystroem 500 + RidgeCV, 3 widths": nystroem,
        "KernelRidge, grid": KernelRidgeGrid(),
        f"Gaussian process on {GP_ROWS} rows": OnSomeRows(make_pipeline(StandardScaler(), gp), GP_ROWS),
        "random forest": RandomForestRegressor(100, random_state=0),
        "LightGBM": LGBMRegressor(n_jobs=1, verbose=-1),
    }


def rmse(prediction, y):
    return float(np.sqrt(np.mean((prediction - y) ** 2)))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="pol,elevators,kin40k,pumadyn32nm,keggdirected")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/defaults.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
