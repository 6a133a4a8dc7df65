"""Which estimate has the smallest risk: plug-in, ridge, replay or replayed ridge, by leaving units out.

Risks are mean squared errors of W theta, relative to the plug-in's, R(p) = tr S with S = W Cov(p) W' by the
jackknife. W is X where functionals are asked for; else predictions (least squares) or scaled coefficients.

1. Ridge t with a given penalty: [|W (t - p)|^2 + 2 tr Cov(W (t - p), W p)] / R(p) is unbiased for
   R(t) / R(p) - 1 where p is unbiased (Mallows 1973; Claeskens and Hjort 2003).
2. The penalty is chosen by this number, which makes the smallest one too small. Where t is (1 - a) p with
   the best a, Stein's identity gives the difference: 4 a / q with q equal variances (Stein 1981; Tibshirani
   and Rosset 2019). It is added, with a = -tr Cov(W (t - p), W p) / R(p) and q = (tr S)^2 / tr S^2. So in
   few directions (q < 4) a chosen penalty does not gain.
3. Replay with subsets of k: the mean of two predictions, the jackknife variance and bias of the average over
   those of the plug-in, and the second-order ratio 1 + 2 c (1/k - 1/n). Half of their difference counts as
   an error. k has the least risk plus one standard error.
4. Replayed ridge: the product of both, where the ridge gains and replay does by more than one standard error.

The penalty is a quadratic form of scaled coefficients that is 0 for the direction of a constant value. So
estimates move along with a constant that is added to all responses, and do not depend on units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from .._core.arrays import is_foreign, to_numpy
from .._core.thresholds import (
    CHECK_LEVEL,
    FAR,
    HEAVY_TAIL,
    IMMATERIAL,
    MANY,
    MIN_EFFECTIVE,
    MOST_WORK,
    PENALTIES,
    SHARES,
)
from .._core.typing import FloatArray
from ..engine.linear import linearise
from ..moments import FactoredMoments, StreamedMoments
from ..moments.streamed import AnyMoments
from ..plans.tiles import TILE_SUBSETS
from ..solvers.direct import ScaledRidge
from .components import variance_at
from .influence import jackknife_bias, jackknife_covariance, unit_matrices
from .stability import PILOT_SEED, Stability, pilot_replicates
from .theorem import second_order

ACTIONS = ("keep the plug-in", "add ridge", "replay", "replay with ridge")
# Rounding: standard errors of a one-sided test at the level of all checks, Holm's first of three rivals.
_CLEAR = float(special.ndtri(1.0 - CHECK_LEVEL / (len(ACTIONS) - 1)))
# Rounding: of sums when a number of rows is recognised.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskEstimate:
    """An estimate that could be used, with its risk relative to the plug-in's.

    Attributes
    ----------
    action : str
        One of `ACTIONS`.
    risk : float
        Estimated mean squared error over that of the plug-in.
    standard_error : float
        Of `risk`.
    significant : bool
        Whether the gain is large enough beside its standard error to act on it.
    penalty : float or None
        Of the ridge, relative to the scaled moment matrix.
    share : float or None
        Subset size as a share of n.
    """

    action: str
    risk: float
    standard_error: float
    significant: bool = True
    penalty: float | None = None
    share: float | None = None

    def __str__(self) -> str:
        details = [] if self.share is None else [f"k = {self.share:g} n"]
        details += [] if self.penalty is None else [f"penalty {self.penalty:.1e}"]
        named = f"{self.action} ({', '.join(details)})" if details else self.action
        return f"{named}: {self.risk:.2f} +- {self.standard_error:.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskTable:
    """The candidates of one data set.

    Attributes
    ----------
    candidates : tuple of RiskEstimate
        The plug-in first, then the best of every other action.
    """

    candidates: tuple[RiskEstimate, ...]

    @classmethod
    def of_errors(cls, plain: FloatArray, replayed: FloatArray, penalty: float) -> RiskTable:
        """Compare squared errors of units under fits without them: one fit with a penalty, and replay.

        Parameters
        ----------
        plain, replayed : ndarray of shape (n,)
            The standard error of their ratio is that of the mean of paired differences.
        penalty : float
            Of the one fit.

        Examples
        --------
        >>> plain = np.array([1.0, 2.0, 3.0, 4.0])
        >>> print(RiskTable.of_errors(plain, 0.8 * plain, 0.1).best)
        replay: 0.80 +- 0.05
        """
        gains = (plain - replayed) / plain.mean()
        error = float(gains.std(ddof=1)) / math.sqrt(len(gains))
        one_fit = RiskEstimate(action=ACTIONS[0], risk=1.0, standard_error=0.0, penalty=penalty)
        return cls(candidates=(one_fit, _replayed(1.0 - float(gains.mean()), error)))

    @property
    def best(self) -> RiskEstimate:
        """The candidate of least risk whose gain is significant and at least 3 %; else the plug-in."""
        gaining = [one for one in self.candidates if one.significant and one.risk < 1 - IMMATERIAL]
        return min(gaining, key=lambda one: one.risk, default=self.candidates[0])

    @property
    def why(self) -> str:
        """The estimated risks, in a sentence."""
        rivals = "; ".join(str(one) for one in self.candidates[1:])
        if not rivals:
            return "No other estimate can be judged on these data."
        found = f"Mean squared error relative to the plug-in's, leaving units out: {rivals}."
        return found if self.best is not self.candidates[0] else f"{found} No significant difference."


def risk_table(stability: Stability, X: FloatArray | None = None) -> RiskTable:
    """Estimate the risks of plug-in, ridge, replay and replayed ridge.

    Parameters
    ----------
    stability : Stability
        Of replicates of the plain solution.
    X : ndarray of shape (m, q), optional
        Functionals whose squared errors count; default the coefficients times the size of their columns.
    """
    moments = stability.replicates.moments
    plain = RiskEstimate(action=ACTIONS[0], risk=1.0, standard_error=0.0)
    held = not isinstance(moments, StreamedMoments) and not is_foreign(moments.held)
    judged = (
        held
        and stability.replicates.solver.plain
        and stability.linear is not None
        and not stability.linear.truncated
    )
    if not judged or moments.n_observations < MIN_EFFECTIVE:
        return RiskTable(candidates=(plain,))
    W = _weights(moments, X)
    ridge, replay = _ridge(stability, W), _replay(stability, W)
    found = [plain, *(one for one in (ridge, replay) if one is not None)]
    if ridge is not None and replay is not None and ridge.risk < 1.0 > replay.risk + replay.standard_error:
        relative = math.hypot(ridge.standard_error / ridge.risk, replay.standard_error / replay.risk)
        both = ridge.risk * replay.risk
        found.append(replace(replay, action=ACTIONS[3], risk=both, standard_error=both * relative,
                             significant=True, penalty=ridge.penalty))  # fmt: skip
    return RiskTable(candidates=tuple(found))


def _weights(moments: AnyMoments, X: FloatArray | None) -> FloatArray:
    """Return W, (m, q): X; else W'W = A / n for least squares, coefficients times sizes of columns of A."""
    if X is not None:
        return X
    A = moments.total()[0] / moments.n_observations
    if not is_least_squares(moments):
        return np.diag(np.linalg.norm(A, axis=0))
    values, vectors = np.linalg.eigh(A)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def scaled_ridge(moments: AnyMoments, penalty: float, share: float = 1.0) -> ScaledRidge:
    """Return the solver with this penalty for subsets of a share of the units."""
    A, symmetric = moments.total()[0], is_least_squares(moments)
    return ScaledRidge.of(A, penalty, constant_direction(moments), symmetric=symmetric).scaled(share)


