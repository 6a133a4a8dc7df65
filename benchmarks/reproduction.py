"""What `replaystats reproduce` found, gathered from its folder; nothing by hand.

    replaystats reproduce all qlearning --out results/full
    python benchmarks/reproduction.py results/full

writes benchmarks/results/reproduction.json: agreement, verdicts, and the cells beside the paper's grids
without their lists.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
# Their results are lists over points and repetitions, which agreement and verdicts sum up.
GRIDS = ("policy", "kernel", "boston", "ablation", "testsets")


def rounded(value: Any) -> Any:
    """Return plain values with five significant digits, without lists of numbers; NaN becomes None."""
    if isinstance(value, dict):
        return {
            key: rounded(one)
            for key, one in value.items()
            if not (isinstance(one, list) and one and isinstance(one[0], int | float))
            and not (isinstance(one, dict) and one and all(isinstance(part, list) for part in one.values()))
        }
    if isinstance(value, list):
        return [rounded(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if np.isfinite(value) else None
    return value


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def cells_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the finished cells of a run by key."""
    lines = map(json.loads, (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines())
    return {line["key"]: line for line in lines}


def gather(run: Path) -> dict[str, Any]:
    """Return what a run found."""
    manifest, summary = read(run / "manifest.json"), read(run / "summary.json")
    cells = cells_of(run)
    seconds: dict[str, float] = {}
    for key, line in cells.items():
        kind = key.partition(" ")[0]
        seconds[kind] = seconds.get(kind, 0.0) + line["seconds"]
    return {
        "seed": manifest["settings"]["seed"],
        "versions": manifest["versions"],
        "machine": manifest["machine"],
        "jobs": manifest["jobs"],
        "seconds": manifest["seconds"],
        "processor_seconds": rounded(seconds),
        **rounded({name: summary[name] for name in ("agreement", "each_cell", "n_each_cell", "verdicts")}),
        "cells": {
            key: {"repetitions": line["repetitions"], **rounded(line["results"])}
            for key, line in cells.items()
            if key.partition(" ")[0] not in GRIDS
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    found, path = gather(parser.parse_args().folder), RESULTS / "reproduction.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
