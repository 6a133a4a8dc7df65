"""Efron's cholesterol table (2014): the order of a polynomial by C_p, smoothed by the bootstrap.

    OMP_NUM_THREADS=1 python benchmarks/efron.py  # 20 seeds of 4000 and of 16000 replicates, and a million

164 men, sigma = 22, polynomials of degree 1 to 6; the value of subject 1 (compliance -2.251). All degrees of
a replicate come from one triangular factor. Standard errors are the infinitesimal jackknife's with its
correction for Monte-Carlo noise, from sums, a block of replicates at a time; on one plan `replay_variance`
stands beside them. Results go to benchmarks/results/efron.json.

How well B replicates can know this standard error: it is the length of the slopes of the values in the
counts, and no linear estimate of them beats least squares, whose relative error is (residual sd) / (sd
sqrt(B)) at best. Least squares stand beside the infinitesimal jackknife to show that floor.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from replaystats import make_plan
from replaystats.inference.variance import replay_variance

RESULTS = Path(__file__).parent / "results" / "efron.json"
SIGMA, DEGREE, BLOCK = 22.0, 6, 20_000


def read(path):
    if path is None:
        path = Path(__file__).parent / "pays_studies" / "cholesterol.csv"
    text = path.read_text(encoding="utf-8").replace(",", " ")
    return np.loadtxt(text.splitlines(), skiprows=1).T


class Table:
    """Weighted fits of all degrees at once, in polynomials that are orthonormal over the men."""

    def __init__(self, x, y, subject=0):
        powers = np.vander(x / np.abs(x).max(), DEGREE + 1, increasing=True)
        self.y, self.phi = y, np.linalg.qr(powers)[0] * np.sqrt(len(x))
        self.at = self.phi[subject]
        self.columns = np.column_stack([self.phi, y])
        self.rows, self.cols = np.tril_indices(DEGREE + 2)
        self.products = self.columns[:, self.rows] * self.columns[:, self.cols]

    def fit(self, counts):
        """Return C_p (B, 6), the values at the subject (B, 6) for weights (B, n)."""
        q = DEGREE + 1
        gram = np.empty((q + 1, q + 1, len(counts)))
        gram[self.rows, self.cols] = (counts @ self.products).T
        lower = np.zeros_like(gram)
        for j in range(q):  # Cholesky, all replicates at once; the last row is y
            square = gram[j, j] - np.square(lower[j, :j]).sum(axis=0)
            lower[j, j] = np.sqrt(np.maximum(square, 1e-12))
            for i in range(j + 1, q + 1):
                lower[i, j] = (gram[i, j] - (lower[i, :j] * lower[j, :j]).sum(axis=0)) / lower[j, j]
        z, u = lower[q, :q], np.empty((q, len(counts)))
        for j in range(q):
            u[j] = (self.at[j] - (lower[j, :j] * u[:j]).sum(axis=0)) / lower[j, j]
        residual = gram[q, q] - np.cumsum(z**2, axis=0)[1:]
        penalty = 2 * SIGMA**2 * np.arange(2, q + 1)[:, None]
        return (residual + penalty).T, np.cumsum(z * u, axis=0)[1:].T

    def chosen(self, counts):
        """Return the value that C_p chooses and its degree, for weights (B, n)."""
        cp, values = self.fit(counts)
        best = cp.argmin(axis=1)
        return values[np.arange(len(best)), best], best + 1


def draw(rng, size, n):
    """Return how often each of n men is in each of `size` bootstrap samples."""
    men = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
    return np.bincount(men.ravel(), minlength=n * size).reshape(size, n).astype(float)


def by_least_squares(table, n_replicates, seed, clip=np.inf):
    """Return the standard error from slopes by least squares, their noise taken off, and the residual sd."""
    counts = draw(np.random.default_rng(seed), n_replicates, len(table.y))
    values = np.clip(table.chosen(counts)[0], -clip, clip)
    away, regressors = values - values.mean(), counts - counts.mean(axis=0)
    lengths, directions = np.linalg.eigh(regressors.T @ regressors)
    lengths, directions = lengths[1:], directions[:, 1:]  # counts sum to n: one direction is empty
    slopes = (directions / lengths) @ (directions.T @ (regressors.T @ away))
    residual = np.square(away - regressors @ slopes).sum() / (n_replicates - len(lengths) - 1)
    variance = np.square(slopes).sum() - residual * (1 / lengths).sum()
    return float(np.sqrt(max(variance, 0.0))), float(np.sqrt(residual))


def smoothed(table, n_replicates, seed, clip=np.inf):
    """Return the mean, the standard error and how many grew beyond 40, a block of replicates at a time."""
    rng, n = np.random.default_rng(seed), len(table.y)
    total, square, products, counted = 0.0, 0.0, np.zeros(n), np.zeros(n)
    beyond = np.zeros(DEGREE + 1, dtype=int)
    largest = 0.0
    shift = table.chosen(np.ones((1, n)))[0][0]
    for first in range(0, n_replicates, BLOCK):
        size = min(BLOCK, n_replicates - first)
        counts = draw(rng, size, n)
        values, degree = table.chosen(counts)
        largest = max(largest, np.abs(values).max())
        beyond += np.bincount(degree[np.abs(values) > 40], minlength=DEGREE + 1)
        t = np.clip(values, -clip, clip) - shift
        total, square = total + t.sum(), square + np.square(t).sum()
        products, counted = products + t @ counts, counted + counts.sum(axis=0)
    mean = total / n_replicates
    slopes = products / n_replicates - mean * counted / n_replicates
    variance = np.square(slopes).sum() - n / n_replicates * (square / n_replicates - mean**2)
    return {
        "mean": mean + shift,
        "sd": float(np.sqrt(max(variance, 0.0))),
        "largest": float(largest),
        "beyond 40 by degree": beyond.tolist()[1:],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="compliance and decrease; default the package's copy")
    parser.add_argument("--replicates", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    x, y = read(arguments.data)
    table = Table(x, y)
    cp, values = table.fit(np.ones((1, len(y))))
    found = {
        "C_p - 80000": np.round(cp[0] - 80_000).tolist(),
        "published": [1131, 1411, 667, 1591, 1811, 2758],
        "subject 1": float(values[0, cp[0].argmin()]),
    }
    plan = make_plan(len(y), statistic="V", subsample_size=len(y), n_resamples=4000, random_state=0)
    members = table.chosen(plan.counts())[0]
    found["replay_variance, one plan of 4000"] = float(
        np.sqrt(replay_variance(members[:, None], plan).variance[0])
    )
    for name, clip in (("as they are", np.inf), ("clipped at 40", 40.0)):
        began, clock = time.process_time(), time.perf_counter()
        large = smoothed(table, arguments.replicates, 2, clip)
        found[name] = {
            "replicates": arguments.replicates,
            **large,
            "processor seconds": round(time.process_time() - began, 1),
            "seconds": round(time.perf_counter() - clock, 1),
        }
        for size in (4000, 16_000):
            seeds = [[1, seed] for seed in range(arguments.seeds)]
            squares = [by_least_squares(table, size, seed, clip) for seed in seeds]
            errors = {
                "jackknife": np.array([smoothed(table, size, seed, clip)["sd"] for seed in seeds]),
                "least squares": np.array([sd for sd, _ in squares]),
            }
            found[name][f"at {size}"] = {
                how: {
                    "lowest and highest seed": [float(sds.min()), float(sds.max())],
                    "largest deviation from the large run": float(np.abs(sds / large["sd"] - 1).max()),
                    "root mean square deviation": float(np.sqrt(np.square(sds / large["sd"] - 1).mean())),
                }
                for how, sds in errors.items()
            } | {"residual sd": float(np.mean([residual for _, residual in squares]))}
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
