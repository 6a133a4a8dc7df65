"""The rules for claims about time and cost. A time decides only when it is clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from scipy.stats import binom

from replaystats.toolkit import significant

from .cost import CLAIMED, fitted_exponent, sizes
from .measures import (
    AUTHORS_HOURS,
    FAILS,
    HOLDS,
    IN_PART,
    REPLAYED,
    UNDECIDED,
    Evidence,
    Verdict,
    of_all,
    published_hours,
)

CONFIDENCE = 0.99
# Ratios of times this close to 1 are nobody's gain, and the first to flip on another machine.
MARGIN = 1.1
# Below this n the cubic part of a full fit is not yet most of its time.
SMALLEST_JUDGED = 4000
# What the paper calls large-scale: from here on a full fit takes noticeable time.
SMALLEST_LARGE = 1000
_SIZES_OF_REPLAY = ("claimed", "exact", "example1", "example2")
# Example 1 with s = 1, p = 2, delta = 1/5: 2s / (2s + p) (1 - delta), the exponent of the squared error.
RATE_1 = 0.4


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return an interval for the median from order statistics, valid for any distribution.

    Examples
    --------
    >>> median_interval(list(range(1, 101)))
    (37, 64)
    """
    ordered = sorted(values)
    depth = int(binom.ppf((1 - CONFIDENCE) / 2, len(ordered), 0.5))
    return ordered[max(0, depth - 1)], ordered[min(len(ordered) - 1, len(ordered) - depth)]


def faster(ratios: Sequence[float]) -> bool | None:
    """Say whether replayed / plain is clearly below 1 (True), clearly above (False), or neither (None)."""
    low, high = median_interval(ratios)
    if high < 1 / MARGIN:
        return True
    return False if low > MARGIN else None


def saves_time(evidence: Evidence) -> Verdict:
    """Judge Tables 1 and 2 as they are worded, on the sizes of their rows and on larger ones."""
    found: dict[int, list[bool | None]] = {}
    medians: dict[int, list[float]] = {}
    for cell in evidence.cells[evidence.first]:
        ratios = evidence.journal.results(cell.key)["ratios"]
        found.setdefault(cell["n"], []).extend(faster(ratios[m]) for m in REPLAYED)
        medians.setdefault(cell["n"], []).extend(float(np.median(ratios[m])) for m in REPLAYED)
    rows = [n for n in found if n <= 250]
    decided = [answer for n in rows for answer in found[n]]
    overtaken = [n for n in found if all(answer is True for answer in found[n])]
    parts = [
        f"n = {n}: {significant(min(m), 2)} to {significant(max(m), 2)}" for n, m in sorted(medians.items())
    ]
    reason = (
        "Median of replayed / plain time with lean code, over k and U, V: " + "; ".join(parts) + ". In the "
        f"table's rows replay is clearly faster in {decided.count(True)}, clearly slower in "
        f"{decided.count(False)} of {len(decided)} comparisons."
    )
    if overtaken:
        reason += f" It is clearly faster in all of them at n = {', '.join(map(str, sorted(overtaken)))}."
    if all(decided):
        return Verdict(HOLDS, reason)
    largest_wins = max(found) in overtaken and max(found) > 250
    if largest_wins:
        return Verdict(IN_PART, reason)
    return Verdict(FAILS if False in decided else UNDECIDED, reason)


