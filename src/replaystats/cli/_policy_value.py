"""From trajectories and settings to an estimate: what `evaluate` computes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._core.errors import must_be
from .._core.random import as_generator
from .._core.validation import check_choice, check_int, check_real
from ..basis import Basis, Fourier
from ..choosing.recommended import recommended_estimate
from ..data import Trajectories
from ..engine import make_executor, replicate
from ..estimate import METHODS, Estimate, average, plug_in
from ..inference import unit_moments
from ..moments import HeldMoments, lstd_moments, phibe_moments
from ..plans import make_plan
from ._common import ExitCode, noting, refusing
from ._names import basis_named, check_basis_name, solver_named

DEFAULT_SIZE, DEFAULT_RESAMPLES, RECOMMENDED_RESAMPLES = 0.5, 500, 100
# Normal intervals from fewer units are too short, whatever the unit.
FEW_UNITS = 20
_METHODS = {"lstd": "LSTD", "phibe": "PhiBE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to estimate a value; None is the default, and the only choice beside `recommended`."""

    method: str
    order: int
    discount: float | None
    discount_rate: float | None
    basis: str
    statistic: str | None
    subsample_size: int | float | None
    n_resamples: int | None
    solver: str | None
    average: str | None
    recommended: bool
    seed: int
    jobs: int

    def __post_init__(self) -> None:
        check_choice(self.method, "method", tuple(_METHODS))
        check_int(self.order, "order")
        check_int(self.seed, "seed", low=0)
        check_int(self.jobs, "--jobs")
        if (self.discount is None) == (self.discount_rate is None):
            got = "neither" if self.discount is None else "both"
            raise ValueError(must_be("--discount", "given, or else --discount-rate", got, "See --help."))
        if self.discount is not None:
            check_real(self.discount, "discount", low=0.0, high=1.0)
        if self.discount_rate is not None:
            check_real(self.discount_rate, "discount_rate", low=0.0, closed="neither")
        check_basis_name(self.basis)
        solver_named(self.solver or "auto")
        check_choice(self.average or "auto", "average", METHODS)
        if self.n_resamples is not None:
            check_int(self.n_resamples, "n_resamples", low=2)
        if self.recommended:
            self._check_nothing_else()

    def _check_nothing_else(self) -> None:
        for option, value in (
            ("--statistic", self.statistic), ("-k", self.subsample_size),
            ("--solver", self.solver), ("--average", self.average),
        ):  # fmt: skip
            if value is not None:
                raise ValueError(must_be(option, "left out beside --recommended, which chooses it", value))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """What was estimated, and in which words."""

    basis: Basis
    estimate: Estimate
    plug_in: Estimate
    unit: str
    method: str
    notes: tuple[str, ...]


def fit_value(data: Trajectories, settings: Settings) -> Fit:
    """Estimate the value function of the policy that made `data`.

    The same calls, with the same random numbers, as ``rs.LSTD(...)`` or ``rs.PhiBE(...)`` make. A single
    episode is cut into blocks of an automatic length, and pieces of one episode stay together: resampling
    needs (nearly) independent units.
    """
    notes: list[str] = []
    with noting(notes):
        with refusing(ExitCode.USAGE):
            rng = as_generator(settings.seed)
            basis = basis_named(settings.basis, data.states, len(data)).fit(
                data.states, rng, departed=data.departed
            )
            steps, method = _moments(data, basis, settings)
        with refusing(ExitCode.DATA):
            moments, unit = _units(data, steps)
            n = moments.n_observations
            if n < 2:
                raise ValueError(must_be("--episode", "a column with at least 2 episodes", n))
        estimate, combined = _combine(moments, settings, rng)
        with refusing(ExitCode.DATA):
            plain = plug_in(
                moments, None if settings.recommended else solver_named(settings.solver or "auto")
            )
    notes += _own_notes(data, basis, settings, n, unit)
    if combined:
        notes.append(combined)
    return Fit(
        basis=basis, estimate=estimate, plug_in=plain, unit=unit, method=method, notes=tuple(notes)
    )  # fmt: skip


