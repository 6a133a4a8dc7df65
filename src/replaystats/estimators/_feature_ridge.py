"""Ridge regression on features of a kernel, replayed over blocks of rows by the moment engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray
from ..basis import Basis
from ..engine import Executor, Replicates, replicate
from ..estimate import Estimate, average, plug_in
from ..inference.covariance import variance_at
from ..inference.leave_one_out import RidgeWithoutRows, ridge_leave_one_out
from ..kernel.scaling import Scaling
from ..moments import Moments, random_blocks, ridge_block_moments
from ..plans import ResamplingPlan, make_plan
from ..solvers import Ridge

# Units of replay: with fewer the variance is rough (a chi-square of so many degrees), more only cost.
MAX_BLOCKS = 200
MIN_BLOCKS = 20
# Replays, and the q^2 B up to which there are so many: the control variate needs few where q is large.
DEFAULT_RESAMPLES, FEWEST_RESAMPLES = 200, 20
REPLAYED_NUMBERS = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureUnits:
    """Which features a point has: units, widths, and a fitted basis."""

    scaling: Scaling | None
    widths: FloatArray  # (p,)
    basis: Basis

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return the features of X (m, p), shape (m, q)."""
        return self.basis(self.points(X))

    def points(self, X: FloatArray) -> FloatArray:
        """Return X in the units that the basis sees."""
        return (X if self.scaling is None else self.scaling(X)) * self.widths


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureRidge:
    """A replayed ridge regression in feature space.

    Attributes
    ----------
    features : FeatureUnits
    intercept : ndarray of shape (n_outputs,)
    alpha : float
        Penalty of the fit on all blocks.
    plug_in : Estimate
        The one fit on all blocks.
    estimate : Estimate
        The controlled mean of the fits on subsets of the blocks.
    total : ndarray of shape (q, q)
        Sum of (weighted) phi phi^T over all rows.
    """

    features: FeatureUnits
    intercept: FloatArray
    alpha: float
    plug_in: Estimate
    estimate: Estimate
    total: FloatArray

    @property
    def replicates(self) -> Replicates:
        """The fits on subsets of the blocks."""
        assert self.estimate.replicates is not None
        return self.estimate.replicates

    @property
    def plan(self) -> ResamplingPlan:
        """Subsets of blocks."""
        return self.replicates.plan

    @property
    def failed(self) -> BoolArray:
        """Fits that take no part in averages."""
        return self.replicates.failed

    def predict_mean(self, X: FloatArray, *, executor: Executor, memory_budget: int) -> FloatArray:
        """Return the replayed prediction at X (m, p), shape (m, n_outputs)."""
        return self._by_rows(X, memory_budget, lambda phi: phi @ self.estimate.theta) + self.intercept

    def predict_plug_in(self, X: FloatArray, memory_budget: int) -> FloatArray:
        """Return the prediction of the one fit on all blocks."""
        return self._by_rows(X, memory_budget, lambda phi: phi @ self.plug_in.theta) + self.intercept

    def predict_members(self, X: FloatArray, *, executor: Executor, memory_budget: int) -> FloatArray:
        """Return the prediction of every replicate at X (m, p), shape (B, m, n_outputs)."""
        theta = self.replicates.theta
        members = self._by_rows(X, memory_budget, lambda phi: np.moveaxis(phi @ theta, 0, 1))
        return np.moveaxis(members, 1, 0) + self.intercept

    def variance(self, X: FloatArray, memory_budget: int) -> FloatArray:
        """Return the variance of the mean prediction, shape (m, n_outputs)."""
        covariance = self.estimate.covariance
        variance = self._by_rows(X, memory_budget, lambda phi: variance_at(phi, covariance))
        return np.maximum(variance, 0.0)

    def leave_one_out(
        self, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None
    ) -> RidgeWithoutRows:
        """Leave every row out of the fit on all blocks."""
        centred = y - self.intercept
        return ridge_leave_one_out(
            self.features, X, centred, self.total, self.alpha, sample_weight=sample_weight
        )

    def __len__(self) -> int:
        return len(self.replicates)

    def _by_rows(self, X: FloatArray, memory_budget: int, function: Any) -> FloatArray:
        step = max(1, memory_budget // (32 * self.features.basis.n_basis))
        parts = [function(self.features(X[first : first + step])) for first in range(0, len(X), step)]
        return np.concatenate(parts)

    def __repr__(self) -> str:
        return f"FeatureRidge(q={self.features.basis.n_basis}, {self.replicates!r})"


def block_moments(
    features: FeatureUnits,
    X: FloatArray,
    y: FloatArray,
    sample_weight: FloatArray | None,
    *,
    memory_budget: int,
    rng: np.random.Generator,
) -> Moments:
    """Return the moments of random blocks of rows, as many as the budget allows up to 200."""
    q = features.basis.n_basis
    bytes_each = 4 * q * (q + 1)
    n_blocks = min(len(X), MAX_BLOCKS, memory_budget // (4 * bytes_each))
    if n_blocks < min(len(X), MIN_BLOCKS):
        needed = MIN_BLOCKS * 4 * bytes_each
        raise ValueError(must_be("memory_budget", f"at least {needed} bytes for {q} features", memory_budget))
    points = features.points(X)
    blocks = (
        (points[rows], y[rows], *(() if sample_weight is None else (sample_weight[rows],)))
        for rows in random_blocks(len(X), n_blocks, rng=rng)
    )
    return ridge_block_moments(blocks, features.basis)


def replay_blocks(
    features: FeatureUnits,
    moments: Moments,
    intercept: FloatArray,
    alpha: float,
    *,
    plan: ResamplingPlan | None,
    subsample_size: Any,
    n_resamples: int | None,
    executor: Executor,
    memory_budget: int,
    rng: np.random.Generator,
) -> FeatureRidge:
    """Fit ridge regression on subsets of the blocks.

    The penalty of a subset is alpha k / n, so that it weighs as much per row as on all data.
    """
    n, q = moments.n_observations, moments.n_basis
    if n_resamples is None:
        affordable = max(FEWEST_RESAMPLES, min(DEFAULT_RESAMPLES, REPLAYED_NUMBERS // q**2))
        # systems, their shifted copy, inverse and factors live at the same time
        n_resamples = max(2, min(affordable, memory_budget // (40 * q * q)))
    if plan is None:
        plan = make_plan(n, subsample_size=subsample_size, n_resamples=n_resamples, rng=rng)
    elif plan.n_observations != n:
        rule = f"made for the {n} blocks of rows"
        raise ValueError(must_be("plan", rule, f"n_observations={plan.n_observations}"))
    solver = Ridge(alpha * plan.subsample_size / n)
    replicates = replicate(moments, plan, solver=solver, executor=executor, memory_budget=memory_budget)
    return FeatureRidge(
        features=features,
        intercept=intercept,
        alpha=alpha,
        plug_in=plug_in(moments, Ridge(alpha)),
        estimate=average(replicates, "controlled"),
        total=moments.total()[0],
    )
