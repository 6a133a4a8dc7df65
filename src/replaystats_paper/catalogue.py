"""One named experiment per figure and table, read from `experiments.toml`."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from replaystats.toolkit import check_choice, must_be

from .cells import Cell, Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A figure or table of the paper, or a measurement that belongs beside them.

    Attributes
    ----------
    name, title, paper : str
        What to type, what it is, and where the paper has it.
    view : str
        How its cells are shown: value, variance, rmse, time, map, scaling, really or support.
    algorithm : str
        Whose results of a cell are shown; "" for cells with one algorithm.
    repetitions : int
        The published M.
    cells, quick_cells : tuple of Cell
        The published grid, and the part of it that ``--quick`` runs.
    """

    name: str
    title: str
    paper: str
    view: str
    algorithm: str
    repetitions: int
    cells: tuple[Cell, ...]
    quick_cells: tuple[Cell, ...]

    def chosen_repetitions(self, wanted: int | None) -> int:
        """Return M as published, or as wanted where repetitions are the data sets of a figure."""
        return (
            self.repetitions
            if wanted is None or self.view in ("time", "scaling", "map", "rates", "features", "support")
            else wanted
        )

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
    """Return the named experiments; none, or "all", means every one.

    Examples
    --------
    >>> find_experiments(["rmse-kernel"])
    [Experiment(rmse-kernel, 36 cells, Figure 14)]
    """
    catalogue = load_catalogue()
    if not names or "all" in names:
        return list(catalogue.values())
    for name in names:
        check_choice(name, "NAME", ["all", *catalogue])
    return [experiment for name, experiment in catalogue.items() if name in names]


def _read(name: str, config: Mapping[str, Any]) -> Experiment:
    grid = config["grid"]
    return Experiment(
        name=name,
        title=config["title"],
        paper=config["paper"],
        view=config["view"],
        algorithm=config.get("algorithm", ""),
        repetitions=config.get("repetitions", 1),
        cells=_expand(config, grid),
        quick_cells=_expand(config, {**grid, **config.get("quick", {})}),
    )


def _expand(config: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]) -> tuple[Cell, ...]:
    """Return one cell per combination; a share of n becomes k, and a slow method stops at its largest n."""
    largest = config.get("largest_n", {})
    names = list(grid)
    cells = []
    for values in itertools.product(*grid.values()):
        parameters: dict[str, Parameter] = dict(zip(names, values, strict=True))
        if "share" in parameters:
            share = float(parameters.pop("share"))
            if not 0 < share <= 1:
                raise ValueError(must_be("share", "in (0, 1]", share))
            parameters["k"] = round(share * int(parameters["n"]))
        if parameters.get("method") in largest and parameters["n"] > largest[parameters["method"]]:
            continue
        cells.append(Cell(config["study"], tuple(parameters.items())))
    return tuple(cells)
