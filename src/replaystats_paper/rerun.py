"""The kinds of cells of the re-run, and the way from names of experiments to a folder with their report.

The paper's own grids are studies like anybody's (studies/paper-*.toml): their cells are computed by
`study.run.compute_cell`, and only sorted by algorithm here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from replaystats.toolkit import check_int, write_bytes

from . import cost, kernel, policy, qlearning, theory
from .cells import Cell, Experiment, Settings
from .claims import collect, summarise_findings
from .definition import Definition, make_definition, read_config, shipped_studies
from .journal import REPORT_NAME, CellJournal, write_json, write_manifest
from .measures import METHODS
from .page import write_page
from .study import compute_cell

RunCell = Callable[[Cell, Settings, int], dict[str, Any]]
Work = tuple[Cell, int]  # a cell and its number of repetitions


@dataclass(frozen=True, slots=True)
class Study:
    """A kind of cell.

    Attributes
    ----------
    run : callable
        ``run(cell, settings, repetitions)`` gives plain values for JSON.
    cost : callable
        ``cost(cell, repetitions)`` in seconds of one core, roughly: for the order of work and for the bar.
    timed : bool
        Whether the result is a time, so that nothing else may run beside it.
    """

    run: RunCell
    cost: Callable[[Cell, int], float]
    timed: bool = False


@lru_cache(maxsize=4)
def paper_study(name: str, seed: int = 20260, beta: float = 1.0, solver: str = "pinv") -> Definition:
    """Return the paper's study "policy", "kernel" or "boston", with another beta or solver if wanted.

    Examples
    --------
    >>> paper_study("kernel")
    Definition("The paper's kernel ridge on simulated data", 36 cells x 100, krr plain, krr U, krr V)
    """
    path = shipped_studies()[f"paper-{name}"]
    config = read_config(path) | {"seed": seed}
    if name == "policy":
        config["data"]["discount_rate"] = beta
        config["estimators"]["all"] |= {"discount_rate": beta, "solver": solver}
    return make_definition(config, path)


def run_paper_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Compute a cell of the paper's grids; results by algorithm, measure and method."""
    definition = paper_study(cell.study, settings.seed, settings.beta, settings.solver)
    found = compute_cell(replace(definition, repetitions=repetitions), cell)["results"]
    results: dict[str, Any] = {}
    for family in definition.families:
        algorithm = family[0].partition(" ")[0]
        mine = dict(zip(METHODS, (found[name] for name in family), strict=True))
        measures = [name for name in mine["plain"] if name.startswith("rmse")]
        results[algorithm] = {
            measure: {method: one[measure] for method, one in mine.items()}
            for measure in (*measures, "variance", "mean", "low", "high")
        }
        for fact, reduce in (("condition", np.median), ("truncated", np.mean)):
            if fact in mine["plain"]["facts"]:
                results[algorithm][fact] = {m: float(reduce(one["facts"][fact])) for m, one in mine.items()}
    return results


def _policy_cost(cell: Cell, repetitions: int) -> float:
    return repetitions * float(1e-5 * cell["n"] + cell["B"] * (8e-5 + 6e-8 * cell["n"]))


def _kernel_cost(cell: Cell, repetitions: int) -> float:
    return repetitions * float(2e-3 + 2 * cell["B"] * (4e-5 + 1.2e-8 * cell["k"] ** 2))


def _table_cost(cell: Cell, repetitions: int) -> float:
    return (4e-3 + 1e-11 * float(cell["n"]) ** 3) * kernel.budgeted(repetitions, cell["n"])


