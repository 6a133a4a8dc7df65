"""``replaystats check``: what the columns of a log seem to mean, and the command that evaluates it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from .._core.errors import visible
from . import _options as opt
from .console import EXIT_CODES, ExitCode, as_json, out, refusing, working

if TYPE_CHECKING:
    from ..data import Trajectories
    from ..readers.guess import LogGuess

EPILOG = f"""
Examples:

replaystats check log.csv

replaystats check log.parquet --discount 0.95

{EXIT_CODES}.
"""


def check(
    data: opt.Log,
    discount: Annotated[float, typer.Option(help="Discount of the suggested command.")] = 0.99,
    json: opt.Json = False,
) -> None:
    """Guess what the columns of a log mean, read it, and print the command that evaluates it."""
    from ..readers import from_table
    from ..readers.guess import guess_columns
    from ..readers.tables import files_like

    with working("Reading the log"), refusing(ExitCode.DATA, data, "DATA"):
        guess = guess_columns(data if data.exists() else files_like(str(data))[0])
        episodes = from_table(data, **guess.arguments, time_limit=None)
    limit = _time_limit(guess, episodes)
    options = [*guess.options, *([] if limit is None else ["--time-limit", str(limit)])]
    command = shlex.join(["replaystats", "evaluate", str(data), *options, "--discount", f"{discount:g}"])
    if json:
        found = {"columns": guess.columns, "unused": guess.unused, "time_limit": limit, "run": command}
        print(as_json({"command": "check", **found}))
        return
    for role, names in guess.columns.items():
        out.print(f"{role.replace('_', ' '):<22}{', '.join(names)}", markup=False)
    if guess.unused:
        shown = (visible(name) or '""' for name in guess.unused)
        out.print(f"{'not used':<22}{', '.join(shown)}", markup=False)
    ended = int(episodes.terminated.sum())
    steps = episodes.n_transitions
    out.print(f"\n{len(episodes):,} episodes, {steps:,} steps, {ended:,} terminated.", markup=False)
    if guess.final_states == "repeat":
        out.print("Rows are steps: the state after the last step was not logged, so it is repeated.")
    if limit is not None:
        out.print(
            f"Many episodes end after exactly {limit} steps: a time limit seems to have cut them off. "
            "If they really ended there, say --time-limit none instead."
        )
    out.print(f"\nIf this is right, run:\n\n{command}", markup=False)


def _time_limit(guess: LogGuess, episodes: Trajectories) -> int | None:
    """Return the time limit that the lengths of episodes suggest, where no column says which were cut off."""
    from ..readers.flat import looks_like_a_limit

    if "truncated" in guess.columns or not looks_like_a_limit(episodes.n_steps, episodes.terminated):
        return None
    return int(episodes.n_steps.max())
