"""From names of experiments to a folder with cells, figures, a summary, a manifest and a report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from replaystats.toolkit import write_bytes

from .catalogue import Experiment
from .cells import Settings
from .compare import LIMIT
from .journal import Journal
from .manifest import describe_machine, package_versions
from .page import Findings, collect, write_page
from .runner import Work, plan_work, run_work

REPORT_NAME = "report.html"


def reproduce(
    experiments: Sequence[Experiment],
    settings: Settings,
    out: Path,
    *,
    quick: bool = False,
    jobs: int = 1,
    command: str = "",
    on_start: Callable[[Sequence[Work]], None] = lambda work: None,
    on_finished: Callable[[Work], None] = lambda work: None,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Run experiments and write their report.

    1. Work out the cells they need, each once.
    2. Compute those that the journal in `out` does not have yet.
    3. Compare with the published numbers, judge the claims, draw the figures.
    4. Write report, summary and manifest, each whole or not at all.

    Parameters
    ----------
    experiments : sequence of Experiment
    settings : Settings
    out : Path
        Folder; a run that was interrupted there goes on where it stopped.
    quick : bool
        Only the quick part of each grid.
    jobs : int
        Processes. The numbers do not depend on it.
    command : str
        What the user typed, for the record.
    on_start, on_finished : callable
        Told the missing work, and each piece of it when it is done: for a progress bar.
    tell : callable, optional
        Told what a damaged journal made necessary; by default a warning.

    Returns
    -------
    Path
        The report.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    work = plan_work(experiments, settings, quick=quick)
    with Journal(out, settings, tell=tell) as journal:
        on_start([item for item in work if not journal.has(item[0].key, item[1])])
        n_computed = run_work(work, settings, journal, jobs=jobs, on_finished=on_finished)
        findings = collect(experiments, journal, quick=quick)
        manifest = {
            "command": command,
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - clock, 2),
            "cell_seconds": round(sum(journal.lines[cell.key]["seconds"] for cell, _ in work), 2),
            "cells": len(work),
            "cells_computed": n_computed,
            "jobs": jobs,
            "quick": quick,
            "experiments": [experiment.name for experiment in experiments],
            "settings": settings.as_dict(),
            "machine": describe_machine(),
            "versions": package_versions(),
        }
        page = write_page(findings, settings, manifest, out, quick=quick)
        write_bytes(out / "summary.json", _json(summarise_findings(findings)))
        write_bytes(out / "manifest.json", _json(manifest))
        write_bytes(out / REPORT_NAME, page.encode())
        return out / REPORT_NAME


def summarise_findings(findings: Findings) -> dict[str, Any]:
    """Return agreement and verdicts as plain values."""
    return {
        "agreement": [
            {**asdict(a), "difference": a.difference, "z": a.z, "agrees": a.agrees}
            for a in findings.agreement
        ],
        "each_cell": [asdict(one) for one in findings.each_cell if abs(one.t) > LIMIT],
        "n_each_cell": len(findings.each_cell),
        "verdicts": {
            name: {"words": claim.words, "paper": claim.paper, **asdict(verdict)}
            for name, (claim, verdict) in findings.verdicts.items()
        },
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
