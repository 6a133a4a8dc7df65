"""``replaystats list``: the experiments by name."""

from __future__ import annotations

from rich.table import Table

from ..experiments import load_catalogue
from .console import out


def list_experiments() -> None:
    """List the experiments that `reproduce` knows."""
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "in the paper", "what"):
        table.add_column(heading, no_wrap=heading == "name")
    table.add_column("cells", justify="right")
    for experiment in load_catalogue().values():
        table.add_row(experiment.name, experiment.paper, experiment.title, str(len(experiment.cells)))
    out.print(table)
