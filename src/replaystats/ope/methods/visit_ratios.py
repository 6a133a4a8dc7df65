"""Doubly robust with ratios of visits in place of products along episodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..assumptions import DRIFT, INDEPENDENT, MARKOV, OUTCOMES, RATIOS, START, STATIONARY
from ..columns import screened
from ..marginal import MarginalRobust, marginal_robust
from ..method import Assumption, MethodResult
from ..parts import is_tabular
from ..problem import Problem


@dataclass(frozen=True, slots=True)
class VisitRatios:
    """See `marginal.marginal_robust`; its bias bound is the distance between sizes and classes of models."""

    name: str = "doubly robust, ratios of visits"
    assumptions: tuple[Assumption, ...] = (
        INDEPENDENT, OUTCOMES, MARKOV, STATIONARY, DRIFT, RATIOS, START,
    )  # fmt: skip

    def applicable(self, problem: Problem) -> str | None:
        """Return None for states that are numbers, a policy that can be asked, and a log long enough."""
        if problem.on_policy or problem.logged_only or is_tabular(problem):
            return "it needs states that are numbers, and a policy that can be asked"
        if problem.n_episodes < 2 or not problem.own_starts or problem.horizon is not None:
            return "it needs several episodes from the logged start states, and no horizon"
        if np.ptp(problem.rewards) == 0.0 and not problem.terminal.any():
            return "every logged step earned the same and no episode ended, so that all policies look alike"
        found = _found(problem)
        if found is None:
            return "the log is too short, or lacks actions of the policy"
        if found.leaves:
            return (
                "the policy goes where nothing was logged: its nearest logged steps hold it back by "
                f"{found.held_back:.2g} standard deviations a step"
            )
        return None

    def estimate(self, problem: Problem) -> MethodResult:
        """Return the value with the bias that models of other sizes and classes show."""
        found = _found(problem)
        assert found is not None
        pivot = found.found.pivot(problem, bias_bound=found.bias_bound)
        error = np.hypot(pivot.standard_error, found.drawn)
        value = np.clip(pivot.estimate, problem.low, problem.high)
        note = (
            f"The ratio of visits ({found.n_bumps} bumps) moves the value of the neighbours by "
            f"{found.correction.value:.4g}, half as many would move that by {found.moved.value:.3g}; "
            f"the interval allows for a bias of {found.bias_bound:.3g}."
        )
        if found.n_steps < len(problem):
            note += f" It was fitted to {found.n_steps:,} steps of episodes from all over the log."
        pivot = replace(pivot, estimate=value, standard_error=error)
        return MethodResult(pivot=pivot, shifts=found.found.shifts, notes=(note,))


def _found(problem: Problem) -> MarginalRobust | None:
    rng = np.random.default_rng(problem.options.random_state)
    return problem.once("visit ratios", lambda p: marginal_robust(screened(p), rng))
