"""Importance sampling: which observations to prefer, and averages that undo a preference subset by subset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_choice, check_instance, check_real
from ..engine import MomentReplicates
from ..engine.linear import linearise
from ..moments.streamed import AnyMoments
from ..plans import proportional_probabilities
from ..plans.weighted import effective_size
from ..solvers import Solver
from .influence import influence_values

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
        hint = "Use midzuno_plan, or plan_from_indices(..., probabilities=P); rs.average for other plans."
        raise ValueError(must_be("replicates", "drawn with weights of whole subsets", repr(plan), hint))
    functionals = None if X is None else check_array(X, "X", ndim=2)
    h = _at(functionals, replicates.theta[kept])
    w = weights[kept].reshape(-1, *[1] * (h.ndim - 1))
    if form == "self_normalised":
        share = w / w.sum()
        theta = (share * h).sum(axis=0)
        error = np.sqrt((share**2 * (h - theta) ** 2).sum(axis=0))
    else:
        centre: FloatArray | float = check_real(origin, "origin")
        if form == "difference":
            centre = _at(functionals, replicates.solver.solve_full(replicates.moments).theta)[0]
        terms = w * (h - centre)
        theta = centre + terms.mean(axis=0)
        error = terms.std(axis=0, ddof=1) / np.sqrt(len(h))
    return ReweightedAverage(
        theta=theta, standard_error=error, effective_resamples=effective_size(weights), form=form
    )


def _at(X: FloatArray | None, theta: FloatArray) -> FloatArray:
    """Return theta (B, q[, n_outputs]), or X theta."""
    return theta if X is None else np.asarray(np.moveaxis(np.moveaxis(theta, 1, -1) @ X.T, -1, 1))


def midzuno_sizes(
    moments: AnyMoments, x: ArrayLike | None = None, *, solver: Solver | None = None
) -> tuple[FloatArray, float]:
    """Return sizes a_i = x'theta + x'H_i - o and the origin o for a Lahiri-Midzuno plan.

    With them the weight of a subset is mean(a) / mean_S(a), and w (h - o) is constant up to second order: the
    Horvitz-Thompson average has no linear Monte-Carlo noise. o lies two of the largest influence values below
    x'theta, so that sizes are positive and weights between 2/3 and 2.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    x : array-like of shape (q,), optional
        The functional; needed if theta has several coefficients.
    solver : Solver, optional
        That of the plug-in whose influence is meant.

    Returns
    -------
    sizes : ndarray of shape (n,)
        Positive.
    origin : float
        For `reweighted_average`.

    Examples
    --------
    >>> import replaystats as rs
    >>> moments = rs.Moments([1.0, 1.0, 2.0], [1.0, 3.0, 4.0])
    >>> midzuno_sizes(moments)
    (array([0.75, 2.25, 1.5 ]), 0.5)
    """
    influence = influence_values(moments, solver)
    if influence.ndim != 2 or (x is None and influence.shape[1] > 1):
        hint = "A plan has sizes for one number only: pass x of shape (q,)."
        raise ValueError(must_be("x", "given where theta has several coefficients", x, hint))
    functional = np.ones(1) if x is None else check_array(x, "x", ndim=1)
    values = influence @ functional
    centre = float(functional @ linearise(moments, solver).theta)
    distance = 2.0 * float(np.abs(values).max()) or 1.0
    return np.asarray(values + distance), centre - distance


def influence_probabilities(
    moments: AnyMoments,
    X: ArrayLike | None = None,
    *,
    solver: Solver | None = None,
    uniform_share: float = 0.1,
) -> FloatArray:
    """Return drawing probabilities that make replicates vary least: in proportion to their influence.

    With weights inside the sums, the linear part of X theta_b has the variance
    ``sum_i |X H_i|^2 / (n^2 k p_i)``, summed over the functionals; it is smallest for p_i
    proportional to ``|X H_i|``.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    X : array-like of shape (m, q), optional
        Functionals that matter; default the coefficients.
    solver : Solver, optional
        That of the plug-in whose influence is meant.
    uniform_share : float in [0, 1]
        Share of uniform draws, which bounds the weights by 1 / uniform_share.

    Returns
    -------
    ndarray of shape (n,)

    Notes
    -----
    This reduces Monte-Carlo noise only, as the control variate does at less cost: it pays where the average
    cannot be controlled, or where a buffer is prioritised anyway.

    Examples
    --------
    >>> import replaystats as rs
    >>> moments = rs.Moments([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 4.0])
    >>> influence_probabilities(moments, uniform_share=0.0).round(3)  # the last one moves the mean most
    array([0.167, 0.167, 0.167, 0.5  ])
    """
    influence = influence_values(moments, solver)
    if X is not None:
        influence = np.moveaxis(np.moveaxis(influence, 1, -1) @ check_array(X, "X", ndim=2).T, -1, 1)
    size = np.sqrt((influence.reshape(len(influence), -1) ** 2).sum(axis=1))
    return proportional_probabilities(size, uniform_share=uniform_share)
