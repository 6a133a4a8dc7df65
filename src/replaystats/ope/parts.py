"""Parts that several methods need: behavior, weights, the model of values; each computed once per problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.choice import Choice
from .._core.typing import FloatArray
from ..basis import Basis, Tabular
from ..data._flat import holds_names
from .behavior import Behavior, find_behavior
from .columns import screened
from .counts import CountModel, fit_counts, has_labels
from .families import BasisTest, choose_basis, judge, richer_than
from .importance import Weights, beyond, make_weights
from .intervals import GroupJackknife
from .linear import LinearModel, fit_linear
from .problem import Problem
from .robust import doubly_robust

# A model may differ from the doubly robust value by this share of its standard error, and by rounding.
_IMMATERIAL, _ROUNDING = 1e-3, 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelChoice:
    """The model of values and how it was chosen.

    Attributes
    ----------
    model : CountModel or LinearModel
    basis : Basis or None
        None for counts.
    tests : tuple of BasisTest
        Bases that were tried, in order.
    p_value : float
        Of the chosen one; NaN for counts, and with too few episodes.
    choice : Choice or None
        What basis="auto" stood for.
    """

    model: CountModel | LinearModel
    basis: Basis | None = None
    tests: tuple[BasisTest, ...] = ()
    p_value: float = float("nan")
    choice: Choice | None = None


def is_tabular(problem: Problem) -> bool:
    """Return whether values are kept for every state."""
    basis = problem.options.basis
    table = isinstance(basis, Tabular)
    return (table or (isinstance(basis, str) and has_labels(problem))) and not problem.continuous


def behavior_of(problem: Problem) -> Behavior | None:
    """Return the probabilities of the logged actions; None on policy, and for unknown densities."""
    if problem.on_policy:
        return None
    return problem.once(
        "behavior", lambda p: find_behavior(p, p.options.behavior), of_log=not problem.logged_only
    )


def weights_of(problem: Problem) -> Weights | None:
    """Return products of ratios along episodes; None where there are no ratios, or no several episodes."""
    return problem.once("weights", _weights)


def _weights(problem: Problem) -> Weights | None:
    behavior = behavior_of(problem)
    if behavior is None or problem.n_episodes < 2 or not problem.own_starts or np.isnan(problem.chance).any():
        return None
    return make_weights(problem, problem.chance / behavior.probability)


def share_after_cuts(problem: Problem) -> float:
    """Return the discounted share of the future after cuts, on and off policy."""
    weights, data = weights_of(problem), problem.data
    if weights is None:
        return float(np.where(data.terminated, 0.0, problem.discount**data.n_steps).mean())
    return beyond(problem, weights, len(weights.effective)).value


def model_of(problem: Problem) -> ModelChoice:
    """Return the count model of discrete states, else least-squares temporal differences."""
    return problem.once("model", lambda p: _fit_model(_for_models(p), counted=is_tabular(p)))


def _for_models(problem: Problem) -> Problem:
    """Return the problem with the columns that models see: a basis of the user takes all of them."""
    narrow = screened(problem) if isinstance(problem.options.basis, str) else problem
    return with_step(narrow) if needs_step(narrow) else narrow


def needs_step(problem: Problem) -> bool:
    """Return whether models get the step as a column: with a horizon, and no basis of the user's."""
    basis = problem.options.basis
    return problem.horizon is not None and isinstance(basis, str | Tabular)


def with_step(problem: Problem) -> Problem:
    """Return the problem with the step as a further column of the state, for models of values."""

    def augmented(states: np.ndarray, step: FloatArray) -> np.ndarray:
        if holds_names(states):
            return np.column_stack([states, step.astype(int).astype(str)])
        return np.column_stack([states, step])

    data = problem.data
    time = np.arange(len(data.states)) - np.repeat(data.offsets[:-1], np.diff(data.offsets))
    policy: Any = problem.policy
    if callable(policy):
        policy = _without_step(policy)
    return replace(
        problem,
        visited=augmented(problem.visited, time.astype(np.float64)),
        start_states=augmented(problem.start_states, np.zeros(len(problem.start_states))),
        policy=policy,
        log_memory={},
    )


def _without_step(policy: Any) -> Any:
    return lambda states: policy(states[:, :-1])


def pooled_of(problem: Problem) -> CountModel:
    """Return the count model over a horizon with the frequencies of all steps together."""
    return problem.once(
        "pooled",
        lambda p: fit_counts(
            screened(p) if isinstance(p.options.basis, str) else p, _known_probabilities(p), pooled=True
        ),
    )


def _known_probabilities(problem: Problem) -> FloatArray | None:
    behavior = behavior_of(problem)
    return None if behavior is None or behavior.estimated else behavior.probability


def _fit_model(problem: Problem, *, counted: bool) -> ModelChoice:
    """Fit what the whole log calls for: without some columns, states may look discrete that are not."""
    rng = np.random.default_rng(problem.options.random_state)
    basis = problem.options.basis
    if counted:
        counts = fit_counts(problem, _known_probabilities(problem))
        reason = f"a value for every state: {counts.n_states} of them, counted"
        return ModelChoice(model=counts, choice=Choice("counts", reason))
    choice: Choice | None = None
    tests: tuple[BasisTest, ...] = ()
    if isinstance(basis, str):
        name, chosen, tests = choose_basis(problem, rng)
        tried = "; ".join(f"{t.name}: p = {t.p_value:.2g}" for t in tests)
        choice = Choice(repr(chosen), f"{name}, of the family {tried}")
    else:
        chosen = basis.fit(problem.places, rng)
    linear = fit_linear(problem, chosen)
    if not tests:
        tests = (judge(linear, type(basis).__name__, richer_than(problem, chosen, rng), rng),)
    own = next((t for t in tests if t.n_coefficients == linear.features.n_coefficients), tests[-1])
    return ModelChoice(model=linear, basis=chosen, tests=tests, p_value=own.p_value, choice=choice)


def robust_of(problem: Problem) -> GroupJackknife:
    """Return the doubly robust value with products of ratios, and it without every group."""
    weights = weights_of(problem)
    assert weights is not None
    return problem.once("robust", lambda p: doubly_robust(p, weights, model_of(p).model))


def difference_p_value(problem: Problem) -> float:
    """Return the p-value of the hypothesis that the model's value and the doubly robust one agree."""
    robust = robust_of(problem)
    # Where data have no noise, rounding alone would be significant.
    rounding = _IMMATERIAL * robust.standard_error + _ROUNDING * abs(robust.value)
    return robust.minus(model_of(problem).model.at_start).p_value(negligible=rounding)
