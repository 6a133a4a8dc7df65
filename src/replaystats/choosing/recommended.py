"""The recommended method: a penalty balanced on every subset, averaged, with subsets that suit the problem.

A single choice of the penalty jumps when the data change a little, so averaging over subsets pays. How large
they should be depends on whether the data determine the answer:

- where they do, bootstrap samples of all n observations with a cautious penalty (kappa = 0.5);
- where they do not, subsets of 0.3 n with a firm one (kappa = 1.5): answers different enough to average the
  rare failures away.

They do not where the moment matrix is ill-conditioned (in units in which every basis function has the same
size) and half-samples cross singularity. Noise alone makes subsets cross, and needs no firm penalty.

The numbers below were chosen on the settings in docs/regularisation.md, which shows gains and losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._core.config import takes_memory_budget
from .._core.linalg import scaled_condition
from .._core.typing import RandomLike
from .._core.validation import check_int
from ..engine import Executor, replicate
from ..estimate import Estimate, average
from ..inference.validity import Validity, pilot_replicates
from ..moments import AnyMoments
from ..plans import ResamplingPlan, make_plan
from ..solvers import LU, Lepski
from ..solvers.lepski import DEFAULT_PATH

WELL_POSED_KAPPA, ILL_POSED_KAPPA = 0.5, 1.5
ILL_POSED_SHARE = 0.3
# Ill-posed: more half-samples than this share cross singularity, and the condition number is above this,
CROSSING_LIMIT, CONDITION_LIMIT = 0.1, 1e3
# or above that, where half the digits are lost and crossing cannot be told.
SINGULAR_LIMIT = 1 / math.sqrt(float(np.finfo(np.float64).eps))
# Fewer observations than this per unknown make single subsets useless.
OBSERVATIONS_PER_UNKNOWN = 7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recommendation:
    """The recommended estimate, and how it was arrived at.

    Attributes
    ----------
    estimate : Estimate
        The mean of the balanced solutions.
    ill_posed : bool
        Whether the data leave some direction of theta undetermined.
    crossing_share : float or None
        Share of half-samples that cross singularity; None where the condition number decides alone.
    condition_number : float
        Of the moment matrix of all data, rows and columns brought to one size.
    reason : str
        What was chosen and why, as a sentence.
    """

    estimate: Estimate
    ill_posed: bool
    crossing_share: float | None
    condition_number: float
    reason: str

    def __repr__(self) -> str:
        return f"Recommendation({'ill' if self.ill_posed else 'well'}-posed: {self.reason})"


@takes_memory_budget
def recommended_estimate(
    moments: AnyMoments,
    *,
    n_resamples: int = 100,
    plan: ResamplingPlan | None = None,
    executor: Executor | None = None,
    rng: RandomLike = None,
) -> Recommendation:
    """Estimate theta so that ill-posed problems are regularised and well-posed ones are left alone.

    1. Look at the condition number and, where that leaves doubt, at how many of 256 half-samples cross
       singularity.
    2. Draw bootstrap samples of n observations (well-posed) or subsets of 0.3 n (ill-posed).
    3. Solve each with `Lepski`, kappa 0.5 or 1.5, which chooses its own penalty, and average.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations, in memory.
    n_resamples : int
        Number of subsets.
    plan : ResamplingPlan, optional
        Subsets to use in place of those of step 2.
    executor : Executor, optional
        Who sums over the subsets; default this thread.
    rng : None, int, Generator, RandomState or SeedSequence
        Where the randomness comes from.

    Returns
    -------
    Recommendation

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> basis = rs.basis.Fourier(4)
    >>> data = rs.simulate.ornstein_uhlenbeck(500, rng=0)  # stays near 0, while we ask about all of [-pi, pi]
    >>> moments = rs.lstd_moments(data, basis, discount=np.exp(-0.1))
    >>> grid = np.linspace(-np.pi, np.pi, 50)
    >>> def error(estimate):
    ...     return np.sqrt(np.mean((estimate.predict(basis(grid[:, None])) - np.cos(grid) ** 3) ** 2))
    >>> recommendation = recommended_estimate(moments, rng=0)
    >>> recommendation.ill_posed, bool(error(recommendation.estimate) < 0.5)
    (True, True)
    >>> bool(error(rs.plug_in(moments)) > 1)
    True
    """
    check_int(n_resamples, "n_resamples")
    condition = scaled_condition(moments.total()[0])
    crossing = None
    ill_posed = condition > SINGULAR_LIMIT
    if CONDITION_LIMIT < condition <= SINGULAR_LIMIT:
        crossing = Validity(replicates=pilot_replicates(moments, LU())).crossing_share
        ill_posed = crossing > CROSSING_LIMIT
    if plan is None:
        plan = _plan(moments, ill_posed, n_resamples, rng)
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


def _plan(moments: AnyMoments, ill_posed: bool, n_resamples: int, rng: RandomLike) -> ResamplingPlan:
    n = moments.n_observations
    if not ill_posed:
        return make_plan(n, statistic="V", subsample_size=n, n_resamples=n_resamples, rng=rng)
    enough = min(OBSERVATIONS_PER_UNKNOWN * moments.n_basis, n // 2)
    size = max(1, enough, round(ILL_POSED_SHARE * n))
    return make_plan(n, statistic="U", subsample_size=size, n_resamples=n_resamples, rng=rng)


def _reason(condition: float, crossing: float | None, plan: ResamplingPlan, solver: Lepski) -> str:
    seen = "" if crossing is None else f" and {crossing:.0%} of half-samples cross singularity"
    kind = "bootstrap samples" if plan.with_replacement else "subsets"
    return (
        f"the moment matrix has the condition number {condition:.1e}{seen}; so the mean over "
        f"{plan.n_resamples} {kind} of {plan.subsample_size} observations, each with the penalty that "
        f"balances bias and noise (Lepski, kappa={solver.kappa:g})"
    )
