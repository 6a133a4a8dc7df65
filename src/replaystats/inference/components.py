"""Where the variance of a replayed average comes from, by the names of U-statistics, and its sums of squares.

A covariance has shape (q, q), or (n_outputs, q, q) when theta is (q, n_outputs): outputs share the matrix g
but are separate estimates, so nothing here mixes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import special

from .._core.arrays import like, to_numpy
from .._core.config import in_blocks
from .._core.errors import must_be
from .._core.thresholds import MANY
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_choice, check_instance, check_real
from ..engine import MomentReplicates
from ..engine.linear import functionals
from ..plans import ResamplingPlan
from ..plans.weighted import effective_size

# One answer out of replicates: mean or median, and what each replicate contributes to it.
#
# A location T of the replicates' distribution moves by the average of its scores when the distribution
# moves a little. So the formulas for the mean hold for the median with scores in place of theta_b - mean:
# bounded ones, which is why it has a variance where the mean has none.


def locate(theta: FloatArray, method: str, *, weights: FloatArray | None = None) -> FloatArray:
    """Return the mean or median of replicates (B, ...) per coefficient."""
    if method == "median":
        return np.asarray(np.median(theta, axis=0))
    return np.asarray(np.average(theta, axis=0, weights=weights))


def location_scores(theta: FloatArray, method: str, *, weights: FloatArray | None = None) -> FloatArray:
    """Return the influence of every replicate on their location, mean zero, shape of theta.

    mean      theta_b - mean
    median    sign(theta_b - median) / (2 density at the median)
    """
    scores = theta
    if method == "median":
        scores = np.sign(theta - np.median(theta, axis=0)) * _sparsity(theta) / 2
    return np.asarray(scores - np.average(scores, axis=0, weights=weights))


def _sparsity(theta: FloatArray) -> FloatArray:
    """Estimate 1 / density at the median from two quantiles, 0.97 B^(-1/3) to either side of it.

    This half width is the one of Hall and Sheather (1988) for a normal law at 95 %. Their difference quotient
    is too large by what the quantile function bends: 5 % for a hundred normal replicates, and twice that in a
    variance. Divided by the quantiles of the normal law it is right for that law, and the same as B grows.
    """
    half = min(0.25, 0.97 * len(theta) ** (-1 / 3))
    low, high = np.quantile(theta, [0.5 - half, 0.5 + half], axis=0)
    return np.asarray((high - low) * math.sqrt(math.pi / 2) / special.ndtri(0.5 + half))


def tail_index(theta: FloatArray) -> float:
    """Return Hill's estimate of the tail index of the replicates: below 2 they have no variance.

    Distances from the median in units of the median absolute deviation, largest coefficient; the top tenth.
    Fewer than 100 replicates do not show their tail: NaN.

    Normal replicates have an index of about 5 and more.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> tail_index(rng.normal(size=(1000, 3))) > 4 > 2 > tail_index(rng.standard_cauchy((1000, 3)))
    True
    """
    if len(theta) < MANY:
        return float("nan")
    flat = theta.reshape(len(theta), -1)
    deviation = np.abs(flat - np.median(flat, axis=0))
    scale = np.median(deviation, axis=0)
    moving = scale > 0  # replicates that are all alike have no tail
    if not moving.any():
        return float("inf")
    distance = np.sort((deviation[:, moving] / scale[moving]).max(axis=1))
    n_top = len(distance) // 10
    excess = np.log(distance[-n_top:] / distance[-n_top - 1])
    return float(1 / excess.mean()) if excess.mean() > 0 else float("inf")


def gram(deviations: Any, weights: FloatArray | None = None) -> FloatArray:
    """Return sum_i w_i d_i d_i^T, on the host, for deviations d of shape (n, q) or (n, q, n_outputs).

    Examples
    --------
    >>> gram(np.array([[1.0, 2.0], [0.0, 1.0]]))
    array([[1., 2.],
           [2., 5.]])
    """
    xp = array_namespace(deviations)
    by_output = deviations if deviations.ndim == 2 else xp.moveaxis(deviations, 2, 0)  # (..., n, q)
    weighted = by_output if weights is None else weights[:, None] * by_output
    return to_numpy(xp.matrix_transpose(weighted) @ by_output)


def squares(deviations: Any, weights: FloatArray | None = None) -> Any:
    """Return sum_i w_i d_i^2 for deviations of shape (n, ...): the diagonal of `gram`, where they live.

    Examples
    --------
    >>> squares(np.array([[1.0, 2.0], [0.0, 1.0]]))
    array([1., 5.])
    """
    xp = array_namespace(deviations)
    if weights is None:
        return xp.sum(deviations * deviations, axis=0)
    weights = like(weights.reshape(-1, *[1] * (deviations.ndim - 1)), deviations)
    return xp.sum(weights * deviations * deviations, axis=0)


def variance_at(X: FloatArray | None, covariance: FloatArray) -> FloatArray:
    """Return the variance of X theta, shape (m,) or (m, n_outputs); of theta itself for None.

    Examples
    --------
    >>> variance_at(np.array([[1.0, 1.0]]), np.array([[1.0, 0.5], [0.5, 2.0]]))
    array([4.])
    """
    if X is None:
        return np.diagonal(covariance, axis1=-2, axis2=-1).T.copy()
    variance: FloatArray = ((X @ like(covariance, X)) * X).sum(axis=-1)
    return variance.T if covariance.ndim == 3 else variance


_PARTS = ("sampling", "monte_carlo", "raw", "replicate", "delete_d")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayVariance:
    """Variance of an average over subsets, by its sources.

    Arrays have the shape of the answers, (m,) or (m, n_outputs), or are covariances of theta, (q, q) or
    (n_outputs, q, q), from which `components` makes the variances of any linear functionals.

    Attributes
    ----------
    sampling : ndarray
        Var(U_nk) or Var(V_nk): what all possible subsets would leave. Monte-Carlo noise can make it negative
        where subsets are few.
    monte_carlo : ndarray
        What B subsets instead of all add.
    raw : ndarray
        The sampling part before Monte-Carlo noise was taken off.
    replicate : ndarray
        v, the variance of one member given the data.
    delete_d : ndarray
        Delete-d jackknife (U) or rescaled bootstrap (V) from the spread of what is averaged: the variance of
        the plug-in where answers are nearly linear in the data, and never below that of the average.
    plan : ResamplingPlan
    n_used : int
        Members that did not fail.
    """

    sampling: FloatArray
    monte_carlo: FloatArray
    raw: FloatArray
    replicate: FloatArray
    delete_d: FloatArray
    plan: ResamplingPlan
    n_used: int

    @property
    def total(self) -> FloatArray:
        """Var(U_nkB) or Var(V_nkB): sampling and Monte-Carlo parts together, as estimated."""
        return self.sampling + self.monte_carlo

    @property
    def bounded(self) -> Any:
        """Where the estimated sampling part is negative, so that `variance` has its upper bound instead."""
        return self.sampling < 0

    @property
    def variance(self) -> FloatArray:
        """What an interval uses: `total`, with the upper bound `delete_d` where the estimate is negative.

        Too few subsets for their number of observations leave more noise in the sampling part than there is
        variance. Zero in its place would claim certainty; the delete-d variance needs few subsets and errs
        on the wide side. Not for covariances: take `components` first.
        """
        xp = array_namespace(self.sampling)
        variance: FloatArray = xp.where(self.bounded, self.delete_d, self.sampling) + self.monte_carlo
        # Members that agree to the last digit leave rounding, of either sign.
        return xp.where(variance < 0, xp.zeros_like(variance), variance)  # type: ignore[no-any-return]

    @property
    def zeta_1k(self) -> FloatArray:
        """Variance of E[h_k | Z_1], from ``sampling = k^2 zeta_1k / n``."""
        return self.plan.n_observations / self.plan.subsample_size**2 * self.sampling

    @property
    def zeta_kk(self) -> FloatArray:
        """Variance of h_k on k fresh observations: v + sampling for U (total variance), v for V."""
        return self.replicate if self.plan.with_replacement else self.replicate + self.sampling

    @property
    def linear_share(self) -> FloatArray:
        """R^2: the share of the members' variance that is linear in the counts, sampling / delete_d."""
        return np.divide(
            self.sampling, self.delete_d, where=self.delete_d > 0, out=np.ones_like(self.sampling)
        )

    @property
    def monte_carlo_share(self) -> float:
        """Share of Monte-Carlo noise in the variance, summed over the answers; 1 where it hides the rest."""
        noise, sampling = self._sums()
        return noise / (noise + sampling) if noise else 0.0

    def n_resamples_for(self, share: float) -> int:
        """Return the number of members that brings the Monte-Carlo share to `share`.

        Where noise hides the sampling part, nothing can be said: four times the present number.
        """
        share = check_real(share, "share", low=0.0, high=1.0, closed="neither")
        noise, sampling = self._sums()
        if noise == 0:
            return self.n_used
        if sampling == 0:
            return 2 * self.n_used
        return max(1, math.ceil(self.n_used * noise * (1 - share) / (share * sampling)))

    @classmethod
    def joined(cls, blocks: list[ReplayVariance]) -> ReplayVariance:
        """Return the variances of consecutive blocks of points as one."""
        if len(blocks) == 1:
            return blocks[0]
        parts: dict[str, Any] = {n: np.concatenate([getattr(block, n) for block in blocks]) for n in _PARTS}
        return replace(blocks[0], **parts)

    def plus(self, correction: FloatArray) -> ReplayVariance:
        """Return the same with a correction of the sampling part added."""
        return replace(self, sampling=self.sampling + correction, raw=self.raw + correction)

    def components(self, X: FloatArray | None = None) -> ReplayVariance:
        """Return, from covariances of theta, the variances of X theta (of theta itself for None)."""
        return self.each(lambda covariance: variance_at(X, covariance))

    def at(self, points: Any, features: Callable[[Any], FloatArray] | None = None) -> ReplayVariance:
        """Return the same at any number of points, whose features (default: they themselves) are X."""

        def some(rows: Any) -> list[ReplayVariance]:
            return [self.components(rows if rows is None or features is None else features(rows))]

        return self.joined(in_blocks(points, 6 * self.sampling.shape[-1], some))

    def each(self, function: Callable[[Any], Any]) -> ReplayVariance:
        """Return the same with a function applied to every part."""
        return replace(self, **{name: function(getattr(self, name)) for name in _PARTS})

    def squeezed(self) -> ReplayVariance:
        """Return the same without the axis of a single output, (m, 1)."""
        return self.each(lambda values: values[:, 0] if values.ndim == 2 else values)

    def _sums(self) -> tuple[float, float]:
        # The sum is unbiased even where single parts are negative; only the sum is kept from below 0.
        return float(self.monte_carlo.sum()), max(0.0, float(self.sampling.sum()))

    def __repr__(self) -> str:
        return f"ReplayVariance(shape {self.sampling.shape}, {self.n_used} members)"


