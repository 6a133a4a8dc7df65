"""Settings of a session, in the manner of scikit-learn: memory, workers, progress bars.

They belong to the thread that sets them, so that two threads of a program do not disturb each other. Workers
of an executor get the settings of the thread that gave them their work.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from .arrays import is_foreign, take_rows
from .errors import must_be
from .validation import check_int, is_whole

Result = TypeVar("Result")

# Format: limit of a parameter, more workers than any machine has.
MOST_JOBS = 10_000
# Layout: seconds of work before anything is shown.
_QUIET_SECONDS = 1.0
_shown: ContextVar[Any] = ContextVar("shown", default=None)
_DEFAULTS: dict[str, Any] = {
    "memory_budget": 2**30,
    "device_memory_budget": 2**32,
    "n_jobs": None,
    "progress": True,
}
_thread = threading.local()
Item = TypeVar("Item")


def get_config() -> dict[str, Any]:
    """Return the settings of this thread.

    Returns
    -------
    dict
        A copy: changing it changes nothing. The keys are the parameters of `set_config`.

    See Also
    --------
    config_context : Other settings for a block of code.
    set_config : Other settings from now on.

    Examples
    --------
    >>> import replaystats as rs
    >>> rs.get_config()["memory_budget"]
    1073741824
    """
    return dict(_settings())


def set_config(
    *,
    memory_budget: int | None = None,
    device_memory_budget: int | None = None,
    n_jobs: int | str | None = None,
    progress: bool | None = None,
) -> None:
    """Change settings of this thread from now on; what is None stays as it is.

    Parameters
    ----------
    memory_budget : int, optional
        Bytes that the working arrays of one task may take, at first 1 GiB. Less memory means more and smaller
        steps; results do not depend on it, up to rounding.
    device_memory_budget : int, optional
        The same for arrays on a GPU, at first 4 GiB.
    n_jobs : int or "default", optional
        Workers where a function or an estimator is not given a number, as in scikit-learn: -1 is all cores.
        "default" takes the choice back: then it is 1, unless a joblib context says otherwise.
    progress : bool, optional
        Whether long work may draw a bar, at first True. It never does where standard error is no terminal.

    Raises
    ------
    TypeError, ValueError
        If a setting is out of its range; then none is changed.

    See Also
    --------
    config_context : Other settings for a block of code only.
    get_config : The settings now.

    Examples
    --------
    >>> import replaystats as rs
    >>> rs.set_config(memory_budget=2**28)
    >>> rs.get_config()["memory_budget"]
    268435456
    >>> rs.set_config(memory_budget=2**30)
    """
    changed: dict[str, Any] = {}
    for name, value in (("memory_budget", memory_budget), ("device_memory_budget", device_memory_budget)):
        if value is not None:
            changed[name] = check_int(value, name, low=2**20, hint="It is counted in bytes.")
    if n_jobs is not None:
        changed["n_jobs"] = None if isinstance(n_jobs, str) and n_jobs == "default" else check_jobs(n_jobs)
    if progress is not None:
        if not isinstance(progress, bool):
            raise TypeError(must_be("progress", "True or False", repr(progress)))
        changed["progress"] = progress
    _settings().update(changed)


@contextmanager
def config_context(
    *,
    memory_budget: int | None = None,
    device_memory_budget: int | None = None,
    n_jobs: int | str | None = None,
    progress: bool | None = None,
) -> Iterator[None]:
    """Change settings of this thread for a block of code; what is None stays as it is.

    Parameters
    ----------
    memory_budget : int, optional
        Bytes that the working arrays of one task may take.
    device_memory_budget : int, optional
        The same for arrays on a GPU.
    n_jobs : int or "default", optional
        Workers where a function or an estimator is not given a number; "default" takes a choice back.
    progress : bool, optional
        Whether long work may draw a bar.

    Yields
    ------
    None

    See Also
    --------
    set_config : What each setting means.

    Examples
    --------
    >>> import replaystats as rs
    >>> with rs.config_context(memory_budget=2**24, progress=False):
    ...     rs.get_config()["memory_budget"]
    16777216
    """
    before = get_config()
    set_config(
        memory_budget=memory_budget,
        device_memory_budget=device_memory_budget,
        n_jobs=n_jobs,
        progress=progress,
    )
    try:
        yield
    finally:
        _thread.settings = before


def memory_budget() -> int:
    """Return the bytes that working arrays on the host may take."""
    return int(_settings()["memory_budget"])


def device_memory_budget() -> int:
    """Return the bytes that working arrays on a device may take."""
    return int(_settings()["device_memory_budget"])


def chosen_n_jobs(n_jobs: int | None) -> int | None:
    """Return `n_jobs` as given, or the setting where it is None."""
    return _settings()["n_jobs"] if n_jobs is None else n_jobs


def run_with(settings: dict[str, Any], function: Callable[..., Result], *args: Any) -> Result:
    """Call `function` in another thread or process, under the settings of the one that asks."""
    before = get_config()
    _thread.settings = dict(settings)
    try:
        return function(*args)
    finally:
        _thread.settings = before


def _settings() -> dict[str, Any]:
    if not hasattr(_thread, "settings"):
        _thread.settings = dict(_DEFAULTS)
    settings: dict[str, Any] = _thread.settings
    return settings


def check_jobs(n_jobs: Any) -> int | None:
    """Return `n_jobs` if scikit-learn would understand it: None, or a whole number other than 0."""
    if n_jobs is None or (is_whole(n_jobs) and 0 < abs(n_jobs) <= MOST_JOBS):
        return n_jobs  # type: ignore[no-any-return]
    hint = "-1 means all cores."
    raise ValueError(must_be("n_jobs", f"None or an int from 1 to {MOST_JOBS}", repr(n_jobs), hint))


def _at_a_terminal() -> bool:
    """Whether somebody sees what is said; programs without a console have no standard error."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def _display() -> Iterator[Any]:
    """Yield the display of what goes on, which calls inside each other share; None where nobody looks.

    It appears on a terminal when the work has taken a second, and goes when it is done.
    """
    shown, alone = _shown.get(), threading.current_thread() is threading.main_thread()
    if shown is not None or not alone or not get_config()["progress"] or not _at_a_terminal():
        yield shown
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    except ImportError:  # a display is a courtesy: without rich the work goes on unseen
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    display = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    timer = threading.Timer(_QUIET_SECONDS, display.start)
    timer.daemon = True
    timer.start()
    _shown.set(display)
    try:
        yield display
    finally:
        _shown.set(None)
        timer.cancel()
        timer.join()
        if display.live.is_started:
            display.stop()


@contextmanager
def step(what: str) -> Iterator[None]:
    """Name a step of a long call on a terminal, with its time so far."""
    with _display() as display:
        if display is None:
            yield
            return
        task = display.add_task(what, total=None)
        try:
            yield
        finally:
            display.remove_task(task)


def track(items: Iterable[Item], *, total: int, description: str) -> Iterator[Item]:
    """Yield from `items`, drawing a bar with the remaining time when standard error is a terminal."""
    with _display() as display:
        if display is None or total < 2:
            yield from items
            return
        task = display.add_task(description, total=total)
        try:
            for item in items:
                yield item
                display.advance(task)
        finally:
            display.remove_task(task)


def in_blocks(points: Any, numbers_per_point: int, function: Callable[[Any], Any]) -> Any:
    """Apply a function to blocks of points that fit into memory, and join what it returns."""
    if points is None or is_foreign(points):
        return function(points)
    step, m = max(1, memory_budget() // (8 * numbers_per_point)), points.shape[0]
    if step >= m:
        return function(points)
    parts = [function(take_rows(points, slice(first, first + step))) for first in range(0, m, step)]
    if isinstance(parts[0], list):
        return [item for part in parts for item in part]
    return np.concatenate(parts)
