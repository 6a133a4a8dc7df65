"""The quantities of the paper's theorems at given n, k and B, and the variance ratio they bound.

Lemma 1 has sqrt(n) (plug-in - theta) -> N(0, Sigma). Theorems 1 and 2 compare Var(plug-in) = Sigma / n with

    Var(U_nkB) = (k^2 / n) zeta_1k + (1 / B) (zeta_kk - (k^2 / n) zeta_1k)

and use k^2 zeta_1k -> Sigma: to first order both variances are Sigma / n, whatever k is, and B adds to it.
For an estimator that is linear in the data the ratio is exactly 1 + (n / k - 1) / B (U; n / (k B) for V),
never below one. What replay can gain is of second order, which the limits do not contain: `second_order`
predicts it, `variance_ratio` measures it.

With A = E g, e_i = f_i - g_i theta, H_i = A^-1 e_i, D_i = A^-1 (g_i - A), an answer on k units is

    h_k - theta = (I + D)^-1 H = H - D H + D D H - ...        (H, D: means over the k units)

Its projection on one unit is (H_1 + M_1 / k) / k with

    M_1 = -(D_1 H_1 - E D H) + E_j[D_j D_j H_1 + D_j D_1 H_j + D_1 D_j H_j],

and its projection on two units adds -(D_1 H_2 + D_2 H_1) / k^2. Hence, with c = tr Cov(H, M) / tr Var(H),

    k^2 zeta_1k = Var(H + M / k),     Var(U_nk) / Var(plug-in) = 1 + 2 c (1/k - 1/n) + O(1/k^2).

With replacement the same holds at the matching size 1/k' = 1/k + 1/n (Buja and Stuetzle 2006), so that the
bracket is 1/k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from .._core.errors import must_be
from .._core.linalg import scaled_singular_values
from .._core.thresholds import CHECK_LEVEL, MOST_WORK, SEVERAL, SMALL
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import check_array
from ..engine import MomentReplicates
from ..engine.linear import Linearisation, linearise
from ..moments.streamed import AnyMoments
from .influence import jackknife_covariance, sandwich_covariance, unit_matrices
from .variance import replay_variance

# Rounding: smallest relative singular value without a group (rows and columns scaled) at which anything is
# predicted.
_SMALLEST = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecondOrder:
    """The second-order term of replay's variance, estimated from the data.

    Attributes
    ----------
    n, k, with_replacement
    c : float
        tr Cov(H, M) / tr Var(H) with the jackknife's bias correction. Replay lowers the variance if c < 0.
    standard_error : float
        Of c, by the delete-a-group jackknife over units.
    zeta_1k : ndarray of shape (m,)
        Variance of E[h_k | Z_1] for each functional, h_k an answer on k units.
    degenerate : ndarray of bool, shape (m,)
        Functionals whose first-order variance is not significantly above 0; `zeta_1k` takes it as 0 there.
    pair_variance : ndarray of shape (m,)
        Variance of the part of k^2 h_k that two units determine together and neither of them alone.

    Examples
    --------
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 3))
    >>> noise = np.sqrt((x**2).mean(axis=1)) * rng.normal(size=400)  # noise grows with leverage
    >>> plan = rs.make_plan(400, subsample_size=100, n_resamples=100, random_state=0)
    >>> moments = rs.moments.ridge_moments(x, x.sum(axis=1) + noise)
    >>> print(rs.inference.theorem(rs.average(rs.replicate(moments, plan))).second_order)
    c = -2.39 +- 0.56: Var(U) / Var(plug-in) = 0.964 +- 0.008 predicted; replay lowers the variance
    """

    n: int
    k: int
    with_replacement: bool
    c: float
    standard_error: float
    zeta_1k: FloatArray
    degenerate: BoolArray
    pair_variance: FloatArray

    @property
    def size_term(self) -> float:
        """1/k - 1/n without replacement, 1/k with."""
        return 1.0 / self.k - (0.0 if self.with_replacement else 1.0 / self.n)

    @property
    def variance_ratio(self) -> float:
        """Predicted variance of complete replay over that of the plug-in, 1 + 2 c (1/k - 1/n)."""
        return 1.0 + 2.0 * self.c * self.size_term

    @property
    def ratio_standard_error(self) -> float:
        """Standard error of `variance_ratio`."""
        return 2.0 * self.standard_error * self.size_term

    @property
    def effect(self) -> str:
        """What replay does to the variance: "lowers", "raises" or "no significant difference"."""
        if not abs(self.c) > 1.96 * self.standard_error:
            return "no significant difference"
        return "replay lowers the variance" if self.c < 0 else "replay raises the variance"

    def zeta(self, c: int) -> FloatArray:
        """Return zeta_ck, the variance of E[h_k | Z_1, ..., Z_c], to second order, shape (m,)."""
        return c * self.zeta_1k + c * (c - 1) / 2 * self.pair_variance / self.k**4

    @property
    def counted_twice(self) -> FloatArray:
        """Excess of the expected jackknife variance of U_nk over Var(U_nk), shape (m,).

        A part that depends on c units enters the jackknife c (n - 1) / (n - c) times (Efron and Stein 1981).
        """
        n, once = self.n, (1.0 if self.with_replacement else (1.0 - 1.0 / self.k) ** 2)
        return once * self.pair_variance / (2.0 * (n - 1) * max(1, n - 2))

    def __str__(self) -> str:
        statistic = "V" if self.with_replacement else "U"
        return (
            f"c = {self.c:.2f} +- {self.standard_error:.2f}: Var({statistic}) / Var(plug-in) = "
            f"{self.variance_ratio:.3f} +- {self.ratio_standard_error:.3f} predicted; {self.effect}"
        )


def second_order(
    moments: AnyMoments, linear: Linearisation, X: FloatArray | None, *, k: int, with_replacement: bool
) -> SecondOrder | None:
    """Estimate the second-order term.

    1. Deal the units into groups; compute H, D and M from all units, and again without each group.
    2. Take Var(H), Cov(H, M), Var(M) and the pair variance of every functional from each.
    3. Correct c and the variances for bias by the jackknife over groups; its spread is the standard error.
    4. Where Var(H) of a functional does not exceed its own bias significantly, take it as 0: the functional
       is degenerate, and its zeta_1k is Var(M / k) / k^2.

    Parameters
    ----------
    moments : Moments, FactoredMoments or StreamedMoments
    linear : Linearisation
        Of all units.
    X : ndarray of shape (m, q) or None
        Functionals; default the coefficients.
    k, with_replacement
        Of the subsets.

    Returns
    -------
    SecondOrder or None
        None where the solver left directions out, where a tenth of the units leaves a singular matrix, or
        where n q^3 is too large.
    """
    n, q = moments.n_observations, moments.n_basis
    step = math.ceil(n * float(q) ** 3 / MOST_WORK)
    n_groups = min(SEVERAL, n // step)
    if linear.truncated or linear.set_aside or n_groups < 3 or n // step < 2 * q:
        return None
    X = np.eye(q) if X is None else X
    units = _Units(moments, linear, step, n_groups)
    try:
        everything, left_out = units.terms(X, None), [units.terms(X, j) for j in range(n_groups)]
    except np.linalg.LinAlgError:
        return None
    without = np.array(left_out)  # (G, 4, m)
    corrected = n_groups * everything - (n_groups - 1) * without.mean(axis=0)
    constants = np.array([_constant(terms) for terms in without])
    spread = (n_groups - 1) / n_groups * np.square(constants - constants.mean()).sum()
    variance, covariance, _, pair = corrected
    bias = everything[0] - variance
    degenerate = everything[0] <= special.chdtri(1, CHECK_LEVEL) * bias
    first = np.where(degenerate, 0.0, variance + 2.0 * covariance / k)
    return SecondOrder(
        n=n,
        k=k,
        with_replacement=with_replacement,
        c=float(n_groups * _constant(everything) - (n_groups - 1) * constants.mean()),
        standard_error=float(np.sqrt(spread)),
        zeta_1k=np.maximum(first, 0.0) / k**2 + everything[2] / k**4,
        degenerate=degenerate,
        pair_variance=np.maximum(pair, 0.0),
    )


def _constant(terms: FloatArray) -> float:
    """Return c = sum Cov(H, M) / sum Var(H) over the functionals; 0 where nothing varies."""
    total = float(terms[0].sum())
    return float(terms[1].sum()) / total if total > 0 else 0.0


class _Units:
    """The units' moments by blocks, dealt into groups, with A and b of each group."""

    def __init__(self, moments: AnyMoments, linear: Linearisation, step: int, n_groups: int) -> None:
        n = moments.n_observations
        self.moments, self.step, self.n_groups = moments, step, n_groups
        # A penalty or a constant that enters once per solve stays what it is when units are left out.
        self.penalty = np.zeros_like(linear.sums[0])
        if linear.completed is None:
            self.penalty = np.linalg.inv(linear.inverse) / n - linear.share * linear.sums[0] / n
        self.outputs = moments.n_outputs or 1
        shape = (n_groups, moments.n_basis, moments.n_basis)
        self.A, self.b = np.zeros(shape), np.zeros((*shape[:2], self.outputs))
        self.sizes = np.zeros(n_groups)
        for group, g, f in self._blocks():
            np.add.at(self.A, group, g)
            np.add.at(self.b, group, f)
            self.sizes += np.bincount(group, minlength=n_groups)

    def _blocks(self) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """Yield the groups of some units, their g (units, q, q) and f (units, q, n_outputs)."""
        for units, g, f in unit_matrices(self.moments):
            chosen = units % self.step == 0
            yield units[chosen] // self.step % self.n_groups, g[chosen], f[chosen]

    def terms(self, X: FloatArray, left_out: int | None) -> FloatArray:
        """Return Var(H), Cov(H, M), Var(M) and the pair variance of every functional, shape (4, m)."""
        kept = np.arange(self.n_groups) != (-1 if left_out is None else left_out)
        n = self.sizes[kept].sum()
        A, b = self.A[kept].sum(axis=0) / n, self.b[kept].sum(axis=0) / n
        matrix = A + self.penalty
        singular_values = scaled_singular_values(matrix)
        if singular_values[-1] < _SMALLEST * singular_values[0]:
            raise np.linalg.LinAlgError("a group determines a direction alone")
        inverse = np.linalg.inv(matrix)
        found = []
        for output in range(self.outputs):
            theta = inverse @ b[:, output]
            matrices = self._of_output(kept, inverse, theta, output, (inverse @ A, b[:, output] - A @ theta))
            found.append(np.einsum("md,tde,me->tm", X, matrices, X, optimize=True))
        return np.concatenate(found, axis=1)

    def _of_output(
        self,
        kept: BoolArray,
        inverse: FloatArray,
        theta: FloatArray,
        output: int,
        means: tuple[FloatArray, FloatArray],
    ) -> FloatArray:
        """Return the same as matrices of theta, shape (4, q, q), from two passes over the units."""
        n, q = self.sizes[kept].sum(), len(theta)

        def blocks() -> Iterator[tuple[FloatArray, FloatArray]]:
            for group, g, f in self._blocks():
                use = kept[group]
                yield (f[use, :, output] - g[use] @ theta - means[1]) @ inverse.T, inverse @ g[use] - means[0]

        HD, DD, HH = np.zeros((q, q * q)), np.zeros((q, q)), np.zeros((q, q))
        for H, D in blocks():
            HD += H.T @ D.reshape(len(D), -1) / n
            DD += (D @ D).sum(axis=0) / n
            HH += H.T @ H / n
        K = HD.reshape(q, q, q)  # E[H_a D_bc]
        mean = np.einsum("bab->a", K)
        exchanged = K.transpose(2, 0, 1).reshape(q * q, q)  # D_1 to E_j[D_j D_1 H_j]
        HM, MM, DHHD = np.zeros((q, q)), np.zeros((q, q)), np.zeros((q, q))
        for H, D in blocks():
            DH = (D @ H[:, :, None])[:, :, 0]
            M = mean - DH + H @ DD.T + D.reshape(len(D), -1) @ exchanged + D @ mean
            HM += H.T @ M / n
            MM += M.T @ M / n
            DHHD += (D @ HH @ D.transpose(0, 2, 1)).sum(axis=0) / n
        # E of (D_1 H_2 + D_2 H_1) times its transpose
        pair = 2.0 * DHHD + 2.0 * np.einsum("bda,aeb->de", K, K)
        return np.array([HH, HM, MM, pair])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Theorem:
    """The quantities of Lemma 1 and Theorems 1 and 2, estimated from one data set.

    Matrices are of theta, (q, q), or of X theta, (m, m). With several outputs they are means over outputs.

    Attributes
    ----------
    n, k, B, with_replacement
        Theorem 2 (V) applies with replacement.
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
        excess = _mean_over_outputs(self.second_order.counted_twice, len(self.sigma))
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
        first = float(self.zeta_1k.sum())
        return float(self.zeta_kk.sum()) / (self.n * first) if first > 0 else math.inf

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
        statistic = "V" if self.with_replacement else "U"
        lines = [
            f"Theorem {2 if self.with_replacement else 1} at n = {self.n}, k = {self.k}, B = {self.B}",
            f"  Sigma (trace)              {np.trace(self.sigma):.3g}",
            f"  k^2 zeta_1k                {self.k**2 * self.zeta_1k.sum():.3g}   "
            f"{self.sigma_ratio:.2f} of Sigma",
            f"  k zeta_kk                  {self.k * self.zeta_kk.sum():.3g}",
            f"  n Var({statistic}_nk)                {self.n * self.complete_variance.sum():.3g}",
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
    plan, functionals, second = members.plan, None, None
    n, k, replaced = plan.n_observations, plan.subsample_size, plan.with_replacement
    if isinstance(members, MomentReplicates):
        truncated = bool(np.any(members.truncated[~members.failed]))
        covariance = sandwich_covariance if truncated else jackknife_covariance
        parts, plug_in = found.replay_covariance, covariance(found.moments, found.solver)
        functionals = None if X is None else check_array(X, "X", ndim=2)
        if not truncated and found.solver.is_linear:
            linear = linearise(found.moments, found.solver)
            second = second_order(found.moments, linear, functionals, k=k, with_replacement=replaced)
    elif X is None:
        rule = "the points of prediction for a regressor"
        raise ValueError(must_be("X", rule, None, "They are what the matrices are of."))
    else:
        values = members.values(check_array(X, "X", ndim=2))
        parts = replay_variance(values, plan, failed=members.failed, covariance=True)
        plug_in = parts.delete_d

    def of_question(matrix: FloatArray) -> FloatArray:
        one = matrix.mean(axis=0) if matrix.ndim == 3 else matrix
        return one if functionals is None else functionals @ one @ functionals.T

    sampling, noise, own = (of_question(part) for part in (parts.sampling, parts.monte_carlo, plug_in))
    total = sampling + noise
    return Theorem(
        n=n,
        k=k,
        B=plan.n_resamples,
        with_replacement=replaced,
        sigma=n * own,
        n_variance=n * sampling,
        k_zeta_kk=k * of_question(parts.zeta_kk),
        plug_in_covariance=own,
        replay_covariance=total,
        # Where zeta_1k is estimated below 0 the noise is more than all of it.
        monte_carlo_share=min(1.0, float(np.trace(noise) / np.trace(total))) if np.trace(total) > 0 else 1.0,
        second_order=second,
    )


def _mean_over_outputs(values: FloatArray, n_functionals: int) -> FloatArray:
    """Return the mean over outputs, which is what the matrices are, shape (m,)."""
    return np.asarray(values.reshape(-1, n_functionals).mean(axis=0))
