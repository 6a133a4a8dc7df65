"""Diffusions that are simulated exactly: what they share, and Brownian motion on a torus and geometric.

A subclass supplies the exact transition, the reward rate and the value functions. Nothing is discretised by
an Euler scheme, so the laws of the sampled states are exact for every `dt`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .._core.errors import must_be
from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import (
    check_array,
    check_bool,
    check_choice,
    check_int,
    check_memory,
    check_real,
)
from ..data.trajectories import Trajectories

# A named law, a standard deviation, the states themselves, or None for the default law.
Start = str | float | ArrayLike | None
StartRule = Callable[[int, np.random.Generator], FloatArray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Diffusion(ABC):
    """A diffusion observed every `dt`, with a reward rate r(s) and discount rate beta.

    Parameters
    ----------
    dt : float, default=0.1
        Time between observed states.
    discount_rate : float, default=1.0
        beta > 0.

    Notes
    -----
    ``value`` is the integral of ``exp(-beta t) E r(s_t)`` over time, what PhiBE estimates. ``discrete_value``
    is the sum over j of ``gamma^j dt E r(s_{j dt})`` with ``gamma = exp(-beta dt)``, what LSTD estimates from
    the same data. They differ by a term of order `dt`.
    """

    dt: float = 0.1
    discount_rate: float = 1.0

    def __post_init__(self) -> None:
        check_real(self.dt, "dt", low=0.0, closed="neither")
        check_real(self.discount_rate, "discount_rate", low=0.0, closed="neither")

    @property
    def discount(self) -> float:
        """Discount factor of one step, gamma = exp(-beta dt)."""
        return math.exp(-self.discount_rate * self.dt)

    @property
    def dimension(self) -> int:
        """Dimension d of the state."""
        return 1

    # ------------------------------------------------------------------ what a process supplies

    def _series(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return eigenfunctions of the semigroup at points (m, J), their weights in r, and their rates (J,).

        In time t the expectation of function j is ``exp(-rate_j t)`` times the function.
        """
        raise NotImplementedError(f"{type(self).__name__} has no series, and must define its values.")

    def reward_rate(self, states: ArrayLike) -> FloatArray:
        """Return r(s) at the states (m, d), or (m,) when d = 1, as an array (m,): ``sum_j c_j f_j(s)``."""
        functions, weights, _ = self._series(self._points(states))
        return np.asarray(functions @ weights)

    def value(self, states: ArrayLike) -> FloatArray:
        """Return the exact value in continuous time, an array (m,): ``sum_j c_j f_j / (beta + rate_j)``."""
        functions, weights, rates = self._series(self._points(states))
        return np.asarray(functions @ (weights / (self.discount_rate + rates)))

    def discrete_value(self, states: ArrayLike) -> FloatArray:
        """Return the exact value of the reward process sampled every `dt`, as an array (m,).

        That is ``sum_j c_j f_j dt / (1 - exp(-(beta + rate_j) dt))``.
        """
        functions, weights, rates = self._series(self._points(states))
        return np.asarray(
            functions @ (-self.dt * weights / np.expm1(-(self.discount_rate + rates) * self.dt))
        )

    @abstractmethod
    def _step(self, states: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw the states (n, d) one `dt` later."""

    @abstractmethod
    def _named_starts(self) -> dict[str, StartRule]:
        """Return the starting laws by name; the first is the default."""

    def _spread(self, sd: float, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw n starting states with standard deviation `sd` around the centre of the process."""
        return rng.normal(0.0, sd, (n, self.dimension))

    # ------------------------------------------------------------------ drawing data

    def sample(
        self, n: int, n_steps: int, *, start: Start = None, random_state: RandomLike = None
    ) -> Trajectories:
        """Draw `n` independent trajectories of `n_steps` steps; rewards are rate x dt.

        Parameters
        ----------
        n, n_steps : int
        start : str, float or array, optional
            A named law of the process (its default when None), a standard deviation around its centre, one
            state (d,) for all trajectories, or the states (n, d) themselves; (n,) will do when d = 1.
        random_state : int, Generator, RandomState or SeedSequence, optional

        Returns
        -------
        Trajectories
            Truncated, since the process goes on.
        """
        n, n_steps = check_size(n, n_steps)
        generator = as_generator(random_state)
        states = np.empty((n, n_steps + 1, self.dimension))
        states[:, 0] = self._start(start, n, generator)
        for j in range(n_steps):
            states[:, j + 1] = self._step(states[:, j], generator)
        rates = self.reward_rate(states[:, :-1].reshape(n * n_steps, self.dimension))
        rewards = self.dt * rates.reshape(n, n_steps)
        return Trajectories(states, rewards, truncated=np.ones(n, dtype=np.bool_), dt=float(self.dt))

    def _start(self, start: Start, n: int, rng: np.random.Generator) -> FloatArray:
        laws = self._named_starts()
        if start is None or isinstance(start, str):
            name = next(iter(laws)) if start is None else check_choice(start, "start", list(laws))
            return laws[name](n, rng)
        if np.ndim(start) == 0:
            return self._spread(check_real(start, "start", low=0.0), n, rng)
        given = check_array(start, "start", ndim=(1, 2))
        if given.shape == (n,) and self.dimension == 1:
            given = given[:, np.newaxis]
        if given.shape not in ((n, self.dimension), (self.dimension,)):
            rule = f"states of shape (n, d) = ({n}, {self.dimension}), or one state (d,)"
            raise ValueError(must_be("start", rule, f"shape {given.shape}"))
        return np.broadcast_to(given, (n, self.dimension))

    def _points(self, states: ArrayLike) -> FloatArray:
        """Return `states` as (m, d)."""
        points = check_array(states, "states", ndim=(1, 2))
        points = points[:, np.newaxis] if points.ndim == 1 and self.dimension == 1 else points
        if points.ndim != 2 or points.shape[1] != self.dimension:
            rule = f"of shape (m, d) with d = {self.dimension}"
            raise ValueError(must_be("states", rule, f"shape {points.shape}"))
        return points


def check_size(n: int, n_steps: int) -> tuple[int, int]:
    """Return how many trajectories of how many steps; refuse what no memory can hold."""
    n, n_steps = check_int(n, "n"), check_int(n_steps, "n_steps")
    wanted = f"{n} trajectories of {n_steps} steps"
    check_memory(float(n) * (n_steps + 1), "n", wanted, "Simulate in parts.")
    return n, n_steps


@dataclass(frozen=True, kw_only=True, eq=False)
class TorusBrownian(Diffusion):
    """Brownian motion on the torus of period 2 pi, with waves as reward rate.

    It moves by ``ds = diffusion dB`` and earns ``sum_i c_i cos(w_i . s)``.
    Each wave is an eigenfunction: ``V(s) = sum_i c_i cos(w_i . s) / (beta + diffusion^2 |w_i|^2 / 2)``, and
    the discrete value has ``dt / (1 - gamma exp(-diffusion^2 |w_i|^2 dt / 2))`` in place of the fraction.

    Parameters
    ----------
    diffusion : float, default=1.0
        Standard deviation per square root of time.
    waves : sequence of wave vectors, shape (m, d), default=((1,),)
        Integers; d is the dimension of the torus.
    coefficients : sequence of float, shape (m,), optional
        All 1 by default.
    wrap : bool, default=False
        Store the angles in [-pi, pi). By default they run on along the real line: the same points of the
        torus, but increments then are those of the motion, which methods that use increments (PhiBE) need.
    dt, discount_rate : float, default=0.1 and 1.0
        Time between observed states, and beta > 0.

    Notes
    -----
    Starting laws: "uniform" (default), the stationary law; a number is the sd of a normal start.

    Examples
    --------
    >>> TorusBrownian(waves=[[1, 0], [1, 2]]).value([[0.0, 0.0]])  # 1 / 1.5 + 1 / 3.5
    array([0.95238095])
    """

    diffusion: float = 1.0
    waves: Sequence[Sequence[int]] = ((1,),)
    coefficients: Sequence[float] | None = None
    wrap: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real(self.diffusion, "diffusion", low=0.0, closed="neither")
        check_bool(self.wrap, "wrap")
        waves = check_array(self.waves, "waves", ndim=2)
        if not np.array_equal(waves, np.round(waves)):
            raise ValueError(must_be("waves", "integers, so that the reward has period 2 pi", waves.tolist()))
        given = np.ones(len(waves)) if self.coefficients is None else self.coefficients
        coefficients = check_array(given, "coefficients", ndim=1)
        if len(coefficients) != len(waves):
            raise ValueError(must_be("coefficients", f"one per wave ({len(waves)})", len(coefficients)))
        object.__setattr__(self, "waves", tuple(tuple(int(k) for k in wave) for wave in waves))
        object.__setattr__(self, "coefficients", tuple(coefficients.tolist()))

    @property
    def dimension(self) -> int:
        """Dimension d of the torus."""
        return len(self.waves[0])

    def _series(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        waves = np.array(self.waves, dtype=np.float64)
        rates = 0.5 * self.diffusion**2 * (waves**2).sum(axis=1)
        return np.cos(points @ waves.T), np.asarray(self.coefficients), rates

    def _step(self, states: FloatArray, rng: np.random.Generator) -> FloatArray:
        return self._wrap(rng.normal(states, self.diffusion * math.sqrt(self.dt)))

    def _start(self, start: Start, n: int, rng: np.random.Generator) -> FloatArray:
        return self._wrap(super()._start(start, n, rng))

    def _wrap(self, states: FloatArray) -> FloatArray:
        return np.mod(states + math.pi, 2 * math.pi) - math.pi if self.wrap else states

    def _named_starts(self) -> dict[str, StartRule]:
        return {"uniform": lambda n, rng: rng.uniform(-math.pi, math.pi, (n, self.dimension))}


@dataclass(frozen=True, kw_only=True, eq=False)
class GeometricBrownian(Diffusion):
    """``ds = drift s dt + diffusion s dB`` on s > 0, with reward rate ``s^power``.

    Powers are eigenfunctions with growth rate ``kappa = power drift + power (power - 1) diffusion^2 / 2``:
    ``V(s) = s^power / (beta - kappa)`` and the discrete value is ``dt s^power / (1 - gamma e^{kappa dt})``.

    Parameters
    ----------
    drift : float, default=0.05
        Growth rate of the mean.
    diffusion : float, default=0.2
        Standard deviation of the relative change per square root of time.
    power : float, default=2.0
        Exponent of the reward rate. The value is finite only if kappa < beta.
    dt, discount_rate : float, default=0.1 and 1.0
        Time between observed states, and beta > 0.

    Notes
    -----
    Starting laws: "uniform" on [0.5, 1.5] (default); a number is the standard deviation of log s.

    Examples
    --------
    >>> GeometricBrownian().value([1.0, 2.0]).round(4)  # s^2 / (1 - 0.14)
    array([1.1628, 4.6512])
    """

    drift: float = 0.05
    diffusion: float = 0.2
    power: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real(self.drift, "drift")
        check_real(self.diffusion, "diffusion", low=0.0)
        check_real(self.power, "power")
        if self.growth_rate >= self.discount_rate:
            rule = f"above the growth rate of the reward ({self.growth_rate:g})"
            hint = "Otherwise the value is infinite: raise `discount_rate` or lower `power`."
            raise ValueError(must_be("discount_rate", rule, self.discount_rate, hint))

    @property
    def growth_rate(self) -> float:
        """kappa, the growth rate of E s_t^power."""
        return self.power * self.drift + 0.5 * self.power * (self.power - 1.0) * self.diffusion**2

    def _series(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return points**self.power, np.ones(1), np.array([-self.growth_rate])

    def _points(self, states: ArrayLike) -> FloatArray:
        points = super()._points(states)
        if points.min() <= 0.0:
            raise ValueError(must_be("states", "positive", f"{points.min():g} as the smallest"))
        return points

    def _step(self, states: FloatArray, rng: np.random.Generator) -> FloatArray:
        log_drift = (self.drift - 0.5 * self.diffusion**2) * self.dt
        noise = rng.normal(log_drift, self.diffusion * math.sqrt(self.dt), states.shape)
        return np.asarray(states * np.exp(noise))

    def _spread(self, sd: float, n: int, rng: np.random.Generator) -> FloatArray:
        return np.exp(rng.normal(0.0, sd, (n, 1)))

    def _named_starts(self) -> dict[str, StartRule]:
        return {"uniform": lambda n, rng: rng.uniform(0.5, 1.5, (n, 1))}
