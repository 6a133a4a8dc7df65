"""Least-squares temporal differences: values linear in a basis that a test accepts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..assumptions import (
    AGREEMENT,
    DRIFT,
    INDEPENDENT,
    MARKOV,
    MODEL,
    OUTCOMES,
    OVERLAP,
    START,
    STATIONARY,
)
from ..columns import screened
from ..linear import LinearModel
from ..marginal import some_episodes
from ..method import Assumption, MethodResult
from ..nonparametric import still_going
from ..parts import is_tabular, model_of, needs_step
from ..problem import Problem

# A share of the policy's future after the longest episode, beyond which a model is not believed alone.
MUCH_BEYOND = 0.1


@dataclass(frozen=True, slots=True)
class LeastSquares:
    """LSTD on policy, LSTDQ off policy.

    The bias bound is how far the last enlargement of the basis moved the value.
    """

    on_policy: bool

    @property
    def name(self) -> str:
        """As it is reported."""
        return "LSTD" if self.on_policy else "LSTDQ"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its interval needs."""
        return (INDEPENDENT, OUTCOMES, MARKOV, STATIONARY, DRIFT, MODEL, OVERLAP, AGREEMENT, START)

    def applicable(self, problem: Problem) -> str | None:
        """Return None for states that are numbers and a policy that can be asked."""
        if problem.on_policy != self.on_policy or problem.logged_only or is_tabular(problem):
            return "it needs states that are numbers, and a policy that can be asked"
        if problem.horizon is not None and not needs_step(problem):
            return "values depend on the steps left, and the basis is of the state alone"
        if self.on_policy or problem.discount == 1.0 or problem.n_episodes < 2:
            return None
        if problem.horizon is not None:  # nothing comes after it
            return None
        longest = int(problem.data.n_steps.max())
        share = problem.once("still going", lambda p: still_going(some_episodes(screened(p)), longest))
        if share > MUCH_BEYOND:
            return f"{share:.0%} of the policy's future comes after the longest episode ({longest} steps)"
        return None

    def estimate(self, problem: Problem) -> MethodResult:
        """Return the model's value where episodes start."""
        chosen = model_of(problem)
        model = chosen.model
        assert isinstance(model, LinearModel)
        value, before = model.at_start.value, 0.0
        if len(chosen.tests) > 1:
            moved = float(np.clip(chosen.tests[-2].value, problem.low, problem.high)) - value
            before = abs(moved) if np.isfinite(moved) else 0.0
        blocks = "One episode only: blocks of it stand for independent episodes."
        return MethodResult(
            pivot=model.at_start.pivot(problem, bias_bound=before),
            shifts=model.at_start.shifts,
            notes=(blocks,) if problem.n_episodes == 1 else (),
        )
