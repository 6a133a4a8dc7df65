"""Write docs/explanation/coverage.md and its figure from what `battery.py` and `policy_intervals.py` have measured.

python benchmarks/battery.py && python benchmarks/policy_intervals.py tabular circle save bands
python benchmarks/coverage.py
"""

# ruff: noqa: E501  (prose and tables of a page)
from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from battery import sources
from scipy import stats

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE, FIGURE = ROOT / "docs" / "explanation" / "coverage.md", ROOT / "docs" / "figures" / "coverage.svg"
RULES = "## Which rules earn their place"

INTRO = """# Evidence: coverage of the intervals

How often nominal 95 % intervals contain a known truth, measured by simulation. Every data set counts. An infinite interval
counts as covering and as withheld. The truth is the population solution of the estimator, by enumeration or quadrature; for
one-hot features and regression this is the value itself. Width is relative to an oracle that knows the sampling distribution
of the estimate. The seed was not used while the method was developed.

![Coverage of every setting with two standard errors](../figures/coverage.svg)
"""


def verdict(summary, cells):
    def named(key):
        found = summary[key]
        return f"{len(found)}" + (f" ({', '.join(found)})" if found else "")

    given = [cell for cell in cells.values() if cell["coverage"] is not None]
    # What chance leaves inside of intervals that cover .95 exactly: a normal law with the cell's standard error.
    exact = np.mean([1 - 2 * stats.norm.sf(0.02 / cell["se"]) for cell in given])
    share, far = summary["share in .93-.97"], "outside .93-.97 by more than 2 s.e."
    inside = 1 - len(summary[far]) / len(given)
    wide = "n/q >= 20 and wider than 1.1 times the oracle"
    return f"""## In short

{summary["settings"]} settings. Below .90 by more than two standard errors: {named("below .90 by more than 2 s.e.")}.
In .93 to .97 as measured: {share:.1%} (intervals that cover .95 exactly: {exact:.1%}, by chance of so many data sets); not outside by more than two standard errors: {inside:.0%}. Outside:
{named(far)}.
Withheld in 5 % or more of the rows although estimable: {named("estimable and withheld in 5 % or more")}.
Of {summary["n/q >= 20"]} settings with twenty units a coefficient or more, wider than 1.1 times the oracle: {len(summary[wide])}
as measured; by more than two standard errors of that ratio: {named("the same by more than 2 s.e.")}.
"""


def dated(cells):
    """Say how many cells the present sources have measured."""
    now = sum(cell.get("sources") == sources() for cell in cells.values())
    if now == len(cells):
        return "All settings were measured with this version of the library.\n"
    versions = len({cell.get("sources") for cell in cells.values()})
    return (
        f"{now} of the {len(cells)} settings were measured with the sources as they are now, and all of them with\n"
        f"{versions} version(s) of the sources.\n"
    )


def family(name):
    """Return the family of a setting: its name up to the first size or option."""
    words = name.split(" ")
    return (
        " ".join(words[:2])
        if words[0] in ("single", "sparse", "kernel", "policy", "ratio", "mean")
        else words[0]
    )


def family_rows(cells):
    """Return one row per family: settings, lowest, median and highest coverage, median width."""
    groups: dict[str, list] = {}
    for name, cell in cells.items():
        if cell["coverage"] is not None:
            groups.setdefault(family(name), []).append(cell)
    rows = []
    for name, group in groups.items():
        covered = [cell["coverage"] for cell in group]
        widths = [cell["width_over_oracle"] for cell in group if cell.get("width_over_oracle") is not None]
        shown = (
            f"{min(covered):.3f} | {np.median(covered):.3f} | {max(covered):.3f} | {np.median(widths):.2f}"
        )
        rows.append(f"| {name} | {len(group)} | {shown} |")
    return rows


def public_rows(cells):
    """Return one row per public problem, over its cells."""
    groups: dict[str, list] = {}
    for name, cell in cells.items():
        groups.setdefault(name.split(" ")[0], []).append(cell)
    rows = []
    for name, group in groups.items():
        made = sum(cell["repetitions"] for cell in group)
        held = sum(cell["coverage"] * cell["repetitions"] for cell in group) / made
        lowest = min(cell["coverage"] for cell in group)
        rows.append(f"| {name} | {len(group)} | {made} | {held:.3f} | {lowest:.3f} |")
    return rows


def draw(cells):
    names = [name for name in cells if cells[name]["coverage"] is not None]
    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    axes.axhspan(0.93, 0.97, color="#d9e6f2", zorder=0)
    axes.axhline(0.95, color="#7a9cc0", linewidth=1)
    axes.axhline(0.90, color="#c08a7a", linewidth=1, linestyle=":")
    values = [cells[name]["coverage"] for name in names]
    errors = [2 * cells[name]["se"] for name in names]
    style = {"fmt": "o", "markersize": 3, "elinewidth": 0.7, "color": "#333333"}
    axes.errorbar(range(len(names)), values, yerr=errors, **style)
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        groups.setdefault(name.split(" ")[0], []).append(place)
    axes.set_xticks(
        [sum(places) / len(places) for places in groups.values()], groups, rotation=40, ha="right"
    )
    axes.set(ylabel="coverage, 2 s.e.", ylim=(0.78, 1.02), xlim=(-1, len(names)))
    FIGURE.parent.mkdir(exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "coverage"
    figure.savefig(FIGURE, metadata={"Date": None})


def kept_section(page):
    """Return the section on rules, which is measured by hand, as it stands on the page."""
    return page[page.index(RULES) :].split("\n## ")[0].rstrip() if RULES in page else ""


def main():
    battery = json.loads((RESULTS / "battery.json").read_text(encoding="utf-8"))
    public = json.loads((RESULTS / "policy_intervals.json").read_text(encoding="utf-8"))
    cost = json.loads((RESULTS / "interval_cost.json").read_text(encoding="utf-8"))
    draw(battery["cells"])
    lines = [INTRO, verdict(battery["summary"], battery["cells"])]
    lines += [
        "## The battery\n",
        "`python benchmarks/battery.py`; all cells are in `benchmarks/results/battery.json`.\n",
    ]
    lines += [dated(battery["cells"])]
    lines += ["| family | settings | lowest | median | highest | median width |", "|---|---|---|---|---|---|"]
    lines += family_rows(battery["cells"])
    lines += [
        "",
        "## Public problems\n",
        "`python benchmarks/policy_intervals.py tabular circle save bands`\n",
    ]
    lines += [
        "A 5 x 5 grid off policy (tabular), a three-state circle, the 18 cells of SAVE (Shi et al. 2022), simultaneous bands over",
        "900 states, and cells of the paper.\n",
        "| problem | cells | data sets | coverage | lowest cell |",
        "|---|---|---|---|---|",
        *public_rows(public),
    ]
    lines += [
        "",
        "## What intervals cost\n",
        "`python benchmarks/interval_cost.py`, processor seconds of one thread.\n",
    ]
    lines += ["| question | fit | intervals | ratio |", "|---|---|---|---|"]
    lines += [f"| {name} | {c['fit']:.3f} | {c['interval']:.3f} | {c['ratio']} |" for name, c in cost.items()]
    rules = kept_section(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text("\n".join([*lines, "", rules]).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
