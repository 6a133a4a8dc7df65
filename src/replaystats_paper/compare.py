"""Agreement with the published numbers, as numbers.

In the mean over the cells of an algorithm: log(ours / published), with its standard error from the scatter of
the cells. Where all cells share one set of test points, the error of that choice is added; the scatter cannot
show it (see `kernel.run_test_sets_cell`). And cell by cell: each one's distance from the others, in their
scatter. What either comparison could have noticed is said beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm, t as student

from .cells import Cell
from .journal import CellJournal
from .measures import MEASURES, REPLAYED, compared, published_record, quantities
from .policy import ALGORITHMS

# Agreement means within three standard errors, and as much more as it takes where few cells say how large
# a standard error is: what chance passes with this probability.
LIMIT = 3.0
CHANCE = float(2 * norm.sf(LIMIT))
_POWER_80 = 0.8416  # the normal quantile of 80 %

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
    def limit(self) -> float:
        """So many standard errors are passed by chance with the probability `CHANCE`: Student's t.

        The error of the test points is taken as known.

        Examples
        --------
        >>> names = {"algorithm": "lstd", "measure": "rmse", "quantity": "U", "ours": 0.0, "published": 0.0}
        >>> [round(Agreement(**names, n_cells=n, standard_error=0.1).limit, 2) for n in (6, 36, 1000)]
        [5.51, 3.23, 3.01]
        """
        if self.n_cells < 2 or not self.standard_error > 0:
            return LIMIT
        degrees = (self.n_cells - 1) * (self.total_error / self.standard_error) ** 4
        return float(student.isf(CHANCE / 2, degrees))

    @property
    def agrees(self) -> bool:
        """Whether the difference is within `limit` standard errors; so it is where nobody knows them."""
        return not abs(self.z) > self.limit

    @property
    def factor(self) -> float:
        """Ours / published, where logs are compared."""
        return math.exp(self.difference)

    @property
    def detectable(self) -> float:
        """The true difference that would have been noticed with a probability of 80 %."""
        return (self.limit + _POWER_80) * self.total_error


@dataclass(frozen=True, slots=True, kw_only=True)
class CellAgreement:
    """One cell beside the other cells of its algorithm.

    Attributes
    ----------
    algorithm, measure, quantity, key : str
    difference : float
        Ours less published, in logs or shares.
    t : float
        Its distance from the mean of the other cells, in their scatter: Student's t with n_cells - 2 degrees.
    p : float
        Two-sided probability of a larger one.
    detectable : float
        The departure of one cell that would have been noticed with a probability of 80 %, at three standard
        deviations.
    """

    algorithm: str
    measure: str
    quantity: str
    key: str
    difference: float
    t: float
    p: float
    detectable: float


def compare_algorithm(
    algorithm: str, cells: Iterable[tuple[Cell, str]], journal: CellJournal
) -> list[Agreement]:
    """Return every comparison for one algorithm, in the mean over its cells.

    Parameters
    ----------
    algorithm : str
        Name under which the comparisons are reported.
    cells : iterable of (Cell, str)
        Cells, and whose results of the cell are meant.
    journal : CellJournal
        With the results of those cells.
    """
    keys, gaps = _all_gaps(cells, journal)
    if len(keys) < 2:
        return []
    errors = _test_points_errors(algorithm, journal)
    return [
        mean_agreement(algorithm, measure, quantity, ours, theirs, errors.get((measure, quantity), 0.0))
        for (measure, quantity), (ours, theirs) in gaps.items()
    ]


def mean_agreement(
    algorithm: str,
    measure: str,
    quantity: str,
    ours: np.ndarray,
    theirs: np.ndarray,
    test_points_error: float = 0.0,
) -> Agreement:
    """Return the comparison of two rows of numbers, (cells,) each, in the mean."""
    gaps = ours - theirs
    error = float(gaps.std(ddof=1) / math.sqrt(len(gaps))) if len(gaps) > 1 else math.nan
    return Agreement(
        algorithm=algorithm,
        measure=measure,
        quantity=quantity,
        n_cells=len(gaps),
        ours=float(ours.mean()),
        published=float(theirs.mean()),
        standard_error=error,
        test_points_error=test_points_error,
    )


def compare_each_cell(
    algorithm: str, cells: Iterable[tuple[Cell, str]], journal: CellJournal
) -> list[CellAgreement]:
    """Return the comparisons of medians and reductions of one algorithm, cell by cell.

    Parameters are those of `compare_algorithm`.

    Examples
    --------
    With nothing computed there is nothing to compare:

    >>> from pathlib import Path; from tempfile import TemporaryDirectory; from .cells import Settings
    >>> with TemporaryDirectory() as folder, CellJournal(Path(folder), Settings()) as journal:
    ...     compare_each_cell("lstd", [], journal)
    []
    """
    keys, gaps = _all_gaps(cells, journal)
    n = len(keys)
    found: list[CellAgreement] = []
    for (measure, quantity), (ours, theirs) in gaps.items() if n >= 4 else ():
        if ">" in quantity:  # shares close to all: a single cell has no scatter to be judged by
            continue
        gap = ours - theirs
        # Mean and scatter of the n - 1 others, for every cell at once.
        mean = (gap.sum() - gap) / (n - 1)
        variance = (gap.var() * n - (gap - gap.mean()) ** 2 * n / (n - 1)) / (n - 2)
        spread = np.sqrt(np.maximum(variance, 0.0) * n / (n - 1))
        t = (gap - mean) / spread
        p = 2 * student.sf(np.abs(t), n - 2)
        found += [
            CellAgreement(
                algorithm=algorithm, measure=measure, quantity=quantity, key=keys[i],
                difference=float(gap[i]), t=float(t[i]), p=float(p[i]), detectable=float((LIMIT + _POWER_80) *
                spread[i]),
            )
            for i in range(n)
        ]  # fmt: skip
    return found


def _all_gaps(
    cells: Iterable[tuple[Cell, str]], journal: CellJournal
) -> tuple[list[str], dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]]:
    """Return the keys of the cells, and ours and published, (cells,) each, by measure and quantity."""
    keys: list[str] = []
    pairs: list[Pair] = []
    for cell, whose in cells:
        record = published_record(cell, whose)
        if record is not None and cell.key in journal.lines:
            keys.append(cell.key)
            pairs.append((journal.results(cell.key)[whose], record))
    gaps: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}
    for measure in MEASURES if pairs else ():
        ours = [quantities(result, measure) for result, _ in pairs]
        theirs = [_published_quantities(record[measure]) for _, record in pairs]
        for name in ours[0]:
            gaps[measure, name] = np.array([o[name] for o in ours]), np.array([t[name] for t in theirs])
    return keys, gaps


def _published_quantities(summary: dict[str, Any]) -> dict[str, float]:
    return compared(summary["median"], {method: summary[method]["frac_pos"] for method in REPLAYED})


def _test_points_errors(algorithm: str, journal: CellJournal) -> dict[tuple[str, str], float]:
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


GROUPS = {
    "lstd": "LSTD",
    "phibe1": "PhiBE, order 1",
    "phibe2": "PhiBE, order 2",
    "kernel": "Kernel ridge, simulated",
    "boston": "Kernel ridge, Boston",
}


def groups_of(cell: Cell) -> list[tuple[str, str]]:
    """Return the (group, whose results) of a cell; none for cells without distributions."""
    if cell.study == "policy":
        return [(algorithm, algorithm) for algorithm in ALGORITHMS]
    return [(cell.study, "krr")] if cell.study in ("kernel", "boston") else []
