"""Run cells: in parallel where they may share the machine, one line in the journal for each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

from joblib import Parallel, delayed

from replaystats.toolkit import check_int

from .catalogue import Experiment
from .cells import Cell, Settings
from .journal import Journal
from .studies import STUDIES, compute

Work = tuple[Cell, int]  # a cell and its number of repetitions


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
    journal: Journal,
    *,
    jobs: int = 1,
    on_finished: Callable[[Work], None] = lambda work: None,
) -> int:
    """Compute the cells that the journal does not have yet, and write them into it.

    Parameters
    ----------
    work : sequence of (Cell, int)
        From `plan_work`.
    settings : Settings
    journal : Journal
    jobs : int
        Processes. The results do not depend on it.
    on_finished : callable
        Called with each finished piece of work.

    Returns
    -------
    int
        How many cells were computed now.
    """
    check_int(jobs, "jobs", hint="It is the number of processes.")
    missing = [item for item in work if not journal.has(item[0].key, item[1])]
    by_key = {item[0].key: item for item in missing}
    shared = [item for item in missing if not STUDIES[item[0].study].timed]
    timed = [item for item in missing if STUDIES[item[0].study].timed]
    for items, processes in ((shared, jobs), (timed, 1)):
        with closing(_computed(items, settings, processes)) as lines:
            for line in lines:
                journal.append(line)
                on_finished(by_key[line["key"]])
    return len(missing)


def _computed(work: Sequence[Work], settings: Settings, jobs: int) -> Generator[dict[str, Any]]:
    """Yield the lines of the cells as they are finished."""
    if jobs == 1 or len(work) < 2:
        for cell, repetitions in work:
            yield compute(cell, settings, repetitions)
        return
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=jobs)
    lines = parallel(delayed(compute)(cell, settings, repetitions) for cell, repetitions in work)
    with closing(lines):  # a run that is stopped takes its workers with it
        yield from lines
