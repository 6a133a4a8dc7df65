"""The paper's two simulated data sets, each in one call."""

from __future__ import annotations

import numpy as np

from .._core.errors import must_be
from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import check_array, check_int, check_memory, check_real
from ..data.trajectories import Trajectories
from ._diffusion import Start
from .linear import OrnsteinUhlenbeck


def ornstein_uhlenbeck(
    n: int,
    n_steps: int = 2,
    dt: float = 0.1,
    discount_rate: float = 1.0,
    drift: float = 0.05,
    diffusion: float = 1.0,
    start: Start = "paper",
    random_state: RandomLike = None,
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
    random_state : int, Generator, RandomState or SeedSequence, optional
        Where the randomness comes from.

    Returns
    -------
    Trajectories

    See Also
    --------
    OrnsteinUhlenbeck : The process itself, with its exact value.

    Examples
    --------
    >>> ornstein_uhlenbeck(1000, random_state=0)
    Trajectories(1000 x 2 steps, d=1, rewards, dt=0.1)
    """
    process = OrnsteinUhlenbeck(dt=dt, discount_rate=discount_rate, drift=drift, diffusion=diffusion)
    return process.sample(n, n_steps, start=start, random_state=random_state)


def two_bumps(
    n: int, *, noise: float = 0.5, random_state: RandomLike = None
) -> tuple[FloatArray, FloatArray]:
    """Draw n points X uniform on [0, 1]^2 and y = two_bumps_function(X) + N(0, noise^2).

    Parameters
    ----------
    n : int
        Number of points.
    noise : float, default=0.5
        Standard deviation; the paper's variance is 0.25.
    random_state : int, Generator, RandomState or SeedSequence, optional
        Where the randomness comes from.

    Returns
    -------
    X : ndarray of shape (n, 2)
    y : ndarray of shape (n,)

    Examples
    --------
    >>> X, y = two_bumps(100, random_state=0)
    >>> X.shape, y.shape
    ((100, 2), (100,))
    """
    n, noise = check_int(n, "n"), check_real(noise, "noise", low=0.0)
    check_memory(2.0 * n, "n", n, "Simulate in parts.")
    generator = as_generator(random_state)
    X = generator.random((n, 2))
    return X, two_bumps_function(X) + noise * generator.standard_normal(n)


def two_bumps_function(X: ArrayLike) -> FloatArray:
    """Return the regression function ``exp(-10 |x - 1/4|^2) + exp(-14 |x - 7/10|^2) / 2`` at X (m, 2).

    Parameters
    ----------
    X : array of shape (m, 2)
        Points; the unit square is where `two_bumps` draws them.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> two_bumps_function([[0.25, 0.25]]).round(4)
    array([1.0017])
    """
    points = check_array(X, "X", ndim=2)
    if points.shape[1] != 2:
        raise ValueError(must_be("X", "of shape (m, 2)", f"shape {points.shape}"))
    high = np.exp(-10.0 * ((points - 0.25) ** 2).sum(axis=1))
    low = np.exp(-14.0 * ((points - 0.7) ** 2).sum(axis=1))
    return np.asarray(high + 0.5 * low)
