"""The bias that averages over subsets show, taken off; and which estimate has the smallest predicted error.

For smooth estimators E h_k = theta + a / k + O(1 / k^2), also at k = n. So the average over subsets of k
observations lies on a line in 1 / k with the plug-in, and the line at 1 / k = 0 has no bias of this order:

    debiased = P - c (R - P),    c = k / (n - k) without replacement, k / n with it,

with P the plug-in and R the average (2 P - R for half-samples). It is itself an average over the subsets, of
(1 + c) P + L_b - c (h_b - L_b), where L_b is the linear part of h_b with mean zero: every formula for
averages with a known linear part holds. A second size says whether there is a line: it has to find the same
bias.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from .._core.choice import Choice
from .._core.errors import ReplayWarning
from .._core.thresholds import CLEARLY_SEEN, HEAVY_TAIL, SAME_BIAS, WORTHWHILE
from .._core.typing import FloatArray
from ..plans import ResamplingPlan
from .components import variance_at
from .influence import jackknife_covariance
from .measures import bias_members, replay_bias, theta_variance
from .stability import Stability
from .variance import replay_variance


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
