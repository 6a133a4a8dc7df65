"""Which column of a log means what, guessed from names and contents, for people to confirm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from .._core.entries import is_missing
from .._core.errors import must_be
from ._columns import TableView, as_numpy, join_labels, open_table
from ._list_columns import holds_lists
from .tables import ALL, EPISODES, named_rule

# Names as people write them, without case, digits at the end and punctuation; the first that fits wins, for
# roles in this order: a column `visit` counts the steps of a user, or names an episode where `t` counts them.
_NAMES = {
    "step": "step t timestep stepid i turn visit",
    "time": "time timestamp seconds date datetime",
    "episode": "episode episodeid ep run runid traj trajectory trajectoryid rollout session sessionid visit "
    "visitid",
    "rewards": "reward rewards r rew outcome payoff clicked click clicks conversion converted bought revenue",
    "terminated": "terminated terminal terminals done dones isterminal ended end finished",
    "truncated": "truncated truncation timeout timeouts cut cutoff istruncated",
    "actions": "action actions a act arm treatment dose shown decision item itemid offer product productid "
    "ad banner variant recommendation",
    "behavior_probability": "probability prob p propensity propensityscore actionprobability pscore",
    "unit": "user userid patient patientid machine machineid unit subject subjectid customer customerid",
}
# Columns that logs hold beside the state: they label rows or follow from the rest.
_NO_STATE = (
    *("", "index", "unnamed", "row", "seed", "id", "info", "logp", "logprob", "value", "advantage"),
    *("return", "returns", "totalreward", "cumulativereward", "episodereturn", "episodereward"),
    *("episodelength", "rewardtogo", "returntogo", "globalstep", "wall", "walltime", "fps"),
)
_STATE = re.compile(r"^(obs|observation|observations|state|states|s|x)([_.\[ ]?\d+\]?)?$", re.IGNORECASE)
_CHANCE = re.compile(r"^(p|pi|prob|probs|probability|policy|target|new)([_ .]\w+|\d+)$", re.IGNORECASE)
_NEXT = re.compile(r"^next[_ ]?|['′]$|[_ ]next$", re.IGNORECASE)
_OPTIONS = {
    "episode": "--episode", "step": "--step", "time": "--time", "rewards": "--reward",
    "terminated": "--terminated", "truncated": "--truncated", "actions": "--action",
    "behavior_probability": "--probability", "unit": "--unit", "next_states": "--next-state",
    "states": "--state",
}  # fmt: skip
# Words that stand in place of a column.
_RULES = {"terminated": (ALL, "none"), "episode": (*EPISODES, "none")}
_SEVERAL = ("states", "next_states", "actions")
_USUAL = {"rewards": ["reward"], "episode": ["episode"], "terminated": ["terminated"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGuess:
    """What the columns of a log probably mean.

    Attributes
    ----------
    columns : dict of str to list of str
        Columns of every role that was found.
    unused : list of str
        Columns without a role.
    episodes : {"column", "one", "ends", "rows"}
        What an episode is: rows with one label, all rows, rows up to one that is flagged as an end, or every
        row by itself.
    final_states : {"recorded", "repeat"}
        Whether the last row of an episode holds its final state (no reward there), or is a step whose next
        state was not logged.
    all_ended : bool
        Whether every episode counts as ended: no column says how they ended, and all are equally long.
    policy : tuple of str
        Columns that hold the probabilities of a policy, one for each action.
    """

    columns: dict[str, list[str]]
    unused: list[str]
    episodes: str
    final_states: str
    all_ended: bool = False
    policy: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `from_table` that say the same."""
        found: dict[str, Any] = {
            role: names if role in _SEVERAL else names[0]
            for role, names in self.columns.items()
            if role != "unit"
        }
        if len(self.columns.get("episode", ())) > 1:
            found["episode"] = self.columns["episode"]
        found.setdefault("episode", {"one": None}.get(self.episodes, self.episodes))
        found.setdefault("terminated", "all" if self.all_ended else None)
        return found | {"final_states": self.final_states}

    @property
    def options(self) -> list[str]:
        """Options of ``replaystats evaluate`` that say the same."""
        words = []
        for role, names in self.columns.items():
            if names != _USUAL.get(role):
                words += [_OPTIONS[role], ",".join(names)]
        if "episode" not in self.columns:
            words += ["--episode", {"one": "none"}.get(self.episodes, self.episodes)]
        if self.episodes == "rows":  # nothing else is to be said about them
            return words
        if "terminated" not in self.columns:
            words += ["--terminated", "all" if self.all_ended else "none"]
        return words if self.final_states == "recorded" else [*words, "--final-states", self.final_states]


