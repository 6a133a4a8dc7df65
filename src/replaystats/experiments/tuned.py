"""Kernel ridge with its lambda chosen by leave-one-out, beside replay with the paper's lambda."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.typing import FloatArray
from ..replicates.kernels import make_kernel
from ..replicates.scaling import Scaling
from .cells import Cell, Settings, cell_stream
from .kernel import TASKS, draw_plans, fit_predict, penalty
from .measures import rmse

ALPHAS = np.logspace(-4, 2, 49)
ROWS = ("plain", "U", "V", "loo")


def fit_predict_loo(X: FloatArray, y: FloatArray, X_test: FloatArray) -> tuple[FloatArray, float]:
    """Fit all the data, KRLS units, with the lambda of smallest leave-one-out error.

    With K = Q diag(d) Q^T, the left-out residual of point i is c_i / [(K + lambda I)^-1]_ii, so one
    eigendecomposition serves every lambda.

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
    units, y_units = Scaling.of(X), Scaling.of(y[:, None])
    points, targets = units(X), y_units(y[:, None])[:, 0]
    kernel = make_kernel("rbf", n_features=X.shape[1])
    eigenvalues, Q = np.linalg.eigh(kernel(points, points))
    shrunk = 1.0 / (eigenvalues + ALPHAS[:, None])  # (n_alphas, n)
    dual = (shrunk * (Q.T @ targets)) @ Q.T  # (n_alphas, n)
    left_out = dual / (shrunk @ (Q**2).T)
    best = int(np.argmin((left_out**2).mean(axis=1)))
    predictions = kernel(units(X_test), points) @ dual[best]
    return predictions * y_units.scale.item() + y_units.centre.item(), float(ALPHAS[best])


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
