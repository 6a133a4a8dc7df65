"""One attack: call, wait for at most ten seconds of processor time, and say what happened."""

from __future__ import annotations

import contextlib
import signal
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any

HANG_SECONDS = 10.0  # of processor time: the machine may be busy with other things
WAIT_SECONDS = 120.0  # of time asleep
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
    """Raise HangError after ten seconds of work or two minutes of sleep, where signals are to be had."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        raise HangError

    clocks = {
        signal.SIGPROF: (signal.ITIMER_PROF, HANG_SECONDS),
        signal.SIGALRM: (signal.ITIMER_REAL, WAIT_SECONDS),
    }
    before = {number: signal.signal(number, stop) for number in clocks}
    for timer, seconds in clocks.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for number, (timer, _) in clocks.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


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
