"""Importance sampling along episodes: self-normalised, and per decision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core.thresholds import MUCH_COMPLETED
from ..assumptions import BEHAVIOR, INDEPENDENT, OUTCOMES
from ..counts import returns_to_go
from ..importance import Weights, per_decision, self_normalised
from ..intervals import may_be_skewed, rare_outcomes
from ..method import Assumption, MethodResult
from ..parts import share_after_cuts, weights_of
from ..problem import Problem
from ..support import never_logged
from .returns import part


@dataclass(frozen=True, slots=True)
class ImportanceSampling:
    """Rewards weighted by products of probability ratios.

    Right for any dynamics where probabilities are; `weighted` divides by the sum of weights at every step.
    """

    weighted: bool = True

    @property
    def name(self) -> str:
        """As it is reported."""
        return f"importance sampling, {'weighted' if self.weighted else 'per decision'}"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its interval needs."""
        return (INDEPENDENT, OUTCOMES, BEHAVIOR)

    def applicable(self, problem: Problem) -> str | None:
        """Return None where ratios leave enough effective episodes to the end."""
        return no_products(problem) or cut_short(problem)

    def estimate(self, problem: Problem) -> MethodResult:
        """Return the weighted sum of rewards; what lies after cuts has the range of possible values."""
        weights = weights_of(problem)
        assert weights is not None
        earned = weights.sums(problem, problem.rewards)
        found = self_normalised(weights, earned) if self.weighted else per_decision(weights, earned)
        pivot = found.pivot(problem)
        returns = returns_to_go(problem)[problem.data.step_offsets[:-1]]
        last = weights.product[problem.data.step_offsets[1:] - 1]
        missed = missed_outcomes(
            problem, weights, found.value, float(pivot.standard_error[0]), last * returns
        )
        cut = share_after_cuts(problem)
        if cut > 0.0:
            missed = missed[0] + max(-cut * problem.low, 0.0), missed[1] + max(cut * problem.high, 0.0)
        unlogged = never_logged(problem)
        notes: tuple[str, ...] = ()
        if unlogged is not None:
            more = unlogged.missed(found.value if self.weighted else 0.0)
            missed, notes = (missed[0] + more[0], missed[1] + more[1]), (unlogged.sentence,)
        return MethodResult(pivot=pivot, shifts=found.shifts, missed=missed, notes=notes)


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
    return f"{part(cut)} lies after cuts" if cut > MUCH_COMPLETED else None


def missed_outcomes(
    problem: Problem, weights: Weights, value: float, error: float, each: np.ndarray, *, always: bool = False
) -> tuple[float, float]:
    """Return what the effective episodes can have missed, where outcomes are rare or a range was given.

    Outcomes are rare where the episodes' parts of the value (`each`) are skewed, or their returns: a model
    that explains the few outcomes which were seen takes them out of the parts, and not those to come.
    """
    returns = returns_to_go(problem)[problem.data.step_offsets[:-1]]
    if not (always or problem.range_known or may_be_skewed(each) or may_be_skewed(returns)):
        return 0.0, 0.0
    within = (problem.low, problem.high)
    if not (problem.range_known and np.isfinite(problem.low + problem.high)):
        within = min(float(returns.min()), value), max(float(returns.max()), value)
    return rare_outcomes(value, error, weights.final, within, problem.options.confidence_level)
