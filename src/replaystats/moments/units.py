"""Sums of moments over groups of observations: blocks, clusters, or trajectories out of steps."""

from __future__ import annotations

import numpy as np

from .._core.typing import IntArray
from .factored import FactoredMoments, HeldMoments, choose_form
from .record import Moments


def one_step_each(moments: HeldMoments) -> HeldMoments:
    """Return factored moments with every step as an observation of its own; others as they are."""
    if isinstance(moments, Moments) or moments.one_step_each:
        return moments
    every_step = np.arange(len(moments.left) + 1)
    return FactoredMoments(moments.left, moments.right, moments.response, every_step)


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