def is_least_squares(moments: AnyMoments) -> bool:
    """Whether every g_i is symmetric with a non-negative diagonal: theta'g theta - 2 f'theta is a loss."""
    if isinstance(moments, FactoredMoments):
        return moments.symmetric or bool(np.array_equal(to_numpy(moments.left), to_numpy(moments.right)))
    blocks = (g for _, g, _ in unit_matrices(moments))
    return all(
        bool((np.diagonal(g, axis1=1, axis2=2) >= 0).all()) and np.array_equal(g, g.swapaxes(1, 2))
        for g in blocks
    )


def constant_direction(moments: AnyMoments) -> FloatArray | None:
    """Return u such that a constant added to all responses moves theta along u; None where there is none.

    From the rows where they are held: the right sides are constant along u. From matrices: a coefficient (or
    the sum of all) whose g_i is a number of rows, times one constant.

    Examples
    --------
    >>> import replaystats as rs
    >>> constant_direction(rs.moments.ols_moments(np.arange(6.0)[:, None] ** 2, np.ones(6)))
    array([1., 0.])
    """
    q = moments.n_basis
    if isinstance(moments, FactoredMoments):
        right = to_numpy(moments.right)
        u = np.linalg.lstsq(right, np.ones(len(right)), rcond=None)[0]
        return np.asarray(u) if np.abs(right @ u - 1.0).max() < _ROUNDING**0.5 else None
    found: list[FloatArray] = []
    for _, g, _ in unit_matrices(moments):
        found.append(np.column_stack([np.diagonal(g, axis1=1, axis2=2), g.sum(axis=(1, 2))]))
    rows = np.concatenate(found)
    least = rows.min(axis=0)
    counts = rows / np.where(least > 0, least, 1.0)
    whole = (least > 0) & (np.abs(counts - np.round(counts)).max(axis=0) < _ROUNDING)
    directions = np.vstack([np.eye(q), np.ones(q)])
    return np.asarray(directions[int(np.argmax(whole))]) if whole.any() else None


