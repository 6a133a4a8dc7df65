"""Kernel ridge with its lambda chosen by leave-one-out, beside replay with the paper's lambda."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from replaystats.choosing import kernel_penalties
from replaystats.toolkit import FloatArray

from .cells import Cell, Settings, cell_stream
from .kernel import TASKS, draw_plans, fit_predict, penalty, whole
from .measures import rmse

ALPHAS = np.logspace(-4, 2, 49)
ROWS = ("plain", "U", "V", "loo")


def fit_predict_loo(X: FloatArray, y: FloatArray, X_test: FloatArray) -> tuple[FloatArray, float]:
    """Fit all the data, in KRLS's units, with the lambda of smallest leave-one-out error.

    Returns
    -------
    predictions : ndarray of shape (m,)
    alpha : float
        The chosen lambda.

    Examples
    --------
    >>> x = np.linspace(0, 1, 40)[:, None]
    >>> predictions, alpha = fit_predict_loo(x, np.sin(6 * x[:, 0]), x)
    >>> bool(abs(predictions - np.sin(6 * x[:, 0])).max() < 0.01)
    True
    """
    points = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    K = np.exp(-cdist(points, points, "sqeuclidean") / X.shape[1])
    alpha = kernel_penalties(K, (y - y.mean()) / y.std(ddof=1), ALPHAS).best
    return fit_predict(X, y, X_test, whole(len(y)), alpha)[0], alpha


def predict_tuned(X: FloatArray, y: FloatArray, points: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the predictions of `fit_predict_loo`, as an estimator of a study."""
    return fit_predict_loo(X, y, points)[0]


def run_cell(cell: Cell, settings: Settings, repetitions: int) -> dict[str, Any]:
    """Compute plain, U, V and the tuned fit on the same training sets; errors against the function."""
    task = TASKS[cell["data"]](cell_stream(settings.seed, f"{cell['data']} test points"))
    n = cell["n"]
    predictions = np.empty((len(ROWS), repetitions, len(task.y_test)))
    alphas = np.empty(repetitions)
    for repetition in range(repetitions):
        rng = cell_stream(settings.seed, cell.key, repetition)
        X, y = task.draw(n, rng)
        for row, plan in enumerate(draw_plans(n, cell["B"], cell["k"], rng)):
            predictions[row, repetition], _ = fit_predict(X, y, task.X_test, plan, penalty(n))
        predictions[-1, repetition], alphas[repetition] = fit_predict_loo(X, y, task.X_test)
    variance = np.median(predictions.var(axis=1, ddof=1), axis=1)
    error = rmse(predictions, task.f_test).mean(axis=1)
    return {
        "variance": dict(zip(ROWS, variance.tolist(), strict=True)),
        "rmse": dict(zip(ROWS, error.tolist(), strict=True)),
        "paper_alpha": penalty(n),
        "loo_alpha": float(np.median(alphas)),
    }
