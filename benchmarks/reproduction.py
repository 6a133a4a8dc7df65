"""What `replaystats reproduce` and the shipped studies found, gathered from their folders; nothing by hand.

    replaystats reproduce --out results/full
    replaystats study policy-2d --out results/policy-2d      # policy-6d likewise
    python benchmarks/reproduction.py results/full results/policy-2d ...

writes benchmarks/results/reproduction.json: agreement, verdicts, the cells beside the paper's grids without
their lists, and the studies' tables; of a study that is not named the table stays.
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
    """Return the finished cells of a run by key, without the settings in the first line."""
    lines = map(json.loads, (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines())
    return {line["key"]: line for line in lines if "key" in line}


def gather(run: Path, studies: list[Path], known: dict[str, Any]) -> dict[str, Any]:
    """Return what a run and studies found; `known` holds the tables of studies that were not run again."""
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
        "studies": known | {folder.name: rounded(read(folder / "table.json")) for folder in studies},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    run, *studies = parser.parse_args().folders
    path = RESULTS / "reproduction.json"
    found = gather(run, studies, read(path)["studies"] if path.exists() else {})
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
