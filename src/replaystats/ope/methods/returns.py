"""The mean return of the logged episodes, for the policy that made the log."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._core.typing import FloatArray
from ...inference.pivot import Pivot, interval
from ..assumptions import DRIFT, INDEPENDENT, MARKOV, MODEL, OUTCOMES, STATIONARY
from ..counts import CountModel, episode_returns
from ..intervals import GroupJackknife, by_groups, skewed_mean_interval, unit_pivot
from ..marginal import completed_by_neighbors
from ..method import Assumption, MethodResult
from ..parts import model_of, share_after_cuts
from ..problem import Problem
from ..robust import completed_returns, leans_on_model


@dataclass(frozen=True, slots=True)
class MeanReturn:
    """The mean of discounted returns.

    1. Episodes that were cut off are completed by a model's value of where they stopped (`completed`), which
       is then an assumption unless too little of the future lies there to be noticed.
    2. Units are what is averaged. Hall's correction takes out skewness.
    3. Outcomes in a range that was given, which the episodes cannot have shown, move the ends (Gaffke).
    """

    completed: bool = False

    @property
    def name(self) -> str:
        """As it is reported."""
        return "mean return, completed after cuts" if self.completed else "mean logged return"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its interval needs."""
        more = (MARKOV, STATIONARY, DRIFT, MODEL) if self.completed else ()
        return (INDEPENDENT, OUTCOMES, *more)

    def applicable(self, problem: Problem) -> str | None:
        """Return None on policy with several episodes."""
        if not problem.on_policy:
            return "it is for the policy that made the log"
        if problem.n_episodes < 2 or not problem.own_starts:
            return "it needs several episodes from the start states that are asked about"
        matters = _cuts_matter(problem)
        if matters and not self.completed:
            return f"{part(share_after_cuts(problem))} lies after cuts"
        return "no cut matters" if self.completed and not matters else None

    def estimate(self, problem: Problem) -> MethodResult:
        """Return the mean."""
        returns = episode_returns(problem)
        found, pivot = by_groups(returns, problem), unit_pivot(returns, problem.unit, problem)
        values, notes = returns, []
        if share_after_cuts(problem) > 0.0:
            done = completed_returns(problem, model_of(problem).model)
            values, found = done.values, done.mean
            pivot = _with_error_of(unit_pivot(values, problem.unit, problem), found, problem)
        if self.completed and not isinstance(model_of(problem).model, CountModel):
            other = completed_by_neighbors(problem)
            if other is not None:
                pivot = pivot.with_bias(other - found.value, "second model after cuts")
                notes.append(
                    f"With values of neighbours after the cuts, in place of LSTD's, the value would be "
                    f"{other:.4g}; the interval allows for the difference."
                )
        return MethodResult(
            pivot=pivot, shifts=found.shifts, missed=_missed(values, pivot, problem), notes=tuple(notes)
        )


def part(share: float) -> str:
    """Return a share of the future in words.

    Examples
    --------
    >>> part(0.37), part(0.004)
    ('37% of the future', 'part of the future (under 1%)')
    """
    return f"{share:.0%} of the future" if share >= 0.01 else "part of the future (under 1%)"


def _cuts_matter(problem: Problem) -> bool:
    share = share_after_cuts(problem)
    if share == 0.0:
        return False
    returns = episode_returns(problem)
    ends = interval(unit_pivot(returns, problem.unit, problem), problem.options.confidence_level)
    return leans_on_model(problem, share, float(ends.high[0] - ends.low[0]))


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
