"""Errors of the plug-in, of Lepski's rule once and replayed, and of the recommended method, on known truths.

python benchmarks/regularisation.py --n-repetitions 100 > table.md

Every cell is ``median / rms`` of the root mean squared error over the data sets, and the standard error of
the median by resampling the data sets. Seeds are fixed: data set i is the same for every method.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

import replaystats as rs
from replaystats.solvers import Lepski, PseudoInverse
from replaystats.tuning.recommended import recommended_estimate

FIRST_SEED = 20_000
N_RESAMPLES = 100
GRID = np.linspace(-math.pi, math.pi, 50)[:, None]
FOURIER = rs.basis.Fourier(4)
ALGORITHMS = ("LSTD", "PhiBE-1", "PhiBE-2")
METHODS = (
    "plug-in",
    "replay U .3n",
    "Lepski, grid 1.5",
    "Lepski 1.5",
    "Lepski 1.5, U .3n",
    "Lepski 0.5, V n",
    "recommended",
)

Problem = tuple[rs.Moments, np.ndarray, np.ndarray]  # moments, features of the targets, their true values


def moments_of(data, basis, algorithm, process):
    if algorithm == "LSTD":
        return rs.moments.lstd_moments(data, basis, discount=process.discount)
    order = int(algorithm[-1])
    return rs.moments.phibe_moments(data, basis, discount_rate=process.discount_rate, order=order)


def paper(algorithm, n, start) -> Callable[[np.random.Generator], Problem]:
    """The paper's process and basis; the truth is cos^3, as in the paper."""
    process = rs.simulate.OrnsteinUhlenbeck(dt=0.1, discount_rate=1.0)

    def draw(rng):
        moments = moments_of(process.sample(n, 2, start=start, random_state=rng), FOURIER, algorithm, process)
        return moments, FOURIER(GRID), np.cos(GRID[:, 0]) ** 3

    return draw


def hermite(algorithm, n, degree) -> Callable[[np.random.Generator], Problem]:
    """A stable process seen through unscaled polynomials, judged under its stationary law."""
    process = rs.simulate.HermiteOU(dt=0.1)
    basis = rs.basis.Polynomial(degree)
    states = process.stationary_sd * np.random.default_rng(0).normal(size=(400, 1))

    def draw(rng):
        moments = moments_of(process.sample(n, 2, random_state=rng), basis, algorithm, process)
        truth = process.discrete_value(states) if algorithm == "LSTD" else process.value(states)
        return moments, basis(states), truth

    return draw


def least_squares(n, q, size) -> Callable[[np.random.Generator], Problem]:
    """Homoskedastic least squares, where nothing unbiased beats the plug-in."""

    def draw(rng):
        X = rng.normal(size=(n, q))
        theta = np.full(q, size)
        return rs.moments.ridge_moments(X, X @ theta + rng.normal(size=n)), np.eye(q), theta

    return draw


def instrument(n, strength) -> Callable[[np.random.Generator], Problem]:
    """One endogenous regressor, one instrument with concentration parameter `strength`."""

    def draw(rng):
        z, u, v = rng.normal(size=(3, n))
        x = math.sqrt(strength / n) * z + 0.5 * u + math.sqrt(0.75) * v
        return rs.Moments(z * x, z * (x + u)), np.eye(1), np.ones(1)

    return draw


def settings() -> dict[str, Callable[[np.random.Generator], Problem]]:
    cells = {}
    for start, sizes in (("paper", (500, 1000, 2500, 5000)), ("uniform", (200, 1000))):
        for n in sizes:
            cells |= {f"{start} {n}, {name}": paper(name, n, start) for name in ALGORITHMS}
    for sd in (0.5, 1.0):
        cells |= {f"sd {sd:g} 500, {name}": paper(name, 500, sd) for name in ALGORITHMS}
    for degree in (3, 5):
        for n in (200, 1000):
            cells[f"Hermite, polynomials to {degree}, {n}, LSTD"] = hermite("LSTD", n, degree)
    cells |= {"least squares 50": least_squares(50, 5, 1.0), "least squares 200": least_squares(200, 5, 1.0)}
    cells |= {f"instrument {strength}, 100": instrument(100, strength) for strength in (4, 16, 64)}
    return cells


def estimates(problem: Problem, seed: int) -> dict[str, np.ndarray]:
    moments, features, _ = problem
    n = len(moments)

    def replayed(statistic, size, solver):
        plan = rs.make_plan(
            n, statistic=statistic, subsample_size=size, n_resamples=N_RESAMPLES, random_state=seed
        )
        return rs.average(rs.replicate(moments, plan, solver=solver, on_failure="drop")).theta

    answers = (
        rs.plug_in(moments, PseudoInverse()).theta,
        replayed("U", 0.3, PseudoInverse()),
        rs.plug_in(moments, Lepski(1.5, targets=features)).theta,
        rs.plug_in(moments, Lepski()).theta,
        replayed("U", 0.3, Lepski()),
        replayed("V", 1.0, Lepski(0.5)),
        recommended_estimate(moments, n_resamples=N_RESAMPLES, random_state=seed).estimate.theta,
    )
    return dict(zip(METHODS, answers, strict=True))


def summary(errors: np.ndarray) -> str:
    resampled = np.random.default_rng(0).choice(errors, (400, len(errors)))
    return (
        f"{np.median(errors):.3f} / {math.sqrt(np.mean(errors**2)):.3f} "
        f"({np.median(resampled, axis=1).std():.3f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--n-repetitions", type=int, default=100)
    parser.add_argument("--only", default="", help="settings whose name contains this")
    arguments = parser.parse_args()
    print("| setting | " + " | ".join(METHODS) + " |")
    print("|---" * (len(METHODS) + 1) + "|")
    for name, draw in settings().items():
        if arguments.only not in name:
            continue
        errors: dict[str, list[float]] = {method: [] for method in METHODS}
        for repetition in range(arguments.n_repetitions):
            seed = FIRST_SEED + repetition
            problem = draw(np.random.default_rng(seed))
            for method, theta in estimates(problem, seed).items():
                errors[method].append(math.sqrt(np.mean((problem[1] @ theta - problem[2]) ** 2)))
        cells = (summary(np.array(errors[method])) for method in METHODS)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
