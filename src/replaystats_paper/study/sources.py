"""Where the data of a study come from: a process, a simulation, a table, or a function of your own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from replaystats import load_boston, simulate
from replaystats.simulate import two_bumps, two_bumps_function
from replaystats.toolkit import FloatArray, check_choice, check_int, contained, find_object, must_be

Draw = Callable[[int, np.random.Generator], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Data sets of any size, and the points and truth that predictions are measured by.

    Attributes
    ----------
    draw : callable
        ``draw(n, rng)`` gives what `fit` takes: ``(X, y)``, or ``(trajectories,)``.
    points : ndarray of shape (m, d) or (m,)
        Where estimators predict.
    truth : ndarray of shape (m,)
        What the predictions should be; held-out targets where nobody knows that.
    x : ndarray of shape (m,) or None
        Positions of the points along one axis, where a curve can be drawn.
    also : mapping
        Name -> further answers, (m,), that errors are measured against: each gives a measure "rmse_name".
    """

    draw: Draw
    points: FloatArray
    truth: FloatArray
    x: FloatArray | None = None
    also: Mapping[str, FloatArray] = field(default_factory=dict)


def make_source(source: str, options: Mapping[str, Any], rng: np.random.Generator) -> Source:
    """Return the source that a name and its options stand for.

    Parameters
    ----------
    source : str
        "two-bumps", "boston", "table" (a CSV with ``path`` and ``target``), the name of a process of
        `replaystats.simulate` such as "OrnsteinUhlenbeck" (with ``steps``, ``start`` and its own
        parameters), or "module:function", called with ``rng`` and the options, which returns a `Source`.
    options : mapping
    rng : Generator
        For test points.

    Examples
    --------
    >>> source = make_source("two-bumps", {"n_test": 5}, np.random.default_rng(0))
    >>> [part.shape for part in source.draw(10, np.random.default_rng(1))], source.truth.shape
    ([(10, 2), (10,)], (5,))
    """
    options = dict(options)
    if ":" in source:
        function = find(source)
        with contained("source", "a function that takes the options of [data] and returns a Source"):
            made = function(rng=rng, **options)
        if not isinstance(made, Source):
            raise TypeError(must_be("source", "a function that returns a Source", source))
        return made
    if source in simulate.__all__ and isinstance(getattr(simulate, source), type):
        return _process(source, options)
    check_choice(source, "source", (*_SOURCES, "OrnsteinUhlenbeck", "TorusBrownian", "HermiteOU"))
    return _SOURCES[source](rng, **options)


def find(path: str) -> Any:
    """Import ``module:name``.

    Examples
    --------
    >>> find("math:sqrt")(9.0)
    3.0
    """
    if not isinstance(path, str) or ":" not in path:
        raise ValueError(must_be("use", '"module:name" of something that can be imported', repr(path)))
    return find_object(path, "use")


def _two_bumps(rng: np.random.Generator, n_test: int = 100) -> Source:
    points = rng.random((check_int(n_test, "n_test"), 2))
    return Source(lambda n, rng: two_bumps(n, random_state=rng), points, two_bumps_function(points))


def _boston(rng: np.random.Generator, n_test: int = 100) -> Source:
    X, y = load_boston()
    return _held_out(X, y, rng, n_test)


def _table(rng: np.random.Generator, path: str, target: str, n_test: int = 100) -> Source:
    try:
        rows = np.genfromtxt(Path(path), delimiter=",", names=True)
    except (OSError, ValueError) as error:
        raise ValueError(must_be("path", "a CSV file of numbers", f"{path} ({error})"[:200])) from error
    names = rows.dtype.names or ()
    if target not in names:
        raise ValueError(must_be("target", f"a column of {path}", repr(target)))
    X = np.column_stack([rows[name] for name in names if name != target])
    if not np.isfinite(X).all() or not np.isfinite(rows[target]).all():
        raise ValueError(must_be("path", "a table of numbers without gaps", path))
    return _held_out(X, rows[target], rng, n_test)


def _held_out(X: FloatArray, y: FloatArray, rng: np.random.Generator, n_test: int) -> Source:
    n_test = check_int(n_test, "n_test", high=len(y) - 2)
    order = rng.permutation(len(y))
    test, pool = order[:n_test], order[n_test:]

    def draw(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        if n > len(pool):
            raise ValueError(must_be("n", f"at most {len(pool)}, the rows that are not held out", n))
        rows = rng.choice(pool, n, replace=False)
        return X[rows], y[rows]

    return Source(draw, X[test], y[test])


def _process(name: str, options: dict[str, Any]) -> Source:
    steps = check_int(options.pop("steps", 2), "steps")
    start, m = options.pop("start", None), check_int(options.pop("n_test", 50), "n_test")
    low, high = options.pop("low", -np.pi), options.pop("high", np.pi)
    discrete = options.pop("discrete", False)
    process = getattr(simulate, name)(**options)
    dimension = getattr(process, "dimension", 1)
    if dimension == 1:
        points = np.linspace(low, high, m)
    else:
        points = np.random.default_rng(0).uniform(low, high, (m, dimension))
    truth = process.discrete_value(points) if discrete else process.value(points)
    sample = {} if start is None else {"start": start}
    return Source(
        lambda n, rng: (process.sample(n, steps, random_state=rng, **sample),),
        points,
        np.asarray(truth),
        points if dimension == 1 else None,
    )


_SOURCES: dict[str, Callable[..., Source]] = {"two-bumps": _two_bumps, "boston": _boston, "table": _table}
