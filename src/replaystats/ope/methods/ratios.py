"""Methods without dynamics: mean returns, importance sampling, doubly robust values, and bounds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ..._core.thresholds import MAJORITY, MIN_EFFECTIVE, SMALL, SMALL_SHARE
from ..._core.typing import FloatArray
from ...inference.pivot import Pivot, interval
from ..counts import CountModel, episode_returns, plausible_range
from ..importance import (
    Weights,
    bounded_by_rewards,
    completed_returns,
    episode_influence,
    self_normalised,
)
from ..intervals import (
    GroupJackknife,
    by_groups,
    may_be_skewed,
    pivot_of,
    rare_outcomes,
    shares_of,
    skewed_mean_interval,
    tail_ends,
    unit_pivot,
)
from ..method import Method, MethodResult
from ..parts import behavior_of, is_tabular, model_of, robust_of, share_after_cuts, weights_of
from ..problem import Problem
from ..visits import completed_by_neighbors


def mean_return(name: str, *needs: str, completed: bool = False, little: bool = False) -> Method:
    """Return the mean of discounted returns as a method.

    1. Episodes that were cut off are completed by a model's value of where they stopped (`completed`), which
       is then an assumption unless too little of the future lies there to be noticed. Where a small share of
       it lies there (`little`), no test of the model decides: its bias bound is a small share of the range
       of what comes after cuts, or the distance to a model of another class.
    2. Units are what is averaged. Hall's correction takes out skewness.
    3. Outcomes in a range that was given, which the episodes cannot have shown, move the ends (Gaffke).
    """

    def applicable(problem: Problem) -> str | None:
        if not problem.on_policy:
            return "it is for the policy that made the log"
        if problem.n_episodes < 2 or not problem.own_starts:
            return "it needs several episodes from the start states that are asked about"
        share, matters = share_after_cuts(problem), _cuts_matter(problem)
        if (completed and (share <= SMALL) is not little) or (matters and not completed):
            return f"{part(share)} lies after cuts"
        return "no cut matters" if completed and not matters else None

    def estimate(problem: Problem) -> MethodResult:
        values, notes = episode_returns(problem), []
        found, pivot = by_groups(values, problem), unit_pivot(values, problem.unit, problem)
        if share_after_cuts(problem) > 0.0:
            values, found = completed_returns(problem, model_of(problem).model)
            pivot = _with_error_of(unit_pivot(values, problem.unit, problem), found, problem)
        if completed and not isinstance(model_of(problem).model, CountModel):
            other = completed_by_neighbors(problem)
            wrong = _wrong_after_cuts(problem) if little else 0.0
            moved = 0.0 if other is None else abs(other - found.value)
            pivot = pivot.with_bias([max(wrong, moved)], "models after cuts")
            if other is not None:
                notes.append(
                    f"With values of neighbours after the cuts, in place of LSTD's, the value would be "
                    f"{other:.4g}; the interval allows for the difference."
                )
        return MethodResult(
            pivot=pivot, shifts=found.shifts, missed=_missed(values, pivot, problem), notes=tuple(notes)
        )

    return Method(name, ("independent", "outcomes", *needs), applicable, estimate)


def part(share: float) -> str:
    """Return a share of the future in words.

    Examples
    --------
    >>> part(0.37), part(0.004)
    ('37% of the future', 'part of the future (under 1%)')
    """
    return f"{share:.0%} of the future" if share >= 0.01 else "part of the future (under 1%)"


def _cuts_matter(problem: Problem) -> bool:
    """Tell whether a model of what follows cuts, wrong by a small share of the range, would be noticed."""
    share = share_after_cuts(problem)
    if share == 0.0:
        return False
    ends = interval(
        unit_pivot(episode_returns(problem), problem.unit, problem), problem.options.confidence_level
    )
    return share > SMALL_SHARE or _wrong_after_cuts(problem) > SMALL * float(ends.high[0] - ends.low[0])


def _wrong_after_cuts(problem: Problem) -> float:
    """Return what a model moves the mean by that is wrong by a small share of the range after cuts."""
    span = problem.high - problem.low
    return SMALL_SHARE * share_after_cuts(problem) * (span if np.isfinite(span) else 0.0)


def _with_error_of(pivot: Pivot, found: GroupJackknife, problem: Problem) -> Pivot:
    """Take the error from refits without every group, in which the model changes as well."""
    own = found.pivot(problem)
    error = np.maximum(pivot.standard_error, own.standard_error)
    return replace(pivot, standard_error=error, degrees=np.minimum(pivot.degrees, own.degrees))


def _missed(values: FloatArray, pivot: Pivot, problem: Problem) -> tuple[float, float]:
    """Return how far ends move for outcomes of a range that was given; units of one size have a known law.

    Without a range the interval is that of any mean.
    """
    sizes = np.bincount(problem.unit)
    if np.ptp(sizes) > 0 or not (problem.range_known and np.isfinite(problem.low + problem.high)):
        return 0.0, 0.0
    means = np.bincount(problem.unit, weights=values) / sizes
    level = problem.options.confidence_level
    safe = skewed_mean_interval(means, level, (problem.low, problem.high))
    found = interval(pivot, level)
    return max(float(found.low[0]) - safe.low, 0.0), max(safe.high - float(found.high[0]), 0.0)


def weighted_rewards(problem: Problem) -> MethodResult:
    """Return rewards weighted by products of probability ratios, over the sum of these weights at every step.

    Right for any dynamics where probabilities are; what lies after cuts has the range of possible values.
    """
    weights = weights_of(problem)
    assert weights is not None
    found = self_normalised(weights, weights.sums(problem, problem.rewards))
    pivot = found.pivot(problem)
    each = weights.product[problem.data.step_offsets[1:] - 1] * episode_returns(problem)
    missed = missed_outcomes(problem, weights, found.value, float(pivot.standard_error[0]), each)
    cut = share_after_cuts(problem)
    if cut > 0.0:
        missed = missed[0] + max(-cut * problem.low, 0.0), missed[1] + max(cut * problem.high, 0.0)
    return MethodResult(pivot=pivot, shifts=found.shifts, missed=missed)


def no_products(problem: Problem) -> str | None:
    """Return why products of ratios cannot be used; None where they can."""
    weights = weights_of(problem)
    if weights is None:
        return "it needs probabilities (densities) of the logged actions under both policies, and episodes"
    if not weights.enough:
        return f"ratios leave {weights.final:.2g} effective episodes of {problem.n_episodes}"
    return None


def cut_short(problem: Problem) -> str | None:
    """Return why cuts forbid a method without a model; None where they do not."""
    cut = share_after_cuts(problem)
    return f"{part(cut)} lies after cuts" if cut > SMALL_SHARE else None


def missed_outcomes(
    problem: Problem, weights: Weights, value: float, error: float, each: np.ndarray, *, always: bool = False
) -> tuple[float, float]:
    """Return what the effective episodes can have missed, where outcomes are rare or a range was given.

    Outcomes are rare where the episodes' parts of the value (`each`) are skewed, or their returns: a model
    that explains the few outcomes which were seen takes them out of the parts, and not those to come.
    """
    returns = episode_returns(problem)
    if not (always or problem.range_known or may_be_skewed(each) or may_be_skewed(returns)):
        return 0.0, 0.0
    within = (problem.low, problem.high)
    if not (problem.range_known and np.isfinite(problem.low + problem.high)):
        worst, best = tail_ends(returns)
        within = min(worst, value), max(best, value)
    return rare_outcomes(value, error, weights.final, within, problem.options.confidence_level)


def doubly_robust_value(problem: Problem, *, few: bool = False) -> MethodResult:
    """Return the value of Jiang and Li (2016), Thomas and Brunskill (2016), with self-normalised weights.

    Right where the probabilities are, whatever the model. After cuts nothing corrects the model, so that
    little of the future may lie there. The range of returns counts for what no episode with any weight
    shows. With fewer than `MIN_EFFECTIVE` effective episodes (`few`) what they can have missed always moves
    the ends, and below two, which a variance needs, there is no estimate.
    """
    weights, model, found = weights_of(problem), model_of(problem).model, robust_of(problem)
    assert weights is not None
    pivot = found.pivot(problem)
    each = episode_influence(problem, weights, model)
    error = float(pivot.standard_error[0])
    missed = missed_outcomes(problem, weights, found.value, error, each, always=few)
    worst, best = plausible_range(problem)
    lost = _share_after(weights, problem) + share_after_cuts(problem) * problem.logged_only
    slack = 0.0 if lost == 0.0 else lost * (best - worst)
    missed, notes = (missed[0] + slack, missed[1] + slack), []
    behavior = behavior_of(problem)
    if behavior is not None and behavior.estimated:
        notes.append(f"The logging policy is estimated ({behavior.source}), not logged.")
    if problem.logged_only:
        notes.append("The doubly robust value has a model of the log's own policy in it.")
    return MethodResult(pivot=pivot, shifts=found.shifts, missed=missed, notes=tuple(notes))


def not_robust(problem: Problem, *, few: bool = False) -> str | None:
    """Return why there is no doubly robust value; None where there is."""
    weights = weights_of(problem)
    if is_tabular(problem) and len(problem.never_logged):
        return "it needs all actions of the policy in the log"
    if not few:
        return no_products(problem) or cut_short(problem)
    if weights is None or not 2 <= weights.final < MIN_EFFECTIVE:
        return f"it needs 2 to {MIN_EFFECTIVE} effective episodes"
    if short := cut_short(problem):
        return short
    low, high = doubly_robust_value(problem, few=True).interval(problem.options.confidence_level)
    wide = high - low > MAJORITY * (problem.high - problem.low)
    return "its interval leaves most of the possible range" if wide else None


def _share_after(weights: Weights, problem: Problem) -> float:
    """Return the discounted share of the future after the last step at which any episode has weight."""
    alive = weights.size.sum(axis=0) > 0.0
    if alive.all():
        return 0.0
    steps = int(np.argmin(alive))
    return float(problem.discount**steps * problem.range_left(steps))


def bounds(problem: Problem) -> MethodResult:
    """Return weighted returns over as many steps as leave enough effective episodes, then the possible range.

    The estimate is the middle of the bounds, and half their distance its bias bound.
    """
    lowest, highest, lasting = _ends(problem)
    known = bool(np.isfinite(lowest.value) and np.isfinite(highest.value) and lasting > 0)
    found = 0.5 * (lowest + highest)
    if lowest.value == highest.value or not np.isfinite(found.value):
        middle = float(np.clip(0.0, lowest.value, highest.value))
        found = GroupJackknife(middle, found.replicates)
    pivot = pivot_of(found.value, 0.0, 0.0, (problem.low, problem.high))
    if known:
        error = max(lowest.standard_error, highest.standard_error)
        pivot = replace(found.pivot(problem), standard_error=np.array([error]))
        pivot = pivot.with_bias([0.5 * (highest.value - lowest.value)], "what the log does not tell")
    worst, best = (end * float(problem.range_left(lasting)) for end in (problem.low, problem.high))
    note = (
        f"Bounds take what comes after {lasting} step{'s' * (lasting != 1)}"
        f"{', or after cuts,' * (problem.horizon is None)} to be worth {worst:.4g} to {best:.4g}. "
        "Log longer episodes, or of a nearer policy."
    )
    return MethodResult(pivot=pivot, shifts=found.shifts if known else np.zeros(0), notes=(note,))


def _ends(problem: Problem) -> tuple[GroupJackknife, GroupJackknife, int]:
    if problem.on_policy and problem.n_episodes > 1 and problem.own_starts:
        return _of_returns(problem)
    weights = weights_of(problem)
    if weights is not None:
        return bounded_by_rewards(problem, weights, MIN_EFFECTIVE)
    ends = [problem.kept_at_start * end for end in (problem.low, problem.high)]
    low, high = (GroupJackknife(end, np.full(problem.n_groups, end)) for end in ends)
    return low, high, 0


def _of_returns(problem: Problem) -> tuple[GroupJackknife, GroupJackknife, int]:
    """Return the mean return with what follows cuts worth the least and the most that is possible."""
    data, returns = problem.data, episode_returns(problem)
    weight = np.where(data.terminated, 0.0, problem.discount**data.n_steps * problem.range_left(data.n_steps))
    low, high = (
        by_groups(returns + shares_of(worth, weight), problem) for worth in (problem.low, problem.high)
    )
    return low, high, int(data.n_steps.max())


_PROBABILITIES = ("independent", "outcomes", "behavior", "support", "drift")
_COMPLETED = "mean return, completed after cuts"
RETURNS = (
    mean_return("mean logged return"),
    mean_return(_COMPLETED, "markov", "stationary", "drift", "model", completed=True),
    mean_return(_COMPLETED, "markov", "stationary", "drift", completed=True, little=True),
)
IMPORTANCE_SAMPLING = Method(
    "importance sampling, weighted",
    _PROBABILITIES,
    lambda problem: no_products(problem) or cut_short(problem),
    weighted_rewards,
)
DOUBLY_ROBUST, FEW_EPISODES = (
    Method(name, _PROBABILITIES, partial(not_robust, few=few), partial(doubly_robust_value, few=few))
    for name, few in (("doubly robust", False), ("doubly robust, few effective episodes", True))
)


def _other_log(problem: Problem, *, on_policy: bool) -> str | None:
    return None if problem.on_policy == on_policy else "it is for other logs"


BOUNDS = tuple(
    Method("bounds", ("independent", "outcomes", "range", *more), partial(_other_log, on_policy=on), bounds)
    for on, more in ((True, ()), (False, ("behavior", "support", "drift")))
)
