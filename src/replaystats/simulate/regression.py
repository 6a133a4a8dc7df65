"""The paper's simulated regression: two bumps on the unit square, with noise."""

from __future__ import annotations

import numpy as np

from .._core.errors import must_be
from .._core.random import as_generator
from .._core.typing import ArrayLike, FloatArray, RandomLike
from .._core.validation import check_array, check_int, check_memory, check_real


def two_bumps(n: int, *, noise: float = 0.5, rng: RandomLike = None) -> tuple[FloatArray, FloatArray]:
    """Draw n points X uniform on [0, 1]^2 and y = two_bumps_function(X) + N(0, noise^2).

    Parameters
    ----------
    n : int
        Number of points.
    noise : float, default=0.5
        Standard deviation; the paper's variance is 0.25.
    rng : int, Generator, RandomState or SeedSequence, optional
        Where the randomness comes from.

    Returns
    -------
    X : ndarray of shape (n, 2)
    y : ndarray of shape (n,)

    Examples
    --------
    >>> X, y = two_bumps(100, rng=0)
    >>> X.shape, y.shape
    ((100, 2), (100,))
    """
    n, noise = check_int(n, "n"), check_real(noise, "noise", low=0.0)
    check_memory(2.0 * n, "n", n, "Simulate in parts.")
    generator = as_generator(rng)
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
