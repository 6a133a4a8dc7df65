"""Fitted Q evaluation with any scikit-learn regressor: the same regression again, its own answer ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from .._core.typing import BoolArray, FloatArray
from ..moments.lstd_q import action_rows
from .intervals import LeftOut
from .problem import Problem

# Iterate until what is left of the first guess is this share, but no more often than that.
_LEFT, _MOST_ITERATIONS = 0.02, 60
# Refits without a part of the episodes: fewer than elsewhere, because each is a whole iteration.
N_PARTS = 5


def fitted_q(problem: Problem, regressor: Any) -> LeftOut:
    """Return the value at the start by fitted Q evaluation, and it without each of `N_PARTS` parts."""
    parts = min(N_PARTS, problem.n_groups)
    part, start_part = (
        problem.group % parts,
        np.where(problem.start_group < 0, -1, problem.start_group % parts),
    )
    everything = np.ones(len(problem.states), dtype=np.bool_)
    value = _value(problem, regressor, everything, np.ones(len(problem.start_states), dtype=np.bool_))
    left = [_value(problem, regressor, part != k, start_part != k) for k in range(parts)]
    return LeftOut(value, np.array(left))


def _value(problem: Problem, regressor: Any, rows: BoolArray, starts: BoolArray) -> float:
    inputs = _inputs(problem, problem.states[rows], problem.actions[rows])
    if problem.continuous:
        inputs = np.concatenate([problem.states[rows], action_rows(problem.data)[rows]], axis=1)
    gamma = problem.discount
    n_iterations = _MOST_ITERATIONS
    if 0.0 < gamma < 1.0:
        n_iterations = min(n_iterations, int(np.ceil(np.log(_LEFT) / np.log(gamma))))
    rewards, following = problem.rewards[rows], problem.following[rows]
    model: Any = None
    for _ in range(max(1, n_iterations)):
        targets = rewards
        if model is not None:
            ahead = _values(problem, model, problem.next_states[rows])
            targets = rewards + np.sum(following * ahead, axis=1)
        model = clone(regressor).fit(inputs, np.clip(targets, problem.low, problem.high))
    at_start = _values(problem, model, problem.start_states[starts])
    return float(np.mean(np.sum(problem.start_chances[starts] * at_start, axis=1)))


def _inputs(problem: Problem, states: FloatArray, labels: Any) -> FloatArray:
    """Return states with the action beside them, one column per action."""
    if problem.n_actions == 1:
        return states
    return np.concatenate([states, np.eye(problem.n_actions)[labels]], axis=1)


def _values(problem: Problem, model: Any, states: FloatArray) -> FloatArray:
    """Return the values (m, A) of all actions; for continuous ones (m, 1), the mean over the policy's."""
    if problem.continuous:
        assert callable(problem.policy)
        chosen = np.asarray(problem.policy(states), dtype=np.float64)
        draws = chosen.reshape(len(states), -1, 1 if chosen.ndim == 1 else chosen.shape[-1])
        each = [model.predict(np.concatenate([states, draw], axis=1)) for draw in draws.swapaxes(0, 1)]
        return np.asarray(np.clip(np.mean(each, axis=0), problem.low, problem.high))[:, None]
    columns = [
        model.predict(_inputs(problem, states, np.full(len(states), a))) for a in range(problem.n_actions)
    ]
    return np.asarray(np.clip(np.stack(columns, axis=1), problem.low, problem.high))
