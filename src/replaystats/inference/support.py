"""Which prediction points lie where there are no data."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from .._core.arrays import as_array
from .._core.errors import must_be
from .._core.thresholds import INNER_SHARE
from .._core.typing import ArrayLike, BoolArray
from .._core.validation import as_columns, check_rows
from ..data._flat import are_names

# More data than this cannot change the answer, only its price.
MAX_OBSERVED = 5000


def outside_support(points: ArrayLike, observed: ArrayLike) -> BoolArray:
    """Return which points lie outside the data.

    A point is outside when its distance to the sqrt(N)-th nearest observation exceeds that of 99 % of the
    observations, in units of the standard deviation of each variable. States that are names are outside when
    they were not observed.

    Parameters
    ----------
    points : array-like of shape (m, d), or (m,) when d = 1
        Where to look.
    observed : array-like of shape (N, d), or (N,) when d = 1
        The data.

    Returns
    -------
    ndarray of bool, shape (m,)

    Examples
    --------
    >>> outside_support([0.0, 5.0], np.linspace(-1, 1, 100))
    array([False,  True])
    """
    if are_names(observed):
        if as_array(points, "points").dtype.kind not in "OUT":
            raise TypeError(must_be("points", "names, as `observed` are", "numbers"))
        known = {tuple(row) for row in as_columns(np.asarray(observed, dtype=str)).tolist()}
        return np.array(
            [tuple(row) not in known for row in as_columns(np.asarray(points, dtype=str)).tolist()]
        )
    wanted, data = check_rows(points, "points"), check_rows(observed, "observed")
    if wanted.shape[1] != data.shape[1]:
        rule = f"of the same dimension as `observed` ({data.shape[1]})"
        raise ValueError(must_be("points", rule, f"shape {wanted.shape}"))
    data = data[:: -(-len(data) // MAX_OBSERVED)]
    spread = data.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)  # off a constant variable, distance counts as it is
    tree = cKDTree(data / scale)
    rank = max(1, int(np.sqrt(len(data))))
    own = np.asarray(tree.query(data / scale, k=[min(rank + 1, len(data))])[0])  # the first is itself
    distance = np.asarray(tree.query(wanted / scale, k=[rank])[0])
    outside: BoolArray = distance[:, 0] > np.quantile(own[:, 0], INNER_SHARE)
    return outside
