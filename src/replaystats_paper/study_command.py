"""``replaystats study FILE``: a study of your own, or one of those that are shipped. Light to import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replaystats.cli.console import err, out, plain_errors


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
    from .stopping import resumable

    with plain_errors(), resumable():
        from dataclasses import replace

        from .study.definition import read_definition
        from .study.run import run_definition
        from .study.shipped import locate

        path = locate(file)
        definition = read_definition(path)
        if repetitions is not None:
            definition = replace(definition, repetitions=repetitions)
        result = run_definition(
            definition, out_folder or Path("results") / path.stem, jobs=jobs,
            tell=lambda text: err.print(text, markup=False),
        )  # fmt: skip
    out.print(str(result.report), markup=False)
