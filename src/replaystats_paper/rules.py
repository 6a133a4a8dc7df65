"""The rules by which claims about variances and errors are judged, each with its own words beside it.

A rule is what the claim's own words say, and every quantifier is read in one way, whatever the claim: what is
said of "all", "consistently" or "no" holds without exception, holds in part where exceptions are fewer than
half, and does not hold otherwise; "generally" and "tends to" are about most. Where noise decides, a claim is
undecided. What else is worth knowing stands beside a verdict and does not change it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from replaystats.toolkit import FloatArray, percent, significant

from .measures import (
    FAILS,
    HOLDS,
    IN_PART,
    METHODS,
    REPLAYED,
    UNDECIDED,
    Evidence,
    Verdict,
    differences,
    median_of,
    of_all,
)
from .policy import GRID

# A decision by a mean needs this many standard errors.
CLEAR = 3.0
# Medians that differ by less are not "major" differences.
MAJOR = 1.1
# "Substantial": the variance falls by a fifth at least.
SUBSTANTIAL = 0.8


def bands(evidence: Evidence) -> Verdict:
    """Judge a claim about the bands of a value function."""
    results = evidence.results(evidence.first)[0]
    width = {m: np.asarray(results["high"][m]) - np.asarray(results["low"][m]) for m in METHODS}
    ratio = {m: float(np.median(width[m] / width["plain"])) for m in REPLAYED}
    wider = {m: int((width[m] >= width["plain"]).sum()) for m in REPLAYED}
    inside = {m: _holding_truth(results, m) for m in METHODS}
    reason = (
        f"The bands of U and V are {_range(ratio.values())} times as wide as the plain one (median over the "
        f"grid), not narrower at {wider['U']} and {wider['V']} of {len(GRID)} points."
    )
    beside = (
        f"They hold the truth at {percent(inside['plain'])} (plain), {percent(inside['U'])} (U), "
        f"{percent(inside['V'])} (V) of the grid. {_plain_inverse(evidence, 'iqr2')}"
    )
    return Verdict(of_all(sum(wider.values()), 2 * len(GRID)), reason, beside)


def _holding_truth(results: dict[str, Any], method: str) -> float:
    """Return the share of the grid at which a band holds the truth."""
    low, high = np.asarray(results["low"][method]), np.asarray(results["high"][method])
    truth = np.cos(GRID) ** 3
    return float(((low <= truth) & (truth <= high)).mean())


def every_point(evidence: Evidence) -> Verdict:
    """Judge "above 0 at all test points, in all settings"."""
    results = evidence.results(evidence.first)
    below = {m: [int((differences(r, "variance", m) <= 0).sum()) for r in results] for m in REPLAYED}
    n_points = sum(differences(r, "variance", "U").size for r in results)
    touched = {m: sum(count > 0 for count in below[m]) for m in REPLAYED}
    reason = (
        f"At or below 0: {sum(below['U'])} (U) and {sum(below['V'])} (V) of {n_points} differences, in "
        f"{touched['U']} and {touched['V']} of {len(results)} cells"
        f"{_published_exceptions(evidence)}. The median variance is "
        f"{_range(_ratios(results, 'variance').ravel())} times the plain one."
    )
    label = of_all(sum(map(sum, below.values())), 2 * n_points)
    return Verdict(label, reason, _plain_inverse(evidence, "iqr2"))


def every_setting(evidence: Evidence) -> Verdict:
    """Judge "the variance falls across all settings"."""
    ratios, reason = _settings(evidence)
    return Verdict(of_all(int((ratios >= 1).sum()), ratios.size), reason)


def most_settings(evidence: Evidence) -> Verdict:
    """Judge "the variance generally falls"."""
    ratios, reason = _settings(evidence)
    return Verdict(HOLDS if (ratios < 1).mean(axis=0).min() > 0.5 else FAILS, reason)


def _settings(evidence: Evidence) -> tuple[FloatArray, str]:
    results = evidence.results(evidence.first)
    ratios = _ratios(results, "variance")
    shares = {m: _pooled_share(results, "variance", m) for m in REPLAYED}
    reason = (
        f"The median variance falls in {(ratios[:, 0] < 1).sum()} (U) and {(ratios[:, 1] < 1).sum()} (V) of "
        f"{len(results)} cells; it is {_range(ratios.ravel())} times the plain one. Single test points: "
        f"above 0 at {percent(shares['U'])} and {percent(shares['V'])}{_published_exceptions(evidence)}."
    )
    return ratios, reason


def every_median(evidence: Evidence) -> Verdict:
    """Judge "consistently" or "in all settings" about errors."""
    results, records = evidence.results(evidence.first), evidence.records(evidence.first)
    medians = {m: np.array([np.median(differences(r, "rmse", m)) for r in results]) for m in REPLAYED}
    below = {m: int((medians[m] <= 0).sum()) for m in REPLAYED}
    theirs = {m: sum(r[f"rmse_diff_{m}"]["median"] <= 0 for r in records) for m in REPLAYED}
    reason = (
        f"At or below 0 in {below['U']} (U) and {below['V']} (V) of {len(results)} cells"
        f"{_and_published(theirs, len(records))}. Medians run from {_signed(medians)}."
    )
    beside = _plain_inverse(evidence, "rmse")
    if "rmse_true" in results[0]:
        true = {m: [float(np.median(differences(r, "rmse_true", m))) for r in results] for m in REPLAYED}
        worse = sum(value <= 0 for values in true.values() for value in values)
        beside += (
            "The paper's errors contain the noise of 100 test targets that all cells share, so that their "
            f"draw decides; against the true function {worse} of {2 * len(results)} medians are at or below "
            "0."
        )
    label = of_all(sum(below.values()), 2 * len(results))
    return Verdict(label, reason, beside)


def tends_to(evidence: Evidence) -> Verdict:
    """Judge "tends to achieve smaller errors"."""
    results, records = evidence.results(evidence.first), evidence.records(evidence.first)
    shares, errors = _shares(results, "rmse")
    below = {m: sum(float(np.median(differences(r, "rmse", m))) <= 0 for r in results) for m in REPLAYED}
    theirs = {m: sum(r[f"rmse_diff_{m}"]["median"] <= 0 for r in records) for m in REPLAYED}
    reason = (
        f"Smaller in {percent(shares['U'])} ± {percent(errors['U'])} (U) and {percent(shares['V'])} ± "
        f"{percent(errors['V'])} (V) of the repetitions; the median difference is at or below 0 in "
        f"{below['U']} and {below['V']} of {len(results)} cells{_and_published(theirs, len(records))}."
    )
    clear = all(shares[m] - CLEAR * errors[m] > 0.5 for m in REPLAYED)
    against = any(shares[m] + CLEAR * errors[m] < 0.5 for m in REPLAYED)
    label = HOLDS if clear else FAILS if against else UNDECIDED
    return Verdict(label, reason, _plain_inverse(evidence, "rmse"))


def shrinks(evidence: Evidence) -> Verdict:
    """Judge "the differences become small as n increases; the reduction remains substantial"."""
    falls, last = [], []
    for name in evidence.cells:
        by_panel: dict[tuple[int, float], list[tuple[int, dict[str, Any]]]] = {}
        for cell, result in zip(evidence.cells[name], evidence.results(name), strict=True):
            by_panel.setdefault((cell["B"], round(cell["k"] / cell["n"], 3)), []).append((cell["n"], result))
        for rows in by_panel.values():
            (_, small), (_, large) = min(rows, key=lambda r: r[0]), max(rows, key=lambda r: r[0])
            for m in REPLAYED:
                gap = [float(np.median(differences(r, "variance", m))) for r in (small, large)]
                falls.append(gap[1] < gap[0])
                last.append(median_of(large, "variance", m) / median_of(large, "variance", "plain"))
    good = [fell and ratio < SUBSTANTIAL for fell, ratio in zip(falls, last, strict=True)]
    reason = (
        f"The median difference falls from the smallest to the largest n in {sum(falls)} of {len(falls)} "
        f"panels; at the largest n the median variance is {_range(last)} times the plain one. Both in "
        f"{sum(good)} panels."
    )
    return Verdict(of_all(len(good) - sum(good), len(good)), reason)


def larger_reduction(evidence: Evidence) -> Verdict:
    """Judge "the second-order method achieves a greater percentage reduction"."""
    ratios = {name: np.log(_ratios(evidence.results(name), "variance")) for name in evidence.cells}
    second = ratios["variance-phibe2"]
    clear, against, parts = [], [], []
    for name, label in (("variance-lstd", "LSTD"), ("variance-phibe1", "order 1")):
        gap = second - ratios[name]  # (cells, methods); negative: order 2 is reduced more
        for i, m in enumerate(REPLAYED):
            mean, error = _mean_error(gap[:, i])
            clear.append(mean + CLEAR * error < 0)
            against.append(mean - CLEAR * error > 0)
            parts.append(
                f"{math.exp(mean):.2f} (log ± {error:.2f}) against {label}, {m}, "
                f"in {int((gap[:, i] < 0).sum())} of {len(gap)} cells"
            )
    reason = "Ratio of order 2 to the other's ratio: " + "; ".join(parts) + "."
    if any(against):
        return Verdict(FAILS, reason)
    return Verdict(HOLDS if all(clear) else IN_PART if any(clear) else UNDECIDED, reason)


def more_accurate(evidence: Evidence) -> Verdict:
    """Judge "without replay, PDE is more accurate, with narrower bands" on the cells of Figure 1."""
    pde, lstd = (evidence.results(name)[0] for name in ("value-phibe2", "value-lstd"))
    errors = [median_of(r, "rmse", "plain") for r in (pde, lstd)]
    widths = [np.asarray(r["high"]["plain"]) - np.asarray(r["low"]["plain"]) for r in (pde, lstd)]
    narrower = float((widths[0] < widths[1]).mean())
    at_zero = [float(np.interp(0.0, GRID, pde["mean"][m])) for m in METHODS]
    reason = (
        f"Median RMSE {significant(errors[0])} against {significant(errors[1])} for LSTD; the band is "
        f"narrower at {percent(narrower)} of the grid."
    )
    beside = (
        f"It is narrow around another curve than the truth: at s = 0, where that is 1, order 2 has a mean of "
        f"{', '.join(significant(v, 2) for v in at_zero)} (plain, U, V), and its bands hold the truth at "
        f"{', '.join(percent(_holding_truth(pde, m)) for m in METHODS)} of the grid."
    )
    both = (errors[0] < errors[1]) + (narrower > 0.5)
    return Verdict((FAILS, IN_PART, HOLDS)[both], reason, beside)


def generally_both(evidence: Evidence) -> Verdict:
    """Judge "generally both reduced variance and lower mean squared error"."""
    parts, bad = [], 0
    for name in evidence.cells:
        results = evidence.results(name)
        falls = (_ratios(results, "variance") < 1) & (_ratios(results, "rmse") < 1)
        bad += bool(falls.mean() <= 0.5)
        parts.append(f"{name.partition('-')[2]} {int(falls.sum())} of {falls.size}")
    reason = "Both fall in: " + "; ".join(parts) + "."
    return Verdict(of_all(bad, len(evidence.cells)), reason)


def no_major_difference(evidence: Evidence) -> Verdict:
    """Judge "no major differences between U and V"."""
    parts, beyond, within = [], 0, 0
    for name in evidence.cells:
        results = evidence.results(name)
        for measure in ("variance", "rmse"):
            logs = np.log(_ratios(results, measure))
            mean, error = _mean_error(logs[:, 0] - logs[:, 1])
            within += abs(mean) + error < math.log(MAJOR)
            beyond += abs(mean) - CLEAR * error > math.log(MAJOR)
            parts.append(f"{name.partition('-')[2]} {measure} × {math.exp(mean):.2f} (log ± {error:.2f})")
    total = 2 * len(evidence.cells)
    reason = f"U / V: {'; '.join(parts)}. Beyond in {beyond} of {total}, within in {within}."
    return Verdict(of_all(beyond, total) if beyond or within == total else UNDECIDED, reason)


def _ratios(results: Sequence[dict[str, Any]], measure: str) -> FloatArray:
    """Return replayed / plain of the medians, shape (cells, 2)."""
    return np.array(
        [[median_of(r, measure, m) / median_of(r, measure, "plain") for m in REPLAYED] for r in results]
    )


def _mean_error(values: FloatArray) -> tuple[float, float]:
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf
    return float(values.mean()), error


def _shares(results: Sequence[dict[str, Any]], measure: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the share of positive differences over the cells, with its standard error from their scatter."""
    shares, errors = {}, {}
    for m in REPLAYED:
        per_cell = np.array([(differences(r, measure, m) > 0).mean() for r in results])
        shares[m], errors[m] = _mean_error(per_cell)
    return shares, errors


