"""What a result is measured by, ours and as published, and the verdicts that use it.

The paper's measures: variance per test point, RMSE per repetition, and their differences. The published
summaries, one record per cell and algorithm, and where they differ from the paper's text. The finished cells
that a claim is judged on, and the four things that may be said of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from replaystats.toolkit import FloatArray

from .cells import Cell
from .journal import CellJournal

METHODS = ("plain", "U", "V")
MEASURES = ("variance", "rmse")
REPLAYED = ("U", "V")
BAND = (0.025, 0.975)


def summarise(predictions: FloatArray, truth: FloatArray) -> dict[str, dict[str, list[float]]]:
    """Reduce predictions to what the figures show.

    Parameters
    ----------
    predictions : ndarray of shape (3, M, m)
        By method (plain, U, V), repetition and test point. A repetition that failed is NaN and takes no part.
    truth : ndarray of shape (m,)

    Returns
    -------
    dict
        For each measure and method: "variance", "mean", "low" and "high" (m numbers, the last two the
        pointwise 2.5 and 97.5 % quantiles) and "rmse" (M numbers).
    """
    methods = {method: measure(predictions[i], truth) for i, method in enumerate(METHODS)}
    return {name: {m: found[name] for m, found in methods.items()} for name in methods["plain"]}


def measure(predictions: FloatArray, truth: FloatArray) -> dict[str, list[float]]:
    """Reduce the predictions (M, m) of one method to what `summarise` returns for each."""
    good = predictions[np.isfinite(predictions).all(axis=1)]
    if len(good) < 2:
        good = np.full((2, predictions.shape[1]), np.nan)
    low, high = np.quantile(good, BAND, axis=0)
    return {
        "rmse": rmse(predictions, truth).tolist(),
        "variance": good.var(axis=0, ddof=1).tolist(),
        "mean": good.mean(axis=0).tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
    }


def rmse(predictions: FloatArray, truth: FloatArray) -> FloatArray:
    """Return the root mean squared error over the last axis."""
    return np.asarray(np.sqrt(np.mean((predictions - truth) ** 2, axis=-1)))


def differences(results: dict[str, Any], measure: str, method: str) -> FloatArray:
    """Return plain minus replayed, over test points ("variance") or repetitions ("rmse"); finite ones."""
    gap = np.asarray(results[measure]["plain"], float) - np.asarray(results[measure][method], float)
    return np.asarray(gap[np.isfinite(gap)])


def median_of(results: dict[str, Any], measure: str, method: str) -> float:
    """Return the median over test points ("variance") or repetitions ("rmse")."""
    values = np.asarray(results[measure][method], float)
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else np.nan


def compared(medians: Mapping[str, float], positive: Mapping[str, float]) -> dict[str, float]:
    """Return what is compared with published numbers: logs of medians, reductions, shares of differences.

    Examples
    --------
    >>> compared({"plain": 1.0, "U": 1.0, "V": 1.0}, {"U": 0.9, "V": 0.8})
    {'plain': 0.0, 'U': 0.0, 'V': 0.0, 'U/plain': 0.0, 'V/plain': 0.0, 'U > 0': 0.9, 'V > 0': 0.8}
    """
    logs = {method: float(np.log(medians[method])) for method in METHODS}
    reductions = {f"{method}/plain": logs[method] - logs["plain"] for method in REPLAYED}
    return logs | reductions | {f"{method} > 0": positive[method] for method in REPLAYED}


def quantities(results: dict[str, Any], measure: str) -> dict[str, float]:
    """Return what is compared of our results of a cell."""
    medians = {method: median_of(results, measure, method) for method in METHODS}
    shares = {method: float((differences(results, measure, method) > 0).mean()) for method in REPLAYED}
    return compared(medians, shares)


def squared_iqr(predictions: FloatArray) -> FloatArray:
    """Return the squared interquartile range over repetitions (axis -2): a spread that always exists."""
    quantile = np.quantile if np.isfinite(predictions).all() else np.nanquantile  # the latter is a loop
    q25, q75 = quantile(predictions, [0.25, 0.75], axis=-2)
    return np.asarray((q75 - q25) ** 2)


# Study here -> name of the experiment in the published files.
_NAMES = {"policy": "rl", "kernel": "krr", "boston": "boston"}

# Tables 1 and 2 as printed: t - t_U and t - t_V in seconds by (B, n of the row as printed, k).
# The rows printed as n = 200 and 250 are those of n = 150 and 200, as the published times show.
PRINTED_ROWS = {150: 200, 200: 250}
PRINTED_SAVINGS = {
    (50, 200, 10): (0.369, 0.323),
    (50, 200, 15): (0.335, 0.272),
    (50, 200, 20): (0.108, 0.110),
    (50, 250, 10): (3.005, 2.905),
    (50, 250, 15): (2.850, 2.804),
    (50, 250, 20): (2.954, 2.848),
    (25, 200, 10): (1.279, 1.118),
    (25, 200, 15): (1.139, 1.105),
    (25, 200, 20): (0.968, 1.018),
    (25, 250, 10): (3.792, 3.811),
    (25, 250, 15): (3.658, 3.620),
    (25, 250, 20): (3.473, 3.449),
}


def published_record(cell: Cell, algorithm: str) -> dict[str, Any] | None:
    """Return the published summary of a cell, or None where the authors' files have none.

    For each measure: "median" and "mean" by method; and for U and for V what its differences from plain are
    like.

    Examples
    --------
    >>> record = published_record(Cell("policy", (("n", 500), ("B", 100), ("k", 150))), "lstd")
    >>> round(record["variance"]["median"]["plain"], 2)
    21.64
    """
    if cell.study not in _NAMES:
        return None
    return _records().get((_NAMES[cell.study], algorithm, cell["n"], cell["B"], cell["k"]))


def published_medians(experiment: str) -> list[dict[str, Any]]:
    """Return the published medians of an experiment ("rl", "krr", "boston") as a study compares them.

    Examples
    --------
    >>> published_medians("krr")[0]  # doctest: +ELLIPSIS
    {'n': 100, 'B': 25, 'k': 10, 'estimator': 'krr plain', 'measure': 'variance', 'value': 0.0352...}
    """
    return [
        {
            **{name: record[name] for name in ("n", "B", "k")},
            "estimator": f"{record['algorithm']} {method}",
            "measure": measure,
            "value": value,
        }
        for record in _records().values()
        if record["experiment"] == experiment
        for measure in MEASURES
        for method, value in record[measure]["median"].items()
    ]


@lru_cache(maxsize=1)
def _records() -> dict[tuple[Any, ...], dict[str, Any]]:
    text = (resources.files(__package__) / "published.json").read_text(encoding="utf-8")
    return {tuple(r[key] for key in ("experiment", "algorithm", "n", "B", "k")): r for r in json.loads(text)}


HOLDS = "holds"
IN_PART = "holds in part"
FAILS = "does not hold"
UNDECIDED = "undecided"
# Of a quick run whose cells decide otherwise than all of them.
NEEDS_FULL = "needs the full run"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim holds.

    Attributes
    ----------
    label : {"holds", "holds in part", "does not hold", "undecided", "needs the full run"}
    reason : str
        The numbers that decided.
    beside : str
        What is worth knowing and did not decide.
    """

    label: str
    reason: str
    beside: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The finished cells that a claim is judged on, by experiment."""

    cells: dict[str, tuple[Cell, ...]]
    algorithms: dict[str, str]
    journal: CellJournal

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