def order_of_cost(evidence: Evidence) -> Verdict:
    """Judge "from O(n^3) to as low as O(n^2), with less variance", sizes growing as the paper says."""
    rows: dict[str, dict[int, dict[str, Any]]] = {}
    for cell in evidence.cells[evidence.first]:
        rows.setdefault(cell["method"], {})[cell["n"]] = evidence.journal.results(cell.key)
    common = max(rows["full"])
    full = rows["full"][common]
    exponent = {}
    for method, by_size in rows.items():
        shared = [n for n in by_size if n <= common]
        exponent[method] = fitted_exponent(shared, [by_size[n]["seconds"] for n in shared])
    parts: list[str] = []
    good: dict[str, bool | None] = {}
    for method in ("claimed", "exact", "example1", "example2", "divide", "nystroem"):
        if common in rows.get(method, {}):
            cheap, ratios = _beside_the_full_fit(rows[method][common], full)
            good[method] = cheap and exponent[method] < exponent["full"] if cheap is not None else None
            parts.append(f"{method}: exponent {exponent[method]:.1f}, {ratios}")
    reason = (
        f"At n = {common} against the full fit (exponent {exponent['full']:.1f}): " + "; ".join(parts) + "."
    )
    if common < SMALLEST_JUDGED:
        reason += f" Too small to judge an order of growth: that needs n = {SMALLEST_JUDGED}."
        return Verdict(UNDECIDED, reason)
    if good.get("claimed"):
        return Verdict(HOLDS, reason)
    claimed, *examples = (good.get(name, False) for name in ("claimed", "example1", "example2", "exact"))
    if claimed is None or (None in examples and True not in examples):
        return Verdict(UNDECIDED, reason)
    return Verdict(IN_PART if True in examples else FAILS, reason)


def _beside_the_full_fit(row: dict[str, Any], full: dict[str, Any]) -> tuple[bool | None, str]:
    """Return whether a method is faster with no larger variance (None: too close to tell), and the ratios."""
    time, error, variance = (row[name] / full[name] for name in ("seconds", "rmse", "variance"))
    redrawn = row.get("variance_redrawn")
    more = f", {significant(redrawn / full['variance'], 2)} with features redrawn" if redrawn else ""
    ratios = (
        f"time × {significant(time, 2)}, RMSE × {significant(error, 2)}, "
        f"variance × {significant(variance, 2)}{more}"
    )
    if max(variance, (redrawn or 0.0) / full["variance"]) > 1.0:
        return False, ratios
    return (None if 1 / MARGIN <= time <= MARGIN else time < 1 / MARGIN), ratios


def example_1(evidence: Evidence) -> Verdict:
    """Judge Example 1: its cost, and its rate of convergence over all sizes that were run."""
    rows = _scaling(evidence, "example1")
    n = np.log([n for n, _ in rows])
    rate = stats.linregress(n, 2 * np.log([row["rmse"] for _, row in rows]))
    cost = stats.linregress(n, np.log([row["seconds"] for _, row in rows])).slope
    reason = (
        f"Squared error ~ n^({significant(rate.slope, 2)} +- {significant(rate.stderr, 1)}), claimed "
        f"{significant(-RATE_1, 2)}; time ~ n^{significant(cost, 2)}, claimed {CLAIMED['example1']:g} and "
        f"(log n)^2; n = {rows[0][0]} to {rows[-1][0]}."
    )
    if rows[-1][0] < SMALLEST_JUDGED:
        return Verdict(UNDECIDED, reason)
    good = int(rate.slope - 2 * rate.stderr <= -RATE_1) + int(cost <= CLAIMED["example1"])
    return Verdict((FAILS, IN_PART, HOLDS)[good], reason)


def example_2(evidence: Evidence) -> Verdict:
    """Judge Example 2: its cost, and a variance below the full fit's."""
    rows, full = _scaling(evidence, "example2"), dict(_scaling(evidence, "full"))
    n, last = rows[-1]
    cost = fitted_exponent([n for n, _ in rows], [row["seconds"] for _, row in rows])
    ratio = max(last["variance"], last.get("variance_redrawn", 0.0)) / full[n]["variance"]
    reason = (
        f"Time ~ n^{significant(cost, 2)}; at n = {n} the variance is {significant(ratio, 2)} times that of "
        "the full fit."
    )
    if n < SMALLEST_JUDGED:
        return Verdict(UNDECIDED, reason)
    return Verdict((FAILS, IN_PART, HOLDS)[int(cost <= CLAIMED["example2"]) + int(ratio < 1)], reason)


