"""What a regression is worth: simple rivals on the same rows, and which columns its predictions use."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .._core.typing import FloatArray, IntArray

# Rows that are enough for a comparison in a few seconds.
COMPARED_ROWS = 5000
FOLDS = 5
HELD_OUT = 0.25
SHUFFLES = 5


class Rival(NamedTuple):
    """A simple method and its cross-validated root mean squared error."""

    name: str
    rmse: float


class Importance(NamedTuple):
    """How much worse held-out rows are predicted when a column is shuffled among them.

    Attributes
    ----------
    name : str
    increase : float
        Of the root mean squared error, the mean over shuffles.
    error : float
        Standard deviation over shuffles.
    """

    name: str
    increase: float
    error: float


def rivals(X: FloatArray, y: FloatArray, *, seed: int = 0) -> list[Rival]:
    """Return cross-validated errors of the mean, ridge regression and, where installed, LightGBM.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> mean, linear = rivals(X, X[:, 0] + 0.1 * rng.normal(size=200))[:2]
    >>> mean.rmse > 5 * linear.rmse
    True
    """
    rows = np.random.default_rng(seed).permutation(len(y))[:COMPARED_ROWS]
    X, y = X[rows], y[rows]
    methods: dict[str, Any] = {
        "mean": DummyRegressor(),
        "linear (ridge)": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
    }
    if find_spec("lightgbm") is not None:
        methods["LightGBM"] = import_module("lightgbm").LGBMRegressor(n_jobs=1, verbose=-1, random_state=seed)
    folds = KFold(min(FOLDS, len(y)), shuffle=True, random_state=seed)
    found = []
    for name, method in methods.items():
        predicted = cross_val_predict(method, X, y, cv=folds)
        found.append(Rival(name, float(np.sqrt(np.mean((y - predicted) ** 2)))))
    return found


def permutation_importance(
    model: Any,
    X: FloatArray,
    y: FloatArray,
    columns: Sequence[tuple[str, IntArray]],
    *,
    seed: int = 0,
) -> list[Importance]:
    """Shuffle columns among rows that a second fit did not see.

    Parameters
    ----------
    model : regressor
        It is cloned and fitted on three quarters of at most 5000 rows.
    X : ndarray of shape (n, p)
    y : ndarray of shape (n,)
    columns : sequence of (name, ndarray of int)
        What is shuffled together: the indicators of a category are one column.
    seed : int

    Returns
    -------
    list of Importance
        Most important first.
    """
    rng = np.random.default_rng(seed)
    held, rest = np.split(order := rng.permutation(len(y))[:COMPARED_ROWS], [int(HELD_OUT * len(order))])
    if len(held) < 2:
        return []
    fit = clone(model).fit(X[rest], y[rest])
    plain = _rmse(fit, X[held], y[held])
    found = []
    for name, positions in columns:
        changes = []
        for _ in range(SHUFFLES):
            shuffled = X[held].copy()
            shuffled[:, positions] = shuffled[np.ix_(rng.permutation(len(held)), positions)]
            changes.append(_rmse(fit, shuffled, y[held]) - plain)
        found.append(Importance(name, float(np.mean(changes)), float(np.std(changes))))
    return sorted(found, key=lambda importance: -importance.increase)


def _rmse(fit: Any, X: FloatArray, y: FloatArray) -> float:
    return float(np.sqrt(np.mean((fit.predict(X) - y) ** 2)))
