"""The theorems along n, at their own rates and at the paper's; and Appendix A by enumeration.

LSTD with three functions on data that cover the grid, solved without any truncation, as the theorems have it.
Theorem 1 wants k = o(n) and n / (B k) -> 0: here k = n^1/2, B = n. Theorem 2 wants k = o(n^1/4): k = n^1/5,
B = n. With three functions a subset of five is often nearly singular, and the plain inverse is not in the
class H of Theorem 2 (bounded second moments); with a small ridge it is, and both are computed. And the
kernel's feature map: how fast replay in q random features becomes replay of the exact kernel.

Appendix A: h is a ratio of sums. Drawing subset S with probability P(S) and weighing h by w = 1 / (N P)
estimates the same average over all N subsets; what the B draws add to the variance is zeta_W = Var(w h). For
P proportional to |h| that is (mean |h|)^2 - (mean h)^2, never above the uniform Var(h); but P needs h of
every subset. A proposal over observations, as a prioritised memory has, gives P(S) proportional to the
product of its members' weights.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from replaystats import (
    Moments,
    ReplayKernelRidge,
    average,
    lstd_moments,
    make_plan,
    plug_in,
    replicate,
    ridge_moments,
)
from replaystats.basis import Fourier, RandomFourier
from replaystats.inference import midzuno_sizes, theorem
from replaystats.simulate import OrnsteinUhlenbeck, two_bumps
from replaystats.solvers import LU, Ridge
from replaystats.toolkit import FloatArray, significant

from .cells import Cell, Settings, cell_stream
from .measures import FAILS, HOLDS, IN_PART, REPLAYED, UNDECIDED, Evidence, Verdict, median_of, squared_iqr

BASIS = Fourier(1)
POINTS = np.linspace(-2.5, 2.5, 11)
MIDDLE = 8  # s = 1.5, whose estimates stand in the normal plot
RATES = {"theorem 1": ("U", 0.5, 1.0), "theorem 2": ("V", 0.2, 1.0)}  # statistic, exponents of k and B
GAMMA = 6.0
# A ridge of this size per unit keeps h_k in the class H of Theorem 2; a plain inverse does not.
PENALTY = 0.1


def sizes(rate: str, n: int) -> tuple[str, int, int]:
    """Return statistic, k and B; "the paper's" is k = 0.3 n, B = 100.

    Examples
    --------
    >>> sizes("theorem 1", 400), sizes("theorem 2", 400), sizes("the paper's", 400)
    (('U', 20, 400), ('V', 4, 400), ('U', 120, 100))
    """
    if rate not in RATES:
        return "U", round(0.3 * n), 100
    statistic, k, n_resamples = RATES[rate]
    return statistic, math.ceil(n**k), math.ceil(n**n_resamples)


def run_rate_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return variance ratios over data sets, the theorem's quantities, and estimates for a normal plot."""
    n = cell["n"]
    statistic, k, n_resamples = sizes(cell["rate"], n)
    process, features = OrnsteinUhlenbeck(), BASIS(POINTS)
    plain, replayed, plain_ridge, replayed_ridge = np.empty((4, repetitions, len(POINTS)))
    found = []
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        data = process.sample(n, 2, start="uniform", random_state=rng)
        moments = lstd_moments(data, BASIS, discount=process.discount)
        plan = make_plan(n, statistic=statistic, subsample_size=k, n_resamples=n_resamples, random_state=rng)
        estimate = average(replicate(moments, plan, solver=LU(), on_failure="drop"), "mean")
        plain[repetition] = plug_in(moments, LU()).predict(features)
        replayed[repetition] = estimate.predict(features)
        plain_ridge[repetition] = plug_in(moments, Ridge(PENALTY * n)).predict(features)
        replayed_ridge[repetition] = average(
            replicate(moments, plan, solver=Ridge(PENALTY * k)), "mean"
        ).predict(features)
        if repetition < 5:
            found.append(theorem(estimate, features))
    return {
        "k": k,
        "B": n_resamples,
        "statistic": statistic,
        "variance_ratio": _ratio(replayed.var(axis=0), plain.var(axis=0)),
        "iqr2_ratio": _ratio(squared_iqr(replayed), squared_iqr(plain)),
        "ridge_ratio": _ratio(replayed_ridge.var(axis=0), plain_ridge.var(axis=0)),
        "linear_ratio": found[0].linear_ratio,
        "estimated_ratio": float(np.median([one.variance_ratio for one in found])),
        "zeta_ratio": float(np.median([one.zeta_ratio for one in found])),
        "n_over_Bk": found[0].n_over_Bk,
        "estimates": {"plain": plain[:, MIDDLE].tolist(), statistic: replayed[:, MIDDLE].tolist()},
    }


