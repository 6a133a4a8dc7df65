"""Write the page and the figure of policy values from `results/ope_worlds.json` and `ope_selection.json`.

Run: `python benchmarks/ope_page.py`
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "explanation" / "policy_values.md"
FIGURE = ROOT / "docs" / "figures" / "ope_worlds.svg"

HEAD = """# Policy values: coverage in many worlds

`python benchmarks/ope_worlds.py`, then `python benchmarks/ope_page.py`, which wrote this page.

Logs were drawn from {n} worlds with a known policy value (by a closed form, dynamic programming or rollouts),
and `rs.evaluate` was asked for a 95 % interval with its defaults; worlds that take long have fewer logs.
*Covers* counts the logs whose answer is reliable; the standard error of a share is .03 from 60 logs and .06
from 12. *False alarms* are unreliable answers where every assumption is true. *Width* is the median width of
the interval over that of the normal interval from as many episodes of the policy in question itself.

![Coverage where the answer is reliable, and share of reliable answers](../figures/ope_worlds.svg)

## The newest worlds

`python benchmarks/ope_worlds.py --logs 12 --seconds 4 --seed 2033 --only NAME --out
benchmarks/results/ope_worlds_late.json`

These {n_late} worlds (`late_worlds` in `benchmarks/odd_worlds.py`, `gymnasium_worlds` in
`benchmarks/logged_environments.py`) were made when the rules stood, and measured with this version's code.
Those with orders that arrive later, jumps and certain moves showed what was mended then: tests of history
that look two steps back, centred random signs, rounding, bounds over the steps that are left. They are no
test of these rules; doses, letters, falls and rails were made after them. In one world a hidden cause moves
actions and outcomes: where probabilities are not logged, nothing in one step shows it, and the sentence of
the answer names it as untested.

{late}

With another seed and more logs these cover: target takes one of 2 actions .95 of 144 reliable logs, words .96
of 122, gambler .96 of 75, and the doubly robust value where the rival is hidden .94 of 119.

{late_tables}

## Earlier worlds

`benchmarks/worlds.py`, `odd_worlds.py`: {n_first} worlds, measured before the rules that are named above and
under "Drawn again".

{summary}
"""

AGAIN = """## Drawn again after rules had changed

`python benchmarks/ope_worlds.py --seed 2027 --only NAME --out benchmarks/results/ope_worlds_again.json`

Tests of support, of the order of a log off policy and of estimated probabilities, screening of columns and
values of each step apart are newer than the tables above; these worlds depend on them. Those with a week,
severity, one thing in every state and random order showed what was to be mended, and are no test of it;
needs, tides, half the states and learning in six steps were made after the rules. Nothing shows users in
random order without `units=`, and the sentence says so.

