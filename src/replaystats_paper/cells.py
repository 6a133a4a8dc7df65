"""The unit of work: one cell of a figure or table, and the settings that all cells of a run share."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from replaystats.solvers import Solver, parse_solver
from replaystats.toolkit import check_int, check_real, stream

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

    @property
    def parsed_solver(self) -> Solver:
        """The solver that `solver` names."""
        return parse_solver(self.solver)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)


def cell_stream(seed: int, key: str, repetition: int = 0) -> np.random.Generator:
    """Return the generator of one repetition of one cell: it depends on nothing else."""
    return stream(seed, zlib.crc32(key.encode()), repetition)
