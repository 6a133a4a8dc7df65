"""The rules for claims about time and cost, and for two appendices. A time decides only when it is clear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import binom

from replaystats.toolkit import significant

from .cost import fitted_exponent
from .measures import FAILS, HOLDS, IN_PART, REPLAYED, UNDECIDED, Evidence, Verdict, published_hours

CONFIDENCE = 0.99
# Ratios of times this close to 1 are nobody's gain, and the first to flip on another machine.
MARGIN = 1.1
# Below this n the cubic part of a full fit is not yet most of its time.
SMALLEST_JUDGED = 4000


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
    rule = (
        "With prediction included, replay is faster at every n of the table (150, 200, 250). In part: it is, "
        "from some larger n on, for every k. A comparison counts when the 99 % interval of the median ratio, "
        "over interleaved turns, is beyond a factor of 1.1."
    )
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
        return Verdict(HOLDS, reason, rule)
    largest_wins = max(found) in overtaken and max(found) > 250
    if largest_wins:
        return Verdict(IN_PART, reason, rule)
    return Verdict(FAILS if False in decided else UNDECIDED, reason, rule)


def order_of_cost(evidence: Evidence) -> Verdict:
    """Judge "from O(n^3) to as low as O(n^2), with less variance", sizes growing as the paper says."""
    rule = (
        "With k and q growing as claimed, the measured exponent is below the full fit's, and at the largest "
        "common n replay is faster, with no larger variance. In part: one of the paper's examples is. Times "
        "are the shortest of all data sets; within a factor of 1.1 they decide nothing."
    )
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
        return Verdict(UNDECIDED, reason, rule)
    if good.get("claimed"):
        return Verdict(HOLDS, reason, rule)
    claimed, *examples = (good.get(name, False) for name in ("claimed", "example1", "example2", "exact"))
    if claimed is None or (None in examples and True not in examples):
        return Verdict(UNDECIDED, reason, rule)
    return Verdict(IN_PART if True in examples else FAILS, reason, rule)


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


def three_hours(evidence: Evidence) -> Verdict:
    """Judge "all experiments within three hours" by the times that the authors published."""
    rule = "The published times of the experiments that have them add up to three hours at most."
    hours = published_hours()
    total = sum(hours.values())
    shown = ", ".join(f"{name} {significant(value, 2)} h" for name, value in hours.items())
    reason = (
        f"The published times of the fits alone add up to {significant(total, 3)} h on one core ({shown}), "
        f"{significant(total / 4, 2)} h on four; policy evaluation has none. "
        "Timing parts of the authors' code gives about 122 h for all the grids."
    )
    return Verdict(HOLDS if total <= 3 else FAILS, reason, rule)


def importance(evidence: Evidence) -> Verdict:
    """Judge Appendix A on all subsets of small data sets, where zeta_W and zeta_kk are sums."""
    rule = (
        "zeta_W, given the data, is not above the conditional variance of uniform subsets at every k, for "
        "the proposal that the sentence names, P ~ |h|, and for one that can be drawn from without knowing "
        "every h_k beforehand. In part: for one of the two."
    )
    rows = [
        (cell["k"], evidence.journal.results(cell.key)["zeta"]) for cell in evidence.cells[evidence.first]
    ]
    names = {"uniform": "uniform", "abs_h": "P ~ |h|", "midzuno": "Lahiri-Midzuno", "influence": "products"}
    parts = [
        f"k = {k}: " + ", ".join(f"{shown} {significant(z[name], 2)}" for name, shown in names.items())
        for k, z in rows
    ]
    reason = (
        "; ".join(parts) + ". The Lahiri-Midzuno design, P proportional to a sum of sizes over the subset, "
        "is drawn from without any h_k."
    )
    beside = "Products of k weights, as a prioritised memory has, make zeta_W grow with k."
    both = sum(all(z[name] <= z["uniform"] for _, z in rows) for name in ("abs_h", "midzuno"))
    return Verdict((FAILS, IN_PART, HOLDS)[both], reason, rule, beside)


def memory_size(orderings: dict[str, str], *, quick: bool = False) -> Verdict:
    """Judge Appendix D: both small and large memories hurt at a fixed ratio."""
    rule = (
        "At B = 1 with uniform sampling a medium memory (1,000) earns clearly more than a small one (100) "
        "and than a large one (10,000 or 100,000); the same at other ratios."
    )
    small = orderings.get("uniform, B = 1: n = 100 earns more than n = 1,000")
    large = orderings.get("uniform, B = 1: n = 1,000 earns more than n = 10,000")
    often = [verdict for claim, verdict in orderings.items() if claim.startswith("uniform, B = 16")]
    reason = (
        f"B = 1: n = 100 earns more than 1,000: {small or 'not run'}; 1,000 more than 10,000: "
        f"{large or 'not run'}. At B = 16 larger memories earn more than n = 100 in {often.count('holds')} "
        f"of {len(often)} comparisons."
    )
    if quick or small is None or large is None:
        return Verdict(UNDECIDED, reason + " The quick study has too few cells.", rule)
    hurts_small, hurts_large = small == FAILS, large == HOLDS
    everywhere = hurts_small and hurts_large and HOLDS not in often
    return Verdict(HOLDS if everywhere else IN_PART if hurts_small or hurts_large else FAILS, reason, rule)
