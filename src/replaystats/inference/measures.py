"""Predicted errors of estimates: variance, bias, Monte-Carlo share; and the estimate with the smallest."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .._core.arrays import to_numpy
from .._core.choice import Choice
from .._core.errors import ReplayWarning
from .._core.thresholds import (
    CLEARLY_SEEN,
    HEAVY_TAIL,
    PILOT_RESAMPLES,
    SAME_BIAS,
    WORTHWHILE,
)
from .._core.typing import FloatArray
from ..engine import replicate
from ..engine.linear import LinearPart, linearise
from ..plans import ResamplingPlan, make_plan
from .components import CONTROLLED_METHODS, ReplayVariance, variance_at
from .influence import jackknife_bias, jackknife_covariance, leverage_covariance
from .noise import functional_shifts
from .stability import PILOT_SEED, Stability
from .variance import replay_variance


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

    L_b is the linear part, and c = k / (n - k) (U) or k / n (V).
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


# The bias that averages over subsets show, taken off; and which estimate has the smallest predicted error.
#
# For smooth estimators E h_k = theta + a / k + O(1 / k^2), also at k = n. So the average over subsets of k
# observations lies on a line in 1 / k with the plug-in, and the line at 1 / k = 0 has no bias of this order:
#
#     debiased = P - c (R - P),    c = k / (n - k) without replacement, k / n with it,
#
# with P the plug-in and R the average (2 P - R for half-samples). It is itself an average over the subsets,
# of (1 + c) P + L_b - c (h_b - L_b), where L_b is the linear part of h_b with mean zero: every formula for
# averages with a known linear part holds. A second size says whether there is a line: it has to find the
# same bias.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BiasLaw:
    """The bias of the plug-in as two sizes of subsets see it, at m questions.

    Attributes
    ----------
    bias : ndarray of shape (m,) or (m, n_outputs)
        From the subsets at hand.
    remainder : ndarray of the same shape
        What the next order, from both sizes, would add to it: the bias that is left after taking it off.
    variance : ndarray of the same shape
        Of `bias`, Monte-Carlo noise included.
    confirmed : bool
    reason : str
        Why, or why not.
    """

    bias: FloatArray
    remainder: FloatArray
    variance: FloatArray
    confirmed: bool
    reason: str


def bias_law(stability: Stability, X: FloatArray | None = None) -> BiasLaw | None:
    """Return whether subsets of two sizes agree about the plug-in's bias; None where none can be found.

    Parameters
    ----------
    stability : Stability
        Of the replicates at hand; as many subsets of 0.7 times their size are drawn and solved, always the
        same ones.
    X : ndarray of shape (m, q), optional
        Questions whose biases are compared; default the coefficients, in units of their standard errors.
    """
    plan = stability.replicates.plan
    if not _has_a_law(plan) or not stability.controllable:
        return None
    X = _own_units(stability) if X is None else X
    bias = plan.design.bias_share * replay_bias(stability, X)
    second = stability.smaller
    parts = replay_variance(bias_members(stability), plan, covariance=True).components(X)
    variance = np.maximum(parts.sampling, 0.0) + parts.monte_carlo
    k, k_second = plan.subsample_size, second.replicates.plan.subsample_size
    size, n_seen = float(np.square(bias).sum()), float(variance.sum())
    if not second.controllable:
        return _law(
            bias, np.full_like(bias, np.inf), variance, "", f"subsets of {k_second} cross singularity"
        )
    other = second.replicates.plan.design.bias_share * replay_bias(second, X)
    apart = float(np.square(bias - other).sum())
    remainder = (bias - other) * (k_second / (k - k_second))
    share = np.sqrt(apart / size) if size > 0 else np.inf
    found = f"subsets of {k} and of {k_second} observations"
    if size <= CLEARLY_SEEN * n_seen:
        return _law(bias, remainder, variance, "", f"{found} show no bias that stands out from noise")
    if share > SAME_BIAS:
        return _law(bias, remainder, variance, "", f"{found} differ by {share:.0%} of the bias they find")
    return _law(bias, remainder, variance, f"{found} find the same bias, up to {share:.0%} of it", "")


def choose_estimate(stability: Stability, X: FloatArray | None = None) -> Choice:
    """Choose "plug_in", "controlled", "median" or "debiased": the smallest predicted squared error at X.

    Where a subset crosses singularity (or fails, or loses a direction) single answers are huge, the plug-in
    of another data set might be one of them, and no variance predicts this: the median. Else squared errors
    are predicted and summed over the questions,

        plug-in   jackknife variance + bias^2
        replay    variance of the average + (n / k bias)^2 (without replacement)
        debiased  variance of the combination + remainder^2, where the law is confirmed

    with bias^2 less the variance of the bias itself; the plug-in unless another is better by 3 %.

    Parameters
    ----------
    stability : Stability
    X : ndarray of shape (m, q), optional
        Questions; default the coefficients, in units of their standard errors.

    Returns
    -------
    Choice
        Of the method, with the predicted errors in words.
    """
    plan = stability.replicates.plan
    if not stability.controllable:
        if plan.subset_weights is not None:
            return Choice("plug_in", "some subsets are nearly singular, and a weighted plan has no median")
        return _median(stability)
    law = bias_law(stability, X)
    if law is None:
        return Choice("plug_in", "nothing predicts the error of averages over such subsets")
    X = _own_units(stability) if X is None else X
    squared = float(max(0.0, np.square(law.bias).sum() - law.variance.sum()))
    plain = jackknife_covariance(stability.replicates.moments, stability.replicates.solver)
    errors = {
        "plug_in": float(variance_at(X, plain).sum()) + squared,
        "controlled": _variance_sum(stability, "controlled", X) + squared / plan.design.bias_share**2,
    }
    if law.confirmed:
        remainder = float(np.square(law.remainder).sum())
        errors["debiased"] = _variance_sum(stability, "debiased", X) + remainder
    plain_error = errors.pop("plug_in")
    if not plain_error > 0.0:
        return Choice("plug_in", "the data show neither noise nor bias")
    best = min(errors, key=errors.__getitem__)
    best = best if errors[best] < WORTHWHILE * plain_error else "plug_in"
    others = ", ".join(f"{name} {error / plain_error:.2f}" for name, error in errors.items())
    return Choice(best, f"predicted squared error over that of the plug-in: {others}; {law.reason}")


def resolve_method(stability: Stability | None, method: str, X: FloatArray | None) -> Choice | None:
    """Resolve what "auto", "debiased" and "best" stand for; None for a method that stands for itself."""
    if method == "best":
        assert stability is not None
        return choose_estimate(stability, X)
    if method == "auto":
        return _usual(stability)
    if method != "debiased":
        return None
    assert stability is not None
    law = bias_law(stability)
    if law is not None and law.confirmed:
        return Choice("debiased", law.reason)
    reason = "subsets of such a kind, or that cross singularity, show no law" if law is None else law.reason
    message = f'No bias of the order 1 / k is confirmed ({reason}): "debiased" hands back what "auto" takes.'
    warnings.warn(message, ReplayWarning, stacklevel=4)
    return Choice(_usual(stability).value, reason)


def _usual(stability: Stability | None) -> Choice:
    """Return the mean, less its linear noise where known, or the median where single answers are huge."""
    if stability is None or not stability.replicates.solver.is_linear:
        return Choice("mean", "nothing is known about single subsets")
    heavy = stability.tail_index < HEAVY_TAIL
    if stability.controllable and not heavy:
        return Choice("controlled", "no subset crosses singularity: the linear part may be taken off")
    if stability.replicates.plan.subset_weights is not None:
        return Choice("mean", "a weighted plan has no median")
    return _median(stability)


def _median(stability: Stability) -> Choice:
    replicates = stability.replicates
    if (
        replicates.failed.any() or replicates.truncated.any()
    ):  # seen at once; eigenvalues cost more than the fit
        found = "subsets fail or lose directions"
    elif stability.singular:
        found = stability.singular
    elif stability.controllable:
        found = f"the answers of the subsets have heavy tails (index {stability.tail_index:.1f})"
    else:
        found = f"{stability.crossing_share:.1%} of the subsets cross singularity"
    return Choice("median", f"{found}, which ruins their mean and leaves their median alone")


def _law(bias: FloatArray, remainder: FloatArray, variance: FloatArray, why: str, why_not: str) -> BiasLaw:
    reason = why or why_not
    return BiasLaw(bias=bias, remainder=remainder, variance=variance, confirmed=bool(why), reason=reason)


def _has_a_law(plan: ResamplingPlan) -> bool:
    """Whether sizes of subsets mean what the law says: equal chances, independent observations, k < n."""
    design = plan.design
    known = design.kind in ("independent", "groups") and not design.doubt
    smaller = plan.with_replacement or plan.subsample_size < plan.n_observations
    return known and smaller and plan.observation_weights is None and plan.subsample_size > 2


def _own_units(stability: Stability) -> FloatArray:
    """Return functionals that divide each coefficient by its standard error (0 where it has none)."""
    plain = jackknife_covariance(stability.replicates.moments, stability.replicates.solver)
    variance = variance_at(None, plain)
    mean = variance if variance.ndim == 1 else variance.mean(axis=1)
    return np.diag(np.divide(1.0, np.sqrt(mean), out=np.zeros_like(mean), where=mean > 0))


def _variance_sum(stability: Stability, method: str, X: FloatArray) -> float:
    """Return the predicted variance of an average, summed over the questions."""
    return float(theta_variance(stability, method).components(X).total.sum())
