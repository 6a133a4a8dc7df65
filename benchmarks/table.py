"""Turn the JSON of pytest-benchmark into a Markdown table: ``python table.py benchmarks.json table.md``."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path

HEADER = (
    "| benchmark | median | quartile range | speed-up | GFLOP/s | peak MiB |\n|---|---:|---:|---:|---:|---:|"
)


def seconds(time):
    """Write a time with a unit that leaves one to three digits before the point.

    >>> seconds(0.01234), seconds(2.0), seconds(4.2e-5)
    ('12.3 ms', '2 s', '42 us')
    """
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if time >= unit:
            return f"{time / unit:.3g} {name}"
    return f"{time * 1e9:.3g} ns"


def row(record, baseline):
    """Write one line; `baseline` is the median of the group's baseline, or None where it has none."""
    stats, facts = record["stats"], record["extra_info"]
    cells = (
        record["name"].removeprefix("test_"),
        seconds(stats["median"]),
        seconds(stats["iqr"]),
        "-" if baseline is None else f"{baseline / stats['median']:.2f}x",
        "-" if facts["flop"] is None else f"{facts['flop'] / stats['median'] / 1e9:.1f}",
        f"{facts['peak_mib']:.1f}",
    )
    return "| " + " | ".join(cells) + " |"


def table(report):
    """Write the whole report, one table per group, with the machine above it.

    >>> facts = {"flop": None, "peak_mib": 1.0}
    >>> def record(name, time, baseline):
    ...     extra = facts | {"baseline": baseline}
    ...     return {"group": "g", "name": name, "stats": {"median": time, "iqr": 0.1}, "extra_info": extra}
    >>> records = [record("loop", 6.0, True), record("fast", 2.0, False)]
    >>> text = table({"machine_info": {}, "benchmarks": records})
    >>> print(text.splitlines()[-1])
    | fast | 2 s | 100 ms | 3.00x | - | 1.0 |
    """
    cpu = report["machine_info"].get("cpu", {}).get("brand_raw", "processor unknown")
    parts = [f"{cpu}; one thread."]
    ordered = sorted(report["benchmarks"], key=lambda record: record["group"] or "")
    for group, members in groupby(ordered, key=lambda record: record["group"] or ""):
        records = list(members)
        medians = [r["stats"]["median"] for r in records if r["extra_info"]["baseline"]]
        if len(medians) > 1:
            raise ValueError(f"the group {group!r} has {len(medians)} baselines; mark one")
        baseline = medians[0] if medians else None
        parts.append("\n".join([f"### {group}\n", HEADER, *(row(r, baseline) for r in records)]))
    return "\n\n".join(parts) + "\n"


def main():
    source, target = map(Path, sys.argv[1:])
    text = table(json.loads(source.read_text(encoding="utf-8")))
    target.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
