"""The progress bar of a run."""

from __future__ import annotations

from collections.abc import Sequence

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from replaystats.cli.console import err

from .runner import Work, cost_of


class WorkBar(Progress):
    """A bar with the remaining time, in units of estimated work; silent when nobody watches."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"),
                   TimeRemainingColumn())  # fmt: skip
        super().__init__(*columns, console=err, transient=True, disable=not err.is_terminal)
        self._done, self._count = 0, 0
        self._bar: TaskID | None = None

    def start_work(self, work: Sequence[Work]) -> None:
        """Say how much there is to do."""
        self._count = len(work)
        self._bar = self.add_task(f"0/{self._count} cells", total=sum(map(cost_of, work)))

    def advance_work(self, work: Work) -> None:
        """Say that a cell is finished."""
        assert self._bar is not None
        self._done += 1
        counted = f"{self._done}/{self._count} cells"
        description = counted if self._done < self._count else "figures and report"
        self.update(self._bar, advance=cost_of(work), description=description)
