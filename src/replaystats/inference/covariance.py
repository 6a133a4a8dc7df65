"""Sums of squares of deviations, as variances or as covariances, and the variances of linear functionals.

A covariance has shape (q, q), or (n_outputs, q, q) when theta is (q, n_outputs): outputs share the matrix g
but are separate estimates, so nothing here mixes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from .._core.arrays import like, to_numpy
from .._core.typing import FloatArray


def gram(deviations: Any, weights: FloatArray | None = None) -> FloatArray:
    """Return sum_i w_i d_i d_i^T, on the host, for deviations d of shape (n, q) or (n, q, n_outputs).

    Examples
    --------
    >>> gram(np.array([[1.0, 2.0], [0.0, 1.0]]))
    array([[1., 2.],
           [2., 5.]])
    """
    xp = array_namespace(deviations)
    by_output = deviations if deviations.ndim == 2 else xp.moveaxis(deviations, 2, 0)  # (..., n, q)
    weighted = by_output if weights is None else weights[:, None] * by_output
    return to_numpy(xp.matrix_transpose(weighted) @ by_output)


def squares(deviations: Any, weights: FloatArray | None = None) -> Any:
    """Return sum_i w_i d_i^2 for deviations of shape (n, ...): the diagonal of `gram`, where they live.

    Examples
    --------
    >>> squares(np.array([[1.0, 2.0], [0.0, 1.0]]))
    array([1., 5.])
    """
    xp = array_namespace(deviations)
    if weights is None:
        return xp.sum(deviations * deviations, axis=0)
    weights = like(weights.reshape(-1, *[1] * (deviations.ndim - 1)), deviations)
    return xp.sum(weights * deviations * deviations, axis=0)


def variance_at(X: FloatArray | None, covariance: FloatArray) -> FloatArray:
    """Return the variance of X theta, shape (m,) or (m, n_outputs); of theta itself for None.

    Examples
    --------
    >>> variance_at(np.array([[1.0, 1.0]]), np.array([[1.0, 0.5], [0.5, 2.0]]))
    array([4.])
    """
    if X is None:
        return np.diagonal(covariance, axis1=-2, axis2=-1).T.copy()
    variance: FloatArray = ((X @ like(covariance, X)) * X).sum(axis=-1)
    return variance.T if covariance.ndim == 3 else variance
