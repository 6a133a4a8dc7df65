"""What earlier work says about this maze, as pairs of cells, and whether the study finds it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cells import Cell
from .results import QLearningResult
from .rules import Schedule
from .study import CAPACITIES, FULL, QUICK, make_cell


@dataclass(frozen=True, slots=True)
class Ordering:
    """A claim that one cell earns more than another, and what was measured.

    Attributes
    ----------
    claim : str
    gap, error : float
        Return of the better less that of the worse over the last window, and its standard error.

    Examples
    --------
    >>> Ordering("a small memory earns more", 30.0, 5.0).verdict
    'holds'
    """

    claim: str
    gap: float
    error: float

    @property
    def verdict(self) -> str:
        """Say whether the gap is two standard errors above or below 0, or neither."""
        if abs(self.gap) <= 2 * self.error:
            return "undecided"
        return "holds" if self.gap > 0 else "does not hold"


def compare_cells(result: QLearningResult) -> list[Ordering]:
    """Return the orderings that earlier work reports, as far as their cells were run.

    Returns are compared over the last window there is: episodes 61-150, or 31-60 in a quick run.
    """
    window = "early" if result.quick else "late"
    orderings = []
    for claim, better, worse in _claims(QUICK if result.quick else FULL):
        if better.key in result.results and worse.key in result.results:
            high, high_error = result.measure(better, window)
            low, low_error = result.measure(worse, window)
            orderings.append(Ordering(claim, high - low, float(np.hypot(high_error, low_error))))
    return orderings


def _claims(schedule: Schedule) -> list[tuple[str, Cell, Cell]]:
    """Return (claim, the better cell, the worse)."""
    uniform = {n: make_cell(schedule, capacity=n) for n in CAPACITIES}
    combined = {n: make_cell(schedule, capacity=n, sampler="combined") for n in CAPACITIES}
    often = {n: make_cell(schedule, capacity=n, ratio=16) for n in CAPACITIES}
    pairs = ((100, 1000), (100, 10_000), (1000, 10_000), (10_000, 100_000), (1_000_000, 100_000))
    claims = [
        (f"uniform, B = 1: n = {a:,} earns more than n = {b:,}", uniform[a], uniform[b]) for a, b in pairs
    ]
    claims += [
        (f"B = 1, n = {n:,}: combined earns more than uniform", combined[n], uniform[n]) for n in CAPACITIES
    ]
    claims += [
        (f"uniform, B = 16: n = {n:,} earns more than n = 100", often[n], often[100]) for n in CAPACITIES[2:]
    ]
    return claims
