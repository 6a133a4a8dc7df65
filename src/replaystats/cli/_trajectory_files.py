"""Files of logged episodes, by the columns that the user named; and the states to ask about."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from .._core.errors import must_be, renamed, require_extra
from .._core.typing import FloatArray
from ..data import Trajectories
from ..data._flat import holds_names
from ..data.storage import METADATA_KEY
from ..readers import from_table, read_npz
from ..readers._columns import TableView, as_numpy, open_table
from ..readers.files import open_npz
from ..readers.tables import files_like
from ._words import TablePolicy, by_action, states_of
from .console import ExitCode, refusing

# Layout: quantiles of a single variable, and how many visited states stand for several.
QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
# Layout: visited states that are listed.
N_SAMPLED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LogColumns:
    """What the columns of a log mean, as given; None is a column that the log does not have."""

    states: list[str]
    rewards: str | None
    episode: str | None
    step: str | None
    time: str | None
    actions: list[str]
    terminated: str | None
    truncated: str | None
    next_states: list[str]
    probability: str | None
    policy: list[str]
    compare: list[str]
    policy_of_logged: str | None
    compare_of_logged: str | None
    unit: str | None
    dt: float | None
    final_states: str
    gaps: str
    time_limit: int | str | None = "ask"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Log:
    """What was read: episodes, the names of the state's variables, and policies that stood beside them."""

    data: Trajectories
    names: tuple[str, ...]
    units: np.ndarray | None = None
    policy: TablePolicy | FloatArray | None = None
    compare: TablePolicy | FloatArray | None = None


def read_log(path: Path, columns: LogColumns) -> Log:
    """Return the episodes of a file, the names of the state's variables, and policies in its columns."""
    log = _read_episodes(path, columns)
    if columns.unit is not None:
        log = replace(log, units=_units(path, columns))
    if columns.policy_of_logged is not None:
        log = replace(log, policy=_per_step(path, columns, columns.policy_of_logged))
    if columns.compare_of_logged is not None:
        log = replace(log, compare=_per_step(path, columns, columns.compare_of_logged))
    return log


def _units(path: Path, columns: LogColumns) -> np.ndarray:
    """Return the label (n,) of every episode's unit: that of its first row, read as if it were the state."""
    assert columns.unit is not None
    if path.suffix.lower() == ".npz":
        with refusing(ExitCode.USAGE):
            raise ValueError(must_be("--unit", "a column of a table", columns.unit))
    own = [columns.unit]
    beside = replace(columns, states=own, next_states=own if columns.next_states else [])
    found, _ = _read_table(path, beside, "--unit")
    return np.asarray(found.states[found.offsets[:-1], 0])


def _per_step(path: Path, columns: LogColumns, name: str) -> FloatArray | None:
    """Return one number per step (N,): what a reward is, so that it is sorted and cut as one."""
    beside = replace(
        columns, rewards=name, probability=None, policy=[], compare=[], policy_of_logged=None,
        compare_of_logged=None,
    )  # fmt: skip
    return _read_episodes(path, beside).data.rewards


def _read_episodes(path: Path, columns: LogColumns) -> Log:
    """Return the episodes of a file and the names of the state's variables.

    A wrong name is wrong usage, and found before any row is read; what the rows hold is a matter of data.
    Columns of a policy's probabilities are read as if they were the state, so that they are sorted and cut as
    it is.
    """
    beside = {"--policy": columns.policy, "--compare": columns.compare}
    if any(beside.values()) and (columns.next_states or path.suffix.lower() == ".npz"):
        with refusing(ExitCode.USAGE):
            rule = "a table or module:function for this kind of log"
            got = ", ".join([*columns.policy, *columns.compare])
            raise ValueError(must_be("--policy", rule, got))
    if path.suffix.lower() == ".npz":
        data, names = _read_npz(path, columns)
        return Log(data=data, names=names)
    data, names = _read_table(path, columns)
    policies = {option: _policy_beside(path, columns, option, data) for option, own in beside.items() if own}
    return Log(data=data, names=names, policy=policies.get("--policy"), compare=policies.get("--compare"))


def _policy_beside(path: Path, columns: LogColumns, option: str, data: Trajectories) -> TablePolicy:
    """Return the policy whose probabilities stand in columns of the log."""
    names = columns.policy if option == "--policy" else columns.compare
    files = [path] if path.exists() else files_like(str(path))
    with refusing(ExitCode.DATA, path, "DATA"):
        resolved = open_table(files[0]).resolve(names, option)
        tables = [open_table(file).load(resolved) for file in files]
        empty = [name for name in resolved if any(_has_empty(as_numpy(t[name])) for t in tables)]
    with refusing(ExitCode.USAGE, path, "DATA"):
        order = by_action(resolved, data.action_labels, option)
    if empty:  # nobody asks what is done where an episode ended; no other row may be empty
        filled = [name for name in resolved if name not in empty]
        states, parts = data.states[data.departed], {}
        if filled:
            every = _read_table(path, replace(columns, states=filled), option)[0].states[data.departed]
            parts |= dict(zip(filled, every.T, strict=True))
        with renamed("rewards", option):
            parts |= {name: _per_step(path, columns, name) for name in empty}
        chances = np.column_stack([parts[name] for name in resolved])
    else:
        states, chances = data.states, _read_table(path, replace(columns, states=names), option)[0].states
    with refusing(ExitCode.DATA, path, "DATA"):
        if holds_names(chances):
            raise TypeError(must_be(option, "columns of probabilities", f"{str(chances[0, 0])!r} in row 0"))
        return TablePolicy.of(states, chances[:, order], option)


def _has_empty(column: np.ndarray) -> bool:
    return column.dtype.kind == "f" and bool(np.isnan(column).any())


