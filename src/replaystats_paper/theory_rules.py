"""The rules for claims about the theorems and the appendices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from replaystats.simulate import OrnsteinUhlenbeck
from replaystats.toolkit import significant

from .measures import FAILS, HOLDS, IN_PART, REPLAYED, UNDECIDED, Evidence, Verdict, median_of
from .policy import GRID
from .theory import sizes


def importance(evidence: Evidence) -> Verdict:
    """Judge Appendix A on all subsets of small data sets, where zeta_W and zeta_kk are sums."""
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
    return Verdict((FAILS, IN_PART, HOLDS)[both], reason, beside)


def memory_size(orderings: dict[str, str], *, quick: bool = False) -> Verdict:
    """Judge Appendix D: both small and large memories hurt at a fixed ratio."""
    small = orderings.get("uniform, B = 1: n = 100 earns more than n = 1,000")
    large = orderings.get("uniform, B = 1: n = 1,000 earns more than n = 10,000")
    often = [verdict for claim, verdict in orderings.items() if claim.startswith("uniform, B = 16")]
    reason = (
        f"B = 1: n = 100 earns more than 1,000: {small or 'not run'}; 1,000 more than 10,000: "
        f"{large or 'not run'}. At B = 16 larger memories earn more than n = 100 in {often.count('holds')} "
        f"of {len(often)} comparisons."
    )
    if quick or small is None or large is None:
        return Verdict(UNDECIDED, reason + " The quick study has too few cells.")
    hurts_small, hurts_large = small == FAILS, large == HOLDS
    everywhere = hurts_small and hurts_large and HOLDS not in often
    return Verdict(HOLDS if everywhere else IN_PART if hurts_small or hurts_large else FAILS, reason)


# Variance ratios over 100 data sets have standard errors of 10 to 15 %.
EQUAL = 1.3
# From this n on the limits are taken to show.
SMALLEST_LIMIT = 800
NORMAL_LEVEL = 0.01
DRIFT, DIFFUSION = 0.05, 1.0  # the printed lambda and sigma

Along = list[tuple[int, dict[str, Any]]]  # n and the results of a cell


def _along(evidence: Evidence, rate: str) -> Along:
    """Return n and the results of every cell at a rate, by n."""
    cells = (cell for cell in evidence.cells["rates"] if cell["rate"] == rate)
    return sorted(((cell["n"], evidence.journal.results(cell.key)) for cell in cells), key=lambda one: one[0])


def _listed(rows: Along, name: str) -> str:
    return ", ".join(f"{significant(row[name], 2)} (n = {n})" for n, row in rows)


def _in_the_limit(rows: Along, holds: bool, reason: str, beside: str = "") -> Verdict:
    """Return the verdict at the largest n; undecided where that is not large."""
    decided = HOLDS if holds else FAILS
    return Verdict(decided if rows[-1][0] >= SMALLEST_LIMIT else UNDECIDED, reason, beside)


def theorem_u(evidence: Evidence) -> Verdict:
    """Judge Theorem 1: liminf of Var(plain) - Var(U) is at least 0."""
    rows = _along(evidence, "theorem 1")
    last = rows[-1][1]
    reason = f"Var(U) / Var(plain), LSTD with three functions: {_listed(rows, 'variance_ratio')}."
    beside = "Both variances go to 0, so the statement holds for any two variances that do."
    return _in_the_limit(rows, last["variance_ratio"] <= EQUAL, reason, beside)


def theorem_v(evidence: Evidence) -> Verdict:
    """Judge Theorem 2 with its assumption that h_k has bounded second moments."""
    rows = _along(evidence, "theorem 2")
    last = rows[-1][1]
    reason = f"Var(V) / Var(plain) with the ridge: {_listed(rows, 'ridge_ratio')}."
    beside = f"With the plain inverse, which violates the assumption: {_listed(rows, 'variance_ratio')}."
    return _in_the_limit(rows, last["ridge_ratio"] <= EQUAL, reason, beside)


def guarantee(evidence: Evidence) -> Verdict:
    """Judge "rigorous variance reduction guarantees"."""
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
    return Verdict(HOLDS if max(ratios) <= 0.8 else FAILS, reason, beside)


def normality(evidence: Evidence) -> Verdict:
    """Judge asymptotic normality of the resampled U-statistic at Theorem 1's rate."""
    return _shapiro(evidence, "U")