STUDIES: dict[str, Study] = {
    "policy": Study(run_paper_cell, _policy_cost),
    "kernel": Study(run_paper_cell, _kernel_cost),
    "boston": Study(run_paper_cell, _kernel_cost),
    "ablation": Study(policy.run_ablation_cell, lambda cell, m: 1.2e-3 * cell["B"] * m + 5e-3 * cell["n"]),
    "tuned": Study(kernel.run_tuned_cell, lambda cell, m: 2 * _kernel_cost(cell, m)),
    "testsets": Study(kernel.run_test_sets_cell, lambda cell, m: 0.2 * m),
    "rates": Study(theory.run_rate_cell, lambda cell, m: 1e-8 * cell["n"] ** 2 * m),
    "features": Study(theory.run_feature_cell, lambda cell, m: 1e-7 * cell["q"] ** 3 * m),
    "dependent": Study(theory.run_dependent_cell, lambda cell, m: 2e-6 * cell["n"] * m),
    "federated": Study(theory.run_federated_cell, lambda cell, m: 2e-5 * cell["B"] * m),
    "importance": Study(theory.run_proposal_cell, lambda cell, m: 0.05 * cell["k"] ** 2),
    "weighted": Study(theory.run_weighted_cell, lambda cell, m: 1e-6 * cell["n"] * m),
    "qlearning": Study(
        qlearning.run_qlearning_cell, lambda cell, m: 1e-2 * m * cell["episodes"] * cell["B"] ** 0.5
    ),
    "timing": Study(kernel.run_table_cell, _table_cost, timed=True),
    "scaling": Study(cost.run_scaling_cell, lambda cell, m: 1e-7 * cell["n"] ** 2 * m, timed=True),
}


def compute(work: Work, settings: Settings) -> dict[str, Any]:
    """Compute one cell on one BLAS thread; return the line that the journal keeps.

    Its seconds are those of the processor: what else runs on the machine does not count.
    """
    cell, repetitions = work
    started = time.process_time()
    with threadpool_limits(1):
        results = STUDIES[cell.study].run(cell, settings, repetitions)
    seconds = round(time.process_time() - started, 4)
    return {"key": cell.key, "repetitions": repetitions, "seconds": seconds, "results": results}


def plan_work(experiments: Sequence[Experiment], settings: Settings, *, quick: bool) -> list[Work]:
    """Return each cell that the experiments need, once, the longest first; timed cells come last.

    Longest first keeps all processes busy until the end.
    """
    needed: dict[str, Work] = {}
    for experiment in experiments:
        repetitions = experiment.chosen_repetitions(settings.repetitions)
        for cell in experiment.chosen_cells(quick):
            needed[cell.key] = (cell, repetitions)
    return sorted(needed.values(), key=lambda work: (STUDIES[work[0].study].timed, -cost_of(work)))


def cost_of(work: Work) -> float:
    """Return roughly how many seconds a cell takes on one core."""
    return STUDIES[work[0].study].cost(*work)


def run_work(
    work: Sequence[Work],
    settings: Settings,
    journal: CellJournal,
    *,
    jobs: int = 1,
    progress: bool = False,
) -> int:
    """Compute the cells that the journal does not have yet, and write them into it.

    Parameters
    ----------
    work : sequence of (Cell, int)
        From `plan_work`.
    settings : Settings
    journal : CellJournal
    jobs : int
        Processes. The results do not depend on it.
    progress : bool
        Whether to draw a bar in a terminal.

    Returns
    -------
    int
        How many cells were computed now.
    """
    check_int(jobs, "jobs", hint="It is the number of processes.")
    missing = [item for item in work if not journal.has(item[0].key, item[1])]
    for timed, processes, what in ((False, jobs, "cells"), (True, 1, "timed cells")):
        items = [item for item in missing if STUDIES[item[0].study].timed is timed]
        journal.complete(
            partial(compute, settings=settings), items, jobs=processes, progress=what if progress else ""
        )
    return len(missing)


def reproduce(
    experiments: Sequence[Experiment],
    settings: Settings,
    out: Path,
    *,
    quick: bool = False,
    jobs: int = 1,
    command: str = "",
    progress: bool = False,
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
    progress : bool
        Whether to draw a bar in a terminal.
    tell : callable, optional
        Receives what a damaged journal made necessary; by default a warning.

    Returns
    -------
    Path
        The report.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    work = plan_work(experiments, settings, quick=quick)
    with CellJournal(out, settings, tell=tell) as journal:
        n_computed = run_work(work, settings, journal, jobs=jobs, progress=progress)
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
