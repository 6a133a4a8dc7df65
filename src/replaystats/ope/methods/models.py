"""Methods that take the logged columns for the state: counts, least squares, and ratios of visits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ..._core.thresholds import SMALL, SMALL_SHARE
from ..counts import CountModel
from ..intervals import rare_outcomes
from ..linear import LinearModel
from ..method import Method, MethodResult
from ..parts import is_tabular, model_of, needs_step, pooled_of, screened, weights_of
from ..problem import Problem
from ..visits import MarginalRobust, marginal_robust, some_episodes, still_going


def least_squares_value(problem: Problem) -> MethodResult:
    """Return the value of LSTD on policy, of LSTDQ off policy, where episodes start.

    The bias bound is how far the last enlargement of the basis moved the value.
    """
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


def _no_least_squares(problem: Problem, *, on_policy: bool) -> str | None:
    """Return None for states that are numbers and a policy that can be asked."""
    if problem.on_policy != on_policy or problem.logged_only or is_tabular(problem):
        return "it needs states that are numbers, and a policy that can be asked"
    if problem.horizon is not None:  # nothing comes after it
        fits = needs_step(problem)
        return None if fits else "values depend on the steps left, and the basis is of the state alone"
    if on_policy or problem.discount == 1.0 or problem.n_episodes < 2:
        return None
    longest = int(problem.data.n_steps.max())
    share = problem.once("still going", lambda p: still_going(some_episodes(screened(p)), longest))
    if share > SMALL:
        return f"{share:.0%} of the policy's future comes after the longest episode ({longest} steps)"
    return None


def count_value(problem: Problem, *, by_step: bool) -> MethodResult:
    """Return the value of a decision process with the logged frequencies.

    Actions that were never tried in a state are worth anything between bounds (`counts.Untried`). With a
    horizon, values are found backward from the last step. With `by_step` every step has frequencies of its
    own, so that nothing needs to be stationary.
    """
    pooled = problem.horizon is not None and not by_step
    model = pooled_of(problem) if pooled else model_of(problem).model
    assert isinstance(model, CountModel)
    value, ends = model.at_start.value, (model.lowest, model.highest)
    pivot = model.at_start.pivot(problem)
    finite = [end for end in ends if np.isfinite(end.value)]
    error = max([float(pivot.standard_error[0]), *(end.standard_error for end in finite)])
    # Transitions without noise are certain as far as counts can tell; rare rewards are added below.
    pivot = replace(pivot, standard_error=np.array([max(error, 1e-12 * problem.largest)]))
    below, above = max(value - ends[0].value, 0.0), max(ends[1].value - value, 0.0)
    weights, rare = weights_of(problem), (0.0, 0.0)
    if weights is not None and int(problem.time.max()) == 0:  # then ratios say how many episodes count
        within, level = (problem.low, problem.high), problem.options.confidence_level
        rare = rare_outcomes(value, error, weights.final, within, level)
    return MethodResult(
        pivot=pivot,
        shifts=model.at_start.shifts,
        missed=(max(below, rare[0]), max(above, rare[1])),
        notes=_notes(model),
    )


def _no_counts(problem: Problem, *, by_step: bool) -> str | None:
    """Return None for discrete states and a policy that can be asked."""
    if problem.logged_only or not is_tabular(problem):
        return "it needs discrete states, and a policy that can be asked"
    return "it needs a horizon" if by_step and problem.horizon is None else None


def _notes(model: CountModel) -> tuple[str, ...]:
    untried = model.untried
    if model.unseen <= SMALL_SHARE:
        return ()
    share = f"{model.unseen:.1%} of the policy's future leads to actions never tried"
    if untried.by_chance:
        return (
            f"{share}, which chance left out; the interval takes them to be worth between "
            f"{untried.loss:+.4g} and {untried.gain:+.4g} beside the value of their state, as the worst and "
            "the best of those tried.",
        )
    between = f"between {untried.worst:.4g} and {untried.best:.4g}"
    return (f"{share}; the interval takes them to be worth {between}.",)


def visit_ratios_value(problem: Problem) -> MethodResult:
    """Return the value of `visits.marginal_robust`; its bias bound is what models of other sizes show."""
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


def _no_visit_ratios(problem: Problem) -> str | None:
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


def _found(problem: Problem) -> MarginalRobust | None:
    rng = np.random.default_rng(problem.options.random_state)
    return problem.once("visit ratios", lambda p: marginal_robust(screened(p), rng))


_STATE = ("independent", "outcomes", "markov", "stationary", "drift")
LEAST_SQUARES = tuple(
    Method(
        "LSTD" if on_policy else "LSTDQ",
        (*_STATE, "model", *(() if on_policy else ("support", "overlap")), "agreement", "start"),
        partial(_no_least_squares, on_policy=on_policy),
        least_squares_value,
    )
    for on_policy in (True, False)
)
COUNTS = tuple(
    Method(
        name,
        ("independent", "outcomes", *process, "drift", "agreement", "start"),
        partial(_no_counts, by_step=by_step),
        partial(count_value, by_step=by_step),
        bounds_actions=True,
    )
    for name, by_step, process in (
        ("count model, by step", True, ("markov by step",)),
        ("count model", False, ("markov", "stationary")),
    )
)
VISIT_RATIOS = Method(
    "doubly robust, ratios of visits",
    ("independent", "outcomes", "support", "markov", "stationary", "drift", "ratios", "start"),
    _no_visit_ratios,
    visit_ratios_value,
)
