"""From options to an estimator: the command line builds what a program would, and asks it the same things."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import IntervalWithheldError, must_be
from .._core.typing import FloatArray
from .._core.validation import check_choice, check_int, check_real
from ..basis import Basis
from ..data import Trajectories
from ..data._flat import holds_names
from ..estimate import METHODS
from ..estimators import LSTD, LSTDQ, PhiBE
from ..plans import Resampling
from ._words import check_basis_name, solver_named
from .console import ExitCode, as_options, noting, refusing, together

_METHODS = ("lstd", "phibe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to estimate a value function; None is the class's default."""

    method: str | None
    order: int
    discount: float | None
    discount_rate: float | None
    basis: str
    statistic: str | None
    subsample_size: int | float | None
    n_resamples: int | None
    solver: str | None
    combine: str | None
    recommended: bool
    seed: int
    jobs: int

    def __post_init__(self) -> None:
        together(
            lambda: check_choice(self.method or "lstd", "method", _METHODS),
            lambda: check_int(self.order, "order"),
            lambda: check_int(self.seed, "seed", low=0),
            lambda: check_int(self.jobs, "--jobs"),
            self._check_discount,
            lambda: check_basis_name(self.basis),
            lambda: solver_named(self.solver or "auto"),
            lambda: check_choice(self.combine or "auto", "combine", METHODS),
            lambda: self.n_resamples is None or check_int(self.n_resamples, "n_resamples", low=2),
            self._check_nothing_else,
        )

    def _check_discount(self) -> None:
        if (self.discount is None) == (self.discount_rate is None):
            got = "neither" if self.discount is None else "both"
            raise ValueError(must_be("--discount", "given, or else --discount-rate", got, "See --help."))
        if self.discount is not None:
            check_real(self.discount, "discount", low=0.0, high=1.0)
        if self.discount_rate is not None:
            check_real(self.discount_rate, "discount_rate", low=0.0, closed="neither")

    def _check_nothing_else(self) -> None:
        if not self.recommended:
            return
        for option, value in (
            ("--statistic", self.statistic), ("-k", self.subsample_size),
            ("--solver", self.solver), ("--combine", self.combine),
        ):  # fmt: skip
            if value is not None:
                raise ValueError(must_be(option, "left out beside --recommended, which chooses it", value))

    @property
    def asks_for_a_function(self) -> bool:
        """Whether an option was given that only an estimator of a value function has."""
        given = (
            self.method,
            self.statistic,
            self.subsample_size,
            self.n_resamples,
            self.solver,
            self.combine,
        )
        return self.recommended or any(value is not None for value in given)

    def discount_of(self, data: Trajectories) -> float:
        """Return the discount factor of one step."""
        if self.discount is not None:
            return self.discount
        assert self.discount_rate is not None
        return math.exp(-self.discount_rate * _time_step(data, "--discount-rate"))


def build(settings: Settings, data: Trajectories, basis: Basis, policy: Any) -> LSTD | LSTDQ | PhiBE:
    """Return the estimator that the options name, unfitted."""
    common: dict[str, Any] = {
        "resampling": Resampling(
            settings.statistic, settings.subsample_size, settings.n_resamples, n_jobs=settings.jobs
        ),
        "solver": None if settings.solver is None else solver_named(settings.solver),
        "random_state": settings.seed,
    }
    if settings.combine is not None:
        common["combine"] = settings.combine
    if settings.recommended:
        common["solver"] = "recommended"
    if settings.method == "phibe":
        if policy is not None:
            raise ValueError(must_be("--policy", "left out beside --method phibe", "both"))
        if holds_names(data.states):
            raise ValueError(must_be("--method", "lstd where states are names", "phibe"))
        dt, rate = _time_step(data, "--method phibe"), settings.discount_rate
        if rate is None:
            assert settings.discount is not None
            check_real(settings.discount, "discount", low=0.0, high=1.0, closed="neither")
            rate = -math.log(settings.discount) / dt
        return PhiBE(basis, discount_rate=rate, order=settings.order, **common)
    rate = settings.discount_rate
    common["discount"] = settings.discount if rate is None else lambda dt: np.exp(-rate * dt)
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
    """What a fitted estimator says of states; bounds are NaN where it withholds them."""

    description: str
    names: tuple[str, ...]
    points: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    start: tuple[float, float, float]
    withheld: str
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers and words, for JSON."""
        rows = zip(self.points.tolist(), self.values, self.low, self.high, strict=True)
        return {
            "description": self.description,
            "start": dict(zip(("value", "low", "high"), self.start, strict=True)),
            "points": [
                {"state": dict(zip(self.names, point, strict=True)), "value": v, "low": a, "high": b}
                for point, v, a, b in rows
            ],
            "withheld": self.withheld,
            "notes": list(self.notes),
        }


def fit_value_function(
    model: LSTD | LSTDQ | PhiBE,
    data: Trajectories,
    points: FloatArray,
    names: tuple[str, ...],
    level: float,
) -> ValueFunction:
    """Fit the estimator and ask it about points and about the start."""
    notes: list[str] = []
    with noting(notes), refusing(ExitCode.DATA):
        model.fit(data)
        values = np.asarray(model.predict(points))
        value = model.policy_value(data.states[data.offsets[:-1]])
        withheld = ""
        low = high = np.full(len(points), np.nan)
        bounds = (math.nan, math.nan)
        try:
            low, high = model.confidence_interval(points, level)
            found = value.confidence_interval(level)
            bounds = float(found.low), float(found.high)
        except IntervalWithheldError as error:
            withheld = as_options(str(error))
    recommendation = getattr(model, "recommendation_", None)
    if recommendation is not None:
        notes.append(f"Recommended method: {recommendation.reason}.")
    return ValueFunction(
        description=type(model).__name__,
        names=names,
        points=points,
        values=values,
        low=np.asarray(low),
        high=np.asarray(high),
        start=(float(value.value), *bounds),
        withheld=withheld,
        notes=tuple(notes),
    )
