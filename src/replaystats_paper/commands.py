"""The commands that this package brings: ``replaystats reproduce``, ``list`` and ``study``.

Entry points of the package name this module. It is light to import, so that ``replaystats --help`` shows the
commands without importing an experiment or a plotting library; each imports those when it runs. A long one
that is stopped ends with one sentence, the exit code that scripts expect, and nothing lost.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from replaystats.cli import Stopped
from replaystats.cli.console import ExitCode, check_outputs, err, out, refusing

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
    with refusing(ExitCode.USAGE), resumable():
        from joblib import cpu_count  # cores that the process may use, by its container and affinity

        from .cells import Settings, find_experiments
        from .rerun import reproduce

        experiments = find_experiments(names or [])
        settings = Settings(seed=seed, beta=beta, solver=solver, repetitions=repetitions)
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        report = reproduce(
            experiments, settings, out_folder, quick=quick, jobs=jobs or cpu_count(), command=command,
            progress=True, tell=lambda text: err.print(text, markup=False),
        )  # fmt: skip
    out.print(str(report), markup=False)


def run_study_file(
    file: Annotated[str, typer.Argument(metavar="FILE|NAME", help="A TOML file, or a shipped study's name.")],
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for results; default results/NAME.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes. The numbers do not depend on it.")] = 1,
    repetitions: Annotated[
        int | None, typer.Option(help="Data sets per cell, in place of the file's.", show_default=False)
    ] = None,
) -> None:
    """Run a study from a TOML file; ends with the path of its page.

    The file names data, estimators and a grid; the classes and functions it names are imported and run. An
    interrupted study goes on where it stopped when the same command is given again, and a longer grid in the
    same folder computes only what is new.
    """
    with refusing(ExitCode.USAGE), resumable():
        from dataclasses import replace

        from .definition import inputs_of, locate, read_definition
        from .study import WRITTEN, run_definition

        path = locate(file)
        definition = read_definition(path)
        if repetitions is not None:
            definition = replace(definition, repetitions=repetitions)
        folder = out_folder or Path("results") / path.stem
        for name in WRITTEN:
            check_outputs({"--out": folder / name}, inputs_of(path))
        result = run_definition(
            definition, folder, jobs=jobs,
            tell=lambda text: err.print(text, markup=False),
        )  # fmt: skip
    out.print(str(result.report), markup=False)


def list_experiments() -> None:
    """List the experiments that `reproduce` knows."""
    from rich.table import Table

    from .cells import load_catalogue

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "in the paper", "what"):
        table.add_column(heading, no_wrap=heading == "name")
    table.add_column("cells", justify="right")
    for experiment in load_catalogue().values():
        title = experiment.title + ("; runs by name only" if experiment.by_name else "")
        table.add_row(experiment.name, experiment.paper, title, str(len(experiment.cells)))
    out.print(table)


FAILED = 1
_GO_ON = "What is finished is kept; the same command goes on from there."


@contextmanager
def resumable() -> Iterator[None]:
    """Turn Ctrl-C, SIGTERM, SIGHUP, a killed worker and a full disk into one sentence and an exit code.

    130, 143 and 129 for the signals, as a shell has them; 1 for the others.
    """
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        yield
    except (KeyboardInterrupt, Stopped) as error:
        _end(str(error) or "Stopped.", getattr(error, "code", 128 + signal.SIGINT), error)
    except TerminatedWorkerError as error:
        _end("A worker process was killed, perhaps for want of memory: try --jobs 1.", FAILED, error)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _end(f"A result could not be written: {error.strerror or error}{where}.", FAILED, error)


def _end(what: str, code: int, error: BaseException) -> None:
    if code == FAILED:
        err.print("Error:", style="bold red", end=" ")
    err.print(f"{what} {_GO_ON}", markup=False)
    raise typer.Exit(code) from error
