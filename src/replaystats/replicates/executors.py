"""Who runs the pieces of a computation: this thread, or joblib's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_limits

Task = TypeVar("Task")
Result = TypeVar("Result")


class Executor(Protocol):
    """Anything that maps a function over tasks and returns the results in order."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """Return ``[function(task) for task in tasks]``."""
        ...

    def stream(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the same results in order, as soon as they are there."""
        ...

    @property
    def n_workers(self) -> int:
        """How many tasks run at the same time."""
        ...


class SerialExecutor:
    """One task after the other, in this thread."""

    n_workers = 1

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """Return ``[function(task) for task in tasks]``."""
        return [function(task) for task in tasks]

    def stream(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the same results in order, as soon as they are there."""
        return map(function, tasks)


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

    @property
    def n_workers(self) -> int:
        """How many tasks run at the same time."""
        return int(effective_n_jobs(self.n_jobs))

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """Return ``[function(task) for task in tasks]``."""
        return list(self._run(function, tasks, return_as="list"))

    def stream(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the same results in order, as soon as they are there.

        Engines that cannot do that (Ray, Spark) give all of them at the end.
        """
        backend, _ = get_active_backend(prefer="threads")
        return_as = "generator" if backend.supports_return_generator else "list"
        # One task per message: a long one must not wait for others before its result is kept.
        return iter(self._run(function, tasks, return_as=return_as, batch_size=1))

    def _run(self, function: Callable[[Task], Result], tasks: Iterable[Task], **options: Any) -> Any:
        workers = Parallel(n_jobs=self.n_jobs, prefer="threads", **options)
        return workers(delayed(_OneThread(function, str(task)))(task) for task in tasks)


class _OneThread:
    """A function that runs with one BLAS thread, under a name that cluster engines show for its task."""

    def __init__(self, function: Callable[[Any], Any], name: str) -> None:
        self.function = function
        self.__name__ = name

    def __call__(self, task: Any) -> Any:
        with threadpool_limits(1, user_api="blas"):
            return self.function(task)


def make_executor(n_jobs: int | None) -> Executor:
    """Return the executor for scikit-learn's `n_jobs`: None is 1, unless a joblib context says otherwise."""
    return SerialExecutor() if effective_n_jobs(n_jobs) == 1 else JoblibExecutor(n_jobs)
