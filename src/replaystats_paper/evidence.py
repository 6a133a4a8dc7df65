"""Verdicts, and the finished cells that they rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .cells import Cell
from .journal import Journal
from .published import published_record

HOLDS = "holds"
IN_PART = "holds in part"
FAILS = "does not hold"
UNDECIDED = "undecided"
IN_PART_RULE = " In part: exceptions are fewer than half."


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim holds.

    Attributes
    ----------
    label : {"holds", "holds in part", "does not hold", "undecided"}
    reason : str
        The numbers that decided.
    rule : str
        What the words of the claim were taken to mean.
    beside : str
        What is worth knowing and did not decide.
    """

    label: str
    reason: str
    rule: str
    beside: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The finished cells that a claim is judged on, by experiment."""

    cells: dict[str, tuple[Cell, ...]]
    algorithms: dict[str, str]
    journal: Journal

    @property
    def first(self) -> str:
        """The experiment under which the verdict stands."""
        return next(iter(self.cells))

    def results(self, name: str) -> list[dict[str, Any]]:
        """Return the results that an experiment shows, one per cell."""
        whose = self.algorithms[name]
        return [self.journal.results(cell.key)[whose] for cell in self.cells[name]]

    def records(self, name: str) -> list[dict[str, Any]]:
        """Return the published records of an experiment, as far as its cells have one."""
        found = (published_record(cell, self.algorithms[name]) for cell in self.cells[name])
        return [record for record in found if record is not None]


def of_all(exceptions: int, total: int) -> str:
    """Return the label of a claim about all of `total` comparisons.

    Examples
    --------
    >>> of_all(0, 36), of_all(17, 36), of_all(18, 36)
    ('holds', 'holds in part', 'does not hold')
    """
    if exceptions == 0:
        return HOLDS
    return IN_PART if 2 * exceptions < total else FAILS
