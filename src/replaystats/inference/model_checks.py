"""Is the model right? Instruments that agree, values on their own equation, points within data, coverage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist, pdist

from .._core.arrays import as_array
from .._core.errors import must_be
from .._core.thresholds import DENSE_SYSTEM, NEGLIGIBLE, SQUARE_ROWS
from .._core.typing import ArrayLike, BoolArray, FloatArray, IntArray
from .._core.validation import as_columns, check_array, check_real, check_rows
from ..data._flat import are_names
from ..moments.linear import two_stages
from .new_observation import ROUNDING, RowsOfFolds, weighted_quantile


class ChiSquareTest(NamedTuple):
    """A statistic, its degrees of freedom and its p-value."""

    statistic: float
    degrees_of_freedom: int
    p_value: float


def overidentification_test(
    X: ArrayLike,
    y: ArrayLike,
    instruments: ArrayLike,
    *,
    exogenous: ArrayLike | None = None,
    intercept: bool = True,
) -> ChiSquareTest:
    """Return Sargan's test: n times the R^2 of the two-stage residuals on all instruments.

    Parameters
    ----------
    X : array-like of shape (n, p)
        Endogenous regressors.
    y : array-like of shape (n,)
        Response.
    instruments : array-like of shape (n, l)
        More than p of them.
    exogenous : array-like of shape (n, r), optional
        Further regressors that are their own instruments.
    intercept : bool
        Whether a column of ones is among those.

    Returns
    -------
    ChiSquareTest
        Under valid instruments and errors of constant variance the statistic is chi-square with as many
        degrees of freedom as there are instruments too many. A small p-value says that the instruments
        disagree: at least one moves y by another way than X.

    Raises
    ------
    ValueError
        With no more instruments than endogenous regressors: then nothing can disagree.

    See Also
    --------
    iv_moments : The estimate that is tested.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, u = rng.normal(size=(2000, 2)), rng.normal(size=2000)
    >>> x = z @ [1.0, 0.5] + u
    >>> overidentification_test(x[:, None], 2 * x + u, z).p_value > 0.05
    True
    >>> y = 2 * x + u + z[:, 1]  # the second moves y itself
    >>> overidentification_test(x[:, None], y, z).p_value < 1e-10
    True
    """
    design, projected, target = two_stages(X, y, instruments, exogenous, intercept=intercept)
    Z = check_array(instruments, "instruments", ndim=2)
    n_too_many = Z.shape[1] - check_array(X, "X", ndim=2).shape[1]
    if n_too_many == 0:
        rule = "more than endogenous regressors for a test"
        raise ValueError(must_be("instruments", rule, Z.shape[1], "They cannot disagree."))
    theta = np.linalg.solve(projected.T @ design, projected.T @ target)
    residuals = target - design @ theta
    exogenous_part = design[:, : design.shape[1] - np.asarray(X).shape[1]]
    everything = np.hstack([exogenous_part, Z])
    explained = everything @ np.linalg.lstsq(everything, residuals, rcond=None)[0]
    statistic = float(len(target) * (explained @ explained) / (residuals @ residuals))
    return ChiSquareTest(statistic, n_too_many, float(special.chdtrc(n_too_many, statistic)))


# The mean of squared temporal-difference errors is a bad judge: it adds the noise of the next state, which a
# flat value function hides best (the double-sampling problem). Products of errors of *independent* steps have
# no such term: with K a kernel and s, s' two steps of different trajectories,
#
#     E[K(x_s, x_s') d_s d_s'] = || mean error given the state ||_K^2
#
# which is zero for the true value function and for no other, whatever the basis (Feng, Li and Liu 2019).

# Batch: rows of a kernel matrix at a time.
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
    step = -(-len(errors) // SQUARE_ROWS)
    errors, points, trajectory = errors[::step], points[::step], trajectory[::step]
    if np.unique(trajectory).size == 1:
        trajectory = np.arange(len(errors))
    spread = points.std(axis=0)
    units = points / np.where(spread > 0, spread, 1.0)
    pilot = pdist(units[:: -(-len(units) // DENSE_SYSTEM)])
    width = float(np.median(pilot[pilot > 0])) if (pilot > 0).any() else 1.0
    total, n_pairs = 0.0, 0
    for first in range(0, len(errors), _BLOCK_ROWS):
        rows = slice(first, first + _BLOCK_ROWS)
        apart = trajectory[rows, None] != trajectory[None, :]
        kernel = np.exp(-0.5 * (cdist(units[rows], units) / width) ** 2) * apart
        total += float(errors[rows] @ kernel @ errors)
        n_pairs += int(np.count_nonzero(apart))
    return total / n_pairs if n_pairs else float("nan")


# Which prediction points lie where there are no data.


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
    data = data[:: -(-len(data) // SQUARE_ROWS)]
    spread = data.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)  # off a constant variable, distance counts as it is
    tree = cKDTree(data / scale)
    rank = max(1, int(np.sqrt(len(data))))
    own = np.asarray(tree.query(data / scale, k=[min(rank + 1, len(data))])[0])  # the first is itself
    distance = np.asarray(tree.query(wanted / scale, k=[rank])[0])
    return np.asarray(distance[:, 0] > np.quantile(own[:, 0], 1.0 - NEGLIGIBLE))


# Do intervals cover?


class Coverage(NamedTuple):
    """How many observed targets lay inside intervals that were drawn without looking at them.

    Attributes
    ----------
    share : float
        Of all rows.
    by_prediction : tuple of float
        Of the rows with the lowest, middle and highest third of predictions: equal shares mean that the
        interval is as good for small as for large values.
    n_rows : int
    """

    share: float
    by_prediction: tuple[float, float, float]
    n_rows: int


def measured_coverage(
    predictions: FloatArray,
    sizes: FloatArray,
    confidence_level: float,
    *,
    groups: IntArray | None = None,
    n_parts: int = 10,
) -> Coverage:
    """Measure what intervals cover, on rows that do not enter their width.

    Rows, or groups, are split into parts by their number; the quantile for a part's residuals is taken among
    those of the other parts.

    Parameters
    ----------
    predictions, sizes : ndarray of shape (n,)
        Out-of-bag, cross-validated or leave-one-out predictions, and |residual| over the expected spread.
        NaN takes no part.
    confidence_level : float in (0, 1)
    groups : ndarray of int, shape (n,), optional
    n_parts : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=3000)
    >>> even = measured_coverage(x, np.abs(rng.normal(size=3000)), 0.9)
    >>> growing = measured_coverage(x, x * np.abs(rng.normal(size=3000)), 0.9)
    >>> round(even.share, 2), round(growing.share, 2)
    (0.9, 0.9)
    >>> growing.by_prediction[0] > 0.97 > 0.85 > growing.by_prediction[2]
    True
    """
    level = check_real(confidence_level, "confidence_level", low=0.0, high=1.0, closed="neither")
    known = np.isfinite(sizes) & np.isfinite(predictions)
    sizes, labels = sizes[known], np.arange(np.count_nonzero(known)) if groups is None else groups[known]
    part, inside = labels % n_parts, np.zeros(len(sizes), dtype=bool)
    for number in range(n_parts):
        own, others = part == number, np.flatnonzero(part != number)
        rows = RowsOfFolds(others, sizes[others, None], None if groups is None else labels[others])
        weights = rows.weights() if len(others) else np.zeros(0)
        enough = weights.sum() >= level - ROUNDING
        reached = weighted_quantile(sizes[None, others], weights, level)[0] if enough else np.inf
        inside[own] = sizes[own] <= reached
    ordered = np.array_split(inside[np.argsort(predictions[known], kind="stable")], 3)
    low, middle, high = (float(third.mean()) if third.size else float("nan") for third in ordered)
    return Coverage(float(inside.mean()) if inside.size else float("nan"), (low, middle, high), len(sizes))
