"""The commands, put together."""

from __future__ import annotations

import typer

from .list_experiments import list_experiments
from .reproduce import reproduce_experiments

app = typer.Typer(
    name="replaystats",
    help="Estimate on many random subsets, combine, and know what you got.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("list")(list_experiments)
app.command("reproduce")(reproduce_experiments)


@app.callback()
def about() -> None:
    """Estimate on many random subsets, combine, and know what you got."""
