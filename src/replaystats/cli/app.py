"""The commands, put together."""

from __future__ import annotations

import typer

from .evaluate import EPILOG as EVALUATE_EPILOG
from .evaluate import evaluate
from .list_experiments import list_experiments
from .regress import EPILOG as REGRESS_EPILOG
from .regress import regress
from .reproduce import reproduce_experiments


def _flowing(text: str | None) -> str:
    """Join the lines of each paragraph: the terminal decides where they break."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


app = typer.Typer(
    name="replaystats",
    help="Estimate on many random subsets, combine, and know what you got.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("evaluate", help=_flowing(evaluate.__doc__), epilog=_flowing(EVALUATE_EPILOG))(evaluate)
app.command("regress", help=_flowing(regress.__doc__), epilog=_flowing(REGRESS_EPILOG))(regress)
app.command("list")(list_experiments)
app.command("reproduce")(reproduce_experiments)


@app.callback()
def about() -> None:
    """Estimate on many random subsets, combine, and know what you got."""
