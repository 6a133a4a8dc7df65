"""``replaystats check``: what the columns of a log seem to mean, and the command that evaluates it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from .console import EXIT_CODES, ExitCode, as_json, out, refusing, working

EPILOG = f"""
Examples:

replaystats check log.csv

replaystats check log.parquet --discount 0.95

{EXIT_CODES}.
"""


def check(
    data: Annotated[
        Path, typer.Argument(exists=True, metavar="DATA", help="A Parquet, CSV or JSON lines file.")
    ],
    discount: Annotated[float, typer.Option(help="Discount of the suggested command.")] = 0.99,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Guess what the columns of a log mean, read it, and print the command that evaluates it."""
    from ..readers import from_table
    from ..readers.guess import guess_columns

    with working("Reading the columns"), refusing(ExitCode.DATA, data, "DATA"):
        guess = guess_columns(data)
    command = shlex.join(
        ["replaystats", "evaluate", str(data), *guess.options, "--discount", f"{discount:g}"]
    )
    with working("Reading the episodes"), refusing(ExitCode.DATA, data, "DATA"):
        episodes = from_table(data, **guess.arguments)
    if json:
        print(as_json({"command": "check", "columns": guess.columns, "unused": guess.unused, "run": command}))
        return
    for role, names in guess.columns.items():
        out.print(f"{role.replace('_', ' '):<22}{', '.join(names)}", markup=False)
    if guess.unused:
        out.print(f"{'not used':<22}{', '.join(guess.unused)}", markup=False)
    ended = int(episodes.terminated.sum())
    steps = episodes.n_transitions
    out.print(f"\n{len(episodes):,} episodes, {steps:,} steps, {ended:,} terminated.", markup=False)
    if guess.final_states == "repeat":
        out.print("Rows are steps: the state after the last step was not logged, so it is repeated.")
    out.print(f"\nIf this is right, run:\n\n{command}", markup=False)
