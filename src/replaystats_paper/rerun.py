"""From names of experiments to a folder with cells, figures, a summary, a manifest and a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from replaystats.toolkit import write_bytes

from .cells import Experiment, Settings
from .claims import collect, summarise_findings
from .journal import Journal
from .page import write_page
from .running import REPORT_NAME, write_json, write_manifest
from .studies import Work, plan_work, run_work


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
        facts = {
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
        }
        manifest = write_manifest(out, facts)
        page = write_page(findings, settings, manifest, out, quick=quick)
        write_json(out / "summary.json", summarise_findings(findings))
        write_bytes(out / REPORT_NAME, page.encode())
        return out / REPORT_NAME