{summary}"""


FAILS = "An answer is right if its method does not need what is wrong, or if it says unreliable."


def short(x: float | None, digits: int = 2) -> str:
    return "" if x is None else f"{x:.{digits}f}"


def judged_low(row: dict[str, Any]) -> bool:
    """Tell whether coverage lies below .90 by two standard errors."""
    covers, error = row["covers_where_reliable"], row["error"]
    return covers is not None and covers + 2.0 * error < 0.90


def summary(rows: list[dict[str, Any]]) -> str:
    right = [r for r in rows if r["assumptions_true"]]
    logs = sum(r["logs"] for r in right)
    alarms = sum(round(r["false_alarms"] * r["logs"]) for r in right)
    reliable = [r for r in rows if r["covers_where_reliable"] is not None]
    low = [r["world"] for r in reliable if judged_low(r)]
    said = (
        f"In {len(low)} of {len(reliable)} worlds with reliable answers they cover less than .90 by two "
        f"standard errors{': ' if low else ''}{'; '.join(low)}. "
        f"False alarms: {alarms} of {logs} logs ({alarms / logs:.1%}) in "
        f"{len(right)} worlds where all is true."
    )
    wide = [r["world"] for r in right if r["false_alarms"] - 2.0 * np.sqrt(0.07 * 0.93 / r["logs"]) > 0.07]
    return f"{said} More than 7 % of false alarms by two standard errors: {'; '.join(wide) or 'nowhere'}."


def table(rows: list[dict[str, Any]], right: bool | None, *, methods: bool = False) -> str:
    heads = ["world", "logs", "covers", "reliable", "width", *(["most often reported"] * methods)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for r in rows:
        if right is None or r["assumptions_true"] == right:
            numbers = [r["covers_where_reliable"], r["reliable"], r["width_over_on_policy"]]
            cells = [r["world"], str(r["logs"]), *map(short, numbers)]
            lines.append(f"| {' | '.join(cells + [max(r['methods'], key=r['methods'].get)] * methods)} |")
    return "\n".join(lines)


def selection(found: dict[str, Any]) -> str:
    lines = [
        "| world | logs | reported | SLOPE | OPERA | best single | which |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in found["rows"]:
        rmse = r["rmse"]
        cells = [f"{rmse[k]:.3g}" for k in ("reported", "SLOPE", "OPERA", "best single")]
        lines.append(f"| {r['world']} | {r['logs']} | {' | '.join(cells)} | {r['best']} |")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]]) -> None:
    half = -(-len(rows) // 2)
    fig, axes = plt.subplots(1, 2, figsize=(12.0, 0.19 * half + 1.0), sharex=True, layout="constrained")
    for ax, part in zip(axes, (rows[:half], rows[half:]), strict=True):
        for i, r in enumerate(reversed(part)):
            color = "tab:blue" if r["assumptions_true"] else "tab:orange"
            if r["covers_where_reliable"] is not None:
                error = 2.0 * r["error"]
                ax.errorbar(r["covers_where_reliable"], i, xerr=error, fmt="o", ms=3, lw=0.8, color=color)
            ax.plot(r["reliable"], i, "|", color="0.4")
        ax.axvline(0.95, color="0.7", lw=0.8)
        ax.set_yticks(range(len(part)), [r["world"] for r in reversed(part)], fontsize=6)
        ax.set(xlim=(-0.02, 1.05), ylim=(len(part) - half - 1, len(part)))
        ax.set_xlabel(
            "points: coverage of reliable answers, with two standard errors; bars: share reliable", fontsize=7
        )
    fig.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    rows = json.loads((RESULTS / "ope_worlds.json").read_text("utf-8"))["rows"]
    late = json.loads((RESULTS / "ope_worlds_late.json").read_text("utf-8"))["rows"]
    late_tables = [
        f"### Newest: all assumptions are true\n\n{table(late, True, methods=True)}",
        f"### Newest: an assumption fails\n\n{FAILS}\n\n{table(late, False, methods=True)}",
    ]
    said = HEAD.format(
        n=len(rows) + len(late),
        n_late=len(late),
        n_first=len(rows),
        late=summary(late),
        late_tables="\n\n".join(late_tables),
        summary=summary(rows),
    )
    parts = [
        said,
        "### All assumptions are true\n\n" + table(rows, True) + "\n",
        f"### An assumption fails\n\n{FAILS}\n\n{table(rows, False)}\n",
    ]
    again = json.loads((RESULTS / "ope_worlds_again.json").read_text("utf-8"))["rows"]
    parts.append(AGAIN.format(summary=summary(again)) + "\n\n" + table(again, None) + "\n")
    if (RESULTS / "ope_selection.json").exists():
        found = json.loads((RESULTS / "ope_selection.json").read_text("utf-8"))
        parts.append(
            "## Choosing the estimate\n\n`python benchmarks/ope_selection.py`\n\nRoot mean squared errors of "
            "the reported value, of SLOPE (Su, Srinath, Krishnamurthy 2020) and of OPERA (Nie et al. 2024) "
            "over the same estimates, and of the best of them, chosen with the truth in hand.\n\n"
            + selection(found)
            + "\n"
        )
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    draw([*late, *rows])


if __name__ == "__main__":
    main()
