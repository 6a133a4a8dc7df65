"""ReplayKernelRidge() as it comes, beside kernel methods that were tuned, a forest and LightGBM.

    python benchmarks/defaults.py --data FOLDER [--sets pol,kin40k] [--rows 4000] [--seeds 3] [--splits 10]
                                  [--peer-splits 3] [--gp-splits 1] [--peer-seeds 0] [--out FILE]

FOLDER holds NAME.data.csv.gz (the last column y) and NAME.test_mask.csv.gz (a column of 0 and 1 per split),
or NAME.csv.gz alone (blogfeedback, whose y is taken as log(1 + y)), of which a random tenth is for testing.
Training rows are the first ROWS of those that a split does not keep for testing, in random order; test rows
the first 2000. Root mean squared error in the units of y, processor seconds of fit and prediction (tuning
included), and for ours the share of test targets inside 90 % and 95 % intervals, over all splits; the spread
over seeds is that of split 0, the comparison with peers over the first splits (with the Gaussian process, the
slowest of them, over fewer). With --peer-seeds, the spread over seeds of two peers that draw: Nystroem, and
LightGBM on four fifths of rows and columns. A set that is in FILE already is not run again.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from functools import lru_cache
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

from replaystats import ReplayKernelRidge

N_TEST = 2000
GP_ROWS = 2000


def main():
    arguments = parse()
    found = {"machine": f"{platform.machine()}, Python {platform.python_version()}, one thread", "sets": {}}
    if arguments.out.exists():
        found = json.loads(arguments.out.read_text(encoding="utf-8"))
    for name in arguments.sets.split(","):
        if name in found["sets"]:
            continue
        found["sets"][name] = compare(name, arguments)
        print(name, json.dumps(found["sets"][name]), flush=True)
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def load(folder, name, n_rows, split):
    table, masks = read(folder, name)
    order = np.random.default_rng(split).permutation(len(table))
    test = order < len(table) // 10 if masks is None else masks[:, split] > 0
    train, new = table[order[~test[order]]][:n_rows], table[order[test[order]]][:N_TEST]
    return train[:, :-1], train[:, -1], new[:, :-1], new[:, -1]


@lru_cache(maxsize=1)
def read(folder, name):
    if (folder / f"{name}.csv.gz").exists():
        table = np.loadtxt(folder / f"{name}.csv.gz", delimiter=",")
        table[:, -1] = np.log1p(table[:, -1])
        return table, None
    return tuple(
        np.loadtxt(folder / f"{name}.{part}.csv.gz", delimiter=",") for part in ("data", "test_mask")
    )


def compare(name, arguments):
    first = load(arguments.data, name, arguments.rows, 0)
    seeds = [own(first, seed) for seed in range(arguments.seeds)]
    slow = range(arguments.gp_splits)
    splits, theirs = [seeds[0]], [run_peers(first, 0 in slow)] if arguments.peer_splits else []
    for split in range(1, arguments.splits):
        task = load(arguments.data, name, arguments.rows, split)
        splits.append(own(task, split))
        if split < arguments.peer_splits:
            theirs.append(run_peers(task, split in slow))
    errors = np.array([run["rmse"] for run in seeds])
    numbers = [key for key in seeds[0] if key != "method"]
    covered = {
        f"{key}_standard_error": float(np.std([run[key] for run in splits], ddof=1) / np.sqrt(len(splits)))
        for key in numbers
        if key.startswith("covered") and len(splits) > 1
    }
    ours = {
        "repetitions": len(splits),
        **{key: float(np.mean([run[key] for run in splits])) for key in numbers},
        **covered,
        "rmse_on_the_splits_of_peers": float(np.mean([run["rmse"] for run in splits[: len(theirs)]])),
        "methods": sorted({run["method"] for run in splits}),
        "spread_percent": float(100 * errors.std(ddof=1) / errors.mean()) if len(errors) > 1 else None,
        "spread_repetitions": len(errors),
    }
    found = {"rows": len(first[1]), "test_rows": len(first[3]), "replaystats": ours}
    for peer in theirs[0] if theirs else ():
        runs = [run[peer] for run in theirs if peer in run]
        found[peer] = {"repetitions": len(runs)} | {
            key: float(np.mean([run[key] for run in runs])) for key in ("rmse", "seconds")
        }
    if arguments.peer_seeds > 1:
        found["peers_spread_percent"] = spread_of_peers(first, arguments.peer_seeds)
    return found


def spread_of_peers(task, n_seeds):
    X, y, X_new, y_new = task
    errors = {"Nystroem 500 + RidgeCV": [], "LightGBM, 80 % of rows and columns": []}
    for seed in range(n_seeds):
        nystroem = peers()["Nystroem 500 + RidgeCV, 3 widths"].set_params(
            estimator__nystroem__random_state=seed
        )
        trees = LGBMRegressor(
            n_jobs=1, verbose=-1, subsample=0.8, subsample_freq=1, colsample_bytree=0.8, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, model in zip(errors, (nystroem, trees), strict=True):
                errors[name].append(rmse(model.fit(X, y).predict(X_new), y_new))
    return {name: float(100 * np.std(some, ddof=1) / np.mean(some)) for name, some in errors.items()}


def run_peers(task, with_gp):
    X, y, X_new, y_new = task
    found = {}
    for name, model in peers().items():
        if name.startswith("Gaussian") and not with_gp:
            continue
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prediction = model.fit(X, y).predict(X_new)
        found[name] = {"rmse": rmse(prediction, y_new), "seconds": time.process_time() - start}
    return found


def own(task, seed):
    X, y, X_new, y_new = task
    start = time.process_time()
    model = ReplayKernelRidge(random_state=seed).fit(X, y)
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


def peers():
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
    parser.add_argument("--sets", default="pol,elevators,kin40k,pumadyn32nm,keggdirected,blogfeedback")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--peer-splits", type=int, default=3)
    parser.add_argument("--gp-splits", type=int, default=1, help="the Gaussian process is slow")
    parser.add_argument("--peer-seeds", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/defaults.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
