"""Covariance of an average of replicates, from the replicates and the plan alone.

With D_b the deviation of replicate b and W the counts,

    C = W^T D / (B - 1)                       how an observation's count moves the answer, (n, q)
    sampling = factor (C^T C - noise)         infinitesimal jackknife, corrected for Monte-Carlo noise in C
    monte_carlo = variance of D / B           what more subsets would remove

    U   factor = n (n - 1) / (n - k)^2        noise = k (1 - k/n) Var(D) / (B - 1)
    V   factor = n / (n - 1)                  noise = k (1 - 1/n) Var(D) / (B - 1)

Working with theta keeps everything of size q: the variance of any X theta is x^T (.) x afterwards.
The control variate replaces the linear part of D by its exact covariance with the counts, which removes most
of the noise: H_i (n - k) / (n (n - 1)) for U, H_i / n for V.
Plans whose subsets are not independent draws have their own formulas, in `designs`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from array_api_compat import array_namespace

from .._core.errors import must_be
from .._core.typing import FloatArray
from ..engine import Replicates
from ..plans import ResamplingPlan
from ..plans.given import CompletePlan
from .components import Components
from .counts import count_products
from .covariance import gram, variance_at
from .designs import Spread, count_variance, design_covariance
from .influence import Linearisation, jackknife_covariance, linearise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayCovariance:
    """Covariances of theta, each of shape (q, q) or (n_outputs, q, q).

    Attributes
    ----------
    sampling : ndarray
        Of the average over all possible subsets (corrected infinitesimal jackknife). With few subsets and no
        control variate it need not be positive definite.
    raw : ndarray
        The same before the Monte-Carlo correction.
    replicate : ndarray
        v: of one replicate given the data.
    monte_carlo : ndarray
        Of the average given the data, because B subsets are not all.
    plan : ResamplingPlan
    n_used : int
        Replicates that did not fail.
    """

    sampling: FloatArray
    raw: FloatArray
    replicate: FloatArray
    monte_carlo: FloatArray
    plan: ResamplingPlan
    n_used: int

    @property
    def total(self) -> FloatArray:
        """Var(U_nkB) or Var(V_nkB): sampling and Monte-Carlo parts together."""
        return self.sampling + self.monte_carlo

    def plus(self, correction: FloatArray) -> ReplayCovariance:
        """Return the same with a correction of the sampling covariance added."""
        return replace(self, sampling=self.sampling + correction, raw=self.raw + correction)

    def components(self, X: FloatArray | None = None) -> Components:
        """Return the variance components of X theta (of theta itself for None)."""
        return Components.of(
            sampling=variance_at(X, self.sampling),
            raw=variance_at(X, self.raw),
            replicate=variance_at(X, self.replicate),
            monte_carlo=variance_at(X, self.monte_carlo),
            plan=self.plan,
        )

    def __repr__(self) -> str:
        return f"ReplayCovariance(q={self.sampling.shape[-1]}, {self.n_used} replicates)"


def replay_covariance(
    replicates: Replicates,
    scores: FloatArray | None = None,
    *,
    control: Linearisation | None = None,
    controlled: bool = False,
) -> ReplayCovariance:
    """Estimate the covariance of an average of replicates.

    Parameters
    ----------
    replicates : Replicates
        Failed ones take no part.
    scores : ndarray of shape (B - n_failed, q) or (B - n_failed, q, n_outputs), optional
        What is averaged, centred: the influence of each used replicate on the average. Default: the mean's,
        theta_b - mean.
    control : Linearisation, optional
        From `linearise_subsets`: take the linear part of the replicates exactly. Not where replicates cross
        singularity (see `crossed`).
    controlled : bool
        Whether `scores` have their linear part taken off already, as those of the controlled mean.

    Returns
    -------
    ReplayCovariance

    Notes
    -----
    O(B n q) for the pass over the counts, which are drawn again a tile at a time.

    Examples
    --------
    >>> from replaystats.moments import Moments
    >>> from replaystats.engine import replicate
    >>> from replaystats.plans import make_plan
    >>> moments = Moments(np.ones(6), np.arange(6.0))  # the mean of 0..5
    >>> everything = replicate(moments, make_plan(6, statistic="complete", subsample_size=3))
    >>> round(replay_covariance(everything).sampling.item(), 12)  # s^2 / n
    0.583333333333
    """
    plan, kept = replicates.plan, ~replicates.failed
    theta = replicates.theta[kept]
    weights = replicate_weights(replicates)
    deviations = theta - np.average(theta, axis=0, weights=weights)
    scores = deviations if scores is None else scores
    exact = isinstance(plan, CompletePlan)
    if len(theta) < 2 and not exact:
        raise ValueError(must_be("n_resamples", "at least 2 for a variance", len(theta)))
    # Unbiased from draws; a complete plan is the whole population and its weights are probabilities.
    weights = weights if exact else weights * (len(theta) / (len(theta) - 1))
    spread = _spread(replicates, deviations, scores, control, controlled)
    if plan.subsample_size == plan.n_observations and not plan.with_replacement:
        # Every subset is the whole data: there is nothing but the plug-in.
        sampling = raw = jackknife_covariance(replicates.moments, replicates.solver)
        monte_carlo = np.zeros_like(sampling)
    elif (special := design_covariance(replicates, spread)) is not None:
        sampling, raw, monte_carlo = special
    else:
        monte_carlo = gram(scores, weights) * (0.0 if exact else 1.0 / len(theta))
        raw, noise = _jackknife(replicates, spread.remainder, weights, control)
        sampling = raw if exact else raw - noise
    return ReplayCovariance(
        sampling=sampling,
        raw=raw,
        replicate=gram(deviations, weights),
        monte_carlo=monte_carlo,
        plan=plan,
        n_used=len(theta),
    )


def replicate_weights(replicates: Replicates) -> FloatArray:
    """Return the weights of the used replicates in an average, summing to one."""
    kept = ~replicates.failed
    weights = replicates.plan.subset_weights
    weights = np.ones(len(replicates))[kept] if weights is None else weights[kept]
    return np.asarray(weights / weights.sum())


def linearise_subsets(replicates: Replicates) -> Linearisation:
    """Return the solution at the scale of the subsets, about which the replicates scatter."""
    share = replicates.plan.subsample_size / replicates.plan.n_observations
    return linearise(replicates.moments, replicates.solver, share=share)


def control_variate(replicates: Replicates, linear: Linearisation) -> FloatArray:
    """Return the linear part of the used replicates: known mean zero, shape of theta[~failed]."""
    kept = ~replicates.failed
    return linear.linear_part(replicates.sums.A[kept], replicates.sums.b[kept], replicates.moments)


def _spread(
    replicates: Replicates,
    deviations: FloatArray,
    scores: FloatArray,
    control: Linearisation | None,
    controlled: bool,
) -> Spread:
    """Split what is averaged into its linear part and the rest, where the linear part is known."""
    mean_linear = np.zeros(scores.shape[1:])
    remainder = scores
    if control is not None and not controlled:
        linear = control_variate(replicates, control)
        mean_linear = np.average(linear, axis=0, weights=replicate_weights(replicates))
        remainder = scores - (linear - mean_linear)
    return Spread(deviations, scores, remainder, mean_linear, control)


def _jackknife(
    replicates: Replicates, scores: FloatArray, weights: FloatArray, control: Linearisation | None
) -> tuple[FloatArray, FloatArray]:
    """Return the raw infinitesimal jackknife covariance and its expected Monte-Carlo excess."""
    plan = replicates.plan
    n, k = plan.n_observations, plan.subsample_size
    if plan.with_replacement:
        factor, slope = n / (n - 1), 1 / n
    else:
        factor, slope = n * (n - 1) / (n - k) ** 2, (n - k) / (n * (n - 1))
    # Failed subsets have zero rows: they are drawn again with the others, but add nothing.
    right = np.zeros((len(replicates), scores[0].size))
    right[~replicates.failed] = weights[:, None] * scores.reshape(len(scores), -1)
    influence: Iterable[FloatArray | float] = (
        itertools.repeat(0.0)
        if control is None
        else control.influence_by_block(replicates.moments, plan.row_blocks)
    )
    total = np.zeros_like(gram(scores[:1]))
    rows = getattr(replicates.moments, "rows", None)  # moments that live on a device are worked on there
    for (_, product), values in zip(count_products(plan, right, rows), influence, strict=False):
        shaped = array_namespace(product).reshape(product, (-1, *scores.shape[1:]))
        total += gram(shaped + slope * values)
    noise = count_variance(plan) * gram(scores, weights) / max(1, len(scores) - 1)
    return factor * total, factor * noise
