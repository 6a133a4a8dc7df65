"""What the moments read from trajectories: single steps, windows, and actions; a table of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.arrays import in_double, is_foreign, take_rows
from .._core.errors import must_be, require_extra
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import as_columns, check_int, check_rows
from ._flat import are_numbers, gather, holds_names

if TYPE_CHECKING:
    from .trajectories import Trajectories


# Rounding: time steps recovered from clock readings differ in their last digits; more than this is a real
# change.
DT_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transitions:
    """All N steps of the data, one row each.

    Attributes
    ----------
    states, next_states : ndarray of shape (N, d)
    rewards : ndarray of shape (N,) or None
    terminal : ndarray of bool, shape (N,)
        True where the next state is absorbing, so that its value is 0.
    trajectory : ndarray of int, shape (N,)
        The trajectory each step belongs to.
    dt : ndarray of shape (N,) or None
    """

    states: FloatArray
    next_states: FloatArray
    rewards: FloatArray | None
    terminal: BoolArray
    trajectory: IntArray
    dt: FloatArray | None

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        return f"Transitions({len(self)} steps, d={self.states.shape[1]})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """Runs of ``order + 1`` consecutive states, none of which crosses an episode.

    Attributes
    ----------
    start : ndarray of int, shape (n_windows,)
        Row of the flat ``Trajectories.states`` at which each window starts.
    states : ndarray of shape (n_windows, order + 1, d)
    rewards : ndarray of shape (n_windows,) or None
        Reward of the first step of each window.
    trajectory : ndarray of int, shape (n_windows,)
    dt : ndarray of shape (n_windows,) or None
        Time step, constant inside each window.
    """

    start: IntArray
    states: FloatArray
    rewards: FloatArray | None
    trajectory: IntArray
    dt: FloatArray | None

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        return f"Windows({len(self)} x {self.states.shape[1]} states, d={self.states.shape[2]})"


def transitions_of(data: Trajectories, *, held: bool = False) -> Transitions:
    """Return every step of the data as a row; if `held`, states and rewards as arrays of where they live."""
    states, rewards = (data.held(name) if held else getattr(data, name) for name in ("states", "rewards"))
    here = gather(data.offsets[:-1], data.n_steps)
    terminal = np.zeros(data.n_transitions, dtype=np.bool_)
    terminal[data.step_offsets[1:] - 1] = data.terminated
    return Transitions(
        states=take_rows(states, here),
        next_states=take_rows(states, here + 1),
        rewards=rewards,
        terminal=terminal,
        trajectory=np.repeat(np.arange(len(data)), data.n_steps),
        dt=dt_per_step(data),
    )


def windows_of(data: Trajectories, order: int, stride: int, *, held: bool = False) -> Windows:
    """Return the runs of ``order + 1`` consecutive states, started every `stride` steps of an episode.

    If `held`, states and rewards as arrays of where they live.
    """
    states, rewards = (data.held(name) if held else getattr(data, name) for name in ("states", "rewards"))
    order, stride = check_int(order, "order"), check_int(stride, "stride")
    _check_long_enough(data, order)
    counts = (data.n_steps - order) // stride + 1
    start = gather(data.offsets[:-1], counts, stride)
    trajectory = np.repeat(np.arange(len(data)), counts)
    step = start - trajectory  # each earlier trajectory has one state more than it has steps
    return Windows(
        start=start,
        states=take_rows(states, start[:, np.newaxis] + np.arange(order + 1)),
        rewards=None if rewards is None else take_rows(rewards, step),
        trajectory=trajectory,
        dt=_dt_of_windows(data, step, order, trajectory),
    )


def dt_per_step(data: Trajectories) -> FloatArray | None:
    """Return the time of every step (N,), if known."""
    if data.dt is None or isinstance(data.dt, np.ndarray):
        return data.dt
    return np.full(data.n_transitions, data.dt, dtype=np.float64)


def _check_long_enough(data: Trajectories, order: int) -> None:
    short = np.flatnonzero(data.n_steps < order)
    if len(short):
        i = int(short[0])
        rule = f"at most the number of steps of every trajectory ({data.n_steps[i]} in trajectory {i})"
        hint = (
            f"{len(short)} of {len(data)} trajectories are too short: "
            f"drop them with data.select(data.n_steps >= {order}), or lower `order`."
        )
        raise ValueError(must_be("order", rule, order, hint))


def _dt_of_windows(data: Trajectories, step: IntArray, order: int, trajectory: IntArray) -> FloatArray | None:
    if not isinstance(data.dt, np.ndarray):
        return None if data.dt is None else np.full(len(step), data.dt)
    dt: FloatArray = data.dt[step[:, np.newaxis] + np.arange(order)]  # (n_windows, order)
    uneven = np.flatnonzero(np.ptp(dt, axis=1) > DT_TOLERANCE * dt[:, 0])
    if len(uneven):
        w = int(uneven[0])
        got = f"{dt[w].min():g} to {dt[w].max():g} in trajectory {trajectory[w]}"
        hint = "Use order 1, or resample the states on an even time grid."
        raise ValueError(must_be("dt", f"constant inside each window of order {order}", got, hint))
    return data.dt[step]


def action_rows(data: Trajectories) -> Any:
    """Return the logged actions, where they live: integers (N,) if discrete, else numbers (N, a)."""
    actions = data.held("actions")
    if actions is None:
        hint = "Pass `actions` to Trajectories."
        raise ValueError(must_be("data", "trajectories with actions", "none", hint))
    if not are_numbers(actions):
        return actions.reshape(-1)
    numbers = in_double(actions) if is_foreign(actions) else None
    return check_rows(actions, "actions") if numbers is None else as_columns(numbers)


def describe(data: Trajectories) -> Any:
    """Return one row per quantity: mean, standard deviation, minimum, median, maximum.

    Parameters
    ----------
    data : Trajectories

    Returns
    -------
    DataFrame
        Rows "steps of an episode", "return" and "reward" where there are rewards, and one per state variable.

    Examples
    --------
    >>> from replaystats import Trajectories
    >>> frame = describe(Trajectories([[0.0, 1.0], [0.0, 3.0]], rewards=[[1.0], [2.0]], terminated=True))
    >>> frame["mean"].to_dict()
    {'steps of an episode': 1.0, 'return': 1.5, 'reward': 1.5, 'state 0': 1.0}
    """
    pandas = require_extra("pandas", extra="io", purpose="A data frame")
    columns = {"steps of an episode": np.asarray(data.n_steps, dtype=float)}
    if data.rewards is not None:
        rewards = np.asarray(data.rewards, dtype=float)
        starts = data.step_offsets[:-1]
        columns["return"] = np.add.reduceat(rewards, starts) if len(rewards) else rewards
        columns["reward"] = rewards
    if not holds_names(data.states):
        columns |= {f"state {j}": np.asarray(data.states)[:, j] for j in range(data.dimension)}
    names = ["mean", "std", "min", "median", "max"]
    rows = {
        name: [values.mean(), values.std(), values.min(), np.median(values), values.max()]
        for name, values in columns.items()
    }
    return pandas.DataFrame.from_dict(rows, orient="index", columns=names)


def frame_of(data: Trajectories) -> Any:
    """Return one row per state: episode, step, state, and what was done and earned from there.

    Parameters
    ----------
    data : Trajectories

    Returns
    -------
    DataFrame
        What belongs to steps is missing in the row of an episode's final state.

    Examples
    --------
    >>> from replaystats import Trajectories
    >>> print(frame_of(Trajectories([[0.0, 1.0]], rewards=[[2.0]], terminated=True)))
       episode  step    s  reward  terminated  truncated
    0        0     0  0.0     2.0        True      False
    1        0     1  1.0     NaN        True      False
    """
    pandas = require_extra("pandas", extra="io", purpose="A data frame")
    n_rows, departed = data.n_steps + 1, data.departed
    step = np.arange(n_rows.sum()) - np.repeat(data.offsets[:-1], n_rows)
    columns = {"episode": np.repeat(np.arange(len(data)), n_rows), "step": step}
    columns |= _named("s", np.asarray(data.states))
    parts = {} if data.actions is None else _named("action", np.asarray(data.actions))
    if data.action_labels is not None and data.actions is not None:
        parts = {"action": np.array(data.action_labels, dtype=object)[np.asarray(data.actions)]}
    each = {"reward": data.rewards, "probability": data.behavior_probability}
    parts |= {name: np.asarray(values) for name, values in each.items() if values is not None}
    for name, values in parts.items():
        columns[name] = pandas.Series(values, index=np.flatnonzero(departed)).reindex(range(len(departed)))
    flags = {"terminated": data.terminated, "truncated": data.truncated}
    return pandas.DataFrame(columns | {name: np.repeat(flag, n_rows) for name, flag in flags.items()})


def _named(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns of an array, with numbers where there are several."""
    columns = values.reshape(len(values), -1).T
    return {name if len(columns) == 1 else f"{name}{i}": column for i, column in enumerate(columns)}
