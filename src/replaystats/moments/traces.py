"""Eligibility traces: every step answers for the states before it, less and less."""

from __future__ import annotations

import numpy as np

from .._core.typing import FloatArray, IntArray


def eligibility_traces(
    features: FloatArray, decay: FloatArray, offsets: IntArray, importance: FloatArray | None = None
) -> FloatArray:
    """Return z_j = rho_j (decay_{j-1} z_{j-1} + phi_j), from 0 at the start of every trajectory.

    Parameters
    ----------
    features : ndarray of shape (N, q)
        phi_j, trajectory after trajectory.
    decay : ndarray of shape (N,)
        What is left of a trace after each step: discount times lambda.
    offsets : ndarray of int, shape (n + 1,)
        Trajectory i owns the steps ``offsets[i]:offsets[i + 1]``.
    importance : ndarray of shape (N,), optional
        rho_j; default 1.

    Returns
    -------
    ndarray of shape (N, q)

    Notes
    -----
    With c_j = rho_j decay_{j-1}, and 0 at starts, one pass adds c_j z_{j-1}; then every z holds two terms.
    The next adds c_j c_{j-1} z_{j-2}, and it holds four, and so on: log2(L) passes over whole arrays for a
    longest trajectory of L steps, however uneven the others are. O(N q log L).

    Examples
    --------
    >>> ones = np.ones((5, 1))
    >>> eligibility_traces(ones, np.full(5, 0.5), np.array([0, 3, 5])).ravel()
    array([1.  , 1.5 , 1.75, 1.  , 1.5 ])
    """
    carry = np.zeros(len(features))
    carry[1:] = decay[:-1]
    carry[offsets[:-1]] = 0.0
    traces = features.copy()
    if importance is not None:
        carry *= importance
        traces *= importance[:, None]
    distance = 1
    while carry.any():  # carry[j] is the product of the last `distance` factors; it dies at every start
        traces[distance:] += carry[distance:, None] * traces[:-distance]
        carry[distance:] = carry[distance:] * carry[:-distance]
        distance *= 2
    return traces
