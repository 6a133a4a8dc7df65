"""Bases and solvers as words: rbf:100, fourier:4, polynomial:3, tiles:8x10; auto, ridge:0.1, lepski."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .._core.errors import must_be
from .._core.typing import FloatArray
from .._core.validation import check_choice
from ..basis import RBF, Basis, Fourier, OneHot, Polynomial, RandomFourier, Standardized, TileCoding
from ..solvers import Lepski, Solver, parse_solver

SOLVERS = ("auto", "pinv", "lu", "ridge", "lepski")


def solver_named(text: str) -> Solver:
    """Return the solver that `text` names: as for `reproduce`, and "lepski" or "lepski:KAPPA".

    Examples
    --------
    >>> solver_named("lepski:0.5").kappa, solver_named("ridge:0.1")
    (0.5, Ridge(alpha=0.1))
    """
    name, _, number = text.partition(":")
    check_choice(name, "solver", SOLVERS)
    if name != "lepski":
        return parse_solver(text)
    return Lepski(_number(number, text, "solver")) if number else Lepski()


def check_basis_name(text: str) -> None:
    """Refuse a basis that does not exist, or lacks its numbers, before any data are read."""
    name, numbers = _split(text)
    if name not in ("auto", "tabular"):
        _MAKERS[name](numbers, text, np.zeros((2, 1)))


def basis_named(text: str, states: FloatArray) -> Basis:
    """Return the basis that `text` names, for states like these.

    Parameters
    ----------
    text : str
        "rbf:CENTRES", "rff:FEATURES", "polynomial:DEGREE" (of standardised states), "fourier:ORDER" with
        period 2 pi or "fourier:ORDER:PERIOD", "tiles:TILINGSxTILES" over the range of the data,
        "onehot:STATES" or "tabular".
    states : ndarray of shape (N, d)
        Visited ones.

    Examples
    --------
    >>> basis_named("fourier:4", np.zeros((5, 1)))
    Fourier(order=4)
    """
    name, numbers = _split(text)
    return _MAKERS[name](numbers, text, states)


def _rbf(numbers: list[str], text: str, states: FloatArray) -> Basis:
    return Standardized(RBF(_count(numbers, text), intercept=True))


def _rff(numbers: list[str], text: str, states: FloatArray) -> Basis:
    return Standardized(RandomFourier(_count(numbers, text), intercept=True))


def _polynomial(numbers: list[str], text: str, states: FloatArray) -> Basis:
    return Standardized(Polynomial(_count(numbers, text), dimension=states.shape[1], family="hermite"))


def _fourier(numbers: list[str], text: str, states: FloatArray) -> Basis:
    period = 2.0 * math.pi if len(numbers) < 2 else _number(numbers[1], text, "basis")
    return Fourier(_count(numbers[:1], text), dimension=states.shape[1], period=period)


def _tiles(numbers: list[str], text: str, states: FloatArray) -> Basis:
    tilings, _, tiles = (numbers or [""])[0].partition("x")
    low, high = states.min(axis=0), states.max(axis=0)
    high = np.where(high > low, high, low + 1.0)  # a constant variable stays inside one tile
    return TileCoding(_count([tilings], text), _count([tiles], text), low=low.tolist(), high=high.tolist())


def _onehot(numbers: list[str], text: str, states: FloatArray) -> Basis:
    return OneHot(_count(numbers, text))


def _tabular(numbers: list[str], text: str, states: FloatArray) -> Basis:
    from ..basis import Tabular

    return Tabular()


_MAKERS: dict[str, Callable[[list[str], str, FloatArray], Basis]] = {
    "rbf": _rbf,
    "fourier": _fourier,
    "polynomial": _polynomial,
    "rff": _rff,
    "tiles": _tiles,
    "onehot": _onehot,
    "tabular": _tabular,
}
_EXAMPLES = "For example rbf:100, fourier:4, polynomial:3, rff:200, tiles:8x10, onehot:16 or tabular."


def _split(text: str) -> tuple[str, list[str]]:
    name, *numbers = text.split(":")
    check_choice(name, "basis", ("auto", *_MAKERS))
    most = {"auto": 0, "tabular": 0, "fourier": 2}.get(name, 1)
    if len(numbers) > most:
        raise ValueError(must_be("basis", f"{name} with at most {most} number(s)", repr(text), _EXAMPLES))
    return name, numbers


def _count(numbers: list[str], text: str) -> int:
    try:
        (number,) = numbers
        return int(number)
    except ValueError:
        raise ValueError(must_be("basis", "a name and its number", repr(text), _EXAMPLES)) from None


def _number(number: str, text: str, argument: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise ValueError(must_be(argument, "followed by a number", repr(text))) from None
