"""Screening of state columns that matter for neither reward, transition nor policy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._core.linalg import in_span
from .._core.thresholds import MIN_EFFECTIVE, SCREENING_LEVEL, SCREENING_ROWS
from .._core.typing import BoolArray, FloatArray, IntArray
from .assumption_tests import covariance_test
from .counts import has_labels
from .markov import residuals
from .policies import probabilities_of
from .problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Screening:
    """Which columns of the state matter.

    Attributes
    ----------
    keep : ndarray of bool, shape (d,)
    p_values : ndarray of shape (d,)
        Of the hypothesis that a column matters for nothing, given the columns kept so far; 0 where the policy
        depends on it.
    """

    keep: BoolArray
    p_values: FloatArray


def relevant_columns(problem: Problem, *, level: float = SCREENING_LEVEL, seed: int = 0) -> Screening:
    """Return which columns of real states matter for the value of the policy.

    Assumed: dependence shows in the conditional means of reward, end and next state, and is in part linear or
    quadratic in the column. A column that matters at few steps of the log may be dropped.

    The procedure, column by column:

    1. If the policy does something else where the column is permuted, it is kept.
    2. Reward, end, next values of the other columns kept so far, the column and its square are predicted
       from these columns and the action by regressions fitted on other steps (`markov.residuals`).
    3. If the residuals of outcomes are uncorrelated with those of the column and its square at the level
       (`assumption_tests.covariance_test`), the column is dropped, and later ones are tested without it. So
       of two copies one stays.

    A column that matters for nothing stays with probability `level`. All columns stay for discrete states,
    continuous actions (which a policy is asked for with all columns), and on policy.

    Parameters
    ----------
    problem : Problem
    level : float in (0, 1)
        Of each test.
    seed : int

    References
    ----------
    R. D. Shah and J. Peters (2020), The hardness of conditional independence testing and the generalised
    covariance measure, Annals of Statistics 48.
    """
    d = problem.visited.shape[1]
    keep, p_values = np.ones(d, dtype=np.bool_), np.zeros(d)
    asked = callable(problem.policy) and not problem.continuous
    if d == 1 or not asked or has_labels(problem):
        return Screening(keep=keep, p_values=p_values)
    rng = np.random.default_rng(seed)
    rows = _some_rows(problem)
    if len(rows) < MIN_EFFECTIVE * d:  # regressions on so many other columns leave nothing to test with
        return Screening(keep=keep, p_values=p_values)
    states, moves = problem.states[rows], (problem.next_states - problem.states)[rows]
    moves = np.where(problem.terminal[rows, None], 0.0, moves)
    outcomes = np.column_stack([problem.rewards[rows], problem.terminal[rows].astype(np.float64)])
    acts = np.eye(problem.n_actions)[problem.actions[rows]][:, 1:]
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
        p_values[j] = 1.0 if test is None else test.p_value
        keep[j] = p_values[j] < level
    return Screening(keep=keep, p_values=p_values)


def screening_of(problem: Problem) -> Screening:
    """Return which columns matter, found once per problem."""
    return problem.once("columns", lambda p: relevant_columns(p, seed=p.options.random_state))


def screened(problem: Problem) -> Problem:
    """Return the problem with the columns that matter, for models of values and of visits.

    More columns than rows are replaced by coordinates in the span of the rows, which says the same of them.

    The policy's decisions are kept as they were: they are probabilities already.
    """
    if problem.visited.shape[1] > len(problem.visited):
        rows, start = in_span(problem.visited, problem.start_states)
        return replace(problem, visited=rows, start_states=start, log_memory={})
    keep = screening_of(problem).keep
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
        parts.append(rows[:: max(1, -(-2 * len(rows) // SCREENING_ROWS))])
    return np.sort(np.concatenate(parts))


def _policy_depends(problem: Problem, states: FloatArray, column: int, rng: np.random.Generator) -> bool:
    """Tell whether a policy does something else where one column is permuted; it must not draw actions."""
    assert callable(problem.policy)
    moved = states.copy()
    moved[:, column] = rng.permutation(moved[:, column])
    before, after = (probabilities_of(problem.policy, s, problem.n_actions) for s in (states, moved))
    return bool(np.abs(before - after).max() > 1e-9)
