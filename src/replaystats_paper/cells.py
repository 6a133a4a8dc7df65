"""The unit of work, one cell, and the experiments: a named grid of cells per figure and table.

Experiments are rows of `experiments.toml`; the settings are what all cells of a run share.
"""

from __future__ import annotations

import itertools
import tomllib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from typing import Any

import numpy as np

from replaystats.solvers import parse_solver
from replaystats.toolkit import check_choice, check_int, check_real, stream

Parameter = int | float | str


@dataclass(frozen=True, slots=True)
class Cell:
    """One computation: a study and its parameters.

    Examples
    --------
    >>> cell = Cell("policy", (("n", 500), ("B", 100), ("k", 150)))
    >>> cell.key, cell["k"]
    ('policy n=500 B=100 k=150', 150)
    """

    study: str
    parameters: tuple[tuple[str, Parameter], ...]

    @property
    def key(self) -> str:
        """What identifies the cell in a journal, and seeds it."""
        return " ".join([self.study, *(f"{name}={value}" for name, value in self.parameters)])

    def __getitem__(self, name: str) -> Any:
        return dict(self.parameters)[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all cells of a run share; two runs with equal settings give equal numbers.

    Attributes
    ----------
    seed : int
    beta : float
        Discount rate of policy evaluation; 1 is what the published numbers used.
    solver : str
        How policy evaluation inverts a matrix, as `replaystats.solvers.parse_solver` reads it.
    repetitions : int or None
        M; None means the published M of each experiment.
    """

    seed: int = 20260
    beta: float = 1.0
    solver: str = "pinv"
    repetitions: int | None = None

    def __post_init__(self) -> None:
        check_int(self.seed, "seed", low=0)
        check_real(self.beta, "beta", low=0.0, closed="neither", hint="The paper has 1 and 0.1.")
        parse_solver(self.solver)
        if self.repetitions is not None:
            check_int(self.repetitions, "repetitions", low=2, hint="A variance needs at least two.")

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)


def cell_stream(seed: int, key: str, repetition: int = 0) -> np.random.Generator:
    """Return the generator of one repetition of one cell: it depends on nothing else."""
    return stream(seed, zlib.crc32(key.encode()), repetition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A figure or table of the paper, or a measurement that belongs beside them.

    Attributes
    ----------
    name, title, paper : str
        What to type, what it is, and where the paper has it.
    view : str
        How its cells are shown: a drawer of `figures`, time, really or support.
    cells, quick_cells : tuple of Cell
        The published grid, and the part of it that ``--quick`` runs.
    algorithm : str
        Whose results of a cell are shown; "" for cells with one algorithm.
    repetitions : int
        The published M.
    lines : dict
        What the view "lines" draws: x, by, and panels with their quantities.
    caption : str
        What is said under the figure, where its view has no words for it.
    by_name : bool
        Whether it runs only where it is named, not with all.
    """

    name: str
    title: str
    paper: str
    view: str
    cells: tuple[Cell, ...]
    quick_cells: tuple[Cell, ...]
    algorithm: str = ""
    repetitions: int = 1
    lines: Mapping[str, Any] = field(default_factory=dict)
    caption: str = ""
    by_name: bool = False

    def chosen_repetitions(self, wanted: int | None) -> int:
        """Return M as published, or as wanted where repetitions are the data sets of a figure."""
        of_figure = self.view in ("value", "variance", "rmse", "really")
        return wanted if of_figure and wanted is not None else self.repetitions

    def chosen_cells(self, quick: bool) -> tuple[Cell, ...]:
        """Return the cells of a quick or of a full run."""
        return self.quick_cells if quick else self.cells

    @property
    def whose(self) -> str:
        """Under which name a cell keeps the results that the experiment shows."""
        return self.algorithm or "krr"

    def __repr__(self) -> str:
        return f"Experiment({self.name}, {len(self.cells)} cells, {self.paper})"


def load_catalogue() -> dict[str, Experiment]:
    """Return every experiment by name, in the order of the report.

    Examples
    --------
    >>> load_catalogue()["variance-lstd"]
    Experiment(variance-lstd, 36 cells, Figures 2 and 5)
    """
    text = (resources.files(__package__) / "experiments.toml").read_text(encoding="utf-8")
    return {name: _read(name, config) for name, config in tomllib.loads(text).items()}


def find_experiments(names: Sequence[str]) -> list[Experiment]:
    """Return the named experiments; none, or "all", means every one but those that run by name only.

    Examples
    --------
    >>> find_experiments(["rmse-kernel"])
    [Experiment(rmse-kernel, 36 cells, Figure 14)]
    """
    catalogue = load_catalogue()
    for name in names:
        check_choice(name, "NAME", ["all", *catalogue])
    every = not names or "all" in names
    return [one for name, one in catalogue.items() if name in names or (every and not one.by_name)]


def _read(name: str, config: dict[str, Any]) -> Experiment:
    """Return the experiment of a row: what is not of its grid is an attribute."""
    study, largest, quick = config.pop("study"), config.pop("largest_n", {}), config.pop("quick", {})
    grid = config.pop("grid", None) or _grid_of(study)

    def cells(grid: Mapping[str, Sequence[Any]]) -> tuple[Cell, ...]:
        # A slow method stops at its largest n.
        every = expand_grid(study, grid)
        return tuple(c for c in every if not largest or c["n"] <= largest.get(c["method"], c["n"]))

    return Experiment(name=name, cells=cells(grid), quick_cells=cells({**grid, **quick}), **config)


def _grid_of(study: str) -> dict[str, list[Any]]:
    """Return the grid of one of the paper's own studies."""
    path = resources.files(__package__) / "studies" / f"paper-{study}.toml"
    grid: dict[str, list[Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["grid"]
    return grid


def expand_grid(study: str, grid: Mapping[str, Sequence[Any]]) -> tuple[Cell, ...]:
    """Return one cell per combination, in which a share of n has become k.

    Examples
    --------
    >>> [cell.key for cell in expand_grid("study", {"n": [50, 100], "share": [0.3]})]
    ['study n=50 k=15', 'study n=100 k=30']
    """
    cells = []
    for values in itertools.product(*grid.values()):
        parameters: dict[str, Parameter] = dict(zip(grid, values, strict=True))
        if "share" in parameters:
            share = check_real(parameters.pop("share"), "share", low=0.0, high=1.0, closed="right")
            parameters["k"] = round(share * int(parameters["n"]))
        cells.append(Cell(study, tuple(parameters.items())))
    return tuple(cells)
