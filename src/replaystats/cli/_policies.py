"""Policies as words: columns of the log, a table of states, the greedy choice of one, or a function."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import must_be, renamed
from .._core.typing import ArrayLike, FloatArray
from ..readers._columns import as_floats, open_table

_FUNCTION = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
_TABLES = (".csv", ".parquet", ".pq")
_FORMS = (
    "Columns of the log, one per action (p_left,p_right); a table of states and probabilities "
    "(policy.csv); greedy:q_table.csv; module:function; or column:NAME, its probability of the logged action."
)


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

    rows: dict[bytes, int]
    probabilities: FloatArray
    option: str

    @classmethod
    def of(cls, states: FloatArray, probabilities: FloatArray, option: str) -> TablePolicy:
        """Remember states (m, d); the same state twice must have the same probabilities."""
        rows: dict[bytes, int] = {}
        for i, state in enumerate(np.ascontiguousarray(states + 0.0)):  # -0.0 is 0.0
            first = rows.setdefault(state.tobytes(), i)
            if first != i and not np.allclose(probabilities[first], probabilities[i]):
                both = [probabilities[k].tolist() for k in (first, i)]
                got = f"{both[0]} and {both[1]} in state {state.tolist()}"
                raise ValueError(must_be(option, "one set of probabilities per state", got))
        return cls(rows, probabilities, option)

    def __call__(self, states: ArrayLike) -> FloatArray:
        """Return probabilities (N, n_actions) for states (N, d)."""
        wanted = np.ascontiguousarray(np.asarray(states, dtype=np.float64) + 0.0)
        found = [self.rows.get(state.tobytes(), -1) for state in wanted]
        if -1 in found:
            missing = wanted[found.index(-1)].tolist()
            hint = "Add a row for it."
            raise ValueError(
                must_be(self.option, "a table with every logged state", f"none for {missing}", hint)
            )
        return np.asarray(self.probabilities[found])


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


def read_policy(text: str, names: tuple[str, ...], option: str) -> Callable[[FloatArray], Any]:
    """Return the policy that `text` names, for states with these variables; columns are read with the log."""
    if Path(text).suffix.lower() == ".zip":
        hint = (
            "Loading such an archive runs code that is inside it. Where you trust it, write a module with "
            "`model = PPO.load(path)` and `def policy(states): return model.predict(states)[0]`, and say "
            "module:policy."
        )
        raise ValueError(must_be(option, "no archive of a trained agent", text, hint))
    if text.startswith("greedy:"):
        states, values = _table(Path(text.removeprefix("greedy:")), names, option)
        return TablePolicy.of(states, np.eye(values.shape[1])[np.argmax(values, axis=1)], option)
    if Path(text).suffix.lower() in _TABLES:
        states, chances = _table(Path(text), names, option)
        return TablePolicy.of(states, chances, option)
    if _FUNCTION.match(text):
        return _function(text, option)
    raise ValueError(must_be(option, "a policy", repr(text), _FORMS))


def _table(path: Path, names: tuple[str, ...], option: str) -> tuple[FloatArray, FloatArray]:
    """Return states (m, d) and what stands in the other columns (m, n_actions)."""
    if not path.exists():
        raise ValueError(must_be(option, "a file that exists", f'"{path}"', _FORMS))
    with renamed("table", option), renamed("path", option):
        view = open_table(path)
    states = view.resolve(list(names), option, f"The file needs the columns {', '.join(names)}.")
    others = [name for name in view.names if name not in states]
    if len(others) < 2:
        got = f"{len(others)} besides the state"
        raise ValueError(must_be(option, "a table with one column per action", got))
    with renamed("table", option), renamed("path", option):
        loaded = view.load([*states, *others])
    columns = [
        np.stack([as_floats(loaded[n], f'{option}: "{n}"') for n in part], axis=1)
        for part in (states, others)
    ]
    both = np.concatenate(columns, axis=1)
    if not len(both) or not np.isfinite(both).all():
        got = f"{np.count_nonzero(~np.isfinite(both))} missing or infinite values in {len(both)} rows"
        raise ValueError(must_be(option, "a table of states without missing values", got))
    return columns[0], columns[1]


def _function(text: str, option: str) -> Callable[[FloatArray], Any]:
    module, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ValueError(must_be(option, "a module that can be imported", f"{module}: {error}")) from error
    finally:
        sys.path.remove(os.getcwd())
    if not callable(found):
        raise ValueError(must_be(option, "module:function", f"{text}, which is no function"))
    policy: Callable[[FloatArray], Any] = found
    return policy
