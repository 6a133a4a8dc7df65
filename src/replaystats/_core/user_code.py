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
from array_api_compat import array_namespace, is_torch_array

from .arrays import is_foreign
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


def called(function: Callable[..., Any], name: str, *arrays: Any, **options: Any) -> Any:
    """Return what a function of the user makes of copies of arrays: it may write into its arguments.

    How NumPy treats errors is put back, and a call of ``sys.exit`` does not end the program as if all had
    gone well. Other errors are the user's to read: they pass as they are.

    Examples
    --------
    >>> states = np.zeros(2)
    >>> def doubled(states):
    ...     states += 1.0
    ...     return 2.0 * states
    >>> called(doubled, "reward", states), states
    (array([2., 2.]), array([0., 0.]))
    """
    return uncopied(function, name, *(_copy(array) for array in arrays), **options)


def uncopied(function: Callable[..., Any], name: str, *arguments: Any, **options: Any) -> Any:
    """Do as `called` does where nobody else holds the arguments."""
    with np.errstate():
        try:
            return function(*arguments, **options)
        except SystemExit as error:
            got = f"a call of sys.exit({error.code!r})"
            raise ValueError(must_be(name, "a function that returns", got)) from error


@contextmanager
def blamed(name: str, rule: str) -> Iterator[None]:
    """Turn what code of the user raises into one sentence about `name`; our own refusals pass.

    Examples
    --------
    >>> with blamed("policy", "a function of states"):
    ...     [][0]
    Traceback (most recent call last):
    TypeError: `policy` must be a function of states; got IndexError from it (list index out of range).
    """
    try:
        yield
    except Exception as error:
        if str(error).startswith("`"):
            raise
        got = f"{type(error).__name__} from it ({str(error).strip().rstrip('.')})"
        raise TypeError(must_be(name, rule, got)) from error


def _copy(array: Any) -> Any:
    if isinstance(array, dict):
        return {name: _copy(each) for name, each in array.items()}
    if isinstance(array, np.ndarray) or hasattr(array, "iloc"):
        return array.copy()
    if is_torch_array(array):
        return array.detach().clone()
    return array_namespace(array).asarray(array, copy=True) if is_foreign(array) else array


def containing(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function of the user that is `contained` at every call."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with contained(name, "a function that returns"):
            return function(*args, **options)

    return call