def guess_columns(table: Any, **known: str | list[str]) -> LogGuess:
    """Guess the roles of a log's columns.

    1. Roles that are given are taken as they are.
    2. Other columns are matched by name with usual names of episode, step, reward, ends, action, probability,
       unit. Columns that start with "next" or end with a prime are next states.
    3. Columns named like probabilities, whose rows sum to 1, are those of a policy.
       States are the columns named like states, or else all other columns of numbers except indices, seeds,
       returns and the like; where there are none, columns of text that repeat.
    4. Without a column of episodes: a unit (user, patient) whose rows are in order of time is an episode.
       A label of episodes that several units share tells them apart together with the unit. Rows flagged as
       ends, or steps that start anew, separate episodes. Rows with actions or their probabilities, but
       without steps, ends or next states, are decisions by themselves.
    5. Where the last row of every episode has no reward, it holds the final state; else rows are steps.
    6. Where rows are steps, no column says how episodes ended and all have the same number of steps, they
       ended there: the value is then over that many steps.

    Parameters
    ----------
    table : DataFrame, Arrow table, dict of arrays, or path
        As `from_table` takes it, one row per state or step.
    **known : str or list of str
        Columns of roles that are known: `states`, `rewards`, `actions`, `episode`, `step`, `time`,
        `terminated`, `truncated`, `next_states`, `behavior_probability`, `unit`. Where no column is called
        so, `terminated` may be "all" or "none", and `episode` "ends", "rows" or "none": all rows are one.

    Returns
    -------
    LogGuess

    Examples
    --------
    >>> log = {"run": [0, 0], "t": [0, 1], "x": [0.1, 0.2], "v": [1.0, 0.9], "reward": [1.0, 0.0],
    ...        "done": [False, True]}
    >>> guess_columns(log).options[:6]
    ['--episode', 'run', '--step', 't', '--terminated', 'done']
    >>> guess_columns(log).columns["states"], guess_columns(log).final_states
    (['x', 'v'], 'repeat')
    >>> guess_columns({"age": [30, 40], "offer": ["a", "b"], "clicked": [0, 1]}, actions="offer").episodes
    'rows'
    """
    view = open_table(table)
    if not view.names:
        raise ValueError(must_be("table", "a table with columns", "one without any"))
    if wrong := set(known) - set(_OPTIONS):
        raise TypeError(must_be("known", f"among {', '.join(_OPTIONS)}", ", ".join(sorted(wrong))))
    said = {role: str(names) for role, names in known.items() if is_rule(view, role, names)}
    columns = {role: view.resolve(names, role) for role, names in known.items() if role not in said}
    left = [str(name) for name in view.names if name not in chain(*columns.values())]
    ignored: list[str] = []
    for role, usual in _NAMES.items():
        fits = [name for word in usual.split() for name in left if _bare(name) == word]
        if role == "step":
            fits = [name for name in fits if _kind(view.load([name])[name]) in "iuf"]
        if role in said:  # a column of that name is no state
            ignored += fits
            left = [name for name in left if name not in fits]
        elif fits and role not in columns:
            alike = [name for name in fits if _bare(name) == _bare(fits[0])]
            columns[role] = alike if role == "actions" else fits[:1]
            left = [name for name in left if name not in columns[role]]
    following = [name for name in left if _NEXT.search(name)]
    if following:
        columns.setdefault("next_states", following)
        left = [name for name in left if name not in following]
    if "rewards" not in columns:
        named = f"of {', '.join(map(str, view.names))}"
        raise ValueError(must_be("rewards", "a column of the table", f"none {named}", "Name it."))
    loaded = view.load(list(dict.fromkeys([*left, *chain(*columns.values())])))
    policy = _policy(left, loaded)
    if "states" not in columns:
        columns["states"] = _states([name for name in left if name not in policy], loaded, view)
    _join_units(columns, {*known, *said}, loaded)
    episodes = _episodes(columns, loaded) if "episode" not in said else said["episode"].replace("none", "one")
    recorded, ended = (False, False) if episodes == "rows" else _how_they_end(columns, loaded)
    return LogGuess(
        columns={role: columns[role] for role in _OPTIONS if role in columns},
        unused=[name for name in (*left, *ignored) if name not in (*columns["states"], *policy)],
        episodes=episodes,
        final_states="recorded" if recorded else "repeat",
        all_ended=said["terminated"] == ALL if "terminated" in said else ended,
        policy=policy,
    )