def _pooled_share(results: Sequence[dict[str, Any]], measure: str, method: str) -> float:
    return float(np.mean(np.concatenate([differences(r, measure, method) for r in results]) > 0))


def _published_exceptions(evidence: Evidence) -> str:
    records = evidence.records(evidence.first)
    if not records:
        return ""
    below = {m: sum(r[f"var_diff_{m}"]["n_nonpos"] for r in records) for m in REPLAYED}
    return f" (published: {below['U']} and {below['V']} of {sum(r['m'] for r in records)} at or below 0)"


def _and_published(below: dict[str, int], n_records: int) -> str:
    return f" (published: {below['U']} and {below['V']} of {n_records})" if n_records else ""


def _signed(medians: dict[str, FloatArray]) -> str:
    joined = np.concatenate(list(medians.values()))
    return f"{significant(float(joined.min()), 2)} to {significant(float(joined.max()), 2)}"


def _range(values: Iterable[float]) -> str:
    ordered = sorted(values)
    low, high = significant(ordered[0], 2), significant(ordered[-1], 2)
    return low if low == high else f"{low} to {high}"


def _plain_inverse(evidence: Evidence, measure: str) -> str:
    """Say what a plain inverse makes of the same data and subsets, where that was computed."""
    ratios = list(_plain_inverse_ratios(evidence, measure))
    if not ratios:
        return ""
    name = {"iqr2": "squared interquartile range", "rmse": "RMSE"}[measure]
    return (
        "With the plain inverse in place of the pseudo-inverse, on equal data and subsets, "
        f"replay multiplies the median {name} by {_range(ratios)}."
    )


def _plain_inverse_ratios(evidence: Evidence, measure: str) -> Iterable[float]:
    """Yield replayed / plain with rcond = 0, for every size at which the inverses were compared."""
    algorithm = evidence.algorithms[evidence.first]
    for key, line in evidence.journal.lines.items():
        if key.startswith("ablation") and "setting=paper" in key and algorithm in line["results"]:
            row: dict[str, Any] = line["results"][algorithm]["rcond=0"][measure]
            for m in REPLAYED:
                yield row[m] / row["plain"]
