"""Trajectories from tables: one row per state, one row per step (s, r, s'), or one row per episode."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._core.config import track
from .._core.entries import as_flags
from .._core.errors import must_be
from .._core.typing import BoolArray, FloatArray
from .._core.validation import check_choice, check_exact, check_path, check_real
from ..data.trajectories import Trajectories
from ._columns import (
    Column,
    TableView,
    as_floats,
    as_labels_or_numbers,
    as_states,
    check_states,
    is_integer,
    join_labels,
    open_table,
)
from ._list_columns import holds_lists, spread_episodes, spread_vectors
from ._rows import FINAL_STATES, Order, Rows, as_labels, close_episodes, flags_of_episodes, order_rows
from .flat import GAPS, from_transitions, resolve_time_limit, with_fields

Names = str | Sequence[str]
EPISODES = ("ends", "rows")
ALL = "all"
_HINTS = {
    "rewards": "If the log has none, pass rewards=None.",
    "episode": "If all rows are one episode, pass episode=None.",
    "terminated": "If no episode ends in an absorbing state, pass terminated=None.",
}


def from_table(
    table: Any,
    *,
    states: Names,
    rewards: str | None = "reward",
    episode: Names | None = "episode",
    step: str | None = None,
    time: str | None = None,
    actions: Names | None = None,
    terminated: str | None = "terminated",
    truncated: str | None = None,
    next_states: Names | None = None,
    dt: float | None = None,
    behavior_probability: str | None = None,
    final_states: str = "recorded",
    gaps: str = "raise",
    time_limit: int | str | None = "ask",
) -> Trajectories:
    """Return trajectories from a table with one row per state, per step, or per episode.

    *One row per state* is the usual log: L + 1 rows for an episode of L steps, the last of which holds the
    final state and has no reward (NaN or null). *One row per step* has the next state in columns of its own
    (`next_states`). *One row per episode* has lists in its columns; that is seen from the columns.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of arrays, or path
        pandas, polars (a LazyFrame is collected for the columns needed), pyarrow, a Hugging Face ``Dataset``,
        or the path of a Parquet, CSV or JSON lines file. A path with ``*``, or a folder of such files, stands
        for all of them in the order of their names; each holds whole episodes, whose ids count in that file
        only.
    states : str or list of str
        Columns of the state. A ``*`` stands for anything: ``"obs_*"`` takes all that match, in their order.
        Names (text that is no number) are taken as they are, for `basis.Tabular`, and so are whole numbers
        beside them. A column may hold one vector per row, for states as for actions.
    rewards : str or None, default="reward"
        Column of the reward of the step that starts in the row's state.
    episode : str, list of str or None, default="episode"
        Column that tells episodes apart, or several that do so together, such as ["user", "visit"]. None: all
        rows are one episode. Where no column has that name, "ends": a new episode
        begins behind a row that is flagged as the end of one, or where `step` does not increase. "rows":
        every row is an episode of one step, such as a visitor who is shown one page.
    step, time : str, optional
        Columns to sort by inside an episode. Steps must be evenly spaced. Times (numbers, or dates that are
        then counted in seconds) also give `dt`. With neither, the rows are taken in order.
    actions : str or list of str, optional
        Columns of the action. Integers, and whole numbers that are floats only because one is missing, are
        labels; so are names, and several columns that are one-hot.
    terminated : str or None, default="terminated"
        Column that says whether the episode ended in an absorbing state, whose value is 0: set in the row of
        the last step, in that of the final state, or in all rows of the episode. None: no episode did. Where
        no column has that name, "all": every episode did.
    truncated : str, optional
        Column that says, in the same way, whether the episode was cut off.
    next_states : str or list of str, optional
        Columns of the next state, in tables with one row per step.
    dt : float, optional
        Time of one step, if there is no `time`.
    behavior_probability : str, optional
        Column of the probability, in (0, 1], with which the row's action was chosen.
    final_states : {"recorded", "repeat", "drop"}, default="recorded"
        For tables with one row per state. "recorded": the last row of an episode is its final state. The two
        others are for logs without it. "repeat": a terminated episode ends in its last state once more, which
        LSTD never looks at, because the value there is 0, but PhiBE would; others lose their last step.
        "drop": all episodes lose their last step and none counts as terminated, which biases the value if
        the end carries reward.
    gaps : {"raise", "cut"}, default="raise"
        What to do where a step is missing: stop, or begin a new trajectory behind the gap.
    time_limit : int, None or "ask", default="ask"
        Steps after which an episode was cut off, whatever `terminated` says of it; None: there was no limit.
        "ask": stop and ask, if there is no `truncated` and many episodes ended after one and the same largest
        number of steps. One column ``done`` for both is common in older logs.

    Returns
    -------
    Trajectories
        In the order of the episode ids. Pieces of a cut episode share their `parent`.

    Examples
    --------
    >>> table = {
    ...     "episode": [7, 7, 7, 9, 9],
    ...     "x": [0.0, 0.5, 1.0, 0.0, 0.25],
    ...     "reward": [1.0, 1.0, None, 1.0, None],
    ...     "terminated": [False, True, None, False, None],
    ... }
    >>> from_table(table, states="x")
    Trajectories(2 x 1-2 steps, d=1, rewards, 1 terminated)
    """
    if isinstance(table, (str, Path)) and len(files := files_of(table)) > 1:
        options = {name: value for name, value in locals().items() if name not in ("table", "files")}
        read = track(files, total=len(files), description="Reading files")
        data = Trajectories.concatenate([from_table(file, **options) for file in read])
        # One file alone may not tell labels from quantities: there, an action may be always the same.
        return data if data.actions is None else with_fields(data, actions=as_labels(data.actions))
    check_choice(final_states, "final_states", FINAL_STATES)
    check_choice(gaps, "gaps", GAPS)
    if dt is not None:
        check_real(dt, "dt", low=0.0, closed="right")
    if dt is not None and time is not None:
        raise ValueError(must_be("dt", "None when `time` is given", dt, "The times give it."))
    view = open_table(files[0] if isinstance(table, (str, Path)) else table)
    kind = named_rule(view, episode, EPISODES)
    if kind is not None:
        episode = None
    all_ended = named_rule(view, terminated, (ALL,)) is not None
    if all_ended:
        terminated = None
    if kind == "rows":
        final_states, terminated, truncated = "repeat", None, None
    named = {
        "states": states, "rewards": rewards, "episode": episode, "step": step, "time": time,
        "actions": actions, "terminated": terminated, "truncated": truncated, "next_states": next_states,
        "behavior_probability": behavior_probability,
    }  # fmt: skip
    wanted = _of_one_meaning({role: resolve_role(view, role, names) for role, names in named.items()})
    for role, given in (("actions", actions), ("next_states", next_states)):
        if given is not None and not wanted[role]:
            raise ValueError(must_be(role, "names of columns, or None", "no name"))
    loaded = view.load(list(dict.fromkeys(name for names in wanted.values() for name in names)))
    columns = _Columns({role: {name: loaded[name] for name in names} for role, names in wanted.items()})
    del loaded
    if columns.n_rows == 0:
        raise ValueError(must_be("table", "a table with rows and at least one state column", "an empty one"))
    columns = _Columns(spread_vectors(columns.by_role))
    if len(labels := columns.by_role["episode"]) > 1:
        columns.by_role["episode"] = {"episode": join_labels(labels)}
    if kind is not None and next_states is None:
        columns = columns.with_episodes(kind, final_states)
    if all_ended:
        columns.by_role["terminated"] = {ALL: np.ones(columns.n_rows, dtype=np.bool_)}
    lists = holds_lists(columns.first("states"))
    if next_states is not None and not lists:
        data = _from_step_rows(columns, dt, gaps)
    else:
        columns, order = _spread(columns) if lists else (columns, columns.order())
        data = _from_state_rows(columns, order, dt, final_states, gaps, time_limit)
    return resolve_time_limit(data, time_limit, flagged=truncated is not None)


def _of_one_meaning(wanted: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the columns of every role; none is rewards, ends or probabilities at the same time."""
    once: dict[str, str] = {}
    for role in ("rewards", "terminated", "behavior_probability"):
        for name in wanted[role]:
            if once.setdefault(name, role) != role:
                rule = f"another column than `{once[name]}`"
                raise ValueError(must_be(role, rule, f'"{name}" for both', "Pass None if there is none."))
    return wanted


