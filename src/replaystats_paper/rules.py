"""The rules by which claims about variances and errors are judged, each with its own words beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replaystats.toolkit import FloatArray, percent, significant

from .cells import Cell
from .journal import Journal
from .measures import METHODS, REPLAYED, differences, median_of
from .policy import GRID
from .published import published_record

HOLDS = "holds"
EXCEPTIONS = "holds with exceptions"
PSEUDO_INVERSE = "holds only with the pseudo-inverse"
IN_PART = "holds in part"
FAILS = "does not hold"
UNDECIDED = "undecided"
# "All" with so few exceptions is called true with exceptions; they are counted beside it.
FEW_EXCEPTIONS = 0.05
# A decision that rests on a mean needs this many standard errors.
CLEAR = 3.0
# Medians that differ by less are not "major" differences.
MAJOR = 1.1


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim holds.

    Attributes
    ----------
    label : str
    reason : str
        The numbers that decided, and what stands beside them.
    rule : str
        When the label would have been "holds".
    """

    label: str
    reason: str
    rule: str


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The finished cells that a claim is judged on, by experiment."""

    cells: dict[str, tuple[Cell, ...]]
    algorithms: dict[str, str]
    journal: Journal

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


def bands(evidence: Evidence) -> Verdict:
    """Judge a claim about the bands of a value function."""
    rule = "The 95 % bands of U and V are narrower than the plain one at 95 % of the grid, and in the median."
    results = evidence.results(evidence.first)[0]
    width = {m: np.asarray(results["high"][m]) - np.asarray(results["low"][m]) for m in METHODS}
    ratio = {m: float(np.median(width[m] / width["plain"])) for m in REPLAYED}
    narrower = {m: float((width[m] < width["plain"]).mean()) for m in REPLAYED}
    truth = np.cos(GRID) ** 3
    inside = {
        m: float(
            ((np.asarray(results["low"][m]) <= truth) & (truth <= np.asarray(results["high"][m]))).mean()
        )
        for m in METHODS
    }
    reason = (
        f"The bands of U and V are {_range(ratio.values())} times as wide as the plain one (median over the "
        f"grid), narrower at {percent(narrower['U'])} and {percent(narrower['V'])} of the points. They hold "
        f"the truth at {percent(inside['plain'])} (plain), {percent(inside['U'])} (U), "
        f"{percent(inside['V'])} (V)."
    )
    holds = max(ratio.values()) < 1 and min(narrower.values()) >= 1 - FEW_EXCEPTIONS
    return _with_plain_inverse(evidence, HOLDS if holds else FAILS, reason, rule, "iqr2")


def every_point(evidence: Evidence) -> Verdict:
    """Judge "above 0 at all test points, in all settings"."""
    rule = (
        "Every difference is above 0, at every test point of every cell, for U and for V; up to 5 % "
        "exceptions are counted, if the median variance falls in every cell."
    )
    results = evidence.results(evidence.first)
    below = {m: [int((differences(r, "variance", m) <= 0).sum()) for r in results] for m in REPLAYED}
    n_points = sum(differences(r, "variance", "U").size for r in results)
    exceptions = {m: sum(below[m]) / n_points for m in REPLAYED}
    ratios = _ratios(results, "variance")
    touched = {m: sum(count > 0 for count in below[m]) for m in REPLAYED}
    reason = (
        f"At or below 0: {sum(below['U'])} (U) and {sum(below['V'])} (V) of {n_points} differences, in "
        f"{touched['U']} and {touched['V']} of {len(results)} cells"
        f"{_published_exceptions(evidence)}. The median variance is {_range(ratios.ravel())} times the plain "
        "one."
    )
    if max(exceptions.values()) == 0:
        label = HOLDS
    elif max(exceptions.values()) <= FEW_EXCEPTIONS and bool((ratios < 1).all()):
        label = EXCEPTIONS
    else:
        label = FAILS
    return _with_plain_inverse(evidence, label, reason, rule, "iqr2")


def every_setting(evidence: Evidence) -> Verdict:
    """Judge "the variance falls across all settings"."""
    return _settings(evidence, 1.0, "The median variance over test points falls in every cell, for U and V.")


def most_settings(evidence: Evidence) -> Verdict:
    """Judge "the variance generally falls"."""
    return _settings(evidence, 0.5, "The median variance over test points falls in most cells, for U and V.")


def _settings(evidence: Evidence, needed: float, rule: str) -> Verdict:
    results = evidence.results(evidence.first)
    ratios = _ratios(results, "variance")
    falls = (ratios < 1).mean(axis=0)
    shares = {m: _pooled_share(results, "variance", m) for m in REPLAYED}
    reason = (
        f"The median variance falls in {(ratios[:, 0] < 1).sum()} (U) and {(ratios[:, 1] < 1).sum()} (V) of "
        f"{len(results)} cells; it is {_range(ratios.ravel())} times the plain one. Single test points: "
        f"above 0 at {percent(shares['U'])} and {percent(shares['V'])}{_published_exceptions(evidence)}."
    )
    holds = falls.min() >= needed if needed == 1.0 else falls.min() > needed
    return Verdict(HOLDS if holds else FAILS, reason, rule)


def every_median(evidence: Evidence) -> Verdict:
    """Judge "consistently" or "in all settings" about errors."""
    rule = "The median RMSE difference over repetitions is above 0 in every cell, for U and for V."
    results, records = evidence.results(evidence.first), evidence.records(evidence.first)
    medians = {m: np.array([np.median(differences(r, "rmse", m)) for r in results]) for m in REPLAYED}
    below = {m: int((medians[m] <= 0).sum()) for m in REPLAYED}
    theirs = {m: sum(r[f"rmse_diff_{m}"]["median"] <= 0 for r in records) for m in REPLAYED}
    reason = (
        f"At or below 0 in {below['U']} (U) and {below['V']} (V) of {len(results)} cells"
        f"{_and_published(theirs, len(records))}. Medians run from {_signed(medians)}."
    )
    if "rmse_true" in results[0]:
        true = {m: [float(np.median(differences(r, "rmse_true", m))) for r in results] for m in REPLAYED}
        worse = sum(value <= 0 for values in true.values() for value in values)
        reason += (
            " The paper's errors contain the noise of 100 test targets that all cells share, so that their "
            f"draw decides; against the true function {worse} of {2 * len(results)} medians are at or below "
            "0."
        )
    label = HOLDS if not sum(below.values()) else FAILS
    return _with_plain_inverse(evidence, label, reason, rule, "rmse")


def tends_to(evidence: Evidence) -> Verdict:
    """Judge "tends to achieve smaller errors"."""
    rule = (
        "The error is smaller in more than half of the repetitions, by three standard errors over the cells, "
        "and in the median of most cells, for U and for V."
    )
    results, records = evidence.results(evidence.first), evidence.records(evidence.first)
    shares, errors = _shares(results, "rmse")
    above = {m: sum(float(np.median(differences(r, "rmse", m))) > 0 for r in results) for m in REPLAYED}
    theirs = {m: sum(r[f"rmse_diff_{m}"]["median"] <= 0 for r in records) for m in REPLAYED}
    reason = (
        f"Smaller in {percent(shares['U'])} ± {percent(errors['U'])} (U) and {percent(shares['V'])} ± "
        f"{percent(errors['V'])} (V) of the repetitions; the median difference is at or below 0 in "
        f"{len(results) - above['U']} and {len(results) - above['V']} of {len(results)} cells"
        f"{_and_published(theirs, len(records))}."
    )
    if len(results) < 2:
        return Verdict(UNDECIDED, reason + " One cell has no scatter.", rule)
    clear = all(shares[m] - CLEAR * errors[m] > 0.5 for m in REPLAYED)
    against = any(shares[m] + CLEAR * errors[m] < 0.5 for m in REPLAYED)
    most = all(2 * above[m] > len(results) for m in REPLAYED)
    label = HOLDS if clear and most else FAILS if against or not most else UNDECIDED
    return _with_plain_inverse(evidence, label, reason, rule, "rmse")


def shrinks(evidence: Evidence) -> Verdict:
    """Judge "the differences become small as n increases; the reduction remains substantial"."""
    rule = (
        "In nine panels of ten (algorithm, B, k/n, U or V) the median variance difference is smaller at the "
        "largest n than at the smallest, and there the median variance is still below 0.8 of the plain one."
    )
    falls, panels, last = 0, 0, []
    for name in evidence.cells:
        by_panel: dict[tuple[int, float], list[tuple[int, dict[str, Any]]]] = {}
        for cell, result in zip(evidence.cells[name], evidence.results(name), strict=True):
            by_panel.setdefault((cell["B"], round(cell["k"] / cell["n"], 3)), []).append((cell["n"], result))
        for rows in by_panel.values():
            (_, small), (_, large) = min(rows, key=lambda r: r[0]), max(rows, key=lambda r: r[0])
            for m in REPLAYED:
                gap = [float(np.median(differences(r, "variance", m))) for r in (small, large)]
                panels, falls = panels + 1, falls + (gap[1] < gap[0])
                last.append(median_of(large, "variance", m) / median_of(large, "variance", "plain"))
    reason = (
        f"The median difference falls from the smallest to the largest n in {falls} of {panels} panels; at "
        f"the largest n the median variance is {_range(last)} times the plain one."
    )
    good = falls >= 0.9 * panels and max(last) < 0.8
    return Verdict(HOLDS if good else IN_PART if falls > panels / 2 else FAILS, reason, rule)


def larger_reduction(evidence: Evidence) -> Verdict:
    """Judge "the second-order method achieves a greater percentage reduction"."""
    rule = (
        "The ratio replayed / plain of the median variance is smaller for order 2 than for LSTD and than for "
        "order 1, in the mean of its logarithm over the cells by three standard errors, for U and for V."
    )
    ratios = {name: np.log(_ratios(evidence.results(name), "variance")) for name in evidence.cells}
    second = ratios["variance-phibe2"]
    clear, against, parts = True, False, []
    for name, label in (("variance-lstd", "LSTD"), ("variance-phibe1", "order 1")):
        gap = second - ratios[name]  # (cells, methods); negative: order 2 is reduced more
        for i, m in enumerate(REPLAYED):
            mean, error = _mean_error(gap[:, i])
            clear &= mean + CLEAR * error < 0
            against |= mean - CLEAR * error > 0
            parts.append(
                f"{math.exp(mean):.2f} (log ± {error:.2f}) against {label}, {m}, "
                f"in {int((gap[:, i] < 0).sum())} of {len(gap)} cells"
            )
    reason = "Ratio of order 2 to the other's ratio: " + "; ".join(parts) + "."
    return Verdict(HOLDS if clear else FAILS if against else UNDECIDED, reason, rule)


def more_accurate(evidence: Evidence) -> Verdict:
    """Judge "without replay, PDE is more accurate, with narrower bands" on the cells of Figure 1."""
    rule = (
        "In the cells of Figure 1 the plain order-2 estimate has the smaller median RMSE and the narrower "
        "band at most of the grid, and its band holds the truth at 90 % of the grid at least."
    )
    pde, lstd = (evidence.results(name)[0] for name in ("value-phibe2", "value-lstd"))
    errors = [median_of(r, "rmse", "plain") for r in (pde, lstd)]
    widths = [np.asarray(r["high"]["plain"]) - np.asarray(r["low"]["plain"]) for r in (pde, lstd)]
    narrower = float((widths[0] < widths[1]).mean())
    truth = np.cos(GRID) ** 3
    inside, at_zero = [], []
    for m in METHODS:
        low, high = np.asarray(pde["low"][m]), np.asarray(pde["high"][m])
        inside.append(float(((low <= truth) & (truth <= high)).mean()))
        at_zero.append(float(np.interp(0.0, GRID, pde["mean"][m])))
    reason = (
        f"Median RMSE {significant(errors[0])} against {significant(errors[1])} for LSTD; the band is "
        f"narrower at {percent(narrower)} of the grid. But it is narrow around the wrong curve: order 2 has "
        f"a mean of {', '.join(significant(v, 2) for v in at_zero)} (plain, U, V) at s = 0, where the truth "
        f"is 1, and its bands hold the truth at {', '.join(percent(v) for v in inside)} of the grid."
    )
    better, covers = errors[0] < errors[1] and narrower > 0.5, inside[0] >= 0.9
    return Verdict(HOLDS if better and covers else IN_PART if better else FAILS, reason, rule)


def generally_both(evidence: Evidence) -> Verdict:
    """Judge "generally both reduced variance and lower mean squared error"."""
    rule = "In every group, variance and RMSE both fall, in the median, in most cells (U and V)."
    parts, good = [], []
    for name in evidence.cells:
        results = evidence.results(name)
        falls = (_ratios(results, "variance") < 1) & (_ratios(results, "rmse") < 1)
        good.append(falls.mean() > 0.5)
        parts.append(f"{name.partition('-')[2]} {int(falls.sum())} of {falls.size}")
    reason = "Both fall in: " + "; ".join(parts) + "."
    return Verdict(HOLDS if all(good) else IN_PART if any(good) else FAILS, reason, rule)


def no_major_difference(evidence: Evidence) -> Verdict:
    """Judge "no major differences between U and V"."""
    rule = (
        f"In every group the mean over cells of log(U / V) is within a factor of {MAJOR:g}, for the median "
        "variance and for the median RMSE, by its standard error. In part: for the RMSE alone."
    )
    parts, small, large, same_errors = [], True, False, True
    for name in evidence.cells:
        results = evidence.results(name)
        for measure in ("variance", "rmse"):
            logs = np.log(_ratios(results, measure))
            mean, error = _mean_error(logs[:, 0] - logs[:, 1])
            small &= abs(mean) + error < math.log(MAJOR)
            large |= abs(mean) - CLEAR * error > math.log(MAJOR)
            same_errors &= measure == "variance" or abs(mean) + error < math.log(MAJOR)
            parts.append(f"{name.partition('-')[2]} {measure} × {math.exp(mean):.2f} (log ± {error:.2f})")
    reason = "U / V: " + "; ".join(parts) + "."
    if large:
        return Verdict(IN_PART if same_errors else FAILS, reason, rule)
    return Verdict(HOLDS if small else UNDECIDED, reason, rule)


def importance(evidence: Evidence) -> Verdict:
    """Judge Appendix A on all subsets of small data sets, where zeta_W and zeta_kk are sums."""
    rule = "zeta_W <= zeta_kk for the proposals that can be drawn from without knowing every h_k beforehand."
    rows = [
        (cell["k"], evidence.journal.results(cell.key)["zeta"]) for cell in evidence.cells[evidence.first]
    ]
    parts = [
        f"k = {k}: zeta_kk {significant(z['uniform'], 2)}, P ~ |h| {significant(z['abs_h'], 2)}, "
        f"P by influence {significant(z['influence'], 2)}"
        for k, z in rows
    ]
    reason = (
        "; ".join(parts) + ". P proportional to |h| needs h of every subset, and then there is nothing left "
        "to sample; proposals over observations give a subset the product of k weights, which explodes with "
        "k."
    )
    known = all(z["abs_h"] <= z["uniform"] for _, z in rows)
    usable = all(z["influence"] <= z["uniform"] for _, z in rows)
    return Verdict(HOLDS if known and usable else IN_PART if known else FAILS, reason, rule)


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


def _with_plain_inverse(evidence: Evidence, label: str, reason: str, rule: str, measure: str) -> Verdict:
    """Qualify a claim that holds by what a plain inverse makes of the same data and subsets."""
    ratios = list(_plain_inverse_ratios(evidence, measure))
    if not ratios:
        return Verdict(label, reason, rule)
    name = {"iqr2": "squared interquartile range", "rmse": "RMSE"}[measure]
    reason += (
        " With the plain inverse in place of the pseudo-inverse, on equal data and subsets, "
        f"replay multiplies the median {name} by {_range(ratios)}."
    )
    rule += ' "Only with the pseudo-inverse": a plain inverse on the same subsets makes it larger.'
    if label in (HOLDS, EXCEPTIONS) and max(ratios) >= 1:
        label = PSEUDO_INVERSE if label == HOLDS else f"{EXCEPTIONS}, only with the pseudo-inverse"
    return Verdict(label, reason, rule)


def _plain_inverse_ratios(evidence: Evidence, measure: str) -> Iterable[float]:
    """Yield replayed / plain with rcond = 0, for every size at which the inverses were compared."""
    algorithm = evidence.algorithms[evidence.first]
    for key, line in evidence.journal.lines.items():
        if key.startswith("ablation") and "setting=paper" in key and algorithm in line["results"]:
            row: dict[str, Any] = line["results"][algorithm]["rcond=0"][measure]
            for m in REPLAYED:
                yield row[m] / row["plain"]
