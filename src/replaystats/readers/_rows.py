"""From rows of a log to trajectories: which row follows which, how each episode ended, and in which state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.entries import check_known, number_labels
from .._core.errors import must_be
from .._core.thresholds import MANY
from .._core.typing import BoolArray, FloatArray, IntArray
from .._core.validation import check_exact, check_integers, is_whole
from ..data._flat import gather, offsets_of
from ..data.trajectories import Trajectories
from ..data.views import DT_TOLERANCE
from ._columns import Column, as_floats, as_numpy

FINAL_STATES = ("recorded", "repeat", "drop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The rows of a table in order of episode and time.

    Attributes
    ----------
    rows : ndarray of int, shape (R,), or None
        Where each sorted row stands in the table; None where that is in order already.
    lengths : ndarray of int, shape (n,)
        Rows of each episode.
    ids : ndarray of shape (n,)
        What the table calls each episode, sorted.
    gap_after : ndarray of bool, shape (R,)
        Whether steps of the same episode are missing behind a row.
    dt : float, ndarray of shape (R,), or None
        Time to the next row of the episode; on its last row, a number without meaning.
    """

    rows: IntArray | None
    lengths: IntArray
    ids: np.ndarray
    gap_after: BoolArray
    dt: float | FloatArray | None = None

    def sorted(self, values: np.ndarray) -> np.ndarray:
        """Return the values of the table's rows (R, ...) in this order."""
        return values if self.rows is None else values[self.rows]

    @property
    def episode(self) -> IntArray:
        """Position in `ids` of the episode of each sorted row, shape (R,)."""
        return np.repeat(np.arange(len(self.ids)), self.lengths)

    @property
    def last(self) -> BoolArray:
        """Whether a sorted row is the last of its episode, shape (R,)."""
        last = np.zeros(len(self.gap_after), dtype=np.bool_)
        last[offsets_of(self.lengths)[1:] - 1] = True
        return last


def order_rows(episode: Column | None, step: Column | None, time: Column | None, n_rows: int) -> Order:
    """Sort rows by episode, then by `step` if there is one, else by `time`, else as they stand."""
    steps = None if step is None else _finite(as_floats(step, "step"), "step")
    times = None if time is None else _finite(_as_times(time), "time")
    del step, time
    key = times if steps is None else steps
    codes, ids = _factorise(episode, n_rows, contiguous=key is None)
    del episode  # as large as the codes
    rows, lengths = _sort(codes, key), np.bincount(codes, minlength=len(ids))
    del codes
    order = Order(rows=rows, lengths=lengths, ids=ids, gap_after=np.zeros(n_rows, dtype=np.bool_))
    inside = ~order.last  # rows that are followed by one of their own episode
    if steps is not None:
        apart = _advance(order, steps, "step")
        order = replace(order, gap_after=inside & (apart > apart.min(initial=np.inf, where=inside)))
    if times is None:
        return order
    apart, scale = _advance(order, times, "time"), float(np.abs(times).max())
    return replace(order, dt=_even_or_each(apart, inside & ~order.gap_after, scale))


def _as_times(column: Column) -> FloatArray:
    """Return times as numbers; dates are counted in seconds from the first."""
    array = as_numpy(column)
    if array.dtype.kind == "O" and len(array) and hasattr(array[0], "tzinfo"):
        return _seconds(array)  # times with zones
    if array.dtype.kind == "M":
        return np.asarray((array - array.min()) / np.timedelta64(1, "s"), dtype=np.float64)
    if array.dtype.kind in "iu" and len(array):  # nanoseconds since 1970 are beyond 2^53
        first = array.min()
        check_exact(np.asarray(array - first), "time")
        return np.asarray(array - first, dtype=np.float64)
    return as_floats(column, "time")


def _seconds(times: np.ndarray) -> FloatArray:
    """Return times with zones as seconds from the first; a change of clocks in between is no gap."""
    try:
        return np.array([(time - times[0]).total_seconds() for time in times.tolist()])
    except (TypeError, AttributeError) as error:
        raise TypeError(must_be("time", "times in every row, all with zones or none", f"{error}")) from error


