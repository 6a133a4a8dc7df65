"""Three smaller checks behind docs/explanation/regularisation.md: kernel penalties, kernel widths, intervals.

python benchmarks/regularisation_checks.py
"""

from __future__ import annotations

import math

import numpy as np

import replaystats as rs
from replaystats.kernel.kernels import make_kernel
from replaystats.kernel.scaling import Scaling
from replaystats.tuning.penalties import choose_kernel, kernel_penalties
from replaystats.tuning.recommended import recommended_estimate

N_REPETITIONS = 30
WIDTH_FACTORS = 4.0 ** np.arange(-3, 4)


def cell(values) -> str:
    return f"{np.mean(values):.3f} ({np.std(values, ddof=1) / math.sqrt(len(values)):.3f})"


def draw(function, n, p, noise, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, p))
    return X, function(X) + noise * rng.normal(size=n)


def kernel_penalty_table() -> None:
    """RMSE of full and replayed kernel ridge, with the published penalty and the chosen one."""
    function, kernel = rs.simulate.two_bumps_function, make_kernel("rbf", n_features=2)
    points = np.random.default_rng(1).uniform(size=(300, 2))
    print(
        "| n, k | full, n^(-2/3) | full, leave-one-out | replay, n^(-2/3) | replay, chosen |\n"
        + "|---" * 5
        + "|"
    )
    for n, k in ((100, 20), (100, 50), (250, 20), (250, 125)):
        errors = []
        for seed in range(N_REPETITIONS):
            X, y = draw(function, n, 2, 0.5, seed)
            whole = rs.make_plan(n, statistic="U", subsample_size=n, n_resamples=1, random_state=0)
            plan = rs.make_plan(n, statistic="U", subsample_size=k, n_resamples=100, random_state=seed)
            units = Scaling.of(X)(X)
            single = kernel_penalties(kernel(units, units), y - y.mean()).best
            published = n ** (-2 / 3)
            fits = ((published, whole), (single, whole), (published, plan), ("auto", plan))
            for alpha, subsets in fits:
                model = rs.ReplayKernelRidge(alpha, gamma=None, standardize="global").fit(X, y, plan=subsets)
                errors.append(math.sqrt(np.mean((model.predict(points) - function(points)) ** 2)))
        columns = np.array(errors).reshape(-1, 4).T
        print(f"| {n}, {k} | " + " | ".join(cell(column) for column in columns) + " |", flush=True)


def width_table() -> None:
    """RMSE of one fit with the width of smallest leave-one-out error, the chosen one, and the heuristic."""
    settings = {
        "two bumps, n=100": (rs.simulate.two_bumps_function, 100, 2, 0.5),
        "two bumps, n=250": (rs.simulate.two_bumps_function, 250, 2, 0.5),
        "two bumps, n=200, little noise": (rs.simulate.two_bumps_function, 200, 2, 0.05),
        "sin 20x, n=100": (lambda X: np.sin(20 * X[:, 0]), 100, 1, 0.3),
        "sin 3x, n=100": (lambda X: np.sin(3 * X[:, 0]), 100, 1, 0.3),
        "five columns, n=200": (lambda X: np.sin(4 * X[:, 0]) * X[:, 1], 200, 5, 0.2),
    }
    print("| setting | smallest error | chosen | median heuristic |\n" + "|---" * 4 + "|")
    for name, (function, n, p, noise) in settings.items():
        points = np.random.default_rng(1).uniform(size=(300, p))
        errors = []
        for seed in range(N_REPETITIONS):
            X, y = draw(function, n, p, noise, seed)
            kernel, units = make_kernel("rbf", n_features=p), Scaling.of(X)(X)
            heuristic = 1 / np.median(np.sum((units[:, None] - units) ** 2, axis=2)[np.triu_indices(n, 1)])
            curves = {
                gamma: kernel_penalties(
                    make_kernel("rbf", n_features=p, gamma=gamma)(units, units), y - y.mean()
                )
                for gamma in heuristic * WIDTH_FACTORS
            }
            smallest = min(curves, key=lambda gamma: curves[gamma].errors.min())
            chosen = choose_kernel(units, y - y.mean(), kernel)[0].value
            whole = rs.make_plan(n, statistic="U", subsample_size=n, n_resamples=1, random_state=0)
            for gamma in (smallest, min(curves, key=lambda g: abs(g - chosen)), heuristic):
                model = rs.ReplayKernelRidge(curves[gamma].best, gamma=gamma, standardize="global")
                prediction = model.fit(X, y, plan=whole).predict(points)
                errors.append(math.sqrt(np.mean((prediction - function(points)) ** 2)))
        columns = np.array(errors).reshape(-1, 3).T
        print(f"| {name} | " + " | ".join(cell(column) for column in columns) + " |", flush=True)


def coverage_table() -> None:
    """Coverage of 95 % intervals around the recommended estimate, where the problem is well-posed."""
    basis = rs.basis.Fourier(4)
    X = basis(np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])[:, None])

    def moments(n, seed):
        data = rs.simulate.ornstein_uhlenbeck(n, start="uniform", random_state=seed)
        return rs.lstd_moments(data, basis, discount=math.exp(-0.1))

    truth = X @ rs.plug_in(moments(1_000_000, 99)).theta  # the population's solution, to 0.002
    print("| n | recommended | plug-in | width ratio |\n" + "|---" * 4 + "|")
    for n, n_repetitions in ((200, 150), (1000, 100)):
        rows = []
        for seed in range(n_repetitions):
            data = moments(n, 7000 + seed)
            ours = recommended_estimate(data, n_resamples=300, random_state=seed).estimate
            intervals = (ours.confidence_interval(X), rs.plug_in(data).confidence_interval(X))
            covered = [np.mean((low <= truth) & (truth <= high)) for low, high in intervals]
            widths = [np.mean(high - low) for low, high in intervals]
            rows.append([*covered, widths[0] / widths[1]])
        print(f"| {n} | " + " | ".join(cell(column) for column in np.array(rows).T) + " |", flush=True)


if __name__ == "__main__":
    for table in (kernel_penalty_table, width_table, coverage_table):
        print(f"\n{table.__doc__}\n")
        table()
