"""The numbers of a diagnosis: predicted gain and bias, Monte-Carlo share, distance to singularity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .._core.arrays import to_numpy
from .._core.typing import FloatArray
from ..engine import replicate
from ..engine.linear import LinearPart, linearise
from ..plans import make_plan
from .components import ReplayVariance, variance_at
from .functional_moments import functional_shifts
from .influence import jackknife_bias, jackknife_covariance, leverage_covariance
from .location import CONTROLLED_METHODS
from .stability import PILOT_RESAMPLES, PILOT_SEED, Stability
from .variance import replay_variance

MONTE_CARLO_TARGET = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Predicted variance and mean squared error of complete replay over those of the plug-in, if known."""

    variance_ratio: float | None = None
    error_ratio: float | None = None
    plug_in_variance: FloatArray | None = None  # of every functional


def predicted_gain(stability: Stability, X: FloatArray | None) -> Gain:
    """Predict from the one data set what replay does; nothing is known where subsets cross singularity.

    The variance ratio is the controlled infinitesimal jackknife over the delete-one jackknife of the
    plug-in, summed over the functionals. With replacement that estimate is biased; subsets of
    k' = n k / (n + k) without replacement, which behave alike, take its place (a pilot is drawn for them).
    """
    without = _as_without_replacement(stability)
    if not without.controllable:
        return Gain()
    replicates = without.replicates
    plain = jackknife_covariance(replicates.moments, replicates.solver)
    replayed = theta_variance(without).sampling
    plug_in_variance = variance_at(X, plain)
    plain_sum, replayed_sum = plug_in_variance.sum(), variance_at(X, replayed).sum()
    bias = np.square(replay_bias(stability, X)).sum()
    plain_bias = stability.replicates.plan.design.bias_share**2 * bias
    return Gain(
        variance_ratio=_ratio(replayed_sum, plain_sum),
        error_ratio=_ratio(replayed_sum + bias, plain_sum + plain_bias),
        plug_in_variance=plug_in_variance,
    )


def _ratio(replayed: float, plain: float) -> float:
    """Return their ratio; one where the plug-in has no error, so that there is none to take off."""
    return float(replayed / plain) if plain > 0.0 else 1.0


def replay_bias(stability: Stability, X: FloatArray | None) -> FloatArray:
    """Estimate the bias of X theta for the replicates' average, shape (m,) or (m, n_outputs).

    The bias is of order 1/k (U) or 1/k + 1/n (V), the plug-in's 1/n, with one constant: their difference,
    which is seen, gives it.
    """
    replicates = stability.replicates
    theta, kept = replicates.theta, ~replicates.failed
    if stability.control is not None:
        theta = theta - stability.control.values
    weights = replicates.plan.member_weights(replicates.failed)[kept]
    centre = np.average(theta[kept], axis=0, weights=weights)
    plug_in = replicates.solver.solve_full(replicates.moments).theta[0]
    return _apply(X, (centre - plug_in) / (1 - replicates.plan.design.bias_share))


def plug_in_bias(stability: Stability, X: FloatArray | None) -> FloatArray:
    """Estimate the plug-in's bias by the jackknife; from the pilot where the jackknife does not exist."""
    if stability.singular or stability.linear is None:
        return stability.replicates.plan.design.bias_share * replay_bias(stability, X)
    return _apply(X, jackknife_bias(stability.replicates.moments, stability.replicates.solver))


def bias_members(stability: Stability) -> FloatArray:
    """Return c (h_b - L_b) of every subset: their mean less c P is the bias of the plug-in.

    L_b is the linear part, and c = k / (n - k) (U) or k / n (V); see `debias`.
    """
    assert stability.linear_part is not None
    share = stability.replicates.plan.design.bias_share
    members: FloatArray = share / (1 - share) * (stability.replicates.theta - stability.linear_part.values)
    return members