def resolve_role(view: TableView, role: str, names: Names | None) -> list[str]:
    """Return the columns of a table that were named for a role."""
    return view.resolve(names, role, _HINTS.get(role, ""))


def named_rule(view: TableView, given: Any, rules: tuple[str, ...]) -> str | None:
    """Return the rule that stands in place of a column, unless a column has its name."""
    return given if isinstance(given, str) and given in rules and given not in view.names else None


def files_of(table: str | Path) -> list[Path]:
    """Return the files that fit a pattern or lie in a folder, sorted by name; a folder of Parquet is one."""
    path, files = check_path(table, "table", kind="file or folder"), []
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if set(file.suffixes) & {".csv", ".jsonl", ".ndjson"})
        if files and (others := sorted(path.glob("*.parquet"))):
            got = f'"{files[0].name}" and "{others[0].name}"'
            raise ValueError(must_be("table", "a folder of files of one kind", got))
    elif not path.exists() and glob.has_magic(str(table)):
        files = sorted(Path(name) for name in glob.glob(str(table), recursive=True))
        if not files:
            raise FileNotFoundError(must_be("table", "a pattern that some file fits", f'"{table}"'))
    return files or [path]


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of the table by what they mean; each is let go of once it is converted."""

    by_role: dict[str, dict[str, Column]]

    def first(self, role: str) -> Column | None:
        return next(iter(self.by_role[role].values()), None)

    def taken(self, role: str) -> dict[str, Column]:
        """Return the columns of a role for the last time."""
        return self.by_role.pop(role)

    def with_episodes(self, kind: str, final_states: str) -> _Columns:
        """Return the columns with labels of episodes, and with ends where every row is one."""
        if kind == "rows":
            ends = {"terminated": {"terminated": np.ones(self.n_rows, dtype=np.bool_)}, "truncated": {}}
            labels = np.arange(self.n_rows)
            return _Columns({**self.by_role, **ends, "episode": {"episode": labels}})
        rewards = self.floats("rewards") if final_states == "recorded" else None
        final = np.zeros(self.n_rows, dtype=np.bool_) if rewards is None else np.isnan(rewards)
        behind = final[:-1].copy()
        for role in ("terminated", "truncated"):
            flags = self.floats(role)
            behind |= False if flags is None else (flags[:-1] == 1.0) & ~final[1:]
        step = self.floats("step")
        behind |= False if step is None else np.diff(step) <= 0
        labels = np.concatenate([[0], np.cumsum(behind)])
        return _Columns({**self.by_role, "episode": {"episode": labels}})

    def floats(self, role: str) -> FloatArray | None:
        for name, column in self.by_role[role].items():
            return as_floats(column, f'{role}: "{name}"')
        return None

    def matrix(self, role: str, order: Order) -> np.ndarray:
        """Return the columns side by side (R, d); a value that is missing is named by column and row."""
        columns = self.taken(role)
        return check_states(order.sorted(as_states(columns, role)), list(columns), role, order.rows)

    @property
    def n_rows(self) -> int:
        return next((len(column) for column in self.by_role["states"].values()), 0)

    def order(self) -> Order:
        """Return the rows in order of episode and time."""
        n_rows = self.n_rows
        keys = [next(iter(self.taken(role).values()), None) for role in ("time", "step", "episode")]
        return order_rows(keys.pop(), keys.pop(), keys.pop(), n_rows)

    def sorted_floats(self, role: str, order: Order) -> FloatArray | None:
        values = self.floats(role)
        del self.by_role[role]
        return None if values is None else order.sorted(values)

    def sorted_actions(self, order: Order) -> np.ndarray | None:
        parts = {
            name: order.sorted(as_labels_or_numbers(column, f'actions: "{name}"'))
            for name, column in self.taken("actions").items()
        }
        if len(parts) <= 1:
            return next(iter(parts.values()), None)
        for name, part in parts.items():
            check_exact(part, f'actions: "{name}"')
        return np.stack(list(parts.values()), axis=1)

    @property
    def integer_actions(self) -> bool:
        return all(is_integer(column) for column in self.by_role["actions"].values())


def _spread(columns: _Columns) -> tuple[_Columns, Order]:
    """Return lists as one row per state, in the order of the table."""
    spread, ids = spread_episodes(columns.by_role)
    rows = _Columns(spread)
    order = rows.order()
    if order.rows is not None:
        row = order.episode[np.argmax(order.rows != np.arange(len(order.rows)))]
        raise ValueError(must_be("time", "increasing in each list", f"a list that is not, in row {row}"))
    return rows, replace(order, ids=ids)


def _from_state_rows(
    columns: _Columns, order: Order, dt: float | None, final_states: str, gaps: str, time_limit: Any
) -> Trajectories:
    """One row per state: rows become runs of consecutive states, one per episode unless steps are missing."""
    integer_actions = columns.integer_actions
    if gaps == "raise" and order.gap_after.any():
        at = int(np.flatnonzero(order.gap_after)[0])
        row = at if order.rows is None else order.rows[at]
        got = f"none behind table row {row} in episode {order.ids[order.episode[at]]}"
        hint = (
            f"{int(order.gap_after.sum())} such: add the missing rows, or pass "
            'gaps="cut" to begin a new trajectory behind each gap.'
        )
        raise ValueError(must_be("step", "followed by the next one until the episode ends", got, hint))
    ends = {
        role: flags_of_episodes(
            columns.sorted_floats(role, order), order, role, has_final_row=final_states == "recorded"
        )
        for role in ("terminated", "truncated")
    }
    last = np.flatnonzero(order.last | order.gap_after)  # of each run
    whole = order.last[last]
    parent = order.episode[last]
    rows = Rows(
        states=columns.matrix("states", order),
        lengths=np.diff(last, prepend=-1),
        rewards=columns.sorted_floats("rewards", order),
        actions=columns.sorted_actions(order),
        integer_actions=integer_actions,
        dt=order.dt if dt is None else dt,
        terminated=ends["terminated"][parent] & whole,
        truncated=ends["truncated"][parent] | ~whole,
        whole=whole,
        parent=parent,
        ids=order.ids,
        behavior_probability=columns.sorted_floats("behavior_probability", order),
    )
    return close_episodes(rows, final_states, time_limit)


def _from_step_rows(columns: _Columns, dt: float | None, gaps: str) -> Trajectories:
    """One row per step: the next state says where a trajectory goes on."""
    named, integer_actions = columns.first("episode") is not None, columns.integer_actions
    order = columns.order()
    if isinstance(order.dt, np.ndarray):
        hint = "The time of an episode's last step is not in the table; pass `dt`, or one row per state."
        rule = "evenly spaced in tables with one row per step"
        raise ValueError(must_be("time", rule, "uneven times", hint))
    actions = columns.sorted_actions(order)
    return from_transitions(
        columns.matrix("states", order),
        columns.matrix("next_states", order),
        columns.sorted_floats("rewards", order),
        None if actions is None else as_labels(actions, integer=integer_actions),
        *(_flags_of_steps(columns, role, order, named) for role in ("terminated", "truncated")),
        episode=order.episode,
        dt=order.dt if dt is None else dt,
        behavior_probability=columns.sorted_floats("behavior_probability", order),
        gaps=gaps,
        time_limit=None,  # asked by the caller
    )


def _flags_of_steps(columns: _Columns, role: str, order: Order, named: bool) -> BoolArray:
    """Return one flag per row; where episodes are `named`, only their last row may carry one."""
    flags = columns.sorted_floats(role, order)
    if not named and flags is not None:
        return as_flags(flags, role)
    ended = flags_of_episodes(flags, order, role, has_final_row=False)
    return order.last & np.repeat(ended, order.lengths)
