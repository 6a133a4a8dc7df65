"""One attack: call, wait at most ten seconds, and say what happened."""

from __future__ import annotations

import contextlib
import signal
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any

HANG_SECONDS = 10.0
# What one attack may allocate on top of what the process holds already.
EXTRA_BYTES = 3 * 2**30
# Errors that a refusal may have; anything else is raw, whatever it says.
REFUSALS = (ValueError, TypeError, ImportError, ArithmeticError, OSError)


class HangError(BaseException):
    """Raised by the alarm; not an Exception, so that no handler swallows it."""


def outcome(call: Callable[[], Any], parameters: Collection[str]) -> tuple[str, str]:
    """Return "refused", "silent", "raw", "hang" or "memory", and the message.

    A refusal names one of the parameters that the user could give, and says what it must be: the one that was
    spoilt, or the one that no longer fits to it.
    """
    try:
        with _time_limit(), _memory_limit(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except HangError:
        return "hang", ""
    except MemoryError as error:
        return "memory", str(error)
    except REFUSALS as error:
        message = str(error)
        named = "must" in message and any(f"`{name}" in message for name in parameters)
        return ("refused" if named else "raw"), f"{type(error).__name__}: {message}"
    except Exception as error:
        return "raw", f"{type(error).__name__}: {error}"
    return "silent", ""


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    """Raise HangError after ten seconds, where signals are to be had."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _memory_limit() -> Iterator[None]:
    """Let an attack that asks for the moon fail at once instead of taking the machine down."""
    import resource  # not on Windows

    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + EXTRA_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
