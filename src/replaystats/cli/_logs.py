"""Files of logged episodes by the columns that the user named, policies in words, and states to ask about."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import must_be, renamed, require_extra
from .._core.typing import ArrayLike, FloatArray
from .._core.user_code import containing, find_object
from .._core.validation import check_choice
from ..data import Trajectories
from ..data._flat import holds_names
from ..data.storage import METADATA_KEY
from ..readers import from_table, read_npz
from ..readers._columns import Column, TableView, as_floats, as_numpy, as_states, check_states, open_table
from ..readers._rows import FINAL_STATES
from ..readers.files import open_npz
from ..readers.flat import GAPS
from ..readers.tables import ALL, EPISODES, files_of, named_rule, resolve_role
from .console import ExitCode, about, refusing, together

# Layout: quantiles of a single variable, and how many visited states stand for several.
QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
# Layout: visited states that are listed.
N_SAMPLED = 8
_FUNCTION = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
_TABLES = (".csv", ".parquet", ".pq")
_FORMS = (
    "Columns of the log, one per action (p_left,p_right); a table of states and probabilities "
    "(policy.csv); greedy:q_table.csv; module:function; or column:NAME, its probability of the logged action."
)
# Roles that are no columns.
RULES = ("final_states", "gaps", "time_limit", "dt")
# Values of options that are not given.
_USUAL = {
    "rewards": "reward", "episode": "episode", "terminated": "terminated", "time_limit": "ask",
    "final_states": "recorded", "gaps": "raise",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Log:
    """What was read: episodes, the names of the state's variables, units, and policies by name."""

    data: Trajectories
    names: tuple[str, ...]
    units: np.ndarray | None
    policies: dict[str, Any]

    @property
    def policy(self) -> Any:
        """The policy that is evaluated; None is that of the log."""
        return self.policies.get("policy")


