"""What the file of a study may name: data (a process, a table, your own function) and formulas."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from replaystats import simulate
from replaystats.simulate import two_bumps, two_bumps_function
from replaystats.toolkit import (
    FloatArray,
    check_choice,
    check_int,
    contained,
    find_object,
    must_be,
    require_extra,
)

from .cells import Cell

# Format: of the file that is read.
BOSTON_SHAPE = (506, 13)
# Format: of the file that is read.
BOSTON_MEAN_TARGET = 22.532806
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


def load_boston() -> tuple[FloatArray, FloatArray]:
    """Return the Boston housing data (Harrison and Rubinfeld, 1978) of the paper's regression experiment.

    Returns
    -------
    X : ndarray of shape (506, 13)
        crim, zn, indus, chas, nox, rm, age, dis, rad, tax, ptratio, black, lstat.
    y : ndarray of shape (506,)
        medv, the median value of homes in thousands of dollars.

    Notes
    -----
    It is here only so that the published experiment can be run again. One column was built on the assumption
    that racial segregation affects house prices, and cannot be turned back into the figures it came from;
    scikit-learn withdrew the data for that reason. For any other purpose take another set, such as
    `sklearn.datasets.fetch_california_housing`.

    The extra "experiments" installs mlxtend, which carries the data; nothing is downloaded.

    Examples
    --------
    >>> X, y = load_boston()
    >>> X.shape, float(y.mean().round(6))
    ((506, 13), 22.532806)
    """
    mlxtend_data = require_extra("mlxtend.data", extra="experiments", purpose="The Boston data")
    X, y = mlxtend_data.boston_housing_data()
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if X.shape != BOSTON_SHAPE or abs(y.mean() - BOSTON_MEAN_TARGET) > 1e-6:
        got = f"shape {X.shape} and a mean target of {y.mean():.6f}"
        msg = f"mlxtend's Boston data must be {BOSTON_SHAPE} with mean {BOSTON_MEAN_TARGET}; got {got}."
        raise RuntimeError(msg)
    return X, y


_loaded_boston = lru_cache(maxsize=1)(load_boston)


def boston(rng: np.random.Generator, n_test: int = 100) -> Source:
    """Return Boston housing with `n_test` rows held out; training rows come from the others.

    A training set without variation in a column (chas) cannot be standardised; it is drawn again.
    """
    X, y = _loaded_boston()
    return _held_out(X, y, rng, n_test, lambda X: bool((X.max(axis=0) > X.min(axis=0)).all()))


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


def _held_out(
    X: FloatArray,
    y: FloatArray,
    rng: np.random.Generator,
    n_test: int,
    usable: Callable[[FloatArray], bool] = lambda X: True,
) -> Source:
    """Hold rows out; draw training sets from the others, again where one is not usable."""
    n_test = check_int(n_test, "n_test", high=len(y) - 2)
    order = rng.permutation(len(y))
    test, pool = order[:n_test], order[n_test:]

    def draw(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        if n > len(pool):
            raise ValueError(must_be("n", f"at most {len(pool)}, the rows that are not held out", n))
        while True:
            rows = rng.choice(pool, n, replace=False)
            if usable(X[rows]):
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


_SOURCES: dict[str, Callable[..., Source]] = {"two-bumps": _two_bumps, "boston": boston, "table": _table}


# A formula is a line; a number of it is one that float64 holds.
LONGEST_FORMULA, LARGEST_NUMBER = 500, 1e300
_OPERATIONS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.FloorDiv: operator.floordiv,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "round": round, "ceil": math.ceil, "log": math.log, "sqrt": math.sqrt, "max": max, "min": min,
}  # fmt: skip


def compute_arguments(arguments: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """Return the arguments with every "= formula" computed from the cell's parameters.

    Examples
    --------
    >>> compute_arguments({"alpha": "= n ** (-2 / 3)", "kernel": "rbf"}, Cell("study", (("n", 1000),)))
    {'alpha': 0.010000000000000002, 'kernel': 'rbf'}
    """
    return {
        name: formula(value[1:], dict(cell.parameters))
        if isinstance(value, str) and value.startswith("=")
        else value
        for name, value in arguments.items()
    }


def formula(text: str, names: Mapping[str, Any]) -> Any:
    """Compute an arithmetic formula of the named numbers; nothing else is evaluated.

    Every intermediate number stays below 1e300, and powers are estimated before they are taken, so that a
    formula of at most 500 characters costs no more than microseconds.

    Examples
    --------
    >>> formula("round(0.3 * n)", {"n": 50})
    15
    >>> formula("9 ** 9 ** 9", {})
    Traceback (most recent call last):
    ValueError: `formula` must be arithmetic with numbers up to 1e+300; got '9 ** 9 ** 9'.
    """
    text = text.strip()
    if len(text) > LONGEST_FORMULA:
        got = f"{len(text)} of them"
        raise ValueError(must_be("formula", f"arithmetic of at most {LONGEST_FORMULA} characters", got))
    try:
        return _value(ast.parse(text, mode="eval"), names)
    except (SyntaxError, RecursionError, MemoryError, _NotArithmeticError) as error:
        rule = f"arithmetic of {', '.join(names)}" if names else "arithmetic"
        raise ValueError(must_be("formula", rule, repr(text))) from error
    except OverflowError as error:
        rule = f"arithmetic with numbers up to {LARGEST_NUMBER:g}"
        raise ValueError(must_be("formula", rule, repr(text))) from error
    except (ArithmeticError, ValueError, TypeError) as error:  # 1 / 0, log(-1), max()
        raise ValueError(must_be("formula", "arithmetic with a result", f"{text!r} ({error})")) from error


class _NotArithmeticError(Exception):
    pass


def _value(node: ast.AST, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Expression(body=body):
            return _value(body, names)
        case ast.Constant(value=int() | float() as number):
            return _bounded(number)
        case ast.Name(id=name) if name in names:
            return _bounded(names[name])
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, names), _value(right, names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _bounded(_OPERATIONS[type(op)](_value(left, names), _value(right, names)))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATIONS:
            return _bounded(_OPERATIONS[type(op)](_value(operand, names)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*(_value(argument, names) for argument in arguments)))
    raise _NotArithmeticError


def _power(base: Any, exponent: Any) -> Any:
    if base and abs(exponent) * abs(math.log(abs(base))) > math.log(LARGEST_NUMBER):
        raise OverflowError
    return _bounded(base**exponent)


def _bounded(number: Any) -> Any:
    if isinstance(number, bool) or not isinstance(number, (int, float)):  # text of a grid, complex roots
        raise _NotArithmeticError
    if not abs(number) <= LARGEST_NUMBER:
        raise OverflowError
    return number
