"""The recommended method: a penalty balanced on every subset, averaged, with subsets that suit the problem.

A single choice of the penalty jumps when the data change a little, so averaging over subsets pays. How large
they should be depends on whether the data determine the answer:

- where they do without doubt (hardly any half-sample crosses singularity), nothing beats the plug-in by much,
  and a penalty may lose: the plug-in is handed back;
- where noise makes half-samples cross, bootstrap samples of all n observations with a cautious penalty
  (kappa = 0.5);
- where the moment matrix is ill-conditioned as well (in units in which every basis function has the same
  size), subsets of 0.3 n with a firm penalty (kappa = 1.5): answers different enough to average the rare
  failures away.

The numbers below were chosen on the settings in docs/explanation/regularisation.md, with gains and losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._core.linalg import ROUNDING, scaled_singular_values
from .._core.random import as_generator
from .._core.typing import FloatArray, RandomLike
from .._core.validation import check_instance, check_int
from ..engine import Executor, replicate
from ..engine.executors import check_executor
from ..estimate import Estimate, average, plug_in
from ..inference.stability import Stability, pilot_replicates, smallest_eigenvalues
from ..moments import AnyMoments, check_moments
from ..plans import ResamplingPlan, make_plan
from ..solvers import Auto, Lepski
from ..solvers.lepski import DEFAULT_PATH

WELL_POSED_KAPPA, ILL_POSED_KAPPA = 0.5, 1.5
ILL_POSED_SHARE = 0.3
# Well-posed: no more half-samples than this share cross singularity.
SAFE_CROSSING = 0.01
# Ill-posed: more half-samples than this share cross singularity, and the condition number is above this,
CROSSING_LIMIT, CONDITION_LIMIT = 0.1, 1e3
# or above that, where half the digits are lost and crossing cannot be told.
SINGULAR_LIMIT = 1 / math.sqrt(float(np.finfo(np.float64).eps))
# Smallest eigenvalues of half-samples that lack a state are 0 up to rounding: that is no crossing.
BEYOND_ZERO = 1e-8
# Fewer observations than this per unknown make single subsets useless.
OBSERVATIONS_PER_UNKNOWN = 7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recommendation:
    """The recommended estimate, and how it was arrived at.

    Attributes
    ----------
    estimate : Estimate
        The mean of the balanced solutions, or the plug-in where the data leave no doubt.
    ill_posed : bool
        Whether the data leave some direction of theta undetermined.
    crossing_share : float
        Share of half-samples that cross singularity. Those that merely lack a rare state do not.
    condition_number : float
        Of the moment matrix of all data, rows and columns brought to one size, without the directions that
        it does not contain.
    reason : str
        What was chosen and why, as a sentence.
    """

    estimate: Estimate
    ill_posed: bool
    crossing_share: float
    condition_number: float
    reason: str

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

    1. Look at how many of 256 half-samples cross singularity, and at the condition number.
    2. Where hardly any crosses and no direction is missing, hand back the plug-in.
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
    >>> moments = rs.lstd_moments(data, basis, discount=np.exp(-0.1))
    >>> grid = np.linspace(-np.pi, np.pi, 50)
    >>> def error(estimate):
    ...     return np.sqrt(np.mean((estimate.predict(basis(grid[:, None])) - np.cos(grid) ** 3) ** 2))
    >>> recommendation = recommended_estimate(moments, random_state=0)
    >>> recommendation.ill_posed, bool(error(recommendation.estimate) < 0.5)
    (True, True)
    >>> bool(error(rs.plug_in(moments)) > 1)
    True
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
    ill_posed = condition > SINGULAR_LIMIT or (condition > CONDITION_LIMIT and crossing > CROSSING_LIMIT)
    determined = crossing <= SAFE_CROSSING and pilot.linear is not None and not pilot.linear.truncated
    if plan is None and determined and not ill_posed:
        return Recommendation(
            estimate=plug_in(moments),
            ill_posed=False,
            crossing_share=crossing,
            condition_number=condition,
            reason=f"{_seen(condition, crossing)}; so the plug-in, which no penalty improves by much",
        )
    if plan is None:
        plan = _plan(moments, ill_posed, n_resamples, random_state)
    # The plain solution belongs on the path only where it means something.
    solver = Lepski(ILL_POSED_KAPPA) if ill_posed else Lepski(WELL_POSED_KAPPA, path=(0.0, *DEFAULT_PATH))
    replicates = replicate(moments, plan, solver=solver, executor=executor)
    return Recommendation(
        estimate=average(replicates, "mean"),
        ill_posed=ill_posed,
        crossing_share=crossing,
        condition_number=condition,
        reason=_reason(condition, crossing, plan, solver),
    )


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


def _plan(moments: AnyMoments, ill_posed: bool, n_resamples: int, rng: RandomLike) -> ResamplingPlan:
    n = moments.n_observations
    if not ill_posed:
        return make_plan(n, statistic="V", subsample_size=n, n_resamples=n_resamples, random_state=rng)
    enough = min(OBSERVATIONS_PER_UNKNOWN * moments.n_basis, n // 2)
    size = max(1, enough, round(ILL_POSED_SHARE * n))
    return make_plan(n, statistic="U", subsample_size=size, n_resamples=n_resamples, random_state=rng)


def _seen(condition: float, crossing: float) -> str:
    return (
        f"the moment matrix has the condition number {condition:.1e} and {crossing:.0%} of half-samples "
        "cross singularity"
    )


def _reason(condition: float, crossing: float, plan: ResamplingPlan, solver: Lepski) -> str:
    kind = "bootstrap samples" if plan.with_replacement else "subsets"
    return (
        f"{_seen(condition, crossing)}; so the mean over {plan.n_resamples} {kind} of {plan.subsample_size} "
        f"observations, each with the penalty that balances bias and noise (Lepski, kappa={solver.kappa:g})"
    )
