"""What all commands share: where they write, and how they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def watched() -> bool:
    """Whether somebody sees what moves on standard error: FORCE_COLOR asks for colors, not for bars."""
    return err.file.isatty()


@contextmanager
def plain_errors() -> Iterator[None]:
    """Show a wrong argument or a missing package as one sentence, not as a traceback."""
    try:
        yield
    except (ValueError, TypeError, ImportError) as error:
        err.print("Error:", style="bold red", end=" ")
        err.print(str(error), markup=False)
        raise typer.Exit(2) from error
