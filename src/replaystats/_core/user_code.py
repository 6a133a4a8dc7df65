"""Code that the user names: imported and called so that it can neither end the program nor change its state.

A policy in a module of the user may print, call ``sys.exit``, or set how NumPy treats errors. None of that
may turn into a wrong number or a false success of a command.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .errors import must_be

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM")


@contextmanager
def contained(name: str, what: str = "code that runs to its end") -> Iterator[None]:
    """Run code of the user.

    1. What it prints goes to standard error: standard output belongs to the results.
    2. What it changes of the process is put back: working directory, paths of imports, standard streams,
       NumPy's treatment of errors, filters of warnings, handlers of signals.
    3. What it raises, ``SystemExit`` included, becomes one sentence about `name`.

    Examples
    --------
    >>> with contained("policy"):
    ...     sys.exit(0)
    Traceback (most recent call last):
    ValueError: `policy` must be code that runs to its end; got a call of sys.exit(0).
    """
    streams, folder, paths = (sys.stdin, sys.stdout, sys.stderr), os.getcwd(), list(sys.path)
    handlers = _handlers()
    try:
        with np.errstate(), warnings.catch_warnings(), redirect_stdout(sys.stderr):
            yield
    except SystemExit as error:
        raise ValueError(must_be(name, what, f"a call of sys.exit({error.code!r})")) from error
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        own = frame.filename == __file__ or frame.filename.startswith("<")
        place = "" if own else f" ({Path(frame.filename).name}, line {frame.lineno})"
        got = f"{type(error).__name__}: {str(error).strip() or 'no message'}{place}"
        raise ValueError(must_be(name, what, got)) from error
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        sys.path[:] = paths
        with suppress(OSError):
            os.chdir(folder)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _handlers() -> dict[int, Any]:
    """Return the handlers of signals that Python knows; only the main thread may set them."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {
        getattr(signal, each): signal.getsignal(getattr(signal, each))
        for each in _SIGNALS
        if hasattr(signal, each)
    }
    return {number: handler for number, handler in found.items() if handler is not None}


def find_object(path: str, name: str) -> Any:
    """Return what ``module:object`` names; the module may lie in the working directory.

    Examples
    --------
    >>> find_object("math:sqrt", "use")(9.0)
    3.0
    """
    module, _, inner = path.partition(":")
    with contained(name, '"module:name" of something that can be imported'):
        sys.path.insert(0, os.getcwd())
        found: Any = import_module(module)
        for part in inner.split("."):
            found = getattr(found, part)
    return found


def containing(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function of the user that is `contained` at every call."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with contained(name, "a function that returns"):
            return function(*args, **options)

    return call