@dataclass(frozen=True, kw_only=True)
class LogSource:
    """A file of logged episodes and what its columns mean, as given.

    Attributes
    ----------
    path : Path
    table : dict
        Keyword arguments of `readers.from_table`.
    unit : str or None
        Column of units.
    policies : dict
        Policies as the user wrote them, by name; None or "log" is the one that made the log.
    """

    path: Path
    table: dict[str, Any]
    unit: str | None
    policies: Mapping[str, str | None]

    @property
    def others(self) -> dict[str, str]:
        """Policies other than that of the log, by name."""
        return {name: text for name, text in self.policies.items() if text not in (None, "log")}

    @cached_property
    def header(self) -> tuple[str, TableView | None]:
        """What kind of file it is: "arrays", "ours" (which says itself what it holds) or "table"."""
        if self.path.suffix.lower() == ".npz":
            with open_npz(self.path) as arrays:
                return "arrays", TableView(list(arrays.files), lambda _: {})
        parquet_file = self.path.is_file() and self.path.suffix.lower() in (".parquet", ".pq")
        if not self.table["states"] and parquet_file:
            parquet = require_extra("pyarrow.parquet", extra="io", purpose="Reading Parquet")
            if METADATA_KEY in (parquet.read_schema(self.path).metadata or {}):
                return "ours", None
        return "table", open_table(files_of(self.path)[0])

    @property
    def given(self) -> dict[str, Any]:
        """What was said of the columns; arrays have the library's names unless others were given."""
        if self.header[0] != "arrays":
            return self.table
        usual = "rewards" if self.table["rewards"] == "reward" else self.table["rewards"]
        return self.table | {"episode": None, "states": self.table["states"] or ["states"], "rewards": usual}

    def read(self, option: str = "states", **changed: Any) -> Trajectories:
        """Return the episodes, with other columns in some roles; refusals of states speak of `option`."""
        kind, table = self.header[0], self.given | changed
        if kind == "ours":
            return Trajectories.from_parquet(self.path)
        if kind == "table":
            with renamed("states", option):
                return from_table(self.path, **table)
        with open_npz(self.path) as arrays:
            whole = "offsets" in arrays.files and table["next_states"] is None
        for role in ("states", "actions", "next_states"):
            table[role] = table[role][0] if table[role] else None
        for role in ("episode", "step", "time", "final_states"):
            del table[role]
        return read_npz(self.path, **table, offsets="offsets" if whole else None)

    def per_step(self, name: str) -> FloatArray | None:
        """Return a column of every step (N,), sorted and cut as rewards are."""
        return self.read(rewards=name, behavior_probability=None).rewards

    def log(self) -> Log:
        """Return the episodes, the names of the state's variables, units and policies.

        Names were looked at by `check`; what the rows hold is a matter of data.
        """
        with refusing(ExitCode.DATA, self.path, "DATA"):
            data, view = self.read(), self.header[1]
            units = None if self.unit is None else self._units(self.unit)
            variables = ["s"]
            if view is not None and not (self.header[0] == "arrays" and self.given["states"] == ["states"]):
                variables = view.resolve(self.given["states"], "states")
            if len(variables) != data.dimension:  # one column of vectors
                variables = [f"{variables[0]}{i}" for i in range(data.dimension)]
            names, of_names = tuple(variables), holds_names(data.states)
            policies: dict[str, Any] = dict.fromkeys(self.policies)
            for name, text in self.others.items():
                if (column := logged_column(text)) is not None:
                    policies[name] = self.per_step(column)
                elif own := policy_columns(text):
                    policies[name] = self._policy_beside(own, data)
                else:
                    with refusing(ExitCode.USAGE, Path(text.removeprefix("greedy:"))):
                        labels = data.action_labels
                        policies[name] = read_policy(text, names, "--policy", labels, of_names=of_names)
        return Log(data=data, names=names, units=units, policies=policies)

    def _units(self, name: str) -> np.ndarray:
        """Return the unit of every episode."""
        found = self.read("--unit", states=[name], next_states=[name] if self.table["next_states"] else None)
        units = np.asarray(found.states[found.offsets[:-1], 0])
        mixed = np.flatnonzero(found.states[:, 0] != np.repeat(units, np.diff(found.offsets)))
        if len(mixed):
            got = f'"{name}", which changes within one: {found.states[mixed[0], 0]}'
            raise ValueError(must_be("--unit", "a column that is the same in all rows of an episode", got))
        return units

    def _policy_beside(self, names: list[str], data: Trajectories) -> TablePolicy:
        """Return the policy whose probabilities stand in columns of the log."""
        files, option, states = files_of(self.path), "--policy", data.states
        resolved = open_table(files[0]).resolve(names, option)
        tables = [open_table(file).load(resolved) for file in files]
        empty = [name for name in resolved if any(_has_empty(as_numpy(t[name])) for t in tables)]
        with refusing(ExitCode.USAGE, self.path, "DATA"):
            order = by_action(resolved, data.action_labels, option)
        if empty:  # the policy is not asked where an episode ended; no other row may be empty
            filled, parts = [name for name in resolved if name not in empty], {}
            states = data.states[data.departed]
            if filled:
                every = self.read(option, states=filled).states[data.departed]
                parts = dict(zip(filled, every.T, strict=True))
            with renamed("rewards", option):
                parts |= {name: self.per_step(name) for name in empty}
            chances = np.column_stack([parts[name] for name in resolved])
        else:
            chances = self.read(option, states=names).states
        if holds_names(chances):
            raise TypeError(must_be(option, "columns of probabilities", f"{str(chances[0, 0])!r} in row 0"))
        return TablePolicy.of(states, chances[:, order], option)

    def check(self) -> None:
        """Refuse what cannot be, before any row is read, all of it at once."""
        rules = {"final_states": FINAL_STATES, "gaps": GAPS}
        choices = (partial(check_choice, self.table[role], role, rule) for role, rule in rules.items())
        together(self._check_names, *choices)

    def _check_names(self) -> None:
        """Refuse names that are not in the file; one that cannot be opened is for the reader."""
        try:
            view = self.header[1]
        except (ValueError, TypeError, OSError, ImportError):
            return
        with about(self.path):
            if view is None:
                self._check_unnamed()
            else:
                self._check_columns(view)

    def _check_unnamed(self) -> None:
        """Raise where an option says something of a file that `to_parquet` wrote, which says it itself."""
        for role, given in {**self.table, "unit": self.unit}.items():
            if given not in (None, [], _USUAL.get(role)) or (given is None and role in _USUAL):
                rule = "left out for a file that Trajectories.to_parquet wrote, which says it itself"
                raise ValueError(must_be(role, rule, "none" if given is None else given))

    def _check_columns(self, view: TableView) -> None:
        """Refuse names that are no columns, and options that do not go together."""
        given, arrays = self.given, self.header[0] == "arrays"
        if not given["states"]:
            hint = f"There are {', '.join(map(str, view.names))}. `replaystats check` guesses what they mean."
            raise ValueError(must_be("states", "the columns of the state", "none", hint))
        roles = {name: value for name, value in given.items() if name not in RULES} | {"unit": self.unit}
        if (kept := named_rule(view, given["episode"], EPISODES)) is not None:
            roles |= {"episode": None} | ({"terminated": None} if kept == "rows" else {})
        if named_rule(view, given["terminated"], (ALL,)) is not None:
            roles["terminated"] = None
        beside = [name for text in self.others.values() for name in policy_columns(text)]
        ratios = any(logged_column(text) for text in self.others.values())

        def check_together() -> None:
            if beside and (arrays or given["next_states"]):
                rule = "a table or module:function for this kind of log"
                raise ValueError(must_be("--policy", rule, ", ".join(beside)))
            if self.unit is not None and arrays:
                raise ValueError(must_be("--unit", "a column of a table", self.unit))
            if ratios and given["behavior_probability"] is None:
                hint = "Ratios need how likely the log was to take its actions."
                raise ValueError(must_be("--probability", "given beside column:NAME", "none", hint))
            if given["time"] is not None and given["dt"] is not None:
                rule = "left out when --time is given"
                raise ValueError(must_be("--dt", rule, given["dt"], "The times give it."))

        named = (partial(resolve_role, view, role, names) for role, names in roles.items())
        wanted = [logged_column(text) or policy_columns(text) for text in self.others.values()]
        policies = (partial(view.resolve, names, "--policy") for names in wanted)
        together(check_together, *named, *policies)


