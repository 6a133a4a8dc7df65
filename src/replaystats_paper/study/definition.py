"""What a study is: a title, data, estimators, a grid. Made in Python, or read from a TOML file."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import math
import operator
import tomllib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replaystats.toolkit import check_choice, check_int, must_be, stream

from ..cells import Cell
from .sources import Source, find, make_source

SECTIONS = ("title", "repetitions", "seed", "data", "grid", "estimators", "published")
# Parameters of the grid, and what estimators call them; set where an estimator has them.
KNOWN_PARAMETERS = {"B": "n_resamples", "k": "subsample_size"}
_OPERATIONS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.FloorDiv: operator.floordiv,
}  # fmt: skip
_FUNCTIONS = {"round": round, "ceil": math.ceil, "log": math.log, "sqrt": math.sqrt, "max": max, "min": min}


@dataclass(frozen=True, kw_only=True, eq=False)
class Definition:
    """A study, checked before any work.

    Attributes
    ----------
    title : str
    source : Source
    estimators : dict
        Name -> an object with `fit` and `predict`, or a function ``f(*data, points, rng=, n=, ...)`` that
        returns predictions. The first is the baseline.
    arguments : dict
        Name of an estimator -> parameters to set, in which "= formula" is computed from the cell.
    cells : tuple of Cell
    repetitions, seed : int
    published : list of dict
        Records with the parameters of a cell, "estimator", "measure" ("rmse" or "variance") and "value".
    """

    title: str
    source: Source
    estimators: Mapping[str, Any]
    cells: tuple[Cell, ...]
    repetitions: int
    seed: int
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    published: Sequence[Mapping[str, Any]] = ()
    fingerprint: str = ""

    @property
    def baseline(self) -> str:
        """The estimator that the others are measured against."""
        return next(iter(self.estimators))

    def as_dict(self) -> dict[str, Any]:
        """Return what decides the numbers of a cell: a journal with other settings is refused."""
        return {"seed": self.seed, "repetitions": self.repetitions, "definition": self.fingerprint}

    def __repr__(self) -> str:
        names = ", ".join(self.estimators)
        return f"Definition({self.title!r}, {len(self.cells)} cells x {self.repetitions}, {names})"


def define(
    source: Source,
    estimators: Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]],
    *,
    title: str = "A study",
    repetitions: int = 50,
    seed: int = 20260,
    arguments: Mapping[str, Mapping[str, Any]] | None = None,
    published: Sequence[Mapping[str, Any]] = (),
    identity: str = "",
) -> Definition:
    """Check a study and lay out its cells; see `replaystats.study`."""
    check_int(repetitions, "repetitions", low=2, hint="A variance needs at least two.")
    check_int(seed, "seed", low=0)
    if not estimators:
        raise ValueError(must_be("estimators", "a mapping with at least one estimator", "none"))
    for name, estimator in estimators.items():
        if not (callable(estimator) or (hasattr(estimator, "fit") and hasattr(estimator, "predict"))):
            rule = "objects with fit and predict, or functions"
            raise TypeError(must_be("estimators", rule, f"{name}={estimator!r}"))
    if "n" not in grid:
        raise ValueError(must_be("grid", 'a mapping with "n", the sizes of the data', list(grid)))
    cells = tuple(
        Cell("study", tuple(zip(grid, values, strict=True)))
        for values in itertools.product(*(_sequence(values) for values in grid.values()))
    )
    for cell in cells:
        check_int(cell["n"], "n", low=2)
    identified = {name: _identity(estimator) for name, estimator in estimators.items()}
    text = json.dumps([identity, identified, arguments or {}], default=str, sort_keys=True)
    return Definition(
        title=title,
        source=source,
        estimators=dict(estimators),
        cells=cells,
        repetitions=repetitions,
        seed=seed,
        arguments=arguments or {},
        published=tuple(published),
        fingerprint=f"{zlib.crc32(text.encode()):08x}",
    )


def read_definition(path: Path) -> Definition:
    """Read a study from a TOML file; the classes and functions that it names are imported.

    Raises
    ------
    ValueError
        If it is not TOML, or a part is missing or wrong; the sentence names the part.
    """
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(must_be("FILE", "a TOML file", f"{path} ({error})")) from error
    except OSError as error:
        raise ValueError(must_be("FILE", "a TOML file", f"{path} ({error.strerror})")) from error
    for name in config:
        check_choice(name, "section", SECTIONS)
    for name in ("data", "grid", "estimators"):
        if not isinstance(config.get(name), dict):
            raise ValueError(must_be("FILE", f"a study with a table [{name}]", path))
    data = dict(config["data"])
    seed = config.get("seed", 20260)
    if "source" not in data:
        raise ValueError(must_be("[data]", 'a table with "source"', data))
    if "path" in data:  # beside the file, wherever the command is given
        data["path"] = str(path.parent / data["path"])
    text = json.dumps(data, sort_keys=True, default=str)
    source = make_source(data.pop("source"), data, stream(seed, zlib.crc32(b"test points")))
    estimators, arguments = {}, {}
    for name, options in config["estimators"].items():
        options = dict(options)
        if "use" not in options:
            raise ValueError(must_be(f"[estimators.{name}]", 'a table with "use"', options))
        made = find(options.pop("use"))
        estimators[name] = made() if isinstance(made, type) and _needs_nothing(made) else made
        arguments[name] = options
    published = _published(path.parent / config["published"]) if "published" in config else ()
    return define(
        source, estimators, config["grid"], title=config.get("title", path.stem),
        repetitions=config.get("repetitions", 50), seed=seed, arguments=arguments, published=published,
        identity=text,
    )  # fmt: skip


def compute_arguments(arguments: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """Return the arguments with every "= formula" computed from the cell's parameters.

    Examples
    --------
    >>> compute_arguments({"alpha": "= n ** (-2 / 3)", "kernel": "rbf"}, Cell("study", (("n", 1000),)))
    {'alpha': 0.010000000000000002, 'kernel': 'rbf'}
    """
    return {
        name: formula(value[1:], dict(cell.parameters))
        if isinstance(value, str) and value.startswith("=")
        else value
        for name, value in arguments.items()
    }


def formula(text: str, names: Mapping[str, Any]) -> Any:
    """Compute an arithmetic formula of the named numbers; nothing else is evaluated.

    Examples
    --------
    >>> formula("round(0.3 * n)", {"n": 50})
    15
    """

    def value(node: ast.AST) -> Any:
        match node:
            case ast.Expression(body=body):
                return value(body)
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return _OPERATIONS[type(op)](value(left), value(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATIONS:
                return _OPERATIONS[type(op)](value(operand))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](*map(value, arguments))  # type: ignore[operator]
        rule = f"arithmetic of {', '.join(names)}"
        raise ValueError(must_be("formula", rule, repr(text.strip())))

    try:
        return value(ast.parse(text.strip(), mode="eval"))
    except SyntaxError as error:
        raise ValueError(must_be("formula", "arithmetic", repr(text.strip()))) from error


def _sequence(values: Any) -> Sequence[Any]:
    return values if isinstance(values, (list, tuple)) else [values]


def _identity(estimator: Any) -> str:
    """Return what tells an estimator from another: class and parameters, or a function's name and source."""
    if hasattr(estimator, "get_params") and not isinstance(estimator, type):
        return repr((type(estimator).__qualname__, sorted(estimator.get_params().items(), key=str)))
    name = f"{getattr(estimator, '__module__', '')}.{getattr(estimator, '__qualname__', type(estimator))}"
    try:
        return name + inspect.getsource(estimator)
    except (OSError, TypeError):
        return name


def _needs_nothing(made: type) -> bool:
    required = inspect.Parameter.empty
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(made).parameters.values()
    return not any(p.default is required and p.kind not in kinds for p in parameters)


def _published(path: Path) -> list[dict[str, Any]]:
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(must_be("published", "a JSON file with a list of records", path)) from error
    for record in records:
        missing = {"estimator", "measure", "value"} - set(record)
        if missing:
            raise ValueError(must_be("published", f"records with {', '.join(sorted(missing))}", record))
    return list(records)
