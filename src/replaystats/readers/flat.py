"""The one door to `Trajectories` from flat arrays: every reader ends here, whatever it started from."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import check_array, check_real
from ..data._flat import check_flags
from ..data.trajectories import Trajectories


def from_flat(
    states: ArrayLike,
    offsets: ArrayLike,
    rewards: ArrayLike | None = None,
    actions: ArrayLike | None = None,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    dt: float | ArrayLike | None = None,
) -> Trajectories:
    """Return trajectories from flat arrays, without a Python loop over the episodes.

    Parameters
    ----------
    states : array of shape (N + n, d) or (N + n,)
        The L_i + 1 states of each trajectory, one trajectory after the other.
    offsets : array of int, shape (n + 1,)
        Trajectory i has the states ``states[offsets[i]:offsets[i + 1]]``.
    rewards : array of shape (N,), optional
        One per step: trajectory i has one less than it has states.
    actions : array of shape (N,) or (N, a), optional
        Integers stay integers.
    terminated, truncated : array of bool, shape (n,), optional
        How each trajectory ended.
    dt : float or array of shape (N,), optional
        Time between consecutive states.

    Examples
    --------
    >>> from_flat([0.0, 1.0, 2.0, 5.0, 6.0], [0, 3, 5], rewards=[1.0, 1.0, 9.0], terminated=[True, False])
    Trajectories(2 x 1-2 steps, d=1, rewards, 1 terminated)
    """
    flat = check_array(states, "states", ndim=(1, 2))
    flat = flat[:, np.newaxis] if flat.ndim == 1 else flat
    bounds = _check_offsets(offsets, len(flat))
    n = len(bounds) - 1
    n_steps = len(flat) - n
    return Trajectories._from_fields(
        states=np.ascontiguousarray(flat),
        offsets=bounds,
        rewards=None if rewards is None else _check_steps(rewards, "rewards", n_steps, (1,)),
        actions=None if actions is None else _check_actions(actions, n_steps),
        terminated=check_flags(terminated, "terminated", n),
        truncated=check_flags(truncated, "truncated", n),
        dt=_check_dt(dt, n_steps),
        parent=np.arange(n),
    )


def with_parent(data: Trajectories, parent: IntArray) -> Trajectories:
    """Return `data` with pieces of one episode marked as such: they are dependent."""
    fields = {name: getattr(data, name) for name in Trajectories.__slots__}
    return Trajectories._from_fields(**(fields | {"parent": parent}))


def as_rows(values: Any, n_rows: int | None = None) -> np.ndarray:
    """Return observations or actions as one row each (T, d): images are flattened, scalars get an axis."""
    array = np.asarray(values)
    return array.reshape(len(array) if n_rows is None else n_rows, -1)


def narrow(actions: np.ndarray) -> np.ndarray:
    """Return (T, 1) integer labels as (T,), which is how a discrete action is written here."""
    is_label = actions.ndim == 2 and actions.shape[1] == 1 and np.issubdtype(actions.dtype, np.integer)
    return actions[:, 0] if is_label else actions


def last_of_each(flags: BoolArray, offsets: IntArray, name: str) -> BoolArray:
    """Return per-episode flags (n,) from per-step ones (N,); one raised before the last step is an error."""
    last = offsets[1:] - 1
    early = flags.copy()
    early[last] = False
    if early.any():
        episode = int(np.searchsorted(offsets, np.flatnonzero(early)[0], side="right")) - 1
        hint = "The episode goes on after its end: are two of them joined, or the rows out of order?"
        raise ValueError(
            must_be(name, "set on the last step only", f"an earlier one in episode {episode}", hint)
        )
    return flags[last]


def _check_offsets(offsets: ArrayLike, n_states: int) -> IntArray:
    bounds = np.asarray(offsets)
    rule = f"increasing integers from 0 to the number of states ({n_states})"
    if bounds.ndim != 1 or len(bounds) < 2 or not np.issubdtype(bounds.dtype, np.integer):
        raise ValueError(must_be("offsets", rule, f"{bounds.dtype} of shape {bounds.shape}"))
    if bounds[0] != 0 or bounds[-1] != n_states:
        raise ValueError(must_be("offsets", rule, f"{bounds[0]} to {bounds[-1]}"))
    lengths = np.diff(bounds)
    if lengths.min() < 2:
        i = int(np.argmin(lengths))
        rule = "such that every trajectory has at least 2 states (one step)"
        raise ValueError(must_be("offsets", rule, f"{lengths[i]} in trajectory {i}", "Drop it."))
    return bounds.astype(np.int64, copy=False)


def _check_one_per_step(length: int, n_steps: int, name: str) -> None:
    if length != n_steps:
        raise ValueError(must_be(name, f"one per step, {n_steps} in all", length))


def _check_steps(values: ArrayLike, name: str, n_steps: int, ndim: tuple[int, ...]) -> FloatArray:
    array = check_array(values, name, ndim=ndim)
    _check_one_per_step(len(array), n_steps, name)
    return array


def _check_actions(actions: ArrayLike, n_steps: int) -> np.ndarray:
    array: np.ndarray = np.asarray(actions)
    if np.issubdtype(array.dtype, np.integer) and array.ndim in (1, 2):
        _check_one_per_step(len(array), n_steps, "actions")
        return array
    return _check_steps(actions, "actions", n_steps, (1, 2))


def _check_dt(dt: float | ArrayLike | None, n_steps: int) -> float | FloatArray | None:
    if dt is None:
        return None
    if np.ndim(dt) == 0:
        return check_real(np.asarray(dt).item(), "dt", low=0.0, closed="neither")
    steps = _check_steps(dt, "dt", n_steps, (1,))
    if steps.min() <= 0.0:
        raise ValueError(must_be("dt", "positive on every step", f"{steps.min():g} as the smallest"))
    return steps
