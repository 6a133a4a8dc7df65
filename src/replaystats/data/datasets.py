"""Real data of the paper's experiments, read from a package that carries it."""

from __future__ import annotations

import numpy as np

from .._core.errors import require_extra
from .._core.typing import FloatArray

# Format: of the file that is read.
BOSTON_SHAPE = (506, 13)
# Format: of the file that is read.
BOSTON_MEAN_TARGET = 22.532806


def load_boston() -> tuple[FloatArray, FloatArray]:
    """Return the Boston housing data (Harrison and Rubinfeld, 1978) of the paper's regression experiment.

    Returns
    -------
    X : ndarray of shape (506, 13)
        crim, zn, indus, chas, nox, rm, age, dis, rad, tax, ptratio, black, lstat.
    y : ndarray of shape (506,)
        medv, the median value of homes in thousands of dollars.

    Notes
    -----
    It is here only so that the published experiment can be run again. One column was built on the assumption
    that racial segregation affects house prices, and cannot be turned back into the figures it came from;
    scikit-learn withdrew the data for that reason. For any other purpose take another set, such as
    `sklearn.datasets.fetch_california_housing`.

    The extra "experiments" installs mlxtend, which carries the data; nothing is downloaded.

    Examples
    --------
    >>> X, y = load_boston()
    >>> X.shape, float(y.mean().round(6))
    ((506, 13), 22.532806)
    """
    mlxtend_data = require_extra("mlxtend.data", extra="experiments", purpose="The Boston data")
    X, y = mlxtend_data.boston_housing_data()
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if X.shape != BOSTON_SHAPE or abs(y.mean() - BOSTON_MEAN_TARGET) > 1e-6:
        got = f"shape {X.shape} and a mean target of {y.mean():.6f}"
        msg = f"mlxtend's Boston data must be {BOSTON_SHAPE} with mean {BOSTON_MEAN_TARGET}; got {got}."
        raise RuntimeError(msg)
    return X, y