def _combine(moments: HeldMoments, settings: Settings, rng: np.random.Generator) -> tuple[Estimate, str]:
    """Return the replayed estimate, and what the recommended method chose, if it was asked for."""
    executor = make_executor(settings.jobs)
    if settings.recommended:
        with refusing(ExitCode.DATA):
            found = recommended_estimate(
                moments, n_resamples=settings.n_resamples or RECOMMENDED_RESAMPLES, executor=executor, rng=rng
            )
            estimate = found.estimate
            if estimate.replicates is None:  # the page shows how answers scatter
                plan = make_plan(moments.n_observations, statistic="V", subsample_size=1.0, rng=rng)
                estimate = average(replicate(moments, plan, executor=executor), "auto")
        return estimate, f"Recommended method: {found.reason}."
    with refusing(ExitCode.USAGE):
        plan = make_plan(
            moments.n_observations,
            statistic=settings.statistic or "U",
            subsample_size=DEFAULT_SIZE if settings.subsample_size is None else settings.subsample_size,
            n_resamples=settings.n_resamples or DEFAULT_RESAMPLES,
            rng=rng,
        )
    with refusing(ExitCode.DATA):
        solver = solver_named(settings.solver or "auto")
        replicates = replicate(moments, plan, solver=solver, executor=executor)
        return average(replicates, settings.average or "auto"), ""


def _moments(data: Trajectories, basis: Basis, settings: Settings) -> tuple[HeldMoments, str]:
    """Return the moments and the method in words; one episode's steps are kept apart, to be cut."""
    apart = _needs_units(data)
    if settings.method == "lstd":
        discount = settings.discount
        if discount is None:
            assert settings.discount_rate is not None
            discount = math.exp(-settings.discount_rate * _time_step(data, "--discount-rate with lstd"))
        moments = lstd_moments(data, basis, discount=discount, factored=apart)
        return moments, f"LSTD, discount {discount:.6g} per step"
    dt = _time_step(data, "--method phibe")
    rate = settings.discount_rate
    if rate is None:
        assert settings.discount is not None
        check_real(settings.discount, "discount", low=0.0, high=1.0, closed="neither")
        rate = -math.log(settings.discount) / dt
    moments = phibe_moments(data, basis, discount_rate=rate, order=settings.order, factored=apart)
    return moments, f"PhiBE of order {settings.order}, discount rate {rate:.6g}, dt {dt:g}"


def _time_step(data: Trajectories, purpose: str) -> float:
    if not isinstance(data.dt, float):
        got = "none" if data.dt is None else "steps of several durations"
        hint = "Say --dt SECONDS, or name the column of times with --time."
        raise ValueError(must_be("--dt", f"one known time step for {purpose}", got, hint))
    return data.dt


def _needs_units(data: Trajectories) -> bool:
    return len(data) == 1 or len(np.unique(data.parent)) < len(data)


def _units(data: Trajectories, steps: HeldMoments) -> tuple[HeldMoments, str]:
    if not _needs_units(data):
        return steps, "episode"
    if len(np.unique(data.parent)) == 1:
        return unit_moments(steps, "block"), "block"
    return unit_moments(steps, data.parent), "episode"


def _own_notes(data: Trajectories, basis: Basis, settings: Settings, n: int, unit: str) -> list[str]:
    notes = []
    if settings.basis == "auto":
        notes.append(f"--basis auto: {basis.n_basis} polynomials of standardised states; try rbf:30 as well.")
    if unit == "block":
        notes.append(f"One episode only: it was cut into {n} blocks, which stand for independent episodes.")
    if n < FEW_UNITS:
        notes.append(f"Only {n} {unit}s: with fewer than about {FEW_UNITS}, intervals are too short.")
    if isinstance(basis, Fourier):
        extent, period = np.ptp(data.states, axis=0), np.broadcast_to(basis.period, data.dimension)
        if (extent > period * (1 + 1e-9)).any():
            wide = float(extent[extent > period].max())
            notes.append(
                f"States spread over {wide:.4g}, more than the period {float(np.max(period)):.4g}, so that "
                f"some look alike to the basis: say fourier:{basis.order}:PERIOD unless they are angles."
            )
    return notes
