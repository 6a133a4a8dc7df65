"""A progress bar for long work: in a terminal, with rich installed, unless `set_config` turns it off."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from .config import get_config

Item = TypeVar("Item")


def track(items: Iterable[Item], *, total: int, description: str) -> Iterator[Item]:
    """Yield from `items`, drawing a bar with the remaining time when standard error is a terminal."""
    if total < 2 or not get_config()["progress"] or not sys.stderr.isatty():
        yield from items
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:  # a bar is a courtesy: without rich the work goes on unseen
        yield from items
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(items, total=total, description=description)
