"""How far a value function is from its own equation on data that had no part in it.

The mean of squared temporal-difference errors is a bad judge: it adds the noise of the next state, which a
flat value function hides best (the double-sampling problem). Products of errors of *independent* steps have
no such term: with K a kernel and s, s' two steps of different trajectories,

    E[K(x_s, x_s') d_s d_s'] = || mean error given the state ||_K^2

which is zero for the true value function and for no other, whatever the basis (Feng, Li and Liu 2019).
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist, pdist

from .._core.typing import FloatArray, IntArray

# Steps beyond so many sharpen the score by less than they cost.
MAX_STEPS = 4000
_PILOT_POINTS = 500
_BLOCK_ROWS = 500


def kernel_bellman_loss(errors: FloatArray, points: FloatArray, trajectory: IntArray) -> float:
    """Estimate the kernel Bellman loss without bias, from pairs of steps of different trajectories.

    Parameters
    ----------
    errors : ndarray of shape (N,)
        Temporal-difference errors, weighted by importance ratios if there are such.
    points : ndarray of shape (N, d)
        States (and actions) they belong to. The kernel is Gaussian, in units of their standard deviations,
        as wide as the median distance: the same for every value function that is judged on these data.
    trajectory : ndarray of int, shape (N,)
        Which trajectory each step is of. With a single one, pairs are different steps of it.

    Returns
    -------
    float
        Can fall slightly below 0, where an unbiased estimate of a small number must.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 200)
    >>> noise = np.random.default_rng(0).normal(size=200)
    >>> small = kernel_bellman_loss(noise, x[:, None], np.arange(200))
    >>> small < kernel_bellman_loss(noise + x, x[:, None], np.arange(200))
    True
    """
    step = -(-len(errors) // MAX_STEPS)
    errors, points, trajectory = errors[::step], points[::step], trajectory[::step]
    if np.unique(trajectory).size == 1:
        trajectory = np.arange(len(errors))
    spread = points.std(axis=0)
    units = points / np.where(spread > 0, spread, 1.0)
    pilot = pdist(units[:: -(-len(units) // _PILOT_POINTS)])
    width = float(np.median(pilot[pilot > 0])) if (pilot > 0).any() else 1.0
    total, n_pairs = 0.0, 0
    for first in range(0, len(errors), _BLOCK_ROWS):
        rows = slice(first, first + _BLOCK_ROWS)
        apart = trajectory[rows, None] != trajectory[None, :]
        kernel = np.exp(-0.5 * (cdist(units[rows], units) / width) ** 2) * apart
        total += float(errors[rows] @ kernel @ errors)
        n_pairs += int(np.count_nonzero(apart))
    return total / n_pairs if n_pairs else float("nan")
