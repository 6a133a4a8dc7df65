"""The command line: ``replaystats --help``. One module per command; `app` puts them together."""

from __future__ import annotations

from .._core.errors import require_extra


def main() -> None:
    """Run the command line."""
    require_extra("typer", extra="cli", purpose="The command line")
    from .app import app

    app()
