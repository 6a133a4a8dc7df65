"""From options to an estimator: bases (rbf:100), how to estimate, and the values of states."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import IntervalWithheldError, must_be
from .._core.typing import FloatArray
from .._core.validation import check_choice, check_int, check_real
from ..basis import (
    RBF,
    Basis,
    Fourier,
    OneHot,
    Polynomial,
    RandomFourier,
    Standardized,
    Tabular,
    TileCoding,
)
from ..data import Trajectories
from ..data._flat import holds_names
from ..estimators import LSTD, LSTDQ, PhiBE
from ..ope import evaluate as evaluate_policy
from ..ope.counts import is_discrete
from ..plans import Resampling
from ._options import Asked, AskedOfOne
from .console import ExitCode, as_options, noting, parse_size, refusing, together

_EXAMPLES = "For example rbf:100, fourier:4, polynomial:3, rff:200, tiles:8x10, onehot:16 or tabular."


def check_basis_name(text: str) -> None:
    """Refuse a basis that does not exist, or lacks its numbers, before any data are read."""
    name, numbers = _split(text)
    if name not in ("auto", "tabular"):
        _BASES[name](numbers, text, np.zeros((2, 1)))


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
    if holds_names(states) and name != "tabular":
        raise ValueError(must_be("basis", "auto or tabular where states are names", repr(text)))
    return _BASES[name](numbers, text, states)


def basis_for(name: str, data: Trajectories, policy: Any, *, discount: float, seed: int) -> Basis:
    """Return the named basis.

    "auto": one function per state where these are discrete, else the basis that `evaluate` chooses for a
    value that does not depend on the step.
    """
    if name == "auto" and not is_discrete(data.states):
        method = "LSTD" if policy is None else "LSTDQ"
        asked: dict[str, Any] = {"discount": discount, "horizon": None, "random_state": seed}
        if (basis := evaluate_policy(data, policy, method=method, **asked).basis_) is not None:
            return basis
    return basis_named("tabular" if name == "auto" else name, data.states)


def _fourier(numbers: list[str], text: str, states: FloatArray) -> Basis:
    period = 2.0 * math.pi if len(numbers) < 2 else _number(numbers[1], text, "basis")
    return Fourier(_count(numbers[:1], text), dimension=states.shape[1], period=period)


def _tiles(numbers: list[str], text: str, states: FloatArray) -> Basis:
    tilings, _, tiles = (numbers or [""])[0].partition("x")
    low, high = states.min(axis=0), states.max(axis=0)
    high = np.where(high > low, high, low + 1.0)  # a constant variable stays inside one tile
    return TileCoding(_count([tilings], text), _count([tiles], text), low=low.tolist(), high=high.tolist())


_BASES: dict[str, Callable[[list[str], str, FloatArray], Basis]] = {
    "rbf": lambda n, text, _: Standardized(RBF(_count(n, text), intercept=True)),
    "fourier": _fourier,
    "polynomial": lambda n, text, states: Standardized(
        Polynomial(_count(n, text), dimension=states.shape[1], family="hermite")
    ),
    "rff": lambda n, text, _: Standardized(RandomFourier(_count(n, text), intercept=True)),
    "tiles": _tiles,
    "onehot": lambda n, text, _: OneHot(_count(n, text)),
    "tabular": lambda *_: Tabular(),
}


def _split(text: str) -> tuple[str, list[str]]:
    name, *numbers = text.split(":")
    check_choice(name, "basis", ("auto", *_BASES))
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


_METHODS = ("lstd", "phibe")


def check_asked(asked: Asked) -> None:
    """Refuse options that cannot be, all of them at once."""
    checks: list[Callable[[], Any]] = [
        lambda: check_int(asked.seed, "seed", low=0),
        lambda: _check_discount(asked),
        lambda: check_basis_name(asked.basis),
    ]
    if isinstance(asked, AskedOfOne):
        checks += [
            lambda: check_choice(asked.method or "lstd", "method", _METHODS),
            lambda: check_int(asked.order, "order"),
            lambda: asked.n_resamples is None or check_int(asked.n_resamples, "n_resamples", low=2),
            lambda: asked.subsample_size is None or parse_size(asked.subsample_size),
        ]
    together(*checks)


def _check_discount(asked: Asked) -> None:
    if (asked.discount is None) == (asked.discount_rate is None):
        got = "neither" if asked.discount is None else "both"
        raise ValueError(must_be("--discount", "given, or else --discount-rate", got, "See --help."))
    if asked.discount is not None:
        check_real(asked.discount, "discount", low=0.0, high=1.0)
    if asked.discount_rate is not None:
        check_real(asked.discount_rate, "discount_rate", low=0.0, closed="neither")


def discount_of(asked: Asked, data: Trajectories) -> float:
    """Return the discount factor of one step."""
    if asked.discount is not None:
        return asked.discount
    assert asked.discount_rate is not None
    return math.exp(-asked.discount_rate * _time_step(data, "--discount-rate"))


def build(asked: AskedOfOne, data: Trajectories, basis: Basis, policy: Any) -> LSTD | LSTDQ | PhiBE:
    """Return the estimator that the options name, unfitted."""
    size = None if asked.subsample_size is None else parse_size(asked.subsample_size)
    common: dict[str, Any] = {
        "resampling": Resampling(asked.statistic, size, asked.n_resamples),
        "random_state": asked.seed,
    }
    if asked.method == "phibe":
        if policy is not None:
            raise ValueError(must_be("--policy", "left out beside --method phibe", "both"))
        if holds_names(data.states):
            raise ValueError(must_be("--method", "lstd where states are names", "phibe"))
        dt, rate = _time_step(data, "--method phibe"), asked.discount_rate
        if rate is None:
            assert asked.discount is not None
            check_real(asked.discount, "discount", low=0.0, high=1.0, closed="neither")
            rate = -math.log(asked.discount) / dt
        return PhiBE(basis, discount_rate=rate, order=asked.order, **common)
    rate = asked.discount_rate
    common["discount"] = asked.discount if rate is None else lambda dt: np.exp(-rate * dt)
    return LSTD(basis, **common) if policy is None else LSTDQ(basis, policy, **common)


def _time_step(data: Trajectories, purpose: str) -> float:
    if not isinstance(data.dt, float):
        got, hint = "none", "Say --dt SECONDS, or name the column of times with --time."
        if data.dt is not None:
            got = f"steps of {data.dt.min():.3g} to {data.dt.max():.3g}"
            hint = "Say --discount where steps count alike; in Python, LSTD takes durations as they are."
        raise ValueError(must_be("--dt", f"one known time step for {purpose}", got, hint))
    return data.dt


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueFunction:
    """What a fitted estimator says of states, as JSON has it; bounds are NaN where it withholds them.

    Attributes
    ----------
    description : str
    start : dict
        "value", "low" and "high" where episodes start.
    points : list of dict
        The same for states, and their variables by name as "state".
    withheld : str
        Why there are no intervals; empty where there are.
    notes : list of str
    """

    description: str
    start: dict[str, float]
    points: list[dict[str, Any]]
    withheld: str
    notes: list[str]


def fit_value_function(
    model: LSTD | LSTDQ | PhiBE,
    data: Trajectories,
    points: FloatArray,
    names: tuple[str, ...],
    level: float,
) -> ValueFunction:
    """Fit the estimator and ask it about points and about the start."""
    notes: list[str] = []
    withheld = ""
    ends: Any = np.full((2, len(points)), np.nan)
    bounds: Any = (math.nan, math.nan)
    with noting(notes), refusing(ExitCode.DATA):
        values = np.asarray(model.fit(data).predict(points))
        start = model.policy_value(data.states[data.offsets[:-1]])
        try:
            ends, bounds = model.confidence_interval(points, level), start.confidence_interval(level)
        except IntervalWithheldError as error:
            withheld = as_options(str(error))
    numbers = zip(values, *map(np.asarray, ends), strict=True)
    found = [
        {"state": dict(zip(names, point, strict=True)), **_with_ends(*three)}
        for point, three in zip(points.tolist(), numbers, strict=True)
    ]
    return ValueFunction(
        description=type(model).__name__, start=_with_ends(start.value, *bounds), points=found,
        withheld=withheld, notes=notes,
    )  # fmt: skip


def _with_ends(*numbers: Any) -> dict[str, float]:
    return dict(zip(("value", "low", "high"), map(float, numbers), strict=True))
