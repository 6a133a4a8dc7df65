"""Policy evaluation: LSTD and PhiBE of orders 1 and 2 on the same data and the same subsets.

First the paper's grid; then what decides its results, every inverse on the same data sets and subsets, so
that nothing else differs between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replaystats import replicate
from replaystats.basis import Fourier
from replaystats.moments import FactoredMoments, Moments, lstd_moments, phibe_moments
from replaystats.plans import ResamplingPlan, make_plan
from replaystats.simulate import OrnsteinUhlenbeck
from replaystats.solvers import Lepski, PseudoInverse, Solution, Solver, parse_solver
from replaystats.toolkit import AnyMoments, FloatArray

from .cells import Cell, Settings, cell_stream
from .measures import METHODS, rmse, squared_iqr

ALGORITHMS = ("lstd", "phibe1", "phibe2")
BASIS = Fourier(4)
GRID = np.linspace(-np.pi, np.pi, 50)
FEATURES = BASIS(GRID)  # (m, q)


@dataclass(frozen=True, slots=True, eq=False)
class Systems:
    """The linear systems of one data set: all subsets of U and V, and the whole data.

    Attributes
    ----------
    A : ndarray of shape (3, 1 + 2 B, q, q)
        By algorithm; first the whole data, then the B subsets of U, then those of V.
    b : ndarray of shape (3, 1 + 2 B, q)
    moments : sequence of Moments
        What was summed, by algorithm.
    plans : sequence of ResamplingPlan
        Over which subsets: U, V.
    """

    A: FloatArray
    b: FloatArray
    moments: Sequence[AnyMoments]
    plans: Sequence[ResamplingPlan]

    def solve(self, solver: Solver) -> Solution:
        """Solve all of them in one call."""
        q = self.b.shape[-1]
        return solver.solve(self.A.reshape(-1, q, q), self.b.reshape(-1, q))

    def predictions(self, theta: FloatArray, features: FloatArray) -> FloatArray:
        """Return X theta at features (m, q): (3 algorithms, 3 methods, m); failed subsets take no part."""
        groups = by_method(theta.reshape(self.b.shape))
        with np.errstate(invalid="ignore"):
            failed = [~np.isfinite(group).all(axis=2) for group in groups]
        means = [_mean_of_good(group, bad) for group, bad in zip(groups, failed, strict=True)]
        return np.stack(means, axis=1) @ features.T


def by_method(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split the second axis (1 + 2 B) into plain, U and V."""
    n_resamples = values.shape[1] // 2
    return values[:, :1], values[:, 1 : 1 + n_resamples], values[:, 1 + n_resamples :]


def draw_systems(
    data: Any, n_resamples: int, k: int, process: OrnsteinUhlenbeck, rng: np.random.Generator
) -> Systems:
    """Sum the moments of the data over B subsets each of U and V, for all algorithms at once."""
    beta = process.discount_rate
    moments = [
        lstd_moments(data, BASIS, discount=process.discount),
        phibe_moments(data, BASIS, discount_rate=beta, order=1),
        phibe_moments(data, BASIS, discount_rate=beta, order=2),
    ]
    rows = np.concatenate([_rows(algorithm) for algorithm in moments], axis=1)  # (n, 3 q (q + 1))
    plans = [
        make_plan(len(rows), statistic=statistic, subsample_size=k, n_resamples=n_resamples, random_state=rng)
        for statistic in ("U", "V")
    ]
    sums = np.concatenate([rows.sum(axis=0)[None], *(_subset_sums(rows, plan) for plan in plans)])
    q = BASIS.n_basis
    stacked = sums.reshape(len(sums), len(ALGORITHMS), q * (q + 1)).swapaxes(0, 1)
    A, b = stacked[..., : q * q].reshape(len(ALGORITHMS), -1, q, q), stacked[..., q * q :].copy()
    return Systems(A, b, moments, plans)


