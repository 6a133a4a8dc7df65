"""Rewards of every step, from the data or from the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .._core.arrays import as_array
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_length

RewardLike: TypeAlias = "Callable[[FloatArray], ArrayLike] | ArrayLike | None"


def step_rewards(reward: RewardLike, logged: FloatArray | None, states: FloatArray) -> FloatArray:
    """Return the reward of every step, shape (N,).

    Parameters
    ----------
    reward : callable, array-like of shape (N,) or None
        A function of the states (N, d), or the numbers themselves; None takes the logged ones.
    logged : ndarray of shape (N,) or None
        What the data holds.
    states : ndarray of shape (N, d)
        The state at the start of every step.
    """
    if reward is None:
        if logged is None:
            hint = "Give the data `rewards`, or pass `reward` as a function of the state."
            raise ValueError(must_be("reward", "given when the data holds no rewards", None, hint))
        return logged
    values = reward(states) if callable(reward) else reward
    values = as_array(values, "reward")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]  # a function of (N, 1) states naturally returns a column
    rewards = check_array(values, "reward", ndim=1)
    check_length(len(rewards), len(states), "reward", "the steps of the data")
    return rewards
