"""From priorities to drawing probabilities, as prioritised replay does it."""

from __future__ import annotations

import numpy as np

from .._core.errors import must_be
from .._core.typing import ArrayLike, FloatArray
from .._core.validation import check_array, check_real


def proportional_probabilities(
    priorities: ArrayLike, *, exponent: float = 1.0, uniform_share: float = 0.1
) -> FloatArray:
    """Return probabilities proportional to ``priorities ** exponent``, mixed with uniform ones.

    Parameters
    ----------
    priorities : array-like of shape (n,)
        Non-negative: absolute temporal-difference errors, lengths of influence vectors, ...
    exponent : float >= 0
        0 draws uniformly, 1 in proportion.
    uniform_share : float in [0, 1]
        Share of uniform draws. It bounds the weight of any draw by 1 / uniform_share.

    Returns
    -------
    ndarray of shape (n,)
        Sums to one.

    Examples
    --------
    >>> proportional_probabilities([1.0, 3.0], uniform_share=0.5)
    array([0.375, 0.625])
    """
    p = check_array(priorities, "priorities", ndim=1)
    exponent = check_real(exponent, "exponent", low=0.0)
    if p.min() < 0.0:
        raise ValueError(must_be("priorities", "non-negative", f"{p.min():g} at index {p.argmin()}"))
    return _mix(p**exponent, uniform_share)


def rank_probabilities(
    priorities: ArrayLike, *, exponent: float = 1.0, uniform_share: float = 0.1
) -> FloatArray:
    """Return probabilities proportional to ``(1 / rank) ** exponent``; the largest priority has rank 1.

    Outliers cannot dominate, because only the order counts. Equal priorities share their mean rank.

    Examples
    --------
    >>> rank_probabilities([5.0, 100.0, 1.0], uniform_share=0.0).round(3)
    array([0.273, 0.545, 0.182])
    """
    p = check_array(priorities, "priorities", ndim=1)
    exponent = check_real(exponent, "exponent", low=0.0)
    _, group, counts = np.unique(-p, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2
    return _mix(mean_rank[group] ** -exponent, uniform_share)


def _mix(p: FloatArray, uniform_share: float) -> FloatArray:
    share = check_real(uniform_share, "uniform_share", low=0.0, high=1.0)
    total = p.sum()
    if total == 0.0 and share < 1.0:
        hint = "Leave them out to draw uniformly."
        raise ValueError(must_be("priorities", "positive somewhere", "zeros only", hint))
    return np.asarray(share / p.size + (1.0 - share) * p / (total or 1.0))