def paper_estimates(
    data: Any,
    points: FloatArray,
    rng: np.random.Generator,
    B: int,
    k: int,
    discount_rate: float = 1.0,
    solver: str = "pinv",
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return the values of all algorithms, plain, U and V, on one data set: (9, m).

    Beside them, by algorithm and method: the median condition number of the matrices, and the mean number of
    directions that were dropped.
    """
    systems = draw_systems(data, B, k, OrnsteinUhlenbeck(discount_rate=discount_rate), rng)
    solution = systems.solve(parse_solver(solver))
    shape = systems.b.shape[:2]
    facts = {
        "condition": _per_method(np.median, solution.condition.reshape(shape)),
        "truncated": _per_method(np.mean, solution.truncated.reshape(shape)),
    }
    values = systems.predictions(solution.theta, BASIS(points))
    return values.reshape(-1, len(points)), {name: fact.ravel() for name, fact in facts.items()}


def zero_rmse() -> float:
    """Return the RMSE of predicting 0 everywhere on the grid.

    Examples
    --------
    >>> round(zero_rmse(), 3)
    0.571
    """
    return float(np.sqrt(np.mean(OrnsteinUhlenbeck().value(GRID) ** 2)))


def _rows(moments: AnyMoments) -> FloatArray:
    """Return [vec g | f] of every trajectory, written out also where moments are kept as factors."""
    dense = moments.multiply_out() if isinstance(moments, FactoredMoments) else moments
    assert isinstance(dense, Moments)  # in memory
    return dense.rows


def _subset_sums(rows: FloatArray, plan: ResamplingPlan) -> FloatArray:
    """Return the sums of `rows` over every subset, shape (B, columns)."""
    tiles = []
    for tile, _ in plan.tiles():
        blocks = [plan.draw(tile, block).counts() @ rows[part] for block, part in enumerate(plan.row_blocks)]
        tiles.append(sum(blocks[1:], start=blocks[0]))
    return np.concatenate(tiles)


def _mean_of_good(theta: np.ndarray, failed: np.ndarray) -> np.ndarray:
    """Average (3, B, q) over the subsets that did not fail; NaN where all did."""
    good = (~failed).sum(axis=1)
    total = np.where(failed[..., None], 0.0, theta).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(good[:, None] > 0, total / good[:, None], np.nan)


def _per_method(reduce: Any, values: np.ndarray) -> np.ndarray:
    """Reduce (3, 1 + 2 B) to (3 algorithms, 3 methods)."""
    return np.stack([reduce(group, axis=1) for group in by_method(values)], axis=1)


# Lepski's rule looks at every observation, so that fewer subsets must do.
BALANCED = "chosen"
BALANCED_RESAMPLES = 30


# What is compared, by label; rcond = 0 is the plain inverse.
INVERSES: dict[str, Solver] = {"published": PseudoInverse(), "rcond=0": PseudoInverse(0.0)}


def run_ablation_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Compute "paper" with every inverse, or "beta=0.1" or "uniform" (starts that cover the grid)."""
    beta = 0.1 if cell["setting"] == "beta=0.1" else 1.0
    process = OrnsteinUhlenbeck(discount_rate=beta)
    start = "uniform" if cell["setting"] == "uniform" else "paper"
    names = list(INVERSES) if cell["setting"] == "paper" else ["published"]
    labels = [*names, BALANCED] if cell["setting"] == "paper" else names
    predictions = np.empty((len(labels), len(ALGORITHMS), len(METHODS), repetitions, len(GRID)))
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        data = process.sample(cell["n"], 2, start=start, random_state=rng)
        systems = draw_systems(data, cell["B"], cell["k"], process, rng)
        for i, name in enumerate(names):
            predictions[i, :, :, repetition] = systems.predictions(
                systems.solve(INVERSES[name]).theta, FEATURES
            )
        if BALANCED in labels:
            predictions[-1, :, :, repetition] = _balanced(systems)
    truth = process.value(GRID)
    return {
        algorithm: {label: _row(predictions[i, a], truth) for i, label in enumerate(labels)}
        for a, algorithm in enumerate(ALGORITHMS)
    }


def _balanced(systems: Systems) -> FloatArray:
    """Return predictions (3 algorithms, 3 methods, m) with the penalty that Lepski's rule finds."""
    rule = Lepski(targets=FEATURES)
    plans = [replace(plan, n_resamples=min(BALANCED_RESAMPLES, plan.n_resamples)) for plan in systems.plans]
    thetas = [
        [
            rule.solve_full(moments).theta[0],
            *(replicate(moments, plan, solver=rule).theta.mean(axis=0) for plan in plans),
        ]
        for moments in systems.moments
    ]
    return np.asarray(np.array(thetas) @ FEATURES.T)


def _row(predictions: FloatArray, truth: FloatArray) -> dict[str, dict[str, float]]:
    """Summarise (3 methods, M, m): medians of variance, squared IQR and RMSE."""
    medians = {
        "variance": np.median(predictions.var(axis=1, ddof=1), axis=-1),
        "iqr2": np.median(squared_iqr(predictions), axis=-1),
        "rmse": np.median(rmse(predictions, truth), axis=-1),
    }
    return {measure: dict(zip(METHODS, values.tolist(), strict=True)) for measure, values in medians.items()}
