"""The commands, put together."""

from __future__ import annotations

from importlib.metadata import entry_points

import typer

from .evaluate import EPILOG as EVALUATE_EPILOG
from .evaluate import evaluate
from .regress import EPILOG as REGRESS_EPILOG
from .regress import regress


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
# Other packages add commands of their own, as the re-run of the paper does.
for command in entry_points(group="replaystats.commands"):
    app.command(command.name)(command.load())


@app.callback()
def about() -> None:
    """Estimate on many random subsets, combine, and know what you got."""
