"""The paper's theorems at the sizes at hand: every quantity they speak of, and the ratio they are about.

Lemma 1 has sqrt(n) (plug-in - theta) -> N(0, Sigma). Theorems 1 and 2 compare Var(plug-in) = Sigma / n with

    Var(U_nkB) = (k^2 / n) zeta_1k + (1 / B) (zeta_kk - (k^2 / n) zeta_1k)

and use k^2 zeta_1k -> Sigma: to first order both variances are Sigma / n, whatever k is, and B adds to it.
For an estimator that is linear in the data the ratio is exactly 1 + (n / k - 1) / B (U; n / (k B) for V),
never below one. What replay can gain lies in the second order, which the limits do not see; `variance_ratio`
measures it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array
from ..engine import MomentReplicates
from ..engine.replicate import WholeData
from .components import ReplayVariance
from .influence import jackknife_covariance, sandwich_covariance
from .variance import replay_variance

# What "goes to zero" is taken to mean at a given n.
SMALL = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Theorem:
    """The quantities of Lemma 1 and Theorems 1 and 2, estimated from one data set.

    Matrices are of theta, (q, q), or of X theta, (m, m). With several outputs they are means over outputs.

    Attributes
    ----------
    n, k, B : int
    statistic : str
    sigma : ndarray
        Sigma of Lemma 1: n times the covariance of the plug-in.
    k2_zeta_1k : ndarray
        k^2 zeta_1k, which goes to Sigma.
    k_zeta_kk : ndarray
        k zeta_kk: k times the covariance of one replicate on fresh data. Sigma too, where h_k is linear.
    plug_in_covariance, replay_covariance : ndarray
        Var(plug-in) and Var(U_nkB) or Var(V_nkB).
    monte_carlo_share : float
        Share of the replayed variance (its trace) that is there because B subsets are not all.

    Examples
    --------
    >>> import replaystats as rs
    >>> moments = rs.Moments(np.ones(100), np.arange(100.0))  # a mean: linear in the data
    >>> plan = rs.make_plan(100, subsample_size=20, n_resamples=50, rng=0)
    >>> found = rs.inference.theorem(rs.average(rs.replicate(moments, plan)))
    >>> found.linear_ratio, found.n_over_Bk
    (1.08, 0.1)
    """

    n: int
    k: int
    B: int
    statistic: str
    sigma: FloatArray
    k2_zeta_1k: FloatArray
    k_zeta_kk: FloatArray
    plug_in_covariance: FloatArray
    replay_covariance: FloatArray
    monte_carlo_share: float

    @property
    def with_replacement(self) -> bool:
        """Whether the V-theorem is the one that speaks."""
        return self.statistic == "V"

    @property
    def zeta_ratio(self) -> float:
        """zeta_kk / (n zeta_1k), by traces: Theorem 1 lets it go to 0; about k / n where h_k is linear."""
        first, last = np.trace(self.k2_zeta_1k) / self.k**2, np.trace(self.k_zeta_kk) / self.k
        return float(last / (self.n * first)) if first > 0 else math.inf

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
        return float(np.trace(self.k2_zeta_1k) / np.trace(self.sigma))

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
            f"  k^2 zeta_1k                {np.trace(self.k2_zeta_1k):.3g}   {self.sigma_ratio:.2f} of Sigma",
            f"  k zeta_kk                  {np.trace(self.k_zeta_kk):.3g}",
        ]
        for name, (value, small) in self.conditions.items():
            lines.append(f"  {name:<26} {value:.3g}   {'small' if small else 'not small'}")
        lines += [
            f"  Var(replay) / Var(plug-in) {self.variance_ratio:.3g} measured, "
            f"{self.linear_ratio:.3g} to first order",
            f"  Monte-Carlo noise          {self.monte_carlo_share:.0%} of the replayed variance",
        ]
        return "\n".join(lines)


def theorem(estimate: Any, X: ArrayLike | None = None) -> Theorem:
    """Evaluate what the paper's theorems speak of, on the data of an estimate.

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
    Of other members it is n times the delete-d jackknife of one replicate, which is never below what the
    average has.

    Examples
    --------
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> moments = rs.ridge_moments(X, X.sum(axis=1) + rng.normal(size=300))
    >>> plan = rs.make_plan(300, subsample_size=0.3, n_resamples=200, rng=0)
    >>> found = rs.inference.theorem(rs.average(rs.replicate(moments, plan)))
    >>> found.sigma.shape, bool(abs(found.sigma_ratio - 1) < 0.2), round(found.linear_ratio, 4)
    ((3, 3), True, 1.0117)
    """
    found = getattr(estimate, "estimate_", estimate)
    members = getattr(found, "members", None)
    if isinstance(members, MomentReplicates):
        truncated = bool(np.any(members.truncated[~members.failed]))
        covariance = sandwich_covariance if truncated else jackknife_covariance
        plug_in = covariance(found.moments, found.solver)
        functionals = None if X is None else check_array(X, "X", ndim=2)
        return _assembled(found.replay_covariance, plug_in, functionals)
    if members is None or isinstance(members, WholeData) or members.plan is None:
        hint = "Use rs.average(rs.replicate(...)), or an estimator that is fitted on subsets."
        raise ValueError(must_be("estimate", "an average of replicates", repr(estimate), hint))
    if X is None:
        hint = "They are what the matrices are of."
        raise ValueError(must_be("X", "the points of prediction for a regressor", None, hint))
    values = members.values(check_array(X, "X", ndim=2))
    parts = replay_variance(values, members.plan, failed=members.failed, covariance=True)
    return _assembled(parts, parts.delete_d, None)


def _assembled(parts: ReplayVariance, plug_in: FloatArray, functionals: FloatArray | None) -> Theorem:
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
        statistic="V" if plan.with_replacement else "U",
        sigma=n * own,
        k2_zeta_1k=n * sampling,
        k_zeta_kk=k * of_question(parts.zeta_kk),
        plug_in_covariance=own,
        replay_covariance=total,
        # Where zeta_1k is estimated below 0 the noise is more than all of it.
        monte_carlo_share=min(1.0, float(np.trace(noise) / np.trace(total))) if np.trace(total) > 0 else 1.0,
    )
