"""``replaystats reproduce``: the paper's experiments, run again and set beside the published numbers.

An entry point of the package names this module. It is light to import, so that ``replaystats --help`` shows
the command without importing an experiment or a plotting library; the command imports those when it runs.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from replaystats.cli.console import err, out, plain_errors

QLEARNING = "qlearning"
SEED, BETA, SOLVER = 20260, 1.0, "pinv"


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
    beta: Annotated[float, typer.Option(help="Discount rate of policy evaluation.")] = BETA,
    solver: Annotated[str, typer.Option(help="pinv, pinv:RCOND, lu, auto, ridge:ALPHA.")] = SOLVER,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = SEED,
) -> None:
    """Run the paper's experiments again; ends with the path of the report.

    An interrupted run goes on where it stopped when the same command is given again.
    """
    from .stopping import resumable

    with plain_errors(), resumable():
        from .catalogue import find_experiments
        from .cells import Settings
        from .progress import WorkBar
        from .rerun import reproduce

        wanted = list(names or [])
        if QLEARNING in wanted:
            wanted.remove(QLEARNING)
            out.print(str(_reproduce_qlearning(out_folder, quick, jobs, seed)), markup=False)
            if not wanted:
                return
        experiments = find_experiments(wanted)
        settings = Settings(seed=seed, beta=beta, solver=solver, repetitions=repetitions)
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        with WorkBar() as bar:
            report = reproduce(
                experiments, settings, out_folder, quick=quick, jobs=jobs or usable_cores(), command=command,
                on_start=bar.start_work, on_finished=bar.advance_work,
                tell=lambda text: err.print(text, markup=False),
            )  # fmt: skip
    out.print(str(report), markup=False)


def _reproduce_qlearning(folder: Path, quick: bool, jobs: int | None, seed: int) -> Path:
    """Run the study of replay in Q-learning, which has cells and a page of its own."""
    from .qlearning import page, results

    result = results.run_qlearning(folder, quick=quick, jobs=jobs or usable_cores(), seed=seed)
    return page.write_page(result, folder / QLEARNING)


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
