"""Parts that several methods need, each computed once: columns, behavior, weights, the model of values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.choice import Choice
from .._core.linalg import in_span
from .._core.thresholds import CHECK_LEVEL, DRAWS, MIN_EFFECTIVE, NEGLIGIBLE, SQUARE_ROWS
from .._core.typing import BoolArray, FloatArray, IntArray
from ..basis import Tabular
from ..data._flat import holds_names
from .assumption_tests import covariance_test
from .behavior import Behavior, find_behavior
from .counts import CountModel, fit_counts, has_labels
from .importance import Weights, beyond, doubly_robust, make_weights
from .intervals import GroupJackknife
from .linear import BasisTest, LinearModel, choose_basis, fit_linear, judge, richer_than
from .markov import residuals
from .policies import one_hot, probabilities_of
from .problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Screening:
    """Which columns of the state matter.

    Attributes
    ----------
    keep : ndarray of bool, shape (d,)
    p_values : ndarray of shape (d,)
        Of the hypothesis that a column matters for nothing, given the columns kept so far, or that nothing
        moves it; 0 where the policy depends on it.
    """

    keep: BoolArray
    p_values: FloatArray


def relevant_columns(problem: Problem, *, level: float = CHECK_LEVEL, seed: int = 0) -> Screening:
    """Return which columns of real states matter for the value of the policy.

    Assumed: dependence shows in the conditional means of reward, end and next state, and is in part linear or
    quadratic in the column. A column that matters at few steps of the log may be dropped.

    The procedure, column by column:

    1. If the policy does something else where the column is permuted, it is kept.
    2. Reward, end, next values of the other columns kept so far, the column and its square are predicted
       from these columns and the action by regressions fitted on other steps (`markov.residuals`).
    3. It is kept if residuals of outcomes are correlated with those of the column and its square at the level
       (`assumption_tests.covariance_test`).
    4. It is kept if actions or other columns move it, by a test of its change given itself: what the system
       moves may matter where the log hardly came, as a position does at a wall. Else, or where it is a copy,
       the column is exogenous [2]_ and dropped, and later ones are tested without it.

    That any exogenous column stays has the probability `level` for each of the two tests (Bonferroni). All
    columns stay for discrete states, continuous actions (which a policy is asked for with all columns), and
    on policy.

    Parameters
    ----------
    problem : Problem
    level : float in (0, 1)
        Of the tests of all columns together.
    seed : int

    References
    ----------
    .. [1] R. D. Shah and J. Peters (2020), The hardness of conditional independence testing and the
       generalised covariance measure, Annals of Statistics 48.
    .. [2] T. Dietterich, G. Trimponias, Z. Chen (2018), Discovering and removing exogenous state variables
       and rewards for reinforcement learning, ICML.
    """
    d = problem.visited.shape[1]
    keep, p_values = np.ones(d, dtype=np.bool_), np.zeros(d)
    asked = callable(problem.policy) and not problem.continuous
    if d == 1 or not asked or has_labels(problem):
        return Screening(keep=keep, p_values=p_values)
    rng = np.random.default_rng(seed)
    rows, level = _some_rows(problem), max(level / d, 2.0 / (DRAWS + 1))
    if len(rows) < MIN_EFFECTIVE * d:  # regressions on so many other columns leave nothing to test with
        return Screening(keep=keep, p_values=p_values)
    states, moves = problem.states[rows], (problem.next_states - problem.states)[rows]
    moves = np.where(problem.terminal[rows, None], 0.0, moves)
    outcomes = np.column_stack([problem.rewards[rows], problem.terminal[rows].astype(np.float64)])
    acts = one_hot(problem.actions[rows], problem.n_actions)[:, 1:]
    for j in range(d):
        if _policy_depends(problem, states, j, rng):
            continue
        others = keep & (np.arange(d) != j)
        if not others.any():
            continue
        column = states[:, j] - states[:, j].mean()
        targets = np.column_stack([outcomes, moves[:, others], column, column**2])
        left = residuals(targets, np.column_stack([states[:, others], acts]), rng)
        test = covariance_test(left[:, :-2], left[:, -2:], rng)
        if test is not None and test.p_value >= level:
            moved = np.column_stack([moves[:, j], states[:, others], acts])
            left = residuals(moved, column[:, None], rng)
            test = covariance_test(left[:, :1], left[:, 1:], rng)
        p_values[j] = 1.0 if test is None else test.p_value
        keep[j] = p_values[j] < level
    return Screening(keep=keep, p_values=p_values)


def screened(problem: Problem) -> Problem:
    """Return the problem with the columns that matter, for models of values and of visits.

    More columns than rows are replaced by coordinates in the span of the rows, which says the same of them.

    The policy's decisions are kept as they were: they are probabilities already.
    """
    if problem.visited.shape[1] > len(problem.visited):
        rows, start = in_span(problem.visited, problem.start_states)
        return replace(problem, visited=rows, start_states=start, log_memory={})
    keep = problem.once("columns", lambda p: relevant_columns(p, seed=p.options.random_state)).keep
    if keep.all():
        return problem
    return replace(
        problem,
        visited=problem.visited[:, keep],
        start_states=problem.start_states[:, keep],
        log_memory={},
    )


def _some_rows(problem: Problem) -> IntArray:
    """Return steps from all over the log, with up to half of them ends, which are few.

    Choosing steps by their outcome leaves what is independent of it so (case-control sampling).
    """
    parts = []
    for rows in (np.flatnonzero(problem.terminal), np.flatnonzero(~problem.terminal)):
        parts.append(rows[:: max(1, -(-2 * len(rows) // SQUARE_ROWS))])
    return np.sort(np.concatenate(parts))


def _policy_depends(problem: Problem, states: FloatArray, column: int, rng: np.random.Generator) -> bool:
    """Tell whether a policy does something else where one column is permuted; it must not draw actions.

    One that knows logged states only, as a table of them, depends on all columns.
    """
    assert callable(problem.policy)
    before, moved = probabilities_of(problem.policy, states, problem.n_actions), states.copy()
    moved[:, column] = rng.permutation(moved[:, column])
    try:
        after = probabilities_of(problem.policy, moved, problem.n_actions)
    except Exception:  # a policy of the user may refuse unknown states in any way
        return True
    return bool(np.abs(before - after).max() > 1e-9)


# Rounding: of two estimates of one value.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelChoice:
    """The model of values and how it was chosen.

    Attributes
    ----------
    model : CountModel or LinearModel
    tests : tuple of BasisTest
        Bases that were tried, in order.
    p_value : float
        Of the chosen one; NaN for counts, and with too few episodes.
    choice : Choice or None
        What basis="auto" stood for.
    """

    model: CountModel | LinearModel
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


def with_column(states: np.ndarray, step: IntArray) -> np.ndarray:
    """Return states (N, d) with the step (N,) as a further column, a name beside names."""
    return np.column_stack([states, step.astype(str) if holds_names(states) else step])


def with_step(problem: Problem) -> Problem:
    """Return the problem with the step as a further column of the state, for models of values."""
    data = problem.data
    time = np.arange(len(data.states)) - np.repeat(data.offsets[:-1], np.diff(data.offsets))
    asked: Any = problem.policy
    return replace(
        problem,
        visited=with_column(problem.visited, time),
        start_states=with_column(problem.start_states, np.zeros(len(problem.start_states), np.intp)),
        policy=(lambda states: asked(states[:, :-1])) if callable(asked) else asked,
        log_memory={},
    )


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
    return ModelChoice(model=linear, tests=tests, p_value=own.p_value, choice=choice)


def robust_of(problem: Problem) -> GroupJackknife:
    """Return the doubly robust value with products of ratios, and it without every group."""
    weights = weights_of(problem)
    assert weights is not None
    return problem.once("robust", lambda p: doubly_robust(p, weights, model_of(p).model))


def difference_p_value(problem: Problem) -> float:
    """Return the p-value of the hypothesis that the model's value and the doubly robust one agree."""
    robust = robust_of(problem)
    # Where data have no noise, rounding alone would be significant.
    rounding = NEGLIGIBLE * robust.standard_error + _ROUNDING * abs(robust.value)
    return (robust - model_of(problem).model.at_start).p_value(negligible=rounding)
