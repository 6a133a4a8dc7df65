"""``replaystats reproduce``: the paper's experiments, run again and set beside the published numbers."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from replaystats.cli.console import err, out, plain_errors

from . import Settings, find_experiments
from .qlearning.page import write_page
from .qlearning.results import FOLDER as QLEARNING
from .qlearning.results import run_qlearning
from .reproduce import reproduce
from .runner import Work, cost_of


def reproduce_experiments(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME ...|all", help="Names from `replaystats list`; default all but qlearning."
        ),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(help="M, the data sets per cell; default as published.", show_default=False)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A part of the cells: about a minute.")] = False,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder for results.")] = Path("results"),
    jobs: Annotated[
        int | None, typer.Option(help="Processes; default one per core. Numbers do not depend on it.")
    ] = None,
    beta: Annotated[float, typer.Option(help="Discount rate of policy evaluation.")] = Settings().beta,
    solver: Annotated[str, typer.Option(help="pinv, pinv:RCOND, lu, auto, ridge:ALPHA.")] = Settings().solver,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = Settings().seed,
) -> None:
    """Run the paper's experiments again; ends with the path of the report.

    An interrupted run goes on where it stopped when the same command is given again.
    """
    with plain_errors():
        wanted = list(names or [])
        if QLEARNING in wanted:
            wanted.remove(QLEARNING)
            out.print(str(_reproduce_qlearning(out_folder, quick, jobs, seed)))
            if not wanted:
                return
        experiments = find_experiments(wanted)
        settings = Settings(seed=seed, beta=beta, solver=solver, repetitions=repetitions)
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        with _Bar() as bar:
            report = reproduce(
                experiments, settings, out_folder, quick=quick, jobs=jobs or _usable_cores(), command=command,
                on_start=bar.start_work, on_finished=bar.advance_work,
            )  # fmt: skip
    out.print(str(report))


def _reproduce_qlearning(folder: Path, quick: bool, jobs: int | None, seed: int) -> Path:
    """Run the study of replay in Q-learning, which has cells and a page of its own."""
    result = run_qlearning(folder, quick=quick, jobs=jobs or _usable_cores(), seed=seed)
    return write_page(result, folder / QLEARNING)


class _Bar(Progress):
    """A bar with the remaining time, in units of estimated work; silent when nobody watches."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"),
                   TimeRemainingColumn())  # fmt: skip
        super().__init__(*columns, console=err, transient=True, disable=not err.is_terminal)
        self._done, self._count = 0, 0
        self._bar: TaskID | None = None

    def start_work(self, work: Sequence[Work]) -> None:
        """Say how much there is to do."""
        self._count = len(work)
        self._bar = self.add_task(f"0/{self._count} cells", total=sum(map(cost_of, work)))

    def advance_work(self, work: Work) -> None:
        """Say that a cell is finished."""
        assert self._bar is not None
        self._done += 1
        counted = f"{self._done}/{self._count} cells"
        description = counted if self._done < self._count else "figures and report"
        self.update(self._bar, advance=cost_of(work), description=description)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
