"""The quantities of the paper's theorems at given n, k and B, and the variance ratio they bound.

Lemma 1 has sqrt(n) (plug-in - theta) -> N(0, Sigma). Theorems 1 and 2 compare Var(plug-in) = Sigma / n with

    Var(U_nkB) = (k^2 / n) zeta_1k + (1 / B) (zeta_kk - (k^2 / n) zeta_1k)

and use k^2 zeta_1k -> Sigma: to first order both variances are Sigma / n, whatever k is, and B adds to it.
For an estimator that is linear in the data the ratio is exactly 1 + (n / k - 1) / B (U; n / (k B) for V),
never below one. What replay can gain is of second order, which the limits do not contain: `second_order`
predicts it, `variance_ratio` measures it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.thresholds import SMALL
from .._core.typing import ArrayLike, BoolArray, FloatArray
from .._core.validation import check_array
from ..engine import MomentReplicates
from ..engine.linear import linearise
from .components import ReplayVariance
from .influence import jackknife_covariance, sandwich_covariance
from .second_order import SecondOrder, second_order
from .variance import replay_variance


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Theorem:
    """The quantities of Lemma 1 and Theorems 1 and 2, estimated from one data set.

    Matrices are of theta, (q, q), or of X theta, (m, m). With several outputs they are means over outputs.

    Attributes
    ----------
    n, k, B : int
    with_replacement : bool
        Whether Theorem 2 (V) applies.
    sigma : ndarray
        Sigma of Lemma 1: n times the covariance of the plug-in.
    n_variance : ndarray
        n Var(U_nk) or n Var(V_nk), of all subsets, by the infinitesimal jackknife, which counts second-order
        parts twice (Efron and Stein 1981); `complete_variance` has them once.
    k_zeta_kk : ndarray
        k zeta_kk: k times the covariance of one replicate on fresh data. Sigma too, where h_k is linear.
    plug_in_covariance, replay_covariance : ndarray
        Var(plug-in) and Var(U_nkB) or Var(V_nkB).
    monte_carlo_share : float
        Share of the replayed variance (its trace) that is there because B subsets are not all.
    second_order : SecondOrder or None
        c and the predicted Var(replay) / Var(plug-in) = 1 + 2 c (1/k - 1/n), with standard errors. None for
        regressors, and where the solver leaves directions out or q is too large.

    Examples
    --------
    >>> import replaystats as rs
    >>> moments = rs.Moments(np.ones(100), np.arange(100.0))  # a mean: linear in the data
    >>> plan = rs.make_plan(100, subsample_size=20, n_resamples=50, random_state=0)
    >>> found = rs.inference.theorem(rs.average(rs.replicate(moments, plan)))
    >>> found.linear_ratio, found.n_over_Bk
    (1.08, 0.1)
    """

    n: int
    k: int
    B: int
    with_replacement: bool
    sigma: FloatArray
    n_variance: FloatArray
    k_zeta_kk: FloatArray
    plug_in_covariance: FloatArray
    replay_covariance: FloatArray
    monte_carlo_share: float
    second_order: SecondOrder | None = None

    @property
    def statistic(self) -> str:
        """Without (U) or with replacement (V)."""
        return "V" if self.with_replacement else "U"

    @property
    def zeta_1k(self) -> FloatArray:
        """Variance of E[h_k | Z_1] of every functional, shape (m,); to first order without `second_order`."""
        if self.second_order is None:
            return np.asarray(np.diagonal(self.n_variance) / self.k**2)
        return _mean_over_outputs(self.second_order.zeta_1k, len(self.sigma))

    @property
    def complete_variance(self) -> FloatArray:
        """Var(U_nk) or Var(V_nk) of every functional, unbiased to second order for any k / n, shape (m,)."""
        measured = np.diagonal(self.n_variance) / self.n
        if self.second_order is None:
            return np.asarray(measured)
        second, m = self.second_order, len(self.sigma)
        excess = _mean_over_outputs(second.counted_twice, m)
        by_components = self.k**2 * self.zeta_1k / self.n + excess
        return np.where(self._degenerate, by_components, np.maximum(measured - excess, 0.0))

    @property
    def zeta_kk(self) -> FloatArray:
        """Variance of one replicate on fresh data, of every functional, shape (m,).

        From the replicates; by components where the functional is degenerate, because the spread of
        replicates then depends on how far the data are from the degenerate point.
        """
        conditional = (np.diagonal(self.k_zeta_kk) / self.k) - np.diagonal(self.n_variance) / self.n
        measured = conditional + self.complete_variance
        if self.second_order is None:
            return np.asarray(measured)
        by_components = _mean_over_outputs(self.second_order.zeta(self.k), len(self.sigma))
        return np.where(self._degenerate, by_components, measured)

    @property
    def _degenerate(self) -> BoolArray:
        assert self.second_order is not None
        return np.asarray(self.second_order.degenerate.reshape(-1, len(self.sigma)).all(axis=0))

    @property
    def zeta_ratio(self) -> float:
        """zeta_kk / (n zeta_1k), by sums: Theorem 1 lets it go to 0; about k / n where h_k is linear."""
        first, last = float(self.zeta_1k.sum()), float(self.zeta_kk.sum())
        return last / (self.n * first) if first > 0 else math.inf

    @property
    def n_over_Bk(self) -> float:
        """N / (B k), which both theorems let go to 0."""
        return self.n / (self.B * self.k)

    @property
    def linear_ratio(self) -> float:
        """Var(replay) / Var(plug-in) to first order: 1 + (n / k - 1) / B for U, 1 + n / (k B) for V."""
        return 1.0 + (self.n / self.k - (0.0 if self.with_replacement else 1.0)) / self.B

    @property
    def variance_ratio(self) -> float:
        """Var(replay) / Var(plug-in) measured from the replicates, by traces."""
        return float(np.trace(self.replay_covariance) / np.trace(self.plug_in_covariance))

    @property
    def sigma_ratio(self) -> float:
        """k^2 zeta_1k / Sigma by traces: 1 in the limit; what is above or below is the second order."""
        return float(self.k**2 * self.zeta_1k.sum() / np.trace(self.sigma))

    @property
    def conditions(self) -> dict[str, tuple[float, bool]]:
        """The conditions of the theorem that applies: value now, and whether it is small (at most 0.1)."""
        named = {"n / (B k)": self.n_over_Bk}
        if self.with_replacement:
            named["k / n^(1/4)"] = self.k / self.n**0.25
        else:
            named["zeta_kk / (n zeta_1k)"] = self.zeta_ratio
            named["k / n"] = self.k / self.n
        return {name: (value, value <= SMALL) for name, value in named.items()}

    def __str__(self) -> str:
        lines = [
            f"Theorem {2 if self.with_replacement else 1} at n = {self.n}, k = {self.k}, B = {self.B}",
            f"  Sigma (trace)              {np.trace(self.sigma):.3g}",
            f"  k^2 zeta_1k                {self.k**2 * self.zeta_1k.sum():.3g}   "
            f"{self.sigma_ratio:.2f} of Sigma",
            f"  k zeta_kk                  {self.k * self.zeta_kk.sum():.3g}",
            f"  n Var({self.statistic}_nk)                {self.n * self.complete_variance.sum():.3g}",
        ]
        if self.second_order is not None:
            lines.append(f"  second order               {self.second_order}")
        for name, (value, small) in self.conditions.items():
            lines.append(f"  {name:<26} {value:.3g}   {'small' if small else 'not small'}")
        lines += [
            f"  Var(replay) / Var(plug-in) {self.variance_ratio:.3g} measured, "
            f"{self.linear_ratio:.3g} to first order",
            f"  Monte-Carlo noise          {self.monte_carlo_share:.0%} of the replayed variance",
        ]
        return "\n".join(lines)


def theorem(estimate: Any, X: ArrayLike | None = None) -> Theorem:
    """Evaluate the quantities of the paper's theorems on the data of an estimate.

    Parameters
    ----------
    estimate : Estimate or fitted estimator
        An average of replicates, from `average` or ``estimate_`` of a fitted estimator; or a fitted
        `ReplayKernelRidge` or `ReplayRegressor`.
    X : array-like, optional
        For an estimate features, or any linear functionals, (m, q): the matrices are then those of X theta.
        For a regressor the points, (m, p), which it needs: the matrices are those of its predictions.

    Returns
    -------
    Theorem

    Raises
    ------
    ValueError
        If the estimate is not an average of replicates, or points are missing.

    See Also
    --------
    Estimate.diagnose : Whether replay helps here, with a recommendation.

    Notes
    -----
    Sigma of a ratio of moments is n times its delete-one jackknife (the sandwich where a solver truncates).
    Of other members it is n times the delete-d jackknife of one replicate, which is never below the variance
    of the average. The second order is that of `second_order`, from the moments of all units.

    Examples
    --------
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> moments = rs.moments.ridge_moments(X, X.sum(axis=1) + rng.normal(size=300))
    >>> plan = rs.make_plan(300, subsample_size=0.3, n_resamples=200, random_state=0)
    >>> found = rs.inference.theorem(rs.average(rs.replicate(moments, plan)))
    >>> found.sigma.shape, bool(abs(found.sigma_ratio - 1) < 0.2), round(found.linear_ratio, 4)
    ((3, 3), True, 1.0117)
    """
    found = getattr(estimate, "estimate_", estimate)
    members = getattr(found, "members", None)
    if members is None or found.method == "plug_in" or members.plan is None:
        hint = "Use rs.average(rs.replicate(...)), or an estimator that is fitted on subsets."
        raise ValueError(must_be("estimate", "an average of replicates", repr(estimate), hint))
    if isinstance(members, MomentReplicates):
        truncated = bool(np.any(members.truncated[~members.failed]))
        covariance = sandwich_covariance if truncated else jackknife_covariance
        plug_in = covariance(found.moments, found.solver)
        functionals = None if X is None else check_array(X, "X", ndim=2)
        return _assembled(found.replay_covariance, plug_in, functionals, _second_order(members, functionals))
    if X is None:
        hint = "They are what the matrices are of."
        raise ValueError(must_be("X", "the points of prediction for a regressor", None, hint))
    values = members.values(check_array(X, "X", ndim=2))
    parts = replay_variance(values, members.plan, failed=members.failed, covariance=True)
    return _assembled(parts, parts.delete_d, None)


def _second_order(members: MomentReplicates, X: FloatArray | None) -> SecondOrder | None:
    plan, moments = members.plan, members.moments
    if np.any(members.truncated[~members.failed]) or not members.solver.is_linear:
        return None
    linear = linearise(moments, members.solver)
    return second_order(moments, linear, X, k=plan.subsample_size, with_replacement=plan.with_replacement)


def _mean_over_outputs(values: FloatArray, n_functionals: int) -> FloatArray:
    """Return the mean over outputs, which is what the matrices are, shape (m,)."""
    return np.asarray(values.reshape(-1, n_functionals).mean(axis=0))


def _assembled(
    parts: ReplayVariance,
    plug_in: FloatArray,
    functionals: FloatArray | None,
    second: SecondOrder | None = None,
) -> Theorem:
    def of_question(matrix: FloatArray) -> FloatArray:
        one = matrix.mean(axis=0) if matrix.ndim == 3 else matrix
        return one if functionals is None else functionals @ one @ functionals.T

    plan = parts.plan
    n, k = plan.n_observations, plan.subsample_size
    sampling, noise = of_question(parts.sampling), of_question(parts.monte_carlo)
    own, total = of_question(plug_in), sampling + noise
    return Theorem(
        n=n,
        k=k,
        B=plan.n_resamples,
        with_replacement=plan.with_replacement,
        sigma=n * own,
        n_variance=n * sampling,
        k_zeta_kk=k * of_question(parts.zeta_kk),
        plug_in_covariance=own,
        replay_covariance=total,
        # Where zeta_1k is estimated below 0 the noise is more than all of it.
        monte_carlo_share=min(1.0, float(np.trace(noise) / np.trace(total))) if np.trace(total) > 0 else 1.0,
        second_order=second,
    )