def _ridge(stability: Stability, W: FloatArray) -> RiskEstimate | None:
    """Return the ridge with the penalty of least risk; None where too little is left to judge it."""
    moments = stability.replicates.moments
    n, q = moments.n_observations, moments.n_basis
    n_groups = int(min(n, MANY, MOST_WORK // (len(PENALTIES) * q**3)))
    if n_groups < MIN_EFFECTIVE:
        return None
    A, b = np.zeros((n_groups, q, q)), np.zeros((n_groups, q, moments.n_outputs or 1))
    # Units in an order that has nothing to do with theirs.
    group = np.random.default_rng(PILOT_SEED).permutation(np.arange(n) % n_groups)
    for units, g, f in unit_matrices(moments):
        np.add.at(A, group[units], g)
        np.add.at(b, group[units], f)
    one = scaled_ridge(moments, 1.0)
    solvers = [ScaledRidge(size * one.matrix, one.rows, size) for size in (0.0, *PENALTIES)]
    A_all, b_all, rest = A.sum(axis=0), b.sum(axis=0), (n_groups - 1) / n_groups
    left_out = np.stack([s.scaled(rest).solve(A_all - A, b_all - b).theta for s in solvers], axis=1)
    covariance = jackknife_covariance(moments, stability.replicates.solver).reshape(-1, q, q)
    S = W @ covariance @ W.T  # (n_outputs, m, m)
    plain_risk = float(np.einsum("oaa->", S))
    if not (np.isfinite(left_out).all() and plain_risk > 0.0):
        return None
    total = np.array([s.solve(A_all[None], b_all[None]).theta[0] for s in solvers])
    distance, covariances, error = _from_the_plug_in(W, total, left_out)
    shrinkage = np.maximum(-covariances / plain_risk, 0.0)
    directions = plain_risk**2 / float(np.square(S).sum())
    risks = 1.0 + (distance + 2.0 * covariances) / plain_risk + 4.0 * shrinkage / directions
    chosen = 1 + int(np.argmin(risks[1:]))
    return RiskEstimate(
        action=ACTIONS[1],
        # No estimate gains more than all of the risk, whatever noise makes of the difference.
        risk=max(IMMATERIAL, float(risks[chosen])),
        standard_error=float(error[chosen]) / plain_risk,
        penalty=PENALTIES[chosen - 1],
    )


def _from_the_plug_in(
    W: FloatArray, total: FloatArray, left_out: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return |W (t - p)|^2, tr Cov(W (t - p), W p) and the standard error of the first plus twice the second.

    Parameters
    ----------
    W : ndarray of shape (m, q)
    total : ndarray of shape (L, q, n_outputs)
        Answers of all units by penalty, the plug-in first.
    left_out : ndarray of shape (G, L, q, n_outputs)
        The same without each group.
    """
    n_groups = len(left_out)
    distance = W @ (total - total[:1])  # (L, m, o)
    moved = W @ (left_out - left_out.mean(axis=0))  # (G, L, m, o)
    apart, plain = moved - moved[:, :1], moved[:, :1]
    terms = (n_groups - 1) / n_groups * (apart * plain).sum(axis=(2, 3))  # (G, L)
    drift = 2.0 * (distance * apart).sum(axis=(2, 3))
    variance = 4.0 * n_groups * terms.var(axis=0, ddof=1)
    variance += (n_groups - 1) / n_groups * np.square(drift).sum(axis=0)
    return np.square(distance).sum(axis=(1, 2)), terms.sum(axis=0), np.sqrt(variance)


def _replay(stability: Stability, W: FloatArray) -> RiskEstimate | None:
    """Return replay with the size of least risk plus its standard error; None where it has no variance.

    1. Compute c of the second-order ratio 1 + 2 c (1/k - 1/n), the same for every k.
    2. For every size whose pilot is stable, measure the ratio of mean squared errors on the pilot.
    3. Take the mean of both as risk; its standard error has that of c and half of their difference.
    """
    replicates = stability.replicates
    moments, n = replicates.moments, replicates.moments.n_observations
    if stability.linear is None:
        return None
    linear = linearise(moments, replicates.solver)
    second, found = second_order(moments, linear, W, k=n, with_replacement=False), list[RiskEstimate]()
    if second is None:
        return None
    for share in SHARES:
        k = max(1, round(share * n))
        pilot = Stability(replicates=pilot_replicates(moments, replicates.solver, size=k))
        if not pilot.controllable or pilot.tail_index < HEAVY_TAIL or pilot.separation < FAR:
            continue
        measured = predicted_gain(pilot, W).error_ratio
        assert measured is not None  # the pilot is controllable
        predicted = replace(second, k=k)
        risk = 0.5 * (measured + predicted.variance_ratio)
        error = math.hypot(predicted.ratio_standard_error, 0.5 * (measured - predicted.variance_ratio))
        found.append(_replayed(risk, error, share))
    return min(found, key=lambda one: one.risk + one.standard_error, default=None)


def _replayed(risk: float, error: float, share: float | None = None) -> RiskEstimate:
    """Return replay with this risk; its gain counts where a one-sided test finds it."""
    return RiskEstimate(
        action=ACTIONS[2],
        risk=max(IMMATERIAL, risk),
        standard_error=error,
        significant=1.0 - risk >= _CLEAR * error,
        share=share,
    )


# What replay does to variance and bias, predicted from one data set.


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
    replayed = without.theta_variance().sampling
    plug_in_variance = variance_at(X, plain)
    plain_sum, replayed_sum = plug_in_variance.sum(), variance_at(X, replayed).sum()
    bias = np.square(replay_bias(stability, X)).sum()
    with_bias = plain_sum + stability.replicates.plan.design.bias_share**2 * bias
    return Gain(
        # One where the plug-in has no error, so that there is none to take off.
        variance_ratio=float(replayed_sum / plain_sum) if plain_sum > 0 else 1.0,
        error_ratio=float((replayed_sum + bias) / with_bias) if with_bias > 0 else 1.0,
        plug_in_variance=plug_in_variance,
    )


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
    bias = np.asarray((centre - plug_in) / (1 - replicates.plan.design.bias_share))
    return bias if X is None else X @ bias


def plug_in_bias(stability: Stability, X: FloatArray | None) -> FloatArray:
    """Estimate the plug-in's bias by the jackknife; from the pilot where the jackknife does not exist."""
    if stability.singular or stability.linear is None:
        return stability.replicates.plan.design.bias_share * replay_bias(stability, X)
    bias = jackknife_bias(stability.replicates.moments, stability.replicates.solver)
    return bias if X is None else X @ bias


def _as_without_replacement(stability: Stability) -> Stability:
    """Return replicates whose infinitesimal jackknife predicts these ones' variance."""
    replicates, plan = stability.replicates, stability.replicates.plan
    n, k = plan.n_observations, plan.subsample_size
    if plan.with_replacement:
        k = max(1, round(n * k / (n + k)))
    elif plan.design.kind in ("independent", "whole") and plan.observation_weights is None:
        return stability
    most = max(2, min(TILE_SUBSETS, plan.n_resamples))
    pilot = pilot_replicates(replicates.moments, replicates.solver, size=k, n_resamples=most)
    return Stability(replicates=pilot)
