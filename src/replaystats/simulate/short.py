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
        Where the randomness comes from.

    Returns
    -------
    Trajectories

    See Also
    --------
    OrnsteinUhlenbeck : The process itself, with its exact value.

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
    """Draw `n` trajectories of ``HermiteOU(**parameters)``.

    Parameters
    ----------
    n : int
        Number of trajectories.
    n_steps : int
        Steps of each; it has one state more.
    start : "stationary", float or array, optional
        Law of the first state; default that of the process.
    rng : int, Generator, RandomState or SeedSequence, optional
        Where the randomness comes from.
    **parameters
        Those of `HermiteOU`.

    Returns
    -------
    Trajectories

    See Also
    --------
    HermiteOU : The process itself, with its exact values.

    Examples
    --------
    >>> hermite_ou(50, 4, reversion=2.0, rng=0)
    Trajectories(50 x 4 steps, d=1, rewards, dt=0.1)
    """
    return HermiteOU(**parameters).sample(n, n_steps, start=start, rng=rng)


def linear_quadratic(
    n: int, n_steps: int = 2, *, start: Start = None, rng: RandomLike = None, **parameters: Any
) -> Trajectories:
    """Draw `n` trajectories of ``LinearQuadratic(**parameters)``.

    Parameters
    ----------
    n : int
        Number of trajectories.
    n_steps : int
        Steps of each; it has one state more.
    start : "normal", float or array, optional
        Law of the first state; default that of the process.
    rng : int, Generator, RandomState or SeedSequence, optional
        Where the randomness comes from.
    **parameters
        Those of `LinearQuadratic`.

    Returns
    -------
    Trajectories

    See Also
    --------
    LinearQuadratic : The process itself, with its exact values.

    Examples
    --------
    >>> linear_quadratic(50, 4, rng=0)
    Trajectories(50 x 4 steps, d=2, rewards, dt=0.1)
    """
    return LinearQuadratic(**parameters).sample(n, n_steps, start=start, rng=rng)


def torus_brownian(
    n: int, n_steps: int = 2, *, start: Start = None, rng: RandomLike = None, **parameters: Any
) -> Trajectories:
    """Draw `n` trajectories of ``TorusBrownian(**parameters)``.

    Parameters
    ----------
    n : int
        Number of trajectories.
    n_steps : int
        Steps of each; it has one state more.
    start : "uniform", float or array, optional
        Law of the first state; default that of the process.
    rng : int, Generator, RandomState or SeedSequence, optional
        Where the randomness comes from.
    **parameters
        Those of `TorusBrownian`.

    Returns
    -------
    Trajectories

    See Also
    --------
    TorusBrownian : The process itself, with its exact values.

    Examples
    --------
    >>> torus_brownian(50, 4, waves=[[1, 0], [1, 2]], rng=0)
    Trajectories(50 x 4 steps, d=2, rewards, dt=0.1)
    """
    return TorusBrownian(**parameters).sample(n, n_steps, start=start, rng=rng)


def geometric_brownian(
    n: int, n_steps: int = 2, *, start: Start = None, rng: RandomLike = None, **parameters: Any
) -> Trajectories:
    """Draw `n` trajectories of ``GeometricBrownian(**parameters)``.

    Parameters
    ----------
    n : int
        Number of trajectories.
    n_steps : int
        Steps of each; it has one state more.
    start : str, float or array, optional
        Law of the first state; default that of the process.
    rng : int, Generator, RandomState or SeedSequence, optional
        Where the randomness comes from.
    **parameters
        Those of `GeometricBrownian`.

    Returns
    -------
    Trajectories

    See Also
    --------
    GeometricBrownian : The process itself, with its exact values.

    Examples
    --------
    >>> geometric_brownian(50, 4, dt=0.05, rng=0)
    Trajectories(50 x 4 steps, d=1, rewards, dt=0.05)
    """
    return GeometricBrownian(**parameters).sample(n, n_steps, start=start, rng=rng)


def boyan_chain(n: int, n_steps: int = 100, *, rng: RandomLike = None, **parameters: Any) -> Trajectories:
    """Draw `n` episodes of ``FiniteChain.boyan(**parameters)``, cut after `n_steps`.

    Parameters
    ----------
    n : int
        Number of trajectories.
    n_steps : int
        Steps of each; it has one state more.
    rng : int, Generator, RandomState or SeedSequence, optional
        Where the randomness comes from.
    **parameters
        Those of `FiniteChain.boyan`.

    Returns
    -------
    Trajectories

    See Also
    --------
    FiniteChain.boyan : The chain itself, with its exact values.

    Examples
    --------
    >>> boyan_chain(20, rng=0).n_trajectories
    20
    """
    return FiniteChain.boyan(**parameters).sample(n, n_steps, rng=rng)


def ring_chain(n: int, n_steps: int = 20, *, rng: RandomLike = None, **parameters: Any) -> Trajectories:
    """Draw `n` trajectories of ``FiniteChain.ring(**parameters)``.

    Parameters
    ----------
    n : int
        Number of trajectories.
    n_steps : int
        Steps of each; it has one state more.
    rng : int, Generator, RandomState or SeedSequence, optional
        Where the randomness comes from.
    **parameters
        Those of `FiniteChain.ring`.

    Returns
    -------
    Trajectories

    See Also
    --------
    FiniteChain.ring : The chain itself, with its exact values.

    Examples
    --------
    >>> ring_chain(20, 5, rng=0).n_trajectories
    20
    """
    return FiniteChain.ring(**parameters).sample(n, n_steps, rng=rng)