def _has_empty(column: np.ndarray) -> bool:
    return column.dtype.kind == "f" and bool(np.isnan(column).any())


def read_points(path: Path, names: tuple[str, ...], *, of_names: bool) -> FloatArray:
    """Return states (m, d) from the columns of that name, which hold names or numbers as the log does."""
    with refusing(ExitCode.DATA, path, "--at"):
        view = open_table(path)
    with refusing(ExitCode.USAGE, path, "--at"):
        found = view.resolve(list(names), "--at", f"The file needs the columns {', '.join(names)}.")
    with refusing(ExitCode.DATA, path, "--at"):
        loaded = view.load(found)
        if not len(loaded[found[0]]):
            raise ValueError(must_be("--at", "a file with states", "no rows"))
        return states_of({name: loaded[name] for name in found}, "--at", of_names=of_names)


def typical_states(data: Trajectories, seed: int) -> FloatArray:
    """Return quantiles of a single variable, a sample of the states of several, or the commonest names.

    Examples
    --------
    >>> typical_states(Trajectories([np.arange(101.0)]), seed=0).ravel()
    array([ 5., 10., 25., 50., 75., 90., 95.])
    """
    if holds_names(data.states):
        names, counts = np.unique(data.states[data.departed], axis=0, return_counts=True)
        return names[np.sort(np.argsort(-counts, kind="stable")[:N_SAMPLED])]
    if data.dimension == 1:
        return np.asarray(np.quantile(data.states, QUANTILES, axis=0))
    rows = np.random.default_rng(seed).choice(
        len(data.states), min(N_SAMPLED, len(data.states)), replace=False
    )
    return data.states[np.sort(rows)]


