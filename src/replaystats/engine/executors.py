"""Who runs the pieces of a computation: this thread, joblib's workers, or those of a Ray cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_limits

from .._core.config import check_jobs, chosen_n_jobs, get_config, run_with
from .._core.errors import must_be, require_extra
from .._core.validation import check_int

Task = TypeVar("Task")
Result = TypeVar("Result")


class Executor(Protocol):
    """Anything that maps a function over tasks and returns the results in order."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """Return ``[function(task) for task in tasks]``."""
        return list(self.stream(function, tasks))

    def stream(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the same results in order, as soon as they are there."""
        ...

    @property
    def n_workers(self) -> int:
        """How many tasks run at the same time."""
        ...


class SerialExecutor(Executor):
    """Runs one task after the other, in this thread.

    Examples
    --------
    >>> SerialExecutor().map(abs, [-1, 2])
    [1, 2]
    """

    n_workers = 1

    def stream(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the same results in order, as soon as they are there."""
        return map(function, tasks)


class JoblibExecutor(Executor):
    """Tasks over joblib workers; threads by default, or whatever ``joblib.parallel_config`` says.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn: None is 1 unless a joblib context says otherwise, -1 is all cores.

    Notes
    -----
    NumPy releases the interpreter lock in draws and products, so threads share the arrays for free. Inside a
    task the BLAS runs on one thread: more would only contend, and results would depend on their number.

    Examples
    --------
    >>> JoblibExecutor(n_jobs=2).map(abs, [-1, 2])
    [1, 2]
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = check_jobs(n_jobs)

    @property
    def n_workers(self) -> int:
        """How many tasks run at the same time."""
        return int(effective_n_jobs(self.n_jobs))

    def stream(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the same results in order, as soon as they are there.

        Engines that cannot do that (Ray, Spark) give all of them at the end.
        """
        backend, _ = get_active_backend(prefer="threads")
        if hasattr(backend, "client"):
            return _stream_from_dask(backend, function, tasks)
        # One task per message: a long one must not wait for others before its result is kept.
        return_as = "generator" if backend.supports_return_generator else "list"
        workers = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as=return_as, batch_size=1)
        settings = get_config()
        return iter(workers(delayed(_on_one_thread)(settings, function, task) for task in tasks))


class RayExecutor(Executor):
    """Tasks over the workers of a Ray cluster: the one that ``ray.init`` joined, or one on this machine.

    Parameters
    ----------
    retries : int
        How often a task is taken up again after its worker died. An error that the task raises is passed on
        at once.

    Notes
    -----
    Results are given in order, as soon as they are there, so that checkpoints and progress follow the work.
    Workers must see the same files, and have this package and NumPy in the same versions.

    Examples
    --------
    >>> replicates = rs.replicate(stream, plan, executor=RayExecutor())  # doctest: +SKIP
    """

    def __init__(self, retries: int = 3) -> None:
        self.retries = check_int(retries, "retries", low=0)

    @property
    def n_workers(self) -> int:
        """How many tasks run at the same time."""
        return max(1, int(self._ray().cluster_resources().get("CPU", 1)))

    def stream(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the same results in order, as soon as they are there."""
        ray = self._ray()
        run = ray.remote(num_cpus=1, max_retries=self.retries)(_on_one_thread)
        settings, shared = ray.put(get_config()), ray.put(function)  # sent once, not with every task
        futures = deque(run.options(name=str(task)).remote(settings, shared, task) for task in tasks)
        try:
            while futures:
                yield ray.get(futures.popleft())
        finally:
            for future in futures:
                ray.cancel(future, force=True)

    @staticmethod
    def _ray() -> Any:
        ray = require_extra("ray", extra="ray", purpose="RayExecutor")
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
        return ray


def _on_one_thread(settings: dict[str, Any], function: Callable[[Task], Result], task: Task) -> Result:
    """Run a task as the thread that asks would, with its settings, but with one thread of the BLAS."""
    with threadpool_limits(1, user_api="blas"):
        return run_with(settings, function, task)


def _stream_from_dask(
    backend: Any, function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[Result]:
    """Hand the tasks to the client of joblib's Dask context.

    Through joblib itself (1.6) a task whose workers keep dying, or that cannot be pickled, is waited for
    without end, and a cluster of one thread is passed over in favour of this process.
    """
    client, run, settings = backend.client, uuid4().hex, get_config()
    futures = deque(
        client.submit(_on_one_thread, settings, function, task, key=f"{task}-{run}", **backend.submit_kwargs)
        for task in tasks
    )
    try:
        while futures:
            yield futures[0].result()
            futures.popleft()
    except Exception as error:
        # Dask holds the death of a worker against all tasks that the worker had: the cause is among them.
        for future in futures:
            if future.status == "error":
                error.add_note(str(future.key))
        raise
    finally:
        client.cancel(list(futures))


def check_executor(executor: Any) -> None:
    """Raise unless `executor` is None or maps functions over tasks."""
    if executor is not None and not (hasattr(executor, "map") and hasattr(executor, "stream")):
        hint = "Leave it out, or use engine.JoblibExecutor(n_jobs)."
        raise TypeError(must_be("executor", "an executor with `map` and `stream`", repr(executor), hint))


def make_executor(n_jobs: int | None) -> Executor:
    """Return the executor for scikit-learn's `n_jobs`: None is what `set_config` or joblib's context says."""
    n_jobs = check_jobs(chosen_n_jobs(n_jobs))
    return SerialExecutor() if effective_n_jobs(n_jobs) == 1 else JoblibExecutor(n_jobs)
