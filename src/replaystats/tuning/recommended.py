"""What "auto" and "recommended" stand for in replayed moments: how many functions, which subsets, a penalty.

The recommended estimate:

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
from functools import partial
from typing import Any

import numpy as np

from .._core.arrays import to_numpy
from .._core.choice import Choice
from .._core.errors import must_be
from .._core.random import as_generator
from .._core.thresholds import (
    CONDITION_LIMIT,
    FAR,
    HIGHEST_ORDER,
    ILL_POSED_KAPPA,
    MANY,
    MIN_EFFECTIVE,
    NEGLIGIBLE,
    NESTED_KAPPA,
    SHARES,
    SMALL,
    WELL_POSED_KAPPA,
)
from .._core.typing import FloatArray, RandomLike
from .._core.validation import check_instance, check_int, check_real
from ..basis import Fourier
from ..engine import replicate
from ..engine.executors import Executor, check_executor
from ..estimate import Estimate, average, plug_in
from ..inference.components import ReplayVariance
from ..inference.risk import RiskTable, constant_direction, is_least_squares, risk_table, scaled_ridge
from ..inference.stability import Stability, conditions, pilot_replicates
from ..moments.streamed import AnyMoments, check_moments
from ..plans import ResamplingPlan, make_plan
from ..solvers import Auto, Lepski, Nested, Solver
from ..solvers.lepski import DEFAULT_PATH

# Rounding: condition number above which half the digits are lost and crossing cannot be seen.
SINGULAR_LIMIT = 1 / math.sqrt(float(np.finfo(np.float64).eps))
# Rounding: smallest eigenvalues of half-samples that lack a state are 0 up to rounding: that is no crossing.
BEYOND_ZERO = 1e-8
# Rounding: members whose answers differ by less than this share of the largest agree.
AGREED = 1e-12


def choose_subsample_size(moments: AnyMoments, *, solver: Solver | None = None) -> Choice:
    """Choose k for replayed moments: half of the data, or more where half-samples cross singularity.

    Parameters
    ----------
    moments : Moments or FactoredMoments
    solver : Solver, optional
        As for the replicates.

    Notes
    -----
    100 pilot subsets per size looked at, always the same ones. Criteria that try to find the k with the
    smallest error (held-out moments, second-order expansions) were measured and are not reliable; avoiding
    disasters is what can be done.

    Examples
    --------
    >>> from replaystats.moments import ridge_moments
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> print(choose_subsample_size(ridge_moments(X, X[:, 0])))
    50: 0.5 n, where no pilot subset crosses singularity
    """
    n = moments.n_observations
    enough = min(n, MIN_EFFECTIVE * moments.n_basis)
    for share in SHARES[1:]:
        size = max(1, round(share * n), enough)
        pilot = pilot_replicates(moments, solver or Auto(), size=size, n_resamples=MANY)
        if not (Stability(replicates=pilot).sign_changed.any() or pilot.failed.any()):
            which = f"{share:g} n" if size > enough else f"{MIN_EFFECTIVE} per unknown"
            return Choice(size, f"{which}, where no pilot subset crosses singularity")
    size = max(1, round(SHARES[1] * n), enough)
    return Choice(
        size,
        f"subsets cross singularity up to {SHARES[-1]:g} n, so no size helps: take the median or the "
        "recommended method",
    )


def grow_resamples(
    estimate: Estimate, X: Any = None, *, share: float = NEGLIGIBLE, most: int = 10_000
) -> tuple[Estimate, Choice]:
    """Add replicates until their Monte-Carlo noise is a negligible share of the variance, and known.

    Learners that are unstable, such as trees, need more members for a standard error than for their average:
    where halves of the members are compared (`Estimate.error_noise`), growth goes on until a point's own
    standard error is known to a quarter.

    Parameters
    ----------
    estimate : Estimate
        An average of a pilot's members; 50 are enough to start with. They are kept.
    X : array-like of shape (m, q), optional
        Where the variance matters: features, or points for members that are no ratio of moments; default
        theta itself.
    share : float in (0, 1)
        Of the variance that may be Monte-Carlo noise.
    most : int
        Cap on the number of replicates.

    Returns
    -------
    estimate : Estimate
    choice : Choice
        The number of replicates, and whether it is enough.

    Examples
    --------
    >>> import numpy as np
    >>> import replaystats as rs
    >>> rng = np.random.default_rng(0)
    >>> moments = rs.moments.ridge_moments(rng.normal(size=(100, 2)), rng.normal(size=100))
    >>> plan = rs.make_plan(100, n_resamples=50, random_state=0)
    >>> pilot = rs.average(rs.replicate(moments, plan), "controlled")
    >>> estimate, choice = grow_resamples(pilot)
    >>> choice.value == len(estimate.replicates)
    True
    """
    check_real(share, "share", low=0.0, high=1.0, closed="neither")
    check_int(most, "most")
    if estimate.method == "plug_in":
        raise ValueError(must_be("estimate", "an average of replicates", "the plug-in", "Use rs.average."))
    known_to = 1 / math.sqrt(2 * MIN_EFFECTIVE)  # as from so many degrees of freedom
    while True:
        error, parts = estimate.error_noise, estimate.variance(X)
        found, needed, size = parts.monte_carlo_share, parts.n_resamples_for(share), parts.plan.n_resamples
        known = f", {error:.0%} of a point's own standard error" if error else ""
        if found <= share and error <= known_to:
            return estimate, Choice(size, f"Monte-Carlo noise is {found:.2%} of the variance{known}")
        if X is not None and _agree(estimate, parts, X):
            return estimate, Choice(size, "all members give the same answers, but for rounding")
        if size >= most:
            reason = f"the cap; Monte-Carlo noise is still {found:.1%} of the variance{known}, above "
            limits = f"{share:.1%}" + (f" and {known_to:.0%}" if error else "")
            return estimate, Choice(size, reason + limits)
        needed = max(needed, math.ceil(size * (error / known_to) ** 2), size + 1)
        wanted = min(needed, 2 * size, most)
        estimate = estimate.extend(wanted - size)


def _agree(estimate: Estimate, parts: ReplayVariance, X: Any) -> bool:
    """Whether members differ by no more than rounding, of which more subsets would only make more."""
    spread = math.sqrt(max(0.0, float(to_numpy(parts.replicate).max())))
    return 0 < spread <= AGREED * float(np.abs(to_numpy(estimate.predict(X))).max())


def choose_basis(states: FloatArray, n_transitions: int) -> tuple[Fourier, Nested, Choice]:
    """Return the largest candidate, the solver that chooses among its orders, and why it is the largest.

    Parameters
    ----------
    states : ndarray of shape (N, d)
    n_transitions : int

    Notes
    -----
    Waves whose period is twice the range of each variable, so that nothing has to be periodic. Candidates are
    the orders 0, 1, ... up to the largest with at most a function in 20 transitions (100 functions, order 8).

    Examples
    --------
    >>> basis, solver, choice = choose_basis(np.random.default_rng(0).normal(size=(900, 2)), 600)
    >>> basis.n_basis, solver, str(choice)[:18]
    (25, Nested(4 levels, kappa=1, 100 targets), 'orders 0 to 3: at ')
    """
    dimension = states.shape[1]
    low, high = states.min(axis=0), states.max(axis=0)
    period = tuple((2.0 * np.where(high > low, high - low, 1.0)).tolist())
    most = max(3, min(MANY, n_transitions // (2 * MIN_EFFECTIVE)))
    order = 1
    while order < HIGHEST_ORDER and _waves(order + 1, dimension, period).n_basis <= most:
        order += 1
    basis = _waves(order, dimension, period)
    orders = np.abs(np.rint(basis.frequencies * np.asarray(period) / (2 * np.pi))).sum(axis=1)
    levels = np.concatenate([[0], orders, orders])  # the constant, all cosines, all sines
    targets = basis(states[:: -(-len(states) // MANY)])
    reason = (
        f"at most {basis.n_basis} functions for {n_transitions} transitions; every subset takes the smallest "
        "order whose values stay within the noise of all larger ones"
    )
    return basis, Nested(levels, NESTED_KAPPA, targets), Choice(f"orders 0 to {order}", reason)


def _waves(order: int, dimension: int, period: tuple[float, ...]) -> Fourier:
    return Fourier(order, dimension=dimension, kind="total", period=period)


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
    _, condition, _ = conditions(moments.total()[0])
    pilot = Stability(replicates=pilot_replicates(moments, Auto()))
    # Of half-samples; to lack a state that others have is no crossing.
    crossing = 1.0 if pilot.linear is None else float(np.mean(pilot.smallest_eigenvalues() < -BEYOND_ZERO))
    ill_posed = condition > SINGULAR_LIMIT or (condition > CONDITION_LIMIT and crossing > SMALL)
    determined = crossing <= NEGLIGIBLE and pilot.linear is not None and not pilot.linear.truncated
    determined &= pilot.separation >= FAR or is_least_squares(moments)
    reason = (
        f"the moment matrix has the condition number {condition:.1e}, is {max(0.0, pilot.separation):.1f} "
        f"standard errors from a singular one, and {crossing:.0%} of half-samples cross singularity; "
    )
    n, risks = moments.n_observations, None
    draw = partial(make_plan, n, n_resamples=n_resamples, random_state=as_generator(random_state))
    if plan is None and determined and not ill_posed:
        risks = risk_table(pilot)
        chosen, share = risks.best, risks.best.share or 1.0
        ridge = None if chosen.penalty is None else scaled_ridge(moments, chosen.penalty, share)
        if chosen.share is None:
            estimate = plug_in(moments, ridge)
        else:
            plan = draw(statistic="U", subsample_size=max(1, round(share * n)))
            estimate = average(replicate(moments, plan, solver=ridge, executor=executor))
        reason += f"least risk: {chosen.action}. {risks.why}"
    else:
        if plan is None:
            fewest = max(1, min(MIN_EFFECTIVE * moments.n_basis, n // 2), round(SHARES[0] * n))
            statistic, size = ("U", fewest) if ill_posed else ("V", n)
            plan = draw(statistic=statistic, subsample_size=size)
        # The plain solution belongs on the path only where it means something.
        well = WELL_POSED_KAPPA, (0.0, *DEFAULT_PATH)
        kappa, path = (ILL_POSED_KAPPA, DEFAULT_PATH) if ill_posed else well
        solver = Lepski(kappa, path=path, origin=_origin(pilot))
        estimate = average(replicate(moments, plan, solver=solver, executor=executor), "mean")
        kind = "bootstrap samples" if plan.with_replacement else "subsets"
        reason += f"so the mean over {plan.n_resamples} {kind} of {plan.subsample_size} observations, each "
        reason += f"with the penalty that balances bias and noise (Lepski, kappa={kappa:g})"
    return Recommendation(
        estimate=estimate,
        ill_posed=ill_posed,
        crossing_share=crossing,
        condition_number=condition,
        reason=reason,
        risks=risks,
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
