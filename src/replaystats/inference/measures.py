"""The numbers of a diagnosis: predicted gain and bias, Monte-Carlo share, distance to singularity."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._core.typing import FloatArray
from ..engine import replicate
from ..plans import ResamplingPlan, make_plan
from .covariance import variance_at
from .influence import jackknife_bias, jackknife_covariance
from .location import locate
from .replay import ReplayCovariance, replay_covariance, replicate_weights
from .validity import PILOT_RESAMPLES, PILOT_SEED, Validity

MONTE_CARLO_TARGET = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Predicted variance and mean squared error of complete replay over those of the plug-in."""

    variance_ratio: float
    error_ratio: float


def predicted_gain(validity: Validity, X: FloatArray | None) -> Gain | None:
    """Predict from the one data set what replay does; None where subsets cross singularity.

    The variance ratio is the controlled infinitesimal jackknife over the delete-one jackknife of the
    plug-in, summed over the functionals. With replacement that estimate is biased; subsets of
    k' = n k / (n + k) without replacement, which behave alike, take its place (a pilot is drawn for them).
    """
    without = _as_without_replacement(validity)
    if not without.controllable:
        return None
    replicates = without.replicates
    plain = jackknife_covariance(replicates.moments, replicates.solver)
    replayed = replay_covariance(replicates, control=without.linear).sampling
    plain_sum, replayed_sum = variance_at(X, plain).sum(), variance_at(X, replayed).sum()
    bias = np.square(replay_bias(validity, X)).sum()
    plain_bias = _plug_in_share(validity.replicates.plan) ** 2 * bias
    return Gain(
        variance_ratio=float(replayed_sum / plain_sum),
        error_ratio=float((replayed_sum + bias) / (plain_sum + plain_bias)),
    )


def replay_bias(validity: Validity, X: FloatArray | None) -> FloatArray:
    """Estimate the bias of X theta for the replicates' average, shape (m,) or (m, n_outputs).

    The bias is of order 1/k (U) or 1/k + 1/n (V), the plug-in's 1/n, with one constant: their difference,
    which is seen, gives it.
    """
    replicates = validity.replicates
    theta = replicates.theta[~replicates.failed]
    if validity.controllable:
        theta = theta - validity.linear_part
    centre = locate(theta, "mean", weights=replicate_weights(replicates), trim=0.0)
    plug_in = replicates.solver.solve_full(replicates.moments).theta[0]
    return _apply(X, (centre - plug_in) / (1 - _plug_in_share(replicates.plan)))


def plug_in_bias(validity: Validity, X: FloatArray | None) -> FloatArray:
    """Estimate the plug-in's bias by the jackknife; from the pilot where the jackknife does not exist."""
    if validity.singular or validity.linear is None:
        return _plug_in_share(validity.replicates.plan) * replay_bias(validity, X)
    return _apply(X, jackknife_bias(validity.replicates.moments, validity.replicates.solver))


def monte_carlo_share(covariance: ReplayCovariance, X: FloatArray | None) -> tuple[float, int]:
    """Return the Monte-Carlo share of the variance, and the subsets that would bring it to 1 %."""
    parts = covariance.components(X)
    noise, sampling = float(parts.monte_carlo.sum()), float(np.maximum(parts.sampling, 0).sum())
    if noise == 0:
        return 0.0, covariance.n_used
    share = noise / (noise + sampling)
    if sampling == 0:
        return share, covariance.n_used
    target = sampling * MONTE_CARLO_TARGET / (1 - MONTE_CARLO_TARGET)
    return share, max(1, math.ceil(covariance.n_used * noise / target))


def _plug_in_share(plan: ResamplingPlan) -> float:
    """Return the plug-in's bias as a share of replay's: k / n (U), k / (n + k) (V)."""
    n, k = plan.n_observations, plan.subsample_size
    if plan.with_replacement:
        return k / (n + k)
    # Replicates that are all the plug-in say nothing about a bias: 0 leaves their difference, 0, as it is.
    return k / n if k < n else 0.0


def _as_without_replacement(validity: Validity) -> Validity:
    """Return replicates whose infinitesimal jackknife predicts these ones' variance."""
    replicates, plan = validity.replicates, validity.replicates.plan
    n, k = plan.n_observations, plan.subsample_size
    if plan.with_replacement:
        k = max(1, round(n * k / (n + k)))
    elif plan.subset_groups is None and plan.observation_weights is None and plan.subset_weights is None:
        return validity
    size = min(PILOT_RESAMPLES, plan.n_resamples)
    pilot = make_plan(n, statistic="U", subsample_size=k, n_resamples=max(2, size), rng=PILOT_SEED)
    return Validity(
        replicates=replicate(replicates.moments, pilot, solver=replicates.solver, on_failure="drop")
    )


def _apply(X: FloatArray | None, theta: FloatArray) -> FloatArray:
    product: FloatArray = theta if X is None else X @ theta
    return product