def normality_v(evidence: Evidence) -> Verdict:
    """Judge it of the resampled V-statistic at Theorem 2's rate, with the ridge that keeps h_k in H."""
    return _shapiro(evidence, "ridge", "theorem 2")


def lemma_1(evidence: Evidence) -> Verdict:
    """Judge the normal limit of the plug-in."""
    return _shapiro(evidence, "plain")


def _shapiro(evidence: Evidence, method: str, rate: str = "theorem 1") -> Verdict:
    rows = _along(evidence, rate)
    n, last = rows[-1]
    estimates = np.asarray(last["estimates"][method])
    p = float(stats.shapiro(estimates).pvalue)
    reason = f"p = {significant(p, 2)} at n = {n}, {len(estimates)} data sets."
    return _in_the_limit(rows, p >= NORMAL_LEVEL, reason)


def two_terms(evidence: Evidence) -> Verdict:
    """Judge Var = k^2 zeta_1k / n + zeta_kk / B by the variances that replay estimates from one data set."""
    rows = _along(evidence, "theorem 1")
    last = rows[-1][1]
    reason = f"Predicted / actual variance of the replayed estimate: {_listed(rows, 'predicted_ratio')}."
    return _in_the_limit(rows, 1 / EQUAL <= last["predicted_ratio"] <= EQUAL, reason)


def lemma_2(evidence: Evidence) -> Verdict:
    """Judge k^2 zeta_1k < Sigma + o(Sigma) beside Appendix C, which has equality in the limit."""
    rows = _along(evidence, "theorem 1")
    ratio = [(n, row["zeta_ratio"] * n / sizes("theorem 1", n)[1]) for n, row in rows]
    reason = "zeta_kk / (k zeta_1k): " + ", ".join(f"{significant(r, 2)} (n = {n})" for n, r in ratio) + "."
    beside = (
        f"Appendix C: k^2 zeta_1k / Sigma -> 1, here {_listed(rows, 'first_order')}. So no gap remains in "
        "the limit, from which a strict reduction could follow."
    )
    return Verdict(HOLDS if all(r >= 1 / EQUAL for _, r in ratio) else FAILS, reason, beside)


def _member_variance(evidence: Evidence) -> tuple[list[float], str]:
    """Return k zeta_kk / Sigma along Theorem 1's rate, and the same in words."""
    rows = _along(evidence, "theorem 1")
    values = [row["zeta_ratio"] * row["first_order"] * n / sizes("theorem 1", n)[1] for n, row in rows]
    listed = (f"{significant(v, 2)} (n = {n})" for v, (n, _) in zip(values, rows, strict=True))
    return values, f"k zeta_kk / Sigma: {', '.join(listed)}."


def corollary_1(evidence: Evidence) -> Verdict:
    """Judge zeta_kk = Sigma / k + o(Sigma / k)."""
    values, reason = _member_variance(evidence)
    beside = "The limit law does not give the variance: with a plain inverse a few answers decide about it."
    rows = _along(evidence, "theorem 1")
    return _in_the_limit(rows, 1 / EQUAL <= values[-1] <= EQUAL, reason, beside)


def positive_components(evidence: Evidence) -> Verdict:
    """Judge the step "lim zeta_kk > 0" in the proof of Theorem 2 by Corollary 1."""
    values, reason = _member_variance(evidence)
    k = [sizes("theorem 1", n)[1] for n, _ in _along(evidence, "theorem 1")]
    falls = values[-1] / k[-1] < values[0] / k[0] / EQUAL
    beside = (
        "By Corollary 1 zeta_kk goes to 0 like 1 / k. The step needs an upper bound only, which h_k in H "
        "gives: zeta_kk / (n zeta_1k) goes to 0 all the same."
    )
    return Verdict(FAILS if falls else HOLDS, reason, beside)


