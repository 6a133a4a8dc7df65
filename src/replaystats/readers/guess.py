"""Which column of a log means what, guessed from names and contents, for people to confirm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import must_be
from ._columns import open_table

# Names as people write them, without case, digits at the end and punctuation; the first that fits wins.
_NAMES = {
    "episode": (
        "episode",
        "episodeid",
        "ep",
        "run",
        "runid",
        "traj",
        "trajectory",
        "trajectoryid",
        "rollout",
    ),
    "step": ("step", "t", "timestep", "stepid", "i"),
    "time": ("time", "timestamp", "seconds", "date", "datetime"),
    "rewards": ("reward", "rewards", "r", "rew"),
    "terminated": ("terminated", "terminal", "terminals", "done", "dones", "isterminal"),
    "truncated": ("truncated", "truncation", "timeout", "timeouts", "cut", "cutoff", "istruncated"),
    "actions": ("action", "actions", "a", "act"),
    "behavior_probability": ("probability", "prob", "p", "propensity", "actionprobability", "pscore"),
    "unit": (
        "user",
        "userid",
        "patient",
        "patientid",
        "machine",
        "machineid",
        "unit",
        "subject",
        "subjectid",
    ),
}
# Numbers that logs hold beside the state: they label rows or follow from the rest.
_NO_STATE = (
    *("", "index", "unnamed", "row", "seed", "id", "info", "logp", "logprob", "value", "advantage"),
    *("return", "returns", "totalreward", "cumulativereward", "episodereturn", "episodereward"),
    *("episodelength", "rewardtogo", "returntogo", "globalstep", "wall", "walltime", "fps"),
)
_STATE = re.compile(r"^(obs|observation|observations|state|states|s|x)([_.\[ ]?\d+\]?)?$", re.IGNORECASE)
_NEXT = re.compile(r"^next[_ ]?|['′]$|[_ ]next$", re.IGNORECASE)
_OPTIONS = {
    "states": "--state", "next_states": "--next-state", "rewards": "--reward", "episode": "--episode",
    "step": "--step", "time": "--time", "terminated": "--terminated", "truncated": "--truncated",
    "actions": "--action", "behavior_probability": "--probability", "unit": "--unit",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGuess:
    """What the columns of a log probably mean.

    Attributes
    ----------
    columns : dict of str to list of str
        Columns of every role that was found.
    unused : list of str
        Columns without a role.
    final_states : {"recorded", "repeat"}
        Whether the last row of an episode holds its final state (no reward there), or is a step whose next
        state was not logged.
    """

    columns: dict[str, list[str]]
    unused: list[str]
    final_states: str

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `from_table` that say the same."""
        several = ("states", "next_states", "actions")
        found: dict[str, Any] = {
            role: names if role in several else names[0]
            for role, names in self.columns.items()
            if role != "unit"
        }
        found.setdefault("episode", None)
        found.setdefault("terminated", None)
        return found | {"final_states": self.final_states}

    @property
    def options(self) -> list[str]:
        """Options of ``replaystats evaluate`` that say the same."""
        words = []
        for role, names in self.columns.items():
            words += [_OPTIONS[role], ",".join(names)]
        for role in ("episode", "terminated"):
            if role not in self.columns:
                words += [_OPTIONS[role], "none"]
        return words if self.final_states == "recorded" else [*words, "--final-states", self.final_states]


def guess_columns(table: Any) -> LogGuess:
    """Guess the roles of a log's columns.

    1. Columns are matched by name with usual names of episode, step, reward, ends, action, probability, unit.
    2. Columns that start with "next" or end with a prime are next states.
    3. States are the columns named like states, or else all other columns of numbers except indices, seeds,
       returns and the like.
    4. Where the last row of every episode has no reward, it holds the final state; else rows are steps.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of arrays, or path
        As `from_table` takes it, one row per state or step.

    Returns
    -------
    LogGuess

    Examples
    --------
    >>> log = {"run": [0, 0], "t": [0, 1], "x": [0.1, 0.2], "v": [1.0, 0.9], "reward": [1.0, 0.0],
    ...        "done": [False, True]}
    >>> guess_columns(log).options[:6]
    ['--episode', 'run', '--step', 't', '--reward', 'reward']
    >>> guess_columns(log).columns["states"], guess_columns(log).final_states
    (['x', 'v'], 'repeat')
    """
    view = open_table(table)
    left = [str(name) for name in view.names]
    columns: dict[str, list[str]] = {}
    for role, usual in _NAMES.items():
        fits = [name for name in left if _bare(name) in usual]
        if fits:
            columns[role] = fits if role == "actions" else fits[:1]
            left = [name for name in left if name not in columns[role]]
    following = [name for name in left if _NEXT.search(name)]
    left = [name for name in left if name not in following]
    named = [name for name in left if _STATE.match(name)]
    loaded = view.load(
        [*left, *(name for role in ("rewards", "episode", "step") for name in columns.get(role, []))]
    )
    # A column of text is a state only if it is named like one.
    numbers = [
        name
        for name in left
        if np.asarray(loaded[name]).dtype.kind in "iufb" and _bare(name) not in _NO_STATE
    ]
    states = named if len(named) > 1 or not numbers else numbers
    if not states:
        rule = "a table with columns of the state"
        raise ValueError(must_be("table", rule, ", ".join(map(str, view.names)), "Name them with --state."))
    if "episode" not in columns and not following:
        _check_one_episode(loaded, columns)
    columns = {**columns, "states": states}
    if following:
        columns["next_states"] = following
    return LogGuess(
        columns=columns,
        unused=[name for name in left if name not in states],
        final_states="recorded" if following or _last_rows_have_no_reward(loaded, columns) else "repeat",
    )


def _bare(name: str) -> str:
    return re.sub(r"[\W_]|\d+$", "", name.lower())


def _check_one_episode(loaded: dict[str, Any], columns: dict[str, list[str]]) -> None:
    """Refuse a log without a column of episodes whose steps start anew."""
    for name in columns.get("step", []):
        steps = np.asarray(loaded[name])
        if steps.dtype.kind in "iuf" and np.any(np.diff(steps) <= 0):
            hint = f'With pandas: log["episode"] = (log["{name}"].diff() <= 0).cumsum().'
            got = f'none, and "{name}" starts anew'
            raise ValueError(must_be("episode", "a column that tells episodes apart", got, hint))


def _last_rows_have_no_reward(loaded: dict[str, Any], columns: dict[str, list[str]]) -> bool:
    if "rewards" not in columns:
        return True
    rewards = np.asarray(loaded[columns["rewards"][0]], dtype=object)
    missing = np.array([value is None or value != value for value in rewards])  # NaN differs from itself
    if "episode" not in columns:
        return bool(missing[-1:].any())
    episodes = np.asarray(loaded[columns["episode"][0]]).astype(str)
    _, place = np.unique(episodes, return_inverse=True)
    return bool((np.bincount(place, weights=missing) > 0).all())
