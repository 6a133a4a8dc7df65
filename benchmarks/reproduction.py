"""What `replaystats reproduce` and the shipped studies found, gathered from their folders; nothing by hand.

    replaystats reproduce --out results/full
    replaystats study kernel-to-16000 --out results/kernel-to-16000      # policy-2d, policy-6d likewise
    python benchmarks/reproduction.py gather results/full results/kernel-to-16000 ...

writes benchmarks/results/reproduction.json: agreement, verdicts, the cells beside the paper's grids without
their lists, and the studies' tables; of a study that is not named the table stays.

    python benchmarks/reproduction.py compare results/one results/another --name quick

adds to benchmarks/results/reproduction_twice.json, under that name, the verdicts of two runs of the same
experiments side by side, how busy the machine was in each, and the times behind them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from replaystats_paper import Settings, load_catalogue
from replaystats_paper.claims import judge_claims
from replaystats_paper.journal import Journal

RESULTS = Path(__file__).parent / "results"
# Their results are lists over points and repetitions, which agreement and verdicts sum up.
TIMED = ("timing", "scaling", "map")
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


def timed_seconds(run: Path) -> float:
    """Return the processor time of the cells whose results are times."""
    return sum(c["seconds"] for key, c in cells_of(run).items() if key.partition(" ")[0] in TIMED)


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


def verdicts_of(run: Path, *, quick: bool) -> dict[str, str]:
    """Judge what the journal of a run holds, by the present rules."""
    with Journal(run, Settings()) as journal:
        chosen = {
            name: [cell for cell in experiment.chosen_cells(quick) if cell.key in journal.lines]
            for name, experiment in load_catalogue().items()
        }
        found = {name: cells for name, cells in chosen.items() if cells}
        judged = judge_claims(found, {name: load_catalogue()[name].whose for name in found}, journal)
    return {name: verdict.label for name, (_, verdict) in judged.items()}


def compare(runs: list[Path], *, quick: bool) -> dict[str, Any]:
    labels = [verdicts_of(run, quick=quick) for run in runs]
    pairs = {name: [one[name] for one in labels] for name in labels[0] if all(name in one for one in labels)}
    ratios: dict[str, list[Any]] = {}
    for run in runs:
        for key, line in cells_of(run).items():
            if key.startswith("timing "):
                medians = {m: float(np.median(r)) for m, r in line["results"]["ratios"].items()}
                ratios.setdefault(key, []).append(rounded(medians))
    return {
        "runs": [
            {
                "timed_processor_seconds": round(timed_seconds(run), 1),
                "load_average": read(run / "manifest.json")["machine"].get("load_average")
                if (run / "manifest.json").exists()
                else None,
            }
            for run in runs
        ],
        "same_verdicts": all(len(set(pair)) == 1 for pair in pairs.values()),
        "verdicts": pairs,
        "replayed_over_plain_time": ratios,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("gather", "compare"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--name", choices=("quick", "full"), default="quick", help="the grid of the runs")
    options = parser.parse_args()
    first, *others = options.folders
    if options.what == "gather":
        path = RESULTS / "reproduction.json"
        found = gather(first, others, read(path)["studies"] if path.exists() else {})
    else:
        path = RESULTS / "reproduction_twice.json"
        found = (read(path) if path.exists() else {}) | {
            options.name: compare(options.folders, quick=options.name == "quick")
        }
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
