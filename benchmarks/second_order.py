"""Predicted second-order variance ratios of replay against simulation, for 16 laws.

    python benchmarks/second_order.py

Every law: 2000 data sets of n = 400 units; U with subsets of k = 80 and V with k = 80, B = 60 subsets with
the linear part controlled, against the plug-in on the same data. Predictions: `theorem().second_order` on the
first 100 data sets. Writes benchmarks/results/second_order.json and docs/figures/second_order.png.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

import replaystats as rs
from replaystats.plots.draw import new_figure

HERE = Path(__file__).parent
N, K, B, DATA_SETS, PREDICTED = 400, 80, 60, 2000, 100
Law = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]


def scalar(draw_g, noise) -> Law:
    def law(n, rng):
        g = draw_g(n, rng)
        return g[:, None, None], (g + noise(g) * rng.normal(size=n))[:, None]

    return law


def regression(q, noise, design="normal") -> Law:
    def law(n, rng):
        draw = {"normal": rng.normal, "laplace": rng.laplace}.get(design)
        x = rng.uniform(-1.7, 1.7, size=(n, q)) if draw is None else draw(size=(n, q))
        y = x.sum(axis=1) + noise((x**2).mean(axis=1)) * rng.normal(size=n)
        return x[:, :, None] * x[:, None, :], x * y[:, None]

    return law


def squares(n, rng):
    x = rng.gamma(3.0, 1.0, n)
    return x[:, None, None], (x**2)[:, None]


def instruments(n, rng):
    z, u = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    x = z + u
    y = x.sum(axis=1) + 0.6 * u[:, 0] + rng.normal(size=n)
    return z[:, :, None] * x[:, None, :], z * y[:, None]


def lstd(q) -> Law:
    def law(n, rng):
        s, g, f = rng.uniform(-1, 1, n), 0.0, 0.0
        for _ in range(5):
            following = np.clip(0.7 * s + 0.4 * rng.normal(size=n), -1.5, 1.5)
            now, then = (np.stack([x**j for j in range(q)], axis=1) for x in (s, following))
            g = g + now[:, :, None] * (now - 0.8 * then)[:, None, :]
            f = f + now * (s**2 + 0.3 * rng.normal(size=n))[:, None]
            s = following
        return g, f

    return law


def clusters(n, rng):
    x, size = rng.normal(size=(n, 7, 2)), rng.integers(1, 8, n)
    y = x.sum(axis=2) + 0.7 * rng.normal(size=(n, 1)) + rng.normal(size=(n, 7))
    x = x * (np.arange(7) < size[:, None])[:, :, None]
    return np.einsum("ima,imb->iab", x, x), np.einsum("ima,im->ia", x, y)


def gamma(n, rng):
    return rng.gamma(4.0, 0.25, n)


LAWS: dict[str, Law] = {
    "ratio, equal noise": scalar(gamma, np.ones_like),
    "ratio, noise as g": scalar(gamma, lambda g: g),
    "ratio, noise as sqrt(g)": scalar(gamma, np.sqrt),
    "ratio, log-normal g, noise as g^1.5": scalar(
        lambda n, rng: np.exp(0.4 * rng.normal(size=n) - 0.08), lambda g: g**1.5
    ),
    "ratio, noise as 1/g": scalar(lambda n, rng: rng.uniform(0.2, 1.8, n), lambda g: 1 / g),
    "E x^2 / E x": squares,
    "OLS, equal noise": regression(3, np.ones_like),
    "OLS, noise as leverage^(1/2)": regression(3, np.sqrt),
    "OLS, noise as leverage": regression(5, lambda leverage: leverage),
    "OLS, quiet leverage": regression(3, lambda leverage: 1 / np.sqrt(0.3 + leverage)),
    "OLS, uniform design, noisy leverage": regression(4, np.sqrt, "uniform"),
    "OLS, Laplace design, equal noise": regression(3, np.ones_like, "laplace"),
    "instrumental variables": instruments,
    "LSTD, 2 functions": lstd(2),
    "LSTD, 3 functions": lstd(3),
    "OLS, clusters of 1 to 7": clusters,
}


def simulated(law: Law, seed: int) -> dict[str, object]:
    """Return measured ratios of U and V with standard errors, and the predictions of single data sets."""
    rng = np.random.default_rng(seed)
    answers, found = [], {"U": [], "V": []}
    for i in range(DATA_SETS):
        g, f = law(N, rng)
        q = f.shape[1]
        inverse = np.linalg.inv(g.sum(axis=0))
        theta = inverse @ f.sum(axis=0)
        H = N * (f - g @ theta) @ inverse.T
        one = [theta]
        without = np.zeros((B, N))
        np.put_along_axis(without, rng.random((B, N)).argsort(axis=1)[:, :K], 1.0, axis=1)
        for counts in (without, rng.multinomial(K, np.full(N, 1 / N), B).astype(float)):
            A = (counts @ g.reshape(N, -1)).reshape(B, q, q)
            h = np.linalg.solve(A, (counts @ f)[:, :, None])[:, :, 0]
            one.append((h - (counts - K / N) @ H / K).mean(axis=0))
        answers.append(one)
        if i < PREDICTED:
            for statistic, list_of in found.items():
                plan = rs.make_plan(N, statistic=statistic, subsample_size=K, n_resamples=2, random_state=0)
                average = rs.average(rs.replicate(rs.Moments(g, f), plan))
                second = rs.inference.theorem(average).second_order
                list_of.append((second.variance_ratio, second.ratio_standard_error))
    return {"answers": np.array(answers), "found": {s: np.array(rows) for s, rows in found.items()}}


def measured_ratio(answers: np.ndarray, which: int) -> tuple[float, float]:
    """Return the ratio of summed variances and its standard error, by influence over data sets."""
    plain, replayed = (np.square(answers[:, j] - answers[:, j].mean(axis=0)).sum(axis=1) for j in (0, which))
    ratio = replayed.mean() / plain.mean()
    return float(ratio), float(np.std(replayed - ratio * plain) / plain.mean() / np.sqrt(len(answers)))


def main() -> None:
    rows = {}
    for seed, (name, law) in enumerate(LAWS.items()):
        result, row = simulated(law, 100 + seed), {}
        for which, statistic in enumerate(("U", "V"), start=1):
            ratio, error = measured_ratio(result["answers"], which)
            predicted = result["found"][statistic]
            row[statistic] = {
                "measured": ratio,
                "measured_se": error,
                "predicted": float(predicted[:, 0].mean()),
                "predicted_sd": float(predicted[:, 0].std()),
                "predicted_se": float(predicted[:, 1].mean()),
                "sign_right": float(np.mean((predicted[:, 0] < 1) == (ratio < 1))),
            }
            row[statistic] = {key: round(value, 4) for key, value in row[statistic].items()}
        rows[name] = row
        print(name, row, flush=True)
    (HERE / "results" / "second_order.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    figure, axes = new_figure(1, 1, size=(5.2, 4.6))
    ax = axes[0, 0]
    for statistic, colour in (("U", "#0072B2"), ("V", "#D55E00")):
        cells = [row[statistic] for row in rows.values()]
        ax.errorbar([c["predicted"] for c in cells], [c["measured"] for c in cells],
                    xerr=[c["predicted_sd"] for c in cells], yerr=[2 * c["measured_se"] for c in cells],
                    fmt="o", markersize=4, linewidth=0.8, color=colour, label=statistic)  # fmt: skip
    ax.plot([0.87, 1.07], [0.87, 1.07], color="#777777", linewidth=0.8)
    ax.set_xlabel("predicted from one data set (mean ± standard deviation)", fontsize=8)
    ax.set_ylabel("measured Var(replay) / Var(plug-in) ± 2 standard errors", fontsize=8)
    ax.legend(fontsize=8, frameon=False)
    figure.savefig(HERE.parent / "docs" / "figures" / "second_order.png", dpi=150)


if __name__ == "__main__":
    main()
