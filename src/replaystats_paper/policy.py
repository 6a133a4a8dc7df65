"""Policy evaluation: LSTD and PhiBE of orders 1 and 2 on the same data and the same subsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replaystats.basis import Fourier
from replaystats.moments import AnyMoments, Moments, lstd_moments, phibe_moments
from replaystats.plans import ResamplingPlan, make_plan
from replaystats.simulate import OrnsteinUhlenbeck
from replaystats.solvers import Solution, Solver
from replaystats.toolkit import FloatArray

from .cells import Cell, Settings, cell_stream
from .measures import METHODS, summarise

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

    def predictions(self, solution: Solution) -> FloatArray:
        """Return the value at the grid, shape (3 algorithms, 3 methods, m); failed subsets take no part."""
        theta = solution.theta.reshape(self.b.shape)
        groups = by_method(theta)
        with np.errstate(invalid="ignore"):
            failed = [~np.isfinite(group).all(axis=2) for group in groups]
        means = [_mean_of_good(group, bad) for group, bad in zip(groups, failed, strict=True)]
        return np.stack(means, axis=1) @ FEATURES.T


def by_method(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split the second axis (1 + 2 B) into plain, U and V."""
    n_resamples = values.shape[1] // 2
    return values[:, :1], values[:, 1 : 1 + n_resamples], values[:, 1 + n_resamples :]


def draw_systems(
    n: int, n_resamples: int, k: int, process: OrnsteinUhlenbeck, rng: np.random.Generator, *, start: str
) -> Systems:
    """Draw a data set and subsets, and sum the moments of the three algorithms over them.

    One product serves all three: their moments are columns of one matrix, so each subset is drawn once.
    """
    data = process.sample(n, 2, start=start, rng=rng)
    beta = process.discount_rate
    moments = [
        lstd_moments(data, BASIS, discount=process.discount),
        phibe_moments(data, BASIS, discount_rate=beta, order=1),
        phibe_moments(data, BASIS, discount_rate=beta, order=2),
    ]
    rows = np.concatenate([_rows(algorithm) for algorithm in moments], axis=1)  # (n, 3 q (q + 1))
    plans = [
        make_plan(n, statistic=statistic, subsample_size=k, n_resamples=n_resamples, rng=rng)
        for statistic in ("U", "V")
    ]
    sums = np.concatenate([rows.sum(axis=0)[None], *(_subset_sums(rows, plan) for plan in plans)])
    q = BASIS.n_basis
    stacked = sums.reshape(len(sums), len(ALGORITHMS), q * (q + 1)).swapaxes(0, 1)
    A, b = stacked[..., : q * q].reshape(len(ALGORITHMS), -1, q, q), stacked[..., q * q :].copy()
    return Systems(A, b, moments, plans)


def run_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Compute one cell of the policy grid: M data sets, three algorithms, plain and replayed."""
    process = OrnsteinUhlenbeck(discount_rate=settings.beta)
    solver = settings.parsed_solver
    predictions = np.empty((len(ALGORITHMS), len(METHODS), repetitions, len(GRID)))
    condition = np.empty((len(ALGORITHMS), len(METHODS), repetitions))
    truncated, failed = np.empty_like(condition), np.empty_like(condition)
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        systems = draw_systems(cell["n"], cell["B"], cell["k"], process, rng, start="paper")
        solution = systems.solve(solver)
        predictions[:, :, repetition] = systems.predictions(solution)
        shape = systems.b.shape[:2]
        condition[..., repetition] = _per_method(np.median, solution.condition.reshape(shape))
        truncated[..., repetition] = _per_method(np.mean, solution.truncated.reshape(shape))
        failed[..., repetition] = _per_method(np.sum, solution.failed.reshape(shape))
    truth = process.value(GRID)
    results: dict[str, Any] = {}
    for a, algorithm in enumerate(ALGORITHMS):
        results[algorithm] = summarise(predictions[a], truth)
        results[algorithm]["condition"] = _named(np.median(condition[a], axis=1))
        results[algorithm]["truncated"] = _named(truncated[a].mean(axis=1))
        results[algorithm]["failed"] = _named(failed[a].sum(axis=1))
    return results


def zero_rmse() -> float:
    """Return the RMSE of predicting 0 everywhere on the grid.

    Examples
    --------
    >>> round(zero_rmse(), 3)
    0.571
    """
    return float(np.sqrt(np.mean(OrnsteinUhlenbeck().value(GRID) ** 2)))


def _rows(moments: AnyMoments) -> FloatArray:
    assert isinstance(moments, Moments)  # q = 9 is far below the size from which moments are kept factored
    return moments.rows


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


def _named(values: np.ndarray) -> dict[str, float]:
    return {method: float(value) for method, value in zip(METHODS, values, strict=True)}
