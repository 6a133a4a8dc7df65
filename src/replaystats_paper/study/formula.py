"""Arithmetic in the files of a study: ``"= round(0.3 * n)"``, with bounds on size and time."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from replaystats.toolkit import must_be

from ..cells import Cell

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