def run_feature_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return the distance of replay in q features from replay of the exact kernel, on the same subsets."""
    n, k, n_resamples, q = 200, 20, 50, cell["q"]
    alpha = n ** (-2 / 3)
    points = cell_stream(settings.seed, "features test points").random((200, 2))
    distances = []
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, "features", repetition)  # the same data and subsets for every q
        X, y = two_bumps(n, random_state=rng)
        plan = make_plan(n, subsample_size=k, n_resamples=n_resamples, random_state=rng)
        model = ReplayKernelRidge(alpha, kernel="rbf", gamma=GAMMA, standardize=None, method="subsets")
        exact = model.fit(X, y, plan=plan).predict(points)
        basis = RandomFourier(q, gamma=GAMMA).fit(
            X, random_state=cell_stream(settings.seed, cell.key, repetition)
        )
        theta = replicate(ridge_moments(X, y, basis), plan, solver=Ridge(alpha)).theta.mean(axis=0)
        distances.append(float(np.sqrt(np.mean((basis(points) @ theta - exact) ** 2)) / exact.std()))
    return {"distance": float(np.mean(distances))}


def _ratio(one: FloatArray, other: FloatArray) -> float:
    return float(np.median(one / other))


N = 20  # C(20, 10) = 184,756 subsets


def run_proposal_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Return zeta under three proposals, averaged over data sets of `N` observations."""
    k = cell["k"]
    subsets = np.fromiter((i for subset in combinations(range(N), k) for i in subset), dtype=np.intp).reshape(
        -1, k
    )
    totals = dict.fromkeys(("uniform", "abs_h", "influence", "midzuno"), 0.0)
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        g, f = rng.gamma(4.0, 0.25, N), rng.normal(1.0, 1.0, N)
        for name, value in zetas(g, f, subsets).items():
            totals[name] += value / repetitions
    return {"zeta": totals, "n": N, "subsets": len(subsets)}


def zetas(g: FloatArray, f: FloatArray, subsets: np.ndarray) -> dict[str, float]:
    """Return Var(w h) for uniform P, P ~ |h|, products of weights (half influence), and sums of sizes.

    The last is the Lahiri-Midzuno design with sizes theta + H_i - o, and o subtracted from h: it can be drawn
    from without knowing any h_k.
    """
    h = f[subsets].sum(axis=1) / g[subsets].sum(axis=1)
    sizes, origin = midzuno_sizes(Moments(g, f))
    total = sizes[subsets].sum(axis=1)
    influence = np.abs(f - g * (f.sum() / g.sum()))
    weight = 0.5 * influence / influence.sum() + 0.5 / len(g)
    product = np.exp(np.log(weight)[subsets].sum(axis=1))
    return {
        "uniform": float(h.var()),
        "abs_h": float(np.mean(np.abs(h)) ** 2 - h.mean() ** 2),
        "influence": _weighted_variance(h, product / product.sum()),
        "midzuno": _weighted_variance(h - origin, total / total.sum()),
    }


def _weighted_variance(h: FloatArray, probability: FloatArray) -> float:
    """Return Var(h / (N P)) when a subset is drawn with probability P."""
    weights = 1.0 / (len(h) * probability)
    return float(np.sum(probability * (weights * h) ** 2) - h.mean() ** 2)


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
