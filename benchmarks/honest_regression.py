"""Whether scores and 90 % intervals of kernel ridge regression are right where columns are many or rows few.

    python benchmarks/honest_regression.py [--seed 0] [--share 1.0] [--only noise,signal] [--out FILE]

Every setting draws tables, fits `ReplayKernelRidge(random_state=0)` and asks it about rows it has not seen:

- noise: y does not depend on any column; score stated and true, coverage.
- signal: y = sin(2 x0) + x1 + .5 x2 + noise, all other columns irrelevant, 300 rows.
- diabetes: 20, 30 and 50 rows of scikit-learn's table, asked about the others.
- patients: 120 with ten visits each and an effect of the patient, asked about new patients (`groups=`).
- local noise: its size depends on a column that does not move the mean; coverage by quintile of the column.
- beyond: rows whose first column was moved by 2.4 standard deviations; coverage, and share flagged.
- clusters: 95 % interval of a mean of rows in 5 or 10 clusters of unequal size.

`share` multiplies the numbers of tables. Standard errors are over tables.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

import replaystats as rs

LEVEL = 0.9
OUT = Path(__file__).parent / "results" / "honest_regression.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", default=",".join(SETTINGS))
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    versions = f"{platform.python_version()}, NumPy {np.__version__}"
    found["machine"] = f"{platform.machine()}, {versions}, one thread"
    for family in arguments.only.split(","):
        function, cases = SETTINGS[family]
        found[family] = []
        for case, tables in cases:
            start = time.process_time()
            number = max(2, round(arguments.share * tables))
            rows = [function(np.random.default_rng([arguments.seed, i]), case) for i in range(number)]
            entry = {"case": case, "tables": number, "seed": arguments.seed, **summary(rows)}
            entry["seconds_per_table"] = round((time.process_time() - start) / number, 2)
            found[family].append(entry)
            print(family, json.dumps(entry), flush=True)
            arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def summary(rows):
    """Return mean and standard error over tables of every number; entries that are NaN do not count."""
    values = {name: np.array([row[name] for row in rows], dtype=float) for name in rows[0]}
    return {
        name: [round(float(np.nanmean(some)), 3), round(float(np.nanstd(some, ddof=1) / len(some) ** 0.5), 3)]
        for name, some in values.items()
    }


def answers(X, y, Z, z, **fitting):
    """Return score stated and true, coverage and width of one table."""
    model = rs.ReplayKernelRidge(random_state=0, oob_score=True).fit(X, y, **fitting)
    low, high = model.predict_interval(Z, LEVEL)
    true = 1 - np.mean((z - model.predict(Z)) ** 2) / np.var(z)
    return {
        "stated": model.oob_score_,
        "true": true,
        "covers": np.mean((low <= z) & (z <= high)),
        "width": np.median(high - low),
    }


def noise(rng, case):
    n, p = case
    X, y = rng.normal(size=(n + 500, p)), rng.normal(size=n + 500)
    return answers(X[:n], y[:n], X[n:], y[n:])


def signal(rng, p):
    X = rng.normal(size=(800, p))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * X[:, 2] + rng.normal(size=800)
    return answers(X[:300], y[:300], X[300:], y[300:])


def diabetes(rng, n):
    X, y = load_diabetes(return_X_y=True)
    order = rng.permutation(len(y))
    own, new = order[:n], order[n:]
    return answers(X[own], y[own], X[new], y[new])


def patients(rng, visits):
    def draw(number):
        patient = np.repeat(np.arange(number), visits)
        shared, own = rng.normal(size=(number, 3))[patient], rng.normal(size=(len(patient), 3))
        X = shared * [1, 1, 0] + own * [0, 0.5, 1]
        effect, noise = rng.normal(size=number)[patient], rng.normal(size=len(X))
        return X, np.sin(2 * X[:, 0]) + X[:, 2] + effect + noise, patient

    X, y, patient = draw(120)
    Z, z, _ = draw(120)
    return answers(X, y, Z, z, groups=patient)


def local_noise(rng, n):
    X = rng.uniform(-1, 1, size=(n + 1000, 3))
    y = np.sin(3 * X[:, 0]) + (0.2 + 0.8 * (X[:, 1] + 1) / 2) * rng.normal(size=len(X))
    model = rs.ReplayKernelRidge(random_state=0).fit(X[:n], y[:n])
    low, high = model.predict_interval(X[n:], LEVEL, scale="local")
    inside = (low <= y[n:]) & (y[n:] <= high)
    fifth = np.minimum(((X[n:, 1] + 1) / 2 * 5).astype(int), 4)
    return {f"quintile {q + 1}": np.mean(inside[fifth == q]) for q in range(5)}


def beyond(rng, n):
    def f(x):
        return np.sin(3 * x[:, 0]) + 0.5 * x[:, 1]

    X = rng.normal(size=(n, 2)) * [0.5, 1]
    Z = rng.normal(size=(400, 2)) * [0.5, 1] + [1.2, 0]
    model = rs.ReplayKernelRidge(random_state=0).fit(X, f(X) + 0.3 * rng.normal(size=n))
    z = f(Z) + 0.3 * rng.normal(size=400)
    low, high = model.predict_interval(Z, LEVEL)
    inside, flagged = (low <= z) & (z <= high), model.outside(Z)
    far, near = Z[:, 0] > 1.5, Z[:, 0] < 1
    return {
        "covers near": np.mean(inside[near]),
        "covers far": np.mean(inside[far]),
        "covers far, not flagged": np.mean(inside[far & ~flagged]) if (far & ~flagged).any() else np.nan,
        "flagged far": np.mean(flagged[far]),
        "flagged near": np.mean(flagged[near]),
        "width near": np.median((high - low)[near]),
        "width far": np.median((high - low)[far]),
    }


def clusters(rng, sizes):
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.normal(size=len(sizes))[cluster] + rng.normal(size=len(cluster))
    moments = rs.ols_moments(np.ones((len(cluster), 1)), y, intercept=False, clusters=cluster)
    low, high = rs.plug_in(moments).confidence_interval()
    return {"covers": low[0] <= 0 <= high[0], "finite": np.isfinite(high[0] - low[0])}


SETTINGS = {
    "noise": (noise, [((20, 10), 80), ((50, 10), 60), ((300, 100), 12), ((300, 1000), 8)]),
    "signal": (signal, [(30, 12), (100, 10), (300, 8), (5000, 4)]),
    "diabetes": (diabetes, [(20, 60), (30, 60), (50, 50)]),
    "patients": (patients, [(10, 8)]),
    "local_noise": (local_noise, [(400, 12)]),
    "beyond": (beyond, [(200, 20)]),
    "clusters": (clusters, [([1, 5, 20, 100, 1000], 1000), ([2**i for i in range(1, 10)] + [1000], 1000)]),
}

if __name__ == "__main__":
    main()
