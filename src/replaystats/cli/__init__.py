"""The command line: ``replaystats --help``. One module per command; `app` puts them together."""

from __future__ import annotations

import sys

from .._core.errors import MissingExtraError, require_extra


def main() -> None:
    """Run the command line."""
    try:
        require_extra("typer", extra="cli", purpose="The command line")
    except MissingExtraError as error:  # the first thing that a new user may see: a sentence, no traceback
        sys.exit(f"Error: {error}")
    from .app import app

    app()
