"""Solvers as words on the command line: lu, pinv, pinv:1e-6, auto, ridge:0.1."""

from __future__ import annotations

from collections.abc import Callable

from .._core.errors import must_be
from .._core.validation import check_choice, check_text
from .auto import Auto
from .base import Solver
from .direct import LU, PseudoInverse, Ridge

# Name -> (constructor without a number, constructor with one).
_SOLVERS: dict[str, tuple[Callable[[], Solver] | None, Callable[[float], Solver] | None]] = {
    "pinv": (PseudoInverse, PseudoInverse),
    "lu": (LU, None),
    "auto": (Auto, Auto),
    "ridge": (None, Ridge),
}


def parse_solver(solver: str) -> Solver:
    """Return the solver that a word names.

    Parameters
    ----------
    solver : str
        "pinv" (threshold sqrt(eps), as published), "pinv:RCOND", "lu" (the plain inverse), "auto",
        "auto:RCOND" or "ridge:ALPHA" with ALPHA on the scale of the sums over a subset.

    Returns
    -------
    Solver

    Examples
    --------
    >>> parse_solver("pinv:1e-6")
    PseudoInverse(rcond=1e-06)
    """
    name, _, number = check_text(solver, "solver").partition(":")
    check_choice(name, "solver", list(_SOLVERS))
    plain, with_number = _SOLVERS[name]
    if not number:
        if plain is None:
            raise ValueError(must_be("solver", f'"{name}:NUMBER"', repr(solver), 'For example "ridge:0.1".'))
        return plain()
    try:
        value = float(number)
    except ValueError as error:
        rule = f'"{name}" with a number after the colon'
        raise ValueError(must_be("solver", rule, repr(solver), 'For example "pinv:1e-6".')) from error
    if with_number is None:
        raise ValueError(must_be("solver", f'"{name}" without a number', repr(solver)))
    return with_number(value)
