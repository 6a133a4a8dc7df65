"""Sums of moments over groups of observations: blocks, clusters, or trajectories out of steps."""

from __future__ import annotations

import numpy as np

from .._core.errors import must_be
from .._core.typing import IntArray
from .factored import FactoredMoments, HeldMoments, choose_form
from .record import Moments


def one_step_each(moments: HeldMoments) -> HeldMoments:
    """Return factored moments with every step as an observation of its own; others as they are."""
    if isinstance(moments, Moments) or moments.one_step_each:
        return moments
    every_step = np.arange(len(moments.left) + 1)
    return FactoredMoments(moments.left, moments.right, moments.response, every_step)


def join_moments(first: HeldMoments, second: HeldMoments) -> HeldMoments:
    """Return the observations of `first` followed by those of `second`.

    Examples
    --------
    >>> join_moments(Moments([1.0], [2.0]), Moments([3.0, 4.0], [5.0, 6.0]))
    Moments(n=3, q=1, symmetric)
    """
    for name in ("n_basis", "n_outputs", "symmetric"):
        held, new = getattr(first, name), getattr(second, name)
        if held != new:
            raise ValueError(must_be("moments", f"like those before, with {name}={held}", f"{name}={new}"))
    if isinstance(first, Moments) and isinstance(second, Moments):
        return first.wrap(np.concatenate([first.rows, second.rows]))
    if isinstance(first, FactoredMoments) and isinstance(second, FactoredMoments):
        left = np.concatenate([first.left, second.left])
        return FactoredMoments(
            left,
            left if first.symmetric else np.concatenate([first.right, second.right]),
            np.concatenate([first.response, second.response]),
            np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        )
    raise TypeError(must_be("moments", f"a {type(first).__name__} like those before", type(second).__name__))


def group_observations(moments: HeldMoments, labels: IntArray) -> HeldMoments:
    """Sum the moments of all observations with the same label.

    Parameters
    ----------
    moments : Moments or FactoredMoments
        n observations.
    labels : ndarray of int, shape (n,)
        0..m-1, each at least once, in any order.

    Returns
    -------
    Moments or FactoredMoments
        m observations, in the order of the labels.

    Examples
    --------
    >>> group_observations(Moments([1.0, 2.0, 4.0], [1.0, 1.0, 1.0]), np.array([1, 0, 1])).g.ravel()
    array([2., 5.])
    """
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(int(labels.max()) + 1))
    if isinstance(moments, Moments):
        return moments.wrap(np.add.reduceat(moments.rows[order], starts, axis=0))
    steps = moments.steps_of(order)
    left = moments.left[steps]
    right = left if moments.symmetric else moments.right[steps]
    ends = np.concatenate([[0], np.cumsum(np.diff(moments.offsets)[order])])
    offsets = np.append(ends[starts], ends[-1])
    return choose_form(FactoredMoments(left, right, moments.response[steps], offsets))
