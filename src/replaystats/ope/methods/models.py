"""Methods that take the logged columns for the state: counts, least squares, and ratios of visits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._core.thresholds import SMALL, SMALL_SHARE
from ..assumptions import (
    AGREEMENT,
    DRIFT,
    INDEPENDENT,
    MARKOV,
    MARKOV_BY_STEP,
    MODEL,
    OUTCOMES,
    OVERLAP,
    RATIOS,
    START,
    STATIONARY,
    SUPPORT,
)
from ..counts import CountModel
from ..intervals import rare_outcomes
from ..linear import LinearModel
from ..method import Assumption, MethodResult
from ..parts import is_tabular, model_of, needs_step, pooled_of, screened, weights_of
from ..problem import Problem
from ..visits import MarginalRobust, marginal_robust, some_episodes, still_going


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
        overlap = () if self.on_policy else (SUPPORT, OVERLAP)
        return (INDEPENDENT, OUTCOMES, MARKOV, STATIONARY, DRIFT, MODEL, *overlap, AGREEMENT, START)

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
        if share > SMALL:
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
        process = (MARKOV_BY_STEP,) if self.by_step else (MARKOV, STATIONARY)
        return (INDEPENDENT, OUTCOMES, *process, DRIFT, AGREEMENT, START)

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
    if model.unseen <= SMALL_SHARE:
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


@dataclass(frozen=True, slots=True)
class VisitRatios:
    """See `marginal.marginal_robust`; its bias bound is the distance between sizes and classes of models."""

    name: str = "doubly robust, ratios of visits"
    assumptions: tuple[Assumption, ...] = (
        INDEPENDENT, OUTCOMES, SUPPORT, MARKOV, STATIONARY, DRIFT, RATIOS, START,
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
