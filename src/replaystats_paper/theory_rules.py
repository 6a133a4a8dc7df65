"""The rules by which the theorems, their conditions and the claims about theory are judged."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from replaystats.toolkit import significant

from .measures import FAILS, HOLDS, IN_PART, REPLAYED, UNDECIDED, Evidence, Verdict, median_of

# Variance ratios over 100 data sets have standard errors of 10 to 15 %.
EQUAL = 1.3
# From this n on the limits are taken to show.
SMALLEST_LIMIT = 800
NORMAL_LEVEL = 0.01


def _along(evidence: Evidence, rate: str) -> list[tuple[int, dict[str, Any]]]:
    """Return n and the results of every cell at a rate, by n."""
    cells = (cell for cell in evidence.cells["rates"] if cell["rate"] == rate)
    return sorted(((cell["n"], evidence.journal.results(cell.key)) for cell in cells), key=lambda one: one[0])


def _listed(rows: list[tuple[int, dict[str, Any]]], name: str) -> str:
    return ", ".join(f"{significant(row[name], 2)} (n = {n})" for n, row in rows)


def theorem_u(evidence: Evidence) -> Verdict:
    """Judge Theorem 1: liminf of Var(plain) - Var(U) is at least 0."""
    rule = (
        "At k = n^1/2, B = n the ratio Var(U) / Var(plain) comes down to 1, within its noise, at the largest "
        "n: then the lower limit of the difference is not below 0."
    )
    rows = _along(evidence, "theorem 1")
    n, last = rows[-1]
    reason = f"Var(U) / Var(plain), LSTD with three functions: {_listed(rows, 'variance_ratio')}."
    beside = "Both variances go to 0, so the statement holds for any two variances that do."
    if n < SMALLEST_LIMIT:
        return Verdict(UNDECIDED, reason, rule, beside)
    return Verdict(HOLDS if last["variance_ratio"] <= EQUAL else FAILS, reason, rule, beside)


def theorem_v(evidence: Evidence) -> Verdict:
    """Judge Theorem 2 with its assumption that h_k has bounded second moments."""
    rule = (
        "The same at k = n^1/5, B = n, with a small ridge, which keeps h_k in the class H of the theorem; "
        "a plain inverse of a subset of three to five trajectories has no second moment."
    )
    rows = _along(evidence, "theorem 2")
    n, last = rows[-1]
    reason = f"Var(V) / Var(plain) with the ridge: {_listed(rows, 'ridge_ratio')}."
    beside = f"With the plain inverse, which violates the assumption: {_listed(rows, 'variance_ratio')}."
    if n < SMALLEST_LIMIT:
        return Verdict(UNDECIDED, reason, rule, beside)
    return Verdict(HOLDS if last["ridge_ratio"] <= EQUAL else FAILS, reason, rule, beside)


def guarantee(evidence: Evidence) -> Verdict:
    """Judge "rigorous variance reduction guarantees"."""
    rule = "At the rates of the theorems replay has at most four fifths of the plug-in's variance."
    one, two = (_along(evidence, rate)[-1][1] for rate in ("theorem 1", "theorem 2"))
    ratios = (one["variance_ratio"], two["ridge_ratio"])
    reason = (
        f"Ratios at the largest n: {significant(ratios[0], 2)} (Theorem 1), {significant(ratios[1], 2)} "
        "(Theorem 2 with a ridge). The theorems say that the variance is not larger in the limit."
    )
    beside = (
        "To second order the ratio is 1 + 2c (1/k - 1/n) with c of either sign: below 1 where noise grows "
        "with leverage, above 1 where it falls."
    )
    return Verdict(HOLDS if max(ratios) <= 0.8 else FAILS, reason, rule, beside)


def normality(evidence: Evidence) -> Verdict:
    """Judge asymptotic normality of the resampled U-statistic at Theorem 1's rate."""
    rule = f"Shapiro and Wilk's test of estimates at s = 1.5, largest n, does not reject at {NORMAL_LEVEL}."
    n, last = _along(evidence, "theorem 1")[-1]
    p = float(stats.shapiro(np.asarray(last["estimates"]["U"])).pvalue)
    reason = f"p = {significant(p, 2)} at n = {n}, {len(last['estimates']['U'])} data sets."
    if n < SMALLEST_LIMIT:
        return Verdict(UNDECIDED, reason, rule)
    return Verdict(HOLDS if p >= NORMAL_LEVEL else FAILS, reason, rule)


def sufficient_rate(evidence: Evidence) -> Verdict:
    """Judge "k = o(n) is sufficient" for zeta_kk / (n zeta_1k) -> 0."""
    rule = "At k = n^1/2 the ratio zeta_kk / (n zeta_1k) falls with n, to 0.1 or less at the largest n."
    rows = _along(evidence, "theorem 1")
    values = [row["zeta_ratio"] for _, row in rows]
    reason = f"zeta_kk / (n zeta_1k): {_listed(rows, 'zeta_ratio')}."
    beside = "It needs k zeta_1k and zeta_kk of one order: at a degenerate point the ratio is k^2 / n."
    if rows[-1][0] < SMALLEST_LIMIT:
        return Verdict(UNDECIDED, reason, rule, beside)
    falls = values[-1] < values[0] and values[-1] <= 0.1
    return Verdict(HOLDS if falls else FAILS, reason, rule, beside)


def scarce_data(evidence: Evidence) -> Verdict:
    """Judge "particularly in data-scarce scenarios" by relative reductions at the smallest and largest n."""
    rule = (
        "The median variance ratio, replayed over plain, is smaller at the smallest n than at the largest, "
        "for U and V and every algorithm. In part: for some of them."
    )
    found, parts = [], []
    for name in evidence.cells:
        rows = list(zip(evidence.cells[name], evidence.results(name), strict=True))
        sizes = sorted({cell["n"] for cell, _ in rows})
        for method in REPLAYED:
            low, high = (
                float(np.median([
                    median_of(r, "variance", method) / median_of(r, "variance", "plain")
                    for cell, r in rows if cell["n"] == n
                ]))
                for n in (sizes[0], sizes[-1])
            )  # fmt: skip
            found.append(low < high)
            parts.append(f"{name} {method}: {significant(low, 2)} (n = {sizes[0]}), {significant(high, 2)} "
                         f"(n = {sizes[-1]})")  # fmt: skip
    label = HOLDS if all(found) else IN_PART if any(found) else FAILS
    return Verdict(label, "; ".join(parts) + ".", rule)


def feature_exponent(evidence: Evidence) -> Verdict:
    """Judge that replay in q features approaches replay of the exact kernel as q grows."""
    rule = "The distance falls with q, with a fitted exponent below 0 by three standard errors."
    rows = sorted(
        (cell["q"], evidence.journal.results(cell.key)["distance"]) for cell in evidence.cells["features"]
    )
    if len(rows) < 3:
        return Verdict(UNDECIDED, f"{len(rows)} sizes: too few for an exponent with its error.", rule)
    q, distance = np.log(np.array(rows, dtype=float)).T
    fit = stats.linregress(q, distance)
    exponent = f"{significant(fit.slope, 2)} +- {significant(fit.stderr, 1)}"
    reason = f"distance ~ q^({exponent}), q = {rows[0][0]} to {rows[-1][0]}."
    return Verdict(HOLDS if fit.slope + 3 * fit.stderr < 0 else FAILS, reason, rule)
