"""Arguments as words: bases (rbf:100), solvers (ridge:0.1), and policies (columns, tables, functions)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import must_be, renamed
from .._core.typing import ArrayLike, FloatArray
from .._core.user_code import containing, find_object
from .._core.validation import check_choice
from ..basis import RBF, Basis, Fourier, OneHot, Polynomial, RandomFourier, Standardized, TileCoding
from ..data._flat import holds_names
from ..readers._columns import Column, as_floats, as_states, check_states, open_table
from ..solvers import Lepski, Solver, parse_solver

SOLVERS = ("auto", "pinv", "lu", "ridge", "lepski")
_EXAMPLES = "For example rbf:100, fourier:4, polynomial:3, rff:200, tiles:8x10, onehot:16 or tabular."
_FUNCTION = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
_TABLES = (".csv", ".parquet", ".pq")
_FORMS = (
    "Columns of the log, one per action (p_left,p_right); a table of states and probabilities "
    "(policy.csv); greedy:q_table.csv; module:function; or column:NAME, its probability of the logged action."
)


def solver_named(text: str) -> Solver:
    """Return the solver that `text` names: as for `reproduce`, and "lepski" or "lepski:KAPPA".

    Examples
    --------
    >>> solver_named("lepski:0.5").kappa, solver_named("ridge:0.1")
    (0.5, Ridge(alpha=0.1))
    """
    name, _, number = text.partition(":")
    check_choice(name, "solver", SOLVERS)
    if name != "lepski":
        return parse_solver(text)
    return Lepski(_number(number, text, "solver")) if number else Lepski()


def check_basis_name(text: str) -> None:
    """Refuse a basis that does not exist, or lacks its numbers, before any data are read."""
    name, numbers = _split(text)
    if name not in ("auto", "tabular"):
        _MAKERS[name](numbers, text, np.zeros((2, 1)))


def basis_named(text: str, states: FloatArray) -> Basis:
    """Return the basis that `text` names, for states like these.

    Parameters
    ----------
    text : str
        "rbf:CENTRES", "rff:FEATURES", "polynomial:DEGREE" (of standardised states), "fourier:ORDER" with
        period 2 pi or "fourier:ORDER:PERIOD", "tiles:TILINGSxTILES" over the range of the data,
        "onehot:STATES" or "tabular".
    states : ndarray of shape (N, d)
        Visited ones.

    Examples
    --------
    >>> basis_named("fourier:4", np.zeros((5, 1)))
    Fourier(order=4)
    """
    name, numbers = _split(text)
    if holds_names(states) and name != "tabular":
        raise ValueError(must_be("basis", "auto or tabular where states are names", repr(text)))
    return _MAKERS[name](numbers, text, states)


def _rbf(numbers: list[str], text: str, states: FloatArray) -> Basis:
    return Standardized(RBF(_count(numbers, text), intercept=True))


def _rff(numbers: list[str], text: str, states: FloatArray) -> Basis:
    return Standardized(RandomFourier(_count(numbers, text), intercept=True))


def _polynomial(numbers: list[str], text: str, states: FloatArray) -> Basis:
    return Standardized(Polynomial(_count(numbers, text), dimension=states.shape[1], family="hermite"))


def _fourier(numbers: list[str], text: str, states: FloatArray) -> Basis:
    period = 2.0 * math.pi if len(numbers) < 2 else _number(numbers[1], text, "basis")
    return Fourier(_count(numbers[:1], text), dimension=states.shape[1], period=period)


def _tiles(numbers: list[str], text: str, states: FloatArray) -> Basis:
    tilings, _, tiles = (numbers or [""])[0].partition("x")
    low, high = states.min(axis=0), states.max(axis=0)
    high = np.where(high > low, high, low + 1.0)  # a constant variable stays inside one tile
    return TileCoding(_count([tilings], text), _count([tiles], text), low=low.tolist(), high=high.tolist())


def _onehot(numbers: list[str], text: str, states: FloatArray) -> Basis:
    return OneHot(_count(numbers, text))


def _tabular(numbers: list[str], text: str, states: FloatArray) -> Basis:
    from ..basis import Tabular

    return Tabular()


_MAKERS: dict[str, Callable[[list[str], str, FloatArray], Basis]] = {
    "rbf": _rbf,
    "fourier": _fourier,
    "polynomial": _polynomial,
    "rff": _rff,
    "tiles": _tiles,
    "onehot": _onehot,
    "tabular": _tabular,
}


def _split(text: str) -> tuple[str, list[str]]:
    name, *numbers = text.split(":")
    check_choice(name, "basis", ("auto", *_MAKERS))
    most = {"auto": 0, "tabular": 0, "fourier": 2}.get(name, 1)
    if len(numbers) > most:
        raise ValueError(must_be("basis", f"{name} with at most {most} number(s)", repr(text), _EXAMPLES))
    return name, numbers


def _count(numbers: list[str], text: str) -> int:
    try:
        (number,) = numbers
        return int(number)
    except ValueError:
        raise ValueError(must_be("basis", "a name and its number", repr(text), _EXAMPLES)) from None


def _number(number: str, text: str, argument: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise ValueError(must_be(argument, "followed by a number", repr(text))) from None


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
            hint = "Add a row for it, or fill in its columns there."
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