def debiased_members(stability: Stability) -> FloatArray:
    """Return (1 + c) P + L_b - c (h_b - L_b) of every subset, whose linear part is that of h_b."""
    assert stability.linear_part is not None
    replicates, share = stability.replicates, stability.replicates.plan.design.bias_share
    plug_in = replicates.solver.solve_full(replicates.moments).theta[0]
    members: FloatArray = plug_in / (1 - share) + stability.linear_part.values - bias_members(stability)
    return members


def theta_variance(stability: Stability, method: str = "mean", trim: float = 0.1) -> ReplayVariance:
    """Return the covariance of theta of an average, with the control variate where that is allowed."""
    replicates, known = stability.replicates, method in CONTROLLED_METHODS
    linear = stability.linear_part if known else stability.control
    if method == "debiased":
        assert linear is not None
        moves = _debiased_influence(stability)
        linear = _KnownInfluence(
            values=linear.values, solution=linear.solution, moments=linear.moments, moves=moves
        )
    found = replay_variance(
        debiased_members(stability) if method == "debiased" else replicates.theta,
        replicates.plan,
        failed=replicates.failed,
        method="controlled" if known else method,
        trim=trim,
        linear=linear,
        plug_in=lambda: jackknife_covariance(replicates.moments, replicates.solver),
        covariance=True,
        # moments that live on a device are worked on there
        reference=replicates.moments.held,
    )
    if method == "debiased" or not (replicates.plan.with_replacement and stability.controllable):
        return found
    # With replacement the infinitesimal jackknife is a sandwich, which lacks leverage.
    return found.plus(leverage_covariance(replicates.moments, replicates.solver))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _KnownInfluence(LinearPart):
    """A linear part whose observations move the answers by what is given, shape (n, q[, n_outputs])."""

    moves: FloatArray

    def influence(self, row_blocks: list[slice]) -> Iterable[FloatArray]:
        return [self.moves[rows] for rows in row_blocks]


def _debiased_influence(stability: Stability) -> FloatArray:
    """Return (1 + c) J_i - c H_i, with J_i from leaving observations out and H_i the influence values.

    The plug-in moves by J_i when observation i leaves, the average by H_i and what its members that are not
    linear add; the combination by the same combination of both. J_i alone with replacement, where the average
    has the leverage of J_i, too.
    """
    replicates = stability.replicates
    moments, n = replicates.moments, replicates.moments.n_observations
    linear = linearise(moments, replicates.solver)
    identity = np.eye(moments.n_basis)
    shifts = [functional_shifts(moments, linear, identity, o) for o in range(moments.n_outputs or 1)]
    left_out = shifts[0] if moments.n_outputs is None else np.stack(shifts, axis=2)
    left_out = (n - 1) * (left_out - left_out.mean(axis=0))
    if replicates.plan.with_replacement:
        return np.asarray(left_out)
    assert stability.linear_part is not None
    share = replicates.plan.design.bias_share
    blocks = stability.linear_part.influence(replicates.plan.row_blocks)
    influence = np.concatenate([to_numpy(block) for block in blocks])
    return np.asarray((left_out - share * influence) / (1 - share))


def _as_without_replacement(stability: Stability) -> Stability:
    """Return replicates whose infinitesimal jackknife predicts these ones' variance."""
    replicates, plan = stability.replicates, stability.replicates.plan
    n, k = plan.n_observations, plan.subsample_size
    if plan.with_replacement:
        k = max(1, round(n * k / (n + k)))
    elif plan.design.kind in ("independent", "whole") and plan.observation_weights is None:
        return stability
    size = min(PILOT_RESAMPLES, plan.n_resamples)
    pilot = make_plan(n, statistic="U", subsample_size=k, n_resamples=max(2, size), random_state=PILOT_SEED)
    return Stability(
        replicates=replicate(replicates.moments, pilot, solver=replicates.solver, on_failure="drop")
    )


def _apply(X: FloatArray | None, theta: FloatArray) -> FloatArray:
    product: FloatArray = theta if X is None else X @ theta
    return product
