"""What a study is: a title, data, estimators, a grid. Made in Python, or read from a TOML file."""

from __future__ import annotations

import inspect
import json
import math
import sys
import tomllib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from joblib.externals.loky import get_reusable_executor

from replaystats.toolkit import (
    check_bool,
    check_choice,
    check_int,
    check_memory,
    check_names,
    contained,
    describe,
    must_be,
    renamed,
)

from .cells import Cell, cell_stream, expand_grid
from .sources import Source, compute_arguments, find, make_source

SECTIONS = ("title", "name", "repetitions", "seed", "fresh_data", "data", "grid", "estimators", "published")
# Parameters of the grid, and what estimators call them; set where an estimator has them.
KNOWN_PARAMETERS = {"B": "resampling__n_resamples", "k": "resampling__size"}
# What a legend and the title of a panel can show.
LONGEST_NAME = 100
MOST_CELLS = 100_000  # a journal has a line of each


@dataclass(frozen=True, kw_only=True, eq=False)
class Definition:
    """A study, checked before any work.

    Attributes
    ----------
    title : str
    source : Source
    estimators : dict
        Name -> an object with `fit` and `predict`, or a function ``f(*data, points, rng=, n=, ...)`` that
        returns predictions, (m,), or one row for each name that it gives; and, if it likes, a dict of facts
        beside them, a number each.
    arguments : dict
        Name of an estimator -> parameters to set, in which "= formula" is computed from the cell.
    families : tuple of tuple of str
        The names under which results stand. The first of a family is the baseline of the others in it.
    given : dict
        Name of an estimator -> the names that it gives; its own where it gives one.
    cells : tuple of Cell
    repetitions, seed : int
    fresh_data : bool
        Whether every cell draws data sets of its own, as the paper's do, one generator for data and
        estimators. Otherwise cells of one n share theirs, and can be compared pair by pair.
    published : list of dict
        Records with the parameters of a cell, "estimator", "measure" ("rmse" or "variance") and "value".
    """

    title: str
    source: Source
    estimators: Mapping[str, Any]
    cells: tuple[Cell, ...]
    repetitions: int
    seed: int
    families: tuple[tuple[str, ...], ...]
    given: Mapping[str, tuple[str, ...]]
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    published: Sequence[Mapping[str, Any]] = ()
    fresh_data: bool = False
    fingerprint: str = ""

    @property
    def baselines(self) -> dict[str, str]:
        """Every name of a result -> the name that it is measured against."""
        return {name: family[0] for family in self.families for name in family}

    def as_dict(self) -> dict[str, Any]:
        """Return what decides the numbers of a cell: a journal with other settings is refused."""
        return {"seed": self.seed, "repetitions": self.repetitions, "definition": self.fingerprint}

    def __repr__(self) -> str:
        names = ", ".join(self.baselines)
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
    name: str = "study",
    fresh_data: bool = False,
    gives: Mapping[str, Sequence[Sequence[str]]] | None = None,
    identity: str = "",
) -> Definition:
    """Check a study and lay out its cells; see `replaystats.study`."""
    check_int(repetitions, "repetitions", low=2, hint="A variance needs at least two.")
    check_int(seed, "seed", low=0)
    check_names([title, name], "title")
    check_bool(fresh_data, "fresh_data")
    _check_parts(estimators, grid, published)
    cells = _cells_of(name, grid)
    largest = max(float(repetitions) * len(estimators) * len(source.truth), float(repetitions))
    check_memory(largest, "repetitions", repetitions, "Fifty are usual.")
    given, families = _names_of_results(estimators, gives or {})
    for key, options in (arguments or {}).items():
        for cell in cells:
            with renamed("formula", f"estimators.{key}"):
                computed = compute_arguments(options, cell)
        _check_made(estimators[key], computed, key)
    # Points, truth and the function that draws decide the numbers as much as the estimators do.
    identified = [identity, describe(source), {key: describe(each) for key, each in estimators.items()}]
    text = json.dumps([*identified, arguments or {}, given, fresh_data], default=describe, sort_keys=True)
    return Definition(
        title=title,
        source=source,
        estimators=dict(estimators),
        cells=cells,
        repetitions=repetitions,
        seed=seed,
        families=families,
        given=given,
        arguments=arguments or {},
        published=tuple(published),
        fresh_data=fresh_data,
        fingerprint=f"{zlib.crc32(text.encode()):08x}",
    )


