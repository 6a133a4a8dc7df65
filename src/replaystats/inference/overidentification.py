"""Whether more instruments than needed agree with each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from .._core.errors import must_be
from .._core.typing import ArrayLike
from .._core.validation import check_array
from ..moments.linear import two_stages


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
    return ChiSquareTest(statistic, n_too_many, float(stats.chi2.sf(statistic, n_too_many)))