def _even_or_each(dt: FloatArray, valid: BoolArray, scale: float) -> float | FloatArray | None:
    """Return one number when all valid time steps agree, up to the rounding of times as large as `scale`."""
    steps = dt[valid]
    if len(steps) == 0:
        return None
    mean = float(steps.mean())
    rounding = max(DT_TOLERANCE * mean, 4 * np.finfo(np.float64).eps * scale)
    return mean if np.ptp(steps) <= rounding else np.where(valid, dt, mean)


def _finite(values: FloatArray, name: str) -> FloatArray:
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(must_be(name, "finite in every row", f"{values[row]:g} in row {row}"))
    return values


def _factorise(episode: Column | None, n_rows: int, *, contiguous: bool) -> tuple[IntArray, np.ndarray]:
    """Return the position of each row's episode among the sorted ids, and the ids."""
    if episode is None:
        return np.zeros(n_rows, dtype=np.int64), np.array([0])
    labels = check_known(as_numpy(episode), "episode")
    starts = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
    heads = labels[starts]  # rows of one episode mostly stand together: few labels to sort
    ids, codes = number_labels(heads, "episode")
    if contiguous and len(ids) < len(heads):
        again = ids[np.flatnonzero(np.bincount(codes) > 1)[0]]
        rule, got = "the same in consecutive rows only", f"{again} in two places"
        hint = "Pass `step` or `time` to sort by; two episodes may also share an id."
        raise ValueError(must_be("episode", rule, got, hint))
    return np.repeat(codes, np.diff(starts, append=n_rows)), ids


def _sort(codes: IntArray, key: FloatArray | None) -> IntArray | None:
    in_order = codes[1:] > codes[:-1]
    same = codes[1:] == codes[:-1]
    if np.all(in_order | (same if key is None else same & (key[1:] > key[:-1]))):
        return None
    return np.argsort(codes, kind="stable") if key is None else np.lexsort((key, codes))


def _advance(order: Order, values: FloatArray, name: str) -> FloatArray:
    """Return how far each sorted row is from the next (R,), which must be ahead of it in its episode."""
    ordered, apart = order.sorted(values), np.zeros(len(values))
    np.subtract(ordered[1:], ordered[:-1], out=apart[:-1])
    wrong = np.flatnonzero(~order.last & (apart <= 0))
    if len(wrong):
        first = int(wrong[0])
        here, there = ordered[first : first + 2]
        rows = (first, first + 1) if order.rows is None else order.rows[first : first + 2]
        where = f"in episode {order.ids[order.episode[first]]} (table rows {rows[0]} and {rows[1]})"
        got = f"{here:g} twice {where}" if here == there else f"{there:g} after {here:g} {where}"
        hint = "Remove the repeated rows, or tell apart episodes that share an id."
        raise ValueError(must_be(name, "increasing in each episode", got, hint))
    return apart


# A table may hold the final state of an episode as one more row, whose reward is missing, or it may not
# hold it at all. The second cannot be seen from the rows alone, so that the caller says which it is.


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """R rows in n runs of consecutive states, in order.

    Attributes
    ----------
    states : ndarray of shape (R, d)
    lengths : ndarray of int, shape (n,)
        Rows of each run.
    rewards, actions, behavior_probability : ndarray of shape (R,) or (R, a), or None
        Where there is no step, as in a final state's row, their values are not read.
    integer_actions : bool
        Whether the actions are labels, which floats only hold because some are missing.
    dt : float, ndarray of shape (R,), or None
        Time from each row to the next of its run; what it holds on the last row of a run is not read.
    terminated, truncated : ndarray of bool, shape (n,)
    whole : ndarray of bool, shape (n,)
        False where a run stops short of its episode's end, because rows are missing behind it.
    parent : ndarray of int, shape (n,)
        The episode each run belongs to: a position in `ids`.
    ids : ndarray of shape (n_episodes,)
        What the data calls its episodes.
    """

    states: np.ndarray
    lengths: IntArray
    rewards: FloatArray | None
    actions: np.ndarray | None
    dt: float | FloatArray | None
    behavior_probability: FloatArray | None
    terminated: BoolArray
    truncated: BoolArray
    whole: BoolArray
    parent: IntArray
    ids: np.ndarray
    integer_actions: bool = False

    @classmethod
    def of_episodes(cls, states: np.ndarray, lengths: IntArray, terminated: BoolArray, **steps: Any) -> Rows:
        """Return the rows of n whole episodes without names, each of which terminated or was cut off."""
        number = np.arange(len(lengths))
        return cls(
            states=states.astype(np.float64, copy=False), lengths=lengths, terminated=terminated,
            truncated=~terminated, whole=np.ones(len(lengths), dtype=np.bool_), parent=number, ids=number,
            **steps,
        )  # fmt: skip


