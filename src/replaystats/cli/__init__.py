"""The command line: ``replaystats --help``. One module per command; `app` puts them together."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_REASONS = {
    "SIGINT": "Stopped.",
    "SIGTERM": "Ended by the system (SIGTERM).",
    "SIGHUP": "The terminal was closed.",
}


class Stopped(BaseException):
    """A signal asked the program to end; not an Exception, so that no handler takes it for a mistake."""

    def __init__(self, number: int) -> None:
        self.code = 128 + number
        super().__init__(_REASONS[signal.Signals(number).name])


def listen() -> None:
    """Raise `Stopped` on Ctrl-C, SIGTERM and SIGHUP, unless they are ignored, as SIGHUP under nohup."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    for name in _REASONS:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def main() -> None:
    """Run the command line."""
    streams = (sys.stdout, sys.stderr)  # None where who called has closed them
    sys.stdout, sys.stderr = (each or open(os.devnull, "w", encoding="utf-8") for each in streams)  # noqa: SIM115
    try:
        listen()  # before the slow imports
        from .._core.errors import MissingExtraError, require_extra

        try:
            require_extra("typer", extra="cli", purpose="The command line")
        except MissingExtraError as error:  # the first thing that a new user may see
            sys.exit(f"Error: {error}")
        from .app import app

        try:
            app()
        finally:
            sys.stdout.flush()  # here, where a full disk can still be named
    except OSError as error:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes once more at its end
        if not isinstance(error, BrokenPipeError):  # nobody reads any more, as behind `head`
            print(f"Error: The answer could not be shown: {error.strerror or error}.", file=sys.stderr)
        sys.exit(1)
    except (Stopped, KeyboardInterrupt) as error:
        print(str(error) or "Stopped.", file=sys.stderr)
        sys.exit(getattr(error, "code", 128 + signal.SIGINT))
