"""Doubly robust with products of ratios: a model's value plus its weighted errors along episodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core.thresholds import FEWEST_UNITS, MIN_EFFECTIVE, UNINFORMATIVE
from ..assumptions import BEHAVIOR, DRIFT, INDEPENDENT, MARKOV, MODEL, OUTCOMES, STATIONARY
from ..counts import CountModel, plausible_range
from ..importance import Weights
from ..method import Assumption, MethodResult
from ..parts import behavior_of, model_of, robust_of, share_after_cuts, weights_of
from ..problem import Problem
from ..robust import episode_influence
from ..support import never_logged
from .importance_sampling import cut_short, missed_outcomes, no_products


@dataclass(frozen=True, slots=True)
class DoublyRobust:
    """Jiang and Li (2016); Thomas and Brunskill (2016), with self-normalised weights.

    Right where the probabilities are, whatever the model. After cuts nothing corrects the model, which is
    then an assumption (`completed`) unless little of the future lies there. With fewer than `MIN_EFFECTIVE`
    effective episodes (`few`) what they can have missed always moves the ends, and below `FEWEST_UNITS`
    there is no estimate.
    """

    completed: bool = False
    few: bool = False

    @property
    def name(self) -> str:
        """As it is reported."""
        if self.few:
            return "doubly robust, few effective episodes"
        return "doubly robust, model after cuts" if self.completed else "doubly robust"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its interval needs."""
        more = (MARKOV, STATIONARY, DRIFT, MODEL) if self.completed else ()
        return (INDEPENDENT, OUTCOMES, BEHAVIOR, *more)

    def applicable(self, problem: Problem) -> str | None:
        """Return None where ratios leave enough effective episodes to the end."""
        weights = weights_of(problem)
        short = cut_short(problem) if weights is not None else None
        if self.few:
            if weights is None or not FEWEST_UNITS <= weights.final < MIN_EFFECTIVE:
                return f"it needs {FEWEST_UNITS:g} to {MIN_EFFECTIVE} effective episodes"
            return short or self._says_little(problem)
        if self.completed:
            no_model = problem.logged_only or not short
            return no_products(problem) or (
                "no cut matters, or no model completes them" if no_model else None
            )
        return no_products(problem) or short

    def _says_little(self, problem: Problem) -> str | None:
        low, high = self.estimate(problem).interval(problem.options.confidence_level)
        wide = high - low > UNINFORMATIVE * (problem.high - problem.low)
        return "its interval leaves most of the possible range" if wide else None

    def estimate(self, problem: Problem) -> MethodResult:
        """Return the value, with the range of returns for what no episode with any weight shows."""
        weights, model, found = weights_of(problem), model_of(problem).model, robust_of(problem)
        assert weights is not None
        pivot = found.pivot(problem)
        each = episode_influence(problem, weights, model)
        error = float(pivot.standard_error[0])
        missed = missed_outcomes(problem, weights, found.value, error, each, always=self.few)
        worst, best = plausible_range(problem)
        lost = _share_after(weights, problem) + share_after_cuts(problem) * problem.logged_only
        slack = 0.0 if lost == 0.0 else lost * (best - worst)
        missed, notes = (missed[0] + slack, missed[1] + slack), []
        unlogged = None if isinstance(model, CountModel) else never_logged(problem)
        if unlogged is not None:
            more = unlogged.missed(float(np.clip(0.0, unlogged.low, unlogged.high)))
            missed = missed[0] + more[0], missed[1] + more[1]
            notes.append(unlogged.sentence)
        behavior = behavior_of(problem)
        if behavior is not None and behavior.estimated:
            notes.append(f"The logging policy is estimated ({behavior.source}), not logged.")
        if problem.logged_only:
            notes.append("The doubly robust value has a model of the log's own policy in it.")
        return MethodResult(pivot=pivot, shifts=found.shifts, missed=missed, notes=tuple(notes))


def _share_after(weights: Weights, problem: Problem) -> float:
    """Return the discounted share of the future after the last step at which any episode has weight."""
    alive = weights.size.sum(axis=0) > 0.0
    return 0.0 if alive.all() else float(problem.discount ** int(np.argmin(alive)))
