"""Trajectories from arrays: flat ones, single steps (s, r, s'), and loops over vector environments.

Every reader ends in `from_flat`, whatever it started from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import bdtrc

from .._core.arrays import as_array
from .._core.entries import check_known, number_labels
from .._core.errors import Message, must_be, renamed
from .._core.thresholds import MIN_EFFECTIVE, NEGLIGIBLE
from .._core.typing import ArrayLike, BoolArray, IntArray
from .._core.validation import as_columns, check_array, check_choice, check_int, check_length, check_text
from ..data._flat import are_names, check_flags, check_states, offsets_of
from ..data.trajectories import Trajectories
from ._columns import no_such_name

GAPS = ("raise", "cut")


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
    return Trajectories._from_flat(**locals())


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
    if isinstance(value, type):
        raise TypeError(must_be(name, rule, f"the class {value.__name__}", "Make an object of it."))


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
        got = f"an earlier one in episode {episode}"
        raise ValueError(must_be(name, "set on the last step only", got, hint))
    return flags[last]


# ---------------------------------------------------------------- how episodes ended
#
# Older logs have one flag, ``done``. An episode that ran into a time limit then looks as if it had ended in a
# state of value 0, which shifts every value. What gives it away is the length: many have the largest.


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
        if not flagged and looks_like_a_limit(data.n_steps, data.terminated):
            raise ValueError(_question(data.n_steps, data.terminated))
        return data
    if isinstance(time_limit, str):
        raise ValueError(must_be("time_limit", 'an int, None or "ask"', repr(time_limit)))
    reached = data.n_steps >= check_int(time_limit, "time_limit")
    return with_fields(data, terminated=data.terminated & ~reached, truncated=data.truncated | reached)


def looks_like_a_limit(n_steps: IntArray, terminated: BoolArray) -> bool:
    """Tell whether more episodes ended after exactly the largest number of steps than by chance.

    1. Count the episodes that ended at the largest length L, and those of the 10 lengths before it.
    2. Lengths without a limit become rarer towards L, so that a given one of these episodes has the length L
       with a probability of at most 1/11. The count at L is then at most Binomial.
    3. A limit is suspected where its upper tail is at most `NEGLIGIBLE`. Lengths up to 10 are not judged.

    Examples
    --------
    >>> ended = np.ones(6, dtype=bool)
    >>> looks_like_a_limit(np.array([31, 57, 100, 100, 100, 12]), ended)
    True
    >>> looks_like_a_limit(np.array([31, 57, 99, 100, 95, 12]), ended)
    False
    """
    longest = int(n_steps.max())
    if longest <= MIN_EFFECTIVE:
        return False
    at_limit = int(np.count_nonzero(terminated & (n_steps == longest)))
    before = int(np.count_nonzero((n_steps < longest) & (n_steps >= longest - MIN_EFFECTIVE)))
    chance = bdtrc(at_limit - 1, at_limit + before, 1 / (MIN_EFFECTIVE + 1))  # P(count >= at_limit)
    return bool(at_limit and chance <= NEGLIGIBLE)


def _question(n_steps: IntArray, terminated: BoolArray) -> Message:
    longest = int(n_steps.max())
    at_limit = int(np.count_nonzero(terminated & (n_steps == longest)))
    got = f"{at_limit} of {len(n_steps)} episodes flagged as ended after exactly {longest} steps"
    hint = (
        f"None is longer. If a time limit cut those off, pass time_limit={longest} (or `truncated`). If "
        "they really ended there, pass time_limit=None."
    )
    return must_be("time_limit", "given", got, hint)


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


def from_transitions(
    states: ArrayLike,
    next_states: ArrayLike,
    rewards: ArrayLike | None = None,
    actions: ArrayLike | None = None,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    *,
    episode: ArrayLike | None = None,
    dt: float | ArrayLike | None = None,
    behavior_probability: ArrayLike | None = None,
    gaps: str = "raise",
    time_limit: int | str | None = "ask",
) -> Trajectories:
    """Return trajectories from rows (s, a, r, s') in order of time.

    Row t + 1 continues row t when row t did not end an episode, both have the same `episode`, and the next
    state of row t is the state of row t + 1.

    Parameters
    ----------
    states, next_states : array of shape (N, d) or (N,)
        The state before and after each step.
    rewards : array of shape (N,), optional
        What each step earned.
    actions : array of shape (N,) or (N, a), optional
        What was done; integers stay integers.
    terminated, truncated : bool, or array of bool of shape (N,), optional
        Whether the step ended its episode: in an absorbing state, or by being cut off. Where trajectories
        with rewards come out in several lengths, `terminated` must be given; False says that none ended.
    episode : array of shape (N,), optional
        The episode of each row, or the environment it was logged in. Where it changes, a trajectory ends.
    dt : float or array of shape (N,), optional
        Time between a state and the next.
    behavior_probability : array of shape (N,), optional
        Probability, in (0, 1], with which each logged action was chosen.
    gaps : {"raise", "cut"}, default="raise"
        What to do where a row starts elsewhere than the row before it ended, and nothing says that an episode
        ended there: stop, or begin a new trajectory and mark the one before as truncated. Rows that are
        independent draws are all gaps, so that ``"cut"`` makes every one its own trajectory.
    time_limit : int, None or "ask", default="ask"
        Steps after which an episode was cut off, whatever `terminated` says of it; None: there was no limit.
        "ask": stop and ask, if there is no `truncated` and many episodes ended after one and the same largest
        number of steps.

    Returns
    -------
    Trajectories

    Examples
    --------
    >>> from_transitions([0.0, 1.0, 5.0], [1.0, 2.0, 6.0], [1.0, 1.0, 9.0], terminated=[False, True, False])
    Trajectories(2 x 1-2 steps, d=1, rewards, 1 terminated)
    """
    check_choice(gaps, "gaps", GAPS)
    here = as_columns(check_states(states, "states", (1, 2)))
    there = as_columns(check_states(next_states, "next_states", (1, 2)))
    if there.shape != here.shape:
        raise ValueError(must_be("next_states", f"of the shape of `states` {here.shape}", there.shape))
    n_rows = len(here)
    ends = check_flags(terminated, "terminated", n_rows), check_flags(truncated, "truncated", n_rows)
    breaks = ends[0] | ends[1] | _changes(episode, n_rows)
    cut = ~breaks  # the last row of all is a break
    cut[:-1] &= (there[:-1] != here[1:]).any(axis=1)
    if cut.any() and gaps == "raise":
        _refuse_gap(here, there, cut)
    if episode is not None and gaps == "raise":
        _refuse_mixed(episode, ends[0] | ends[1])
    last = np.flatnonzero(breaks | cut)  # last row of each trajectory
    rows = here.astype(np.result_type(here, there), copy=False)
    data = Trajectories._from_flat(
        np.insert(rows, last + 1, there[last], axis=0),  # the final state of each behind its last row
        offsets_of(np.diff(last, prepend=-1) + 1),
        rewards=rewards,
        actions=actions,
        terminated=None if terminated is None else ends[0][last],
        truncated=ends[1][last] | cut[last],
        dt=dt,
        behavior_probability=behavior_probability,
        # Pieces up to the next real end come from one episode, and are therefore dependent.
        parent=np.concatenate([[0], np.cumsum(breaks[last])[:-1]]),
    )
    return resolve_time_limit(data, time_limit, flagged=truncated is not None)


def from_vector(
    observations: ArrayLike,
    rewards: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike,
    actions: ArrayLike | None = None,
    *,
    autoreset: str,
    final_observations: ArrayLike | None = None,
    dt: float | None = None,
    behavior_probability: ArrayLike | None = None,
) -> Trajectories:
    """Return the episodes of a loop over a vector environment: arrays of T steps of N copies.

    Parameters
    ----------
    observations : array of shape (T + 1, N, ...)
        What ``reset`` returned, and then each ``step``.
    rewards : array of shape (T, N)
        What each ``step`` paid.
    terminated, truncated : array of bool, shape (T, N)
        Whether the step ended the task, or only the recording of it.
    actions : array of shape (T, N) or (T, N, a), optional
        What was given to each ``step``.
    autoreset : {"next_step", "same_step", "disabled"}
        What the environment does behind the end of an episode, ``env.metadata["autoreset_mode"]``.
        "next_step": the step after the end only resets; it is no step of the task and is left out. The
        others: the observation of the last step is the first of the next episode already.
    final_observations : array of shape (T, N, ...), optional
        For the other two modes: where an episode ended, the observation it ended in (``info["final_obs"]``).
    dt : float, optional
        Time of one step.
    behavior_probability : array of shape (T, N), optional
        Probability with which each action was chosen.

    Returns
    -------
    Trajectories
        One copy after the other. Episodes that the loop cut short are marked as truncated.

    Examples
    --------
    >>> ends = np.array([[False], [True], [False], [False]])
    >>> never = np.zeros_like(ends)
    >>> walk = np.array([[0.0], [1.0], [2.0], [0.0], [1.0]])  # 2 is the end; the next step goes back to 0
    >>> from_vector(walk, np.ones((4, 1)), ends, never, autoreset="next_step").n_steps
    array([2, 1])
    """
    mode = check_choice(autoreset, "autoreset", ("next_step", "same_step", "disabled"))
    seen = as_array(observations, "observations")
    ended, cut = as_array(terminated, "terminated"), as_array(truncated, "truncated")
    if rewards is None:
        raise TypeError(must_be("rewards", "an array of shape (T, N)", None))
    if ended.ndim != 2 or ended.dtype != np.bool_ or cut.dtype != np.bool_ or cut.shape != ended.shape:
        got = f"{ended.dtype} of shape {ended.shape} and {cut.dtype} of shape {cut.shape}"
        raise ValueError(must_be("terminated and truncated", "booleans of shape (T, N)", got))
    if seen.shape[:2] != (len(ended) + 1, ended.shape[1]):
        rule = f"of shape (T + 1, N, ...) = ({len(ended) + 1}, {ended.shape[1]}, ...)"
        raise ValueError(must_be("observations", rule, f"shape {seen.shape}"))
    if not are_names(seen):
        check_array(seen, "observations", ndim=(2, 3, 4, 5))
    done = ended | cut
    following, real = _steps_of_the_task(seen, done, mode, final_observations)
    real_by_copy = real.T.ravel()

    def flat(values: ArrayLike | None, name: str) -> Any:
        if values is None:
            return None
        array = as_array(values, name)
        if array.shape[:2] != done.shape:
            raise ValueError(must_be(name, f"of shape (T, N, ...) = {done.shape}", f"shape {array.shape}"))
        by_copy = array.swapaxes(0, 1).reshape(done.size, -1)[real_by_copy]
        return by_copy[:, 0] if array.ndim == 2 and name != "observations" else by_copy

    with renamed("states", "observations"):
        return from_transitions(
            flat(seen[:-1], "observations"),
            flat(following, "observations"),
            flat(rewards, "rewards"),
            flat(actions, "actions"),
            flat(ended, "terminated"),
            flat(cut, "truncated"),
            episode=np.repeat(np.arange(done.shape[1]), len(done))[real_by_copy],
            dt=dt,
            behavior_probability=flat(behavior_probability, "behavior_probability"),
            time_limit=None,
        )


def _steps_of_the_task(
    seen: np.ndarray, done: BoolArray, mode: str, final_observations: ArrayLike | None
) -> tuple[np.ndarray, BoolArray]:
    """Return the observation that every step led to, and which steps are no mere resets, (T, N) both."""
    following, real = seen[1:].copy(), np.ones(done.shape, dtype=np.bool_)
    if mode == "next_step":
        if final_observations is not None:
            hint = "`observations` hold them."
            rule = f'None with autoreset="{mode}"'
            raise ValueError(must_be("final_observations", rule, type(final_observations).__name__, hint))
        for t in range(1, len(done)):
            real[t] = ~(done[t - 1] & real[t - 1])  # the reset, whose flags mean nothing
    elif done.any():
        if final_observations is None:
            hint = 'They are in info["final_obs"] where info["_final_obs"] is set.'
            raise ValueError(must_be("final_observations", f'given where autoreset="{mode}"', None, hint))
        final = as_array(final_observations, "final_observations")
        if final.shape != following.shape:
            raise ValueError(must_be("final_observations", f"of shape {following.shape}", final.shape))
        following[done] = final[done]
    return following, real


def _changes(episode: ArrayLike | None, n_rows: int) -> BoolArray:
    """Tell of each row whether it is the last of its episode; the last row of all always is."""
    changes = np.zeros(n_rows, dtype=np.bool_)
    changes[-1] = True
    if episode is not None:
        ids = check_known(episode, "episode")
        check_length(len(ids), n_rows, "episode", "states")
        ids = number_labels(ids, "episode")[1] if ids.dtype.kind == "O" else ids
        changes[:-1] = ids[1:] != ids[:-1]
    return changes


def _refuse_gap(here: np.ndarray, there: np.ndarray, cut: BoolArray) -> None:
    row = int(np.flatnonzero(cut)[0])
    got = f"{there[row]} after row {row}, where row {row + 1} starts at {here[row + 1]}"
    hint = (
        f"{int(cut.sum())} of {len(cut)} rows end so without an end being flagged: sort the rows, pass "
        '`episode`, or pass gaps="cut" to begin a new trajectory at each.'
    )
    raise ValueError(must_be("next_states", "the state of the following row", got, hint))


def _refuse_mixed(episode: ArrayLike, ended: BoolArray) -> None:
    """Raise where an episode goes on behind the rows of another one: its rows stand apart."""
    ids, codes = number_labels(episode, "episode")
    last = np.flatnonzero(_changes(codes, len(codes)))
    latest = np.zeros(len(ids), dtype=np.intp)
    latest[codes] = np.arange(len(codes))
    broken = last[~ended[last] & (latest[codes[last]] > last)]
    if len(broken):
        got = f"{ids[codes[broken[0]]]} on both sides of others, which begin in row {broken[0] + 1}"
        hint = 'Sort the rows by episode and time, or pass gaps="cut".'
        raise ValueError(must_be("episode", "the same in consecutive rows, up to a flagged end", got, hint))
