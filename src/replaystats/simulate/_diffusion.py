"""What the simulated diffusions share: drawing trajectories, starting points, the two meanings of "value".

A subclass supplies the exact transition, the reward rate and the value functions. Nothing is discretised by
an Euler scheme, so the laws of the sampled states are exact for every `dt`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._core.errors import must_be
from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import check_array, check_choice, check_int, check_memory, check_real
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

    @abstractmethod
    def reward_rate(self, states: ArrayLike) -> FloatArray:
        """Return r(s) at the states (m, d), or (m,) when d = 1, as an array (m,)."""

    @abstractmethod
    def value(self, states: ArrayLike) -> FloatArray:
        """Return the exact value in continuous time at the states, as an array (m,)."""

    @abstractmethod
    def discrete_value(self, states: ArrayLike) -> FloatArray:
        """Return the exact value of the reward process sampled every `dt`, as an array (m,)."""

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
