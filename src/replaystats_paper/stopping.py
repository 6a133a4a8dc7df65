"""How a long command ends when it is stopped: one sentence, the exit code scripts expect, nothing lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer
from joblib.externals.loky.process_executor import TerminatedWorkerError

from replaystats.cli.console import err

FAILED = 1
_GO_ON = "What is finished is kept; the same command goes on from there."


class Terminated(BaseException):
    """The process was asked to end (SIGTERM)."""


@contextmanager
def resumable() -> Iterator[None]:
    """Turn Ctrl-C, SIGTERM, a killed worker and a full disk into one sentence and an exit code.

    130 and 143 for Ctrl-C and SIGTERM, as a shell has them; 1 for the others.
    """
    with _terminated_raises():
        try:
            yield
        except KeyboardInterrupt as error:
            _end("Stopped.", 128 + signal.SIGINT, error)
        except Terminated as error:
            _end("Ended by the system (SIGTERM).", 128 + signal.SIGTERM, error)
        except TerminatedWorkerError as error:
            _end("A worker process was killed, perhaps for want of memory: try --jobs 1.", FAILED, error)
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            _end(f"A result could not be written: {error.strerror or error}{where}.", FAILED, error)


def _end(what: str, code: int, error: BaseException) -> None:
    if code == FAILED:
        err.print("Error:", style="bold red", end=" ")
    err.print(f"{what} {_GO_ON}", markup=False)
    raise typer.Exit(code) from error


@contextmanager
def _terminated_raises() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM for as long as the context lasts; signals belong to the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> Any:
        raise Terminated

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
