"""Agreement with the published numbers, as numbers.

Over the cells of an algorithm: the mean of log(ours / published), with its standard error from the scatter of
the cells. Where all cells share one set of test points, the error of that choice is added; the scatter cannot
show it (see `held_out`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cells import Cell
from .journal import Journal
from .measures import METHODS, REPLAYED, differences, median_of
from .published import published_record

MEASURES = ("variance", "rmse")
_PUBLISHED_MEDIANS = {"variance": "median_var", "rmse": "median_rmse"}
_PUBLISHED_DIFFERENCES = {"variance": "var_diff", "rmse": "rmse_diff"}
# Agreement means within this many standard errors.
LIMIT = 3.0

Pair = tuple[dict[str, Any], dict[str, Any]]  # our results of a cell, and the published record


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One comparison over the cells of an algorithm.

    Attributes
    ----------
    algorithm, measure : str
        "lstd" ... "boston"; "variance" or "rmse".
    quantity : str
        "plain", "U", "V": the median itself; "U/plain", "V/plain": the reduction; "U > 0", "V > 0": the
        share of positive differences.
    n_cells : int
    ours, published : float
        Means over the cells: of logs, or of shares.
    standard_error : float
        From the scatter of the cells.
    test_points_error : float
        Error from the one set of test points on either side; 0 where the test points are not random.
    """

    algorithm: str
    measure: str
    quantity: str
    n_cells: int
    ours: float
    published: float
    standard_error: float
    test_points_error: float = 0.0

    @property
    def difference(self) -> float:
        """Mean log ratio ours / published, or difference of shares."""
        return self.ours - self.published

    @property
    def total_error(self) -> float:
        """Both errors together."""
        return math.hypot(self.standard_error, self.test_points_error)

    @property
    def z(self) -> float:
        """Difference in standard errors; 0 when both agree exactly."""
        if self.difference == 0.0:
            return 0.0
        return self.difference / self.total_error if self.total_error > 0 else math.inf

    @property
    def agrees(self) -> bool:
        """Whether the difference is within `LIMIT` standard errors."""
        return abs(self.z) <= LIMIT


def compare_algorithm(algorithm: str, cells: Iterable[tuple[Cell, str]], journal: Journal) -> list[Agreement]:
    """Return every comparison for one algorithm.

    Parameters
    ----------
    algorithm : str
        Name under which the comparisons are reported.
    cells : iterable of (Cell, str)
        Cells, and whose results of the cell are meant.
    journal : Journal
        With the results of those cells.
    """
    pairs = []
    for cell, whose in cells:
        record = published_record(cell, whose)
        if record is not None and cell.key in journal.lines:
            pairs.append((journal.results(cell.key)[whose], record))
    if len(pairs) < 2:
        return []
    test_errors = _test_points_errors(algorithm, journal)
    comparisons = []
    for measure in MEASURES:
        comparisons += _medians(algorithm, measure, pairs, test_errors)
        comparisons += _shares(algorithm, measure, pairs, test_errors)
    return comparisons


def _medians(
    algorithm: str,
    measure: str,
    pairs: Sequence[Pair],
    test_errors: dict[tuple[str, str], float],
) -> list[Agreement]:
    name = _PUBLISHED_MEDIANS[measure]
    ours = {method: _logs(median_of(result, measure, method) for result, _ in pairs) for method in METHODS}
    theirs = {method: _logs(record[name][method] for _, record in pairs) for method in METHODS}
    for method in REPLAYED:
        ours[f"{method}/plain"] = ours[method] - ours["plain"]
        theirs[f"{method}/plain"] = theirs[method] - theirs["plain"]
    return [
        _compared(algorithm, measure, quantity, ours[quantity], theirs[quantity],
                  test_errors.get((measure, quantity), 0.0))
        for quantity in ours
    ]  # fmt: skip


def _shares(
    algorithm: str,
    measure: str,
    pairs: Sequence[Pair],
    test_errors: dict[tuple[str, str], float],
) -> list[Agreement]:
    comparisons = []
    for method in REPLAYED:
        name = f"{_PUBLISHED_DIFFERENCES[measure]}_{method}"
        ours = np.array([float((differences(result, measure, method) > 0).mean()) for result, _ in pairs])
        theirs = np.array([record[name]["frac_pos"] for _, record in pairs])
        quantity = f"{method} > 0"
        error = test_errors.get((measure, quantity), 0.0)
        comparisons.append(_compared(algorithm, measure, quantity, ours, theirs, error))
    return comparisons


def _compared(
    algorithm: str, measure: str, quantity: str, ours: np.ndarray, theirs: np.ndarray, test_error: float
) -> Agreement:
    gap = ours - theirs
    return Agreement(
        algorithm=algorithm,
        measure=measure,
        quantity=quantity,
        n_cells=len(gap),
        ours=float(ours.mean()),
        published=float(theirs.mean()),
        standard_error=float(gap.std(ddof=1) / math.sqrt(len(gap))),
        test_points_error=test_error,
    )


def _logs(values: Iterable[float]) -> np.ndarray:
    return np.log(np.fromiter(values, dtype=np.float64))


def _test_points_errors(algorithm: str, journal: Journal) -> dict[tuple[str, str], float]:
    """Return the error that two independent sets of test points put into each comparison."""
    data = {"kernel": "simulated", "boston": "boston"}.get(algorithm)
    lines = [
        line["results"] for key, line in journal.lines.items() if key.startswith(f"testsets data={data} ")
    ]
    if not lines:
        return {}
    errors = {}
    for measure in MEASURES:
        for quantity in lines[0][measure]:
            values = np.array([line[measure][quantity] for line in lines])  # (n of the cells, test sets)
            errors[measure, quantity] = math.sqrt(2.0 * float(values.var(axis=1, ddof=1).mean()))
    return errors
