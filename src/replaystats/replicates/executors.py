"""Who runs the pieces of a computation: this thread, or joblib's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

Task = TypeVar("Task")
Result = TypeVar("Result")


class Executor(Protocol):
    """Anything that maps a function over tasks and returns the results in order."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """Return ``[function(task) for task in tasks]``."""
        ...


class SerialExecutor:
    """One task after the other, in this thread."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """Return ``[function(task) for task in tasks]``."""
        return [function(task) for task in tasks]


class JoblibExecutor:
    """Tasks over joblib workers; threads by default, or whatever ``joblib.parallel_config`` says.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn: None is 1 unless a joblib context says otherwise, -1 is all cores.

    Notes
    -----
    NumPy releases the interpreter lock in draws and products, so threads share the arrays for free. Inside a
    task the BLAS runs on one thread: more would only contend, and results would depend on their number.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """Return ``[function(task) for task in tasks]``."""

        def one(task: Task) -> Result:
            with threadpool_limits(1, user_api="blas"):
                return function(task)

        results: Any = Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(one)(task) for task in tasks)
        return list(results)


def make_executor(n_jobs: int | None) -> Executor:
    """Return the executor for scikit-learn's `n_jobs`."""
    return SerialExecutor() if n_jobs in (None, 1) else JoblibExecutor(n_jobs)
