"""The rules by which claims about variances, errors, limits and appendices are judged, with their words.

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
from scipy import stats

from replaystats.simulate import OrnsteinUhlenbeck
from replaystats.toolkit import FloatArray, percent, significant

from .cells import Cell
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
from .theory import sizes

# A decision by a mean needs this many standard errors.
CLEAR = 3.0
# Medians that differ by less are not "major" differences.
MAJOR = 1.1
# "Substantial": the variance falls by a fifth at least.
SUBSTANTIAL = 0.8


def exceptions(evidence: Evidence, *, quantity: str, most: bool = False) -> Verdict:
    """Judge a claim about all comparisons, or about most.

    Parameters
    ----------
    evidence : Evidence
    quantity : {"band", "point", "variance", "rmse"}
        What should be below the plain one: the width of a band at every point of the grid, the variance at
        every test point of every cell; or, in every cell, the median variance, or the median difference of
        the RMSE.
    most : bool
        Whether the claim is about most comparisons, of U and of V.
    """
    results = evidence.results(evidence.first)
    gaps = {m: np.concatenate([_gaps(r, quantity, m) for r in results]) for m in REPLAYED}
    bad = {m: int((gap <= 0).sum()) for m, gap in gaps.items()}
    total = len(gaps["U"])
    reason = f"Not below the plain one: {bad['U']} (U) and {bad['V']} (V) of {total}"
    reason += f"{_published_exceptions(evidence, quantity)}. {_sizes(results, quantity)}"
    fewer = HOLDS if max(bad.values()) < total / 2 else FAILS
    label = fewer if most else of_all(sum(bad.values()), 2 * total)
    return Verdict(label, reason, _noted(evidence, results, quantity))


def _gaps(results: dict[str, Any], quantity: str, method: str) -> FloatArray:
    """Return plain less replayed for every comparison of one cell."""
    if quantity == "band":
        plain, replayed = (_width(results, m) for m in ("plain", method))
        return np.asarray(plain - replayed)
    if quantity == "variance":
        return np.array([median_of(results, quantity, "plain") - median_of(results, quantity, method)])
    gaps = differences(results, "variance" if quantity == "point" else quantity, method)
    return gaps if quantity == "point" else np.array([np.median(gaps)])


def _width(results: dict[str, Any], method: str) -> FloatArray:
    return np.asarray(np.subtract(results["high"][method], results["low"][method]))


def _sizes(results: Sequence[dict[str, Any]], quantity: str) -> str:
    """Say how large the effects are."""
    if quantity == "band":
        ratios = [float(np.median(_width(results[0], m) / _width(results[0], "plain"))) for m in REPLAYED]
        return f"The bands are {_range(ratios)} times as wide (median over the grid)."
    if quantity == "rmse":
        return f"Medians run from {_range(_gaps(r, quantity, m)[0] for r in results for m in REPLAYED)}."
    return f"The median variance is {_range(_ratios(results, 'variance').ravel())} times the plain one."


def _noted(evidence: Evidence, results: Sequence[dict[str, Any]], quantity: str) -> str:
    """Say what is worth knowing beside the verdict."""
    notes = [_plain_inverse(evidence, "rmse" if quantity == "rmse" else "iqr2")]
    if quantity == "band":
        shares = ", ".join(f"{percent(_holding_truth(results[0], m))} ({m})" for m in METHODS)
        notes.insert(0, f"They hold the truth at {shares} of the grid.")
    if quantity == "variance":
        positive = [np.concatenate([differences(r, "variance", m) for r in results]) > 0 for m in REPLAYED]
        notes.append(f"Single test points: above 0 at {percent(float(np.mean(positive)))}.")
    if quantity == "rmse" and "rmse_true" in results[0]:
        worse = sum(_gaps(r, "rmse_true", m)[0] <= 0 for r in results for m in REPLAYED)
        notes.append(
            "The paper's errors contain the noise of 100 test targets that all cells share, so that their "
            f"draw decides; against the true function {worse} of {2 * len(results)} medians are not above 0."
        )
    return " ".join(filter(None, notes))


def _holding_truth(results: dict[str, Any], method: str) -> float:
    """Return the share of the grid at which a band holds the truth."""
    low, high = np.asarray(results["low"][method]), np.asarray(results["high"][method])
    truth = np.cos(GRID) ** 3
    return float(((low <= truth) & (truth <= high)).mean())


def _published_exceptions(evidence: Evidence, quantity: str) -> str:
    """Say how many exceptions the published records have, where they say it."""
    records = evidence.records(evidence.first) if quantity in ("point", "rmse") else []
    if not records:
        return ""
    if quantity == "point":
        found = [sum(r["variance"][m]["n_nonpos"] for r in records) for m in REPLAYED]
        return f" (published: {found[0]} and {found[1]} of {sum(r['m'] for r in records)})"
    found = [sum(r["rmse"][m]["median"] <= 0 for r in records) for m in REPLAYED]
    return f" (published: {found[0]} and {found[1]} of {len(records)})"


def tends_to(evidence: Evidence) -> Verdict:
    """Judge "tends to achieve smaller errors"."""
    results = evidence.results(evidence.first)
    shares, errors = _shares(results, "rmse")
    below = {m: sum(float(_gaps(r, "rmse", m)[0]) <= 0 for r in results) for m in REPLAYED}
    reason = (
        f"Smaller in {percent(shares['U'])} ± {percent(errors['U'])} (U) and {percent(shares['V'])} ± "
        f"{percent(errors['V'])} (V) of the repetitions; the median difference is at or below 0 in "
        f"{below['U']} and {below['V']} of {len(results)} cells{_published_exceptions(evidence, 'rmse')}."
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


def larger_variance(evidence: Evidence) -> Verdict:
    """Judge "order 2 is more stochastic" by plain variances."""
    logs = [
        np.log([median_of(result, "variance", "plain") for result in evidence.results(name)])
        for name in evidence.cells
    ]
    found = [_mean_error(logs[0] - other) for other in logs[1:]]
    listed = (
        f"{math.exp(mean):.2f} (log ± {error:.2f}) times that of {name.partition('-')[2]}"
        for (mean, error), name in zip(found, list(evidence.cells)[1:], strict=True)
    )
    good = sum(mean - CLEAR * error > 0 for mean, error in found)
    return Verdict((FAILS, IN_PART, HOLDS)[good], f"The plain variance of order 2 is {', '.join(listed)}.")


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


# From this n on the limits of the theorems are taken to show.
SMALLEST_LIMIT = 800
DRIFT, DIFFUSION = 0.05, 1.0  # the printed lambda and sigma


def _quantity(row: dict[str, Any], cell: Cell, name: str) -> float:
    """Return a number of a cell's results, or one that is computed from them, by name.

    p_METHOD: Shapiro and Wilk's for its estimates. k_zeta_ratio: zeta_kk / (k zeta_1k). k_zeta_kk and
    zeta_kk: over Sigma. PROPOSAL_ratio: zeta over the uniform one. KIND_error: squared error of the plug-in;
    KIND_change: replay's over it; KIND_gain: its mean fall by replay, in standard errors.
    """
    kind, _, what = name.rpartition("_")
    if kind == "p":
        return float(stats.shapiro(row["estimates"][what]).pvalue)
    if "zeta" in row:
        return float(row["zeta"][kind] / row["zeta"]["uniform"])
    if "squared_errors" in row:
        errors = {key: np.asarray(values) for key, values in row["squared_errors"].items()}
        plain, replayed = (errors.get(f"{kind}, {method}", errors["own"]) for method in ("plug-in", "replay"))
        gap = plain - replayed
        if what == "gain":
            return float(gap.mean() / (gap.std(ddof=1) / np.sqrt(len(gap))))
        return float(plain.mean() if what == "error" else replayed.mean() / plain.mean())
    if name in ("k_zeta_ratio", "k_zeta_kk", "zeta_kk"):
        k = sizes(cell["rate"], cell["n"])[1]
        of_sigma = 1.0 if name == "k_zeta_ratio" else row["first_order"]
        return float(row["zeta_ratio"] * cell["n"] / k * of_sigma / (k if name == "zeta_kk" else 1))
    return float(row[name])


def _along(evidence: Evidence, of: str, name: str) -> tuple[list[float], str, int]:
    """Return a quantity along an experiment's sizes (or a rate's of "rates"), in words, and the last size."""
    cells = evidence.cells.get(of) or [cell for cell in evidence.cells["rates"] if cell["rate"] == of]
    size = next(letter for letter in ("n", "k", "B") if letter in dict(cells[0].parameters))
    found = []
    for cell in sorted(cells, key=lambda one: int(one[size])):
        found.append((cell[size], _quantity(evidence.journal.results(cell.key), cell, name)))
    values = [value for _, value in found]
    digits = 4 if name.endswith("_change") else 2
    listed = ", ".join(f"{significant(value, digits)} ({size} = {n})" for n, value in found)
    same = len(set(values)) == 1
    return values, significant(values[0], digits) if same else listed, found[-1][0]


def limits(
    evidence: Evidence,
    *,
    values: Sequence[dict[str, Any]],
    reason: str,
    beside: str = "",
    otherwise: str = FAILS,
) -> Verdict:
    """Judge whether quantities lie within bounds at the largest size, or at every size.

    Parameters
    ----------
    evidence : Evidence
    values : sequence of dict
        Each has `of` (an experiment, or a rate of "rates") and `name`; those that decide `low` or `high`, and
        perhaps `every` (size, not the last alone) or `relative` (to the smallest size).
    reason, beside : str
        Sentences in which {0} is replaced by the first quantity at every size, and so on.
    otherwise : str
        The label where no quantity is within its bounds; where some are, the claim holds in part.
    """
    listed, good, last = [], [], []
    for one in values:
        series, words, n = _along(evidence, one["of"], one["name"])
        listed.append(words)
        last.append(n)
        if "low" in one or "high" in one:
            judged = np.array(series) / (series[0] if one.get("relative") else 1.0)
            judged = judged if one.get("every") else judged[-1:]
            above, below = judged >= one.get("low", -np.inf), judged <= one.get("high", np.inf)
            good.append(bool((above & below).all()))
    label = HOLDS if all(good) else IN_PART if any(good) else otherwise
    if "rates" in evidence.cells and min(last) < SMALLEST_LIMIT:
        label = UNDECIDED
    return Verdict(label, reason.format(*listed), beside.format(*listed))


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


def scarce(evidence: Evidence, *, measure: str) -> Verdict:
    """Judge "particularly in data-scarce scenarios" by relative reductions at the smallest and largest n."""
    found, parts = [], []
    for name, cells in evidence.cells.items():
        sizes_n = np.array([cell["n"] for cell in cells])
        ratios = _ratios(evidence.results(name), measure)
        ends = sizes_n.min(), sizes_n.max()
        low, high = (np.median(ratios[sizes_n == n], axis=0) for n in ends)
        found += list(low < high)
        for i, method in enumerate(REPLAYED):
            parts.append(
                f"{name} {method}: {significant(low[i], 2)} (n = {ends[0]}), {significant(high[i], 2)} "
                f"(n = {ends[1]})"
            )
    return Verdict(HOLDS if all(found) else IN_PART if any(found) else FAILS, "; ".join(parts) + ".")


def feature_exponent(evidence: Evidence) -> Verdict:
    """Judge that replay in q features approaches replay of the exact kernel as q grows."""
    rows = sorted((c["q"], evidence.journal.results(c.key)["distance"]) for c in evidence.cells["features"])
    if len(rows) < 3:
        return Verdict(UNDECIDED, f"{len(rows)} sizes: too few for an exponent with its error.")
    q, distance = np.log(np.array(rows, dtype=float)).T
    fit = stats.linregress(q, distance)
    exponent = f"{significant(fit.slope, 2)} +- {significant(fit.stderr, 1)}"
    reason = f"distance ~ q^({exponent}), q = {rows[0][0]} to {rows[-1][0]}."
    return Verdict(HOLDS if fit.slope + CLEAR * fit.stderr < 0 else FAILS, reason)


def memory_size(evidence: Evidence) -> Verdict:
    """Judge Appendix D: at a fixed ratio small and large memories earn clearly less than one of 1,000."""
    cells, journal = evidence.cells["qlearning"], evidence.journal
    returns = {(cell["B"], cell["n"]): journal.results(cell.key)["returns"] for cell in cells}
    ratios = sorted({n_replays for n_replays, _ in returns})
    parts, hurts = [], []
    for n_replays in ratios:
        found = {n: np.array(values) for (b, n), values in returns.items() if b == n_replays}
        means = (f"{significant(v.mean())} (n = {n:,})" for n, v in found.items())
        parts.append(f"B = {n_replays}: {', '.join(means)}")
        for rivals in ((100,), (10_000, 100_000)):
            if 1000 in found and all(n in found for n in rivals):
                hurts.append(any(_clearly_more(found[1000], found[n]) for n in rivals))
    reason = f"Mean return of late episodes, {'; '.join(parts)}."
    if len(hurts) < 4:
        return Verdict(UNDECIDED, reason)
    return Verdict(HOLDS if all(hurts) else IN_PART if any(hurts) else FAILS, reason)


def _clearly_more(one: FloatArray, other: FloatArray) -> bool:
    """Whether the mean of `one` is larger by two standard errors of the difference."""
    error = math.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    return bool(one.mean() - other.mean() > 2 * error)


def stored(evidence: Evidence, *, label: str, reason: str, beside: str) -> Verdict:
    """Return a verdict by numbers that were measured elsewhere."""
    del evidence
    return Verdict(label, reason, beside)
