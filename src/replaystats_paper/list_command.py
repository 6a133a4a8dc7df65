"""``replaystats list``: the experiments by name."""

from __future__ import annotations

from rich.table import Table

from replaystats.cli.console import out

from . import load_catalogue
from .qlearning.study import study_tables


def list_experiments() -> None:
    """List the experiments that `reproduce` knows."""
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "in the paper", "what"):
        table.add_column(heading, no_wrap=heading == "name")
    table.add_column("cells", justify="right")
    for experiment in load_catalogue().values():
        table.add_row(experiment.name, experiment.paper, experiment.title, str(len(experiment.cells)))
    table.add_row(
        "qlearning", "Appendix D", "Replay in Q-learning; runs by name only", str(_count_qlearning())
    )
    out.print(table)


def _count_qlearning() -> int:
    """Return how many different cells the study of Q-learning has."""
    return len({cell.key for table in study_tables(quick=False) for row in table.cells for cell in row})
