"""The recommended method: the estimate of least risk, or a penalty balanced on every subset where data fail.

1. Where the data determine theta: the estimate of least leave-units-out risk among the plug-in, a ridge,
   replay and a replayed ridge (`inference.risk`); the plug-in where no gain is significant.
2. Where noise makes half-samples cross singularity, or the moment matrix is less than four standard errors
   from a singular one (a weak instrument; least squares have no poles): bootstrap samples of all n
   observations with Lepski's penalty (kappa = 0.5).
3. Where the moment matrix is ill-conditioned as well (in units in which every basis function has the same
   size): subsets of 0.3 n with kappa = 1.5, so that rare failures average out.

Penalties shrink to a constant where the basis has one, so that a constant added to all rewards is added to
the answer.
Kappas and shares of 2 and 3 were chosen on the settings in docs/explanation/regularisation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._core.linalg import ROUNDING, scaled_singular_values
from .._core.random import as_generator
from .._core.thresholds import (
    CONDITION_LIMIT,
    FAR,
    ILL_POSED_KAPPA,
    MIN_EFFECTIVE,
    NEGLIGIBLE,
    SHARES,
    SMALL,
    WELL_POSED_KAPPA,
)
from .._core.typing import FloatArray, RandomLike
from .._core.validation import check_instance, check_int
from ..engine import replicate
from ..engine.executors import Executor, check_executor
from ..estimate import Estimate, average, plug_in
from ..inference.risk import RiskTable, constant_direction, is_least_squares, risk_table, scaled_ridge
from ..inference.stability import Stability, pilot_replicates, smallest_eigenvalues
from ..moments.streamed import AnyMoments, check_moments
from ..plans import ResamplingPlan, make_plan
from ..solvers import Auto, Lepski
from ..solvers.lepski import DEFAULT_PATH

# Rounding: condition number above which half the digits are lost and crossing cannot be seen.
SINGULAR_LIMIT = 1 / math.sqrt(float(np.finfo(np.float64).eps))
# Rounding: smallest eigenvalues of half-samples that lack a state are 0 up to rounding: that is no crossing.
BEYOND_ZERO = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recommendation:
    """The recommended estimate, and how it was arrived at.

    Attributes
    ----------
    estimate : Estimate
        The chosen estimate.
    ill_posed : bool
        Whether the data leave some direction of theta undetermined.
    crossing_share : float
        Share of half-samples that cross singularity. Those that merely lack a rare state do not.
    condition_number : float
        Of the moment matrix of all data, rows and columns brought to one size, without the directions that
        it does not contain.
    reason : str
        What was chosen and why, as a sentence.
    risks : RiskTable or None
        Estimated risks, where they decided.
    """

    estimate: Estimate
    ill_posed: bool
    crossing_share: float
    condition_number: float
    reason: str
    risks: RiskTable | None = None

    def __repr__(self) -> str:
        return f"Recommendation({'ill' if self.ill_posed else 'well'}-posed: {self.reason})"


def recommended_estimate(
    moments: AnyMoments,
    *,
    n_resamples: int = 100,
    plan: ResamplingPlan | None = None,
    executor: Executor | None = None,
    random_state: RandomLike = None,
) -> Recommendation:
    """Estimate theta so that ill-posed problems are regularised and well-posed ones are left alone.

    1. Count the half-samples, of 256, that cross singularity; compute the condition number.
    2. Where hardly any crosses, no direction is missing and the matrix is clearly not singular, return the
       estimate of least estimated risk.
    3. Else draw bootstrap samples of n observations or, for ill-posed problems, subsets of 0.3 n.
    4. Solve each with `Lepski`, kappa 0.5 or 1.5, which chooses its own penalty, and average.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations, in memory.
    n_resamples : int
        Number of subsets.
    plan : ResamplingPlan, optional
        Subsets to use in place of those of step 3; they are used in any case.
    executor : Executor, optional
        Who sums over the subsets; default this thread.
    random_state : None, int, Generator, RandomState or SeedSequence
        Where the randomness comes from.

    Returns
    -------
    Recommendation

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> basis = rs.basis.Fourier(4)
    >>> data = rs.simulate.ornstein_uhlenbeck(500, random_state=0)  # stays near 0; we ask about [-pi, pi]
    >>> moments = rs.moments.lstd_moments(data, basis, discount=np.exp(-0.1))
    >>> grid = np.linspace(-np.pi, np.pi, 50)
    >>> def error(estimate):
    ...     return np.sqrt(np.mean((estimate.predict(basis(grid[:, None])) - np.cos(grid) ** 3) ** 2))
    >>> recommendation = recommended_estimate(moments, random_state=0)
    >>> recommendation.ill_posed, bool(error(recommendation.estimate) < error(rs.plug_in(moments)))
    (True, True)
    """
    check_moments(moments)
    check_int(n_resamples, "n_resamples")
    check_executor(executor)
    if plan is not None:
        check_instance(plan, "plan", ResamplingPlan, "Make one with rs.make_plan.")
    random_state = as_generator(random_state)
    condition = _condition_of_the_rest(moments.total()[0])
    pilot = Stability(replicates=pilot_replicates(moments, Auto()))
    crossing = _crossing_share(pilot)
    ill_posed = condition > SINGULAR_LIMIT or (condition > CONDITION_LIMIT and crossing > SMALL)
    determined = crossing <= NEGLIGIBLE and pilot.linear is not None and not pilot.linear.truncated
    determined &= pilot.separation >= FAR or is_least_squares(moments)
    seen = _seen(condition, pilot.separation, crossing)
    if plan is None and determined and not ill_posed:
        risks = risk_table(pilot)
        return Recommendation(
            estimate=_of_least_risk(moments, risks, n_resamples, executor, random_state),
            ill_posed=False,
            crossing_share=crossing,
            condition_number=condition,
            reason=f"{seen}; least risk: {risks.best.action}. {risks.why}",
            risks=risks,
        )
    if plan is None:
        plan = _plan(moments, ill_posed, n_resamples, random_state)
    # The plain solution belongs on the path only where it means something.
    path = DEFAULT_PATH if ill_posed else (0.0, *DEFAULT_PATH)
    solver = Lepski(ILL_POSED_KAPPA if ill_posed else WELL_POSED_KAPPA, path=path, origin=_origin(pilot))
    replicates = replicate(moments, plan, solver=solver, executor=executor)
    return Recommendation(
        estimate=average(replicates, "mean"),
        ill_posed=ill_posed,
        crossing_share=crossing,
        condition_number=condition,
        reason=_reason(seen, plan, solver),
    )


def _origin(pilot: Stability) -> FloatArray | None:
    """Return what penalties shrink to: a constant, the median over half-samples of the mean value.

    With u the coefficients of a constant, A u is the mean of the features, times a number.
    """
    moments = pilot.replicates.moments
    u = constant_direction(moments)
    theta = pilot.replicates.theta[~pilot.replicates.failed]
    if u is None or not len(theta):
        return None
    features = moments.total()[0] @ u
    means = np.moveaxis(theta, 1, -1) @ features / float(u @ features)  # (B,) or (B, n_outputs)
    return np.asarray(np.multiply.outer(u, np.median(means, axis=0)))


def _of_least_risk(
    moments: AnyMoments,
    risks: RiskTable,
    n_resamples: int,
    executor: Executor | None,
    random_state: RandomLike,
) -> Estimate:
    """Return the chosen estimate: plug-in or ridge on all data, or the mean over subsets."""
    chosen = risks.best
    if chosen.share is None:
        return plug_in(moments, None if chosen.penalty is None else scaled_ridge(moments, chosen.penalty))
    size = max(1, round(chosen.share * moments.n_observations))
    plan = make_plan(
        moments.n_observations,
        statistic="U",
        subsample_size=size,
        n_resamples=n_resamples,
        random_state=random_state,
    )
    solver = None if chosen.penalty is None else scaled_ridge(moments, chosen.penalty, chosen.share)
    return average(replicate(moments, plan, solver=solver, executor=executor))


def _condition_of_the_rest(A: FloatArray) -> float:
    """Return the condition number after scaling, without singular values at rounding level."""
    s = scaled_singular_values(A)
    kept = s[s > ROUNDING * len(s) * s[0]]
    return float(s[0] / kept[-1]) if kept.size else math.inf


def _crossing_share(pilot: Stability) -> float:
    """Return the share of half-samples that cross, which is more than lacking a state that others have."""
    if pilot.linear is None:
        return 1.0
    return float(np.mean(smallest_eigenvalues(pilot.replicates, pilot.linear) < -BEYOND_ZERO))


def _plan(moments: AnyMoments, ill_posed: bool, n_resamples: int, random_state: RandomLike) -> ResamplingPlan:
    n = moments.n_observations
    if not ill_posed:
        return make_plan(
            n, statistic="V", subsample_size=n, n_resamples=n_resamples, random_state=random_state
        )
    enough = min(MIN_EFFECTIVE * moments.n_basis, n // 2)
    size = max(1, enough, round(SHARES[0] * n))
    return make_plan(
        n, statistic="U", subsample_size=size, n_resamples=n_resamples, random_state=random_state
    )


def _seen(condition: float, separation: float, crossing: float) -> str:
    away = max(0.0, separation)
    return (
        f"the moment matrix has the condition number {condition:.1e}, is {away:.1f} standard errors "
        f"from a singular one, and {crossing:.0%} of half-samples cross singularity"
    )


def _reason(seen: str, plan: ResamplingPlan, solver: Lepski) -> str:
    kind = "bootstrap samples" if plan.with_replacement else "subsets"
    return (
        f"{seen}; so the mean over {plan.n_resamples} {kind} of {plan.subsample_size} "
        f"observations, each with the penalty that balances bias and noise (Lepski, kappa={solver.kappa:g})"
    )
