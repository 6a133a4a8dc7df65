"""The one door to `Trajectories` from flat arrays: every reader ends here, whatever it started from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core.arrays import as_array
from .._core.errors import must_be
from .._core.typing import ArrayLike, BoolArray, IntArray
from .._core.validation import check_int, check_text
from ..data.trajectories import Trajectories
from ._columns import no_such_name


def from_flat(
    states: ArrayLike,
    offsets: ArrayLike,
    rewards: ArrayLike | None = None,
    actions: ArrayLike | None = None,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    dt: float | ArrayLike | None = None,
    behavior_probability: ArrayLike | None = None,
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
        Integers stay integers; names become integers in alphabetical order.
    terminated, truncated : bool, or array of bool of shape (n,), optional
        How each trajectory ended; needed where trajectories with rewards differ in length.
    dt : float or array of shape (N,), optional
        Time between consecutive states.
    behavior_probability : array of shape (N,), optional
        Probability, in (0, 1], with which each logged action was chosen.

    Returns
    -------
    Trajectories

    Examples
    --------
    >>> from_flat([0.0, 1.0, 2.0, 5.0, 6.0], [0, 3, 5], rewards=[1.0, 1.0, 9.0], terminated=[True, False])
    Trajectories(2 x 1-2 steps, d=1, rewards, 1 terminated)
    """
    return Trajectories._from_flat(
        states,
        offsets,
        rewards=rewards,
        actions=actions,
        terminated=terminated,
        truncated=truncated,
        dt=dt,
        behavior_probability=behavior_probability,
    )


def with_fields(data: Trajectories, **changed: Any) -> Trajectories:
    """Return `data` with some fields replaced by others that fit."""
    return Trajectories._from_fields(**(data._fields() | changed))


def as_rows(values: Any, n_rows: int | None = None, name: str = "observations") -> np.ndarray:
    """Return observations or actions as one row each (T, d): images are flattened, scalars get an axis."""
    array = as_array(values, name)
    return array.reshape(len(array) if n_rows is None else n_rows, -1)


def side_by_side(observations: Any, n_rows: int | None = None) -> np.ndarray:
    """Return observations as one row each; the entries of dictionaries and tuples stand side by side."""
    if isinstance(observations, Mapping):
        observations = tuple(observations[key] for key in sorted(observations))
    if isinstance(observations, tuple):
        parts = [side_by_side(part, n_rows) for part in observations]
        if len({len(part) for part in parts}) != 1:
            got = f"{[len(part) for part in parts]} rows"
            raise ValueError(must_be("observations", "equally long in all their entries", got))
        return np.concatenate(parts, axis=1)
    return as_rows(observations, n_rows)


def require_parts(value: Any, parts: Sequence[str], name: str, rule: str) -> None:
    """Raise unless `value` has the attributes by which an object of another library is known."""
    missing = [part for part in parts if not hasattr(value, part)]
    if missing:
        got = f"{type(value).__name__} without `{missing[0]}`"
        raise TypeError(must_be(name, rule, got))


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


# ---------------------------------------------------------------- how episodes ended
#
# Older logs have one flag, ``done``. An episode that ran into a time limit then looks as if it had ended in a
# state of value 0, which shifts every value. What gives it away is the length: many have the largest.

# Shorter episodes often share their length; fewer of them than this are chance.
SHORTEST_LIMIT, FEWEST, SMALLEST_SHARE = 10, 3, 0.05


def resolve_time_limit(data: Trajectories, time_limit: int | str | None, *, flagged: bool) -> Trajectories:
    """Return `data` with the episodes that reached the time limit marked as cut off.

    Parameters
    ----------
    data : Trajectories
    time_limit : int, None or "ask"
        Steps after which episodes were cut off; None: there was no limit; "ask": raise if it looks like one.
    flagged : bool
        Whether the log says itself which episodes were cut off, so that there is nothing to ask.
    """
    if time_limit is None:
        return data
    if isinstance(time_limit, str) and time_limit == "ask":
        if not flagged:
            _ask(data.n_steps, data.terminated)
        return data
    if isinstance(time_limit, str):
        raise ValueError(must_be("time_limit", 'an int, None or "ask"', repr(time_limit)))
    reached = data.n_steps >= check_int(time_limit, "time_limit")
    return with_fields(data, terminated=data.terminated & ~reached, truncated=data.truncated | reached)


def looks_like_a_limit(n_steps: IntArray, terminated: BoolArray) -> bool:
    """Tell whether suspiciously many episodes ended after exactly the largest number of steps.

    Suspicious: 5 % of them, and 3 more than four times what a length in the last fifth before it has.
    """
    longest = int(n_steps.max())
    at_limit = int(np.count_nonzero(terminated & (n_steps == longest)))
    width = max(1, longest // 5)
    usual = np.count_nonzero((n_steps < longest) & (n_steps >= longest - width)) / width
    many = at_limit >= max(FEWEST + 4 * usual, SMALLEST_SHARE * len(n_steps))
    return bool(longest >= SHORTEST_LIMIT and many)


def _ask(n_steps: IntArray, terminated: BoolArray) -> None:
    if looks_like_a_limit(n_steps, terminated):
        longest = int(n_steps.max())
        at_limit = int(np.count_nonzero(terminated & (n_steps == longest)))
        got = f"{at_limit} of {len(n_steps)} episodes flagged as ended after exactly {longest} steps"
        hint = (
            f"None is longer. If a time limit cut those off, pass time_limit={longest} (or `truncated`). If "
            "they really ended there, pass time_limit=None."
        )
        raise ValueError(must_be("time_limit", "given", got, hint))


def pick(observations: Any, key: str | None) -> Any:
    """Return the entry `key` of dictionary observations, or the observations if none is named."""
    if key is None:
        return observations
    check_text(key, "observation")
    if not isinstance(observations, Mapping):
        rule = "None where observations are arrays, which have no entries"
        raise ValueError(must_be("observation", rule, repr(key)))
    if key not in observations:
        raise no_such_name("observation", "an entry of the observations", key, observations)
    return observations[key]