def _read_table(
    path: Path, columns: LogColumns, option: str = "states"
) -> tuple[Trajectories, tuple[str, ...]]:
    """Return episodes and the names of their variables; `option` is what refusals of these speak of."""
    if not columns.states and path.is_file() and path.suffix.lower() in (".parquet", ".pq"):
        with refusing(ExitCode.DATA, path, "DATA"):
            ours = _wrote_it_ourselves(path)
        if ours:
            with refusing(ExitCode.USAGE, path, "DATA"):
                _check_unnamed(columns)
            with refusing(ExitCode.DATA, path, "DATA"):
                data = Trajectories.from_parquet(path)
            return data, _variables(["s"], data)
    with refusing(ExitCode.DATA, path, "DATA"):
        view = open_table(path if path.exists() else files_like(str(path))[0])
    with refusing(ExitCode.USAGE, path, "DATA"):
        states = _check_names(view, columns)
    with refusing(ExitCode.DATA, path, "DATA"), renamed("states", option):
        data = from_table(
            path,
            states=states,
            rewards=columns.rewards,
            episode=columns.episode,
            step=columns.step,
            time=columns.time,
            actions=columns.actions or None,
            terminated=columns.terminated,
            truncated=columns.truncated,
            next_states=columns.next_states or None,
            behavior_probability=columns.probability,
            dt=columns.dt,
            final_states=columns.final_states,
            gaps=columns.gaps,
            time_limit=columns.time_limit,
        )
    return data, _variables(states, data)


def _wrote_it_ourselves(path: Path) -> bool:
    """Tell whether `Trajectories.to_parquet` wrote the file: then nothing needs a name."""
    parquet = require_extra("pyarrow.parquet", extra="io", purpose="Reading Parquet")
    return METADATA_KEY in (parquet.read_schema(path).metadata or {})


def _check_unnamed(columns: LogColumns) -> None:
    """Raise where an option says something of a file that says it itself: it would not be listened to."""
    usual = {"rewards": "reward", "episode": "episode", "terminated": "terminated", "time_limit": "ask"}
    usual |= {"final_states": "recorded", "gaps": "raise"}
    options = {"rewards": "--reward", "actions": "--action", "next_states": "--next-state"}
    for field in fields(columns):
        given = getattr(columns, field.name)
        if field.name in ("states", "policy", "compare", "policy_of_logged", "compare_of_logged"):
            continue
        if given not in (None, [], usual.get(field.name)) or (given is None and field.name in usual):
            option = options.get(field.name, "--" + field.name.replace("_", "-"))
            rule = "left out for a file that Trajectories.to_parquet wrote, which says it itself"
            raise ValueError(must_be(option, rule, "none" if given is None else given))


def _read_npz(path: Path, columns: LogColumns) -> tuple[Trajectories, tuple[str, ...]]:
    """Read arrays; they have the library's names unless the user named others."""
    columns = replace(
        columns,
        states=columns.states or ["states"],
        rewards="rewards" if columns.rewards == "reward" else columns.rewards,
        episode=None,
    )
    with refusing(ExitCode.DATA, path, "DATA"), open_npz(path) as arrays:
        names = list(arrays.files)
    with refusing(ExitCode.USAGE, path, "DATA"):
        (states,) = _check_names(TableView(names, lambda _: {}), columns)
    with refusing(ExitCode.DATA, path, "DATA"):
        data = read_npz(
            path,
            states=states,
            rewards=columns.rewards,
            actions=columns.actions[0] if columns.actions else None,
            terminated=columns.terminated,
            truncated=columns.truncated,
            next_states=columns.next_states[0] if columns.next_states else None,
            offsets="offsets" if "offsets" in names and not columns.next_states else None,
            behavior_probability=columns.probability,
            dt=columns.dt,
            gaps=columns.gaps,
            time_limit=columns.time_limit,
        )
    return data, _variables(["s" if states == "states" else states], data)


def _check_names(view: TableView, columns: LogColumns) -> list[str]:
    """Return the columns of the state, after looking for every other one that was named."""
    if not columns.states:
        shown = ", ".join(map(str, view.names))
        raise ValueError(must_be("--state", "the columns of the state", "none", f"There are {shown}."))
    none = "If there is none, say {} none."
    view.resolve(columns.rewards, "--reward")
    view.resolve(columns.episode, "--episode", "If all rows are one episode, say --episode none.")
    view.resolve(
        columns.terminated,
        "--terminated",
        "If no episode ends in an absorbing state (whose value is 0), say --terminated none.",
    )
    view.resolve(columns.truncated, "--truncated", none.format("--truncated"))
    view.resolve(columns.step, "--step")
    view.resolve(columns.time, "--time")
    view.resolve(columns.actions, "--action")
    view.resolve(columns.next_states, "--next-state")
    view.resolve(columns.probability, "--probability")
    view.resolve(columns.unit, "--unit")
    view.resolve(columns.policy, "--policy")
    view.resolve(columns.compare, "--compare")
    view.resolve(columns.policy_of_logged, "--policy")
    view.resolve(columns.compare_of_logged, "--compare")
    if columns.probability is None and (columns.policy_of_logged or columns.compare_of_logged):
        hint = "Ratios need how likely the log was to take its actions."
        raise ValueError(must_be("--probability", "given beside column:NAME", "none", hint))
    if columns.time is not None and columns.dt is not None:
        raise ValueError(must_be("--dt", "left out when --time is given", columns.dt, "The times give it."))
    return view.resolve(columns.states, "--state")


def _variables(columns: list[str], data: Trajectories) -> tuple[str, ...]:
    """Return one name per variable; one column of lists holds several."""
    if len(columns) == data.dimension:
        return tuple(columns)
    return tuple(f"{columns[0]}{i}" for i in range(data.dimension))


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
