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

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "explanation" / "policy_values.md"
FIGURE = ROOT / "docs" / "figures" / "ope_worlds.svg"

HEAD = """# Policy values: coverage in many worlds

`python benchmarks/ope_worlds.py`, then `python benchmarks/ope_page.py`, which wrote this page.

Logs were drawn from {n} worlds with a known policy value (`benchmarks/worlds.py`, `odd_worlds.py`), and
`rs.evaluate` was asked for a 95 % interval with its defaults; worlds that take long have fewer logs, and
are drawn again where a rule that they depend on changed. *Covers* counts the logs whose answer is
reliable; the standard error of a share from 60 logs is .03. *False alarms* are unreliable answers where
every assumption is true. *Width* is the median width of the interval over that of the normal interval
from as many episodes of the policy in question itself.

![Coverage where the answer is reliable, and share of reliable answers](../figures/ope_worlds.svg)

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
    wide = [r["world"] for r in right if r["false_alarms"] > 0.07]
    return said + (f" More than 7 % in: {'; '.join(wide)}." if wide else "")


def table(rows: list[dict[str, Any]], right: bool | None) -> str:
    lines = [
        "| world | logs | covers | reliable | width | most often reported |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        if right is None or r["assumptions_true"] == right:
            method = max(r["methods"], key=r["methods"].get)
            cells = [
                short(r["covers_where_reliable"]),
                short(r["reliable"]),
                short(r["width_over_on_policy"]),
            ]
            lines.append(f"| {r['world']} | {r['logs']} | {' | '.join(cells)} | {method} |")
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
    fig, ax = plt.subplots(figsize=(7.0, 0.19 * len(rows) + 1.0))
    for i, r in enumerate(reversed(rows)):
        color = "tab:blue" if r["assumptions_true"] else "tab:orange"
        if r["covers_where_reliable"] is not None:
            error = 2.0 * r["error"]
            ax.errorbar(r["covers_where_reliable"], i, xerr=error, fmt="o", ms=3, lw=0.8, color=color)
        ax.plot(r["reliable"], i, "|", color="0.4")
    ax.axvline(0.95, color="0.7", lw=0.8)
    ax.set_yticks(range(len(rows)), [r["world"] for r in reversed(rows)], fontsize=6)
    ax.set(xlim=(-0.02, 1.05), ylim=(-1, len(rows)))
    ax.set_xlabel(
        "points: coverage of reliable answers, with two standard errors; bars: share reliable", fontsize=7
    )
    fig.tight_layout()
    fig.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    rows = json.loads((RESULTS / "ope_worlds.json").read_text("utf-8"))["rows"]
    parts = [
        HEAD.format(n=len(rows), summary=summary(rows)),
        "## All assumptions are true\n\n" + table(rows, True) + "\n",
        "## An assumption fails\n\nAn answer is right if its method does not need what is wrong, or if it "
        "says unreliable.\n\n" + table(rows, False) + "\n",
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
    draw(rows)


if __name__ == "__main__":
    main()