FORMS = ("horvitz_thompson", "self_normalised", "difference")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReweightedAverage:
    """An average of replicates whose whole subsets carry weights.

    Attributes
    ----------
    theta : ndarray of shape (q,) or (q, n_outputs)
    standard_error : ndarray, shape of theta
        Monte-Carlo only: what more subsets would remove. The variance over data sets is not derived.
    effective_resamples : float
        Number of equally weighted subsets that the B weighted ones are worth. It falls exponentially in k.
    form : str
    """

    theta: FloatArray
    standard_error: FloatArray
    effective_resamples: float
    form: str

    def __repr__(self) -> str:
        return (
            f"ReweightedAverage({self.form}, worth {self.effective_resamples:.1f} equally weighted subsets)"
        )


def reweighted_average(
    replicates: MomentReplicates,
    form: str = "difference",
    *,
    X: ArrayLike | None = None,
    origin: float = 0.0,
) -> ReweightedAverage:
    """Average replicates drawn with unequal probabilities, each weighted by its likelihood ratio w_b.

    The target is the average over all subsets drawn uniformly. With theta the plug-in,

        horvitz_thompson   o + mean(w (h - o))           exactly unbiased, o any fixed origin
        self_normalised    sum(w h) / sum(w)             consistent, less noise when w varies
        difference         theta + mean(w (h - theta))   exactly unbiased, w multiplies small numbers only

    Parameters
    ----------
    replicates : MomentReplicates
        From `midzuno_plan`, from a plan with ``probabilities`` and ``weighting="subsets"``, or from
        `plan_from_indices` with the probability of every subset.
    form : {"difference", "self_normalised", "horvitz_thompson"}
        Which of the three.
    X : array-like of shape (m, q), optional
        Functionals to average in place of theta.
    origin : float
        o of the Horvitz-Thompson form; that of `midzuno_sizes` makes w (h - o) nearly constant.

    Returns
    -------
    ReweightedAverage

    Examples
    --------
    >>> import replaystats as rs
    >>> x = np.arange(1.0, 41.0)
    >>> moments = rs.Moments(x, x + 1.0)
    >>> p = rs.inference.influence_probabilities(moments, uniform_share=0.5)
    >>> options = {"statistic": "V", "probabilities": p, "weighting": "subsets", "random_state": 0}
    >>> plan = rs.make_plan(40, subsample_size=5, **options)
    >>> reweighted_average(rs.replicate(moments, plan))
    ReweightedAverage(difference, worth 306.3 equally weighted subsets)
    """
    check_choice(form, "form", FORMS)
    check_instance(replicates, "replicates", MomentReplicates, "Use rs.replicate(moments, plan).")
    plan, kept = replicates.plan, ~replicates.failed
    weights = getattr(plan, "importance_weights", None)
    if weights is None:
        hint = "Use rs.midzuno_plan, or plan_from_indices(..., probabilities=P); rs.average for other plans."
        raise ValueError(must_be("replicates", "drawn with weights of whole subsets", repr(plan), hint))
    rows = None if X is None else check_array(X, "X", ndim=2)

    def asked(theta: FloatArray) -> FloatArray:
        return theta if rows is None else np.asarray(functionals(rows, theta))

    h = asked(replicates.theta[kept])
    w = weights[kept].reshape(-1, *[1] * (h.ndim - 1))
    if form == "self_normalised":
        share = w / w.sum()
        theta = (share * h).sum(axis=0)
        error = np.sqrt((share**2 * (h - theta) ** 2).sum(axis=0))
    else:
        centre: FloatArray | float = check_real(origin, "origin")
        if form == "difference":
            centre = asked(replicates.solver.solve_full(replicates.moments).theta)[0]
        terms = w * (h - centre)
        theta = centre + terms.mean(axis=0)
        error = terms.std(axis=0, ddof=1) / np.sqrt(len(h))
    return ReweightedAverage(
        theta=theta, standard_error=error, effective_resamples=effective_size(weights), form=form
    )