def positive_limit(evidence: Evidence) -> Verdict:
    """Judge "lim k^2 zeta_1k > 0 holds for the algorithms considered"."""
    rows = _along(evidence, "theorem 1")
    reason = f"k^2 zeta_1k / Sigma: {_listed(rows, 'first_order')}."
    beside = "Where Var(H) = 0 it fails: for (E x, -(E x)^2) along a direction with mean 0 the limit is 0."
    return _in_the_limit(rows, rows[-1][1]["first_order"] > 0.5, reason, beside)


def penalty_term(evidence: Evidence) -> Verdict:
    """Judge "lambda does not impact the derivation" with one lambda for all sizes, as in eq. (41)."""
    rows = _along(evidence, "theorem 1")
    n, last = rows[-1]
    reason = (
        f"With the penalty of eq. (41), the same for k and n points, Var(U) / Var(plain) is "
        f"{_listed(rows, 'fixed_ratio')}; but the means differ by {_listed(rows, 'fixed_shift')} standard "
        "deviations of the plain estimate."
    )
    beside = "A subset of k points with lambda acts as all data with lambda n / k: a larger penalty."
    if n < SMALLEST_LIMIT:
        return Verdict(UNDECIDED, reason, beside)
    good = (last["fixed_ratio"] <= EQUAL) + (last["fixed_shift"] <= 0.5)
    return Verdict((FAILS, IN_PART, HOLDS)[good], reason, beside)


def dependent_data(evidence: Evidence) -> Verdict:
    """Judge "the results still hold" for one long chain."""
    rows = [(c["n"], evidence.journal.results(c.key)) for c in evidence.cells["dependent"]]
    reason = (
        f"Var(U) / Var(plain): {_listed(rows, 'variance_ratio')}. Lemma 1's Sigma / n over the actual "
        f"variance: {_listed(rows, 'lemma_ratio')}."
    )
    beside = "The value is not in the span of the features; where it is, errors are martingale differences."
    good = all(row["variance_ratio"] <= EQUAL for _, row in rows)
    lemma = all(1 / EQUAL <= row["lemma_ratio"] <= EQUAL for _, row in rows)
    return Verdict((FAILS, IN_PART, HOLDS)[good + (good and lemma)], reason, beside)


def same_windows(evidence: Evidence) -> Verdict:
    """Judge that cutting trajectories into windows leaves the estimator as it is."""
    gap = max(evidence.journal.results(c.key)["window_gap"] for c in evidence.cells["dependent"])
    reason = f"Largest relative difference of the plug-ins, LSTD and PhiBE of order 2: {gap:.1e}."
    beside = "Replay draws windows then, not trajectories: windows of one trajectory are dependent."
    return Verdict(HOLDS if gap < 1e-8 else FAILS, reason, beside)


def true_value(evidence: Evidence) -> Verdict:
    """Judge V = cos^3 by the residual of the equation that the value solves, by differences."""
    del evidence
    process, step = OrnsteinUhlenbeck(), 1e-4
    low, value, high = (process.value(GRID + shift) for shift in (-step, 0.0, step))
    drift = DRIFT * GRID * (high - low) / (2 * step)
    spread = 0.5 * DIFFUSION**2 * (high - 2 * value + low) / step**2
    residual = process.discount_rate * value - drift - spread - process.reward_rate(GRID)
    wrong = max(float(np.abs(residual).max()), float(np.abs(value - np.cos(GRID) ** 3).max()))
    return Verdict(HOLDS if wrong < 1e-5 else FAILS, f"Largest residual on the grid: {wrong:.0e}.")


def federated_bytes(evidence: Evidence) -> Verdict:
    """Judge "could improve communication": one example can show it, and cannot refute it."""
    gains, parts = [], []
    for cell in evidence.cells["federated"]:
        found = evidence.journal.results(cell.key)
        gain, error, ratio = _paired(found["squared_errors"], "common")
        size = found["bytes"]["replay"] / found["bytes"]["plug-in"]
        gains.append(gain > 3 * error or (size < 1 and gain >= -3 * error))
        parts.append(f"{significant(ratio, 4)} at {size:g} times the bytes")
    reason = "Mean squared error, replay / plug-in: " + ", ".join(parts) + "."
    beside = "The sums over all rows are one message and give the pooled plug-in exactly."
    return Verdict(HOLDS if all(gains) else IN_PART if any(gains) else UNDECIDED, reason, beside)