@dataclass(frozen=True, slots=True, eq=False)
class TablePolicy:
    """Probabilities of actions, looked up by state.

    Examples
    --------
    >>> policy = TablePolicy.of(np.array([[0.0], [1.0]]), np.array([[0.5, 0.5], [1.0, 0.0]]), "--policy")
    >>> policy(np.array([[1.0], [0.0]]))
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    rows: dict[Hashable, int]
    probabilities: FloatArray
    option: str

    @classmethod
    def of(cls, states: np.ndarray, probabilities: FloatArray, option: str) -> TablePolicy:
        """Remember states (m, d); the same state twice must have the same probabilities."""
        rows: dict[Hashable, int] = {}
        for i, state in enumerate(_keys(states)):
            first = rows.setdefault(state, i)
            if first != i and not np.allclose(probabilities[first], probabilities[i]):
                both = [probabilities[k].tolist() for k in (first, i)]
                got = f"{both[0]} and {both[1]} in state {states[i].tolist()}"
                raise ValueError(must_be(option, "one set of probabilities per state", got))
        return cls(rows, probabilities, option)

    def __call__(self, states: ArrayLike) -> FloatArray:
        """Return probabilities (N, n_actions) for states (N, d)."""
        wanted = np.asarray(states)
        found = [self.rows.get(state, -1) for state in _keys(wanted)]
        if -1 in found:
            missing = wanted[found.index(-1)].tolist()
            rule = "probabilities for every state in which an episode goes on or is cut off"
            hint = "Add a row for it, fill in its columns there, or say which episodes end: --terminated."
            raise ValueError(must_be(self.option, rule, f"none for {missing}", hint))
        return np.asarray(self.probabilities[found])


def _keys(states: np.ndarray) -> Iterable[Hashable]:
    """Return something to look every state (N, d) up by."""
    if holds_names(states):
        return map(tuple, states.tolist())
    return (state.tobytes() for state in np.ascontiguousarray(states.astype(np.float64) + 0.0))  # -0.0 is 0.0


def by_action(columns: Sequence[str], labels: Sequence[str] | None, option: str) -> list[int]:
    """Return the places of a policy's columns in the order of the log's actions, those never logged last.

    Where actions are names, so are columns, or end in them; numbers follow the order of the columns.

    Examples
    --------
    >>> by_action(["p_right", "p_left"], ("left", "right"), "--policy")
    [1, 0]
    """
    if labels is None:
        return list(range(len(columns)))
    found = []
    for label in labels:
        ending = re.compile(rf"(^|.*[\W_]){re.escape(label)}$")
        own = [i for i, name in enumerate(columns) if name == label] or [
            i for i, name in enumerate(columns) if ending.match(name)
        ]
        if len(own) != 1:
            rule = f'one column per action, named as the log names it; for "{label}"'
            raise ValueError(must_be(option, rule, ", ".join(columns)))
        found += own
    return [*found, *(i for i in range(len(columns)) if i not in found)]


def policy_columns(text: str | None) -> list[str]:
    """Return the columns that a policy names; none where it is a file or a function."""
    if text is None or ":" in text or Path(text).suffix.lower() in (*_TABLES, ".zip"):
        return []
    return [name.strip() for name in text.split(",") if name.strip()]


def logged_column(text: str | None) -> str | None:
    """Return the column with a policy's probability of the logged action, where that is what is given.

    Examples
    --------
    >>> logged_column("column:p_new"), logged_column("agents:greedy")
    ('p_new', None)
    """
    return text.removeprefix("column:") if text is not None and text.startswith("column:") else None


def read_policy(
    text: str,
    names: tuple[str, ...],
    option: str,
    labels: Sequence[str] | None = None,
    *,
    of_names: bool = False,
) -> Callable[[FloatArray], Any]:
    """Return the policy that `text` names, for states with these variables; columns are read with the log.

    `labels` are what the log calls its actions, where these have names; `of_names`: its states have names.
    """
    if Path(text).suffix.lower() == ".zip":
        hint = (
            "Loading such an archive runs code that is inside it. Where you trust it, write a module with "
            "`model = PPO.load(path)` and `def policy(states): return model.predict(states)[0]`, and say "
            "module:policy."
        )
        raise ValueError(must_be(option, "no archive of a trained agent", text, hint))
    if text.startswith("greedy:"):
        states, values = _table(Path(text.removeprefix("greedy:")), names, option, labels, of_names)
        return TablePolicy.of(states, np.eye(values.shape[1])[np.argmax(values, axis=1)], option)
    if Path(text).suffix.lower() in _TABLES:
        states, chances = _table(Path(text), names, option, labels, of_names)
        return TablePolicy.of(states, chances, option)
    if _FUNCTION.match(text):
        return _function(text, option)
    raise ValueError(must_be(option, "a policy", repr(text), _FORMS))


def _table(
    path: Path, names: tuple[str, ...], option: str, labels: Sequence[str] | None, of_names: bool
) -> tuple[np.ndarray, FloatArray]:
    """Return states (m, d) and what stands in the other columns (m, n_actions), in the order of actions."""
    if not path.exists():
        raise ValueError(must_be(option, "a file that exists", f'"{path}"', _FORMS))
    with renamed("table", option), renamed("path", option):
        view = open_table(path)
    states = view.resolve(list(names), option, f"The file needs the columns {', '.join(names)}.")
    others = [name for name in view.names if name not in states]
    if len(others) < 2:
        got = f"{len(others)} besides the state"
        raise ValueError(must_be(option, "a table with one column per action", got))
    others = [others[i] for i in by_action(others, labels, option)]
    with renamed("table", option), renamed("path", option):
        loaded = view.load([*states, *others])
    numbers = np.stack([as_floats(loaded[n], f'{option}: "{n}"') for n in others], axis=1)
    if not len(numbers):
        raise ValueError(must_be(option, "a table of states", "no rows"))
    check_states(numbers, others, option)
    return states_of({n: loaded[n] for n in states}, option, of_names=of_names), numbers


def states_of(columns: Mapping[str, Column], option: str, *, of_names: bool) -> np.ndarray:
    """Return states (m, d) from columns, names where the states of the log have names, numbers elsewhere."""
    states = check_states(as_states(columns, option), list(columns), option)
    if holds_names(states) != of_names:
        kinds = ("names", "numbers") if of_names else ("numbers", "names")
        raise ValueError(must_be(option, f"states that are {kinds[0]}, as in the log", kinds[1]))
    return states


def _function(text: str, option: str) -> Callable[[FloatArray], Any]:
    found = find_object(text, option)
    if not callable(found):
        raise ValueError(must_be(option, "module:function", f"{text}, which is no function"))
    return containing(found, option)