def _join_units(columns: dict[str, list[str]], known: set[str], loaded: dict[str, Any]) -> None:
    """Let a unit be an episode where none is named, or tell labels of episodes apart that units share."""
    if "episode" not in {*columns, *known} and "unit" in columns and {"step", "time"} & set(columns):
        columns["episode"] = columns["unit"]
    if columns.get("episode") == columns.get("unit"):
        columns.pop("unit", None)
    elif "unit" in columns and "episode" in columns and "episode" not in known:
        both = [*columns["unit"], *columns["episode"]]
        if _count(loaded, both) > _count(loaded, columns["episode"]):  # a label counts for one unit only
            columns["episode"] = both


def is_rule(view: TableView, role: str, given: Any) -> bool:
    """Tell whether what was given for a role is a word like "all" in place of a column."""
    return named_rule(view, given, _RULES.get(role, ())) is not None


def _bare(name: str) -> str:
    return re.sub(r"[\W_]|\d+$", "", name.lower())


def _states(left: list[str], loaded: dict[str, Any], view: TableView) -> list[str]:
    """Return the columns of the state: by their names, else numbers, else texts that repeat."""
    named = [name for name in left if _STATE.match(name)]
    others = [name for name in left if _bare(name) not in _NO_STATE]
    numbers = [name for name in others if holds_lists(loaded[name]) or _kind(loaded[name]) in "iufb"]
    if named and (len(named) > 1 or not numbers):
        return named
    texts = [name for name in others if _kind(loaded[name]) in "OUT" and _repeats(loaded[name])]
    if not (numbers or texts):
        rule = "a table with columns of the state"
        raise ValueError(must_be("table", rule, ", ".join(map(str, view.names)), "Name them with --state."))
    return numbers or texts


def _policy(left: list[str], loaded: dict[str, Any]) -> tuple[str, ...]:
    """Return the columns named like probabilities whose known rows are at least 0 and sum to 1."""
    names = [name for name in left if _CHANCE.match(name) and _kind(loaded[name]) in "iuf"]
    chances = np.array([as_numpy(loaded[name]).astype(np.float64) for name in names])
    known = chances[:, np.isfinite(chances).all(axis=0)] if len(names) > 1 else np.empty((0, 0))
    sums_to_one = known.size and known.min() >= 0.0 and np.allclose(known.sum(axis=0), 1.0)
    return tuple(names) if sums_to_one else ()


def _kind(column: Any) -> str:
    return as_numpy(column).dtype.kind


def _repeats(column: Any) -> bool:
    values = as_numpy(column).tolist()
    return len(set(map(str, values))) < len(values)


def _count(loaded: dict[str, Any], names: list[str]) -> int:
    return len(np.unique(join_labels({name: loaded[name] for name in names})))


def _episodes(columns: dict[str, list[str]], loaded: dict[str, Any]) -> str:
    """Return what an episode is; see `LogGuess.episodes`."""
    if "episode" in columns:
        return "column"
    if holds_lists(loaded[columns["rewards"][0]]):
        return "one"  # of the rows: lists are whole episodes
    for name in columns.get("step", []):
        steps = as_numpy(loaded[name])
        if steps.dtype.kind in "iuf" and np.any(np.diff(steps) <= 0):
            return "ends"
    if {"terminated", "truncated"} & set(columns) and "next_states" not in columns:
        return "ends"
    decided = {"actions", "behavior_probability"} & set(columns)
    if decided and not {"next_states", "step", "time"} & set(columns):
        return "rows"
    return "one"


def _how_they_end(columns: dict[str, list[str]], loaded: dict[str, Any]) -> tuple[bool, bool]:
    """Tell whether last rows hold final states, which have no reward, and whether all episodes ended there.

    The second is so where nothing is said of ends, and several episodes have as many rows, above one.
    """
    rewards, follows = loaded[columns["rewards"][0]], "next_states" in columns
    if holds_lists(rewards):
        states, paid = (as_numpy(loaded[columns[role][0]][:1])[0] for role in ("states", "rewards"))
        return follows or len(states) > len(paid) or bool(is_missing(np.asarray(paid))[-1]), False
    missing = is_missing(as_numpy(rewards))
    if "episode" not in columns:
        return follows or bool(missing[-1:].any()), False
    labels = join_labels({name: loaded[name] for name in columns["episode"]})
    _, place, n_rows = np.unique(labels, return_inverse=True, return_counts=True)
    recorded = follows or bool((np.bincount(place, weights=missing) > 0).all())
    even = len(n_rows) > 1 and n_rows[0] > 1 and bool(np.ptp(n_rows) == 0)
    return recorded, even and not recorded and not {"terminated", "truncated"} & set(columns)