def _check_parts(estimators: Any, grid: Any, published: Any) -> None:
    """Raise unless the parts of a study are what they should be."""
    for label, given in (("estimators", estimators), ("grid", grid)):
        if not isinstance(given, Mapping):
            raise TypeError(must_be(label, "a mapping", type(given).__name__))
    if not estimators:
        raise ValueError(must_be("estimators", "a mapping with at least one estimator", "none"))
    if not isinstance(published, (list, tuple)) or not all(isinstance(one, Mapping) for one in published):
        raise TypeError(must_be("published", "a sequence of mappings", type(published).__name__))
    for key, estimator in estimators.items():
        _check_label(key, "estimators")
        if not (callable(estimator) or (hasattr(estimator, "fit") and hasattr(estimator, "predict"))):
            rule = "objects with fit and predict, or functions"
            raise TypeError(must_be("estimators", rule, f"{key}={estimator!r}"))
    if "n" not in grid:
        raise ValueError(must_be("grid", 'a mapping with "n", the sizes of the data', list(grid)))


def _cells_of(name: str, grid: Mapping[str, Any]) -> tuple[Cell, ...]:
    """Return the cells of a grid of numbers and texts, each once and not too many."""
    listed = {key: _sequence(values) for key, values in grid.items()}
    for key, values in listed.items():
        _check_label(key, "grid")
        kinds = [value for value in values if isinstance(value, (int, float, str))]
        if not values or len(kinds) < len(values) or len(set(values)) < len(values):
            rule = f"numbers or texts for {key!r}, at least one and each once"
            raise ValueError(must_be("grid", rule, repr(values)[:80]))
    count = math.prod(map(len, listed.values()))
    if count > MOST_CELLS:
        raise ValueError(must_be("grid", f"one of at most {MOST_CELLS:,} cells", f"{count:,}"))
    cells = expand_grid(name, listed)
    for cell in cells:
        check_int(cell["n"], "n", low=2)
    return cells


def _check_label(name: Any, what: str) -> None:
    """Raise unless a name can be shown: matplotlib leaves out those that begin with an underscore."""
    shown = isinstance(name, str) and name.isprintable() and bool(name.strip())
    if not shown or name.startswith("_") or len(name) > LONGEST_NAME:
        rule = f"names of 1 to {LONGEST_NAME} printable characters that do not begin with an underscore"
        raise ValueError(must_be(what, rule, repr(name)[:80]))


def _check_made(estimator: Any, arguments: Mapping[str, Any], name: str) -> None:
    """Raise where an estimator does not have the parameters that the study sets, before any work."""
    if hasattr(estimator, "get_params") and not isinstance(estimator, type):
        known = estimator.get_params()
        for key in arguments:
            if key.partition("__")[0] not in known:
                check_choice(key, f"estimators.{name}", sorted(known))
        return
    try:
        parameters = inspect.signature(estimator).parameters
    except (TypeError, ValueError):  # an object of one's own with fit and predict, or a function of C
        return
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    for key in arguments:
        check_choice(key, f"estimators.{name}", sorted(parameters))


def read_definition(path: Path) -> Definition:
    """Read a study from a TOML file; the classes and functions that it names are imported.

    Raises
    ------
    ValueError
        If it is not TOML, or a part is missing or wrong; the sentence names the part.
    """
    return make_definition(read_config(path), path)


def read_config(path: Path) -> dict[str, Any]:
    """Return the tables of a study's file; raises as `read_definition` does."""
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(must_be("FILE", "a TOML file", f"{path} ({error})")) from error
    except OSError as error:
        raise ValueError(must_be("FILE", "a TOML file", f"{path} ({error.strerror})")) from error
    for name in config:
        check_choice(name, "section", SECTIONS)
    for name in ("data", "grid", "estimators"):
        if not isinstance(config.get(name), dict):
            raise ValueError(must_be("FILE", f"a study with a table [{name}]", path))
    if "source" not in config["data"]:
        raise ValueError(must_be("[data]", 'a table with "source"', config["data"]))
    if not isinstance(config["data"]["source"], str):
        raise ValueError(must_be("source", "the name of a source", repr(config["data"]["source"])))
    for name, options in config["estimators"].items():
        if not isinstance(options, dict) or not isinstance(options.get("use"), str):
            raise ValueError(must_be(f"[estimators.{name}]", 'a table with "use"', options))
    return config


def inputs_of(path: Path) -> list[Path]:
    """Return the files that a study reads: its own, its table, and published numbers."""
    config = read_config(path)
    named = (config["data"].get("path"), config.get("published"))
    return [path, *(path.parent / name for name in named if isinstance(name, str))]