def close_episodes(rows: Rows, final_states: str | FloatArray, time_limit: Any = None) -> Trajectories:
    """Return the trajectories, given how the data treats final states.

    Parameters
    ----------
    rows : Rows
    final_states : {"recorded", "repeat", "drop"} or ndarray of shape (n, d)
        "recorded": the last row of each run is its final state. "repeat": every row is a step; a terminated
        run ends in its last state once more, another one loses its last step. "drop": every run loses its
        last step, and no run counts as terminated. An array: the final state of each run.
    time_limit : int or None
        Steps after which a run was cut off, whatever is said of it.
    """
    if is_whole(time_limit):
        reached = rows.lengths - (isinstance(final_states, str) and final_states == "recorded") >= time_limit
        rows = replace(rows, terminated=rows.terminated & ~reached, truncated=rows.truncated | reached)
    appended = np.zeros(len(rows.lengths), dtype=np.bool_)
    given = None
    if not isinstance(final_states, str):
        appended, given = rows.whole, final_states
    elif final_states == "repeat":
        appended = rows.terminated
    elif final_states == "drop":
        rows = replace(rows, terminated=appended, truncated=rows.truncated | rows.terminated)
    else:
        _check_final_rewards(rows)
    return _build(rows, appended, given)


def _build(rows: Rows, appended: BoolArray, given: FloatArray | None) -> Trajectories:
    """Put a final state behind the runs `appended`; pieces of a cut episode without a step are left out."""
    n_states = rows.lengths + appended
    keep = n_states >= 2
    _check_has_steps(rows, keep)
    starts = offsets_of(rows.lengths)[:-1]
    row = gather(starts[keep], n_states[keep])
    offsets = offsets_of(n_states[keep])
    final = offsets[1:][appended[keep]] - 1
    row[final] -= 1  # the row behind the run belongs to the next one
    states = rows.states[row]
    if given is not None:
        states[final] = given[keep & appended]
    del row
    step = np.repeat(keep, rows.lengths)  # whether a row is that of a step
    step[offsets_of(rows.lengths)[1:][~appended] - 1] = False
    return Trajectories._from_flat(
        states,
        offsets,
        rewards=None if rows.rewards is None else rows.rewards[step],
        actions=None if rows.actions is None else as_labels(rows.actions[step], integer=rows.integer_actions),
        terminated=rows.terminated[keep],
        truncated=rows.truncated[keep],
        dt=rows.dt[step] if isinstance(rows.dt, np.ndarray) else rows.dt,
        behavior_probability=None if rows.behavior_probability is None else rows.behavior_probability[step],
        parent=rows.parent[keep],
        fresh=True,
    )


def as_labels(actions: np.ndarray, *, integer: bool = False) -> np.ndarray:
    """Return actions that are labels as integers or names; a missing one is left for others to refuse.

    Labels are: names; numbers that were declared as integers; whole numbers, which a table holds as floats as
    soon as one is missing; rows with a single 1 among zeros (one-hot).
    """
    if actions.dtype.kind in "OUT":
        return _names(actions)
    if not np.isfinite(actions).all():
        return actions
    if actions.ndim == 1 and actions.dtype.kind in "iu":
        return check_integers(actions, "actions")
    if integer or actions.dtype.kind in "iu" or (actions.ndim == 1 and _are_labels(actions)):
        return actions.astype(np.int64)
    one_hot = actions.ndim == 2 and actions.shape[1] > 1 and np.isin(actions, (0.0, 1.0)).all()
    return actions.argmax(axis=1) if one_hot and (actions.sum(axis=1) == 1.0).all() else actions


