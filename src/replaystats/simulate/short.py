"""One call from parameters to data, for each process: ``name(n, n_steps, ..., rng=0)`` gives Trajectories.

The classes of the same names hold the truth that belongs to the data: ``OrnsteinUhlenbeck().value(grid)``.
"""

from __future__ import annotations

from typing import Any

from .._core.typing import RandomLike
from ..data.trajectories import Trajectories
from ._diffusion import Start
from .brownian import GeometricBrownian, TorusBrownian
from .chains import FiniteChain
from .lq import LinearQuadratic
from .ou import HermiteOU, OrnsteinUhlenbeck


def ornstein_uhlenbeck(
    n: int,
    n_steps: int = 2,
    dt: float = 0.1,
    discount_rate: float = 1.0,
    drift: float = 0.05,
    diffusion: float = 1.0,
    start: Start = "paper",
    rng: RandomLike = None,
) -> Trajectories:
    """Draw `n` trajectories of the paper's process; see `OrnsteinUhlenbeck` for its value, cos^3 s.

    Parameters
    ----------
    n, n_steps : int
        Trajectories, and steps of each; the paper has 2 steps (three states).
    dt, discount_rate, drift, diffusion : float
        Parameters of `OrnsteinUhlenbeck`.
    start : {"paper", "uniform"}, float or array, default="paper"
        N(0, 0.1^2) truncated to [-pi, pi], or uniform there, or another standard deviation, or the states.
    rng : int, Generator, RandomState or SeedSequence, optional

    Examples
    --------
    >>> ornstein_uhlenbeck(1000, rng=0)
    Trajectories(1000 x 2 steps, d=1, rewards, dt=0.1)
    """
    process = OrnsteinUhlenbeck(dt=dt, discount_rate=discount_rate, drift=drift, diffusion=diffusion)
    return process.sample(n, n_steps, start=start, rng=rng)


def hermite_ou(
    n: int, n_steps: int = 2, *, start: Start = None, rng: RandomLike = None, **parameters: Any
) -> Trajectories:
    """Draw `n` trajectories of ``HermiteOU(**parameters)``."""
    return HermiteOU(**parameters).sample(n, n_steps, start=start, rng=rng)


def linear_quadratic(
    n: int, n_steps: int = 2, *, start: Start = None, rng: RandomLike = None, **parameters: Any
) -> Trajectories:
    """Draw `n` trajectories of ``LinearQuadratic(**parameters)``."""
    return LinearQuadratic(**parameters).sample(n, n_steps, start=start, rng=rng)


def torus_brownian(
    n: int, n_steps: int = 2, *, start: Start = None, rng: RandomLike = None, **parameters: Any
) -> Trajectories:
    """Draw `n` trajectories of ``TorusBrownian(**parameters)``."""
    return TorusBrownian(**parameters).sample(n, n_steps, start=start, rng=rng)


def geometric_brownian(
    n: int, n_steps: int = 2, *, start: Start = None, rng: RandomLike = None, **parameters: Any
) -> Trajectories:
    """Draw `n` trajectories of ``GeometricBrownian(**parameters)``."""
    return GeometricBrownian(**parameters).sample(n, n_steps, start=start, rng=rng)


def boyan_chain(n: int, n_steps: int = 100, *, rng: RandomLike = None, **parameters: Any) -> Trajectories:
    """Draw `n` episodes of ``FiniteChain.boyan(**parameters)``, cut after `n_steps`."""
    return FiniteChain.boyan(**parameters).sample(n, n_steps, rng=rng)


def ring_chain(n: int, n_steps: int = 20, *, rng: RandomLike = None, **parameters: Any) -> Trajectories:
    """Draw `n` trajectories of ``FiniteChain.ring(**parameters)``."""
    return FiniteChain.ring(**parameters).sample(n, n_steps, rng=rng)