def make_definition(config: Mapping[str, Any], path: Path) -> Definition:
    """Return the study that the tables of a file describe; other files and modules may lie beside `path`."""
    _make_importable(str(path.parent.resolve()))
    data, seed = dict(config["data"]), check_int(config.get("seed", 20260), "seed", low=0)
    if "path" in data:  # beside the file, wherever the command is given
        data["path"] = str(path.parent / str(data["path"]))
    text = json.dumps(data, sort_keys=True, default=str)
    rng = cell_stream(seed, str(data.pop("points", "test points")))
    try:
        source = make_source(data.pop("source"), data, rng)
    except (TypeError, AttributeError) as error:  # an option that the source does not have
        raise ValueError(must_be("[data]", "options that the source takes", str(error))) from error
    estimators, arguments, gives = {}, {}, {}
    for name, table in config["estimators"].items():
        options = dict(table)
        made = find(options.pop("use"))
        options = {key: _with_parts(value) for key, value in options.items()}
        with contained(f"estimators.{name}"):
            estimators[name] = made() if isinstance(made, type) and _needs_nothing(made) else made
        if "gives" in options:
            gives[name] = options.pop("gives")
        arguments[name] = options
    return define(
        source, estimators, config["grid"], title=config.get("title", path.stem),
        repetitions=config.get("repetitions", 50), seed=seed, arguments=arguments, gives=gives,
        published=_published(config.get("published"), path.parent), name=config.get("name", "study"),
        fresh_data=config.get("fresh_data", False), identity=text,
    )  # fmt: skip


def _make_importable(folder: str) -> None:
    """Let modules in a folder be found, after all others, so that nothing there hides a package."""
    if folder not in sys.path:
        sys.path.append(folder)
        # Workers that are waiting for work have the old path; the next ones start with the new one.
        get_reusable_executor().shutdown()


def _with_parts(value: Any) -> Any:
    """Return an argument in which every table with "use" is what it names, made with the rest of it."""
    if isinstance(value, list):
        return [_with_parts(one) for one in value]
    if not isinstance(value, dict):
        return value
    parts = {key: _with_parts(one) for key, one in value.items()}
    if "use" not in parts:
        return parts
    made = find(use := parts.pop("use"))
    with contained("use", f"{use} with parameters that it takes"):
        return made(**parts)


def _names_of_results(
    estimators: Mapping[str, Any], gives: Mapping[str, Sequence[Sequence[str]]]
) -> tuple[dict[str, tuple[str, ...]], tuple[tuple[str, ...], ...]]:
    """Return the names that each estimator gives, and the families of all names.

    Estimators that give one name each are one family together.
    """
    given = {name: tuple(n for family in gives.get(name, [[name]]) for n in family) for name in estimators}
    alone = tuple(name for name in estimators if name not in gives)
    families = tuple(tuple(family) for many in gives.values() for family in many)
    families = (alone, *families) if alone else families
    names = [name for family in families for name in family]
    if len(set(names)) < len(names) or not all(families):
        raise ValueError(must_be("gives", "families of names, each name once", dict(gives)))
    return given, families


def _sequence(values: Any) -> Sequence[Any]:
    return values if isinstance(values, (list, tuple)) else [values]


def _needs_nothing(made: type) -> bool:
    required = inspect.Parameter.empty
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(made).parameters.values()
    return not any(p.default is required and p.kind not in kinds for p in parameters)


def _published(where: Any, folder: Path) -> list[dict[str, Any]]:
    """Return the records of a JSON file in the folder, or those that ``{use = "module:function"}`` gives."""
    if where is None:
        return []
    try:
        if isinstance(where, Mapping) and "use" in where:
            records = find(where["use"])(**{key: value for key, value in where.items() if key != "use"})
        else:
            records = json.loads((folder / str(where)).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        rule = "a JSON file with a list of records"
        raise ValueError(must_be("published", rule, folder / str(where))) from error
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        raise ValueError(must_be("published", "a list of records", type(records).__name__))
    for record in records:
        missing = {"estimator", "measure", "value"} - set(record)
        if missing:
            raise ValueError(must_be("published", f"records with {', '.join(sorted(missing))}", record))
    return list(records)


def shipped_studies() -> dict[str, Path]:
    """Return the files of the shipped studies by name.

    Examples
    --------
    >>> sorted(shipped_studies())
    ['paper-boston', 'paper-kernel', 'paper-policy']
    """
    folder = Path(str(resources.files(__package__) / "studies"))
    return {path.stem: path for path in folder.glob("*.toml")}


def locate(file: str) -> Path:
    """Return the path of a study: a file of one's own, or a shipped one by its name."""
    path, shipped = Path(file), shipped_studies()
    if path.exists():
        return path
    if file in shipped:
        return shipped[file]
    names = ", ".join(sorted(shipped))
    raise ValueError(must_be("FILE", f"a TOML file or one of {names}", repr(file)))