def _are_labels(actions: FloatArray) -> bool:
    """Tell whether floats are the labels of a few actions: small whole numbers, more than one of them."""
    if (actions != np.floor(actions)).any() or actions.min() < 0.0 or actions.max() > MANY:
        return False
    return bool(actions.max() > actions.min())


def _names(actions: np.ndarray) -> np.ndarray:
    for step, name in enumerate(actions.tolist()):
        if not isinstance(name, str):
            raise TypeError(must_be("actions", "a name in every row of a step", f"{name!r} in step {step}"))
    return actions.astype(str)


def _check_has_steps(rows: Rows, keep: BoolArray) -> None:
    uncut = np.bincount(rows.parent)[rows.parent] == 1
    short = np.flatnonzero(~keep & uncut)
    if len(short) or not keep.any():
        got = f"a single state in episode {rows.ids[rows.parent[short[0] if len(short) else 0]]}"
        hint = "Drop them, or say where a step ends its episode: `terminated`."
        hint = f"{len(short)} of {len(rows.ids)} episodes are so short. {hint}" if len(short) else ""
        raise ValueError(must_be("states", "at least 2 states per episode (one step)", got, hint))


def _check_final_rewards(rows: Rows) -> None:
    """Raise if a final state's row has a reward: it is then no final state, and a state is missing."""
    if rows.rewards is None:
        return
    last = offsets_of(rows.lengths)[1:] - 1
    present = np.flatnonzero(np.isfinite(rows.rewards[last]) & rows.whole)
    if len(present):
        first = present[0]
        episode = rows.ids[rows.parent[first]]
        got = f"{rows.rewards[last[first]]:g} in episode {episode} ({len(present)} such)"
        hint = (
            "That row should hold the final state, after which there is no reward. If the table has no final "
            'states, pass final_states="repeat" (right for LSTD, where a terminal state has value 0; not for '
            'PhiBE) or "drop".'
        )
        rule = "missing (NaN or null) in the last row of each episode"
        raise ValueError(must_be("rewards", rule, got, hint))


def flags_of_episodes(flags: FloatArray | None, order: Order, name: str, *, has_final_row: bool) -> BoolArray:
    """Return how each episode ended (n,) from one flag per row (R,), NaN where missing.

    The flag may stand in the row of the last step, in that of the final state, or in all rows of its episode.
    """
    if flags is None:
        return np.zeros(len(order.lengths), dtype=np.bool_)
    offsets = offsets_of(order.lengths)
    last_row = offsets[1:] - 1
    last_step = np.maximum(last_row - has_final_row, offsets[:-1])
    raised = flags == 1.0
    valid = raised | (flags == 0.0)
    valid[last_row] |= has_final_row & np.isnan(flags[last_row])
    if not valid.all():
        row = int(np.flatnonzero(~valid)[0])
        got = f"{flags[row]:g} in episode {order.ids[order.episode[row]]}"
        raise ValueError(must_be(name, "true or false (1 or 0) in every row of a step", got))
    early = raised.copy()
    early[last_row] = early[last_step] = False
    some_early = np.logical_or.reduceat(early, offsets[:-1])
    in_every_row = np.add.reduceat(raised, offsets[:-1], dtype=np.int64) >= order.lengths - has_final_row
    wrong = np.flatnonzero(some_early & ~in_every_row)
    if len(wrong):
        hint = "Rows follow the end of the episode: is `episode` right, or is an id used twice?"
        got = f"one before the last step of episode {order.ids[wrong[0]]}"
        raise ValueError(must_be(name, "set at the end of an episode only", got, hint))
    return np.asarray(raised[last_row] | raised[last_step], dtype=np.bool_)