def federated_models(evidence: Evidence) -> Verdict:
    """Judge "could improve personal models" in the same way."""
    found = [evidence.journal.results(c.key)["squared_errors"] for c in evidence.cells["federated"]]
    pairs = [_paired(one, "personal") for one in found]
    own, common, personal = (
        float(np.mean(found[-1][name])) for name in ("own", "common, plug-in", "personal, plug-in")
    )
    listed = ", ".join(significant(ratio, 4) for *_, ratio in pairs)
    reason = f"Mean squared error of personal models, replay / plug-in: {listed}."
    beside = (
        f"Personal models themselves help: {significant(personal, 2)} beside {significant(own, 2)} (own "
        f"data) and {significant(common, 2)} (common model)."
    )
    better = [gain > 3 * error for gain, error, _ in pairs]
    return Verdict(HOLDS if all(better) else IN_PART if any(better) else UNDECIDED, reason, beside)


def _paired(errors: dict[str, list[float]], kind: str) -> tuple[float, float, float]:
    """Return the mean fall of the squared error by replay, its standard error, and the ratio."""
    plain, replayed = (np.asarray(errors[f"{kind}, {name}"]) for name in ("plug-in", "replay"))
    gap = plain - replayed
    error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    return float(gap.mean()), error, float(replayed.mean() / plain.mean())


def sufficient_rate(evidence: Evidence) -> Verdict:
    """Judge "k = o(n) is sufficient" for zeta_kk / (n zeta_1k) -> 0."""
    rows = _along(evidence, "theorem 1")
    values = [row["zeta_ratio"] for _, row in rows]
    reason = f"zeta_kk / (n zeta_1k): {_listed(rows, 'zeta_ratio')}."
    beside = "It needs k zeta_1k and zeta_kk of one order: at a degenerate point the ratio is k^2 / n."
    falls = values[-1] < values[0] and values[-1] <= 0.1
    return _in_the_limit(rows, falls, reason, beside)


def scarce_data(evidence: Evidence) -> Verdict:
    """Judge "particularly in data-scarce scenarios" by relative reductions at the smallest and largest n."""
    return _scarce(evidence, "variance")


def scarce_errors(evidence: Evidence) -> Verdict:
    """Judge the same of errors."""
    return _scarce(evidence, "rmse")


def _scarce(evidence: Evidence, measure: str) -> Verdict:
    found, parts = [], []
    for name in evidence.cells:
        rows = list(zip(evidence.cells[name], evidence.results(name), strict=True))
        ends = [fn(cell["n"] for cell, _ in rows) for fn in (min, max)]
        for method in REPLAYED:
            low, high = (
                float(np.median([
                    median_of(r, measure, method) / median_of(r, measure, "plain")
                    for cell, r in rows if cell["n"] == n
                ]))
                for n in ends
            )  # fmt: skip
            found.append(low < high)
            parts.append(f"{name} {method}: {significant(low, 2)} (n = {ends[0]}), {significant(high, 2)} "
                         f"(n = {ends[1]})")  # fmt: skip
    return Verdict(HOLDS if all(found) else IN_PART if any(found) else FAILS, "; ".join(parts) + ".")


def feature_exponent(evidence: Evidence) -> Verdict:
    """Judge that replay in q features approaches replay of the exact kernel as q grows."""
    rows = sorted(
        (cell["q"], evidence.journal.results(cell.key)["distance"]) for cell in evidence.cells["features"]
    )
    if len(rows) < 3:
        return Verdict(UNDECIDED, f"{len(rows)} sizes: too few for an exponent with its error.")
    q, distance = np.log(np.array(rows, dtype=float)).T
    fit = stats.linregress(q, distance)
    exponent = f"{significant(fit.slope, 2)} +- {significant(fit.stderr, 1)}"
    reason = f"distance ~ q^({exponent}), q = {rows[0][0]} to {rows[-1][0]}."
    return Verdict(HOLDS if fit.slope + 3 * fit.stderr < 0 else FAILS, reason)
