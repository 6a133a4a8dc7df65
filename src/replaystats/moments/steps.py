"""What every step counts: its reward, its discount factor, its likelihood under the policy in question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .._core.arrays import as_array, check_finite, in_double, is_foreign, like
from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.user_code import called
from .._core.validation import check_array, check_length, check_memory, check_nonnegative, check_real
from ..basis import Basis
from ..basis.base import check_basis
from ..data import Trajectories
from ..data.trajectories import check_trajectories
from ..data.views import transitions_of

DiscountLike: TypeAlias = "float | ArrayLike | Callable[[FloatArray], ArrayLike] | None"
ImportanceLike: TypeAlias = "Callable[[FloatArray, np.ndarray | None], ArrayLike] | ArrayLike | None"


def check_log(data: Trajectories, basis: Basis) -> None:
    """Raise unless the moments of values are asked for a log and a basis."""
    check_trajectories(data)
    check_basis(basis)


def check_dense(data: Trajectories, basis: Basis) -> None:
    """Refuse a dense system that no memory holds: features of all steps, and some q x q matrices."""
    n, q = float(data.n_transitions), float(basis.n_basis)
    check_memory(2.0 * n * q + 4.0 * q * q, "basis", f"{q:.0f} functions", "Take fewer functions.")


def step_discounts(
    data: Trajectories, discount: DiscountLike, discount_rate: float | None = None
) -> FloatArray:
    """Return the discount factor of every step, shape (N,).

    Parameters
    ----------
    data : Trajectories
        With `dt` if a rate is given.
    discount : float in [0, 1], array-like of shape (N,), callable or None
        One factor for all steps, one for each, or a function of their durations (N,).
    discount_rate : float > 0, optional
        beta in place of `discount`: step j has the factor e^(-beta dt_j), which is right for steps of
        different duration.

    Examples
    --------
    >>> data = Trajectories([[0.0, 1.0, 2.0]], dt=[[1.0, 2.0]])
    >>> step_discounts(data, None, np.log(2.0))
    array([0.5 , 0.25])
    """
    if (discount is None) == (discount_rate is None):
        got = "none" if discount is None else "both"
        raise ValueError(must_be("discount", "given, or else `discount_rate`", got))
    if discount_rate is not None:
        beta = check_real(discount_rate, "discount_rate", low=0.0, closed="neither")
        if data.dt is None:
            hint = "Pass `dt` to Trajectories, or give `discount`."
            raise ValueError(must_be("dt", "known to use `discount_rate`", None, hint))
        return np.broadcast_to(np.exp(-beta * np.asarray(data.dt)), (data.n_transitions,))
    if callable(discount):
        if data.dt is None:
            hint = "Pass `dt` to Trajectories, or give `discount` as numbers."
            raise ValueError(must_be("dt", "known to use `discount` as a function", None, hint))
        lengths = np.broadcast_to(np.asarray(data.dt, dtype=float), (data.n_transitions,))
        discount = called(discount, "discount", lengths)
    if as_array(discount, "discount").ndim == 0:  # None was dealt with above
        factor = check_real(discount, "discount", low=0.0, high=1.0)
        return np.broadcast_to(np.float64(factor), (data.n_transitions,))
    factors = check_array(discount, "discount", ndim=1)  # type: ignore[arg-type]
    check_length(len(factors), data.n_transitions, "discount", "the steps of the data")
    if factors.min() < 0.0 or factors.max() > 1.0:
        got = f"{factors.min():g} to {factors.max():g}"
        raise ValueError(must_be("discount", "in [0, 1] on every step", got))
    return factors


def horizon(discounts: FloatArray | float) -> float:
    """Return 1 / (1 - discount) for the largest of them, what rewards of 1 are worth; infinite for 1.

    Examples
    --------
    >>> horizon(np.array([0.5, 0.75]))
    4.0
    """
    largest = float(np.max(discounts))
    return 1.0 / (1.0 - largest) if largest < 1.0 else np.inf


def value_limits(low: float, high: float, shortest: float, longest: float) -> tuple[float, float]:
    """Return what rewards in [low, high] can add up to, if the weights of an episode's sum lie in a range.

    Parameters
    ----------
    low, high : float
        Smallest and largest reward.
    shortest, longest : float
        Least and largest sum of the discounts of an episode: 0 or 1 where it may end early, `horizon` where
        it goes on forever.

    Examples
    --------
    >>> value_limits(-1.0, 2.0, 0.0, 10.0), value_limits(0.0, 2.0, 0.0, np.inf)
    ((-10.0, 20.0), (0.0, inf))
    """
    with np.errstate(invalid="ignore"):
        ends = np.array([low, high])[:, None] * [shortest, longest]
    ends = np.where(np.isnan(ends), 0.0, ends) + 0.0  # nothing, forever, is nothing; and -0 is 0
    return float(ends.min()), float(ends.max())


def reward_unit(discount: DiscountLike, discount_rate: float | None = None) -> float:
    """Return u such that a mean reward m, forever, is worth m / u.

    That is 1 - discount for one discount, where m is a reward per step; the rate, where m is a reward per
    unit of time; and 1 for discounts that may differ, where m is the worth itself.
    """
    if discount_rate is not None:
        return float(discount_rate)
    if not callable(discount) and as_array(discount, "discount").ndim == 0:  # None goes with a rate
        hint = "Without discounting the value of a continuing task is infinite."
        return 1.0 - check_real(discount, "discount", low=0.0, high=1.0, closed="left", hint=hint)
    return 1.0


def step_ratios(importance: ImportanceLike, data: Trajectories) -> FloatArray | None:
    """Return the importance ratio of every step, shape (N,), or None where all are 1.

    Parameters
    ----------
    importance : callable, array-like of shape (N,) or None
        A function of the states (N, d) and actions (N,) or (N, a), or the numbers themselves.
    data : Trajectories
    """
    if importance is None:
        return None
    values = importance
    if callable(importance):
        values = called(
            importance, "importance", transitions_of(data, held=True).states, data.held("actions")
        )
    ratios: FloatArray = _one_a_step(values, "importance", data.n_transitions)
    check_nonnegative(ratios, "importance")
    return ratios


def _one_a_step(values: Any, name: str, n_steps: int) -> Any:
    """Return numbers (N,) from what a user gave or a user's function returned, where they are."""
    numbers = in_double(values) if is_foreign(values) else None
    if numbers is None:
        numbers = as_array(values, name)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]  # a function of (N, 1) states naturally returns a column
    if is_foreign(numbers) and numbers.ndim == 1 and numbers.shape[0] > 0:
        numbers = check_finite(numbers, name)
    else:
        numbers = check_array(numbers, name, ndim=1)
    check_length(len(numbers), n_steps, name, "the steps of the data")
    return numbers


RewardLike: TypeAlias = "Callable[[FloatArray], ArrayLike] | ArrayLike | None"


def step_rewards(reward: RewardLike, logged: FloatArray | None, states: FloatArray) -> FloatArray:
    """Return the reward of every step, shape (N,).

    Parameters
    ----------
    reward : callable, array-like of shape (N,) or None
        A function of the states (N, d), or the numbers themselves; None takes the logged ones.
    logged : ndarray of shape (N,) or None
        What the data holds.
    states : array of shape (N, d)
        The state at the start of every step; rewards are returned where it is.
    """
    if reward is None:
        if logged is None:
            hint = "Give the data `rewards`, or use `data.with_rewards(function of the states)`."
            raise ValueError(must_be("reward", "given when the data holds no rewards", None, hint))
        return like(logged, states) if is_foreign(states) else logged
    values = called(reward, "reward", states) if callable(reward) else reward
    rewards: FloatArray = like(_one_a_step(values, "reward", len(states)), states)
    return rewards
