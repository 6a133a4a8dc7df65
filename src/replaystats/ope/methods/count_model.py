"""Transition frequencies of discrete states, solved for the value of the policy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._core.thresholds import MUCH_COMPLETED
from ..assumptions import AGREEMENT, DRIFT, INDEPENDENT, MARKOV, OUTCOMES, START, STATIONARY
from ..counts import CountModel
from ..intervals import rare_outcomes
from ..method import Assumption, MethodResult
from ..parts import is_tabular, model_of, pooled_of, weights_of
from ..problem import Problem


@dataclass(frozen=True, slots=True)
class Counts:
    """Values of a decision process with the logged frequencies.

    Actions that were never tried in a state are worth anything between bounds (`counts.Untried`). With a
    horizon, values are found backward from the last step. With `by_step` every step has frequencies of its
    own, so that nothing needs to be stationary.
    """

    by_step: bool = False

    @property
    def name(self) -> str:
        """As it is reported."""
        return "count model, by step" if self.by_step else "count model"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its interval needs."""
        needed = (INDEPENDENT, OUTCOMES, MARKOV, DRIFT, AGREEMENT, START)
        return needed if self.by_step else (*needed, STATIONARY)

    def applicable(self, problem: Problem) -> str | None:
        """Return None for discrete states and a policy that can be asked."""
        if problem.logged_only or not is_tabular(problem):
            return "it needs discrete states, and a policy that can be asked"
        return "it needs a horizon" if self.by_step and problem.horizon is None else None

    def estimate(self, problem: Problem) -> MethodResult:
        """Return the value with bounds for what was never tried."""
        pooled = problem.horizon is not None and not self.by_step
        model = pooled_of(problem) if pooled else model_of(problem).model
        assert isinstance(model, CountModel)
        value, ends = model.at_start.value, (model.lowest, model.highest)
        pivot = model.at_start.pivot(problem)
        finite = [end for end in ends if np.isfinite(end.value)]
        error = max([float(pivot.standard_error[0]), *(end.standard_error for end in finite)])
        # Transitions without noise are certain as far as counts can tell; rare rewards are added below.
        pivot = replace(pivot, standard_error=np.array([max(error, 1e-12 * problem.largest)]))
        below, above = max(value - ends[0].value, 0.0), max(ends[1].value - value, 0.0)
        rare = _rare(problem, value, error)
        return MethodResult(
            pivot=pivot,
            shifts=model.at_start.shifts,
            missed=(max(below, rare[0]), max(above, rare[1])),
            notes=_notes(model),
        )


def _rare(problem: Problem, value: float, error: float) -> tuple[float, float]:
    """Return what was missed in logs of one step: there ratios say how many episodes count."""
    weights = weights_of(problem)
    if weights is None or int(problem.time.max()) > 0:
        return 0.0, 0.0
    within = (problem.low, problem.high)
    return rare_outcomes(value, error, weights.final, within, problem.options.confidence_level)


def _notes(model: CountModel) -> tuple[str, ...]:
    untried = model.untried
    if model.unseen <= MUCH_COMPLETED:
        return ()
    if untried.by_chance:
        return (
            f"{model.unseen:.1%} of the policy's future leads to actions never tried, which chance left out; "
            f"the interval takes them to be worth between {untried.loss:+.4g} and {untried.gain:+.4g} beside "
            "the value of their state, as the worst and the best of those tried.",
        )
    return (
        f"{model.unseen:.1%} of the policy's future leads to actions never tried; the interval takes "
        f"them to be worth between {untried.worst:.4g} and {untried.best:.4g}.",
    )
