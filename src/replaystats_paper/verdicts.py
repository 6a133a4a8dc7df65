"""A plain verdict for each experiment, computed from the numbers of the run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replaystats.toolkit import percent, significant

from .catalogue import Experiment
from .cells import Cell
from .journal import Journal
from .measures import REPLAYED, differences, median_of
from .scaling import fitted_exponent

HOLDS = "holds"
ONLY_PSEUDO_INVERSE = "holds only with the pseudo-inverse"
FAILS = "does not hold"
# A claim of "all" is called true in substance from this share on; the exceptions are stated beside it.
SUBSTANTIALLY_ALL = 0.9


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim holds, and the sentence that says why."""

    label: str
    reason: str


def judge(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Verdict | None:
    """Return the verdict on an experiment, or None where the paper makes no claim."""
    rule = _RULES.get(experiment.view)
    return None if rule is None else rule(experiment, cells, journal)


def whose(experiment: Experiment) -> str:
    """Return under which name a cell keeps the results that the experiment shows."""
    return experiment.algorithm or "krr"


def _variance(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Verdict:
    results = _results(experiment, cells, journal)
    shares = {m: _pooled_share(results, "variance", m) for m in REPLAYED}
    clean = {m: sum(bool((differences(r, "variance", m) > 0).all()) for r in results) for m in REPLAYED}
    ratios = np.array([
        [median_of(r, "variance", m) / median_of(r, "variance", "plain") for m in REPLAYED] for r in results
    ])  # fmt: skip
    reason = (
        f"Above 0 at {percent(shares['U'])} (U) and {percent(shares['V'])} (V) of the test points, at all of "
        f"them in {clean['U']} and {clean['V']} of {len(cells)} cells. The median variance is "
        f"{_range(ratios.ravel())} times the plain one."
    )
    needed_share, needed_cells = (SUBSTANTIALLY_ALL, 1.0) if experiment.demand == "all" else (0.5, 0.5)
    holds = min(shares.values()) >= needed_share and (ratios < 1).mean(axis=0).min() >= needed_cells
    return _with_plain_inverse(experiment, journal, holds, reason, "iqr2", "squared interquartile range")


def _rmse(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Verdict:
    results = _results(experiment, cells, journal)
    # With noisy test targets the luck of their draw decides; errors against the function are free of it.
    measure = "rmse_true" if "rmse_true" in results[0] else "rmse"
    shares, errors = _shares(results, measure)
    better = {m: sum(float(np.median(differences(r, measure, m))) > 0 for r in results) for m in REPLAYED}
    reason = (
        f"The error is smaller in {percent(shares['U'])} ± {percent(errors['U'])} (U) and "
        f"{percent(shares['V'])} ± {percent(errors['V'])} (V) of the repetitions; its median difference is "
        f"above 0 in {better['U']} and {better['V']} of {len(cells)} cells."
    )
    if measure == "rmse_true":
        noisy, _ = _shares(results, "rmse")
        reason += (
            " These errors are against the true function; against the noisy test targets of the paper the "
            f"shares are {percent(noisy['U'])} and {percent(noisy['V'])}, which depend on their draw."
        )
    holds = all(shares[m] - 3 * errors[m] > 0.5 for m in REPLAYED)
    return _with_plain_inverse(experiment, journal, holds, reason, "rmse", "RMSE")


def _value(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Verdict:
    results = _results(experiment, cells, journal)[0]
    widths = {m: np.asarray(results["high"][m]) - np.asarray(results["low"][m]) for m in ("plain", *REPLAYED)}
    ratio = {m: float(np.median(widths[m] / widths["plain"])) for m in REPLAYED}
    narrower = {m: float((widths[m] < widths["plain"]).mean()) for m in REPLAYED}
    reason = (
        f"The 95 % bands of U and V are {_range(ratio.values())} times as wide as the plain one (median "
        f"over the grid), narrower at {percent(narrower['U'])} and {percent(narrower['V'])} of the points."
    )
    holds = max(ratio.values()) < 1 and min(narrower.values()) >= SUBSTANTIALLY_ALL
    return _with_plain_inverse(experiment, journal, holds, reason, "iqr2", "squared interquartile range")


def _time(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Verdict:
    times = [journal.results(cell.key)["fit_and_predict"] for cell in cells]
    factors = [time[m] / time["plain"] for time in times for m in REPLAYED]
    faster = sum(factor < 1 for factor in factors)
    reason = (
        f"With lean code, prediction included, replay is faster in {faster} of {len(factors)} comparisons "
        f"and takes {_range(factors)} times as long as the full fit."
    )
    return Verdict(HOLDS if faster == len(factors) else FAILS, reason)


def _scaling(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> Verdict:
    full, cheapest = (
        [(cell["n"], journal.results(cell.key)) for cell in cells if cell["method"] == method]
        for method in ("full", "cheapest")
    )
    exponents = [
        fitted_exponent([n for n, _ in points], [result["seconds"] for _, result in points])
        for points in (full, cheapest)
    ]
    n, largest = full[-1]
    time, error = (cheapest[-1][1][name] / largest[name] for name in ("seconds", "rmse"))
    reason = (
        f"Measured exponents: {exponents[0]:.1f} for the full fit, {exponents[1]:.1f} for replay with "
        f"(B, k, q) = (n^13/8, n^1/8, n^1/8). At n = {n} that replay takes {significant(time, 2)} times as "
        f"long as the full fit and has {significant(error, 2)} times its error."
    )
    # The claim is about the exponent; what it costs in time and accuracy is said beside it.
    return Verdict(HOLDS if exponents[1] < exponents[0] else FAILS, reason)


def _range(values: Iterable[float]) -> str:
    ordered = sorted(values)
    low, high = significant(ordered[0], 2), significant(ordered[-1], 2)
    return low if low == high else f"{low} to {high}"


def _results(experiment: Experiment, cells: Sequence[Cell], journal: Journal) -> list[dict[str, Any]]:
    return [journal.results(cell.key)[whose(experiment)] for cell in cells]


def _shares(results: Sequence[dict[str, Any]], measure: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the share of positive differences over the cells, with its standard error from their scatter."""
    shares, errors = {}, {}
    for method in REPLAYED:
        per_cell = np.array([(differences(r, measure, method) > 0).mean() for r in results])
        shares[method] = float(per_cell.mean())
        errors[method] = float(per_cell.std(ddof=1) / math.sqrt(len(per_cell))) if len(per_cell) > 1 else 0.5
    return shares, errors


def _with_plain_inverse(
    experiment: Experiment, journal: Journal, holds: bool, reason: str, measure: str, name: str
) -> Verdict:
    """Qualify a claim that holds by what a plain inverse makes of the same data and subsets."""
    ratios = list(_plain_inverse_ratios(experiment.algorithm, journal, measure))
    if not ratios:
        return Verdict(HOLDS if holds else FAILS, reason)
    reason += (
        " With the plain inverse in place of the pseudo-inverse, on equal data and subsets, "
        f"replay multiplies the median {name} by {_range(ratios)}."
    )
    if not holds:
        return Verdict(FAILS, reason)
    return Verdict(HOLDS if max(ratios) < 1 else ONLY_PSEUDO_INVERSE, reason)


def _plain_inverse_ratios(algorithm: str, journal: Journal, measure: str) -> Iterable[float]:
    """Yield replayed / plain with rcond = 0, for every size at which the inverses were compared."""
    for key, line in journal.lines.items():
        if key.startswith("ablation") and "setting=paper" in key and algorithm in line["results"]:
            row: dict[str, Any] = line["results"][algorithm]["rcond=0"][measure]
            for method in REPLAYED:
                yield row[method] / row["plain"]


def _pooled_share(results: Sequence[dict[str, Any]], measure: str, method: str) -> float:
    return float(np.mean(np.concatenate([differences(r, measure, method) for r in results]) > 0))


_RULES = {"variance": _variance, "rmse": _rmse, "value": _value, "time": _time, "scaling": _scaling}