def operations(evidence: Evidence) -> Verdict:
    """Judge the cost O(B k q^2 + B q^3) by the growth of measured times."""
    parts, good = [], []
    for method in ("claimed", "example1", "example2"):
        rows = _scaling(evidence, method)
        ns, seconds = [n for n, _ in rows], [row["seconds"] for _, row in rows]
        counts = [sizes(method, n) for n in ns]
        predicted = fitted_exponent(ns, [c["B"] * (c["k"] * c["q"] ** 2 + c["q"] ** 3) for c in counts])
        found = fitted_exponent(ns, seconds)
        good.append(found <= predicted + 0.15)
        parts.append(f"{method} {significant(found, 2)} (predicted {significant(predicted, 2)})")
    reason = "Exponents of time: " + ", ".join(parts) + "."
    if ns[-1] < SMALLEST_JUDGED:
        return Verdict(UNDECIDED, reason)
    return Verdict(of_all(good.count(False), len(good)), reason)


def _scaling(evidence: Evidence, method: str) -> list[tuple[int, dict[str, Any]]]:
    cells = (cell for cell in evidence.cells["scaling"] if cell["method"] == method)
    return sorted(((cell["n"], evidence.journal.results(cell.key)) for cell in cells), key=lambda one: one[0])


def practical(evidence: Evidence) -> Verdict:
    """Judge "a practical and efficient alternative, especially for large-scale problems"."""
    rows = {method: dict(_scaling(evidence, method)) for method in ("full", "divide", *_SIZES_OF_REPLAY)}
    full = rows["full"]
    judged = [(n, [m for m in _SIZES_OF_REPLAY if _below(rows[m].get(n), full[n])]) for n in full]
    reason = "Below the full fit in time, variance and error: " + "; ".join(
        f"n = {n}: {', '.join(names) or 'none'}" for n, names in judged
    )
    largest = judged[-1][0]
    error = rows["divide"][largest]["rmse"] / full[largest]["rmse"]
    beside = f"Divide and conquer at n = {largest}: RMSE × {significant(error, 2)}."
    large = [bool(names) for n, names in judged if n >= SMALLEST_LARGE]
    if largest < SMALLEST_JUDGED:
        return Verdict(UNDECIDED, reason + ".", beside)
    return Verdict(HOLDS if all(large) else IN_PART if any(large) else FAILS, reason + ".", beside)


def _below(row: dict[str, Any] | None, full: dict[str, Any]) -> bool:
    """Whether time, error and variance, with features fixed or redrawn, are all below the full fit's."""
    if row is None:
        return False
    variance = max(row["variance"], row.get("variance_redrawn", 0.0))
    return variance < full["variance"] and all(row[name] < full[name] for name in ("seconds", "rmse"))


# Seconds of a fit on one NVIDIA H200, n = 1,000,000, k = 300,000, B = 1000, nine functions
# (benchmarks/gpu.py, results/gpu.json).
DEVICE_SECONDS = {"U": 0.0151, "V": 0.0212}


def on_device(evidence: Evidence) -> Verdict:
    """Judge that V-statistics are preferable on a GPU, by stored times."""
    del evidence
    ratio = DEVICE_SECONDS["V"] / DEVICE_SECONDS["U"]
    reason = (
        f"One NVIDIA H200, n = 1,000,000, B = 1000: U {1000 * DEVICE_SECONDS['U']:.1f} ms, V "
        f"{1000 * DEVICE_SECONDS['V']:.1f} ms. Both are one matrix product over the same tiles."
    )
    return Verdict(
        HOLDS if ratio < 1 / MARGIN else FAILS, reason, "Measured in benchmarks/gpu.py, not in this run."
    )


# Of the authors' laptop.
LAPTOP_CORES = 12


def three_hours(evidence: Evidence) -> Verdict:
    """Judge "all experiments within three hours", with every core of the laptop at work."""
    ours = sum(line["seconds"] for line in evidence.journal.lines.values()) / 3600
    shown = ", ".join(f"{name} {significant(value, 2)} h" for name, value in published_hours().items())
    total = sum(AUTHORS_HOURS.values())
    reason = (
        f"Timing parts of the authors' code gives about {total:g} h of one core for all grids: three hours "
        f"need {significant(total / 3, 2)} cores, and an Apple M2 Pro has at most {LAPTOP_CORES}. The "
        f"published times of the fits alone, without policy evaluation: {shown}."
    )
    beside = f"Lean code takes {significant(ours, 2)} h of one core for the cells of this run."
    return Verdict(HOLDS if total <= 3 * LAPTOP_CORES else FAILS, reason, beside)
