"""``replaystats list``: the experiments by name. An entry point names this module: it is light to import."""

from __future__ import annotations

from replaystats.cli.console import out


def list_experiments() -> None:
    """List the experiments that `reproduce` knows."""
    from rich.table import Table

    from .catalogue import load_catalogue
    from .qlearning.study import count_cells

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "in the paper", "what"):
        table.add_column(heading, no_wrap=heading == "name")
    table.add_column("cells", justify="right")
    for experiment in load_catalogue().values():
        table.add_row(experiment.name, experiment.paper, experiment.title, str(len(experiment.cells)))
    table.add_row("qlearning", "Appendix D", "Replay in Q-learning; runs by name only", str(count_cells()))
    out.print(table)
