"""The number of steps over which a value is, and the values that rewards can add up to in them."""

from __future__ import annotations

import numpy as np

from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray
from .._core.validation import check_int, check_range
from ..data import Trajectories
from ..moments.steps import horizon as discounted_steps, value_limits

# Batch: one number for every step of the horizon is held.
MAX_STEPS = 10_000_000


def find_horizon(data: Trajectories, horizon: int | str | None) -> tuple[int | None, list[str]]:
    """Return the number of steps over which the value is, and a note where it was found in the log.

    "auto" takes the length of the episodes where all have the same, of two steps or more, and all are said to
    have terminated; unless labels that end an episode never occur elsewhere: then no clock ends it.

    Examples
    --------
    >>> data = Trajectories([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]], np.ones((2, 2)), terminated=True)
    >>> find_horizon(data, "auto")[0], find_horizon(data, None)[0]
    (2, None)
    """
    if horizon is None:
        return None, []
    if not isinstance(horizon, str):
        return check_int(horizon, "horizon", high=MAX_STEPS), []
    if horizon != "auto":
        raise ValueError(must_be("horizon", 'a number of steps, None or "auto"', repr(horizon)))
    steps = int(data.n_steps.max())
    if steps == 1 or len(data) < 2 or np.ptp(data.n_steps) > 0 or not data.terminated.all():
        return None, []
    last = np.zeros(len(data.states), dtype=np.bool_)
    last[data.offsets[1:] - 1] = True
    final = np.unique(data.states[last], axis=0)
    if len(final) < len(data):
        others = np.unique(data.states[~last], axis=0)
        if len(np.unique(np.concatenate([final, others]), axis=0)) == len(final) + len(others):
            return None, []  # labels that mark the end
    return steps, [
        f"All episodes end after {steps} steps, so the value is over {steps} steps: if they ended by "
        "themselves, pass horizon=None."
    ]


def steps_within(data: Trajectories, horizon: int | None) -> BoolArray | slice:
    """Return which steps come before the horizon, for arrays of one entry a step."""
    if horizon is None:
        return slice(None)
    return np.arange(data.n_transitions) - np.repeat(data.step_offsets[:-1], data.n_steps) < horizon


def first_steps(data: Trajectories, horizon: int) -> Trajectories:
    """Return the first `horizon` steps of every episode; nothing follows them.

    Examples
    --------
    >>> data = Trajectories([[0.0, 1.0, 2.0, 3.0], [7.0, 8.0]], [[1.0, 2.0, 3.0], [4.0]], truncated=True)
    >>> first_steps(data, 2)
    Trajectories(2 x 1-2 steps, d=1, rewards, 1 terminated)
    """
    if int(data.n_steps.max()) <= horizon and data.terminated[data.n_steps == horizon].all():
        return data
    counts = -(-data.n_steps // horizon)
    pieces = data.split(horizon).select(np.cumsum(counts) - counts)
    whole = pieces.n_steps == horizon
    fields = {name: getattr(pieces, name) for name in ("states", "offsets", "action_labels", "parent")}
    return Trajectories._from_fields(
        **fields,
        terminated=pieces.terminated | whole,
        truncated=pieces.truncated & ~whole,
        **pieces._steps(slice(None)),
    )


def value_range(
    rewards: FloatArray,
    discount: float,
    data: Trajectories,
    given: tuple[float, float] | None,
    horizon: int | None = None,
) -> tuple[float, float]:
    """Return the smallest and largest value that rewards in this range can add up to.

    Examples
    --------
    >>> data = Trajectories([[0.0, 1.0, 0.0]], [[1.0, 1.0]], terminated=[True])
    >>> value_range(data.rewards, 0.9, data, None)  # one reward at least, and 1 / (1 - .9) at most
    (1.0, 10.000000000000002)
    """
    if given is not None:
        low, high = check_range(given, "reward_range")
        outside = (rewards < low) | (rewards > high)
        if outside.any():
            got = f"({low:g}, {high:g}), with a reward of {rewards[outside][0]:g} in the log"
            raise ValueError(must_be("reward_range", "a range that holds all logged rewards", got))
    else:
        low, high = float(rewards.min()), float(rewards.max())
    longest = discounted_steps(discount)
    if horizon is not None:
        longest = float(np.sum(discount ** np.arange(horizon)))
        shortest = longest if (data.n_steps[data.terminated] == horizon).all() else 0.0
        return value_limits(low, high, shortest, longest)
    if int(data.n_steps.max()) == 1 and data.terminated.all():
        return low, high  # one step, then the end
    if discount == 1.0:
        return value_limits(low, high, 0.0, longest)
    return value_limits(low, high, 1.0 if data.terminated.any() else longest, longest)
